//! How much longer experiments take: from what each has cost before, and from how fast the present run is. Pure.

use std::time::Duration;

/// What is expected of this machine before it has shown its own pace counts like so many seconds of experience.
const EXPERIENCE_S: f64 = 20.0;

/// What an experiment is expected to take, in seconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expected {
    /// To fetch and build what it needs, device by device.
    pub set_up_s: Vec<f64>,
    /// To measure what is missing.
    pub measure_s: f64,
}

impl Expected {
    fn total_s(&self) -> f64 {
        self.set_up_s.iter().sum::<f64>() + self.measure_s
    }
}

/// How much longer a row of experiments takes. Times are since the beginning of the run.
#[derive(Debug, Clone)]
pub struct Estimate {
    experiments: Vec<Expected>,
    /// The experiment under way.
    current: usize,
    /// Of its set-up: devices that are done.
    set_up: usize,
    /// The share of its measuring that is done, 0 to 1.
    share: f64,
    /// When its set-up or its measuring began.
    since: Duration,
    /// The last time at which anything was done.
    latest: Duration,
    /// Seconds of experiments that are done: as they were expected, and as they were.
    done_s: [f64; 2],
}

impl Estimate {
    /// Nothing is done yet.
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

    /// Experiment number `index` begins.
    pub fn begin(&mut self, index: usize, now: Duration) {
        (self.current, self.set_up, self.share) = (index, 0, 0.0);
        (self.since, self.latest) = (now, now);
    }

    /// A device of the experiment under way is set up.
    pub fn prepared(&mut self, now: Duration) {
        self.set_up += 1;
        (self.since, self.latest) = (now, now);
    }

    /// What is set up measures from now on: `measure_s` is expected of it, which may be more than at first.
    pub fn measures(&mut self, measure_s: f64, now: Duration) {
        if let Some(expected) = self.experiments.get_mut(self.current) {
            self.set_up = expected.set_up_s.len();
            expected.measure_s = measure_s;
        }
        (self.since, self.latest) = (now, now);
    }

    /// `share` of the measuring of the experiment under way is done, 0 to 1.
    pub fn advance(&mut self, share: f64, now: Duration) {
        (self.share, self.latest) = (share.clamp(0.0, 1.0), now);
    }

    /// The experiment under way has ended; an end before its time says nothing about its pace.
    pub fn end(&mut self, now: Duration) {
        let expected_s = self.expected_now_s();
        if self.share >= 1.0 && expected_s > 0.0 {
            self.done_s[0] += expected_s;
            self.done_s[1] += (now - self.since).as_secs_f64();
        }
        self.begin(self.current + 1, now);
    }

    /// How much longer all of them take.
    pub fn left(&self, now: Duration) -> Duration {
        let pace = self.pace(0.0, 0.0);
        let later: f64 = self.experiments.iter().skip(self.current + 1).map(Expected::total_s).sum();
        Duration::from_secs_f64(later * pace + self.current_left_s(now))
    }

    /// The share of all that is done, 0 to 1.
    pub fn done(&self, now: Duration) -> f64 {
        let left = self.left(now).as_secs_f64();
        now.as_secs_f64() / (now.as_secs_f64() + left).max(f64::MIN_POSITIVE)
    }

    /// Seconds of this machine for a second that was expected. Set-up depends on the network and on what is there already,
    /// and says nothing about it.
    fn pace(&self, expected_s: f64, took_s: f64) -> f64 {
        let [expected, took] = self.done_s;
        (EXPERIENCE_S + took + took_s) / (EXPERIENCE_S + expected + expected_s)
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
pub fn words(left: Duration) -> String {
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

    /// Steps of two experiments of 60 s each, of which the first sets up a device for 40 s; after each step, what is left.
    // Verifies PROVE-4.
    #[test]
    fn time_left_falls_with_what_is_done_and_follows_the_pace() {
        enum Step {
            Wait,
            Prepared,
            Done(f64),
            Ended,
        }
        /// The time, the step, what is left.
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
            // A set-up that takes longer says nothing about the pace; it is simply not over.
            ("slow network", &[(40.0, Wait, 120.0), (90.0, Wait, 120.0), (90.0, Prepared, 120.0)]),
            // A host that is half as fast: 140 s of experience for 80 s that were expected.
            ("slow host", &[(40.0, Prepared, 120.0), (160.0, Done(1.0), 60.0), (160.0, Ended, 60.0 * 140.0 / 80.0)]),
            // The guest boots before its first replicate: that is no pace yet.
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
                // What later experiments take follows the pace as well.
                assert!((found - left).abs() < 10.0, "{name} at {now_s} s: {found} s, not {left} s");
            }
        }
    }

    // Verifies PROVE-4.
    #[test]
    fn what_was_measured_before_is_not_expected_again() {
        let mut estimate = Estimate::new(vec![expected(&[1.0], 0.0), expected(&[1.0], 15.0), expected(&[1.0], 60.0)]);
        assert_eq!(left_s(&estimate, 0.0), 78.0);
        estimate.begin(0, Duration::ZERO);
        estimate.prepared(seconds(1.0));
        estimate.measures(0.0, seconds(1.0));
        estimate.end(seconds(1.0));
        assert_eq!(left_s(&estimate, 1.0), 77.0, "an experiment of which nothing is missing");
        // The kernel turns out to be another one: all of it is measured again.
        estimate.prepared(seconds(2.0));
        estimate.measures(45.0, seconds(2.0));
        assert_eq!(left_s(&estimate, 2.0), 106.0);
    }

    /// However a host is loaded, what is said after a third of a run errs by no more than the load does.
    // Verifies PROVE-4.
    #[test]
    fn a_host_of_another_speed_is_noticed() {
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
    fn words_round_to_what_is_known() {
        for (left_s, expected) in [
            (0.0, "a few seconds left"),
            (4.0, "a few seconds left"),
            (12.0, "about 20 s left"),
            (90.0, "about 90 s left"),
            (96.0, "about 2 min left"),
            (640.0, "about 11 min left"),
        ] {
            assert_eq!(words(seconds(left_s)), expected);
        }
    }
}
