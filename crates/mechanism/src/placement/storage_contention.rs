//! When storage is sampled for the foreground, and the questions to the engine for that: first how long the foreground waits,
//! then how much each process reads and writes, and last the threads that could be deprioritised. `storage` decides. Pure.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::config::PlacementConfig;
use super::storage::{JudgedTrial, SAMPLING_PERIOD, StoragePolicy, StorageSample, StorageThread};
use crate::contract::facts::{ThreadOfProcess, by_life};
use crate::{Decision, Facts, Glob, Outcome, Question};
use brisk_sys::BootTime;
use brisk_sys::io::io_priority::IoPriority;
use brisk_sys::process::ProcessIdentity;

/// The storage policy and the state of its questions.
#[derive(Debug, Default)]
pub(super) struct StorageContention {
    /// `None` while nothing is done about storage.
    policy: Option<StoragePolicy>,
    excluded_commands: Vec<Glob>,
    /// The foreground's control group.
    group: Option<PathBuf>,
    /// How long the foreground has waited, while the question about storage use is open.
    waited: Duration,
    next: Option<BootTime>,
    questions: Vec<Question>,
}

impl StorageContention {
    /// Lowers priorities to `lowest` under `config` from now on; with `None`, does nothing. All leases were released before.
    pub(super) fn replace(&mut self, lowest: Option<IoPriority>, config: &PlacementConfig) {
        *self = Self {
            policy: lowest.map(|lowest| StoragePolicy::new(config.minimum_gain_percent, lowest)),
            excluded_commands: config.excluded_commands.clone(),
            ..Self::default()
        };
    }

    /// Starts or stops sampling with the foreground.
    pub(super) fn update_foreground(&mut self, now: BootTime, has_foreground: bool, decisions: &mut Vec<Decision>) {
        if self.policy.is_none() {
            return;
        }
        match (has_foreground, self.next) {
            (true, None) => self.next = Some(now + SAMPLING_PERIOD),
            (false, Some(_)) => self.stop("there is no foreground", decisions),
            _ => {}
        }
    }

    /// When the next sample is due.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.next
    }

    /// Asks how long the processes of `foreground` wait, when that is due.
    pub(super) fn on_deadline(&mut self, now: BootTime, foreground: &BTreeSet<u32>) {
        if self.next.is_some_and(|next| next <= now) {
            self.next = Some(now + SAMPLING_PERIOD);
            self.questions.push(Question::StorageWait { processes: foreground.clone() });
        }
    }

    pub(super) fn take_judged(&mut self) -> Option<JudgedTrial> {
        self.policy.as_mut().and_then(StoragePolicy::take_judged)
    }

    pub(super) fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    /// Takes an answer, and asks the next question or decides.
    pub(super) fn take(
        &mut self,
        now: BootTime,
        facts: &Facts,
        foreground: &BTreeSet<u32>,
        decisions: &mut Vec<Decision>,
    ) {
        // The foreground may have gone since the question.
        if self.next.is_none() {
            return;
        }
        match facts {
            Facts::StorageWait { group, waited } => self.on_storage_wait(now, group.as_ref(), *waited, decisions),
            Facts::StorageUse { busy, moved, members, children } => {
                let Some(policy) = &mut self.policy else { return };
                for (of, kin) in children {
                    policy.note_kin(*of, kin.iter().copied());
                }
                // Other members of the group count as foreground.
                let foreground = foreground.iter().chain(members).copied().collect();
                let sample = StorageSample { waited: self.waited, busy: *busy, moved: by_life(moved) };
                let processes: Vec<ProcessIdentity> = policy.take(now, sample, &foreground, decisions);
                if !processes.is_empty() {
                    self.questions.push(Question::Threads { processes });
                }
            }
            Facts::Threads { threads } => {
                let is_free = |thread: &&ThreadOfProcess| {
                    !self.excluded_commands.iter().any(|glob| glob.matches(&thread.command))
                };
                let threads: Vec<_> = threads.iter().filter(is_free).map(StorageThread::of).collect();
                self.policy.iter_mut().for_each(|policy| policy.lower_priorities(now, &threads, decisions));
            }
            // No other question is asked.
            _ => {}
        }
    }

    fn on_storage_wait(
        &mut self,
        now: BootTime,
        group: Option<&PathBuf>,
        waited: Option<Duration>,
        decisions: &mut Vec<Decision>,
    ) {
        if group != self.group.as_ref() {
            self.group = group.cloned();
            return self.reset("the foreground changed", decisions);
        }
        let Some(waited) = waited else {
            return self.reset("the kernel does not report how long the foreground waits for storage", decisions);
        };
        let Some(policy) = &mut self.policy else { return };
        if policy.wants_sample(now, waited) {
            self.waited = waited;
            let parents = policy.parents().collect();
            self.questions.push(Question::StorageUse { group: self.group.clone(), parents });
        }
    }

    /// Releases everything, and samples no more until there is a foreground.
    pub(super) fn stop(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.reset(why, decisions);
        (self.group, self.next) = (None, None);
    }

    /// Releases everything and starts over.
    fn reset(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.policy.iter_mut().for_each(|policy| policy.reset(why, decisions));
    }

    /// Takes the outcomes of its decisions.
    pub(super) fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome]) {
        if !outcomes.is_empty() {
            self.policy.iter_mut().for_each(|policy| policy.on_outcomes(now, outcomes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Action, Effect, Target};
    use brisk_sys::io::io_priority::IoClass;

    const LAST: IoPriority = IoPriority { class: IoClass::BestEffort, data: 7 };
    const NONE: IoPriority = IoPriority { class: IoClass::None, data: 0 };

    fn life(pid: u32) -> ProcessIdentity {
        ProcessIdentity { pid, start_time_ticks: 100 }
    }

    fn thread(tid: u32, command: &str) -> ThreadOfProcess {
        ThreadOfProcess { tid, start_time_ticks: 100, command: command.to_owned(), io_priority: NONE }
    }

    /// One second on a device where process 1 is a waiting foreground and process 2 moves most bytes.
    fn second(storage: &mut StorageContention, now: BootTime, seconds: u64) -> Vec<Decision> {
        let (foreground, mut decisions, mut asked) = (BTreeSet::from([1]), Vec::new(), Vec::new());
        storage.update_foreground(now, true, &mut decisions);
        storage.on_deadline(now, &foreground);
        storage.take_questions(&mut asked);
        while let Some(question) = asked.pop() {
            let of = Duration::from_secs(seconds);
            let facts = match question {
                Question::StorageWait { processes } => {
                    assert_eq!(processes, foreground);
                    Facts::StorageWait { group: Some("/cg/foreground".into()), waited: Some(of * 9 / 10) }
                }
                Question::StorageUse { group, .. } => {
                    assert_eq!(group, Some("/cg/foreground".into()));
                    let moved = vec![(life(1), seconds * (10 << 20)), (life(2), seconds * (40 << 20))];
                    Facts::StorageUse { busy: of, moved, members: vec![1], children: Vec::new() }
                }
                Question::Threads { processes } => {
                    assert_eq!(processes, [life(2)]);
                    Facts::Threads { threads: vec![thread(2, "dd"), thread(3, "backup")] }
                }
                other => panic!("{other:?}"),
            };
            storage.take(now, &facts, &foreground, &mut decisions);
            storage.take_questions(&mut asked);
        }
        decisions
    }

    // Verifies PLACE-2.
    #[test]
    fn each_answer_leads_to_the_next_query_and_then_to_decisions() {
        let mut storage = StorageContention::default();
        assert_eq!(storage.deadline(), None);
        let config =
            PlacementConfig { excluded_commands: vec!["backup".parse().unwrap()], ..PlacementConfig::default() };
        storage.replace(Some(LAST), &config);
        let mut decisions = Vec::new();
        for seconds in 1..=8 {
            assert_eq!(decisions, [], "before second {seconds}");
            decisions = second(&mut storage, BootTime::from_milliseconds(seconds * 1000), seconds);
            if !decisions.is_empty() {
                break;
            }
        }
        let target = Target::IoPriority { tid: 2, start_time_ticks: 100 };
        let [Decision { action: Action::Lease { target: leased, value, .. }, .. }] = &decisions[..] else {
            panic!("{decisions:?}");
        };
        assert_eq!((leased, value.as_str()), (&target, "best-effort 7"));
        let held = Some(value.clone());
        let now = BootTime::from_milliseconds(9000);
        storage.on_outcomes(now, &[Outcome { target: target.clone(), effect: Effect::Written, held }]);
        let mut released = Vec::new();
        storage.update_foreground(now, false, &mut released);
        assert_eq!(released[0].action, Action::Release { target });
        assert_eq!(storage.deadline(), None);
        // A late answer changes nothing.
        let late = Facts::Threads { threads: vec![thread(2, "dd")] };
        storage.take(now, &late, &BTreeSet::new(), &mut decisions);
        assert_eq!(decisions.len(), 1);
    }
}
