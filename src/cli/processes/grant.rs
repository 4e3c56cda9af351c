//! `brisk grant`: what the service of another user than root needs root for, before it starts and when tunables appear.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use anyhow::Context;

use brisk_config::Layers;
use brisk_sys::Root;
use brisk_sys::system::grant;

/// Arguments of `brisk grant`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The units of the service run it as root. The owner of the service's runtime folder becomes the owner of
the cpufreq tunables that the configured mechanisms write on this device, and of nothing else. Values
that a boot has left held are restored. The kernel creates tunables again when a governor is chosen
again: then the daemon writes to the file `grant` in its runtime folder, and brisk-grant.path runs this
command again.")]
pub struct Arguments {
    /// Make the tunables root's again
    #[arg(long)]
    revoke: bool,
}

/// Grants or revokes. Nothing happens where the service is root's, or has no runtime folder.
///
/// # Errors
/// A configuration that is not right, or a tunable that cannot be granted.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let folder = root.runtime_folder();
    let user = folder.symlink_metadata().map_or(0, |metadata| metadata.uid());
    if arguments.revoke {
        if user != 0 {
            grant::take_all_back(root, user);
        }
        return Ok(ExitCode::SUCCESS);
    }
    brisk_daemon::boot::hand_over::give_back_what_was_left(root);
    if user != 0 {
        for file in brisk_daemon::tunables(root, &Layers::read(root)?.config) {
            grant::give(root, &file, user)
                .with_context(|| format!("{} cannot be granted to user {user}", file.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
