//! What `brisk placement` shows.

use serde::{Deserialize, Serialize};

use super::config::Rule;
use super::cores::Core;
use super::step::Step;
use super::threads::classify::{Class, ThesisClass};
use super::threads::roster::Member;
use crate::Support;

/// The state of the mechanism at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementSnapshot {
    /// What the device offers.
    pub support: Support,
    /// The rule that decides.
    pub rule: Rule,
    /// The step in force; `None` when nothing is done.
    pub step: Option<Step>,
    /// The step's first trial is still open.
    pub is_on_trial: bool,
    /// Why the step is in force, or why nothing is done.
    pub reason: String,
    /// The foreground processes.
    pub foreground: Vec<u32>,
    /// The gain bound of the foreground in the last second, 0 to 1 of its busy time.
    pub gain_bound: f64,
    /// The share of its busy time that the foreground waited for a CPU.
    pub wait_share: f64,
    /// The 90th percentile of the foreground's runnable threads.
    pub parallelism: f64,
    /// The CPUs, in reservation order.
    pub cores: Vec<Core>,
    /// The threads that are awake, those with the highest demand first.
    pub threads: Vec<ThreadView>,
    /// The number of other threads.
    pub asleep: usize,
}

/// The most threads that are listed; further ones are only counted.
pub const MAXIMUM_LISTED_THREADS: usize = 256;

/// One thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// Its thread id.
    pub tid: u32,
    /// Its process id.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Its process is in the foreground.
    pub is_foreground: bool,
    /// Its class.
    pub class: Class,
    /// Its class by the thesis.
    pub thesis_class: ThesisClass,
    /// Its CPU demand, 0 to 1 of a CPU.
    pub demand: f64,
    /// The share of time that it is runnable but not running.
    pub wait: f64,
    /// The mean length of its bursts, in milliseconds.
    pub burst_ms: f64,
    /// How often it is scheduled in, per second.
    pub wakes_hz: f64,
    /// Its leased values: a CPU list, a policy and a nice value, or a weight.
    pub leased: Option<String>,
    /// Why it is treated like this.
    pub reason: String,
}

impl ThreadView {
    /// The view of `member` with the leased values `leased`.
    pub fn of(member: &Member, leased: Option<String>) -> Self {
        let statistics = &member.statistics;
        let percent = |share: f64| share * 100.0;
        let reason = match (member.is_foreground, statistics.class(), &leased) {
            (true, ..) => "foreground".to_owned(),
            (_, _, Some(value)) => {
                format!("demands {:.0} % of a CPU: restricted ({value})", percent(statistics.demand()))
            }
            (_, Class::Bulk, None) => {
                format!("demands {:.0} % of a CPU: may be restricted", percent(statistics.demand()))
            }
            (_, Class::Interactive, None) => "interactive: neither bulk nor light".to_owned(),
            (_, Class::Light, None) => "light: never deprioritised".to_owned(),
        };
        Self {
            tid: member.thread.tid,
            pid: member.thread.pid,
            command: member.thread.command.clone(),
            is_foreground: member.is_foreground,
            class: statistics.class(),
            thesis_class: statistics.thesis_class(),
            demand: statistics.demand(),
            wait: statistics.wait(),
            burst_ms: statistics.burst().as_secs_f64() * 1e3,
            wakes_hz: statistics.wakes_hz(),
            leased,
            reason,
        }
    }
}
