//! `brisk enable` and `brisk disable`: the user switches one mechanism on or off.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};

use brisk_config::activation::SWITCHABLE;
use brisk_config::{Layers, activations, edit};
use brisk_daemon::control::connection::{Connection, ConnectionError};
use brisk_daemon::control::protocol::Request;
use brisk_mechanism::Enabled;
use brisk_sys::system::other_managers;
use brisk_sys::{Root, durable_file};

/// Sorts after the file of `brisk setup`, so the user's switches take precedence.
const FILE: &str = "switched.toml";
const FILE_MODE: u32 = 0o644;

/// Arguments of `brisk enable`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes brisk.toml.d/switched.toml in /etc/brisk, on Android in /data/misc/brisk-config; other lines of
that file stay. A running daemon reads it at once. If the mechanism stays off on this device, the reason
is printed; `brisk why` shows the result.

Exit code 0 when the file was written, 2 when it was not.

Examples:
  sudo brisk enable placement
  sudo brisk enable launch --auto    let brisk decide again")]
pub struct EnableArguments {
    /// The mechanism
    #[arg(value_name = "MECHANISM", value_parser = clap::builder::PossibleValuesParser::new(SWITCHABLE))]
    mechanism: String,
    /// Let brisk decide: on where it helps and no other manager does the job
    #[arg(long)]
    auto: bool,
}

/// Arguments of `brisk disable`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes the same file as `brisk enable`. The daemon then reverts the mechanism's changes.

Exit code 0 when the file was written, 2 when it was not.

Example:
  sudo brisk disable launch")]
pub struct DisableArguments {
    /// The mechanism
    #[arg(value_name = "MECHANISM", value_parser = clap::builder::PossibleValuesParser::new(SWITCHABLE))]
    mechanism: String,
}

/// Sets the mechanism to on, or to `auto`.
///
/// # Errors
/// As [`write_checked`].
pub fn enable(arguments: &EnableArguments, root: &Root) -> anyhow::Result<ExitCode> {
    let enabled = if arguments.auto { Enabled::Auto } else { Enabled::On };
    switch(root, &arguments.mechanism, enabled)
}

/// Sets the mechanism to off.
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
        .map_err(|error| anyhow!("{}: {error}; nothing was changed", root.with_device_paths(&file.display())))?;
    let layers = Layers::read_with(root, &file, &text)?;
    let setting = layers.settings.get(&format!("{mechanism}.enabled")).and_then(|setting| setting.origin.as_deref());
    if let Some(overriding_file) = setting.filter(|&overriding_file| overriding_file != file) {
        let overriding_file = root.with_device_paths(&overriding_file.display());
        return Err(anyhow!(
            "{overriding_file} also sets {mechanism}.enabled and takes precedence: change it there; nothing was changed"
        ));
    }
    write_checked(root, &file, &text)?;
    let mut stdout = anstream::stdout();
    writeln!(stdout, "{}: {mechanism}.enabled = {enabled}", root.with_device_paths(&file.display()))?;
    writeln!(stdout, "{}", reload(root)?)?;
    let activations = activations(root, &layers.config, &other_managers::find(root));
    let stays_off = activations.iter().find(|it| it.mechanism == mechanism && !it.on && enabled != Enabled::Off);
    if let Some(activation) = stays_off {
        writeln!(stdout, "{mechanism} stays off: {}", activation.why())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The drop-in `name` in the administrator's folder.
pub(super) fn drop_in(root: &Root, name: &str) -> PathBuf {
    Layers::user_folder(root).join("brisk.toml.d").join(name)
}

/// The text of `file`; empty when the file does not exist.
fn text_of(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Replaces the contents of `file` by `text`, if the resulting configuration is valid.
///
/// # Errors
/// An invalid configuration, of this or of another file, or a file that cannot be written; `file` is then unchanged.
pub(super) fn write_checked(root: &Root, file: &Path, text: &str) -> anyhow::Result<()> {
    Layers::read_with(root, file, text).context("nothing was changed")?;
    let is_plain = file.symlink_metadata().map_or(true, |metadata| metadata.is_file());
    ensure!(is_plain, "{} is not a regular file: nothing was changed", file.display());
    durable_file::write(file, text, FILE_MODE)
        .with_context(|| format!("cannot write {} (run as root); nothing was changed", file.display()))
}

/// Makes a running daemon read the configuration; returns a sentence about the result.
///
/// # Errors
/// When the daemon refuses the configuration.
pub(super) fn reload(root: &Root) -> anyhow::Result<&'static str> {
    match Connection::open(root).and_then(|mut connection| connection.request(Request::Reload)) {
        Ok(_) => Ok("the daemon has read it"),
        Err(ConnectionError::NoDaemon { .. }) => Ok("no daemon is running: `brisk daemon` reads it at its start"),
        Err(error) => Err(error).context("the file is written, but the daemon refused it"),
    }
}
