//! What each part of the policy is worth on workloads that it was made for.

use super::super::super::super::ablation::{Part, without};
use super::super::thread::{FRAMES, HOG, Habit, MUSIC};
use super::properties::{mean, seeds};
use super::system::{Build, Grouping, Hardware};
use super::workload::{Happening, SLEEPER, Scenario, steady};
use brisk_base::random::Random;

/// A foreground beside hogs, of varying numbers.
fn beside_hogs(seed: u64, hardware: Hardware, grouping: Grouping, front: &[Habit], more: &[Habit]) -> Scenario {
    let mut random = Random::stream(seed, 2);
    let hogs = hardware.cpus.len() / 2 + 1 + random.below(hardware.cpus.len());
    let background: Vec<(Habit, usize)> =
        more.iter().map(|&habit| (habit, 3)).chain((0..hogs).map(|_| (HOG, 2))).collect();
    Scenario::new(hardware, grouping, seed).beside(front, &background)
}

/// A workload that `part` was made for.
fn made_for(part: Part, seed: u64) -> Scenario {
    let mut random = Random::stream(seed, 3);
    let two_or_four = Hardware::equal([2, 4][random.below(2)]);
    let paced = Habit { work_ms: 4 + random.below(8) as u32, ..FRAMES };
    match part {
        Part::LightThreads => beside_hogs(seed, two_or_four, Grouping::Root, &[paced], &[MUSIC; 4]),
        Part::Spread => beside_hogs(seed, Hardware::equal(2), Grouping::Root, &[HOG, paced], &[]),
        Part::Inherited => {
            // A background process creates threads that are not bulk.
            let mut scenario = beside_hogs(seed, two_or_four, Grouping::Root, &[paced], &[]);
            for tid in 300..310 {
                let at_ms = 4000 + u64::from(tid - 300) * 2000;
                scenario = scenario.with(at_ms, Happening::Create { tid, pid: 200, by: 200, habit: MUSIC });
            }
            scenario
        }
        Part::ForkParents => {
            let mut scenario = Scenario::new(two_or_four, Grouping::Root, seed).beside(&[paced, HOG], &[]);
            let build = Build { jobs: 2 + random.below(3) as u32, work_ms: [20, 60, 150][random.below(3)] };
            scenario.events.insert(0, (0, Happening::Build { pid: 190, build }));
            scenario.events.insert(0, (0, Happening::Start { pid: 190, parent: 1, habit: SLEEPER, group: 2 }));
            scenario
        }
        Part::GroupWeights => {
            let grouping = [Grouping::Sessions, Grouping::Units][random.below(2)];
            beside_hogs(seed, two_or_four, grouping, &[paced, HOG], &[])
        }
        Part::SmallestCores => {
            let capacities = [400, 400, 400, 400, 1024, 1024];
            let hardware = Hardware { cpus: capacities.into_iter().zip(0..).collect() };
            beside_hogs(seed, hardware, Grouping::Root, &[HOG, HOG, paced, HOG, HOG, paced], &[])
        }
        Part::WholeCores => {
            beside_hogs(seed, Hardware::siblings(2 + random.below(3) as u32), Grouping::Root, &[paced], &[])
        }
        // A foreground that rests, often during a trial, and any other.
        Part::Extension if seed.is_multiple_of(2) => {
            let habit = |random: &mut Random| Habit {
                work_ms: 100 + random.below(1500) as u32,
                sleep_ms: 100 + random.below(2000) as u32,
                period_ms: 0,
            };
            let front: Vec<Habit> = (0..=random.below(2)).map(|_| habit(&mut random)).collect();
            beside_hogs(seed, two_or_four, Grouping::Root, &front, &[])
        }
        Part::Extension => steady(seed),
    }
}

/// The speed of the foreground, and the share of periods that light threads met.
fn measured(scenario: &Scenario, part: Option<Part>, is_on: bool) -> (f64, f64) {
    let [front, background] = without(part, || scenario.play(is_on)).scores;
    let met = 1.0 - background.missed as f64 / background.periods.max(1) as f64;
    (front.work_s / front.busy_s.max(1e-9), met)
}

#[test]
#[ignore = "deep: prints what each part is worth; BRISK_SEEDS=FIRST-LAST"]
fn what_each_part_is_worth_deep() {
    println!("| part | gain with it, % | without it, % | difference, points | periods met by light threads, % |");
    println!("|---|---|---|---|---|");
    let parts = [
        Part::LightThreads,
        Part::Spread,
        Part::Inherited,
        Part::ForkParents,
        Part::GroupWeights,
        Part::Extension,
        Part::SmallestCores,
        Part::WholeCores,
    ];
    for part in parts {
        let [mut full, mut less, mut differences] = [const { Vec::new() }; 3];
        let mut met: Vec<[f64; 2]> = Vec::new();
        for seed in seeds(100) {
            let scenario = made_for(part, seed);
            let stock = measured(&scenario, None, false).0;
            let (with, without) = (measured(&scenario, None, true), measured(&scenario, Some(part), true));
            let gain = |speed: f64| (speed / stock - 1.0) * 100.0;
            full.push(gain(with.0));
            less.push(gain(without.0));
            differences.push(gain(with.0) - gain(without.0));
            met.push([with.1, without.1]);
        }
        let ((full, less), (difference, half)) = ((mean(&full).0, mean(&less).0), mean(&differences));
        let periods = |at: usize| met.iter().map(|met| met[at]).sum::<f64>() / met.len() as f64 * 100.0;
        let (with, without) = (periods(0), periods(1));
        println!(
            "| {part:?} | {full:.1} | {less:.1} | {difference:+.2} ± {half:.2} | {with:.2}, without {without:.2} |"
        );
    }
}
