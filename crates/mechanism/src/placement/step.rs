//! The steps of the ladder, and what each changes on a thread.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::ablation::{Part, is_off};
use super::cores::{Machine, Split};
use super::groups::task_groups::Weights;
pub use crate::DesiredValues;
use crate::Target;
use brisk_sys::cgroup::hierarchy::Hierarchy;
use brisk_sys::cgroup::membership::Membership;
use brisk_sys::cgroup::weight;
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::priority::{NICE_LEVEL_RATIO, Priority, SchedulingPolicy};
use brisk_sys::sched::thread_facts::ThreadFacts;

/// The nice value with the lowest weight.
const MAXIMUM_NICE: i32 = 19;

/// What is done to background threads for the foreground.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// Bulk threads get a lower weight.
    Weight,
    /// Bulk threads run only on CPU time that no other thread wants.
    Idle,
    /// Cores are reserved: bulk threads and other busy background threads are kept off them.
    Isolate(Split),
}

/// The kinds of steps, without their data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// [`Step::Weight`].
    Weight,
    /// [`Step::Idle`].
    Idle,
    /// [`Step::Isolate`].
    Isolate,
    /// [`Step::Weight`] for whole sessions and groups, without a trial.
    Groups,
}

impl StepKind {
    /// Its name, as a serialised [`Step`] has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weight => "weight",
            Self::Idle => "idle",
            Self::Isolate => "isolate",
            Self::Groups => "groups",
        }
    }
}

impl Step {
    /// Which kind of step it is.
    pub fn kind(&self) -> StepKind {
        match self {
            Self::Weight => StepKind::Weight,
            Self::Idle => StepKind::Idle,
            Self::Isolate(_) => StepKind::Isolate,
        }
    }

    /// The targets and values for the thread with these facts. Empty if it is left alone: another program has bound it, set its
    /// policy, or already deprioritised it.
    pub fn demands_of(&self, facts: &ThreadFacts, nice_levels: i32, machine: &Machine) -> Vec<(Target, String)> {
        if facts.priority.policy != SchedulingPolicy::Other {
            return Vec::new();
        }
        match self {
            Self::Isolate(split) => reservation(split, facts, machine),
            Self::Weight | Self::Idle => self.lower_weight(facts, nice_levels, self.confinement(facts, machine)),
        }
    }

    /// The mask that confines a deprioritised thread with these facts to the smallest cores: a lower weight alone would leave it on
    /// a bigger core while a foreground thread runs on a smaller one. `None` where another program has bound the thread.
    pub fn confinement(&self, facts: &ThreadFacts, machine: &Machine) -> Option<(Target, String)> {
        affinity_demand(&self.confined_to(machine)?, facts, machine)
    }

    /// The CPUs that deprioritised threads are confined to. `None` where all cores have one size, or cores are reserved.
    pub fn confined_to(&self, machine: &Machine) -> Option<Vec<u32>> {
        if self.kind() == StepKind::Isolate || is_off(Part::SmallestCores) { None } else { machine.smallest_cores() }
    }

    /// A lower weight for a thread that is confined by `mask`, where there is one.
    fn lower_weight(
        &self,
        facts: &ThreadFacts,
        nice_levels: i32,
        mask: Option<(Target, String)>,
    ) -> Vec<(Target, String)> {
        let ThreadFacts { tid, start_time_ticks, allowed, priority, groups, .. } = facts;
        let (tid, start_time_ticks) = (*tid, *start_time_ticks);
        match &groups.cpu {
            Some(from) if priority.nice < MAXIMUM_NICE => {
                let is_unified = from.hierarchy == Hierarchy::Unified;
                let group = group_move(facts, from, self.shared_group_setting(is_unified, nice_levels));
                // The journal then has the original mask, which a cpuset may lose.
                let own = is_unified.then(|| (Target::CpuAffinity { tid, start_time_ticks }, format_list(allowed)));
                mask.or(own).into_iter().chain(group).collect()
            }
            _ => {
                let lower = match self {
                    Self::Idle => Priority { policy: SchedulingPolicy::Idle, nice: priority.nice },
                    _ => Priority {
                        policy: SchedulingPolicy::Other,
                        nice: (priority.nice + nice_levels).min(MAXIMUM_NICE),
                    },
                };
                let demand = (Target::Priority { tid, start_time_ticks }, lower.to_string());
                mask.into_iter().chain((lower != *priority).then_some(demand)).collect()
            }
        }
    }

    /// The setting of the group for deprioritised threads, which share its weight.
    fn shared_group_setting(&self, is_unified: bool, nice_levels: i32) -> String {
        let (file, ordinary, least) = if is_unified { ("cpu.weight", 100.0, 1.0) } else { ("cpu.shares", 1024.0, 2.0) };
        match self {
            Self::Idle => "cpu.idle=1".to_owned(),
            _ => format!("{file}={:.0}", lessened(ordinary, nice_levels).max(least)),
        }
    }

    /// The value for a group with these `weights`, if `groups` such groups together are to have the weight of one group that is
    /// deprioritised beside the foreground's. `None` if it already weighs that little, or if this step does not change weights.
    pub(in crate::placement) fn weight_of_group(
        &self,
        weights: Weights,
        nice_levels: i32,
        groups: usize,
    ) -> Option<String> {
        match self {
            Self::Weight => {
                let less = lessened(f64::from(weights.foreground), nice_levels) / groups.max(1) as f64;
                let less = less.round().max(1.0) as i32;
                (less < weights.own).then(|| less.to_string())
            }
            Self::Idle => Some(weight::IDLE.to_owned()),
            Self::Isolate(_) => None,
        }
    }

    /// The nice value for a session of own nice value `own`, if `sessions` such sessions together are to have the weight of one
    /// deprioritised session. `None` if its weight is already that low, or if this step does not change weights.
    pub fn nice_of_session(&self, own: i32, nice_levels: i32, sessions: usize) -> Option<String> {
        let shared_levels = (sessions.max(1) as f64).ln() / NICE_LEVEL_RATIO.ln();
        let nice = match self {
            Self::Weight => (own + nice_levels + shared_levels.round() as i32).min(MAXIMUM_NICE),
            Self::Idle => MAXIMUM_NICE,
            Self::Isolate(_) => return None,
        };
        (nice > own).then(|| nice.to_string())
    }
}

/// `weight`, lowered by `nice_levels`.
fn lessened(weight: f64, nice_levels: i32) -> f64 {
    weight / NICE_LEVEL_RATIO.powi(nice_levels)
}

/// The changes that keep a thread with these facts off reserved cores; none if another program has bound it.
fn reservation(split: &Split, facts: &ThreadFacts, machine: &Machine) -> Vec<(Target, String)> {
    let Some(mask) = affinity_demand(&split.rest, facts, machine) else { return Vec::new() };
    // Set the mask as well: the journal then has the original mask, which a cpuset may lose.
    let settings = format!("cpuset.cpus={}", mask.1);
    let group = facts.groups.cpuset.iter().flat_map(|from| group_move(facts, from, settings.clone()));
    std::iter::once(mask).chain(group).collect()
}

/// The mask that confines a thread with these facts to `cpus`, if it may run on all CPUs of `machine`.
pub fn affinity_demand(cpus: &[u32], facts: &ThreadFacts, machine: &Machine) -> Option<(Target, String)> {
    let ThreadFacts { tid, start_time_ticks, allowed, priority, .. } = facts;
    let is_free = machine.cores().iter().all(|core| allowed.contains(&core.cpu));
    let target = Target::CpuAffinity { tid: *tid, start_time_ticks: *start_time_ticks };
    (is_free && priority.policy == SchedulingPolicy::Other).then(|| (target, format_list(cpus)))
}

/// The targets that move a thread with these facts from its group into a group with `settings`.
fn group_move(facts: &ThreadFacts, from: &Membership, settings: String) -> [(Target, String); 2] {
    let ThreadFacts { tid, start_time_ticks, .. } = *facts;
    let Membership { hierarchy, taken_into, taken_as, .. } = from;
    let member = Target::GroupMember { hierarchy: *hierarchy, tid, start_time_ticks };
    [(Target::Group(taken_into.clone()), settings), (member, taken_as.clone())]
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight => f.write_str("bulk threads are deprioritised"),
            Self::Idle => f.write_str("bulk threads run only on CPU time that no other thread wants"),
            Self::Isolate(split) => write!(f, "CPU {} reserved for the foreground", format_list(&split.reserved)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::cgroup::membership::Memberships;
    use brisk_sys::sched::scheduling_group::SchedulingGroup;

    fn facts(allowed: Vec<u32>, priority: Priority) -> ThreadFacts {
        ThreadFacts {
            tid: 7,
            start_time_ticks: 70,
            allowed,
            priority,
            groups: Memberships::default(),
            scheduling_group: SchedulingGroup::default(),
            weighed: Vec::new(),
            children_ticks: 0,
        }
    }

    #[test]
    fn each_rung_changes_only_what_it_may() {
        let split = || Step::Isolate(Split { reserved: vec![1], rest: vec![0, 2] });
        let (other, idle, special) = (SchedulingPolicy::Other, SchedulingPolicy::Idle, SchedulingPolicy::Special);
        for (step, allowed, policy, nice, expected) in [
            (split(), vec![0, 1, 2, 3], other, 0, Some("0,2")),
            (split(), vec![0, 2], other, 0, None),
            (split(), vec![0, 1, 2], special, 0, None),
            (split(), vec![0, 1, 2], idle, 0, None),
            (Step::Weight, vec![0], other, 0, Some("other 10")),
            (Step::Weight, vec![0], other, 15, Some("other 19")),
            (Step::Weight, vec![0], other, 19, None),
            (Step::Weight, vec![0], special, 0, None),
            (Step::Idle, vec![0], other, 5, Some("idle 5")),
            (Step::Idle, vec![0], idle, 5, None),
        ] {
            let facts = facts(allowed, Priority { policy, nice });
            let demands = step.demands_of(&facts, 10, &Machine::equal(4));
            assert_eq!(demands.iter().map(|(_, value)| value.as_str()).next(), expected, "{step:?} {facts:?}");
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn deprioritised_threads_leave_the_big_cores() {
        let split = || Step::Isolate(Split { reserved: vec![3], rest: vec![0, 1, 2] });
        let (other, idle, special) = (SchedulingPolicy::Other, SchedulingPolicy::Idle, SchedulingPolicy::Special);
        let unequal = [(0, 446), (1, 446), (2, 1024), (3, 1024)];
        let equal = unequal.map(|(cpu, _)| (cpu, 1024));
        let all = || vec![0, 1, 2, 3];
        for (step, cores, allowed, policy, expected) in [
            (Step::Weight, unequal, all(), other, Some("0-1")),
            (Step::Idle, unequal, all(), other, Some("0-1")),
            (split(), unequal, all(), other, Some("0-2")),
            (Step::Weight, equal, all(), other, None),
            (Step::Weight, unequal, vec![0, 1, 3], other, None),
            (Step::Weight, unequal, vec![0], other, None),
            (Step::Weight, unequal, all(), special, None),
            (Step::Weight, unequal, all(), idle, None),
        ] {
            let machine = Machine::of(&cores);
            let facts = facts(allowed, Priority { policy, nice: 0 });
            let demands: DesiredValues = step.demands_of(&facts, 10, &machine).into_iter().collect();
            let mask = demands.get(&Target::CpuAffinity { tid: 7, start_time_ticks: 70 });
            assert_eq!(mask.map(String::as_str), expected, "{step:?} {machine:?} {facts:?}");
        }
        // A thread with the lowest weight may still run on a big core.
        let least = facts(all(), Priority { policy: other, nice: 19 });
        assert_eq!(Step::Weight.demands_of(&least, 10, &Machine::of(&unequal)).len(), 1);
    }

    // Verifies PLACE-4.
    #[test]
    fn a_group_weighs_in_proportion_to_the_foregrounds() {
        let weights = |own, foreground| Weights { own, foreground };
        for (own, foreground, levels, expected) in [
            (100, 100, 10, Some("11")),
            (50, 50, 10, Some("5")),
            (10_000, 10_000, 10, Some("1074")),
            (100, 100, 19, Some("1")),
            (1, 1, 10, None),
            // As the init scripts of some phones set them: the background already has a twentieth.
            (1024, 20_480, 10, None),
            (1024, 5120, 10, Some("550")),
            (100, 50, 10, Some("5")),
        ] {
            let found = Step::Weight.weight_of_group(weights(own, foreground), levels, 1);
            assert_eq!(found.as_deref(), expected, "{own} {foreground} {levels}");
        }
        assert_eq!(Step::Idle.weight_of_group(weights(1, 1), 10, 1).as_deref(), Some("idle"));
        let split = Split { reserved: vec![1], rest: vec![0] };
        assert_eq!(Step::Isolate(split).weight_of_group(weights(100, 100), 10, 1), None);
        let together: Vec<_> =
            [1, 2, 5, 40].map(|groups| Step::Weight.weight_of_group(weights(100, 100), 10, groups).unwrap()).into();
        assert_eq!(together, ["11", "5", "2", "1"], "together they have the weight of one");
    }

    // Verifies PLACE-4.
    #[test]
    fn sessions_together_weigh_what_one_would() {
        for (step, own, levels, sessions, expected) in [
            (Step::Weight, 0, 10, 1, Some("10")),
            (Step::Weight, 0, 10, 0, Some("10")),
            (Step::Weight, 0, 10, 2, Some("13")),
            (Step::Weight, 0, 10, 4, Some("16")),
            (Step::Weight, 0, 10, 100, Some("19")),
            (Step::Weight, -5, 10, 1, Some("5")),
            (Step::Weight, 15, 10, 1, Some("19")),
            (Step::Weight, 19, 10, 1, None),
            (Step::Idle, 0, 10, 1, Some("19")),
            (Step::Idle, 19, 10, 1, None),
            (Step::Isolate(Split { reserved: vec![1], rest: vec![0] }), 0, 10, 1, None),
        ] {
            let found = step.nice_of_session(own, levels, sessions);
            assert_eq!(found.as_deref(), expected, "{step:?} {own} {levels} {sessions}");
        }
    }

    #[test]
    fn a_group_deprioritises_all_its_members_together() {
        let membership = |hierarchy| {
            let (group, taken_into) = ("/others".to_owned(), "/cgroup/brisk-threads".into());
            Membership { hierarchy, group, taken_into, taken_as: "/brisk-threads".into(), whole_process: false }
        };
        let split = || Step::Isolate(Split { reserved: vec![1], rest: vec![0] });
        let into = |settings: &str| {
            let group = (Target::Group("/cgroup/brisk-threads".into()), settings.to_owned());
            move |hierarchy| {
                [
                    group.clone(),
                    (Target::GroupMember { hierarchy, tid: 7, start_time_ticks: 70 }, "/brisk-threads".into()),
                ]
            }
        };
        let mask = |cpus: &str| (Target::CpuAffinity { tid: 7, start_time_ticks: 70 }, cpus.to_owned());
        for (step, hierarchy, masked, settings) in [
            (Step::Weight, Hierarchy::Cpu, None, "cpu.shares=110"),
            (Step::Weight, Hierarchy::Unified, Some("0-1"), "cpu.weight=11"),
            (Step::Idle, Hierarchy::Unified, Some("0-1"), "cpu.idle=1"),
            (split(), Hierarchy::Cpuset, Some("0"), "cpuset.cpus=0"),
            (split(), Hierarchy::Unified, Some("0"), "cpuset.cpus=0"),
        ] {
            let mut facts = facts(vec![0, 1], Priority { policy: SchedulingPolicy::Other, nice: 0 });
            facts.groups = Memberships { cpu: Some(membership(hierarchy)), cpuset: Some(membership(hierarchy)) };
            let expected: Vec<_> = masked.map(mask).into_iter().chain(into(settings)(hierarchy)).collect();
            assert_eq!(step.demands_of(&facts, 10, &Machine::equal(2)), expected);
            assert!(expected.is_sorted(), "masks precede groups, groups precede members");
            let unequal = Machine::of(&[(0, 446), (1, 1024)]);
            assert_eq!(step.demands_of(&facts, 10, &unequal)[0], mask("0"), "the smallest core");
            facts.priority.policy = SchedulingPolicy::Special;
            assert_eq!(step.demands_of(&facts, 10, &unequal), []);
        }
    }
}
