//! The mechanisms that this daemon drives: built from the configuration and the device, and again when either changes.

use crate::config::Config;
use crate::device::{BootTime, Root, Target};
use crate::mechanism::launch::{DeviceFacts, LaunchConfig, LaunchPolicy, LearnedDurations, Plan, triggers};
use crate::mechanism::placement::{PlacementPolicy, probe};
use crate::mechanism::{Decision, Interest, Mechanism, ProcessEventKind};

/// All of them. A further mechanism is a field here and a line in each function.
#[derive(Debug)]
pub struct Mechanisms {
    /// Application launches.
    pub launch: LaunchPolicy,
    /// Room for what is in front.
    pub placement: PlacementPolicy,
}

/// The device, and the launch mechanism's configuration with the triggers that it means there.
fn launch_on(root: &Root, config: &Config) -> (DeviceFacts, LaunchConfig) {
    let facts = DeviceFacts::probe(root);
    let launch = LaunchConfig { triggers: triggers::chosen(&config.launch, &facts), ..config.launch.clone() };
    (facts, launch)
}

/// How many there are.
pub const MECHANISM_COUNT: usize = 2;

/// What each of them has decided, in the order of [`Mechanisms::each`].
pub type Decided = [Vec<Decision>; MECHANISM_COUNT];

impl Mechanisms {
    /// Probes the device below `root` and builds each mechanism.
    pub fn new(root: &Root, config: &Config, durations: LearnedDurations) -> Self {
        let (facts, launch) = launch_on(root, config);
        let plan = Plan::of(&facts, &launch);
        let machine = probe::machine(root);
        let support = probe::support(root, &config.placement, &machine);
        Self {
            launch: LaunchPolicy::new(launch, plan, facts.cpu_count, durations),
            placement: PlacementPolicy::new(config.placement.clone(), support, machine),
        }
    }

    /// Gives back what each holds, so that the device shows what is its own; what goes on goes on with [`Self::replace`].
    pub fn let_go(&mut self) -> Decided {
        self.decide(LaunchPolicy::let_go, PlacementPolicy::let_go)
    }

    /// Probes again and lets each mechanism go on under what is there now.
    pub fn replace(&mut self, now: BootTime, root: &Root, config: &Config) -> Decided {
        let (facts, launch) = launch_on(root, config);
        let plan = Plan::of(&facts, &launch);
        let machine = probe::machine(root);
        let support = probe::support(root, &config.placement, &machine);
        self.decide(
            |policy, decisions| policy.replace(now, launch, plan, facts.cpu_count, decisions),
            |placement, decisions| placement.replace(config.placement.clone(), support, machine, decisions),
        )
    }

    /// Ends everything.
    pub fn stop(&mut self) -> Decided {
        self.decide(LaunchPolicy::stop, PlacementPolicy::stop)
    }

    fn decide(
        &mut self,
        launch: impl FnOnce(&mut LaunchPolicy, &mut Vec<Decision>),
        placement: impl FnOnce(&mut PlacementPolicy, &mut Vec<Decision>),
    ) -> Decided {
        let (mut of_launch, mut of_placement) = (Vec::new(), Vec::new());
        launch(&mut self.launch, &mut of_launch);
        placement(&mut self.placement, &mut of_placement);
        [of_launch, of_placement]
    }

    /// Each of them, to be driven.
    pub fn each(&mut self) -> [&mut dyn Mechanism; MECHANISM_COUNT] {
        [&mut self.launch, &mut self.placement]
    }

    /// Each of them, to be looked at.
    pub fn all(&self) -> [&dyn Mechanism; MECHANISM_COUNT] {
        [&self.launch, &self.placement]
    }

    /// What all want to hear.
    pub fn interest(&self) -> Interest {
        self.all().iter().fold(Interest::default(), |interest, mechanism| interest.and(mechanism.interest()))
    }

    /// True when none has a use for an event of `kind` about `pid`.
    pub fn ignore(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        let wants = |mechanism: &&dyn Mechanism| mechanism.interest().kinds.contains(kind);
        self.all().into_iter().filter(wants).all(|mechanism| mechanism.ignores(now, kind, pid))
    }

    /// The earliest moment that any wants.
    pub fn deadline(&self) -> Option<BootTime> {
        self.all().iter().filter_map(|mechanism| mechanism.deadline()).min()
    }

    /// The tunables that they write.
    pub fn tunables(&self) -> impl Iterator<Item = &Target> {
        self.launch.plan().tunables().into_iter()
    }
}
