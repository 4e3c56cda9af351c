//! The policy's own report: every thread that is awake, how it is treated, and why.

use super::PlacementPolicy;
use crate::Target;
use crate::placement::groups::task_groups::CompetesBy;
use crate::placement::snapshot::{MAXIMUM_LISTED_THREADS, PlacementSnapshot, ThreadView};
use crate::placement::step::Step;
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::{Member, most_demanding};
use crate::placement::trial::Trial;

/// A thread that is scheduled in less often than this counts as asleep.
const AWAKE_HZ: f64 = 0.2;

impl PlacementPolicy {
    fn view_of(&self, member: &Member, leased: Option<String>) -> ThreadView {
        let mut view = ThreadView::of(member, leased);
        if self.roster.is_bulk_fork_parent(member.thread.pid) && view.class != Class::Bulk {
            view.class = Class::Bulk;
            view.reason = "fork parent: its short-lived children are CPU-bound together".to_owned();
        }
        let counts = self.task_groups.competes_by(member).filter(|_| view.class == Class::Bulk && !view.is_foreground);
        if let Some(competes_by) = counts.filter(|competes_by| *competes_by != CompetesBy::Nice) {
            view.reason += &format!("; {competes_by}");
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
            let own = || self.leased.held().chain(self.temporary_masks.held()).filter(is_own);
            let is_mask = |target: &Target| matches!(target, Target::CpuAffinity { .. });
            let restriction = own().rev().find(|(target, _)| !is_mask(target)).map(|(_, value)| value.to_owned());
            let mask = own().find(|(target, _)| is_mask(target)).map(|(_, cpus)| format!("CPU {cpus}"));
            let of_group = || {
                let group = self.task_groups.of(member)?;
                let (target, value) = self.leased.held().find(|(target, _)| **target == group)?;
                let what = if matches!(target, Target::Autogroup(_)) { "session nice" } else { "group weight" };
                Some(format!("{what} {value}"))
            };
            let given: Vec<String> = restriction.or_else(of_group).into_iter().chain(mask).collect();
            (!given.is_empty()).then(|| given.join(", "))
        };
        let is_awake = |member: &&Member| {
            let statistics = &member.statistics;
            statistics.wakes_hz() >= AWAKE_HZ
                || statistics.demand() >= super::IDLE_DEMAND
                || treatment(member).is_some()
        };
        let awake = most_demanding(self.roster.members().filter(is_awake), MAXIMUM_LISTED_THREADS);
        let threads: Vec<ThreadView> =
            awake.into_iter().map(|member| self.view_of(member, treatment(member))).collect();
        let group_weights =
            self.group_weights.as_ref().and_then(|group_weights| group_weights.since()).map(|_| Step::Weight);
        let (totals, step) = (self.window.totals(), self.held.as_ref().map(|held| held.step.clone()).or(group_weights));
        PlacementSnapshot {
            support: self.support.clone(),
            rule: self.config.rule,
            is_on_trial: self.held.as_ref().and_then(|held| held.trial.as_ref()).is_some_and(Trial::is_first),
            step,
            reason: self.reason.clone(),
            foreground: self.roster.foreground().iter().copied().collect(),
            gain_bound: totals.gain_bound(),
            wait_share: totals.wait_share(),
            parallelism: self.window.parallelism(),
            cores: self.machine.cores().to_vec(),
            asleep: self.roster.members().count() - threads.len(),
            threads,
        }
    }
}
