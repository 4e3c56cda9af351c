//! Whether a job is left to another manager while managers start and stop: pure, with the time passed in.
//!
//! A mechanism that is enabled automatically holds a [`Deference`]. It queries the running managers
//! ([`super::Question::OtherManagers`]) when a check is due: some time after a process start, sooner if the process is named
//! like a manager, and by timer alone while no process events arrive. A manager must have been absent for
//! [`Intervals::away`], so that a manager that restarts switches nothing on and off.

use std::time::Duration;

use super::Job;
use brisk_sys::BootTime;
use brisk_sys::system::other_managers::{self, FoundManager};

/// A new process gets this long to exec and take its final name.
const EXEC_SETTLE_TIME: Duration = Duration::from_secs(2);
/// Any user may start processes named like a manager; they trigger at most one query in this time.
const NAMED_QUERY_INTERVAL: Duration = Duration::from_secs(5);

/// How often managers are queried, and how long they must have been absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Intervals {
    /// The minimum interval after process starts, and the interval while the job is left to a manager.
    pub check: Duration,
    /// The job is taken over once no manager has run for this long.
    pub away: Duration,
}

/// What an answer changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeferenceChange {
    /// The job is now left to a manager that has started.
    Deferred,
    /// No manager does the job any more.
    TakenOver,
}

/// Which managers a job is left to.
#[derive(Debug)]
pub struct Deference {
    job: Job,
    intervals: Intervals,
    state: State,
    /// The last query.
    checked: BootTime,
    /// The next query.
    due: Option<BootTime>,
    /// Process events reach the mechanism.
    has_process_events: bool,
}

#[derive(Debug)]
enum State {
    /// Other managers do not matter.
    Disabled,
    /// No manager does the job.
    NoManager,
    /// These managers do it.
    Deferred { managers: Vec<FoundManager>, have_started: bool },
    /// These managers did it until `since`.
    ManagerAbsent { managers: Vec<FoundManager>, since: BootTime },
}

impl Deference {
    /// For `job`; other managers are ignored until [`Deference::reconfigure`].
    pub fn new(job: Job) -> Self {
        Self {
            job,
            intervals: Intervals { check: Duration::MAX, away: Duration::MAX },
            state: State::Disabled,
            checked: BootTime::default(),
            due: None,
            has_process_events: false,
        }
    }

    /// Continues after the device or the configuration has changed. `intervals` has the query intervals and the managers found;
    /// with `None`, managers are ignored. Returns the managers that the job is left to.
    pub fn reconfigure(
        &mut self,
        now: BootTime,
        intervals: Option<(Intervals, &[FoundManager])>,
        is_new_configuration: bool,
    ) -> Option<String> {
        match intervals {
            None => self.rest(),
            Some((intervals, found)) if is_new_configuration => self.begin(now, found, intervals),
            Some((_, found)) => drop(self.answer(now, found)),
        }
        self.managers()
    }

    /// The user has decided: other managers are ignored.
    fn rest(&mut self) {
        self.state = State::Disabled;
        self.due = None;
    }

    /// Starts from the managers `found`, without hysteresis.
    fn begin(&mut self, now: BootTime, found: &[FoundManager], intervals: Intervals) {
        self.intervals = intervals;
        let managers = self.managers_of_job(found);
        self.state =
            if managers.is_empty() { State::NoManager } else { State::Deferred { managers, have_started: false } };
        self.has_process_events = false;
        self.schedule(now);
    }

    /// Takes the managers that run now.
    pub fn answer(&mut self, now: BootTime, found: &[FoundManager]) -> Option<DeferenceChange> {
        let managers = self.managers_of_job(found);
        let away = self.intervals.away;
        let (state, change) = match (std::mem::replace(&mut self.state, State::Disabled), managers.is_empty()) {
            (State::Disabled, _) => return None,
            (State::NoManager, true) => (State::NoManager, None),
            (State::NoManager, false) => {
                (State::Deferred { managers, have_started: true }, Some(DeferenceChange::Deferred))
            }
            (State::Deferred { have_started, .. }, false) => (State::Deferred { managers, have_started }, None),
            (State::ManagerAbsent { .. }, false) => (State::Deferred { managers, have_started: true }, None),
            (State::Deferred { managers, .. }, true) if !away.is_zero() => {
                (State::ManagerAbsent { managers, since: now }, None)
            }
            (State::ManagerAbsent { managers, since }, true) if now.since(since) < away => {
                (State::ManagerAbsent { managers, since }, None)
            }
            (State::Deferred { .. } | State::ManagerAbsent { .. }, true) => {
                (State::NoManager, Some(DeferenceChange::TakenOver))
            }
        };
        self.state = state;
        self.has_process_events &= change.is_none();
        self.schedule(now);
        change
    }

    /// A process has started, or process events were lost. `command` is its name, where it is known.
    pub fn on_process_start(&mut self, now: BootTime, command: Option<&str>) {
        if !matches!(self.state, State::NoManager) {
            return;
        }
        self.has_process_events = true;
        let due = match command.is_some_and(other_managers::may_be_manager) {
            true => now.max(self.checked + NAMED_QUERY_INTERVAL),
            false => (now + EXEC_SETTLE_TIME).max(self.checked + self.intervals.check),
        };
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// When the next query is due.
    pub fn deadline(&self) -> Option<BootTime> {
        self.due
    }

    /// True once when a query is due.
    pub fn take_due(&mut self, now: BootTime) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// The managers that the job is left to, their evidence, and whether they have started or gone; `None` if there is none.
    pub fn managers(&self) -> Option<String> {
        let (managers, what) = match &self.state {
            State::Disabled | State::NoManager => return None,
            State::Deferred { managers, have_started: false } => (managers, String::new()),
            State::Deferred { managers, have_started: true } => {
                (managers, format!(", which {} started", has(managers)))
            }
            State::ManagerAbsent { managers, .. } => {
                let away_s = self.intervals.away.as_secs();
                (managers, format!(", which {} gone; this is taken over after {away_s} s without", has(managers)))
            }
        };
        self.job.managers(managers).map(|managers| managers + &what)
    }

    /// Why the job is left to other managers: `tuned has started`.
    pub fn reason(&self) -> String {
        let managers = match &self.state {
            State::Deferred { managers, .. } | State::ManagerAbsent { managers, .. } => &managers[..],
            State::Disabled | State::NoManager => &[],
        };
        let names: Vec<String> = managers.iter().map(|found| found.name.to_string()).collect();
        format!("{} {} started", names.join(" and "), has(managers))
    }

    fn managers_of_job(&self, found: &[FoundManager]) -> Vec<FoundManager> {
        found.iter().filter(|found| Job::of(found.name) == self.job).cloned().collect()
    }

    fn schedule(&mut self, now: BootTime) {
        self.checked = now;
        let next = now + self.intervals.check;
        self.due = match self.state {
            State::Disabled => None,
            State::NoManager => (!self.has_process_events).then_some(next),
            State::Deferred { .. } => Some(next),
            State::ManagerAbsent { since, .. } => Some(next.min((since + self.intervals.away).max(now))),
        };
    }
}

fn has(managers: &[FoundManager]) -> &'static str {
    if managers.len() == 1 { "has" } else { "have" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::system::other_managers::OtherManager;

    fn at(seconds: u64) -> BootTime {
        BootTime::from_milliseconds(seconds * 1000)
    }

    fn there(managers: &[OtherManager]) -> Vec<FoundManager> {
        managers.iter().map(|&name| FoundManager { name, evidence: "x".to_owned() }).collect()
    }

    const INTERVALS: Intervals = Intervals { check: Duration::from_secs(60), away: Duration::from_secs(120) };

    fn beginning_with(managers: &[OtherManager]) -> Deference {
        let mut deference = Deference::new(Job::Frequency);
        deference.begin(at(0), &there(managers), INTERVALS);
        deference
    }

    const TUNED: &[OtherManager] = &[OtherManager::Tuned];
    const BOTH: &[OtherManager] = &[OtherManager::Tuned, OtherManager::Tlp];
    const KILLER: &[OtherManager] = &[OtherManager::Earlyoom];

    // Verifies ON-2.
    #[test]
    fn a_manager_that_comes_goes_and_flaps_switches_once_each_way() {
        // Second, running managers, expected change, expected text.
        type Row = (u64, &'static [OtherManager], Option<DeferenceChange>, Option<&'static str>);
        let courses: [(&[OtherManager], &[Row]); 4] = [
            (
                &[],
                &[
                    (60, &[], None, None),
                    (120, KILLER, None, None),
                    (180, TUNED, Some(DeferenceChange::Deferred), Some("tuned (x), which has started")),
                    (240, BOTH, None, Some("tuned (x) and TLP (x), which have started")),
                    (300, TUNED, None, Some("tuned (x), which has started")),
                    (360, &[], None, Some("tuned (x), which has gone; this is taken over after 120 s without")),
                    (420, &[], None, Some("tuned (x), which has gone; ")),
                    (480, &[], Some(DeferenceChange::TakenOver), None),
                    (540, TUNED, Some(DeferenceChange::Deferred), Some("tuned (x), which has started")),
                ],
            ),
            (
                TUNED,
                &[
                    (60, TUNED, None, Some("tuned (x)")),
                    (120, &[], None, Some("has gone")),
                    (240, &[], Some(DeferenceChange::TakenOver), None),
                ],
            ),
            // It restarts repeatedly, each time before `away` has passed.
            (
                TUNED,
                &[
                    (60, &[], None, Some("has gone")),
                    (120, TUNED, None, Some("tuned (x), which has started")),
                    (180, &[], None, Some("has gone")),
                    (299, &[], None, Some("has gone")),
                    (300, &[], Some(DeferenceChange::TakenOver), None),
                ],
            ),
            (KILLER, &[(60, KILLER, None, None)]),
        ];
        for (first, course) in courses {
            let mut deference = beginning_with(first);
            for &(second, managers, change, told) in course {
                assert_eq!(deference.answer(at(second), &there(managers)), change, "at {second} s");
                let managers = deference.managers();
                assert_eq!(managers.is_some(), told.is_some(), "at {second} s: {managers:?}");
                assert!(
                    managers.unwrap_or_default().contains(told.unwrap_or_default()),
                    "at {second} s: {deference:?}"
                );
            }
        }
    }

    // Verifies ON-2.
    #[test]
    fn starts_with_present_managers_and_rests_if_the_user_decided() {
        assert_eq!(beginning_with(&[]).managers(), None);
        assert_eq!(beginning_with(TUNED).managers().as_deref(), Some("tuned (x)"));
        let mut deference = beginning_with(TUNED);
        deference.rest();
        assert_eq!((deference.managers(), deference.deadline()), (None, None));
        assert_eq!(deference.answer(at(9), &there(TUNED)), None, "an answer that comes too late");
        deference.on_process_start(at(10), Some("tuned"));
        assert_eq!((deference.managers(), deference.deadline()), (None, None));
        let mut at_once = Deference::new(Job::Frequency);
        at_once.begin(at(0), &there(TUNED), Intervals { away: Duration::ZERO, ..INTERVALS });
        assert_eq!(at_once.answer(at(60), &[]), Some(DeferenceChange::TakenOver), "no hysteresis when `away` is zero");
    }

    // Verifies ON-2.
    #[test]
    fn managers_are_probed_on_process_starts_otherwise_by_timer() {
        let due = |deference: &Deference| deference.deadline().map(|due| due.since(at(0)).as_secs());
        let mut deference = beginning_with(&[]);
        assert_eq!(due(&deference), Some(60), "no process event yet");
        assert!(!deference.take_due(at(59)) && deference.take_due(at(60)) && !deference.take_due(at(60)), "once");
        deference.answer(at(60), &[]);
        deference.on_process_start(at(70), Some("make"));
        assert_eq!(due(&deference), Some(120), "once a minute");
        deference.answer(at(120), &[]);
        assert_eq!(due(&deference), None, "an idle device is not woken");
        deference.on_process_start(at(500), None);
        assert_eq!(due(&deference), Some(502), "the new process settles first");
        deference.on_process_start(at(501), Some("tuned"));
        assert_eq!(due(&deference), Some(501), "a process named like a manager is checked at once");
        deference.answer(at(501), &[]);
        deference.on_process_start(at(502), Some("gamemoded"));
        assert_eq!(due(&deference), Some(506), "processes named like managers cause few checks");
        deference.answer(at(506), &there(TUNED));
        assert_eq!(due(&deference), Some(566), "by timer while the job is left to it");
        deference.on_process_start(at(507), Some("make"));
        assert_eq!(due(&deference), Some(566));
        deference.answer(at(600), &[]);
        assert_eq!(due(&deference), Some(660));
        deference.answer(at(700), &[]);
        assert_eq!(due(&deference), Some(720), "`away` has passed");
        deference.answer(at(720), &[]);
        assert_eq!(due(&deference), Some(780), "by timer until a process event arrives");
    }
}
