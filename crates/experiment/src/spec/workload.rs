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
    /// One launch, or a time without.
    Launches(Launches),
    /// A row of service lookups.
    Lookups(Lookups),
    /// The applications of `memory-workload.toml`.
    Applications(Openings),
    /// What processes hold is read, and nothing is changed.
    Readings(Readings),
    /// A whole boot.
    Boots(Boots),
    /// A foreground, and others beside it.
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
    /// Of init's services before the zygote, in bursts.
    pub services_ms: u32,
    /// Of the system server until it asks for the first application, in bursts.
    pub system_server_ms: u32,
    /// Of that application until its first screen, in one piece.
    pub application_ms: u32,
    /// The bursts, between which files are read.
    pub bursts: Bursts,
    /// Turns of the work loop in a millisecond: fixed, for what a zygote does is as well.
    pub turns_per_ms: u64,
}

/// Boots of the user's own device, a real reboot each, until it has completed its boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reboots {
    /// A boot that has not completed so long after the kernel's start never will, in seconds.
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
    /// Classes in a child process, as the paper has it.
    Fork,
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
            Self::Fork => "fork",
            Self::Ahead => "ahead",
            Self::Plan => "plan",
        }
    }
}

/// What the processes of a device hold is read again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Readings {
    /// How often each of them in a replicate.
    pub count: u32,
}

/// How an arm reads what a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// /proc/PID/status: what the kernel counts anyway.
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
    /// Lookups of a replicate, after one of every service; with `clients`, of each of them; with `applications`, the
    /// first so many of each.
    pub count: u32,
    /// Lookups after which the driver's cache is made to forget, so that each of them is a miss.
    #[serde(default)]
    pub misses: u32,
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
    /// The work comes in bursts with waits between them, as that of a boot which reads its files; without, in one piece.
    pub bursts: Option<Bursts>,
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
    /// Small work of others during rest and launch, as a device in use has it.
    pub background: Option<Background>,
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
}

/// What others do meanwhile: a task that wakes up at random, and those that are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Mean time between two wake-ups, in milliseconds; each is uniform from half of it to one and a half.
    pub period_ms: u32,
    /// CPU time of each at the highest frequency, in microseconds.
    pub work_us: u32,
    /// Threads that take every CPU that they can get.
    #[serde(default)]
    pub hogs: u32,
    /// Threads that work for 15 ms and then wait for 25 ms, as downloads do.
    #[serde(default)]
    pub downloads: u32,
}
