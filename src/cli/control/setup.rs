//! `brisk setup`: shows which mechanisms brisk would switch on here, and writes the configuration if the user confirms.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use super::switch::{drop_in, reload, write_checked};
use crate::cli::output;
use brisk_config::{Activation, Layers, activations};
use brisk_mechanism::Enabled;
use brisk_sys::Root;
use brisk_sys::system::other_managers::{self, FoundManager};

const FILE: &str = "setup.toml";

/// Arguments of `brisk setup`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Probes the device and decides as enabled = \"auto\" does. Settings made elsewhere (`brisk enable`,
brisk.toml) are shown and kept. The result is written to brisk.toml.d/setup.toml in /etc/brisk, on
Android in /data/misc/brisk-config; to undo it, delete that file. A running daemon reads it at once;
setup does not start a daemon.

Exit code 0 when the file was written, or with --json; 1 when nothing was written, 2 after an error.

Examples:
  sudo brisk setup          show, ask, write
  sudo brisk setup --yes    show and write
  brisk setup --json        print one JSON object; with --yes also write")]
pub struct Arguments {
    /// Write without asking
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Proposal<'a> {
    mechanisms: &'a [Activation],
    other_managers: &'a [FoundManager],
    file: String,
    written: bool,
}

/// Shows the proposal, asks and writes.
///
/// # Errors
/// An invalid configuration, or a file that cannot be written; the file is then unchanged.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let file = drop_in(root, FILE);
    // The file of an earlier set-up is ignored, so that its decisions are made again.
    let layers = Layers::read_with(root, &file, "")?;
    let found = other_managers::find(root);
    let mechanisms = activations(root, &layers.config, &found);
    let named = root.with_device_paths(&file.display());
    if !arguments.json {
        output::print_text(&table(&mechanisms, &found))?;
    }
    let written = arguments.yes || (!arguments.json && confirms(&named)?);
    let mut reload_result = "nothing was written";
    if written {
        write_checked(root, &file, &settings(&mechanisms))?;
        reload_result = reload(root)?;
    }
    if arguments.json {
        let proposal = Proposal { mechanisms: &mechanisms, other_managers: &found, file: named, written };
        writeln!(anstream::stdout(), "{}", serde_json::to_string_pretty(&proposal)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = if written { format!("{named} is written; {reload_result}") } else { reload_result.to_owned() };
    writeln!(anstream::stdout(), "{what}")?;
    Ok(ExitCode::from(u8::from(!written)))
}

/// Asks the user on a terminal; without a terminal the answer is no.
fn confirms(file: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        writeln!(anstream::stderr(), "brisk: cannot ask, because standard input is no terminal; --yes writes {file}")?;
        return Ok(false);
    }
    write!(anstream::stdout(), "Write {file}? [y/N] ")?;
    anstream::stdout().flush()?;
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

/// A paragraph for each mechanism: on or off, the reason, the expected gain and what it changes.
fn table(mechanisms: &[Activation], found: &[FoundManager]) -> String {
    let mut text = String::new();
    for activation in mechanisms {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<14} {}", activation.mechanism, if activation.on { "on" } else { "off" });
        let _ = writeln!(text, "    why      {}", activation.why());
        let _ = writeln!(text, "    gain     {}", activation.gain);
        let _ = writeln!(text, "    changes  {}", activation.changes);
    }
    for FoundManager { name, evidence } in found {
        let _ = writeln!(text, "found {name} ({evidence})");
    }
    text
}

/// The file's text. It leaves out what the user has set elsewhere. A mechanism that is on is written as "auto", not as true,
/// so that it still yields to another manager that is installed later.
fn settings(mechanisms: &[Activation]) -> String {
    let mut text =
        "# Written by `brisk setup`, which overwrites it; `brisk enable` and `brisk disable` take precedence.\n"
            .to_owned();
    for activation in mechanisms.iter().filter(|activation| activation.enabled == Enabled::Auto) {
        let (word, enabled) = if activation.on { ("on", Enabled::Auto) } else { ("off", Enabled::Off) };
        let reason = activation.why().replace(char::is_control, " ");
        let _ = writeln!(text, "\n# {word}: {reason}\n[{}]\nenabled = {enabled}", activation.mechanism);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_config::Config;

    // Verifies ON-3.
    #[test]
    fn setup_writes_a_configuration_and_keeps_the_users_settings() {
        let activation = |mechanism, enabled, on| Activation {
            mechanism,
            enabled,
            on,
            reason: "auto: why\n[not.a.section]".to_owned(),
            gain: String::new(),
            changes: String::new(),
        };
        let text = settings(&[
            activation("launch", Enabled::Auto, true),
            activation("placement", Enabled::On, true),
            activation("memory.zram", Enabled::Off, false),
            activation("memory.killer", Enabled::Auto, false),
        ]);
        assert!(text.contains("\n# off: why [not.a.section]\n"), "{text}");
        let config = Config::parse(&text).unwrap();
        assert_eq!((config.launch.enabled, config.memory.killer.enabled), (Enabled::Auto, Enabled::Off));
        assert!(!text.contains("[placement]") && !text.contains("[memory.zram]"), "{text}");
    }
}
