//! Judges whether a step helped: compares the foreground before and after it, and checks light threads for missed periods.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ablation::{Part, is_off};
use super::gain::Totals;
use super::threads::classify::Class;
use super::threads::roster::Roster;
use brisk_sys::BootTime;
use brisk_sys::process::schedstat::Usage;
use brisk_sys::sched::threads::Sample;

/// The step helps if the foreground's wait share falls to at most this fraction of the baseline.
const MAXIMUM_WAIT_RATIO: f64 = 0.75;
/// Up to this fraction the improvement may still come: the trial is extended.
const EXTENSION_WAIT_RATIO: f64 = 0.9;
/// Below this fraction of the baseline's run rate the result is unclear: the foreground has less to do, or needs bulk threads.
const MINIMUM_RUN_RATIO: f64 = 0.85;
/// Below this fraction the foreground is idle and may continue soon: the trial is extended.
const IDLE_RUN_RATIO: f64 = 0.1;
/// The warm-up is one part in this many of a trial: threads take time to move.
const WARM_UP_DIVISOR: u32 = 3;
/// A step that helps is confirmed by a second trial that is this many times as long.
const CONFIRMATION_FACTOR: u32 = 4;
/// The most extensions of a trial without a clear result.
const EXTENSIONS: u32 = 2;

/// A light thread misses its period if it waits longer than this per wake-up and more than twice as long as before.
const MISSED_PERIOD_DELAY: Duration = Duration::from_millis(3);
/// With fewer wake-ups it is not judged.
const MINIMUM_WAKEUPS: u32 = 3;
/// With this demand or more it is not judged either: it did more than periodic work.
const PERIODIC_DEMAND: f64 = 0.25;
/// How often periods are judged.
const JUDGING_PERIOD: Duration = Duration::from_secs(1);

/// The result of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialVerdict {
    /// No result yet.
    Open,
    /// The foreground waits less and runs no less.
    Helps,
    /// The step does not help, and why.
    Useless(String),
    /// The foreground waits less but also runs less; only a measurement without the step can show whether the step caused that.
    Unclear(String),
}

/// A step on trial.
#[derive(Debug, Clone)]
pub struct Trial {
    before: Totals,
    after: Totals,
    warm_up_ends: BootTime,
    ends: BootTime,
    length: Duration,
    extensions: u32,
    is_first: bool,
}

impl Trial {
    /// A trial that starts at `now`, lasts `length`, and compares with the baseline `before`.
    pub fn new(now: BootTime, length: Duration, before: Totals) -> Self {
        Self {
            before,
            after: Totals::default(),
            warm_up_ends: now + length / WARM_UP_DIVISOR,
            ends: now + length,
            length,
            extensions: 0,
            is_first: true,
        }
    }

    /// Adds a sample that ended at `now`, and judges at the end of the trial.
    pub fn take(&mut self, now: BootTime, sample: Totals) -> TrialVerdict {
        if now.since(self.warm_up_ends).as_nanos() >= u128::from(sample.wall_ns) {
            self.after += sample;
        }
        if now < self.ends {
            return TrialVerdict::Open;
        }
        let (ran, runs) = (self.before.run_rate(), self.after.run_rate());
        // The step changes the waiting time, so only the run time shows how much the foreground has to do.
        if runs < ran * IDLE_RUN_RATIO && self.may_be_extended() {
            self.extensions += 1;
            self.ends = now + self.length;
            self.after = Totals::default();
            return TrialVerdict::Open;
        }
        let (waited, waits) = (self.before.wait_share(), self.after.wait_share());
        let waits_less = waits_less(waits, waited);
        if waits_less && runs >= ran * MINIMUM_RUN_RATIO {
            return TrialVerdict::Helps;
        }
        if !waits_less && waits <= waited * EXTENSION_WAIT_RATIO && self.may_be_extended() {
            self.extensions += 1;
            self.ends = now + self.length;
            return TrialVerdict::Open;
        }
        let why = format!(
            "the foreground waited {:.0} % of its busy time before and {:.0} % after, and ran {ran:.2} and {runs:.2} CPUs",
            waited * 100.0,
            waits * 100.0
        );
        if waits_less { TrialVerdict::Unclear(why) } else { TrialVerdict::Useless(why) }
    }

    fn may_be_extended(&self) -> bool {
        self.extensions < EXTENSIONS && !is_off(Part::Extension)
    }

    /// The confirming, longer trial from `now` on, because one result may be chance; `None` when this was it.
    pub fn confirming(&self, now: BootTime) -> Option<Self> {
        let second = || Self { is_first: false, ..Self::new(now, self.length * CONFIRMATION_FACTOR, self.before) };
        self.is_first.then(second)
    }

    /// True for the first trial of a step, not the confirming one.
    pub fn is_first(&self) -> bool {
        self.is_first
    }

    /// When the warm-up ends.
    pub fn warm_up_ends(&self) -> BootTime {
        self.warm_up_ends
    }

    /// By how much the foreground has waited less than before; `None` if it did not wait before.
    pub fn effect_percent(&self) -> Option<f64> {
        let (waited, waits) = (self.before.wait_share(), self.after.wait_share());
        (waited > 0.0).then(|| (waited - waits) / waited * 100.0)
    }

    /// What it has measured so far.
    pub fn after(&self) -> Totals {
        self.after
    }
}

/// A light thread that waits too long per wake-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissedPeriod {
    /// Its thread id.
    pub tid: u32,
    /// Its name and its wait per wake-up, now and before.
    pub text: String,
}

/// True where the wait share `waits` is so much lower than the baseline `waited` that the step has helped.
fn waits_less(waits: f64, waited: f64) -> bool {
    waits <= waited * MAXIMUM_WAIT_RATIO
}

/// Light threads that wake regularly, and their wait per wake-up before a step.
#[derive(Debug, Clone, Default)]
pub struct PeriodicThreads {
    before: BTreeMap<u32, Duration>,
    since: BTreeMap<u32, Usage>,
    judged_at: BootTime,
}

impl PeriodicThreads {
    /// The threads of `roster` that are regular now; nothing before `from` is judged.
    pub fn of(roster: &Roster, from: BootTime) -> Self {
        let light = roster.members().filter(|member| member.statistics.is_periodic());
        let before = light.map(|member| (member.thread.tid, member.statistics.delay())).collect();
        Self { before, since: BTreeMap::new(), judged_at: from }
    }

    /// The threads that were regular before the step.
    pub fn tids(&self) -> impl Iterator<Item = u32> {
        self.before.keys().copied()
    }

    /// Adds a sample; once a second, returns the threads that wait too long.
    pub fn take(&mut self, now: BootTime, sample: &Sample, roster: &Roster) -> Vec<MissedPeriod> {
        if now <= self.judged_at {
            return Vec::new();
        }
        for used in sample.used.iter().filter(|used| self.before.contains_key(&used.tid)) {
            *self.since.entry(used.tid).or_default() += used.usage;
        }
        if now.since(self.judged_at) < JUDGING_PERIOD {
            return Vec::new();
        }
        self.judge(now, roster)
    }

    /// Returns the threads that wait too long, and starts a new second.
    pub fn judge(&mut self, now: BootTime, roster: &Roster) -> Vec<MissedPeriod> {
        self.judged_at = now;
        let missed = |(tid, since): (u32, Usage)| {
            let member = roster.get(tid).filter(|member| member.statistics.class() == Class::Light)?;
            if since.slices < MINIMUM_WAKEUPS || since.demand() >= PERIODIC_DEMAND {
                return None;
            }
            let before = self.before.get(&tid).copied().unwrap_or_default();
            let delay = Duration::from_nanos(since.wait_ns / u64::from(since.slices));
            let (name, ms) = (&member.thread.command, |delay: Duration| delay.as_secs_f64() * 1e3);
            let text = || format!("{name} ({tid}) waits {:.1} ms per wake-up, {:.1} before", ms(delay), ms(before));
            (delay > MISSED_PERIOD_DELAY && delay > before * 2).then(|| MissedPeriod { tid, text: text() })
        };
        std::mem::take(&mut self.since).into_iter().filter_map(missed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::sched::threads::{Thread, ThreadUsage};

    fn totals(run_ms: u64, wait_ms: u64) -> Totals {
        let ns = |ms: u64| ms * 1_000_000;
        Totals { wall_ns: ns(100), run_ns: ns(run_ms), wait_ns: ns(wait_ms), bulk_run_ns: ns(100) }
    }

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    // Verifies PLACE-2.
    #[test]
    fn a_step_is_kept_for_what_it_did_to_the_foreground() {
        for (case, before, after, verdict) in [
            ("it no longer waits", totals(50, 50), totals(100, 0), "helps"),
            ("it waits a quarter less", totals(60, 40), totals(70, 30), "helps"),
            ("frames: as many, no waiting", totals(42, 30), totals(42, 1), "helps"),
            ("frames that waited most of the time", totals(38, 60), totals(42, 0), "helps"),
            ("nothing changed", totals(50, 50), totals(50, 50), "useless"),
            ("it waits a little less", totals(60, 40), totals(62, 38), "useless"),
            ("it waits more", totals(60, 10), totals(60, 30), "useless"),
            ("its start is over, or it waits for another thread", totals(60, 40), totals(50, 10), "unclear"),
        ] {
            let mut trial = Trial::new(at(0), Duration::from_millis(300), before);
            assert_eq!(trial.take(at(100), totals(10, 90)), TrialVerdict::Open, "warm-up");
            assert_eq!(trial.take(at(200), after), TrialVerdict::Open);
            let found = match trial.take(at(300), after) {
                TrialVerdict::Open => "open",
                TrialVerdict::Helps => "helps",
                TrialVerdict::Useless(_) => "useless",
                TrialVerdict::Unclear(_) => "unclear",
            };
            assert_eq!(found, verdict, "{case}");
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn what_helps_a_little_is_tried_for_longer() {
        for (case, then, verdict) in [
            ("then it helps", totals(98, 2), "Helps"),
            ("the gain stays small", totals(67, 33), "Useless"),
            ("the gain disappears", totals(60, 40), "Useless"),
        ] {
            let mut trial = Trial::new(at(0), Duration::from_millis(300), totals(60, 40));
            let little = (1..=3).map(|sample| trial.take(at(sample * 100), totals(67, 33))).collect::<Vec<_>>();
            assert_eq!(little, [TrialVerdict::Open, TrialVerdict::Open, TrialVerdict::Open], "{case}");
            let verdicts = (4..=9).map(|sample| trial.take(at(sample * 100), then));
            let end =
                verdicts.filter(|verdict| *verdict != TrialVerdict::Open).map(|verdict| format!("{verdict:?}")).next();
            assert!(end.as_ref().is_some_and(|end| end.starts_with(verdict)), "{case}: {end:?}");
        }
    }

    #[test]
    fn an_idle_foreground_is_not_judged() {
        let mut trial = Trial::new(at(0), Duration::from_millis(300), totals(50, 50));
        let verdicts: Vec<_> = (1..=9).map(|sample| trial.take(at(sample * 100), totals(3, 0))).collect();
        assert_eq!(&verdicts[..8], &vec![TrialVerdict::Open; 8][..]);
        assert!(matches!(verdicts[8], TrialVerdict::Unclear(_)), "{verdicts:?}");
        let mut trial = Trial::new(at(0), Duration::from_millis(300), totals(50, 50));
        (1..=3).for_each(|sample| drop(trial.take(at(sample * 100), totals(3, 0))));
        let verdicts: Vec<_> = (4..=6).map(|sample| trial.take(at(sample * 100), totals(90, 0))).collect();
        assert_eq!(verdicts, [TrialVerdict::Open, TrialVerdict::Open, TrialVerdict::Helps], "it runs again");
    }

    fn music(tid: u32, run_us: u64, wait_us: u64) -> ThreadUsage {
        let usage = Usage { wall_ns: 100_000_000, run_ns: run_us * 1000, wait_ns: wait_us * 1000, slices: 5 };
        ThreadUsage { tid, usage }
    }

    // Verifies PLACE-3.
    #[test]
    fn a_light_task_that_misses_its_rhythm_is_named() {
        // Wait per sample of 100 ms before and after the step, run time after it, and whether a miss is expected.
        for (before_us, after_us, run_us, missed) in [
            (100, 100, 5000, false),
            (100, 14_000, 5000, false),
            (100, 20_000, 5000, true),
            (30_000, 35_000, 5000, false),
            (30_000, 70_000, 5000, true),
            (100, 60_000, 15_000, false),
        ] {
            let mut roster = Roster::default();
            let born = vec![Thread { tid: 9, pid: 9, parent: 1, command: "music".into() }];
            roster.take(at(0), 100_000_000, &Sample { born, ..Sample::default() }, |_| false);
            let mut play = |tick: u64, run_us, wait_us| {
                let sample = Sample { used: vec![music(9, run_us, wait_us)], ..Sample::default() };
                roster.take(at(tick * 100), 100_000_000, &sample, |_| false);
                sample
            };
            (1..50).for_each(|tick| drop(play(tick, 5000, before_us)));
            let samples: Vec<Sample> = (50..60).map(|tick| play(tick, run_us, after_us)).collect();
            let mut periodic_threads = PeriodicThreads {
                before: [(9, Duration::from_micros(before_us / 5))].into(),
                ..PeriodicThreads::default()
            };
            periodic_threads.judged_at = at(4900);
            let said: Vec<_> = samples
                .iter()
                .zip(50..)
                .flat_map(|(sample, tick)| periodic_threads.take(at(tick * 100), sample, &roster))
                .collect();
            assert_eq!(said.len(), usize::from(missed), "{before_us} {after_us}: {said:?}");
            assert!(said.iter().all(|said| said.tid == 9 && said.text.starts_with("music (9) waits ")), "{said:?}");
        }
    }
}
