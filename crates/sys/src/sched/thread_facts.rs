//! The facts of a thread that placement needs before it changes the thread.

use std::io;

use serde::{Deserialize, Serialize};

use crate::cgroup::membership::{Groups, MembershipCache, Memberships};
use crate::cgroup::weight::WeightedGroup;
use crate::sched::affinity;
use crate::sched::priority::Priority;
use crate::sched::scheduling_attributes::SchedulingAttributes;
use crate::sched::scheduling_group::{SchedulingGroup, SchedulingGroups};
use crate::{DeviceError, Operation, Root, process};

/// A thread's identity and how it is scheduled now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFacts {
    /// Its number.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat in clock ticks: with the number it identifies one thread for ever.
    pub start_time_ticks: u64,
    /// The CPUs that it may run on, ascending.
    pub allowed: Vec<u32>,
    /// Its policy and nice value.
    pub priority: Priority,
    /// Its control groups, where it may be moved out of them.
    #[serde(default)]
    pub groups: Memberships,
    /// The scheduling group in which it competes.
    #[serde(default)]
    pub scheduling_group: SchedulingGroup,
    /// The control groups above it that compete by weights which brisk may change, the highest first; that one has no weight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weighed: Vec<WeightedGroup>,
    /// CPU time of its process's children that have ended and of theirs, in clock ticks.
    #[serde(default)]
    pub children_ticks: u64,
}

/// The facts of those of the threads `tids` for which they are available, with their memberships in `groups`: some have exited,
/// and a kernel before 3.14 does not report priorities.
pub fn of_each(root: &Root, tids: &[u32], groups: &Groups) -> Vec<ThreadFacts> {
    if tids.is_empty() {
        return Vec::new();
    }
    let (mut groups, mut competing) = (groups.at(root), SchedulingGroups::of(root));
    tids.iter().filter_map(|&tid| of(root, tid, &mut groups, &mut competing).ok()).collect()
}

fn of(
    root: &Root,
    tid: u32,
    groups: &mut MembershipCache<'_>,
    competing: &mut SchedulingGroups<'_>,
) -> Result<ThreadFacts, DeviceError> {
    let fault = |error: io::Error| DeviceError::io(&root.path(format!("/proc/{tid}")), Operation::Read, error);
    let stat = process::stat(root, tid)?;
    let allowed = affinity::allowed(root, tid)?;
    let attributes = SchedulingAttributes::of(tid).map_err(fault)?;
    Ok(ThreadFacts {
        tid,
        start_time_ticks: stat.start_time_ticks,
        allowed,
        priority: Priority::from(&attributes),
        groups: groups.memberships(tid),
        scheduling_group: competing.group(tid),
        weighed: groups.weighed(tid),
        children_ticks: stat.children_ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_is_known() {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        let (root, groups) = (Root::system(), Groups::default());
        let facts = of_each(&root, &[u32::MAX, tid], &groups);
        let known: Vec<_> = facts.iter().map(|facts| (facts.tid, facts.allowed.is_empty())).collect();
        assert_eq!(known, [(tid, false)]);
        assert!(of(&root, u32::MAX, &mut groups.at(&root), &mut SchedulingGroups::of(&root)).unwrap_err().is_missing());
    }
}
