//! What a step asks of whom: turned into leases and releases, and those into what is leased.

use std::collections::BTreeSet;

use super::opening::makes_room_for_opening;
use super::{LEASE, PlacementPolicy};
use crate::placement::config::Rule;
use crate::placement::cores::Split;
use crate::placement::step::{Demands, Rung, Step};
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::Member;
use crate::{Decision, Target};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::Memberships;
use brisk_sys::sched::priority::SchedulingPolicy;
use brisk_sys::sched::thread_facts::ThreadFacts;

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
        let Some(held) = &self.held else { return self.hold_standing(now, decisions) };
        let (step, standing) = (held.step.clone(), self.standing_demands(now));
        let wanted = self.wanted(now, &step);
        let reason = self.words(&step);
        self.make(now, &wanted, &reason, decisions);
        let does = |(target, value): (&Target, &String)| standing.get(target) != Some(value) && self.leased.has(target);
        if !wanted.iter().any(does) {
            let refusal = self.leased.refusals().next().map(|(_, error)| error.to_owned());
            match refusal {
                Some(error) => self.give_up(now, &error),
                None => self.held = None,
            }
            self.window.clear();
        }
    }

    /// All that is to be leased while `step` is in force.
    fn wanted(&self, now: BootTime, step: &Step) -> Demands {
        let mut wanted = self.standing_demands(now);
        // By brisk's own rule they weigh less only as long as the foreground does not run less by that.
        let may_be_whole = self.config.rule != Rule::Brisk || !wanted.is_empty();
        let whole = if may_be_whole { self.whole_demands(now, step) } else { Demands::new() };
        let busy = self.busy(step);
        let of_threads: Demands = busy.into_iter().flat_map(|member| self.demands_of(step, member)).collect();
        if !of_threads.is_empty() {
            wanted.extend(self.demands_of_light(step));
        }
        wanted.extend(whole);
        wanted.extend(of_threads);
        wanted
    }

    /// True where `step` would change anything that does not weigh less as a whole already.
    pub(super) fn adds(&self, now: BootTime, step: &Step) -> bool {
        self.wanted(now, step) != self.standing_demands(now)
    }

    /// True for a thread whose group or session may weigh less as a whole: its nice value would count for nothing.
    fn is_in_whole(&self, member: &Member) -> bool {
        let group = || self.neighbours.of(member.thread.pid).map(|(folder, _)| Target::GroupWeight(folder.clone()));
        let session = || self.sessions.of(member).filter(|_| self.config.sessions).map(|(id, _)| Target::Autogroup(id));
        group().or_else(session).is_some_and(|target| self.leased.refusal(&target).is_none())
    }

    /// What is asked of a thread.
    fn demands_of(&self, step: &Step, member: &Member) -> Vec<(Target, String)> {
        let Some(facts) = &member.facts else { return Vec::new() };
        let nice_levels = self.nice_levels();
        let is_about_weight = step.rung() != Rung::Isolate && facts.priority.policy == SchedulingPolicy::Other;
        if is_about_weight && self.is_in_whole(member) {
            return step.clamp_of(facts, &self.machine).into_iter().collect();
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

    pub(super) fn nice_levels(&self) -> i32 {
        i32::try_from(self.config.nice_levels).unwrap_or(19)
    }

    /// Finds out which sessions may weigh less, where there is bulk work to weigh less, and what must be known for that.
    pub(super) fn spare_sessions(&mut self, now: BootTime) {
        if !self.config.sessions {
            return;
        }
        let busy = self.roster.busy(Class::Bulk, &self.config.excluded_commands, self.maximum());
        self.sessions.note(now, &busy);
        if !busy.is_empty() || self.sessions.has_bulk(now) {
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

    /// Ends the step in force; what weighs less as a whole goes on so.
    pub(super) fn end_step(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.rejoin_foreground(decisions);
        if self.held.take().is_some() || !self.leased.is_empty() {
            self.window.clear();
        }
        reason.clone_into(&mut self.reason);
        let is_whole = |target: &Target| matches!(target, Target::GroupWeight(_) | Target::Autogroup(_));
        let goes_on = self.standing.is_some();
        self.leased.release_where(reason, decisions, |target| !(goes_on && is_whole(target)));
        self.doubt_facts();
    }

    pub(super) fn release_all(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.rejoin_foreground(decisions);
        self.standing = None;
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
