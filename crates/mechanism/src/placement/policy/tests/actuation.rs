//! What the simulated kernel does when the policy changes a thread, a group or a session.

use std::path::Path;

use super::super::*;
use super::device::{CPU_FOLDER, CPUSET_FOLDER, Device};
use crate::{Action, Effect};
use brisk_sys::cgroup::hierarchy::Hierarchy;
use brisk_sys::cpu::hotplug::parse_list;
use brisk_sys::sched::scheduling_group::SchedulingGroup;

impl Device {
    pub(super) fn act(&mut self, action: &Action) -> Result<(), Effect> {
        if !self.acts {
            return Ok(());
        }
        let (target, value) = match action {
            Action::Lease { target, value, .. } => (target, Some(value)),
            Action::Release { target } => (target, None),
            Action::Disinherit { target, original, .. } => (target, Some(original)),
            _ => panic!("{action:?}"),
        };
        match target {
            Target::Group(_) | Target::GroupWeight(_) | Target::Autogroup(_) => self.act_on_group(target, value),
            _ => self.act_on_thread(action, target, value),
        }
    }

    fn act_on_group(&mut self, target: &Target, value: Option<&String>) -> Result<(), Effect> {
        match (target, value) {
            (Target::Group(folder), Some(settings)) => drop(self.groups.insert(folder.clone(), settings.clone())),
            (Target::Group(folder), None) if self.members.values().any(|group| group == folder) => {
                return Err(Effect::Refused("EBUSY".to_owned()));
            }
            (Target::Group(folder), None) => assert!(self.groups.remove(folder).is_some(), "{folder:?} must exist"),
            (Target::GroupWeight(folder), Some(weight)) => {
                drop(self.weights.insert(folder.clone(), weight.clone()));
            }
            (Target::GroupWeight(folder), None) => {
                assert!(self.weights.remove(folder).is_some(), "{folder:?} must have a leased weight");
            }
            (Target::Autogroup(id), Some(nice)) => drop(self.sessions.insert(*id, nice.parse().unwrap())),
            (Target::Autogroup(id), None) => {
                assert!(self.sessions.remove(id).is_some(), "autogroup {id} must have a leased value");
            }
            _ => panic!("{target:?}"),
        }
        self.weigh();
        Ok(())
    }

    fn act_on_thread(&mut self, action: &Action, target: &Target, value: Option<&String>) -> Result<(), Effect> {
        let Some(tid) = target.thread().filter(|tid| self.threads.contains_key(tid)) else {
            return Err(Effect::Missing("ESRCH".to_owned()));
        };
        let allowed = self.threads[&tid].facts.allowed.clone();
        match target {
            Target::CpuAffinity { .. } => {
                let cpus = value.map_or(allowed, |list| parse_list(list).unwrap());
                assert!(!cpus.is_empty(), "a mask must not be empty");
                // On its new CPUs the thread starts with the least virtual time there.
                let others = self.threads.values().filter(|sim| sim.mask.len() == cpus.len() && sim.ran_last);
                let least = others.map(|sim| sim.virtual_time).fold(f64::INFINITY, f64::min);
                let sim = self.threads.get_mut(&tid).unwrap();
                if least.is_finite() {
                    sim.virtual_time = least;
                }
                sim.mask = cpus;
            }
            Target::Priority { .. } => {
                let sim = self.threads.get_mut(&tid).unwrap();
                sim.priority = value.map_or(sim.facts.priority, |text| text.parse().unwrap());
            }
            Target::GroupMember { hierarchy, .. } => {
                let folder = if *hierarchy == Hierarchy::Cpu { CPU_FOLDER } else { CPUSET_FOLDER };
                match action {
                    Action::Lease { .. } => {
                        if !self.groups.contains_key(Path::new(folder)) {
                            return Err(Effect::Refused("ENOENT".to_owned()));
                        }
                        self.members.insert((*hierarchy, tid), folder.into());
                    }
                    _ => drop(self.members.remove(&(*hierarchy, tid))),
                }
                self.weigh();
            }
            _ => panic!("{target:?}"),
        }
        Ok(())
    }

    /// Each member gets the weight of its whole group: the kernel's sharing within the group is not modelled.
    fn weigh(&mut self) {
        let weight = |settings: &String| match settings.split_once('=') {
            Some(("cpu.shares", shares)) => shares.parse().unwrap(),
            Some(("cpu.idle", "1")) => 3.0,
            _ => panic!("{settings}"),
        };
        let weight = self.groups.get(Path::new(CPU_FOLDER)).map(weight);
        for (&tid, sim) in &mut self.threads {
            let of_session = match &sim.facts.scheduling_group {
                SchedulingGroup::Autogroup(group) => self.sessions.get(&group.id),
                _ => None,
            };
            let of_session = of_session.map(|&nice| 1024.0 / 1.25f64.powi(nice));
            let of_group = weight.filter(|_: &f64| self.members.contains_key(&(Hierarchy::Cpu, tid)));
            sim.group_weight = of_group.or(of_session);
        }
    }
}
