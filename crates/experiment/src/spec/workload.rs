//! What a replicate runs: the tables of an experiment's file that describe launches, lookups, boots and readings.

use serde::{Deserialize, Serialize};

#[cfg(feature = "lab")]
use super::Combinations;
use super::{Openings, one, yes};
use crate::point::Point;
use brisk_mechanism::lookup::Traces;

/// What a replicate runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// One launch, or an idle time.
    Launches(Launches),
    /// A series of service lookups.
    Lookups(Lookups),
    /// The applications of `memory-workload.toml`.
    Applications(Openings),
    /// Readings of processes' memory; nothing is changed.
    Readings(Readings),
    /// A whole boot.
    Boots(Boots),
    /// A foreground with background programs.
    #[cfg(feature = "lab")]
    Combinations(Combinations),
}

/// A boot: kernel, init's services, a zygote that preloads, its system server, the first application's screen. All but the
/// zygote is known work, in milliseconds of one CPU at the highest frequency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boots {
    /// How many classes the zygote preloads, beside the framework's resources.
    pub classes: u32,
    /// Work of init's services before the zygote, in bursts.
    pub services_ms: u32,
    /// Work of the system server until it asks for the first application, in bursts.
    pub system_server_ms: u32,
    /// Work of that application until its first screen, in one piece.
    pub application_ms: u32,
    /// The bursts, between which files are read.
    pub bursts: Bursts,
    /// Turns of the work loop in a millisecond: fixed, because the zygote's work is fixed as well.
    pub turns_per_ms: u64,
}

/// Boots of the user's own device: each is a real reboot, until the boot has completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reboots {
    /// A boot that has not completed so many seconds after the kernel's start has failed.
    pub limit_s: u32,
    /// How long the device is left alone between a completed boot and the next reboot, in seconds.
    pub settle_s: u32,
}

/// How a zygote preloads in an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preloading {
    /// In order, on one thread.
    #[default]
    Off,
    /// Classes in a forked child, as in the paper; the zygote goes on when its resources are done.
    Fork,
    /// The same, and the zygote also waits for its child.
    ForkAndWait,
    /// Workers load ahead of the thread that initialises.
    Ahead,
    /// By a plan, on all threads.
    Plan,
}

impl Preloading {
    /// Its name among the preloader's modes.
    pub fn mode(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fork | Self::ForkAndWait => "fork",
            Self::Ahead => "ahead",
            Self::Plan => "plan",
        }
    }
}

/// Repeated readings of processes' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// Readings of each process in a replicate.
    pub count: u32,
}

/// How an arm reads a process's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// /proc/PID/status: counters that the kernel keeps anyway.
    Cheap,
    /// /proc/PID/smaps_rollup: the kernel walks all its page tables.
    Exact,
}

/// Service lookups through binder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookups {
    /// Services that are registered and looked up by their popularity.
    pub services: u32,
    /// Lookups of a replicate, after one of every service; with `clients`, of each client; with `applications`, the number of
    /// first lookups of each application.
    pub count: u32,
    /// Lookups before each of which the driver's cache is cleared, so that each of them is a miss.
    #[serde(default)]
    pub misses: u32,
    /// Further lookups of arms without a cache, by which their steps are separated.
    #[serde(default)]
    pub steps: bool,
    /// Clients that look up at the same time, a point each: what parallel mode measures.
    #[serde(default)]
    pub clients: Vec<u32>,
    /// Modelled applications whose lookups are made, a point each, by the names of `brisk lookup simulate`.
    #[serde(default)]
    pub applications: Vec<String>,
}

impl Lookups {
    pub(super) fn points(&self) -> Vec<Point> {
        if !self.clients.is_empty() {
            return self.clients.iter().copied().map(Point::Clients).collect();
        }
        if self.applications.is_empty() {
            return vec![Point::Lookups(self.count)];
        }
        let traces = Traces::built_in().traces;
        let place = |name: &String| traces.iter().position(|trace| trace.name == *name);
        self.applications.iter().filter_map(place).map(Point::Application).collect()
    }
}

/// Launches of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launches {
    /// The program that is launched.
    pub program: Program,
    /// CPU time of a launch at the highest frequency, one point each, in milliseconds.
    #[serde(default)]
    pub work_ms: Vec<u32>,
    /// The first part of that work, which stands for what every application does at start; the rest is the load.
    #[serde(default)]
    pub start_up_ms: u32,
    /// Threads that the load is spread over; each does the whole load, so that every CPU is busy.
    #[serde(default = "one")]
    pub threads: u32,
    /// Bursts with waits between them, as in a boot that reads files; without, the work is one piece.
    pub bursts: Option<Bursts>,
    /// Services that the program looks up before its work, in the lab.
    pub lookups: Option<LaunchLookups>,
    /// Memory that the program fills during its work, in the lab.
    pub memory: Option<LaunchMemory>,
    /// Length of the idle point, if there is one, in milliseconds.
    pub idle_ms: Option<u32>,
    /// Shortest and longest rest before a launch, in milliseconds.
    pub settle_ms: [u32; 2],
    /// The energy window lasts from just before the fork until this much longer than the work, in milliseconds: the
    /// same in every arm. A launch that takes longer is refused.
    pub window_beyond_work_ms: u32,
    /// Whether energy is measured; where not, a replicate is over with its launch.
    #[serde(default = "yes")]
    pub energy: bool,
    /// Background load during rest and launch, as on a device in use.
    pub background: Option<Background>,
}

/// The lookups of a launch; every service was looked up once before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchLookups {
    /// Services that are registered, and looked up by their popularity.
    pub services: u32,
    /// Lookups for each millisecond of `work_ms`.
    pub per_work_ms: u32,
}

/// The memory of a launch, and of the cached applications that hold what was free before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchMemory {
    /// MemAvailable before the cached applications are launched; memory beyond it is locked.
    pub available_kib: u64,
    /// Cached applications, and the memory that each of them fills.
    pub cached: u32,
    pub cached_kib: u64,
    /// Memory that the program fills for each millisecond of `work_ms`.
    pub kib_per_work_ms: u64,
}

/// Work in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// CPU time of each at the highest frequency, in milliseconds.
    pub work_ms: u32,
    /// The wait after each, in milliseconds.
    pub wait_ms: u32,
}

/// Programs that can be launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// `brisk load`.
    Load,
    /// The same work in an application of Android: the lab's activity manager opens it as a fork of its zygote.
    AndroidApplication,
}

/// The background load: a task that wakes up at random, and the threads below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Mean time between two wake-ups, in milliseconds; each is uniform from half of it to one and a half.
    pub period_ms: u32,
    /// CPU time of each at the highest frequency, in microseconds.
    pub work_us: u32,
    /// Threads that use every CPU that they can get.
    #[serde(default)]
    pub hogs: u32,
    /// Threads that work for 15 ms and then wait for 25 ms, as downloads do.
    #[serde(default)]
    pub downloads: u32,
}
