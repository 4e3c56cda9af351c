//! What the daemon does about memory: it holds what the plan says while it runs, and keeps a killer alive.

use std::time::Duration;

use super::Engine;
use super::dry_run::Shown;
use super::killer::Child;
use super::poller::Token;
use super::restraint::Watch;
use super::status::{Activity, MechanismStatus};
use crate::device::error::sentence;
use crate::device::{BootTime, Target, zram_writeback};
use crate::mechanism::memory::apply::{Change, FOR_EVER, changes};
use crate::mechanism::memory::config::MemoryConfig;
use crate::mechanism::memory::{DeviceFacts, NAME, Plan, support};
use crate::mechanism::{Action, Decision, Effect, Interest, Outcome, Support, SupportState};

/// A killer that dies is replaced; one that dies at once is not, more often than this.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// What is done about memory now.
#[derive(Debug, Default)]
pub(super) struct Memory {
    config: MemoryConfig,
    held: Vec<Change>,
    /// What could not be restored so far; the journal tries again.
    stuck: Vec<Change>,
    /// The switch of the kernel's own limit of writeback, while that is ours.
    limit: Option<Target>,
    /// What the device offered when the configuration was last read.
    offered: Option<Support>,
    /// Since when something is held or watched.
    since: Option<BootTime>,
    killer: Option<Child>,
    /// Who is held back.
    pub(super) watch: Watch,
    /// What a dry run has shown.
    pub(super) shown: Shown,
    /// When a killer that died is started anew.
    pub(super) killer_due: Option<BootTime>,
}

impl Memory {
    /// Takes what became of leases that ended by themselves.
    pub(super) fn on_outcomes(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes.iter().filter(|outcome| outcome.held.is_none()) {
            self.held.retain(|change| change.target != outcome.target);
            self.stuck.retain(|change| change.target != outcome.target);
        }
    }
}

impl Engine {
    /// What it does about memory, for `brisk status`.
    pub(super) fn memory_status(&self) -> MechanismStatus {
        let mut work = Vec::new();
        if !self.memory.held.is_empty() {
            let held: Vec<String> =
                self.memory.held.iter().map(|change| format!("{} is {}", change.target, change.value)).collect();
            work.push(held.join(", "));
        }
        work.extend(self.memory.stuck.iter().map(|Change { target, value, .. }| {
            format!("{target} is still {value}, for it could not be restored; it is tried again")
        }));
        work.extend(self.memory.killer.as_ref().map(|killer| format!("the killer is process {}", killer.pid())));
        if self.memory.watch.is_on() {
            work.push("groups in the background that take memory others wait for are held back".to_owned());
        }
        let support = match &self.memory.offered {
            Some(offered) if work.is_empty() => offered.clone(),
            _ => Support { state: SupportState::Active, reason: work.join("; "), advice: String::new() },
        };
        let activity = self.memory.since.filter(|_| !work.is_empty());
        let activity = activity.map(|since| Activity { since, text: "memory is looked after".to_owned() });
        MechanismStatus { name: NAME.to_owned(), support, activity }
    }

    /// Does about memory what the configuration in force says.
    pub(super) fn follow_memory_config(&mut self, now: BootTime) {
        let config = self.layers.config.memory.clone();
        self.memory.offered = Some(support(&self.options.root));
        if config.zram != self.memory.config.zram {
            self.let_memory_go(now);
        }
        // The killer writes back from the zram device that was there when it was started.
        let is_new_killer = config != self.memory.config;
        self.memory.config = config;
        if self.memory.config.zram.enabled.is_on() && self.memory.held.is_empty() {
            self.hold_plan(now);
        }
        if is_new_killer {
            self.end_killer();
            self.let_limit_go(now);
            self.hold_limit(now);
            self.start_killer(now);
            self.follow_restraint_config(self.memory.config.restraint_s);
        }
        let works = !self.memory.held.is_empty() || self.memory.killer.is_some() || self.memory.watch.is_on();
        self.memory.since = self.memory.since.filter(|_| works).or(works.then_some(now));
        self.follow_dry_run_config(now);
        self.listen(now);
    }

    /// Holds what the plan says: all of it or nothing.
    fn hold_plan(&mut self, now: BootTime) {
        let plan = Plan::wished(&DeviceFacts::probe(&self.options.root), &self.memory.config.zram);
        let changes = match changes(&plan) {
            Ok(changes) => changes,
            Err(reason) => return tracing::warn!("{NAME}: {reason}"),
        };
        for change in changes {
            let Change { target, value, reason } = change.clone();
            let decision = Decision { action: Action::Lease { target, value, until: FOR_EVER }, reason };
            match self.executor.execute(now, NAME, decision) {
                Effect::Written | Effect::Unchanged => {
                    self.memory.stuck.retain(|stuck| stuck.target != change.target);
                    self.memory.held.push(change);
                }
                Effect::Refused(_) | Effect::Missing(_) => {
                    self.metrics.failures += 1;
                    tracing::warn!("{NAME}: the rest of the plan is not carried out, and what was done is given back");
                    return self.let_memory_go(now);
                }
            }
        }
    }

    /// Gives back what is held, the latest first.
    fn let_memory_go(&mut self, now: BootTime) {
        for change in std::mem::take(&mut self.memory.held).into_iter().rev() {
            let action = Action::Release { target: change.target.clone() };
            let decision = Decision { action, reason: "the configuration has changed".to_owned() };
            if matches!(self.executor.execute(now, NAME, decision), Effect::Refused(_)) {
                self.memory.stuck.push(change);
            }
        }
    }

    /// Lets the kernel itself hold writeback to its budget, unless somebody else has set a limit.
    fn hold_limit(&mut self, now: BootTime) {
        let root = &self.options.root;
        if !self.memory.config.killer.enabled.is_on() || self.memory.config.killer.writeback.daily_kib == 0 {
            return;
        }
        let switch = zram_writeback::device(root).map(|zram| zram_writeback::limit_switch(&zram.name));
        let Some(file) = switch.ok().filter(|file| root.read(file).is_ok_and(|value| value == "0")) else { return };
        let target = Target::Tunable(file.into());
        let action = Action::Lease { target: target.clone(), value: "1".to_owned(), until: FOR_EVER };
        let reason = "the kernel itself writes back no more than the budget".to_owned();
        if self.executor.execute(now, NAME, Decision { action, reason }) == Effect::Written {
            self.memory.limit = Some(target);
        }
    }

    fn let_limit_go(&mut self, now: BootTime) {
        if let Some(target) = self.memory.limit.take() {
            let reason = "the configuration has changed".to_owned();
            self.executor.execute(now, NAME, Decision { action: Action::Release { target }, reason });
        }
    }

    /// What it wants to hear.
    pub(super) fn memory_interest(&self) -> Interest {
        Interest { foreground: self.fetches_back(), ..Interest::default() }
    }

    fn fetches_back(&self) -> bool {
        let config = &self.memory.config.killer;
        config.enabled.is_on() && config.prefetch && (self.memory.killer.is_some() || self.executor.is_dry())
    }

    /// Whoever comes to the front gets back what it has on swap.
    pub(super) fn put_in_front(&mut self, pids: &[u32]) {
        if !self.fetches_back() {
            return;
        }
        match &mut self.memory.killer {
            Some(killer) => pids.iter().for_each(|&pid| killer.put_in_front(pid)),
            None => self.show_fetched(pids),
        }
    }

    pub(super) fn start_killer(&mut self, now: BootTime) {
        self.memory.killer_due = None;
        if !self.memory.config.killer.enabled.is_on() || self.executor.is_dry() {
            return;
        }
        // As the guardian.
        self.own_mask.narrow_to(None);
        let limits = self.memory.limit.is_some();
        let started = Child::start(&self.options.root, &self.memory.config.killer, limits);
        let watched = started.and_then(|killer| {
            self.poller.watch(&killer, Token::Killer)?;
            Ok(killer)
        });
        match watched {
            Ok(killer) => {
                tracing::info!("{NAME}: the killer is process {}", killer.pid());
                self.memory.killer = Some(killer);
            }
            Err(error) => {
                tracing::error!("{NAME}: {}; tried again in a moment", sentence(error.as_ref()));
                self.memory.killer_due = Some(now + RESTART_PAUSE);
            }
        }
    }

    /// The killer said that it is ready, or has died.
    pub(super) fn hear_killer(&mut self, now: BootTime) {
        if self.memory.killer.as_mut().is_some_and(|killer| !killer.hear()) {
            tracing::warn!("{NAME}: the killer died and is started anew");
            self.end_killer();
            self.memory.killer_due = Some(now + RESTART_PAUSE);
        }
    }

    pub(super) fn end_killer(&mut self) {
        if let Some(killer) = self.memory.killer.take() {
            self.poller.forget(&killer);
        }
    }
}
