//! What the daemon does about control groups that take memory while others wait for some: a limit as a lease, which ends by
//! itself.

use std::time::Duration;

use super::Engine;
use super::killer::Foreseen;
use super::poller::Token;
use crate::device::cgroup::hierarchy;
use crate::device::cgroup::memory::{GroupLook, looks};
use crate::device::{BootTime, Root, psi};
use crate::mechanism::memory::NAME;
use crate::mechanism::memory::restraint::{is_background, restrain};
use crate::mechanism::{Action, Decision};

/// The kernel wakes the daemon, once a window, when tasks have waited so long for memory in it.
pub(super) const STALL_US: u32 = 25_000;
const WINDOW_US: u32 = 500_000;

/// What is watched, and what was seen last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    trigger: Option<psi::Trigger>,
    seen: Vec<GroupLook>,
    at: BootTime,
}

impl Watch {
    /// True while somebody may be held back.
    pub(super) fn is_on(&self) -> bool {
        self.trigger.is_some()
    }
}

/// Which groups would be held to what they have, for a dry run.
pub(super) fn foresee(root: &Root, restraint_s: u64) -> Foreseen {
    let groups = hierarchy::unified(root).map(|mount| looks(root, &mount)).unwrap_or_default();
    let count = groups.iter().filter(|look| is_background(look) && look.is_free).count();
    let reason = format!("for {restraint_s} s whichever of them takes memory while others wait for some");
    Foreseen::new("restrain", format!("{count} groups in the background"), reason)
}

impl Engine {
    /// Watches for stalls, or no longer, as the configuration says. A limit that is in force ends by itself.
    pub(super) fn follow_restraint_config(&mut self, restraint_s: u64) {
        if let Some(trigger) = std::mem::take(&mut self.memory.watch).trigger {
            self.poller.forget(&trigger);
        }
        if restraint_s == 0 || self.executor.is_dry() {
            return;
        }
        let trigger = psi::Trigger::open(&self.options.root, STALL_US, WINDOW_US);
        match trigger.map(|trigger| self.poller.watch(&trigger, Token::Pressure).map(|()| trigger)) {
            Ok(Ok(trigger)) => self.memory.watch.trigger = Some(trigger),
            Ok(Err(error)) => tracing::warn!("{NAME}: no group is held back: {error}"),
            Err(error) => tracing::warn!("{NAME}: no group is held back: {}", error.with_advice()),
        }
    }

    /// Tasks wait for memory: sees who has taken some since it was looked at last.
    pub(super) fn hold_groups_back(&mut self, now: BootTime) {
        let root = &self.options.root;
        let seen = hierarchy::unified(root).map(|mount| looks(root, &mount)).unwrap_or_default();
        let before = std::mem::replace(&mut self.memory.watch.seen, seen);
        let since = now.since(std::mem::replace(&mut self.memory.watch.at, now));
        let until = now + Duration::from_secs(self.layers.config.memory.restraint_s);
        let mut decisions = restrain(&before, &self.memory.watch.seen, since, until);
        // On a device a group that is held shows it; here it does not.
        let is_held = |decision: &Decision| {
            let Action::Lease { target, .. } = &decision.action else { return false };
            self.executor.leases().iter().any(|lease| lease.target == *target)
        };
        decisions.retain(|decision| !is_held(decision));
        let outcomes = self.executor.execute_each(now, NAME, &decisions);
        self.count(now, &outcomes);
    }
}
