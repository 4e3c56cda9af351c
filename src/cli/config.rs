//! `brisk config`: checks a configuration, or shows the one in force and the origin of each value.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;

use brisk_base::insertion_sort::insertion_sort;
use brisk_config::{Activation, ConfigError, Layers, Setting, activations};
use brisk_mechanism::Enabled;
use brisk_sys::Root;
use brisk_sys::system::other_managers;

/// Arguments of `brisk config`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Check FILE, or the configuration that the daemon would read
    #[command(after_help = "\
Exit code 0 when it is valid, 1 when it is not, 2 when a file cannot be read; the message names file, line
and column.")]
    Check {
        /// Check only this file
        #[arg(value_name = "FILE")]
        file: Option<PathBuf>,
    },
    /// Show the values in force
    #[command(after_help = "\
Later files override earlier ones: brisk.toml from the first of /etc/brisk, /usr/local/lib/brisk and
/usr/lib/brisk that has one, then brisk.toml.d/*.toml of all three, in the order of their names.
On Android the folders are those of the partitions (/vendor/etc/brisk and others), the module's etc
and /data/misc/brisk-config.")]
    Show {
        /// Print the file that each value comes from
        #[arg(long)]
        origin: bool,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        /// Show FILE over the defaults, instead of the layers
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// Checks the configuration or shows it.
///
/// # Errors
/// For `show`, an invalid configuration; for `check`, a file that cannot be read.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        Command::Check { file } => check(file.as_deref(), root),
        Command::Show { origin, json, config } => show(*origin, *json, &read(config.as_deref(), root)?, root),
    }
}

fn read(file: Option<&Path>, root: &Root) -> Result<Layers, ConfigError> {
    match file {
        Some(file) => Layers::read_only(file),
        None => Layers::read(root),
    }
}

fn check(file: Option<&Path>, root: &Root) -> anyhow::Result<ExitCode> {
    match read(file, root) {
        Ok(layers) => {
            for file in &layers.files {
                writeln!(anstream::stdout(), "{}: valid", file.display())?;
            }
            if layers.files.is_empty() {
                writeln!(anstream::stdout(), "no configuration file: the built-in defaults are in force")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ (ConfigError::Io { .. } | ConfigError::NotAFile { .. })) => Err(error.into()),
        Err(error) => {
            writeln!(anstream::stderr(), "brisk: {error}")?;
            Ok(ExitCode::from(1))
        }
    }
}

fn show(origin: bool, json: bool, layers: &Layers, root: &Root) -> anyhow::Result<ExitCode> {
    let mut stdout = anstream::stdout();
    let activations = activations(root, &layers.config, &other_managers::find(root));
    if json {
        let settings = layers.settings.iter().map(|(name, setting)| {
            let value = serde_json::to_value(&setting.value).unwrap_or_default();
            let mut entry = json!({ "value": value, "origin": setting.origin });
            if let Some(activation) = activation_of(&activations, name) {
                entry["on"] = activation.on.into();
                entry["reason"] = activation.reason.clone().into();
            }
            (name.clone(), entry)
        });
        writeln!(stdout, "{}", serde_json::Value::Object(settings.collect()))?;
        return Ok(ExitCode::SUCCESS);
    }
    write!(stdout, "{}", as_toml(layers, origin, &activations))?;
    Ok(ExitCode::SUCCESS)
}

/// Whether the mechanism is on here, if the setting `name` is its `enabled`.
fn activation_of<'a>(activations: &'a [Activation], name: &str) -> Option<&'a Activation> {
    let mechanism = name.strip_suffix(".enabled")?;
    activations.iter().find(|activation| activation.mechanism == mechanism)
}

/// All settings, as a configuration file.
fn as_toml(layers: &Layers, origin: bool, activations: &[Activation]) -> String {
    let mut text = String::new();
    let mut section = "";
    // A section's own values come before its subsections': sort by section, then by name.
    let mut settings: Vec<(&str, &str, &Setting)> = layers
        .settings
        .iter()
        .map(|(name, setting)| {
            let (section, key) = name.rsplit_once('.').unwrap_or(("", name));
            (section, key, setting)
        })
        .collect();
    insertion_sort(&mut settings, |one, next| (one.0, one.1) > (next.0, next.1));
    for (of_section, key, setting) in settings {
        if of_section != section {
            section = of_section;
            text += &format!("{}[{section}]\n", if text.is_empty() { "" } else { "\n" });
        }
        let line = format!("{key} = {}", setting.value);
        let file = setting.origin.as_ref().map_or("built-in default".into(), |file| file.display().to_string());
        let activation =
            activation_of(activations, &format!("{section}.{key}")).filter(|it| it.enabled == Enabled::Auto);
        let here = activation.map(|it| format!("here {}: {}", if it.on { "on" } else { "off" }, it.why()));
        let comment = [origin.then_some(file), here].into_iter().flatten().collect::<Vec<_>>().join("; ");
        text += &if comment.is_empty() { format!("{line}\n") } else { format!("{line:<44}  # {comment}\n") };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_config::Config;

    #[test]
    fn the_printed_settings_parse_to_the_same_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("brisk.toml");
        std::fs::write(&file, "[launch.end]\ndeadline_ms = 77\n[launch.filter]\nuids = [\"10000-19999\"]").unwrap();
        let layers = Layers::read_only(&file).unwrap();
        for origin in [false, true] {
            assert_eq!(Config::parse(&as_toml(&layers, origin, &[])).unwrap(), layers.config);
        }
        assert!(
            as_toml(&layers, true, &[])
                .contains(&format!("deadline_ms = 77                              # {}", file.display()))
        );
    }
}
