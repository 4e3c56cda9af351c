//! `brisk enable` and `brisk disable`: one mechanism switched on or off by a person.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};

use brisk_config::standing::SWITCHED;
use brisk_config::{Layers, edit};
use brisk_daemon::control::connection::{Connection, ConnectionError};
use brisk_daemon::control::protocol::Request;
use brisk_mechanism::Enabled;
use brisk_sys::{Root, durable_file};

/// What a person has switched: later in the order of names than what `brisk setup` writes.
const FILE: &str = "switched.toml";
const RIGHTS: u32 = 0o644;

/// Arguments of `brisk enable`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes brisk.toml.d/switched.toml in /etc/brisk, on Android in /data/misc/brisk-config; other lines of
that file stay. A running daemon reads it at once. `brisk why` shows the result and the reason.

Exit code 0 when it is written, 2 when it is not.

Examples:
  sudo brisk enable placement
  sudo brisk enable launch --auto    remove the setting again")]
pub struct EnableArguments {
    /// The mechanism
    #[arg(value_name = "MECHANISM", value_parser = clap::builder::PossibleValuesParser::new(SWITCHED))]
    mechanism: String,
    /// Let brisk decide: on where it helps and no other manager does the same
    #[arg(long)]
    auto: bool,
}

/// Arguments of `brisk disable`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes the same file as `brisk enable`. The daemon then restores what the mechanism has changed.

Exit code 0 when it is written, 2 when it is not.

Example:
  sudo brisk disable launch")]
pub struct DisableArguments {
    /// The mechanism
    #[arg(value_name = "MECHANISM", value_parser = clap::builder::PossibleValuesParser::new(SWITCHED))]
    mechanism: String,
}

/// Switches on, or leaves it to brisk.
///
/// # Errors
/// As [`write_checked`].
pub fn enable(arguments: &EnableArguments, root: &Root) -> anyhow::Result<ExitCode> {
    let enabled = if arguments.auto { Enabled::Auto } else { Enabled::On };
    switch(root, &arguments.mechanism, enabled)
}

/// Switches off.
///
/// # Errors
/// As [`write_checked`].
pub fn disable(arguments: &DisableArguments, root: &Root) -> anyhow::Result<ExitCode> {
    switch(root, &arguments.mechanism, Enabled::Off)
}

fn switch(root: &Root, mechanism: &str, enabled: Enabled) -> anyhow::Result<ExitCode> {
    let file = drop_in(root, FILE);
    let before = text_of(&file)?;
    let text = edit::set_enabled(&before, mechanism, enabled)
        .map_err(|error| anyhow!("{}: {error}; nothing was changed", root.as_on_device(&file.display())))?;
    let layers = Layers::read_with(root, &file, &text)?;
    let setting = layers.settings.get(&format!("{mechanism}.enabled")).and_then(|setting| setting.origin.as_deref());
    if let Some(winner) = setting.filter(|&winner| winner != file) {
        let winner = root.as_on_device(&winner.display());
        return Err(anyhow!(
            "{winner} sets {mechanism}.enabled as well, and counts more: change it there; nothing was changed"
        ));
    }
    write_checked(root, &file, &text)?;
    let mut stdout = anstream::stdout();
    writeln!(stdout, "{}: {mechanism}.enabled = {enabled}", root.as_on_device(&file.display()))?;
    writeln!(stdout, "{}", reload(root)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The drop-in `name` of the folder that is a person's.
pub(super) fn drop_in(root: &Root, name: &str) -> PathBuf {
    Layers::own_folder(root).join("brisk.toml.d").join(name)
}

/// The text of `file`; none is empty.
fn text_of(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Replaces `file` as a whole by `text`, if the configuration with it is right.
///
/// # Errors
/// A configuration that is not right, also for what other files hold, or a file that cannot be written: it stays as it was.
pub(super) fn write_checked(root: &Root, file: &Path, text: &str) -> anyhow::Result<()> {
    Layers::read_with(root, file, text).context("nothing was changed")?;
    let is_plain = file.symlink_metadata().map_or(true, |metadata| metadata.is_file());
    ensure!(is_plain, "{} is not a regular file: nothing was changed", file.display());
    durable_file::write(file, text, RIGHTS)
        .with_context(|| format!("cannot write {} (run as root); nothing was changed", file.display()))
}

/// Has a daemon read the configuration: what became of that, in words.
///
/// # Errors
/// When a daemon is there and does not take it.
pub(super) fn reload(root: &Root) -> anyhow::Result<&'static str> {
    match Connection::open(root).and_then(|mut connection| connection.request(Request::Reload)) {
        Ok(_) => Ok("the daemon follows it"),
        Err(ConnectionError::NoDaemon { .. }) => Ok("no daemon is running: it counts when one starts (`brisk daemon`)"),
        Err(error) => Err(error).context("the file is written, but the daemon refused it"),
    }
}
