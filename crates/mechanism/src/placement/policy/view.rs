//! The policy's own report: every thread that is awake, how it is treated, and why.

use super::PlacementPolicy;
use crate::Target;
use crate::placement::groups::task_groups::Reach;
use crate::placement::snapshot::{MOST_THREADS, PlacementSnapshot, ThreadView};
use crate::placement::step::Step;
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{Member, most_demanding};
use crate::placement::trial::Trial;

/// A thread that is scheduled in less often than this counts as asleep.
const AWAKE_HZ: f64 = 0.2;

impl PlacementPolicy {
    fn view_of(&self, member: &Member, leased: Option<String>) -> ThreadView {
        let mut view = ThreadView::of(member, leased);
        if self.roster.makes_room_for_children(member.thread.pid) && view.class != Class::Bulk {
            view.class = Class::Bulk;
            view.reason = "fork parent: its short-lived children are CPU-bound together".to_owned();
        }
        let counts = self.task_groups.reach(member).filter(|_| view.class == Class::Bulk && !view.is_front);
        if let Some(reach) = counts.filter(|reach| *reach != Reach::Nice) {
            view.reason += &format!("; {reach}");
        }
        let mut refusals = self.leased.refusals().filter(|(target, _)| target.thread() == Some(member.thread.tid));
        if let Some((_, error)) = refusals.next() {
            view.reason += &format!("; the device refused: {error}");
        }
        view
    }

    /// The current step and its reason, with every thread that is awake.
    pub fn snapshot(&self) -> PlacementSnapshot {
        let treatment = |member: &Member| {
            let is_own = |(target, _): &(&Target, &str)| target.thread() == Some(member.thread.tid);
            let own = || self.leased.held().chain(self.parted.held()).filter(is_own);
            let is_clamp = |target: &Target| matches!(target, Target::UtilizationClampMaximum { .. });
            let room = own().rev().find(|(target, _)| !is_clamp(target)).map(|(_, value)| value.to_owned());
            let clamp = own().find(|(target, _)| is_clamp(target)).map(|(_, value)| format!("uclamp.max {value}"));
            let of_group = || {
                let group = self.task_groups.of(member)?;
                let (target, value) = self.leased.held().find(|(target, _)| **target == group)?;
                let what = if matches!(target, Target::Autogroup(_)) { "session nice" } else { "group weight" };
                Some(format!("{what} {value}"))
            };
            let given: Vec<String> = room.or_else(of_group).into_iter().chain(clamp).collect();
            (!given.is_empty()).then(|| given.join(", "))
        };
        let is_awake = |member: &&Member| {
            let habits = &member.habits;
            habits.wakes_hz() >= AWAKE_HZ || habits.demand() >= super::AT_REST || treatment(member).is_some()
        };
        let awake = most_demanding(self.roster.members().filter(is_awake), MOST_THREADS);
        let threads: Vec<ThreadView> =
            awake.into_iter().map(|member| self.view_of(member, treatment(member))).collect();
        let standing = self.standing.as_ref().and_then(|standing| standing.since()).map(|_| Step::Weight);
        let (totals, step) = (self.window.totals(), self.held.as_ref().map(|held| held.step.clone()).or(standing));
        PlacementSnapshot {
            support: self.support.clone(),
            rule: self.config.rule,
            is_on_trial: self.held.as_ref().and_then(|held| held.trial.as_ref()).is_some_and(Trial::is_first),
            step,
            reason: self.reason.clone(),
            front: self.roster.front().iter().copied().collect(),
            gain_bound: totals.gain_bound(),
            wait_share: totals.wait_share(),
            parallelism: self.window.parallelism(),
            cores: self.machine.cores().to_vec(),
            upper_clamp: self.machine.modest_clamp(),
            asleep: self.roster.members().count() - threads.len(),
            threads,
        }
    }
}
