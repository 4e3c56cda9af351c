//! Experiment files: TOML, unknown keys refused, every mistake named with its line and column.

#[cfg(feature = "lab")]
mod combinations;
#[cfg(feature = "lab")]
mod disk;
#[cfg(feature = "lab")]
mod groups_by_hand;
#[cfg(feature = "lab")]
mod network;
mod openings;
mod validate;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use super::claim::Claim;
use super::metric::Subject;
use super::point::Point;
use brisk_base::toml_text;
use brisk_report::proof::Timekeeping;
#[cfg(feature = "lab")]
use brisk_sys::io::io_priority::IoPriority;
#[cfg(feature = "lab")]
pub use combinations::{BackgroundProgram, Combination, Combinations, Foreground, is_named};
#[cfg(feature = "lab")]
pub use disk::Disk;
#[cfg(feature = "lab")]
pub use groups_by_hand::{DEFAULT_SHARES, GroupByHand, GroupVersion, GroupsByHand};
#[cfg(feature = "lab")]
pub use network::{Network, NetworkQueue};
#[cfg(feature = "lab")]
pub use openings::DeviceEnvironment;
pub use openings::Openings;
pub use workload::{
    Background, Boots, Bursts, LaunchLookups, LaunchMemory, Launches, Lookups, Preloading, Program, Reading, Readings,
    Reboots, Workload,
};

/// One experiment, as its file describes it.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its name: that of its file.
    pub name: String,
    /// A heading.
    pub title: String,
    /// What it asks and how, in a few sentences.
    pub description: String,
    /// The mechanism it is about.
    pub mechanism: String,
    /// How time is kept.
    pub mode: Timekeeping,
    /// The lab's scenario; absent for the user's own device.
    pub scenario: Option<String>,
    /// The launched program and its surroundings: for experiments about launches.
    #[serde(rename = "workload")]
    pub launches: Option<Launches>,
    /// The lookups: for experiments about lookups.
    pub lookups: Option<Lookups>,
    /// How applications are opened: for experiments about memory.
    pub applications: Option<Openings>,
    /// How a device boots: for experiments about boots.
    pub boots: Option<Boots>,
    /// How the user's own device reboots: for experiments about its boots.
    pub reboots: Option<Reboots>,
    /// How often processes are read: for experiments about the cost of that on the user's own device.
    pub readings: Option<Readings>,
    /// The foregrounds with their background programs: for experiments about placement.
    #[cfg(feature = "lab")]
    pub combinations: Option<Combinations>,
    /// The numbers of replicates.
    pub replicates: Replicates,
    /// The compared conditions.
    #[serde(rename = "arm")]
    pub arms: Vec<Arm>,
    /// The claims.
    #[serde(rename = "claim", default)]
    pub claims: Vec<Claim>,
    /// What a reader of the result must know.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How often each arm is run at each point.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replicates {
    /// In the quick form; 0 for an experiment that has none.
    pub quick: u32,
    /// In the full form: one number for all, or a list with one for each point. Points whose figures scatter more need
    /// more for the same precision, and short launches are cheap.
    pub full: Count,
    /// In the full form, a point gets no further blocks after so many, once all of its claims that have a `precision` reach it:
    /// each block is a run of its own then.
    pub least: Option<u32>,
    /// Discarded replicates before these, on each device.
    #[serde(default = "one")]
    pub warm_up: u32,
    /// The points of the quick form, when it cannot afford all.
    pub quick_work_ms: Option<Vec<u32>>,
}

/// A number of replicates for every point, or one for each.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a number, or a list with a number for each point")]
pub enum Count {
    /// The same everywhere.
    Everywhere(u32),
    /// One for each of `work_ms`, then one for `idle_ms` if there is one.
    Each(Vec<u32>),
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Its name in claims and tables.
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// True for the one that others are compared with.
    #[serde(default)]
    pub baseline: bool,
    /// The governor of every cpufreq policy; the device's own when absent.
    pub governor: Option<String>,
    /// Values of the governor's tunables.
    #[serde(default, deserialize_with = "values")]
    pub tunables: BTreeMap<String, String>,
    /// Values of a cpufreq policy's own files (`scaling_min_freq`); `maximum` is the highest frequency.
    #[serde(default, deserialize_with = "values")]
    pub policy: BTreeMap<String, String>,
    /// The configuration of the brisk daemon that runs during this arm; none runs when absent.
    pub brisk: Option<toml::Table>,
    /// `brisk boot hold` runs during the boot, or from before the launch that represents one until its first screen.
    #[serde(default)]
    pub boot_hold: bool,
    /// The kernel of the arm's scenario starts under `performance`; `brisk boot hold --then` sets `governor` when the boot has
    /// completed.
    #[serde(default)]
    pub hold_from_kernel: bool,
    /// How the zygote preloads, in an experiment about boots.
    #[serde(default)]
    pub preload: Preloading,
    /// A block device that is swap during this arm.
    pub swap: Option<PathBuf>,
    /// The most applications in the background, in an experiment with applications: the activity manager kills those beyond it
    /// that were in the foreground longest ago, as Android 2.3's (`MAX_HIDDEN_APPS`).
    pub hidden_limit: Option<u32>,
    /// Another project's program that runs during this arm, with its arguments: another killer.
    #[serde(default)]
    pub beside: Vec<String>,
    /// The command prefix that starts each application, or the foreground and each of its neighbours. The clock of a launch
    /// starts when the prefix has finished.
    #[serde(default)]
    pub launcher: Vec<String>,
    /// The prefix for each neighbour except music, in place of `launcher`, in an experiment with combinations.
    #[serde(default)]
    pub background_launcher: Vec<String>,
    /// How this arm reads processes' memory.
    pub reads: Option<Reading>,
    /// The nice value that is written for the session of each neighbour except music (/proc/PID/autogroup).
    pub background_nice: Option<i32>,
    /// Control groups for the foreground and the background with fixed limits, in the lab and in an experiment with combinations.
    #[cfg(feature = "lab")]
    pub by_hand: Option<GroupsByHand>,
    /// The foreground and its background are moved between Android's groups as ActivityManager does, in an experiment with
    /// combinations whose guest has them. A daemon sees the foreground by them.
    #[cfg(feature = "lab")]
    #[serde(default)]
    pub android_groups: bool,
    /// The `cpu.shares` of Android's groups `top-app` and `foreground`, where the init script of a vendor sets them. The others have
    /// the kernel's default, 1024.
    #[cfg(feature = "lab")]
    pub android_foreground_shares: Option<u32>,
    /// The scheduler of the combinations' disk.
    #[cfg(feature = "lab")]
    pub disk_scheduler: Option<String>,
    /// The I/O priority of each neighbour except music, in an experiment with combinations that has a disk.
    #[cfg(feature = "lab")]
    pub background_io_priority: Option<IoPriority>,
    /// The queueing discipline of the combinations' network.
    #[cfg(feature = "lab")]
    pub network_queue: Option<NetworkQueue>,
    /// The priority of the packets of each neighbour except music, by the net_prio controller of version 1, in an experiment with
    /// combinations that has a network.
    #[cfg(feature = "lab")]
    pub background_network_priority: Option<u32>,
    /// True for the arm without background, in an experiment with combinations.
    #[serde(default)]
    pub alone: bool,
    /// True for an arm that the quick form cannot afford.
    #[serde(default)]
    pub full_only: bool,
    /// In the full form, its maximum of replicates at a point: claims about it need fewer replicates than others.
    pub full: Option<u32>,
    /// `brisk diagnose` records the launch, and estimates what this mechanism would have removed of it.
    pub estimates: Option<String>,
    /// The context manager of lookups, and the settings of the driver's cache.
    pub lookup: Option<LookupArm>,
    /// The lab's scenario of this arm alone: in deterministic mode, figures of guests with different kernels are comparable.
    pub scenario: Option<String>,
}

/// An arm of an experiment about lookups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupArm {
    /// The binder device, by its name below /dev.
    #[serde(default = "binder")]
    pub device: String,
    /// `own`, `cooperating`, or a command; see `brisk lookup bench --manager`.
    pub manager: String,
    /// The wire format: `android-5`.
    pub format: String,
    /// Files below /sys/kernel/binder_cache/ and their values; none for a driver without cache. `mode` is written last, and in
    /// transparent mode `profile` follows from the wire format.
    #[serde(default, deserialize_with = "values")]
    pub cache: BTreeMap<String, String>,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

fn binder() -> String {
    "binder".to_owned()
}

/// Tunables are text to the kernel; an experiment may write them as numbers.
fn values<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Number(i64),
        Text(String),
    }
    let map = BTreeMap::<String, Value>::deserialize(deserializer)?;
    let text = |value| match value {
        Value::Number(number) => number.to_string(),
        Value::Text(text) => text,
    };
    Ok(map.into_iter().map(|(name, value)| (name, text(value))).collect())
}

/// A mistake in an experiment's file.
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// The file cannot be read.
    #[error("cannot read the experiment {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The text is not an experiment.
    #[error("{origin}:{line}:{column}: {message}")]
    Invalid {
        /// The file, or the name of the built-in experiment.
        origin: String,
        /// From 1.
        line: usize,
        /// From 1, in characters.
        column: usize,
        /// What is wrong, and what is valid.
        message: String,
    },
}

impl Experiment {
    /// Reads the experiment in the file `path`.
    ///
    /// # Errors
    /// [`SpecError`] when it cannot be read, is not TOML, has unknown keys or does not make sense.
    pub fn load(path: &Path) -> Result<Self, SpecError> {
        let text = std::fs::read_to_string(path).map_err(|source| SpecError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses `text`; `origin` names it in errors.
    ///
    /// # Errors
    /// [`SpecError::Invalid`] with line and column.
    pub fn parse(origin: &str, text: &str) -> Result<Self, SpecError> {
        let invalid = |(line, column), message| SpecError::Invalid { origin: origin.to_owned(), line, column, message };
        let experiment: Self =
            toml_text::from_str(text).map_err(|error| invalid(error.position(), error.message().to_owned()))?;
        match experiment.fault() {
            None => Ok(experiment),
            Some((offset, message)) => Err(invalid(toml_text::position(text.as_bytes(), offset), message)),
        }
    }

    /// Its quick form: without the arms and the claims that only the full one has.
    #[must_use]
    pub fn in_quick_form(mut self) -> Self {
        self.claims.retain(|claim| !claim.full_only);
        self.with_arms(|arm| !arm.full_only)
    }

    /// The same with the arms that `keep` accepts, and without claims about others.
    #[must_use]
    pub fn with_arms(mut self, keep: impl Fn(&Arm) -> bool) -> Self {
        self.arms.retain(keep);
        let arms: BTreeSet<String> = self.arms.iter().map(|arm| arm.name.clone()).collect();
        self.claims.retain(|claim| claim.arms().all(|name| arms.contains(name)));
        self
    }

    /// The baseline arm's index; a parsed experiment has exactly one.
    pub fn baseline(&self) -> usize {
        self.arms.iter().position(|arm| arm.baseline).unwrap_or(0)
    }

    /// The index of the arm `name`.
    pub fn arm(&self, name: &str) -> Option<usize> {
        self.arms.iter().position(|arm| arm.name == name)
    }

    /// What a replicate runs; a parsed experiment has one workload, or reboots.
    pub fn workload(&self) -> Option<Workload> {
        let launches = || self.launches.clone().map(Workload::Launches);
        let applications = || self.applications.clone().map(Workload::Applications);
        let readings = || self.readings.map(Workload::Readings);
        let boots = || self.boots.map(Workload::Boots);
        #[cfg(feature = "lab")]
        if let Some(combinations) = &self.combinations {
            return Some(Workload::Combinations(combinations.clone()));
        }
        let lookups = self.lookups.clone().map(Workload::Lookups);
        lookups.or_else(applications).or_else(readings).or_else(boots).or_else(launches)
    }

    /// What it measures.
    pub fn subject(&self) -> Subject {
        if self.reboots.is_some() {
            return Subject::Boots;
        }
        match self.workload() {
            Some(Workload::Lookups(_)) => Subject::Lookups,
            Some(Workload::Applications(_)) => Subject::Applications,
            Some(Workload::Readings(_)) => Subject::Readings,
            Some(Workload::Boots(_)) => Subject::Boots,
            #[cfg(feature = "lab")]
            Some(Workload::Combinations(_)) => Subject::Combinations,
            Some(Workload::Launches(_)) | None => Subject::Launches,
        }
    }

    /// The workload's points in the quick or the full form.
    pub fn points(&self, quick: bool) -> Vec<Point> {
        #[cfg(feature = "lab")]
        if let Some(combinations) = &self.combinations {
            return combinations.of_form(quick).map(Combination::point).collect();
        }
        let short = self.replicates.quick_work_ms.as_ref().filter(|_| quick);
        let launches = self.launches.iter().flat_map(|launches| {
            let work = short.unwrap_or(&launches.work_ms).iter().map(|&work_ms| Point::Work(work_ms));
            work.chain(launches.idle_ms.map(Point::Idle))
        });
        let lookups = self.lookups.iter().flat_map(Lookups::points);
        let openings = self.applications.as_ref().map(|openings| Point::Openings(openings.of_form(quick)));
        let readings = self.readings.map(|readings| Point::Readings(readings.count));
        let boots = self.boots.map(|_| Point::Boot).or(self.reboots.map(|_| Point::Boot));
        launches.chain(lookups).chain(openings).chain(readings).chain(boots).collect()
    }

    /// The arms that are not run at some of [`Experiment::points`]: the foreground alone, where no claim needs it.
    pub fn excluded_cells(&self, quick: bool) -> BTreeSet<(usize, usize)> {
        let points = self.points(quick);
        let is_left_out = |&(arm, point): &(usize, usize)| self.arms[arm].alone && !self.is_run_alone(&points[point]);
        let all = (0..self.arms.len()).flat_map(|arm| (0..points.len()).map(move |point| (arm, point)));
        all.filter(is_left_out).collect()
    }

    #[cfg(feature = "lab")]
    fn is_run_alone(&self, point: &Point) -> bool {
        let combination = self.combinations.as_ref().and_then(|combinations| combinations.at(point));
        combination.is_some_and(|combination| combination.alone)
    }

    #[cfg(not(feature = "lab"))]
    fn is_run_alone(&self, _point: &Point) -> bool {
        false
    }

    /// The arms that are run fewer times than others.
    pub fn replicate_limits(&self, quick: bool) -> BTreeMap<usize, u32> {
        let arms = self.arms.iter().enumerate().filter(|_| !quick);
        arms.filter_map(|(index, arm)| Some((index, arm.full?))).collect()
    }

    /// How often each arm is run at each of [`Experiment::points`], unless [`Experiment::replicate_limits`] says fewer.
    pub fn replicates_by_point(&self, quick: bool) -> Vec<u32> {
        let everywhere = |count: u32| vec![count; self.points(quick).len()];
        match &self.replicates.full {
            _ if quick => everywhere(self.replicates.quick),
            Count::Everywhere(count) => everywhere(*count),
            Count::Each(counts) => counts.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
