//! `brisk setup`: shows which mechanisms brisk would switch on here, and writes the configuration if the user agrees.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use super::switch::{drop_in, reload, write_checked};
use brisk_config::{Layers, Standing, standings};
use brisk_mechanism::Enabled;
use brisk_sys::Root;
use brisk_sys::system::other_managers::{self, Found};

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
    mechanisms: &'a [Standing],
    other_managers: &'a [Found],
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
    let mechanisms = standings(root, &layers.config, &found);
    let named = root.as_on_device(&file.display());
    if !arguments.json {
        write!(anstream::stdout(), "{}", table(&mechanisms, &found))?;
    }
    let written = arguments.yes || (!arguments.json && agrees(&named)?);
    let mut said = "nothing was written";
    if written {
        write_checked(root, &file, &settings(&mechanisms))?;
        said = reload(root)?;
    }
    if arguments.json {
        let proposal = Proposal { mechanisms: &mechanisms, other_managers: &found, file: named, written };
        writeln!(anstream::stdout(), "{}", serde_json::to_string_pretty(&proposal)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let what = if written { format!("{named} is written; {said}") } else { said.to_owned() };
    writeln!(anstream::stdout(), "{what}")?;
    Ok(ExitCode::from(u8::from(!written)))
}

/// Asks the user on a terminal; without a terminal the answer is no.
fn agrees(file: &str) -> io::Result<bool> {
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
fn table(mechanisms: &[Standing], found: &[Found]) -> String {
    let mut text = String::new();
    for standing in mechanisms {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<14} {}", standing.mechanism, if standing.on { "on" } else { "off" });
        let _ = writeln!(text, "    why      {}", standing.reason);
        let _ = writeln!(text, "    gain     {}", standing.gain);
        let _ = writeln!(text, "    changes  {}", standing.changes);
    }
    for Found { name, evidence } in found {
        let _ = writeln!(text, "found {name} ({evidence})");
    }
    text
}

/// The file's text. It leaves out what the user has set elsewhere. A mechanism that is on is written as "auto", not as true,
/// so that it still yields to another manager that is installed later.
fn settings(mechanisms: &[Standing]) -> String {
    let mut text =
        "# Written by `brisk setup`, which overwrites it; `brisk enable` and `brisk disable` take precedence.\n"
            .to_owned();
    for standing in mechanisms.iter().filter(|standing| standing.enabled == Enabled::Auto) {
        let (word, enabled) = if standing.on { ("on", Enabled::Auto) } else { ("off", Enabled::Off) };
        let reason = standing.reason.replace(char::is_control, " ");
        let _ = writeln!(text, "\n# {word}: {reason}\n[{}]\nenabled = {enabled}", standing.mechanism);
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
        let standing = |mechanism, enabled, on| Standing {
            mechanism,
            enabled,
            on,
            reason: "why\n[not.a.section]".to_owned(),
            gain: String::new(),
            changes: String::new(),
        };
        let text = settings(&[
            standing("launch", Enabled::Auto, true),
            standing("placement", Enabled::On, true),
            standing("memory.zram", Enabled::Off, false),
            standing("memory.killer", Enabled::Auto, false),
        ]);
        let config = Config::parse(&text).unwrap();
        assert_eq!((config.launch.enabled, config.memory.killer.enabled), (Enabled::Auto, Enabled::Off));
        assert!(!text.contains("[placement]") && !text.contains("[memory.zram]"), "{text}");
    }
}
