//! `brisk grant`: run as root, makes the service's user the owner of its tunables, before it starts and when tunables appear.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

use anyhow::Context;

use brisk_config::Layers;
use brisk_sys::Root;
use brisk_sys::system::grant;

/// Arguments of `brisk grant`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The service's units run this command as root. It makes the owner of the service's runtime folder the
owner of the cpufreq tunables that the configured mechanisms write on this device, and of nothing else.
It also restores values that `brisk boot hold` left behind. The kernel creates tunables again when a
governor is selected again: the daemon then writes the file `grant` in its runtime folder, and
brisk-grant.path runs this command again.")]
pub struct Arguments {
    /// Make root the owner of the tunables again
    #[arg(long)]
    revoke: bool,
}

/// Grants or revokes. It grants nothing if the service runs as root or has no runtime folder.
///
/// # Errors
/// An invalid configuration, or a tunable that cannot be granted.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let folder = root.runtime_folder();
    let user = folder.symlink_metadata().map_or(0, |metadata| metadata.uid());
    if arguments.revoke {
        if user != 0 {
            grant::revoke_all(root, user);
        }
        return Ok(ExitCode::SUCCESS);
    }
    brisk_daemon::boot::governor_hold::restore_stale_governors(root);
    if user != 0 {
        for file in brisk_daemon::tunables(root, &Layers::read(root)?.config) {
            grant::give(root, &file, user)
                .with_context(|| format!("{} cannot be granted to user {user}", file.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
