//! The `[lookup]` section: whether and how the binder driver's cache answers lookups.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Enabled;
use crate::bounds::{file_name, within};
use brisk_sys::binder::WireFormat;

/// Everything that can be set about lookups. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LookupConfig {
    /// False leaves the driver alone; else the daemon configures it while it runs, wherever the driver has the cache.
    pub enabled: Enabled,
    /// What the driver's cache is to do then.
    pub mode: CacheMode,
    /// The binder device, by its folder in `/sys/kernel/binder_cache`, or by its name in binderfs, whose folder is `NAME.MINOR`.
    #[serde(deserialize_with = "file_name")]
    pub context: String,
    /// The most answers that are kept.
    #[serde(deserialize_with = "within::<_, 1, 65_536>")]
    pub entries: u64,
    /// Which answers are evicted from a full cache.
    pub policy: EvictionPolicy,
    /// The wire format of the context manager, for the transparent mode (`brisk lookup profile`).
    #[serde(deserialize_with = "wire_format")]
    pub format: String,
}

/// The name of a wire format that brisk knows.
fn wire_format<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if WireFormat::named(&name).is_some() {
        return Ok(name);
    }
    let known: Vec<&str> = WireFormat::all().iter().map(|format| format.name.as_str()).collect();
    Err(D::Error::custom(format!("the wire format {name:?} is not known, expected one of {}", known.join(", "))))
}

impl Default for LookupConfig {
    fn default() -> Self {
        Self {
            enabled: Enabled::Auto,
            mode: CacheMode::Cooperative,
            context: "binder".to_owned(),
            entries: 2048,
            policy: EvictionPolicy::Lru,
            format: "android-16".to_owned(),
        }
    }
}

/// What the driver's cache is to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// The driver is left alone, as without `enabled`.
    Off,
    /// Keep the answers that the context manager marks.
    #[default]
    Cooperative,
    /// Keep the answers of a context manager that does not support the cache.
    Transparent,
}

impl CacheMode {
    /// The driver's name for it; `None` when it is left alone.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Off => None,
            Self::Cooperative => Some("cooperative"),
            Self::Transparent => Some("transparent"),
        }
    }
}

/// Which answers are evicted from a full cache. The driver's `paper` is for experiments: it sets the size as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionPolicy {
    /// The one given least recently.
    #[default]
    Lru,
    /// The one given least often.
    Lfu,
}

impl EvictionPolicy {
    /// The driver's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Lfu => "lfu",
        }
    }
}
