//! The `[placement]` section: whether and by which rule bulk threads are deprioritised or confined for the foreground.

use serde::{Deserialize, Serialize};

use crate::bounds::{percent, within};
use crate::{Enabled, Glob};
use brisk_sys::cgroup::membership::GroupChoice;
use brisk_sys::sched::threads::Sensing;

/// All settings of placement. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlacementConfig {
    /// `"auto"`: on where sessions (autogroups) or units of systemd compete as one, or there is one CPU, and no other manager
    /// sets priorities.
    pub enabled: Enabled,
    /// The rule that decides.
    pub rule: Rule,
    /// The gain bound of the foreground below which nothing is done.
    #[serde(deserialize_with = "percent")]
    pub minimum_gain_percent: f64,
    /// The length of a trial.
    #[serde(deserialize_with = "within::<_, 100, 10_000>")]
    pub trial_ms: u64,
    /// On one CPU, busy background threads are deprioritised for this long after each change of the foreground; 0 leaves that
    /// to trials.
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    pub opening_ms: u64,
    /// The sampling period while there is a foreground.
    #[serde(deserialize_with = "within::<_, 20, 1_000>")]
    pub sampling_ms: u64,
    /// The sampling period without a foreground, and while it has no competitors.
    #[serde(deserialize_with = "within::<_, 100, 60_000>")]
    pub idle_sampling_ms: u64,
    /// The kernel interface for samples of threads.
    pub sensing: Sensing,
    /// Which control groups may be used.
    pub groups: GroupChoice,
    /// True: a session that has only bulk threads is deprioritised as a whole, where the kernel lets sessions compete as one.
    pub sessions: bool,
    /// How much the nice value of bulk threads is raised: 10 levels are a tenth of the weight.
    #[serde(deserialize_with = "within::<_, 1, 19>")]
    pub nice_levels: u64,
    /// The most threads that are deprioritised, those with the highest demand first.
    #[serde(deserialize_with = "within::<_, 1, 4_096>")]
    pub maximum_threads: u64,
    /// Globs of names (`comm`) of threads that are left alone.
    pub excluded_commands: Vec<Glob>,
    /// True: the I/O priority of processes that keep the foreground waiting for storage is lowered as well.
    pub storage: bool,
    /// True: the packets of background control groups that fill the queue of a network interface get the priority of bulk traffic.
    pub network: bool,
}

impl PlacementConfig {
    /// True where busy background threads are deprioritised while an application opens, on a device with one CPU.
    pub(super) fn helps_openings(&self) -> bool {
        self.rule == Rule::Brisk && self.opening_ms > 0
    }
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
            network: false,
        }
    }
}

/// What decides where threads run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The gain bound chooses a step, a trial confirms it.
    #[default]
    Brisk,
    /// Bulk threads are deprioritised whenever there is a foreground.
    Weight,
    /// The thesis: classes by the greatest CPU share; a core of its own from 50 %, half a core from 30 %.
    Thesis,
}
