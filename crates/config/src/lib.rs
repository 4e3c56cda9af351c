//! The configuration: TOML in layers. Every value is checked in its file, and its origin is known.
//!
//! Unknown keys and values out of bounds are refused with file, line and column. [`layers`] defines which files are read.

pub mod activation;
pub mod edit;
pub mod error;
pub mod layers;

use std::any::Any;

use serde::{Deserialize, Serialize};

pub use activation::{Activation, activations};
pub use error::ConfigError;
pub use layers::{Layers, Setting};

use brisk_base::toml_text;
use brisk_mechanism::bounds::within;
use brisk_mechanism::launch::LaunchConfig;
use brisk_mechanism::launch::config::Trigger;
use brisk_mechanism::lookup::LookupConfig;
use brisk_mechanism::memory::MemoryConfig;
use brisk_mechanism::placement::PlacementConfig;
use brisk_mechanism::{Enabled, Glob, Settings};

/// Everything that can be set. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The launch mechanism.
    pub launch: LaunchConfig,
    /// The placement mechanism.
    pub placement: PlacementConfig,
    /// zram, reclaim and the killer.
    pub memory: MemoryConfig,
    /// The cache of the binder driver.
    pub lookup: LookupConfig,
    /// What is stored for a fleet.
    pub telemetry: TelemetryConfig,
    /// The control socket.
    pub control: ControlConfig,
}

impl Settings for Config {
    fn section(&self, name: &str) -> Option<&dyn Any> {
        Some(match name {
            "launch" => &self.launch,
            "placement" => &self.placement,
            "memory" => &self.memory,
            "lookup" => &self.lookup,
            _ => return None,
        })
    }

    fn is_observed(&self) -> bool {
        self.telemetry.enabled
    }
}

impl Config {
    /// This configuration for a process that helps one announced launch and does nothing else.
    #[must_use]
    pub fn for_one_launch(mut self) -> Self {
        self.launch.triggers = vec![Trigger::Announced];
        self.placement.storage = false;
        self.memory = MemoryConfig::default();
        self.lookup = LookupConfig::default();
        self.telemetry = TelemetryConfig::default();
        self
    }

    /// The defaults with every mechanism switched on.
    pub fn everything_on() -> Self {
        let mut config = Self::default();
        config.launch.enabled = Enabled::On;
        config.placement.enabled = Enabled::On;
        config.memory.zram.enabled = Enabled::On;
        config.memory.killer.enabled = Enabled::On;
        config.lookup.enabled = Enabled::On;
        config
    }

    /// Reads one document. This is the parser that the fuzzer drives.
    ///
    /// # Errors
    /// What is wrong and its position in `text`.
    pub fn parse(text: &str) -> Result<Self, toml_text::Error> {
        toml_text::from_str(text)
    }

    /// The configuration as TOML with every key, through a table as in the layers: a device's binary then holds one writer.
    ///
    /// # Errors
    /// When TOML cannot express a value, which a parsed configuration does not hold.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        Ok(toml::Table::try_from(self)?.to_string())
    }
}

/// The `[telemetry]` section: what the daemon stores for a fleet (docs/telemetry.md).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetryConfig {
    /// True: rows are stored. Without it nothing is observed and nothing written.
    pub enabled: bool,
    /// The most that they take on disk.
    #[serde(deserialize_with = "within::<_, 32, 16_384>")]
    pub size_kib: u64,
    /// The applications whose names are stored beside their hashes.
    pub names: Vec<Glob>,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self { enabled: false, size_kib: 1024, names: Vec::new() }
    }
}

/// The `[control]` section: which users may use the daemon's socket, and how much.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// The group that may use the socket besides root; empty means the daemon's own group.
    pub group: String,
    /// The most clients that are served at once.
    #[serde(deserialize_with = "within::<_, 1, 256>")]
    pub maximum_clients: u64,
    /// A client that sends more is notified and disconnected.
    #[serde(deserialize_with = "within::<_, 1, 100_000>")]
    pub maximum_requests_per_second: u64,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self { group: String::new(), maximum_clients: 16, maximum_requests_per_second: 200 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_document_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn the_default_survives_its_own_text() {
        let text = Config::default().to_toml().unwrap();
        assert_eq!(Config::parse(&text).unwrap(), Config::default());
    }

    #[test]
    fn the_example_shows_every_setting_with_its_default() {
        let example = include_str!("../../../packaging/brisk.toml");
        assert_eq!(Config::parse(example).unwrap(), Config::default());
        let names = |table: &toml::Table| {
            let mut names = Vec::new();
            let mut open = vec![(String::new(), table.clone())];
            while let Some((prefix, table)) = open.pop() {
                for (key, value) in table {
                    let name = format!("{prefix}{key}");
                    match value {
                        toml::Value::Table(section) => open.push((format!("{name}."), section)),
                        _ => names.push(name),
                    }
                }
            }
            names.sort();
            names
        };
        assert_eq!(names(&example.parse().unwrap()), names(&toml::Table::try_from(Config::default()).unwrap()));
    }

    // Verifies ON-5.
    #[test]
    fn invalid_values_are_refused_with_what_is_valid() {
        let cases = [
            ("[launch]\nspeed = 1", "unknown field `speed`"),
            ("[lunch]", "unknown field `lunch`"),
            ("[launch]\nenabled = 1", "invalid type: integer `1`, expected true, false or \"auto\""),
            ("[launch]\ntriggers = [\"spawn\"]", "unknown variant `spawn`"),
            ("[launch]\nactuators = [\"turbo\"]", "unknown variant `turbo`"),
            ("[launch]\nminimum_gain_percent = 101", "must be from 0 to 100"),
            ("[launch]\nminimum_gain_percent = nan", "must be from 0 to 100"),
            ("[launch.end]\ndeadline_ms = 0", "expected a whole number from 10 to 600000"),
            ("[launch.end]\ndeadline_ms = -1", "expected a whole number from 10 to 600000"),
            ("[launch.filter]\nuids = [\"me\"]", "\"me\" is not a user id"),
            ("[launch.filter]\nparents = [\"\"]", "a pattern has 1 to 4096 bytes"),
            ("[launch.kick]\nat_us = []", "must be 1 to 32 rising moments"),
            ("[launch.kick]\nat_us = [5, 5]", "must be 1 to 32 rising moments"),
            ("[placement]\nsampling_ms = 5", "expected a whole number from 20 to 1000"),
            ("[placement]\nrule = \"mine\"", "unknown variant `mine`"),
            ("[memory.zram]\nplan = \"all\"", "unknown variant `all`"),
            ("[memory.killer]\nmode = \"first\"", "unknown variant `first`"),
            ("[memory.killer]\nlowest_adj = -1000", "expected a whole number from -999 to 1000"),
            ("[memory.killer]\nwindow_ms = 100", "expected a whole number from 500 to 10000"),
            ("[telemetry]\nsize_kib = 8", "expected a whole number from 32 to 16384"),
            ("[telemetry]\nnames = [\"\"]", "a pattern has 1 to 4096 bytes"),
            ("[telemetry]\nenabled = \"auto\"", "invalid type: string \"auto\", expected a boolean"),
            ("[control]\nmaximum_clients = 0", "expected a whole number from 1 to 256"),
        ];
        for (text, message) in cases {
            let error = Config::parse(text).expect_err(text);
            assert!(error.message().contains(message), "{text}: {error}");
            assert_ne!(error.position(), (1, 1), "{text}: {error}");
        }
    }
}
