//! What `brisk placement` shows.

use serde::{Deserialize, Serialize};

use super::config::Rule;
use super::cores::Core;
use super::step::Step;
use super::threads::classify::{Class, ThesisClass};
use super::threads::roster::Member;
use crate::Support;

/// The mechanism at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlacementSnapshot {
    /// What the device offers.
    pub support: Support,
    /// Which rule decides.
    pub rule: Rule,
    /// What is done now; `None` is nothing.
    pub step: Option<Step>,
    /// The step has not shown yet that it helps.
    pub is_on_trial: bool,
    /// Why.
    pub reason: String,
    /// The foreground processes.
    pub front: Vec<u32>,
    /// What the foreground could gain at most in the last second, 0 to 1 of its busy time.
    pub gain_bound: f64,
    /// The share of its busy time that it waited.
    pub wait_share: f64,
    /// The 90th percentile of its runnable threads.
    pub parallelism: f64,
    /// The CPUs, those that are kept free first first.
    pub cores: Vec<Core>,
    /// The upper utilisation clamp of bulk threads that weigh less: what the smallest core fits, where others are bigger and
    /// the kernel clamps.
    #[serde(default)]
    pub upper_clamp: Option<u32>,
    /// Those that are awake, those that ask for most first.
    pub threads: Vec<ThreadView>,
    /// How many others there are.
    pub asleep: usize,
}

/// More threads than this are counted and not named.
pub const MOST_THREADS: usize = 256;

/// One thread as it is seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadView {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its name.
    pub command: String,
    /// Its process is in the foreground.
    pub is_front: bool,
    /// What it is.
    pub class: Class,
    /// What the thesis calls it.
    pub thesis_class: ThesisClass,
    /// What it asks for, 0 to 1 of a CPU.
    pub demand: f64,
    /// The share of time that it waits for a CPU.
    pub wait: f64,
    /// How long it runs at a time, in milliseconds.
    pub burst_ms: f64,
    /// How often it is put on a CPU in a second.
    pub wakes_hz: f64,
    /// What it has been made to give up: a CPU list, or a policy and a nice value, and with it an upper clamp.
    pub leased: Option<String>,
    /// Why it is treated so.
    pub reason: String,
}

impl ThreadView {
    /// What is known of `member`, which has given up `leased`.
    pub fn of(member: &Member, leased: Option<String>) -> Self {
        let habits = &member.habits;
        let percent = |share: f64| share * 100.0;
        let reason = match (member.is_front, habits.class(), &leased) {
            (true, ..) => "foreground".to_owned(),
            (_, _, Some(value)) => format!("asks for {:.0} % of a CPU: makes room ({value})", percent(habits.demand())),
            (_, Class::Bulk, None) => format!("asks for {:.0} % of a CPU: would make room", percent(habits.demand())),
            (_, Class::Interactive, None) => "asks for too little to weigh less, for too much to be light".to_owned(),
            (_, Class::Light, None) => "light: never demoted".to_owned(),
        };
        Self {
            tid: member.thread.tid,
            pid: member.thread.pid,
            command: member.thread.command.clone(),
            is_front: member.is_front,
            class: habits.class(),
            thesis_class: habits.thesis_class(),
            demand: habits.demand(),
            wait: habits.wait(),
            burst_ms: habits.burst().as_secs_f64() * 1e3,
            wakes_hz: habits.wakes_hz(),
            leased,
            reason,
        }
    }
}
