//! Turns a step into demands on threads, groups and sessions, and these into leases and releases.

use std::collections::BTreeSet;

use super::opening::delays_opening;
use super::{LEASE, PlacementPolicy};
use crate::placement::config::Rule;
use crate::placement::cores::Split;
use crate::placement::groups::task_groups::TaskGroups;
use crate::placement::step::{DesiredValues, Step, StepKind};
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::Member;
use crate::{Decision, LeaseSet, Target};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::{GroupChoice, Memberships};
use brisk_sys::cpu::hotplug::format_list;
use brisk_sys::sched::priority::SchedulingPolicy;
use brisk_sys::sched::thread_facts::ThreadFacts;

impl PlacementPolicy {
    /// The threads that `step` restricts. A core is reserved only if all busy background threads keep off it, bulk or not. But
    /// a foreground with more threads than reserved cores may need the other cores too, so only bulk threads are moved there.
    pub(super) fn busy(&self, step: &Step) -> Vec<&Member> {
        let least = match step {
            Step::Isolate(split) if self.fits(split) => Class::Interactive,
            Step::Weight if self.opening.is_some() => Class::Interactive,
            _ => Class::Bulk,
        };
        let mut busy = self.roster.busy(least, &self.config.excluded_commands, self.maximum());
        busy.retain(|member| self.opening.is_none() || delays_opening(member));
        busy
    }

    /// True while the foreground has no more busy threads than reserved cores.
    pub(super) fn fits(&self, split: &Split) -> bool {
        self.roster.busy_foreground_threads().count() <= self.machine.core_count(&split.reserved)
    }

    /// Applies the step in force to the threads that it restricts now, and releases all others.
    pub(super) fn apply(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return self.apply_group_demands(now, decisions) };
        let (step, group_weights) = (held.step.clone(), self.group_demands_in_force(now));
        let wanted = self.wanted(now, &step);
        let reason = self.describe(&step);
        self.reconcile_leases(now, &wanted, &reason, decisions);
        let does =
            |(target, value): (&Target, &String)| group_weights.get(target) != Some(value) && self.leased.has(target);
        if !wanted.iter().any(does) {
            let refusal = self.leased.refusals().next().map(|(_, error)| error.to_owned());
            match refusal {
                Some(error) => self.give_up(now, &error),
                None => self.held = None,
            }
            self.window.clear();
        }
    }

    /// All demands while `step` is in force.
    fn wanted(&self, now: BootTime, step: &Step) -> DesiredValues {
        let mut wanted = self.group_demands_in_force(now);
        // By brisk's own rule, whole groups are deprioritised only while the foreground does not run less because of that.
        let may_be_whole = self.config.rule != Rule::Brisk || !wanted.is_empty();
        let whole = if may_be_whole { self.group_demands(now, step) } else { DesiredValues::new() };
        let busy = self.busy(step);
        let of_threads: DesiredValues = busy.into_iter().flat_map(|member| self.demands_of(step, member)).collect();
        if !of_threads.is_empty() {
            wanted.extend(self.demands_of_light(step));
        }
        wanted.extend(whole);
        wanted.extend(of_threads);
        wanted
    }

    /// True where `step` would change anything beyond the group demands in force.
    pub(super) fn changes_anything(&self, now: BootTime, step: &Step) -> bool {
        self.wanted(now, step) != self.group_demands_in_force(now)
    }

    /// True for a thread in a group or session that may be deprioritised as a whole: its own nice value would have no effect.
    fn is_in_lowerable_group(&self, member: &Member) -> bool {
        let group = self.task_groups.of(member).filter(|group| self.may_lower(group));
        group.is_some_and(|group| self.leased.refusal(&group).is_none())
    }

    /// The demands of `step` on a thread.
    fn demands_of(&self, step: &Step, member: &Member) -> Vec<(Target, String)> {
        let Some(facts) = &member.facts else { return Vec::new() };
        let nice_levels = self.nice_levels();
        let is_about_weight = step.kind() != StepKind::Isolate && facts.priority.policy == SchedulingPolicy::Other;
        if is_about_weight && self.is_in_lowerable_group(member) {
            return step.confinement(facts, &self.machine).into_iter().collect();
        }
        // A move to a cpuset may lose the binding of a thread, and a moved process may have threads that are not bulk.
        let is_bound = self.machine.cores().iter().any(|core| !facts.allowed.contains(&core.cpu));
        let moves_other_threads = || {
            let whole_process = facts.groups.cpu.as_ref().is_some_and(|from| from.whole_process);
            whole_process && !self.roster.is_single_threaded(member.thread.pid)
        };
        if facts.groups != Memberships::default() && (self.without_groups || is_bound || moves_other_threads()) {
            let facts = ThreadFacts { groups: Memberships::default(), ..facts.clone() };
            return step.demands_of(&facts, nice_levels, &self.machine);
        }
        step.demands_of(facts, nice_levels, &self.machine)
    }

    pub(super) fn nice_levels(&self) -> i32 {
        i32::try_from(self.config.nice_levels).unwrap_or(19)
    }

    /// Finds the groups that may be deprioritised, if there are bulk threads, and requests the facts that this needs.
    pub(super) fn update_task_groups(&mut self, now: BootTime) {
        if !self.config.sessions && self.config.groups == GroupChoice::Off {
            return;
        }
        let (excluded, maximum) = (&self.config.excluded_commands, self.maximum());
        let bulk = self.roster.busy(Class::Bulk, excluded, maximum);
        let moving = if self.may_be_moved() { self.roster.roots().clone() } else { BTreeSet::new() };
        self.task_groups.update((now, &self.roster, excluded), &bulk, &moving, (&mut self.unknown, maximum));
    }

    /// True while the foreground is so new that its manager may still move it into a control group of its own.
    pub(super) fn may_be_moved(&self) -> bool {
        self.may_be_moved_until.is_some() && self.task_groups.may_compete_by_weight()
    }

    /// True where the configuration permits to deprioritise this group.
    pub(super) fn may_lower(&self, group: &Target) -> bool {
        self.config.sessions || !matches!(group, Target::Autogroup(_))
    }

    /// A description of `step` on this device.
    pub(super) fn describe(&self, step: &Step) -> String {
        let confined = step.confined_to(&self.machine);
        let confined = confined.map(|cpus| format!(" and confined to the smallest cores (CPU {})", format_list(&cpus)));
        format!("{step}{}", confined.unwrap_or_default())
    }

    /// Changes the leases into `wanted`.
    pub(super) fn reconcile_leases(
        &mut self,
        now: BootTime,
        wanted: &DesiredValues,
        reason: &str,
        decisions: &mut Vec<Decision>,
    ) {
        let reasons = (reason, "the restriction is no longer needed");
        self.leased.reconcile(now, wanted, LEASE, reasons, decisions);
    }

    pub(super) fn release_where(&mut self, reason: &str, decisions: &mut Vec<Decision>, is_over: impl Fn(u32) -> bool) {
        self.leased.release_where(reason, decisions, |target| target.thread().is_some_and(&is_over));
    }

    /// Ends the step in force; whole sessions and groups stay deprioritised.
    pub(super) fn end_step(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.release_temporary_masks(decisions);
        if self.held.take().is_some() || !self.leased.is_empty() {
            self.window.clear();
        }
        reason.clone_into(&mut self.reason);
        let is_whole = |target: &Target| matches!(target, Target::GroupWeight(_) | Target::Autogroup(_));
        let goes_on = self.group_weights.is_some();
        self.leased.release_where(reason, decisions, |target| !(goes_on && is_whole(target)));
        self.invalidate_facts();
    }

    pub(super) fn release_all(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.release_temporary_masks(decisions);
        self.group_weights = None;
        if self.held.take().is_some() || !self.leased.is_empty() {
            self.window.clear();
        }
        reason.clone_into(&mut self.reason);
        if !self.leased.is_empty() {
            self.leased.release_where(reason, decisions, |_| true);
            self.invalidate_facts();
        }
    }

    /// The kernel refused the whole step: ends it, and adds it to the back-off.
    pub(super) fn give_up(&mut self, now: BootTime, error: &str) {
        let Some(held) = self.held.take() else { return };
        self.back_off.add(now, held.step.kind());
        self.window.clear();
        self.reason = format!("nothing is done, because the device refused: {error}");
    }

    /// The threads with leased values.
    pub(super) fn leased_threads(&self) -> impl Iterator<Item = u32> {
        self.leased.held().filter_map(|(target, _)| target.thread())
    }

    /// Has facts read again, except for threads that show leased values, and for threads in a leased group or session: without
    /// their facts that lease would end.
    pub(super) fn invalidate_facts(&mut self) {
        let is_deprioritised = is_deprioritised(&self.leased, &self.task_groups);
        self.roster.invalidate_facts(|member| !is_deprioritised(member));
    }
}

/// Whether a thread has a leased value, or is in a leased group or session.
pub(super) fn is_deprioritised(leased: &LeaseSet, task_groups: &TaskGroups) -> impl Fn(&Member) -> bool {
    let threads: BTreeSet<u32> = leased.in_force().filter_map(|(target, _)| target.thread()).collect();
    move |member| threads.contains(&member.thread.tid) || task_groups.of(member).is_some_and(|group| leased.has(&group))
}
