//! Changes one setting in the text of a configuration; every other line stays as the user wrote it.

use brisk_base::toml_text;
use toml::{Table, Value};

use super::Config;
use brisk_mechanism::Enabled;

/// Why a text was not changed.
#[derive(Debug, thiserror::Error)]
pub enum EditError {
    /// It is not a valid configuration.
    #[error("this is not a valid configuration: {0}")]
    Refused(String),
    /// It is written in a way that an editor of lines does not support (dotted keys, inline tables).
    #[error("`{mechanism}.enabled` is not written as a line of a section [{mechanism}]: change it by hand")]
    UnsupportedSyntax {
        /// The section.
        mechanism: String,
    },
}

/// `text` with `enabled` of the section `mechanism` as given.
///
/// # Errors
/// [`EditError`]; the result holds the setting, and equals `text` in everything else.
pub fn set_enabled(text: &str, mechanism: &str, enabled: Enabled) -> Result<String, EditError> {
    let refused = |error: toml_text::Error| EditError::Refused(error.to_string());
    Config::parse(text).map_err(refused)?;
    let mut wanted: Table = toml_text::from_str(text).map_err(refused)?;
    let changed = with_line(text, mechanism, &format!("enabled = {enabled}"));
    insert(&mut wanted, mechanism, enabled);
    let unsupported_syntax = || EditError::UnsupportedSyntax { mechanism: mechanism.to_owned() };
    let found: Table = toml_text::from_str(&changed).map_err(|_| unsupported_syntax())?;
    if found != wanted {
        return Err(unsupported_syntax());
    }
    Config::parse(&changed).map_err(refused)?;
    Ok(changed)
}

/// `text` with `line` in the section `mechanism`, in the place of its `enabled` or as its first line.
fn with_line(text: &str, mechanism: &str, line: &str) -> String {
    let header = format!("[{mechanism}]");
    let mut lines: Vec<&str> = text.lines().collect();
    let is_header = |text: &str| text.split('#').next().unwrap_or_default().trim() == header;
    match lines.iter().position(|text| is_header(text)) {
        Some(start) => {
            let rest = lines[start + 1..].iter();
            let end = rest.clone().position(|text| text.trim_start().starts_with('[')).unwrap_or(rest.len());
            let mut section = rest.take(end);
            let is_enabled = |text: &&str| text.split('=').next().is_some_and(|key| key.trim() == "enabled");
            match section.position(is_enabled) {
                Some(at) => lines[start + 1 + at] = line,
                None => lines.insert(start + 1, line),
            }
        }
        None => {
            if lines.last().is_some_and(|last| !last.is_empty()) {
                lines.push("");
            }
            lines.extend([header.as_str(), line]);
            return lines.join("\n") + "\n";
        }
    }
    lines.join("\n") + "\n"
}

/// The same change in the parsed document, to compare with.
fn insert(document: &mut Table, mechanism: &str, enabled: Enabled) {
    let mut table = document;
    for name in mechanism.split('.') {
        let inner = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else { return };
        table = inner;
    }
    let value = match enabled {
        Enabled::Auto => Value::from("auto"),
        Enabled::On => Value::from(true),
        Enabled::Off => Value::from(false),
    };
    table.insert("enabled".to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-3.
    #[test]
    fn one_line_changes_and_the_others_stay() {
        for (text, mechanism, enabled, expected) in [
            ("", "launch", Enabled::On, "[launch]\nenabled = true\n"),
            ("# mine\n", "memory.zram", Enabled::Off, "# mine\n\n[memory.zram]\nenabled = false\n"),
            (
                "[launch] # of mine\n# why\n enabled = true # yes\nforce = true\n",
                "launch",
                Enabled::Auto,
                "[launch] # of mine\n# why\nenabled = \"auto\"\nforce = true\n",
            ),
            (
                "[launch]\nforce = true\n[launch.end]\nminimum_ms = 7\n[placement]\nenabled = true\n",
                "launch",
                Enabled::Off,
                "[launch]\nenabled = false\nforce = true\n[launch.end]\nminimum_ms = 7\n[placement]\nenabled = true\n",
            ),
            (
                "[launch.end]\nminimum_ms = 7",
                "launch",
                Enabled::Off,
                "[launch.end]\nminimum_ms = 7\n\n[launch]\nenabled = false\n",
            ),
        ] {
            assert_eq!(set_enabled(text, mechanism, enabled).unwrap(), expected);
        }
    }

    // Verifies ON-3.
    #[test]
    fn a_text_that_cannot_be_changed_safely_is_refused() {
        for (text, message) in [
            ("[launch", "this is not a valid configuration"),
            ("[launch]\nspeed = 1\n", "unknown field `speed`"),
            ("launch.enabled = true\n", "change it by hand"),
            ("launch = { enabled = true }\n", "change it by hand"),
        ] {
            let error = set_enabled(text, "launch", Enabled::Off).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    proptest::proptest! {
        // Verifies ON-3.
        #[test]
        fn a_changed_text_is_a_configuration_with_the_setting(
            lines in proptest::collection::vec(proptest::sample::select(vec![
                "[launch]", "[placement]", "[memory.zram]", "[memory]", "enabled = true", "enabled = \"auto\"",
                "launch.enabled = false", "force = true", "# [launch]", "", "restraint_s = 3", "triggers = [",
                "\"exec\"", "]", "algorithm = '''", "'''", "[launch.end]",
            ]), 0..12),
        ) {
            let text = lines.join("\n");
            if let Ok(changed) = set_enabled(&text, "launch", Enabled::Off) {
                let mut config = Config::parse(&text).unwrap();
                config.launch.enabled = Enabled::Off;
                assert_eq!(Config::parse(&changed).unwrap(), config, "{text}");
            }
        }
    }
}
