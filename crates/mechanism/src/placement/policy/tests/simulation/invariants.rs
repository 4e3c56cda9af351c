//! What must hold on every system, at every sample and at the end.

use std::collections::BTreeMap;

use super::super::super::*;
use super::system::{Hardware, SimulatedThread, System};
use brisk_sys::sched::priority::SchedulingPolicy;

/// A foreground thread may have a mask until the next sample, and an inherited value until its facts are read.
const MOST_RESTRICTED_US: u64 = 1_300_000;

impl System {
    /// Checks what must hold after each sample.
    pub(super) fn check(&mut self) {
        let Some(policy) = &self.policy else { return };
        let now_ms = self.scheduler.now_us / 1000;
        let believed = policy.leased.held().chain(policy.temporary_masks.held());
        let believed: BTreeMap<Target, String> =
            believed.map(|(target, value)| (target.clone(), value.to_owned())).collect();
        assert_eq!(believed, self.kernel.held(), "at {now_ms} ms: {}", policy.reason);
        for (target, _) in policy.leased.in_force().chain(policy.temporary_masks.in_force()) {
            let lives = target.thread().is_none_or(|tid| self.threads.contains_key(&tid));
            assert!(lives, "at {now_ms} ms a thread that has ended has a lease: {target}");
        }
        let known = self.threads.len() + self.ended.len();
        let sizes = [
            ("threads", policy.roster.members().count()),
            ("inherited attributes", policy.inherited.tids().count()),
            ("light threads", policy.unconfined_light.len()),
            ("groups", policy.task_groups.processes()),
        ];
        for (what, size) in sizes {
            assert!(size <= known, "at {now_ms} ms {size} {what} of {known} threads are remembered");
        }
        assert!(policy.leased.refusals().count() <= 200 && policy.questions.is_empty());
        self.check_foreground(now_ms);
    }

    fn check_foreground(&mut self, now_ms: u64) {
        let now_us = self.scheduler.now_us;
        let is_restricted = |it: &SimulatedThread| {
            let is_lowered = (it.now.priority.policy, it.own.priority.policy)
                == (SchedulingPolicy::Idle, SchedulingPolicy::Other)
                || it.now.priority.nice > it.own.priority.nice;
            it.is_foreground && (it.now.mask != it.own.mask || is_lowered)
        };
        let restricted: BTreeSet<u32> =
            self.threads.values().filter(|it| is_restricted(it)).map(|it| it.thread.tid).collect();
        self.restricted_since.retain(|tid, _| restricted.contains(tid));
        for tid in restricted {
            let since_us = *self.restricted_since.entry(tid).or_insert(now_us);
            let it = &self.threads[&tid];
            let reason = self.policy.as_ref().map(|policy| policy.reason.clone());
            assert!(
                now_us - since_us <= MOST_RESTRICTED_US || self.may_refuse,
                "at {now_ms} ms foreground thread {tid} has {:?} for {} ms: {reason:?}",
                it.now,
                (now_us - since_us) / 1000
            );
        }
    }

    /// A user changes the thread, whatever brisk has done.
    pub fn set_by_user(&mut self, tid: u32, change: impl Fn(&mut super::system::Attributes)) {
        let Some(sim) = self.threads.get_mut(&tid) else { return };
        sim.is_set_by_user = true;
        let mut own = sim.own;
        change(&mut own);
        // A value that equals the leased one cannot be told from it.
        if own.mask != sim.own.mask && own.mask != sim.now.mask {
            (sim.own.mask, sim.now.mask) = (own.mask, own.mask);
        }
        if own.priority != sim.own.priority && own.priority != sim.now.priority {
            (sim.own.priority, sim.now.priority) = (own.priority, own.priority);
        }
        self.show_attributes(tid);
    }

    /// The daemon probes the device.
    pub fn probe(&mut self, hardware: &Hardware) {
        let online = self.scheduler.online();
        let online: Vec<u32> = (0..64).filter(|cpu| online >> cpu & 1 == 1).collect();
        let machine = hardware.machine().only(&online);
        let mut decisions = Vec::new();
        let Some(policy) = &mut self.policy else { return };
        let (config, support) = (policy.config.clone(), policy.support.clone());
        policy.replace(config, support, machine, &mut decisions);
        self.carry_out(decisions);
    }

    /// The daemon stops: restores that were refused are retried until none is.
    pub fn stop(&mut self) {
        let mut decisions = Vec::new();
        self.policy.as_mut().unwrap().stop(&mut decisions);
        self.carry_out(decisions);
        self.release_late();
    }

    /// Much later nothing is refused any more.
    fn release_late(&mut self) {
        self.scheduler.now_us += 1_000_000_000_000;
        self.expire();
        self.expire();
    }

    /// What brisk has left behind.
    pub fn left_behind(&self) -> Vec<String> {
        let changed = self.threads.values().filter(|it| it.now != it.own);
        let threads = changed.map(|it| format!("thread {} has {:?}, its own is {:?}", it.thread.tid, it.now, it.own));
        let held = self.kernel.held().into_iter().map(|(target, value)| format!("{target} holds {value}"));
        let groups = self.group_values.iter().map(|(group, value)| format!("group {group} has {value}"));
        threads.chain(held).chain(groups).collect()
    }
}
