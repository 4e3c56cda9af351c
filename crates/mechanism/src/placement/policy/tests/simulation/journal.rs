//! What the journal and the kernel make of a decision: originals, compared before they are restored, also in threads that
//! inherited a leased value.

use std::path::PathBuf;

use super::super::super::*;
use super::scheduler::{Mask, ROOT};
use super::system::{Attributes, Grouping, Original, System};
use crate::Action;
use crate::simulated::Kernel;
use brisk_sys::cgroup::weight::{self, WeightedGroup};
use brisk_sys::cpu::hotplug::{format_list, parse_list};
use brisk_sys::sched::autogroup::Autogroup;
use brisk_sys::sched::scheduling_group::SchedulingGroup;

fn list(mask: Mask) -> String {
    format_list(&(0..64).filter(|cpu| mask >> cpu & 1 == 1).collect::<Vec<u32>>())
}

impl Attributes {
    fn read(&self, target: &Target) -> String {
        match target {
            Target::CpuAffinity { .. } => list(self.mask),
            Target::Priority { .. } => self.priority.to_string(),
            _ => panic!("{target:?}"),
        }
    }

    fn write(&mut self, target: &Target, value: &str) {
        match target {
            Target::CpuAffinity { .. } => {
                self.mask = parse_list(value).unwrap().into_iter().map(|cpu| 1u64 << cpu).sum();
                assert_ne!(self.mask, 0, "a mask must not be empty");
            }
            Target::Priority { .. } => self.priority = value.parse().unwrap(),
            _ => panic!("{target:?}"),
        }
    }
}

fn missing() -> Effect {
    Effect::Missing("ESRCH".to_owned())
}

impl System {
    pub(super) fn carry_out_one(&mut self, kernel: &mut Kernel, decision: &Decision) -> Outcome {
        let now = self.now();
        let renews = match &decision.action {
            Action::Lease { target, value, .. } => self.originals.get(target).is_some_and(|it| it.observed == *value),
            _ => false,
        };
        let outcome = kernel.carry_out(now, decision, &mut |action| self.act(action));
        match outcome.effect {
            // Nothing had to be written.
            Effect::Written if renews => Outcome { effect: Effect::Unchanged, ..outcome },
            _ => outcome,
        }
    }

    /// Restores the leases whose deadline has passed, and those whose restore failed before.
    pub fn expire(&mut self) {
        let now = self.now();
        let mut kernel = std::mem::take(&mut self.kernel);
        let outcomes = kernel.expire(now, &mut |action| self.act(action));
        self.kernel = kernel;
        if let Some(policy) = self.policy.as_mut().filter(|_| !outcomes.is_empty()) {
            let mut decisions = Vec::new();
            policy.on_outcomes(now, &outcomes, &mut decisions);
            self.carry_out(decisions);
        }
    }

    fn act(&mut self, action: &Action) -> Result<(), Effect> {
        let target = match action {
            Action::Lease { target, .. } | Action::Release { target } | Action::Disinherit { target, .. } => target,
            _ => panic!("{action:?}"),
        };
        match self.group_of(target) {
            Some(group) => self.act_on_group(group, action),
            None => self.act_on_thread(target, action),
        }
    }

    /// The value of a thread's target now.
    fn read(&self, target: &Target) -> Option<String> {
        let sim = self.threads.get(&target.thread()?)?;
        let is_same = target.of_child(sim.thread.tid, sim.start_time_ticks).as_ref() == Some(target);
        is_same.then(|| sim.now.read(target))
    }

    fn write(&mut self, target: &Target, value: &str) {
        let Some(sim) = target.thread().and_then(|tid| self.threads.get_mut(&tid)) else { return };
        sim.now.write(target, value);
        let tid = sim.thread.tid;
        self.show_attributes(tid);
    }

    fn act_on_thread(&mut self, target: &Target, action: &Action) -> Result<(), Effect> {
        let Some(found) = self.read(target) else {
            self.originals.remove(target);
            return Err(missing());
        };
        match action {
            Action::Lease { value, .. } => {
                let held = self.originals.get(target).filter(|it| it.observed == found);
                let (original, since_us) =
                    held.map_or((found.clone(), self.scheduler.now_us), |it| (it.value.clone(), it.since_us));
                let original = Original { value: original, observed: value.clone(), since_us };
                self.originals.insert(target.clone(), original);
                self.write(target, value);
            }
            Action::Release { .. } => {
                let Some(original) = self.originals.remove(target) else { return Ok(()) };
                if found == original.observed {
                    self.write(target, &original.value);
                }
                self.restore_inherited(target, &original);
            }
            Action::Disinherit { inherited, original, .. }
                if !self.originals.contains_key(target) && found == *inherited =>
            {
                self.write(target, original);
            }
            _ => {}
        }
        Ok(())
    }

    /// Restores the original in the threads of its process and in descendants that were created since the lease.
    fn restore_inherited(&mut self, target: &Target, of: &Original) {
        let Some(creator) = target.thread().and_then(|tid| self.threads.get(&tid)) else { return };
        let mut family = vec![creator.thread.pid];
        let mut at = 0;
        while at < family.len() {
            let children = self.threads.values().filter(|it| it.thread.parent == family[at]);
            let mut children: Vec<u32> = children.map(|it| it.thread.pid).collect();
            children.retain(|pid| !family.contains(pid));
            children.dedup();
            family.extend(children);
            at += 1;
        }
        let is_kin = |it: &&super::system::SimulatedThread| {
            family.contains(&it.thread.pid) && Some(it.thread.tid) != target.thread() && it.born_us >= of.since_us
        };
        let kin: Vec<Target> = self
            .threads
            .values()
            .filter(is_kin)
            .filter_map(|it| target.of_child(it.thread.tid, it.start_time_ticks))
            .collect();
        for target in kin {
            if self.read(&target).is_some_and(|found| found == of.observed) {
                self.write(&target, &of.value);
            }
        }
    }

    fn group_of(&self, target: &Target) -> Option<usize> {
        match target {
            Target::Autogroup(id) => Some(*id as usize),
            Target::GroupWeight(folder) => {
                Some(folder.to_string_lossy().trim_start_matches("/cg/unit").parse().unwrap())
            }
            _ => None,
        }
    }

    fn act_on_group(&mut self, group: usize, action: &Action) -> Result<(), Effect> {
        let value = match action {
            Action::Lease { value, .. } => Some(value.clone()),
            _ => None,
        };
        if value.is_none() {
            assert!(self.group_values.contains_key(&group), "group {group} has no leased value");
        }
        let weight = match (&value, self.grouping) {
            (None, _) => 1024.0,
            (Some(value), Grouping::Sessions) => 1024.0 / 1.25f64.powi(value.parse().unwrap()),
            (Some(value), _) if value == weight::IDLE => 3.0,
            (Some(value), _) => value.parse::<f64>().unwrap() * 10.24,
        };
        self.scheduler.set_group_weight(group, weight);
        match value {
            Some(value) => drop(self.group_values.insert(group, value)),
            None => drop(self.group_values.remove(&group)),
        }
        Ok(())
    }

    /// The scheduling group that facts show for a thread of `group`, and the groups above it.
    pub(super) fn groups_of(&self, group: usize) -> (SchedulingGroup, Vec<WeightedGroup>) {
        let value = self.group_values.get(&group);
        match self.grouping {
            _ if group == ROOT => (SchedulingGroup::Root, Vec::new()),
            Grouping::Root => (SchedulingGroup::Root, Vec::new()),
            Grouping::Sessions => {
                let nice = value.map_or(0, |value| value.parse().unwrap());
                (SchedulingGroup::Autogroup(Autogroup { id: group as u64, nice, is_own: false }), Vec::new())
            }
            Grouping::Units => {
                let folder = PathBuf::from(format!("/cg/unit{group}"));
                let weight = value.map_or(100, |value| value.parse().unwrap_or(1));
                let top = WeightedGroup { folder: "/cg".into(), weight: None };
                let unit = WeightedGroup { folder: folder.clone(), weight: Some(weight) };
                (SchedulingGroup::Cgroup(folder), vec![top, unit])
            }
        }
    }
}
