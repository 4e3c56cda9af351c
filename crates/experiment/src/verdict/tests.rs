use std::collections::BTreeMap;

use super::*;
use crate::plan::{Measured, Replicate};

const HEAD: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "deterministic"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 4, full = 9 }
arm = [
  { name = "slow", title = "", baseline = true },
  { name = "ours", title = "" },
  { name = "best", title = "" },
]
"#;

/// Slow takes 120 and 220 ms, best 100 and 200; `ours` is given. Blocks shift all arms alike.
fn judged(ours: [f64; 2], shifts: &[f64], quick: bool, claim: &str) -> Vec<ClaimResult> {
    let text = format!("{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\n{claim}");
    let experiment = Experiment::parse("x", &text).unwrap();
    let mut measured = Vec::new();
    for (block, shift) in (0u32..).zip(shifts) {
        for (arm, base) in [[120.0, 220.0], ours, [100.0, 200.0]].into_iter().enumerate() {
            for (point, figure) in base.into_iter().enumerate() {
                let replicate = Replicate { id: 0, block, arm, point, settle_us: 0, seed: 0, warm_up: false };
                let actions = f64::from(u8::from(figure > 150.0));
                let metrics = [("launch_ms", figure + shift), ("actions", actions)];
                measured.push((replicate, line(&metrics, None)));
            }
        }
    }
    let pairs = measured.iter().map(|(replicate, line)| (replicate, line));
    judge(&experiment, quick, &Samples::new(3, &experiment.points(quick), pairs))
}

fn line(metrics: &[(&str, f64)], rejected: Option<&str>) -> Measured {
    let metrics: BTreeMap<_, _> = metrics.iter().map(|&(key, figure)| (key.to_owned(), figure)).collect();
    Measured { metrics, rejected: rejected.map(Into::into), ..Measured::default() }
}

// Verifies PROVE-1.
#[test]
fn verdicts_follow_from_the_whole_interval() {
    use Verdict::{Inconclusive, NotShown, Shown};
    for (requirement, ci, expected) in [
        (">= 90", [90.0, 95.0], Shown),
        (">= 90", [89.9, 95.0], Inconclusive),
        (">= 90", [80.0, 89.9], NotShown),
        ("<= 8", [2.0, 8.0], Shown),
        ("<= 8", [7.0, 9.0], Inconclusive),
        ("<= 8", [8.1, 9.0], NotShown),
        ("within 1", [-0.9, 1.0], Shown),
        ("within 1", [-1.1, 0.5], Inconclusive),
        ("within 1", [1.1, 1.5], NotShown),
        ("within 1", [-3.0, -2.0], NotShown),
        (">= 90", [f64::NAN, f64::NAN], Inconclusive),
    ] {
        assert_eq!(verdict(requirement.parse().unwrap(), ci), expected, "{requirement} {ci:?}");
    }
}

/// A preload plan won 57.6 % [55.4, 60.0] of its bound with two boots for each arm, and 79 % with others.
// Verifies PROVE-1.
#[test]
fn two_agreeing_replicates_refute_nothing_but_many_do() {
    use Verdict::{Inconclusive, NotShown};
    let claim = "measure = \"level\"\nrequired = \"<= 100\"\nat = [100]";
    for (shifts, expected) in [
        (&[0.0, 0.4][..], Inconclusive),
        (&[0.0, 0.4, 0.2, 0.3, 0.1, 0.2, 0.4, 0.0], NotShown),
        (&[0.0, 0.0], NotShown),
    ] {
        let found = &judged([103.0, 202.0], shifts, true, claim)[0];
        assert_eq!(found.verdict, expected, "{shifts:?}: {:?}", found.ci);
    }
}

#[test]
fn each_measure_is_computed_as_documented() {
    let still = [0.0; 4];
    for (claim, expected) in [
        ("measure = \"gain\"", vec![("work 100 ms", 15.0), ("work 200 ms", 100.0 * 18.0 / 220.0)]),
        ("measure = \"gain\"\nat = \"mean\"", vec![("", (15.0 + 100.0 * 18.0 / 220.0) / 2.0)]),
        ("measure = \"gain\"\nat = [200]\nagainst = \"best\"", vec![("work 200 ms", -1.0)]),
        ("measure = \"gap-closed\"\ntoward = \"best\"", vec![("work 100 ms", 90.0), ("work 200 ms", 90.0)]),
        ("measure = \"loss\"\ntoward = \"best\"\nat = \"mean\"", vec![("", 2.0)]),
        ("measure = \"level\"\nat = [100]", vec![("work 100 ms", 102.0)]),
        ("measure = \"worst\"\nat = [200]", vec![("work 200 ms", 202.0)]),
        ("measure = \"spread\"\nat = [100]", vec![("work 100 ms", 0.0)]),
        ("measure = \"stays-off\"\nmetric = \"actions\"", vec![("work 100 ms", 100.0), ("work 200 ms", 0.0)]),
    ] {
        let found = judged([102.0, 202.0], &still, true, claim);
        assert_eq!(found.len(), expected.len(), "{claim}");
        for (found, (point, figure)) in found.iter().zip(expected) {
            assert_eq!(found.point, point);
            assert!((found.measured - figure).abs() < 1e-9, "{claim}: {}", found.measured);
            assert!(found.ci.iter().all(|end| (end - figure).abs() < 1e-9), "{claim}: {:?}", found.ci);
        }
    }
}

/// The outcome of `claim` about `ours` from blocks of what slow, ours and best took.
fn judged_blocks(blocks: &[[f64; 3]], claim: &str) -> ClaimResult {
    let head = "[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\nat = [100]";
    let experiment = Experiment::parse("x", &format!("{HEAD}{head}\n{claim}")).unwrap();
    let of_block = |(block, figures): (u32, &[f64; 3])| {
        let of_arm = |(arm, &figure): (usize, &f64)| {
            let replicate = Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
            (replicate, line(&[("launch_ms", figure)], None))
        };
        figures.iter().enumerate().map(of_arm).collect::<Vec<_>>()
    };
    let measured: Vec<_> = (0u32..).zip(blocks).flat_map(of_block).collect();
    let pairs = measured.iter().map(|(replicate, line)| (replicate, line));
    judge(&experiment, false, &Samples::new(3, &experiment.points(false), pairs)).remove(0)
}

// Verifies PROVE-1.
#[test]
fn paired_blocks_are_compared_one_by_one() {
    let blocks = [[100.0, 50.0, 40.0], [900.0, 300.0, 100.0], [10.0, 40.0, 5.0]];
    for (claim, expected) in [
        // The median of the ratios 1/2, 1/3 and 4; and the cube root of their product.
        ("measure = \"gain\"", 50.0),
        ("measure = \"gain\"\ncentre = \"mean\"", 100.0 * (1.0 - (2.0f64 / 3.0).cbrt())),
        ("measure = \"loss\"\ntoward = \"best\"", 35.0),
        // Of the gaps 60, 800 and 5, these have closed 50, 600 and -30.
        ("measure = \"gap-closed\"\ntoward = \"best\"", 100.0 * 50.0 / 60.0),
    ] {
        let found = judged_blocks(&blocks, &format!("{claim}\npaired = true"));
        assert!((found.measured - expected).abs() < 1e-9, "{claim}: {}", found.measured);
    }
    let nothing = judged_blocks(&[[0.0, 0.0, 1.0], [2.0, 1.0, 1.0]], "measure = \"gain\"\npaired = true");
    assert!(nothing.measured.is_nan() && nothing.verdict == Verdict::Inconclusive, "zero has no ratio to zero");
    let text = format!(
        "{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\nmeasure = \"level\"\npaired = true"
    );
    assert!(Experiment::parse("x", &text).unwrap_err().to_string().contains("paired is for gain"));
}

/// The seeds make courses differ more than the compared arms do.
// Verifies PROVE-1.
#[test]
fn paired_blocks_are_judged_within_each_block() {
    let courses = [1.0, 7.0, 2.0, 4.0, 1.5, 6.0, 3.0, 5.0];
    let scatter = [0.98, 1.02, 1.0, 1.03, 0.97, 1.01, 0.99, 1.0];
    let blocks: Vec<[f64; 3]> =
        courses.iter().zip(scatter).map(|(course, scatter)| [100.0 * course, 90.0 * course * scatter, 1.0]).collect();
    let claim = "measure = \"gain\"\nrequired = \">= 0\"";
    let apart = judged_blocks(&blocks, claim);
    let paired = judged_blocks(&blocks, &format!("{claim}\npaired = true"));
    assert_eq!(paired.verdict, Verdict::Shown, "{:?}", paired.ci);
    assert!((paired.measured - 10.0).abs() < 1.0 && paired.ci[0] > 6.0, "{} {:?}", paired.measured, paired.ci);
    let width = |found: &ClaimResult| found.ci[1] - found.ci[0];
    assert!(width(&paired) < width(&apart), "{:?} {:?}", paired.ci, apart.ci);
    assert_eq!(paired.p, Some(2.0 / 256.0), "in each block it takes less");
}

/// Courses that differ tenfold, with ratios that scatter about 0.9: a 95 % interval may miss about 5 %.
// Verifies PROVE-1.
#[test]
fn paired_intervals_cover_the_truth() {
    let mut random = brisk_base::random::Random::new(5);
    for (blocks, most) in [(4, 10), (12, 10)] {
        let missed = (0..100).filter(|_| {
            let mut block = || {
                let course = 100.0 * (2.3 * random.unit()).exp();
                [course, course * 0.9 * (0.4 * (random.unit() - 0.5)).exp(), 1.0]
            };
            let blocks: Vec<[f64; 3]> = (0..blocks).map(|_| block()).collect();
            let [low, high] = judged_blocks(&blocks, "measure = \"gain\"\npaired = true").ci;
            !(low..=high).contains(&10.0)
        });
        let missed = missed.count();
        assert!(missed <= most, "{missed} of 100 with {blocks} blocks");
    }
}

// Verifies PROVE-1.
#[test]
fn an_estimate_is_judged_alone_unless_the_arm_is_worse() {
    use Verdict::{Inconclusive, NotShown, Shown};
    let claim = "measure = \"gain\"\njudged_by = \"estimate\"\nrequired = \">= -2\"\nat = [100]";
    // Slow takes 120 ms: a hundredth is 1.2.
    let precise = "precision = 3";
    for (case, precision, ours, spread, blocks, quick, expected) in [
        ("no difference", precise, 120.0, 1.0, 8, true, Shown),
        ("a little worse, by chance", precise, 121.0, 30.0, 4, true, Shown),
        ("a little worse, surely", precise, 121.0, 0.0, 8, true, NotShown),
        ("better, surely", precise, 110.0, 0.0, 8, true, Shown),
        ("too much, but hardly known", precise, 126.0, 60.0, 4, true, Inconclusive),
        ("too much, and known", precise, 124.0, 0.5, 3, false, NotShown),
        ("too much in a few that agree", precise, 124.0, 0.1, 2, true, Inconclusive),
        ("too much, and no precision is asked for", "", 126.0, 60.0, 4, false, Inconclusive),
    ] {
        let text = format!(
            "{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\n{claim}\n{precision}"
        );
        let experiment = Experiment::parse("x", &text).unwrap();
        let lines: Vec<_> = (0..blocks)
            .flat_map(|block| {
                let scatter = if block % 2 == 0 { spread } else { -spread };
                [(0, 120.0), (1, ours + scatter), (2, 100.0)].map(|(arm, figure)| {
                    let replicate = Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
                    (replicate, line(&[("launch_ms", figure)], None))
                })
            })
            .collect();
        let pairs = lines.iter().map(|(replicate, line)| (replicate, line));
        let found = judge(&experiment, quick, &Samples::new(3, &experiment.points(quick), pairs));
        assert_eq!(found[0].verdict, expected, "{case}: {} {:?} {:?}", found[0].measured, found[0].ci, found[0].p);
    }
}

// Verifies PRELOAD-2.
#[test]
fn a_boot_is_judged_by_its_own_bound_and_its_own_prediction() {
    let head = r#"name = "x"
title = "x"
description = "x"
mechanism = "boot"
mode = "parallel"
scenario = "x"
replicates = { quick = 2, full = 2, warm_up = 0 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "plan", title = "", preload = "plan" }]
[boots]
classes = 1
services_ms = 1
system_server_ms = 1
application_ms = 1
bursts = { work_ms = 1, wait_ms = 1 }
turns_per_ms = 1
"#;
    let figure = |claim: &str| {
        let text =
            format!("{head}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"plan\"\n{claim}");
        let experiment = Experiment::parse("x", &text).unwrap();
        let mut lines = Vec::new();
        for block in 0..4 {
            let stock = [
                ("boot_ms", 1000.0),
                ("boot_bound_ms", 900.0),
                ("boot_on_2_ms", 910.0),
                ("preload_ms", 200.0),
                ("preload_bound_ms", 100.0),
                ("preload_on_2_ms", 110.0),
            ];
            for (arm, metrics) in [(0, &stock[..]), (1, &[("boot_ms", 920.0), ("preload_ms", 130.0)])] {
                let replicate = Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
                lines.push((replicate, line(metrics, None)));
            }
        }
        let lines = lines.iter().map(|(replicate, line)| (replicate, line));
        let found = judge(&experiment, true, &Samples::new(2, &experiment.points(true), lines)).remove(0);
        assert_eq!((found.unit.as_str(), found.point.as_str()), ("%", "boot"));
        found.measured
    };
    for (metric, measure, expected) in [
        ("boot", "of-bound", 80.0),
        ("preload", "of-bound", 70.0),
        ("boot", "off-prediction", 100.0 * (920.0 / 910.0 - 1.0)),
        // 20 ms of a boot of 1000.
        ("preload", "off-prediction", 2.0),
    ] {
        let found = figure(&format!("metric = \"{metric}\"\nmeasure = \"{measure}\""));
        assert!((found - expected).abs() < 1e-9, "{measure} of {metric}: {found}");
    }
}

// Verifies TRACE-9.
#[test]
fn an_estimate_is_compared_with_what_was_gained() {
    let head =
        HEAD.replacen("name = \"best\", title = \"\"", "name = \"told\", title = \"\", estimates = \"launch\"", 1);
    let text = format!(
        "{head}[[claim]]\nid = \"x.y\"\npromise = \"TRACE-9\"\ntext = \"\"\nmeasure = \"off-estimate\"\narm = \"ours\"\n\
         toward = \"told\"\nrequired = \"within 15\""
    );
    let experiment = Experiment::parse("x", &text).unwrap();
    let found = |estimate_ms: f64| {
        let mut lines = Vec::new();
        for block in 0..6 {
            // The recorded launch takes longer, which is no matter of the estimate.
            let told = [("launch_ms", 121.0), ("estimated_gain_ms", estimate_ms)];
            let arms = [&[("launch_ms", 120.0)][..], &[("launch_ms", 100.0)], &told];
            for (arm, metrics) in arms.into_iter().enumerate() {
                let replicate = Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
                lines.push((replicate, line(metrics, None)));
            }
        }
        let lines = lines.iter().map(|(replicate, line)| (replicate, line));
        judge(&experiment, true, &Samples::new(3, &experiment.points(true), lines)).remove(0)
    };
    for (estimate_ms, expected, verdict) in
        [(20.0, 0.0, Verdict::Shown), (22.0, 10.0, Verdict::Shown), (10.0, -50.0, Verdict::NotShown)]
    {
        let result = found(estimate_ms);
        assert!((result.measured - expected).abs() < 1e-9, "{}", result.measured);
        assert_eq!((result.unit.as_str(), result.verdict, result.p), ("%", verdict, None));
    }
}

#[test]
fn percentiles_are_of_all_single_events_together() {
    let text = format!(
        "{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"short\"\narm = \"ours\"\nmeasure = \"p95\"\nat = [100]\nrequired = \"<= 20\""
    );
    let experiment = Experiment::parse("x", &text).unwrap();
    let mut lines = Vec::new();
    // 0 to 100 in ten blocks of different sizes; one block has none.
    for block in 0..11 {
        let replicate = Replicate { id: 0, block, arm: 1, point: 0, settle_us: 0, seed: 0, warm_up: false };
        let mut measured = line(&[("launch_ms", 1.0)], None);
        let events: Vec<f64> = (0..=100).filter(|event| event % 10 == block).map(f64::from).collect();
        if block < 10 {
            measured.events.insert("launch_ms".to_owned(), events);
        }
        lines.push((replicate, measured));
    }
    let lines = lines.iter().map(|(replicate, line)| (replicate, line));
    let found = &judge(&experiment, false, &Samples::new(3, &experiment.points(false), lines))[0];
    assert!((found.measured - 95.0).abs() < 1e-9, "{}", found.measured);
    assert_eq!((found.text.as_str(), found.unit.as_str()), ("short (n = 101)", "ms"));
    assert!(found.ci[0] > 80.0 && found.ci[1] <= 100.0, "{:?}", found.ci);
    assert_eq!((found.verdict, found.p), (Verdict::NotShown, None));
}

#[test]
fn shifts_of_whole_blocks_do_not_widen_a_paired_interval() {
    let shifts = [-30.0, 10.0, 25.0, -5.0, 0.0, 15.0, -20.0, 40.0];
    let found = judged([102.0, 202.0], &shifts, true, "measure = \"gap-closed\"\ntoward = \"best\"");
    assert!(found[0].ci.iter().all(|end| (end - 90.0).abs() < 1e-6), "{:?}", found[0].ci);
    assert_eq!(found[0].p, Some(2.0 / 256.0), "all eight pairs differ to the same side");
    assert!(found[0].effect.unwrap() < 0.0);
}

#[test]
fn a_wide_interval_is_inconclusive_where_precision_is_asked() {
    let shifts = [-30.0, 10.0, 25.0, -5.0, 0.0, 15.0, -20.0, 40.0];
    let claim = "measure = \"gain\"\nat = [100]\nrequired = \">= 5\"\nprecision = 0.3";
    assert_eq!(judged([102.0, 202.0], &shifts, true, claim)[0].verdict, Verdict::Shown);
    assert_eq!(judged([102.0, 202.0], &shifts, false, claim)[0].verdict, Verdict::Inconclusive);
}

// Verifies PROVE-1.
#[test]
fn without_samples_nothing_is_shown() {
    for shifts in [&[][..], &[0.0]] {
        for claim in ["measure = \"gain\"\nrequired = \">= 0\"", "measure = \"spread\"", "measure = \"gain\""] {
            let found = judged([102.0, 202.0], shifts, true, claim);
            assert!(found.iter().all(|claim| claim.verdict == Verdict::Inconclusive), "{claim}");
        }
    }
}

#[test]
fn a_point_with_fewer_blocks_weighs_as_much_as_the_others() {
    let text = format!(
        "{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\nmeasure = \"gain\"\nat = \"mean\""
    );
    let experiment = Experiment::parse("x", &text).unwrap();
    let mut lines = Vec::new();
    for (point, blocks, ours) in [(0, 9u32, 90.0), (1, 3, 70.0)] {
        for block in 0..blocks {
            for (arm, figure) in [(0, 100.0), (1, ours)] {
                let replicate = Replicate { id: 0, block, arm, point, settle_us: 0, seed: 0, warm_up: false };
                lines.push((replicate, line(&[("launch_ms", figure)], None)));
            }
        }
    }
    let lines = lines.iter().map(|(replicate, line)| (replicate, line));
    let found = &judge(&experiment, false, &Samples::new(3, &experiment.points(false), lines))[0];
    assert!((found.measured - 20.0).abs() < 1e-9, "{}", found.measured);
    assert_eq!(found.p, Some(2.0 / 4096.0), "all twelve pairs differ to the same side");
}

// Verifies PROVE-1.
#[test]
fn refused_replicates_are_counted_and_their_block_is_unpaired() {
    let replicate = |block, arm| Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
    let lines = [
        (replicate(0, 0), line(&[("launch_ms", 10.0)], None)),
        (replicate(0, 1), line(&[("launch_ms", 9.0)], Some("the host was busy"))),
        (replicate(1, 0), line(&[("launch_ms", 20.0)], None)),
        (replicate(1, 1), line(&[("launch_ms", 18.0)], None)),
    ];
    let samples = Samples::new(2, &[Point::Work(1)], lines.iter().map(|(replicate, line)| (replicate, line)));
    let pairs = samples.paired(super::super::metric::Metric::Launch, &[(0, 0), (1, 0)]);
    assert_eq!(pairs, [vec![20.0], vec![18.0]]);
    let experiment = Experiment::parse("x", HEAD).unwrap();
    let refused = samples.rejections(&experiment);
    assert_eq!((refused.len(), refused[0].arm.as_str(), refused[0].count), (1, "ours", 1));
}

// Verifies PROVE-1.
#[test]
fn a_loss_needs_no_metric_of_the_baseline() {
    let claim = "measure = \"loss\"\npaired = true\ntoward = \"best\"\n";
    let text = format!("{HEAD}[[claim]]\nid = \"x.y\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\n{claim}");
    let experiment = Experiment::parse("x", &text).unwrap();
    let replicate = |block, arm| Replicate { id: 0, block, arm, point: 0, settle_us: 0, seed: 0, warm_up: false };
    let lines: Vec<_> = (0..4)
        .flat_map(|block| {
            let figures = [line(&[], None), line(&[("launch_ms", 105.0)], None), line(&[("launch_ms", 100.0)], None)];
            figures.into_iter().enumerate().map(move |(arm, line)| (replicate(block, arm), line)).collect::<Vec<_>>()
        })
        .collect();
    let samples = Samples::new(3, &experiment.points(false), lines.iter().map(|(replicate, line)| (replicate, line)));
    assert_eq!(judge(&experiment, false, &samples)[0].measured, 5.0);
}
