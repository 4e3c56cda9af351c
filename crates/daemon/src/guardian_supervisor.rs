//! The daemon's guardian: started with it, and replaced when it dies.

use std::time::Duration;

use super::Engine;
use super::poller::Token;
use brisk_sys::BootTime;
use brisk_sys::error::sentence;
use brisk_undo::guardian::Guardian;
use brisk_undo::journal::Holder;

/// A guardian that has lived this long did not die of a failed start.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// This many consecutive guardians that die sooner are replaced at once: a daemon that is killed meanwhile has no guardian.
const IMMEDIATE_RESTARTS: u32 = 3;
/// The pause before each later replacement.
const RESTART_DELAY: Duration = Duration::from_secs(1);

/// The guardian, and when it is replaced.
#[derive(Debug, Default)]
pub(super) struct GuardianSupervisor {
    guardian: Option<Guardian>,
    due: Option<BootTime>,
    backoff: RestartBackoff,
}

impl GuardianSupervisor {
    /// Its process id, while one runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.guardian.as_ref().map(Guardian::pid)
    }

    /// When [`Engine::replace_guardian`] is due.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.due
    }
}

/// The number of consecutive guardians that died soon after their start.
#[derive(Debug, Default)]
struct RestartBackoff {
    started_at: BootTime,
    early_exits: u32,
}

impl RestartBackoff {
    /// When the guardian that has died by `now` is replaced.
    fn after_death(&mut self, now: BootTime) -> BootTime {
        if now.since(self.started_at) >= STABLE_AFTER {
            self.early_exits = 0;
        }
        self.after_failure(now)
    }

    /// When a failed start is retried. It always counts as a short life, since it may have taken long to fail.
    fn after_failure(&mut self, now: BootTime) -> BootTime {
        self.early_exits = self.early_exits.saturating_add(1);
        if self.early_exits <= IMMEDIATE_RESTARTS { now } else { now + RESTART_DELAY }
    }
}

impl Engine {
    pub(super) fn start_guardian(&mut self) -> anyhow::Result<()> {
        // A child would inherit the daemon's narrowed CPU mask.
        self.own_mask.narrow_to(None);
        self.guarding.backoff.started_at = BootTime::now();
        let root = &self.options.root;
        let guardian = Guardian::start(Holder::Daemon, &root.runtime_folder(), root)?;
        self.poller.watch(&guardian, Token::Guardian)?;
        self.guarding.guardian = Some(guardian);
        Ok(())
    }

    /// The guardian has died: until the next one runs, the daemon's death would leave everything changed.
    pub(super) fn handle_guardian_exit(&mut self, now: BootTime) {
        let Some(guardian) = self.guarding.guardian.take() else { return };
        tracing::warn!("the guardian (process {}) died; starting a new one", guardian.pid());
        self.poller.unwatch(&guardian);
        self.metrics.guardian_restarts += 1;
        // `guardian` is reaped when it is dropped at the end of this function: the replacement need not wait for that.
        self.guarding.due = Some(self.guarding.backoff.after_death(now));
        self.replace_guardian(now);
    }

    /// Starts the next guardian if it is due.
    pub(super) fn replace_guardian(&mut self, now: BootTime) {
        if self.guarding.due.take_if(|due| *due <= now).is_none() {
            return;
        }
        if let Err(error) = self.start_guardian() {
            tracing::error!("{}; will retry", sentence(error.as_ref()));
            self.guarding.due = Some(self.guarding.backoff.after_failure(BootTime::now()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    // Verifies UNDO-4.
    #[test]
    fn a_dead_guardian_is_replaced_at_once_unless_they_keep_dying() {
        // How long each guardian lives, and how long its replacement waits.
        for lives in [
            &[(30_000, 0)][..],
            &[(0, 0), (999, 0), (5, 0), (0, 1000), (999, 1000)],
            &[(0, 0), (0, 0), (0, 0), (0, 1000), (1000, 0), (10, 0), (10, 0), (10, 1000)],
            &[(1000, 0), (1000, 0), (1000, 0), (1000, 0), (1000, 0)],
        ] {
            let (mut backoff, mut now) = (RestartBackoff::default(), at(7));
            backoff.started_at = now;
            for (life_ms, pause_ms) in lives {
                now = now + Duration::from_millis(*life_ms);
                let due = backoff.after_death(now);
                assert_eq!(due.since(now), Duration::from_millis(*pause_ms), "{lives:?} at {now:?}");
                (now, backoff.started_at) = (due, due);
            }
        }
    }

    #[test]
    fn a_slow_failure_does_not_cause_endless_immediate_retries() {
        let mut backoff = RestartBackoff::default();
        let pauses: Vec<_> =
            (1..6).map(|nth| at(nth * 5000)).map(|now| backoff.after_failure(now).since(now)).collect();
        assert_eq!(pauses, [Duration::ZERO, Duration::ZERO, Duration::ZERO, RESTART_DELAY, RESTART_DELAY]);
    }
}
