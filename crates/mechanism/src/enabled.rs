//! Whether a mechanism is on: as the user says, or automatically where it is known to help and can be undone.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The value of `enabled`: `true`, `false` or `"auto"`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Enabled {
    /// On where a gain is predicted, what is done can be undone, and no other manager does the same job.
    #[default]
    Auto,
    /// The user enabled it.
    On,
    /// The user disabled it.
    Off,
}

impl Enabled {
    /// True where the user has switched it on. Mechanisms that are never enabled automatically check only this.
    pub fn is_on(self) -> bool {
        self == Self::On
    }
}

impl fmt::Display for Enabled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "\"auto\"",
            Self::On => "true",
            Self::Off => "false",
        })
    }
}

impl Serialize for Enabled {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::On => serializer.serialize_bool(true),
            Self::Off => serializer.serialize_bool(false),
        }
    }
}

impl<'de> Deserialize<'de> for Enabled {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EnabledVisitor)
    }
}

struct EnabledVisitor;

impl Visitor<'_> for EnabledVisitor {
    type Value = Enabled;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false or \"auto\"")
    }

    fn visit_bool<E: serde::de::Error>(self, is_on: bool) -> Result<Enabled, E> {
        Ok(if is_on { Enabled::On } else { Enabled::Off })
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Enabled, E> {
        if text == "auto" { Ok(Enabled::Auto) } else { Err(E::invalid_value(Unexpected::Str(text), &self)) }
    }
}

/// Why a mechanism with `"auto"` stays off on every device.
pub fn auto_off_reason(mechanism: &str) -> Option<&'static str> {
    match mechanism {
        "memory.zram" => Some(
            "zram can be removed only while all that is swapped out fits into memory, so this could not always be undone",
        ),
        "memory.killer" => Some("a process that was killed cannot be restored"),
        _ => None,
    }
}

/// Whether `mechanism` is on, given the other managers that do the same job (`managers`, see `Job::managers`), and why.
pub fn decide(mechanism: &str, enabled: Enabled, managers: Option<&str>) -> (bool, String) {
    match (enabled, managers, auto_off_reason(mechanism)) {
        (Enabled::On | Enabled::Off, _, _) => (enabled.is_on(), format!("{mechanism}.enabled is {enabled}")),
        (Enabled::Auto, Some(managers), _) => (false, format!("auto: this is left to {managers}")),
        (Enabled::Auto, None, Some(auto_off_reason)) => (false, format!("auto: {auto_off_reason}")),
        (Enabled::Auto, None, None) => (true, "auto".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-1.
    #[test]
    fn the_users_setting_wins_then_other_managers_and_doubts() {
        for (mechanism, enabled, managers, on, reason) in [
            ("launch", Enabled::On, Some("tuned (x)"), true, "launch.enabled is true"),
            ("launch", Enabled::Off, None, false, "launch.enabled is false"),
            ("launch", Enabled::Auto, None, true, "auto"),
            ("launch", Enabled::Auto, Some("tuned (x)"), false, "auto: this is left to tuned (x)"),
            ("placement", Enabled::Auto, None, true, "auto"),
            ("placement", Enabled::Auto, Some("ananicy (x)"), false, "auto: this is left to ananicy (x)"),
            ("placement", Enabled::On, None, true, "placement.enabled is true"),
            ("memory.zram", Enabled::Auto, None, false, "could not always be undone"),
            ("memory.killer", Enabled::Auto, Some("lmkd (x)"), false, "left to lmkd (x)"),
            ("memory.killer", Enabled::Auto, None, false, "cannot be restored"),
            ("lookup", Enabled::Auto, None, true, "auto"),
            ("lookup", Enabled::On, None, true, "lookup.enabled is true"),
        ] {
            let decision = decide(mechanism, enabled, managers);
            assert!(decision.0 == on && decision.1.contains(reason), "{mechanism} {enabled}: {decision:?}");
        }
    }

    // Verifies ON-1.
    #[test]
    fn booleans_and_auto_are_read_and_written() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Section {
            enabled: Enabled,
        }
        for (text, enabled) in [
            ("enabled = true\n", Enabled::On),
            ("enabled = false\n", Enabled::Off),
            ("enabled = \"auto\"\n", Enabled::Auto),
        ] {
            let section = Section { enabled };
            assert_eq!(
                (toml::from_str::<Section>(text).unwrap(), toml::to_string(&section).unwrap()),
                (section, text.into())
            );
        }
        for text in ["enabled = 1", "enabled = \"yes\"", "enabled = []"] {
            let error = toml::from_str::<Section>(text).unwrap_err().to_string();
            assert!(error.contains("expected true, false or \"auto\""), "{error}");
        }
    }
}
