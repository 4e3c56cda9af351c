//! Classifies a thread by its run time, its run-queue delay, and how often it was scheduled in.
//!
//! A plain share of time shows the competition more than the thread: a thread that wants 37 % and gets a tenth of a busy CPU
//! looks like 11 %. Run-queue delay is not the thread's own choice, so demand = run / (wall - wait).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use brisk_sys::process::schedstat::Usage;

/// The time constant of the means: a burst of 200 ms in 4 s stays far below bulk, a CPU hog is detected after 1.4 s.
const TIME_CONSTANT: Duration = Duration::from_secs(2);
/// No thread that has been known for less is classified as bulk.
const MINIMUM_OBSERVATION: Duration = Duration::from_secs(1);
/// No thread that has been known for less is deprioritised: most such threads end before it would help.
const NEW_FOR: Duration = Duration::from_millis(300);
/// The kernel accounts a wait when it ends: at most this much of it is taken from earlier samples.
const LONGEST_WAIT_S: f64 = 8.0;

/// Demand from which a thread is bulk, and below which it no longer is.
const BULK_DEMAND: [f64; 2] = [0.50, 0.35];
/// Demand below which a thread is light, and from which it no longer is.
const LIGHT_DEMAND: [f64; 2] = [0.15, 0.25];
/// The longest mean burst of a light thread.
const LIGHT_BURST: Duration = Duration::from_millis(20);
/// A light thread that is scheduled in at least this often has a period that it can miss.
const PERIODIC_HZ: f64 = 5.0;
/// Demand below which a thread counts as asleep, however long its bursts were.
const ASLEEP: f64 = 0.005;

/// The class of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Short, latency-sensitive bursts: audio, input, timers; also threads that sleep.
    #[default]
    Light,
    /// Neither light nor bulk.
    Interactive,
    /// Sustained CPU demand.
    Bulk,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Light => "light",
            Self::Interactive => "interactive",
            Self::Bulk => "bulk",
        })
    }
}

/// The CPU use of a thread: exponentially weighted means over [`TIME_CONSTANT`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct UsageStatistics {
    class: Class,
    /// Weighted run time in seconds.
    run_s: f64,
    /// Weighted time in seconds in which it was not waiting for a CPU.
    not_waiting_s: f64,
    wait: f64,
    /// Mean length of a burst in seconds.
    burst_s: f64,
    /// How often it is scheduled in, per second.
    wakes_hz: f64,
    /// Mean run-queue delay per burst in seconds.
    delay_s: f64,
    /// The greatest run share of any sample: the thesis's measure.
    greatest_share: f64,
    known_for: Duration,
    /// For how long it has neither run nor waited.
    sleeping_for: Duration,
}

/// The weight of a new sample of length `part` when a thread has been known for `all`. The first samples form a plain mean,
/// because nothing is known before them, not even zero.
fn weight(part: Duration, all: Duration) -> f64 {
    let smoothing = 1.0 - (-part.as_secs_f64() / TIME_CONSTANT.as_secs_f64()).exp();
    smoothing.max(part.as_secs_f64() / all.as_secs_f64())
}

impl UsageStatistics {
    /// Learns from one sample.
    pub fn update(&mut self, usage: &Usage) {
        let wall = Duration::from_nanos(usage.wall_ns);
        if wall.is_zero() {
            return;
        }
        self.known_for += wall;
        let is_sleeping = usage.run_ns == 0 && usage.wait_ns == 0;
        self.sleeping_for = if is_sleeping { self.sleeping_for + wall } else { Duration::ZERO };
        let weight = weight(wall, self.known_for);
        let towards = |mean: &mut f64, value: f64| *mean += weight * (value - *mean);
        self.update_demand(usage);
        let share = |part_ns: u64| (part_ns as f64 / usage.wall_ns as f64).min(1.0);
        towards(&mut self.wait, share(usage.wait_ns));
        towards(&mut self.wakes_hz, f64::from(usage.slices) / wall.as_secs_f64());
        self.greatest_share = self.greatest_share.max(share(usage.run_ns));
        if usage.slices > 0 {
            let each_s = |ns: u64| ns as f64 / 1e9 / f64::from(usage.slices);
            towards(&mut self.delay_s, each_s(usage.wait_ns));
            // Preemption may have shortened the burst, so a light thread is also judged by its demand.
            towards(&mut self.burst_s, each_s(usage.run_ns));
        }
        self.class = self.classify();
    }

    /// Waiting says nothing about demand: a starved hog must not become light. A wait that is accounted late includes time that
    /// earlier samples counted as the thread's own; it is subtracted from what they contributed.
    fn update_demand(&mut self, usage: &Usage) {
        let time_constant_s = TIME_CONSTANT.as_secs_f64();
        let seconds = |ns: u64| ns as f64 / 1e9;
        let not_waiting_s = (seconds(usage.wall_ns) - seconds(usage.wait_ns)).max(-LONGEST_WAIT_S);
        let kept = (-not_waiting_s / time_constant_s).exp();
        let learned_s = time_constant_s * (1.0 - kept);
        let share = if not_waiting_s.abs() > 1e-9 { learned_s / not_waiting_s } else { 1.0 };
        self.run_s = (self.run_s * kept + seconds(usage.run_ns) * share).min(time_constant_s);
        self.not_waiting_s = (self.not_waiting_s * kept + learned_s).max(self.run_s);
    }

    /// Hysteresis: each threshold has a higher demand upwards and a lower one downwards.
    fn classify(&self) -> Class {
        let bulk = BULK_DEMAND[usize::from(self.class == Class::Bulk)];
        let light = LIGHT_DEMAND[usize::from(self.class == Class::Light)];
        let demand = self.demand();
        if demand >= bulk && self.known_for >= MINIMUM_OBSERVATION {
            Class::Bulk
        } else if demand < light && (self.burst_s <= LIGHT_BURST.as_secs_f64() || demand < ASLEEP) {
            Class::Light
        } else {
            Class::Interactive
        }
    }

    /// Its class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Its CPU demand: run time as a share of the time in which it was not waiting for a CPU, 0 to 1.
    pub fn demand(&self) -> f64 {
        if self.not_waiting_s > 0.0 { self.run_s / self.not_waiting_s } else { 0.0 }
    }

    /// The share of time that it is runnable but not running, 0 to 1.
    pub fn wait(&self) -> f64 {
        self.wait
    }

    /// The mean length of a burst.
    pub fn burst(&self) -> Duration {
        Duration::from_secs_f64(self.burst_s)
    }

    /// True for a thread that is too new to be deprioritised.
    pub fn is_new(&self) -> bool {
        self.known_for < NEW_FOR
    }

    /// True for a thread that has been known for long enough to be classified as bulk.
    pub fn is_classifiable(&self) -> bool {
        self.known_for >= MINIMUM_OBSERVATION
    }

    /// True for a thread that has neither run nor waited for one second, `quiet` since the last update included.
    pub fn is_sleeping(&self, quiet: Duration) -> bool {
        self.sleeping_for + quiet >= MINIMUM_OBSERVATION
    }

    /// How often it is scheduled in, per second.
    pub fn wakes_hz(&self) -> f64 {
        self.wakes_hz
    }

    /// The mean run-queue delay per burst.
    pub fn delay(&self) -> Duration {
        Duration::from_secs_f64(self.delay_s)
    }

    /// True for a light thread that wakes regularly, so that a longer wait would be detected.
    pub fn is_periodic(&self) -> bool {
        self.class == Class::Light && self.wakes_hz >= PERIODIC_HZ
    }

    /// Its class by the thesis.
    pub fn thesis_class(&self) -> ThesisClass {
        match self.greatest_share {
            share if share >= 0.5 => ThesisClass::OwnCore,
            share if share >= 0.3 => ThesisClass::HalfCore,
            _ => ThesisClass::Rest,
        }
    }
}

/// The thesis's classes, by the greatest share of a CPU that a thread ever used: a class never falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThesisClass {
    /// 50 % and more: a core of its own.
    OwnCore,
    /// 30 to 50 %: half a core.
    HalfCore,
    /// Below 30 %.
    Rest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_base::random::Random;

    /// A sample of `wall_ms`, in which the thread ran `run_us` and waited `wait_us` in `slices` pieces.
    fn sample(wall_ms: u64, run_us: u64, wait_us: u64, slices: u32) -> Usage {
        Usage { wall_ns: wall_ms * 1_000_000, run_ns: run_us * 1000, wait_ns: wait_us * 1000, slices }
    }

    #[test]
    fn demand_excludes_run_queue_delay() {
        for (usage, expected) in [
            (sample(100, 0, 0, 0), 0.0),
            (sample(100, 37_000, 0, 3), 0.37),
            // 15 ms of work, then 25 ms of rest, on a CPU shared with three hogs: 15 of 85 ms, 45 of them waiting.
            (sample(85, 15_000, 45_000, 4), 0.375),
            (sample(100, 50_000, 50_000, 20), 1.0),
            (sample(100, 1000, 99_000, 1), 1.0),
            (sample(100, 120_000, 100_000, 20), 1.0),
            (sample(0, 0, 0, 0), 0.0),
        ] {
            let mut statistics = UsageStatistics::default();
            statistics.update(&usage);
            assert!((statistics.demand() - expected).abs() < 1e-9, "{usage:?}: {}", statistics.demand());
        }
    }

    /// A thread as a repeated pattern of samples of 100 ms.
    struct Pattern {
        name: &'static str,
        samples: &'static [(u64, u64, u32)],
        class: Class,
        thesis: ThesisClass,
        rhythm: bool,
    }

    const BURSTS: [(u64, u64, u32); 20] = {
        let mut samples = [(0, 0, 0); 20];
        samples[0] = (100_000, 0, 1);
        samples[1] = (100_000, 0, 1);
        samples
    };

    const PATTERNS: [Pattern; 9] = [
        Pattern {
            name: "sleeper",
            samples: &[(0, 0, 0)],
            class: Class::Light,
            thesis: ThesisClass::Rest,
            rhythm: false,
        },
        Pattern {
            name: "music: 1 ms in 20",
            samples: &[(5_000, 200, 5)],
            class: Class::Light,
            thesis: ThesisClass::Rest,
            rhythm: true,
        },
        Pattern {
            name: "music with short waits",
            samples: &[(5_000, 8_000, 5)],
            class: Class::Light,
            thesis: ThesisClass::Rest,
            rhythm: true,
        },
        Pattern {
            name: "download: 15 ms in 40",
            samples: &[(37_500, 1_000, 3)],
            class: Class::Interactive,
            thesis: ThesisClass::HalfCore,
            rhythm: false,
        },
        Pattern {
            name: "the same beside a hog: 15 ms in 55",
            samples: &[(27_300, 27_300, 8)],
            class: Class::Interactive,
            thesis: ThesisClass::Rest,
            rhythm: false,
        },
        Pattern {
            name: "bursts: 200 ms in 2 s, 10 % in all",
            samples: &BURSTS,
            class: Class::Interactive,
            thesis: ThesisClass::OwnCore,
            rhythm: false,
        },
        Pattern {
            name: "hog alone",
            samples: &[(100_000, 0, 1)],
            class: Class::Bulk,
            thesis: ThesisClass::OwnCore,
            rhythm: false,
        },
        Pattern {
            name: "hog among four",
            samples: &[(25_000, 75_000, 8)],
            class: Class::Bulk,
            thesis: ThesisClass::Rest,
            rhythm: false,
        },
        Pattern {
            name: "compiler that reads: 80 %",
            samples: &[(80_000, 5_000, 12)],
            class: Class::Bulk,
            thesis: ThesisClass::OwnCore,
            rhythm: false,
        },
    ];

    // Verifies PLACE-1.
    #[test]
    fn tasks_are_what_their_habits_say() {
        for pattern in &PATTERNS {
            let mut statistics = UsageStatistics::default();
            for round in 0..30_usize {
                for &(run_us, wait_us, slices) in pattern.samples {
                    statistics.update(&sample(100, run_us, wait_us, slices));
                }
                assert!(round * pattern.samples.len() < 20 || statistics.class() == pattern.class, "{}", pattern.name);
            }
            assert_eq!(statistics.class(), pattern.class, "{}: {statistics:?}", pattern.name);
            assert_eq!(statistics.thesis_class(), pattern.thesis, "{}", pattern.name);
            assert_eq!(statistics.is_periodic(), pattern.rhythm, "{}", pattern.name);
        }
    }

    // Verifies PLACE-1.
    #[test]
    fn habits_do_not_depend_on_the_sampling_period() {
        for pattern in &PATTERNS {
            let mut seldom = UsageStatistics::default();
            for second in 0..30_usize {
                let mut sum = Usage::default();
                for tick in 0..10 {
                    let (run_us, wait_us, slices) = pattern.samples[(second * 10 + tick) % pattern.samples.len()];
                    sum += sample(100, run_us, wait_us, slices);
                }
                seldom.update(&sum);
            }
            assert_eq!(seldom.class(), pattern.class, "{} once a second: {seldom:?}", pattern.name);
        }
    }

    // Verifies PLACE-1.
    #[test]
    fn a_hog_is_bulk_within_1500_ms_and_forgotten_when_it_ends() {
        let mut statistics = UsageStatistics::default();
        (0..100).for_each(|_| statistics.update(&sample(100, 0, 0, 0)));
        let mut samples = 0;
        while statistics.class() != Class::Bulk {
            statistics.update(&sample(100, 100_000, 0, 1));
            samples += 1;
            assert!(samples <= 15, "{statistics:?}");
        }
        assert!(samples >= 10, "a burst of one second is not bulk: {samples}");
        (0..1000).for_each(|_| statistics.update(&sample(100, 0, 100_000, 0)));
        assert_eq!(statistics.class(), Class::Bulk, "it waits all the time: {statistics:?}");
        let mut rests = 0;
        while statistics.class() == Class::Bulk {
            statistics.update(&sample(100, 0, 0, 0));
            rests += 1;
        }
        assert!((5..=30).contains(&rests), "{rests}");
    }

    /// The schedstat counters at `now_ms` of a thread that runs for five seconds, and then `run_ms` after every wait of
    /// `wait_ms`. The kernel accounts a wait when it ends.
    fn starved(now_ms: u64, run_ms: u64, wait_ms: u64) -> [u64; 3] {
        let since = now_ms.saturating_sub(5000);
        let (turns, rest) = (since / (run_ms + wait_ms), since % (run_ms + wait_ms));
        let (ran, turn) = if rest >= wait_ms { (rest - wait_ms, 1) } else { (0, 0) };
        [now_ms.min(5000) + turns * run_ms + ran, (turns + turn) * wait_ms, 1 + turns + turn]
    }

    // Verifies PLACE-1.
    #[test]
    fn a_hog_that_waits_for_longer_than_a_sample_stays_one() {
        for (run_ms, wait_ms) in [(3, 30), (3, 60), (3, 97), (8, 90), (3, 250), (3, 1000), (3, 1900)] {
            for sampling_ms in [50, 100, 1000] {
                let mut statistics = UsageStatistics::default();
                let mut before = [0; 3];
                for now_ms in (sampling_ms..120_000).step_by(sampling_ms as usize) {
                    let now = starved(now_ms, run_ms, wait_ms);
                    let [run_ms_since, wait_ms_since, slices] = [0, 1, 2].map(|field| now[field] - before[field]);
                    before = now;
                    statistics.update(&sample(sampling_ms, run_ms_since * 1000, wait_ms_since * 1000, slices as u32));
                    let case = (run_ms, wait_ms, sampling_ms, now_ms);
                    assert!(now_ms < 2000 || statistics.class() == Class::Bulk, "{case:?}: {statistics:?}");
                }
            }
        }
    }

    #[test]
    fn a_new_thread_is_not_bulk_within_one_second() {
        let mut statistics = UsageStatistics::default();
        for _ in 0..9 {
            statistics.update(&sample(100, 100_000, 0, 1));
            assert_ne!(statistics.class(), Class::Bulk);
        }
        statistics.update(&sample(100, 100_000, 0, 1));
        assert_eq!(statistics.class(), Class::Bulk);
    }

    // Verifies PLACE-1.
    #[test]
    fn a_task_at_a_border_stays_what_it_is() {
        let mut random = Random::new(5);
        let mut statistics = UsageStatistics::default();
        let (mut changes, mut before) = (0, statistics.class());
        for _ in 0..3000 {
            // Between 30 and 60 %, on both sides of the threshold at 50 %.
            statistics.update(&sample(100, 30_000 + random.below(30_000) as u64, 0, 5));
            changes += u32::from(statistics.class() != before);
            before = statistics.class();
        }
        assert!(changes <= 4, "{changes} changes in five minutes");
    }

    #[test]
    fn any_counters_give_habits_within_range() {
        let mut random = Random::new(11);
        for _ in 0..200 {
            let mut statistics = UsageStatistics::default();
            for _ in 0..50 {
                let any = |random: &mut Random| random.bits() >> random.below(64);
                let slices = (random.bits() >> 32) as u32 >> random.below(32);
                let [wall_ns, run_ns, wait_ns] = [any(&mut random), any(&mut random), any(&mut random)];
                statistics.update(&Usage { wall_ns, run_ns, wait_ns, slices });
                for share in [statistics.demand(), statistics.wait(), statistics.greatest_share] {
                    assert!((0.0..=1.0).contains(&share), "{statistics:?}");
                }
                assert!(
                    statistics.wakes_hz().is_finite()
                        && statistics.burst_s.is_finite()
                        && statistics.delay_s.is_finite()
                );
            }
        }
    }
}
