//! Properties of the policy, on random workloads. `BRISK_SEEDS=FIRST-LAST` chooses those of the deep tests.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::system::{Score, System};
use super::workload::{Scenario, eventful, steady};

/// The seeds of a deep test.
pub(super) fn seeds(count: u64) -> std::ops::Range<u64> {
    let given = std::env::var("BRISK_SEEDS").ok();
    let parse = |text: String| {
        let (first, last) = text.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
    };
    given.map_or(0..count, |text| parse(text).expect("BRISK_SEEDS=FIRST-LAST"))
}

/// What an eventful scenario leaves behind when everything is over, or the invariant that it breaks.
pub(super) fn fault(scenario: &Scenario) -> Option<String> {
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let mut system = scenario.play(true);
        if scenario.seed.is_multiple_of(2) {
            system.put_in_foreground(&[]);
            let until_ms = system.scheduler.now_us / 1000 + 3000;
            system.run_until(until_ms);
            if !system.may_refuse {
                assert_eq!(system.left_behind(), [""; 0], "the foreground has ended");
            }
        }
        system.stop();
        // Children of a build that have outlived a change of their parent's value are found by the next sample only.
        system.threads.retain(|_, it| scenario.seed.is_multiple_of(2) || !it.is_job);
        system.left_behind()
    }));
    match ended {
        Ok(left) => (!left.is_empty()).then(|| format!("{left:?}")),
        Err(panic) => Some(panic.downcast_ref::<String>().cloned().unwrap_or_default()),
    }
}

/// The scenario without the events that its fault does not need.
fn smallest(mut scenario: Scenario) -> Scenario {
    let mut at = scenario.events.len();
    while at > 0 {
        at -= 1;
        let mut smaller = scenario.clone();
        smaller.events.remove(at);
        if fault(&smaller).is_some() {
            scenario = smaller;
        }
    }
    scenario
}

fn expect_no_fault(seeds: impl Iterator<Item = u64>) {
    // A fault is a panic: making the scenario smaller would print hundreds.
    std::panic::set_hook(Box::new(|_| ()));
    let mut faults = Vec::new();
    let mut count = 0;
    for seed in seeds {
        count += 1;
        let scenario = eventful(seed);
        if fault(&scenario).is_some() {
            let smallest = smallest(scenario);
            let events: Vec<String> = smallest.events.iter().map(|(at_ms, it)| format!("{at_ms}: {it:?}")).collect();
            let Scenario { hardware, grouping, refusals, .. } = &smallest;
            let on = format!("{hardware:?}, {grouping:?}, refusals {refusals:?}");
            faults.push(format!("seed {seed}: {}\n{on}\n{}", fault(&smallest).unwrap_or_default(), events.join("\n")));
            if faults.len() == 5 {
                break;
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(faults.is_empty(), "{} of {count} seeds:\n{}", faults.len(), faults.join("\n\n"));
}

// Verifies PLACE-5, UNDO-6.
#[test]
fn nothing_is_left_behind() {
    expect_no_fault(0..30);
}

#[test]
#[ignore = "deep: BRISK_SEEDS=FIRST-LAST"]
fn nothing_is_left_behind_deep() {
    expect_no_fault(seeds(2000));
}

/// The foreground's and the background's scores with and without the policy.
fn both(scenario: &Scenario) -> [[Score; 2]; 2] {
    [true, false].map(|is_on| scenario.play(is_on).scores)
}

/// The mean, and half of its 95 % interval.
pub(super) fn mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (mean, 1.96 * (variance / count).sqrt())
}

#[derive(Debug, Default)]
struct Outcomes {
    seeds: Vec<u64>,
    /// The foreground's work, its speed, and the background's work, each with the policy as a share of that without.
    ratios: Vec<[f64; 3]>,
}

impl Outcomes {
    fn of(seeds: impl Iterator<Item = u64>) -> Self {
        let mut outcomes = Self::default();
        for seed in seeds {
            let [on, off] = both(&steady(seed));
            let speed = |score: Score| score.work_s / score.busy_s.max(1e-9);
            let ratio = |one: f64, other: f64| if other < 1e-3 { 1.0 } else { one / other };
            let of = |at: usize| ratio(on[at].work_s, off[at].work_s);
            outcomes.seeds.push(seed);
            outcomes.ratios.push([of(0), ratio(speed(on[0]), speed(off[0])), of(1)]);
        }
        outcomes
    }

    /// The mean, and half of its 95 % interval.
    fn mean(&self, at: usize) -> (f64, f64) {
        mean(&self.ratios.iter().map(|ratios| ratios[at]).collect::<Vec<_>>())
    }

    /// The seeds with the least ratios, the least first.
    fn worst(&self, at: usize) -> Vec<(f64, u64)> {
        let mut all: Vec<(f64, u64)> =
            self.ratios.iter().map(|ratios| ratios[at]).zip(self.seeds.iter().copied()).collect();
        all.sort_by(|one, other| one.0.total_cmp(&other.0));
        all.truncate(12);
        all
    }
}

/// No single foreground does less than this part of its work, and on the average none loses. The rest is chance: both runs of a
/// seed have the same loads, but after the first decision their threads meet in another order.
const LEAST_WORK: f64 = 0.93;
/// The same on unequal CPUs, where chance also decides which CPU a thread is on that never has to wait: the ratio of the smallest
/// capacity to the greatest.
const LEAST_WORK_UNEQUAL: f64 = 400.0 / 1024.0;
/// The background's least part of the work that it does without the policy.
const LEAST_BACKGROUND: f64 = 0.05;

fn expect_no_harm(seeds: impl Iterator<Item = u64>) {
    let is_unequal = |seed: &u64| steady(*seed).hardware.is_unequal();
    let (unequal, equal): (Vec<u64>, Vec<u64>) = seeds.partition(is_unequal);
    for (of, least_work) in [(equal, LEAST_WORK), (unequal, LEAST_WORK_UNEQUAL)] {
        let outcomes = Outcomes::of(of.into_iter());
        for (at, what) in ["foreground work", "foreground speed", "background work"].iter().enumerate() {
            let (mean, half) = outcomes.mean(at);
            println!(
                "{} seeds, {what}: mean {mean:.4} ± {half:.4}, worst {:.4?}",
                outcomes.seeds.len(),
                outcomes.worst(at)
            );
        }
        let (mean, half) = outcomes.mean(0);
        assert!(mean + half >= 1.0, "{mean} ± {half}");
        assert!(outcomes.worst(0)[0].0 >= least_work, "{:?}", outcomes.worst(0));
        assert!(outcomes.worst(2)[0].0 >= LEAST_BACKGROUND, "{:?}", outcomes.worst(2));
    }
}

// Verifies PLACE-2, PLACE-6.
#[test]
fn no_foreground_is_harmed() {
    // Few seeds have unequal CPUs, and on a single one chance decides.
    expect_no_harm((0..60).filter(|&seed| seed < 12 || steady(seed).hardware.is_unequal()));
}

#[test]
#[ignore = "deep: BRISK_SEEDS=FIRST-LAST"]
fn no_foreground_is_harmed_deep() {
    expect_no_harm(seeds(300));
}

/// Shows what the policy does with each seed of `BRISK_SEEDS`, second by second.
#[test]
#[ignore = "a tool"]
fn show_what_happens() {
    for seed in seeds(1) {
        let scenario = steady(seed);
        println!("seed {seed}: {:?}, {:?}", scenario.hardware, scenario.grouping);
        scenario.events.iter().for_each(|(at_ms, it)| println!("  {at_ms}: {it:?}"));
        for until_ms in (3000..=30_000).step_by(500) {
            let scenario = Scenario { until_ms, ..scenario.clone() };
            let [on, off] = both(&scenario).map(|scores| scores[0]);
            let reason = scenario.play(true).policy.map(|policy| policy.reason).unwrap_or_default();
            println!("  {until_ms}: {:.2} / {:.2} s: {reason}", on.work_s, off.work_s);
        }
    }
}

#[test]
#[ignore = "deep"]
fn speed_of_the_simulation() {
    let (mut simulated_s, mut samples) = (0, 0);
    let begun = std::time::Instant::now();
    for seed in seeds(100) {
        let system: System = steady(seed).play(true);
        simulated_s += system.scheduler.now_us / 1_000_000;
        samples += system.samples;
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{simulated_s} s and {samples} samples in {took:.2} s: {:.0} device-hours a minute",
        simulated_s as f64 / took / 60.0
    );
}
