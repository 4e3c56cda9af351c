//! What is known of the trace's threads beside the trace itself: the facts that the device told when the recording ended.

use std::collections::HashMap;

use super::Case;
use crate::model::{NICE_0, REAL_TIME_BELOW, Tid, Trace};
use crate::threads::{Index, Timelines};
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::scheduling_group::SchedulingGroup;
use brisk_sys::sched::thread_facts::ThreadFacts;

/// The most ancestors of a thread that are asked instead of it.
const MOST_GENERATIONS: usize = 64;

/// The threads of a trace with what the device tells of them.
pub(super) struct KnownThreads<'c> {
    trace: &'c Trace,
    timelines: &'c Timelines,
    /// The explained one.
    foreground: Index,
    facts: HashMap<Index, &'c ThreadFacts>,
    /// The CPUs that ran anything.
    pub cpus: Vec<u32>,
}

/// The threads that exist at the end of a trace.
pub fn living(trace: &Trace, timelines: &Timelines) -> Vec<Tid> {
    lasting(trace, timelines).map(|thread| timelines.threads[thread as usize].tid).collect()
}

fn lasting(trace: &Trace, timelines: &Timelines) -> impl Iterator<Item = Index> {
    let lasts = |thread: &Index| timelines.threads[*thread as usize].life(trace).1 == trace.events.len() as u32;
    (0..timelines.threads.len() as Index).filter(lasts)
}

impl<'c> KnownThreads<'c> {
    /// With the device's `facts` of those that exist at the end of the trace.
    pub fn new(case: &Case<'c>, facts: &'c [ThreadFacts], cpus: Vec<u32>) -> Self {
        let Case { trace, timelines, window, .. } = *case;
        let by_tid: HashMap<Tid, &ThreadFacts> = facts.iter().map(|facts| (facts.tid, facts)).collect();
        let told = |thread: Index| Some((thread, *by_tid.get(&timelines.threads[thread as usize].tid)?));
        let facts = lasting(trace, timelines).filter_map(told).collect();
        Self { trace, timelines, foreground: window.thread, facts, cpus }
    }

    /// How many there are.
    pub fn count(&self) -> Index {
        self.timelines.threads.len() as Index
    }

    /// The facts of a thread, or of its nearest ancestor with facts: a child inherits groups, session and mask.
    pub fn facts(&self, thread: Index) -> Option<&'c ThreadFacts> {
        let parent = |thread: &Index| self.timelines.threads[*thread as usize].parent;
        let mut family = std::iter::successors(Some(thread), parent).take(MOST_GENERATIONS);
        family.find_map(|thread| self.facts.get(&thread).copied())
    }

    /// True where a thread's own weight decides between it and the explained one: it is not in another session or control group, which
    /// competes as one.
    pub fn competes_by_itself(&self, thread: Index) -> bool {
        let (Some(of), Some(foreground)) = (self.facts(thread), self.facts(self.foreground)) else { return true };
        match (&of.scheduling_group, &foreground.scheduling_group) {
            (SchedulingGroup::Root, _) => true,
            (SchedulingGroup::Autogroup(of), SchedulingGroup::Autogroup(foreground)) => of.id == foreground.id,
            // A thread competes with the groups below its own one.
            (SchedulingGroup::Cgroup(of), SchedulingGroup::Cgroup(foreground)) => foreground.starts_with(of),
            _ => false,
        }
    }

    /// The priority of a thread at a time, by the trace.
    pub fn priority(&self, thread: Index, now_ns: u64) -> Priority {
        match self.trace.priority_at(self.timelines.threads[thread as usize].tid, now_ns) {
            ..REAL_TIME_BELOW => Priority { policy: SchedulingPolicy::Special, nice: 0 },
            of_kernel => {
                let nice = (i32::from(of_kernel) - i32::from(NICE_0)).min(19);
                Priority { policy: SchedulingPolicy::Other, nice }
            }
        }
    }
}
