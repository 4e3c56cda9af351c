//! Estimates the remaining time of experiments, from recorded durations and from the pace of the present run. Pure.

use std::time::Duration;

/// Weight of the expected pace: it counts like this many measured seconds.
const PRIOR_WEIGHT_S: f64 = 20.0;

/// An experiment's expected duration, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// Fetching and building, device by device.
    pub set_up_s: Vec<f64>,
    /// Measuring the missing replicates.
    pub measure_s: f64,
}

impl Expected {
    fn total_s(&self) -> f64 {
        self.set_up_s.iter().sum::<f64>() + self.measure_s
    }
}

/// The remaining time of a series of experiments. Times are since the start of the run.
#[derive(Debug, Clone)]
pub struct Estimate {
    experiments: Vec<Expected>,
    /// Index of the running experiment.
    current: usize,
    /// Number of its devices that are set up.
    set_up: usize,
    /// Completed share of its measurement, 0 to 1.
    share: f64,
    /// When its set-up or its measuring began.
    since: Duration,
    /// Time of the last progress.
    latest: Duration,
    /// Seconds of the completed experiments: expected and actual.
    done_s: [f64; 2],
}

impl Estimate {
    /// Starts with nothing done.
    pub fn new(experiments: Vec<Expected>) -> Self {
        Self {
            experiments,
            current: 0,
            set_up: 0,
            share: 0.0,
            since: Duration::ZERO,
            latest: Duration::ZERO,
            done_s: [0.0; 2],
        }
    }

    /// Experiment number `index` starts.
    pub fn begin(&mut self, index: usize, now: Duration) {
        (self.current, self.set_up, self.share) = (index, 0, 0.0);
        (self.since, self.latest) = (now, now);
    }

    /// A device of the running experiment is set up.
    pub fn prepared(&mut self, now: Duration) {
        self.set_up += 1;
        (self.since, self.latest) = (now, now);
    }

    /// Measuring starts and is expected to take `measure_s`, which may be more than was expected at first.
    pub fn begin_measuring(&mut self, measure_s: f64, now: Duration) {
        if let Some(expected) = self.experiments.get_mut(self.current) {
            self.set_up = expected.set_up_s.len();
            expected.measure_s = measure_s;
        }
        (self.since, self.latest) = (now, now);
    }

    /// `share` of the running experiment's measurement is done, 0 to 1.
    pub fn advance(&mut self, share: f64, now: Duration) {
        (self.share, self.latest) = (share.clamp(0.0, 1.0), now);
    }

    /// The running experiment has ended. An incomplete one does not change the pace.
    pub fn end(&mut self, now: Duration) {
        let expected_s = self.expected_now_s();
        if self.share >= 1.0 && expected_s > 0.0 {
            self.done_s[0] += expected_s;
            self.done_s[1] += (now - self.since).as_secs_f64();
        }
        self.begin(self.current + 1, now);
    }

    /// The remaining time of all experiments.
    pub fn left(&self, now: Duration) -> Duration {
        let pace = self.pace(0.0, 0.0);
        let later: f64 = self.experiments.iter().skip(self.current + 1).map(Expected::total_s).sum();
        Duration::from_secs_f64(later * pace + self.current_left_s(now))
    }

    /// The completed share of the whole run, 0 to 1.
    pub fn done(&self, now: Duration) -> f64 {
        let left = self.left(now).as_secs_f64();
        now.as_secs_f64() / (now.as_secs_f64() + left).max(f64::MIN_POSITIVE)
    }

    /// Actual seconds per expected second. Set-up is excluded: it depends on the network and on the cache, not on the machine's
    /// speed.
    fn pace(&self, expected_s: f64, took_s: f64) -> f64 {
        let [expected, took] = self.done_s;
        (PRIOR_WEIGHT_S + took + took_s) / (PRIOR_WEIGHT_S + expected + expected_s)
    }

    fn expected_now_s(&self) -> f64 {
        self.experiments.get(self.current).map_or(0.0, |expected| expected.measure_s)
    }

    fn current_left_s(&self, now: Duration) -> f64 {
        let Some(expected) = self.experiments.get(self.current) else { return 0.0 };
        let idle_s = (now - self.latest).as_secs_f64();
        let set_up = expected.set_up_s.iter().skip(self.set_up);
        if self.set_up < expected.set_up_s.len() {
            return (set_up.sum::<f64>() - idle_s).max(0.0) + expected.measure_s * self.pace(0.0, 0.0);
        }
        let done_s = expected.measure_s * self.share;
        let pace = self.pace(done_s, if self.share > 0.0 { (self.latest - self.since).as_secs_f64() } else { 0.0 });
        ((expected.measure_s - done_s) * pace - idle_s).max(0.0)
    }
}

/// `about 40 s left`, `about 9 min left`.
pub fn remaining_text(left: Duration) -> String {
    match left.as_secs_f64() {
        seconds if seconds < 5.0 => "a few seconds left".to_owned(),
        seconds if seconds < 95.0 => format!("about {} s left", (seconds / 10.0).ceil() * 10.0),
        seconds => format!("about {} min left", (seconds / 60.0).round()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn expected(set_up_s: &[f64], measure_s: f64) -> Expected {
        Expected { set_up_s: set_up_s.to_vec(), measure_s }
    }

    fn left_s(estimate: &Estimate, now_s: f64) -> f64 {
        estimate.left(seconds(now_s)).as_secs_f64()
    }

    /// Two experiments of 60 s each, the first with a device set-up of 40 s; each step has the expected remaining time.
    // Verifies PROVE-4.
    #[test]
    fn time_left_falls_with_what_is_done_and_follows_the_pace() {
        enum Step {
            Wait,
            Prepared,
            Done(f64),
            Ended,
        }
        /// The time, the step, the expected remaining time.
        type Course<'a> = &'a [(f64, Step, f64)];
        use Step::{Done, Ended, Prepared, Wait};
        let cases: &[(&str, Course<'_>)] = &[
            (
                "as expected",
                &[
                    (0.0, Wait, 160.0),
                    (20.0, Wait, 140.0),
                    (40.0, Prepared, 120.0),
                    (70.0, Done(0.5), 90.0),
                    (85.0, Wait, 75.0),
                    (100.0, Done(1.0), 60.0),
                    (100.0, Ended, 60.0),
                    (130.0, Done(0.5), 30.0),
                    (160.0, Done(1.0), 0.0),
                ],
            ),
            // A longer set-up does not change the pace.
            ("slow network", &[(40.0, Wait, 120.0), (90.0, Wait, 120.0), (90.0, Prepared, 120.0)]),
            // A host of half the speed: 140 s of experience where 80 s were expected.
            ("slow host", &[(40.0, Prepared, 120.0), (160.0, Done(1.0), 60.0), (160.0, Ended, 60.0 * 140.0 / 80.0)]),
            // The guest boots before its first replicate; that does not change the pace.
            ("a boot", &[(40.0, Prepared, 120.0), (52.0, Wait, 108.0), (53.0, Done(0.1), 60.0 + 54.0 * 33.0 / 26.0)]),
        ];
        for (name, steps) in cases {
            let mut estimate = Estimate::new(vec![expected(&[40.0], 60.0), expected(&[], 60.0)]);
            estimate.begin(0, Duration::ZERO);
            for (now_s, step, left) in *steps {
                match step {
                    Wait => {}
                    Prepared => estimate.prepared(seconds(*now_s)),
                    Done(share) => estimate.advance(*share, seconds(*now_s)),
                    Ended => estimate.end(seconds(*now_s)),
                }
                let found = left_s(&estimate, *now_s);
                // The pace also scales later experiments.
                assert!((found - left).abs() < 10.0, "{name} at {now_s} s: {found} s, not {left} s");
            }
        }
    }

    // Verifies PROVE-4.
    #[test]
    fn resumed_measurements_are_not_expected_again() {
        let mut estimate = Estimate::new(vec![expected(&[1.0], 0.0), expected(&[1.0], 15.0), expected(&[1.0], 60.0)]);
        assert_eq!(left_s(&estimate, 0.0), 78.0);
        estimate.begin(0, Duration::ZERO);
        estimate.prepared(seconds(1.0));
        estimate.begin_measuring(0.0, seconds(1.0));
        estimate.end(seconds(1.0));
        assert_eq!(left_s(&estimate, 1.0), 77.0, "an experiment with no missing replicate");
        // The kernel has changed: everything is measured again.
        estimate.prepared(seconds(2.0));
        estimate.begin_measuring(45.0, seconds(2.0));
        assert_eq!(left_s(&estimate, 2.0), 106.0);
    }

    /// After a third of a run, the estimate is within 15 % of the total at any host speed.
    // Verifies PROVE-4.
    #[test]
    fn the_estimate_adapts_to_the_hosts_speed() {
        for speed in [0.3, 0.5, 1.0, 2.0, 5.0] {
            let rows: Vec<Expected> = (0..12).map(|_| expected(&[], 50.0)).collect();
            let mut estimate = Estimate::new(rows);
            let mut now_s = 0.0;
            for index in 0..12 {
                estimate.begin(index, seconds(now_s));
                for tenth in 1..=10 {
                    now_s += 5.0 * speed;
                    estimate.advance(f64::from(tenth) / 10.0, seconds(now_s));
                    let truth_s = 600.0 * speed - now_s;
                    let error = (left_s(&estimate, now_s) - truth_s).abs() / (600.0 * speed);
                    assert!(index < 4 || error < 0.15, "speed {speed}, experiment {index}: {error}");
                }
                estimate.end(seconds(now_s));
            }
        }
    }

    #[test]
    fn the_remaining_time_is_rounded() {
        for (left_s, expected) in [
            (0.0, "a few seconds left"),
            (4.0, "a few seconds left"),
            (12.0, "about 20 s left"),
            (90.0, "about 90 s left"),
            (96.0, "about 2 min left"),
            (640.0, "about 11 min left"),
        ] {
            assert_eq!(remaining_text(seconds(left_s)), expected);
        }
    }
}
