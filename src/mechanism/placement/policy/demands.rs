//! What a step asks of whom: turned into leases and releases, and those into what is leased.

use std::collections::BTreeSet;

use super::opening::makes_room_for_opening;
use super::{LEASE, PlacementPolicy};
use crate::device::BootTime;
use crate::device::cgroup::membership::Memberships;
use crate::device::priority::SchedulingPolicy;
use crate::device::thread_facts::ThreadFacts;
use crate::mechanism::placement::classify::Class;
use crate::mechanism::placement::cores::Split;
use crate::mechanism::placement::roster::Member;
use crate::mechanism::placement::step::{Demands, Step};
use crate::mechanism::{Decision, Target};

impl PlacementPolicy {
    /// Which tasks make room by `step`. A core is free when all busy ones keep off it, bulk or not. Where the foreground has
    /// more threads than cores it may need the others' as well, so those are not crowded: bulk work alone makes room.
    pub(super) fn busy(&self, step: &Step) -> Vec<&Member> {
        let least = match step {
            Step::Isolate(split) if self.fits(split) => Class::Interactive,
            Step::Weight if self.opening.is_some() => Class::Interactive,
            _ => Class::Bulk,
        };
        let mut busy = self.roster.busy(least, &self.config.excluded_commands, self.maximum());
        busy.retain(|member| self.opening.is_none() || makes_room_for_opening(member));
        busy
    }

    /// True while the foreground has no more busy threads than cores are kept free for it.
    pub(super) fn fits(&self, split: &Split) -> bool {
        self.roster.busy_front().count() <= split.reserved.len()
    }

    /// Applies the step to the threads that are bulk now, and to no other.
    pub(super) fn apply(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let busy = self.busy(&held.step);
        let sessions: BTreeSet<u64> =
            busy.iter().filter_map(|member| self.sessions.of(member)).map(|(id, _)| id).collect();
        let demands = busy.into_iter().flat_map(|member| self.demands_of(&held.step, member, sessions.len()));
        let mut wanted: Demands = demands.collect();
        if !wanted.is_empty() {
            wanted.extend(self.demands_of_light(&held.step));
        }
        let reason = self.words(&held.step);
        self.make(now, &wanted, &reason, decisions);
        if self.leased.is_empty() {
            let refusal = self.leased.refusals().next().map(|(_, error)| error.to_owned());
            match refusal {
                Some(error) => self.give_up(now, &error),
                None => self.held = None,
            }
            self.window.clear();
        }
    }

    /// What is asked of a thread where so many sessions make room.
    fn demands_of(&self, step: &Step, member: &Member, sessions: usize) -> Vec<(Target, String)> {
        let Some(facts) = &member.facts else { return Vec::new() };
        let nice_levels = self.nice_levels();
        let of_group = || {
            let (folder, own) = self.neighbours.of(member.thread.pid)?;
            Some((Target::GroupWeight(folder.clone()), step.weight_of_group(own, nice_levels)?))
        };
        let of_session = || {
            let (id, own) = self.sessions.of(member).filter(|_| self.config.sessions)?;
            Some((Target::Autogroup(id), step.nice_of_session(own, nice_levels, sessions)?))
        };
        let of_all = of_group().or_else(of_session);
        if let Some(demand) = of_all.filter(|(target, _)| self.leased.refusal(target).is_none())
            && facts.priority.policy == SchedulingPolicy::Other
        {
            // Its nice value would count for nothing, so until all is known nothing is done.
            let may_begin = !self.sessions.is_incomplete() || self.leased.has(&demand.0);
            let weight = Some(demand).filter(|(target, _)| may_begin || !matches!(target, Target::Autogroup(_)));
            return weight.into_iter().chain(step.clamp_of(facts, &self.machine)).collect();
        }
        // A cpuset may forget by whom a thread was bound, and a process may have threads that are not bulk.
        let is_bound = self.machine.cores().iter().any(|core| !facts.allowed.contains(&core.cpu));
        let takes_others = || {
            let whole_process = facts.groups.cpu.as_ref().is_some_and(|from| from.whole_process);
            whole_process && !self.roster.is_single(member.thread.pid)
        };
        if facts.groups != Memberships::default() && (self.without_groups || is_bound || takes_others()) {
            let facts = ThreadFacts { groups: Memberships::default(), ..facts.clone() };
            return step.demands_of(&facts, nice_levels, &self.machine);
        }
        step.demands_of(facts, nice_levels, &self.machine)
    }

    fn nice_levels(&self) -> i32 {
        i32::try_from(self.config.nice_levels).unwrap_or(19)
    }

    /// Finds out which sessions may weigh less, where there is bulk work to weigh less, and what must be known for that.
    pub(super) fn spare_sessions(&mut self) {
        if self.config.sessions && !self.busy(&Step::Weight).is_empty() {
            let maximum = self.maximum();
            self.sessions.spare(&self.roster, &self.config.excluded_commands, &mut self.unknown, maximum);
        }
    }

    /// What `step` means on this device.
    pub(super) fn words(&self, step: &Step) -> String {
        let clamp = step.modest_clamp(&self.machine);
        let clamp = clamp.map(|clamp| format!(" and claims no bigger core than the smallest (uclamp.max {clamp})"));
        format!("{step}{}", clamp.unwrap_or_default())
    }

    /// Changes what is leased into `wanted`.
    pub(super) fn make(&mut self, now: BootTime, wanted: &Demands, reason: &str, decisions: &mut Vec<Decision>) {
        let reasons = (reason, "it need not make room any more");
        self.leased.reconcile(now, wanted, LEASE, reasons, decisions);
    }

    pub(super) fn release_where(&mut self, reason: &str, decisions: &mut Vec<Decision>, is_over: impl Fn(u32) -> bool) {
        self.leased.release_where(reason, decisions, |target| target.thread().is_some_and(&is_over));
    }

    pub(super) fn release_all(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.rejoin_foreground(decisions);
        if self.held.take().is_some() || !self.leased.is_empty() {
            self.window.clear();
        }
        reason.clone_into(&mut self.reason);
        if !self.leased.is_empty() {
            self.leased.release_where(reason, decisions, |_| true);
            self.doubt_facts();
        }
    }

    /// The device refuses all of the step: it ends, and is tried again after a while.
    pub(super) fn give_up(&mut self, now: BootTime, error: &str) {
        let Some(held) = self.held.take() else { return };
        self.back_off.add(now, held.step.rung());
        self.window.clear();
        self.reason = format!("nothing is done, because the device refused: {error}");
    }

    /// The threads that show what they have been made to give up.
    pub(super) fn leased_threads(&self) -> impl Iterator<Item = u32> {
        self.leased.held().filter_map(|(target, _)| target.thread())
    }

    /// Has facts asked for again, but not those of threads that show what they have been made to give up, nor of those that do
    /// so with their group or session, which would end for want of them.
    pub(super) fn doubt_facts(&mut self) {
        let of_group = |member: &&Member| {
            let group = self.neighbours.of(member.thread.pid).map(|(folder, _)| Target::GroupWeight(folder.clone()));
            let session = self.sessions.of(member).map(|(id, _)| Target::Autogroup(id));
            group.into_iter().chain(session).any(|target| self.leased.has(&target))
        };
        let mut leased: BTreeSet<u32> = self.leased.in_force().filter_map(|(target, _)| target.thread()).collect();
        leased.extend(self.roster.members().filter(of_group).map(|member| member.thread.tid));
        self.roster.doubt_facts(|tid| !leased.contains(&tid));
    }
}
