//! The `[memory]` section: settings of zram and reclaim, and which processes may be killed when memory is short.

use serde::{Deserialize, Deserializer, Serialize};

use super::victim::VictimMode;
use crate::bounds::{absolute_path_or_empty, within};
use crate::{Enabled, Glob};

/// Everything that can be set about memory. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// A background control group that grows while foreground groups wait for memory is limited to its size for so many
    /// seconds; 0 turns it off.
    #[serde(deserialize_with = "within::<_, 0, 3_600>")]
    pub restraint_s: u64,
    /// zram and the tunables of reclaim.
    pub zram: ZramConfig,
    pub killer: KillerConfig,
}

/// Whose plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ZramPlan {
    /// What brisk would set.
    #[default]
    Brisk,
    /// What the paper set: zram of 15 % of memory, lzo, nothing else.
    Paper,
}

/// What is set for zram and reclaim.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ZramConfig {
    /// Only true lets the daemon apply what `brisk memory plan` shows, for as long as it runs.
    pub enabled: Enabled,
    /// Whose plan.
    pub plan: ZramPlan,
    /// The size; 0 leaves it to the plan.
    #[serde(deserialize_with = "within::<_, 0, 67_108_864>")]
    pub size_kib: u64,
    /// The algorithm; empty leaves it to the plan.
    pub algorithm: String,
    /// The block device that pages can be written back to, whose contents are lost; empty for none.
    #[serde(deserialize_with = "absolute_path_or_empty")]
    pub backing_device: String,
}

/// Which process is killed when one must be, and when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KillerConfig {
    /// Only true lets the daemon kill processes before the kernel does.
    pub enabled: Enabled,
    /// How a victim is chosen.
    pub mode: VictimMode,
    /// True kills by headroom whatever the mode, which then only chooses the victim.
    pub by_headroom: bool,
    /// True ranks the processes of a class by size alone, whatever the rest of their `oom_score_adj`.
    pub by_class: bool,
    /// Names that are never killed, besides those of essential processes. They protect only processes of system users.
    pub protected: Vec<Glob>,
    /// Control groups whose members are never killed, regardless of their name and user.
    pub protected_groups: Vec<Glob>,
    /// No process with a lower `oom_score_adj` is killed.
    #[serde(deserialize_with = "adj")]
    pub lowest_adj: i16,
    /// A process is killed when the headroom is below this.
    #[serde(deserialize_with = "within::<_, 0, 67_108_864>")]
    pub reserve_kib: u64,
    /// A process is killed when this share of file pages has refaulted within a second; 0 turns it off.
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    pub refault_percent: u64,
    /// The kernel wakes the killer when tasks have waited this long for memory within the window.
    #[serde(deserialize_with = "within::<_, 1, 10_000>")]
    pub stall_ms: u64,
    /// That window.
    #[serde(deserialize_with = "within::<_, 500, 10_000>")]
    pub window_ms: u64,
    /// After that, memory is sampled at this period, and less often while headroom is large ...
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub sampling_ms: u64,
    /// ... for this long.
    #[serde(deserialize_with = "within::<_, 10, 60_000>")]
    pub burst_ms: u64,
    /// A process that has not exited after this time is given up, and another one may be killed.
    #[serde(deserialize_with = "within::<_, 10, 60_000>")]
    pub patience_ms: u64,
    /// True reads each victim's exact figures before the kill: they are expensive, and for experiments.
    pub audit: bool,
    /// True fetches what an application that comes to the foreground has on swap, only on an idle CPU.
    pub prefetch: bool,
    /// What is swapped out before memory is short.
    pub pageout: PageoutConfig,
    /// What of that is written back to flash.
    pub writeback: WritebackConfig,
}

/// Swapping out what the user does not see, only on an idle CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PageoutConfig {
    /// The memory to keep free; 0 turns it off.
    #[serde(deserialize_with = "within::<_, 0, 67_108_864>")]
    pub target_kib: u64,
    /// It is taken from applications whose `oom_score_adj` is not below this.
    #[serde(deserialize_with = "adj")]
    pub lowest_adj: i16,
    /// True swaps out an application's control group, where it has one, instead of each of its processes.
    pub by_group: bool,
}

impl PageoutConfig {
    /// With less swap than this left, nothing is swapped out ahead of need.
    pub fn step_kib(&self) -> u64 {
        self.target_kib / 4
    }

    /// The target for a device with so much memory where none is configured, as in `experiments/together.toml`.
    pub fn suggested_target_kib(total_kib: u64) -> u64 {
        total_kib / 10
    }
}

impl Default for PageoutConfig {
    fn default() -> Self {
        Self { target_kib: 0, lowest_adj: 900, by_group: true }
    }
}

/// Writing back pages that stayed on zram unused for two cached periods of their application, only on an idle CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WritebackConfig {
    /// The limit of writes per day, because flash wears out; 0 turns it off.
    #[serde(deserialize_with = "within::<_, 0, 67_108_864>")]
    pub daily_kib: u64,
    /// Only pages of applications whose `oom_score_adj` is not below this are written back.
    #[serde(deserialize_with = "adj")]
    pub lowest_adj: i16,
    /// How often they are sampled. A period in the foreground between two samples is missed.
    #[serde(deserialize_with = "within::<_, 1, 3600>")]
    pub period_s: u64,
}

impl Default for WritebackConfig {
    fn default() -> Self {
        Self { daily_kib: 0, lowest_adj: 900, period_s: 10 }
    }
}

impl Default for KillerConfig {
    fn default() -> Self {
        Self {
            enabled: Enabled::Auto,
            mode: VictimMode::Brisk,
            by_headroom: false,
            by_class: false,
            protected: Vec::new(),
            protected_groups: Vec::new(),
            lowest_adj: 1,
            reserve_kib: 4096,
            refault_percent: 0,
            stall_ms: 5,
            window_ms: 500,
            sampling_ms: 20,
            burst_ms: 1000,
            patience_ms: 1000,
            audit: false,
            prefetch: false,
            pageout: PageoutConfig::default(),
            writeback: WritebackConfig::default(),
        }
    }
}

/// An `oom_score_adj`.
fn adj<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i16, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let adj = i16::try_from(number).ok().filter(|adj| (-999..=1000).contains(adj));
    adj.ok_or_else(|| serde::de::Error::custom("expected a whole number from -999 to 1000"))
}
