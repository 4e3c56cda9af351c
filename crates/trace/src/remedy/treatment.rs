//! What the leases of placement mean for the threads of a trace: which CPUs they are kept to, and what is left of the waits behind
//! them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use super::facts::KnownThreads;
use crate::threads::Index;
use brisk_mechanism::Target;
use brisk_sys::cgroup::weight;
use brisk_sys::cpu::hotplug;
use brisk_sys::sched::priority::{NICE_LEVEL_RATIO, Priority, SchedulingPolicy};
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;

/// The weight of SCHED_IDLE beside that of nice 0 (kernel/sched/core.c).
const IDLE_SHARE: f64 = 3.0 / 1024.0;
/// The weight of a control group that competes as a thread of nice 0 does: `cpu.weight` and `cpu.shares` (cgroup-v2.rst, "CPU").
const GROUP_WEIGHT: f64 = 100.0;
const GROUP_SHARES: f64 = 1024.0;

/// What is done to threads, from a moment of the trace on.
#[derive(Debug, Default)]
pub(super) struct InForce {
    pub since_ns: u64,
    pub lowered: Vec<Lowered>,
    /// Nothing is done.
    pub is_nothing: bool,
    treatments: HashMap<Index, Treatment>,
}

/// What competes for a CPU with a lower weight: one thread, or the threads of a group.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Lowered {
    /// What it got beside a thread of nice value 0 that ran for 1, and what it gets now.
    own: f64,
    beside: f64,
    /// The share that it gets of what it took.
    kept: f64,
}

#[derive(Debug, Default)]
struct Treatment {
    /// It is kept to these CPUs, and the foreground to others.
    confined: Option<Vec<u32>>,
    /// An index of [`InForce::lowered`].
    lowered: Option<usize>,
}

impl InForce {
    /// What `leases` do from `since_ns` on.
    pub fn of<'l>(
        since_ns: u64,
        leases: impl Iterator<Item = (&'l Target, &'l str)>,
        threads: &KnownThreads<'_>,
    ) -> Self {
        let own_weight = |thread: Index| weight_of(threads.priority(thread, since_ns));
        let mut in_force = Self { since_ns, is_nothing: true, ..Self::default() };
        // The weight of each group that brisk makes, and its place in `lowered` once it has a member.
        let mut made: BTreeMap<&Path, (f64, Option<usize>)> = BTreeMap::new();
        for (target, value) in leases {
            in_force.is_nothing = false;
            match target {
                Target::CpuAffinity { start_time_ticks, .. } => {
                    in_force.confine(*start_time_ticks as Index, value, &threads.cpus);
                }
                Target::Priority { start_time_ticks, .. } => {
                    let thread = *start_time_ticks as Index;
                    if threads.competes_by_itself(thread) {
                        let own = own_weight(thread);
                        let lowered = in_force.lower(own, value.parse().map_or(own, weight_of));
                        in_force.add(thread, lowered);
                    }
                }
                Target::Group(folder) => {
                    // A group that only confines its members sets their masks as well.
                    made.extend(weight_of_made(value).map(|beside| (folder.as_path(), (beside, None))));
                }
                Target::GroupMember { hierarchy, start_time_ticks, .. } => {
                    let thread = *start_time_ticks as Index;
                    let group = threads.facts(thread).and_then(|facts| facts.groups.cpu.as_ref());
                    let group = group.filter(|group| group.hierarchy == *hierarchy && group.taken_as == value);
                    let Some((beside, place)) = group.and_then(|group| made.get_mut(group.taken_into.as_path())) else {
                        continue;
                    };
                    let lowered = *place.get_or_insert_with(|| in_force.lower(0.0, *beside));
                    in_force.lowered[lowered].take(own_weight(thread));
                    in_force.add(thread, lowered);
                }
                Target::GroupWeight(folder) => in_force.lower_members(folder_weight(value), threads, |facts| {
                    let group = facts.weighed.iter().find(|group| group.folder == *folder)?;
                    Some(f64::from(group.weight?) / GROUP_WEIGHT)
                }),
                Target::Autogroup(id) => {
                    let beside = value.parse().ok().map(weight_of_nice);
                    in_force.lower_members(beside, threads, |facts| match &facts.scheduling_group {
                        SchedulingGroup::Autogroup(group) if group.id == *id => Some(weight_of_nice(group.nice)),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        in_force
    }

    /// True where what is done changes nothing for the explained process.
    pub fn is_without_effect(&self) -> bool {
        self.treatments.is_empty()
    }

    /// The weight that a thread competes with, where it is lowered: an index of [`InForce::lowered`].
    pub fn lowered_of(&self, thread: Index) -> Option<usize> {
        self.treatments.get(&thread)?.lowered
    }

    /// The share that is left of a wait behind a thread on a CPU, of the foreground or not.
    pub fn share_left(&self, behind: Index, (cpu, is_foreground): (u16, bool)) -> f64 {
        let Some(treatment) = self.treatments.get(&behind) else { return 1.0 };
        // The foreground's threads are moved to the CPUs that are reserved for them.
        let is_elsewhere = |cpus: &Vec<u32>| is_foreground || !cpus.contains(&u32::from(cpu));
        match treatment.lowered {
            _ if treatment.confined.as_ref().is_some_and(is_elsewhere) => 0.0,
            Some(lowered) => self.lowered[lowered].kept,
            None => 1.0,
        }
    }

    fn confine(&mut self, thread: Index, mask: &str, all: &[u32]) {
        let cpus = hotplug::parse_list(mask).unwrap_or_default();
        // A mask with all CPUs is set before a thread enters a group, so that the journal has its own one.
        if !cpus.is_empty() && all.iter().any(|cpu| !cpus.contains(cpu)) {
            self.treatments.entry(thread).or_default().confined = Some(cpus);
        }
    }

    fn lower(&mut self, own: f64, beside: f64) -> usize {
        self.lowered.push(Lowered::new(own, beside));
        self.lowered.len() - 1
    }

    fn add(&mut self, thread: Index, lowered: usize) {
        self.treatments.entry(thread).or_default().lowered = Some(lowered);
    }

    /// Lowers a whole group to `beside`; `own` tells the weight that it has had, for the facts of its members.
    fn lower_members(
        &mut self,
        beside: Option<f64>,
        threads: &KnownThreads<'_>,
        own: impl Fn(&ThreadFacts) -> Option<f64>,
    ) {
        let Some(beside) = beside else { return };
        let mut group = None;
        for thread in 0..threads.count() {
            if let Some(own) = threads.facts(thread).and_then(&own) {
                let lowered = *group.get_or_insert_with(|| self.lower(own, beside));
                self.add(thread, lowered);
            }
        }
    }
}

impl Lowered {
    fn new(own: f64, beside: f64) -> Self {
        let kept = if own > beside { beside / own } else { 1.0 };
        Self { own, beside, kept }
    }

    /// Takes a member that competed on its own with weight `own`.
    fn take(&mut self, own: f64) {
        *self = Self::new(self.own + own, self.beside);
    }

    /// Those that do not want a CPU all the time catch up with what they could not do: while the path runs, they take their lower
    /// share even where they slept in the trace, but no more than they took there. So their share of the waits behind them is
    /// larger. The path ran for `ran_ns`, and waited behind them for `waited_ns`.
    pub fn catch_up(&mut self, ran_ns: u64, waited_ns: u64) {
        if self.kept < 1.0 && waited_ns > 0 {
            self.kept = self.kept.max(self.beside * ran_ns as f64 / waited_ns as f64).min(1.0);
        }
    }
}

/// What a thread of this priority gets beside one of nice value 0 that gets 1.
fn weight_of(priority: Priority) -> f64 {
    match priority.policy {
        SchedulingPolicy::Idle => IDLE_SHARE,
        _ => weight_of_nice(priority.nice),
    }
}

fn weight_of_nice(nice: i32) -> f64 {
    NICE_LEVEL_RATIO.powi(-nice)
}

/// The same of a control group with this weight.
fn folder_weight(value: &str) -> Option<f64> {
    match value {
        weight::IDLE => Some(IDLE_SHARE),
        _ => Some(value.parse::<f64>().ok()? / GROUP_WEIGHT),
    }
}

/// The same of a group that is made with this setting; `None` where it does not set a weight.
fn weight_of_made(setting: &str) -> Option<f64> {
    let (file, value) = setting.split_once('=')?;
    match file {
        "cpu.weight" => folder_weight(value),
        "cpu.shares" => Some(value.parse::<f64>().ok()? / GROUP_SHARES),
        "cpu.idle" => Some(IDLE_SHARE),
        _ => None,
    }
}
