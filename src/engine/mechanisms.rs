//! The mechanisms that this daemon drives: built from the configuration and the device, and again when either changes.

use crate::config::Config;
use crate::device::{BootTime, Root, Target};
use crate::mechanism::launch::{DeviceFacts, LaunchPolicy, LearnedDurations, Plan};
use crate::mechanism::{Decision, Interest, Mechanism, ProcessEventKind};

/// All of them. A further mechanism is a field here and a line in each function.
#[derive(Debug)]
pub struct Mechanisms {
    /// Application launches.
    pub launch: LaunchPolicy,
}

impl Mechanisms {
    /// Probes the device below `root` and builds each mechanism.
    pub fn new(root: &Root, config: &Config, durations: LearnedDurations) -> Self {
        let facts = DeviceFacts::probe(root);
        let plan = Plan::of(&facts, &config.launch);
        Self { launch: LaunchPolicy::new(config.launch.clone(), plan, facts.cpu_count, durations) }
    }

    /// Gives back what each holds, so that the device shows what is its own; what goes on goes on with [`Self::replace`].
    pub fn let_go(&mut self, decisions: &mut Vec<Decision>) {
        self.launch.let_go(decisions);
    }

    /// Probes again and lets each mechanism go on under what is there now.
    pub fn replace(&mut self, now: BootTime, root: &Root, config: &Config, decisions: &mut Vec<Decision>) {
        let facts = DeviceFacts::probe(root);
        let plan = Plan::of(&facts, &config.launch);
        self.launch.replace(now, config.launch.clone(), plan, facts.cpu_count, decisions);
    }

    /// Each of them, to be driven.
    pub fn each(&mut self) -> [&mut dyn Mechanism; 1] {
        [&mut self.launch]
    }

    /// Each of them, to be looked at.
    pub fn all(&self) -> [&dyn Mechanism; 1] {
        [&self.launch]
    }

    /// What all want to hear.
    pub fn interest(&self) -> Interest {
        self.all().iter().fold(Interest::default(), |interest, mechanism| interest.and(mechanism.interest()))
    }

    /// True when none has a use for an event of `kind` about `pid`.
    pub fn ignore(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        self.all().iter().all(|mechanism| mechanism.ignores(now, kind, pid))
    }

    /// The earliest moment that any wants.
    pub fn deadline(&self) -> Option<BootTime> {
        self.all().iter().filter_map(|mechanism| mechanism.deadline()).min()
    }

    /// The tunables that they write.
    pub fn tunables(&self) -> impl Iterator<Item = &Target> {
        self.launch.plan().tunables().into_iter()
    }

    /// Ends everything.
    pub fn stop(&mut self, decisions: &mut Vec<Decision>) {
        self.launch.stop(decisions);
    }
}
