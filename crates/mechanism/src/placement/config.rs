//! The `[placement]` section: whether and by which rule bulk work makes room for the foreground.

use serde::{Deserialize, Serialize};

use crate::bounds::{percent, within};
use crate::{Enabled, Glob};
use brisk_sys::cgroup::membership::GroupChoice;
use brisk_sys::sched::threads::Sensing;

/// Everything that can be set about placement. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementConfig {
    /// `"auto"`: on where each session competes as one and no other manager sets priorities.
    pub enabled: Enabled,
    /// What decides.
    pub rule: Rule,
    /// What the foreground could gain at most, below which nothing is done.
    #[serde(deserialize_with = "percent")]
    pub minimum_gain_percent: f64,
    /// How long a step is tried before it is judged.
    #[serde(deserialize_with = "within::<_, 100, 10_000>")]
    pub trial_ms: u64,
    /// Where there is one CPU, busy background threads weigh less for so long from when something came to the foreground; 0 leaves
    /// that to trials.
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    pub opening_ms: u64,
    /// How often threads are sampled while there is a foreground.
    #[serde(deserialize_with = "within::<_, 20, 1_000>")]
    pub sampling_ms: u64,
    /// How often while nothing is.
    #[serde(deserialize_with = "within::<_, 100, 60_000>")]
    pub idle_sampling_ms: u64,
    /// By what they are looked at.
    pub sensing: Sensing,
    /// Which control groups may be used.
    pub groups: GroupChoice,
    /// True: a session of bulk work alone weighs less as a whole, where the kernel has each session compete as one.
    pub sessions: bool,
    /// Nice levels that bulk threads go down: 10 is a tenth of the weight.
    #[serde(deserialize_with = "within::<_, 1, 19>")]
    pub nice_levels: u64,
    /// So many threads make room at most, those that ask for most first.
    #[serde(deserialize_with = "within::<_, 1, 4_096>")]
    pub maximum_threads: u64,
    /// Globs of names (`comm`) of threads that are left alone.
    pub excluded_commands: Vec<Glob>,
    /// True: processes that keep the foreground waiting for storage give way there as well.
    pub storage: bool,
}

impl Default for PlacementConfig {
    fn default() -> Self {
        Self {
            enabled: Enabled::Auto,
            rule: Rule::Brisk,
            minimum_gain_percent: 6.0,
            trial_ms: 300,
            opening_ms: 2_000,
            sampling_ms: 100,
            idle_sampling_ms: 1_000,
            sensing: Sensing::Schedstat,
            groups: GroupChoice::Auto,
            sessions: true,
            nice_levels: 10,
            maximum_threads: 256,
            excluded_commands: Vec::new(),
            storage: false,
        }
    }
}

/// What decides where threads run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The gain bound chooses, a trial confirms.
    #[default]
    Brisk,
    /// Bulk work weighs less whenever there is a foreground.
    Weight,
    /// The thesis: classes by greatest share, a core of its own from 50 %, half a core from 30 %.
    Thesis,
}
