//! The gain bound: how much the foreground could gain at most without competing bulk threads.

use std::collections::VecDeque;
use std::ops::AddAssign;
use std::time::Duration;

use super::cores::Machine;
use brisk_base::insertion_sort::insertion_sort;

/// CPU use of foreground and bulk threads in a period, each summed over the threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// The length of the period.
    pub wall_ns: u64,
    /// Run time of the foreground.
    pub run_ns: u64,
    /// Run-queue delay of the foreground.
    pub wait_ns: u64,
    /// Run time of background bulk threads.
    pub bulk_run_ns: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Self) {
        self.wall_ns += other.wall_ns;
        self.run_ns += other.run_ns;
        self.wait_ns += other.wait_ns;
        self.bulk_run_ns += other.bulk_run_ns;
    }
}

impl Totals {
    /// The share of its busy time that the foreground could gain: no more than it waits, and no more than bulk threads run.
    /// 0 to 1; zero while there is no foreground.
    pub fn gain_bound(&self) -> f64 {
        self.of_busy(self.wait_ns.min(self.bulk_run_ns))
    }

    /// The share of its busy time that the foreground waits for a CPU.
    pub fn wait_share(&self) -> f64 {
        self.of_busy(self.wait_ns)
    }

    /// The number of CPUs that the foreground used.
    pub fn run_rate(&self) -> f64 {
        self.of_wall(self.run_ns)
    }

    /// The number of CPUs that the foreground would have used if available.
    pub fn runnable(&self) -> f64 {
        self.of_wall(self.run_ns + self.wait_ns)
    }

    /// The number of CPUs that bulk threads used.
    pub fn bulk_rate(&self) -> f64 {
        self.of_wall(self.bulk_run_ns)
    }

    fn of_busy(&self, part_ns: u64) -> f64 {
        let busy_ns = self.run_ns + self.wait_ns;
        if busy_ns == 0 { 0.0 } else { part_ns as f64 / busy_ns as f64 }
    }

    fn of_wall(&self, part_ns: u64) -> f64 {
        if self.wall_ns == 0 { 0.0 } else { part_ns as f64 / self.wall_ns as f64 }
    }
}

/// The latest samples, up to a length of time.
#[derive(Debug, Clone, Default)]
pub struct Window {
    samples: VecDeque<Totals>,
    sum: Totals,
}

impl Window {
    /// Adds a sample and drops those that are older than `length`.
    pub fn add(&mut self, sample: Totals, length: Duration) {
        self.samples.push_back(sample);
        self.sum += sample;
        while let Some(&first) = self.samples.front()
            && self.span() > length
            && self.samples.len() > 1
        {
            self.samples.pop_front();
            self.sum.wall_ns -= first.wall_ns;
            self.sum.run_ns -= first.run_ns;
            self.sum.wait_ns -= first.wait_ns;
            self.sum.bulk_run_ns -= first.bulk_run_ns;
        }
    }

    /// Drops all samples.
    pub fn clear(&mut self) {
        self.samples.clear();
        self.sum = Totals::default();
    }

    /// The time that it covers.
    pub fn span(&self) -> Duration {
        Duration::from_nanos(self.sum.wall_ns)
    }

    /// The sum of its samples.
    pub fn totals(&self) -> Totals {
        self.sum
    }

    /// The 90th percentile of the foreground's runnable threads; zero when it is empty.
    pub fn parallelism(&self) -> f64 {
        let mut runnable: Vec<f64> = self.samples.iter().map(Totals::runnable).collect();
        insertion_sort(&mut runnable, |one, next| one.total_cmp(next).is_gt());
        // Nearest rank: the smallest value that at least 90 % of the samples do not exceed.
        let rank = (runnable.len() * 9).div_ceil(10);
        rank.checked_sub(1).map_or(0.0, |index| runnable[index])
    }
}

/// The step that the gain bound suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// There is too little to gain.
    Nothing,
    /// The foreground fits on this many cores, and other cores are left for bulk threads.
    Isolate {
        /// Cores to reserve.
        cores: usize,
    },
    /// The foreground does not fit on cores that could be reserved: bulk threads should be deprioritised.
    Weight,
}

/// A thread that never sleeps uses 1.00 of a core, give or take the error at a sample's edges.
pub(super) const CORE_SLACK: f64 = 0.05;

/// The rule: nothing below `minimum_gain`; reserved cores where the foreground fits on them; else weight.
pub fn advise(gain_bound: f64, parallelism: f64, minimum_gain: f64, machine: &Machine) -> Advice {
    if gain_bound < minimum_gain {
        return Advice::Nothing;
    }
    let cores = (parallelism - CORE_SLACK).ceil().max(1.0) as usize;
    if machine.reserve_cores(cores).is_some() { Advice::Isolate { cores } } else { Advice::Weight }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_base::random::Random;

    fn totals(wall_ms: u64, run_ms: u64, wait_ms: u64, bulk_ms: u64) -> Totals {
        let ns = |ms: u64| ms * 1_000_000;
        Totals { wall_ns: ns(wall_ms), run_ns: ns(run_ms), wait_ns: ns(wait_ms), bulk_run_ns: ns(bulk_ms) }
    }

    #[test]
    fn the_bound_is_the_lesser_of_wait_and_bulk_run_time() {
        for (sample, expected) in [
            (totals(100, 0, 0, 100), 0.0),
            (totals(100, 100, 0, 100), 0.0),
            (totals(100, 50, 50, 150), 0.5),
            (totals(100, 50, 50, 10), 0.1),
            (totals(100, 90, 10, 0), 0.0),
        ] {
            assert!((sample.gain_bound() - expected).abs() < 1e-9, "{sample:?}: {}", sample.gain_bound());
        }
    }

    /// The thesis's observations as samples of 100 ms on two CPUs; what must be avoided in each is known.
    // Verifies PLACE-2.
    #[test]
    fn the_rule_avoids_what_is_known_to_harm() {
        let two = Machine::equal(2);
        for (cell, sample, expected) in [
            ("JavaScript, several threads / music + download", totals(100, 120, 3, 37), Advice::Nothing),
            ("JavaScript, several threads / hog", totals(100, 90, 60, 100), Advice::Weight),
            ("two threads / music + download", totals(100, 160, 9, 0), Advice::Nothing),
            ("two threads / hog", totals(100, 130, 70, 70), Advice::Weight),
            ("one thread / hog", totals(100, 80, 20, 100), Advice::Isolate { cores: 1 }),
            ("frames / music + download", totals(100, 42, 2, 37), Advice::Nothing),
            ("frames / hog", totals(100, 40, 25, 130), Advice::Isolate { cores: 1 }),
            ("hackbench / music + download", totals(100, 170, 900, 20), Advice::Nothing),
            ("hackbench / hog", totals(100, 130, 900, 70), Advice::Weight),
        ] {
            assert_eq!(advise(sample.gain_bound(), sample.runnable(), 0.06, &two), expected, "{cell}");
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn one_sample_is_judged_by_the_number_of_cpus() {
        let sample = totals(100, 130, 70, 70);
        for (machine, expected) in [
            (Machine::equal(1), Advice::Weight),
            (Machine::equal(2), Advice::Weight),
            (Machine::equal(8), Advice::Isolate { cores: 2 }),
            (Machine::equal(64), Advice::Isolate { cores: 2 }),
            (Machine::of(&[(0, 446), (1, 446), (2, 1024)]), Advice::Isolate { cores: 2 }),
        ] {
            assert_eq!(advise(sample.gain_bound(), sample.runnable(), 0.06, &machine), expected, "{machine:?}");
        }
    }

    #[test]
    fn a_window_drops_old_samples_and_ranks_the_rest() {
        let mut window = Window::default();
        assert_eq!((window.parallelism(), window.totals().gain_bound()), (0.0, 0.0));
        for run_ms in [500, 10, 20, 30, 40, 50, 60, 70, 80, 90, 200] {
            window.add(totals(100, run_ms, 0, 0), Duration::from_secs(1));
        }
        assert_eq!(window.span(), Duration::from_secs(1));
        assert_eq!(window.totals().run_ns, 650_000_000, "the first sample is dropped");
        assert!((window.parallelism() - 0.9).abs() < 1e-9, "one in ten may exceed it: {}", window.parallelism());
        window.add(totals(5000, 1, 0, 0), Duration::from_secs(1));
        assert_eq!(window.span(), Duration::from_secs(5), "one sample is kept, however long");
        window.clear();
        assert_eq!(window.totals(), Totals::default());
    }

    #[test]
    fn a_window_is_the_sum_of_its_samples() {
        let mut random = Random::new(3);
        let mut window = Window::default();
        for _ in 0..2000 {
            let mut next = || random.below(100) as u64;
            window.add(totals(next() + 1, next(), next(), next()), Duration::from_millis(700));
            let mut sum = Totals::default();
            window.samples.iter().for_each(|&sample| sum += sample);
            assert_eq!(window.totals(), sum);
            assert!(window.span() <= Duration::from_millis(700));
        }
    }
}
