use super::*;

#[test]
fn arms_of_other_scenarios_get_their_own_plans() {
    let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "lookup"
mode = "deterministic"
scenario = "ours"
lookups = { services = 1, count = 1, misses = 1 }
replicates = { quick = 3, full = 3 }
arm = [
  { name = "stock", title = "", baseline = true, scenario = "theirs", lookup = { manager = "own", format = "android-5" } },
  { name = "off", title = "", lookup = { manager = "own", format = "android-5" } },
  { name = "on", title = "", lookup = { manager = "own", format = "android-5" } },
]
"#;
    let experiment = Experiment::parse("x", text).unwrap();
    let run = Run { experiment: &experiment, quick: true, seed: 5, shard: None };
    let all = blocks(&run.design());
    let plans = run.plans(&all);
    assert_eq!(plans.len(), 2);
    for plan in &plans {
        let is_stock = plan.scenario.as_deref() == Some("theirs");
        assert!(plan.replicates.iter().all(|replicate| (replicate.arm == 0) == is_stock));
        assert!(plan.replicates.is_sorted_by_key(|replicate| replicate.id), "the schedule's order is kept");
    }
    assert_eq!(plans.iter().map(|plan| plan.replicates.len()).sum::<usize>(), all.len());
    assert!(run.plans(&[]).is_empty());
}

/// The second arm scatters by this much at the first point; nothing else scatters.
struct Device(f64);

impl Testbed for Device {
    fn devices(&self, _: &Experiment) -> u32 {
        1
    }

    fn program(&self) -> anyhow::Result<String> {
        Ok(String::new())
    }

    fn prepare(&self, _: &Experiment, _: &Plan) -> anyhow::Result<String> {
        Ok(String::new())
    }

    fn run(
        &self,
        _: &Experiment,
        plan: &Plan,
        _: u32,
        _: &AtomicBool,
        on_line: &mut dyn FnMut(Line),
    ) -> anyhow::Result<Vec<SelfCheck>> {
        for replicate in &plan.replicates {
            let sign = if replicate.block.is_multiple_of(2) { 1.0 } else { -1.0 };
            let scatter = if (replicate.arm, replicate.point) == (1, 0) { self.0 * sign } else { 0.0 };
            on_line(Line::Measured(Measured {
                replicate: replicate.id,
                arm: plan.arms[replicate.arm].name.clone(),
                point: plan.points[replicate.point].to_string(),
                metrics: BTreeMap::from([("launch_ms".to_owned(), 100.0 + scatter)]),
                ..Measured::default()
            }));
        }
        Ok(Vec::new())
    }
}

// Verifies PROVE-2.
#[test]
fn precise_points_are_not_measured_again() {
    let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "parallel"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 2, full = 12, least = 3, warm_up = 0 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
[[claim]]
id = "x.y"
promise = "LAUNCH-4"
text = ""
measure = "gain"
arm = "ours"
precision = 2
"#;
    let experiment = Experiment::parse("x", text).unwrap();
    let run = |quick, scatter, until| {
        let run = Run { experiment: &experiment, quick, seed: 5, shard: None };
        let folder = tempfile::tempdir().unwrap();
        let header = super::super::store::Header {
            brisk: "1".into(),
            experiment: text.into(),
            quick,
            seed: 5,
            ..Default::default()
        };
        let mut store = Store::create(folder.path(), &header).unwrap();
        let mut findings = Findings::default();
        let limits = Limits { interrupted: &AtomicBool::new(false), until };
        run.conduct(&Device(scatter), &mut store, &mut findings, &limits, &mut |_, _| {}).unwrap();
        let result = run.result(&findings, String::new());
        let counts: Vec<usize> = result.arms.iter().map(|arm| arm.samples.len()).collect();
        let state = run.state(&findings);
        assert!(quick || counts.is_empty() || state.len() == 2 && state[1].ends_with("precise"), "{state:?}");
        let named = result.notes.iter().any(|note| note == "Less precise than was asked for: x.y: work 100 ms.");
        (counts, named)
    };
    assert_eq!(run(false, 30.0, None), (vec![12, 12, 3, 3], true), "two arms at each of two points");
    assert_eq!(run(false, 0.0, None), (vec![3; 4], false));
    assert_eq!(run(true, 30.0, None), (vec![2; 4], false), "a quick form promises no precision");
    assert_eq!(run(false, 0.0, Some(Instant::now())), (vec![], false), "no time");
}

/// Two arms at two points in four blocks, with two warm-ups on each device.
const PARTS: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "deterministic"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 4, full = 12 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
"#;

/// Keeps the plans that it ran; breaks after so many replicates.
struct Recorder {
    devices: u32,
    breaks_after: usize,
    plans: std::sync::Mutex<Vec<Plan>>,
}

impl Testbed for Recorder {
    fn devices(&self, _: &Experiment) -> u32 {
        self.devices
    }

    fn program(&self) -> anyhow::Result<String> {
        Ok(String::new())
    }

    fn prepare(&self, _: &Experiment, _: &Plan) -> anyhow::Result<String> {
        Ok(String::new())
    }

    fn run(
        &self,
        experiment: &Experiment,
        plan: &Plan,
        device: u32,
        interrupted: &AtomicBool,
        on_line: &mut dyn FnMut(Line),
    ) -> anyhow::Result<Vec<SelfCheck>> {
        let before: usize = self.plans.lock().unwrap().iter().map(|plan| plan.replicates.len()).sum();
        self.plans.lock().unwrap().push(plan.clone());
        let cut = plan.replicates.iter().take(self.breaks_after - before).copied().collect::<Vec<_>>();
        let is_whole = cut.len() == plan.replicates.len();
        Device(0.0).run(experiment, &Plan { replicates: cut, ..plan.clone() }, device, interrupted, on_line)?;
        anyhow::ensure!(is_whole, "the device broke");
        Ok(Vec::new())
    }
}

/// Runs a shard with `findings`, and returns the plans that were run.
fn plans_of(
    text: &str,
    quick: bool,
    shard: &str,
    devices: u32,
    breaks_after: usize,
    findings: &mut Findings,
) -> Vec<Plan> {
    let experiment = Experiment::parse("x", text).unwrap();
    let run = Run { experiment: &experiment, quick, seed: 5, shard: Some(shard.parse().unwrap()) };
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), &super::super::store::Header::default()).unwrap();
    let place = Recorder { devices, breaks_after, plans: std::sync::Mutex::default() };
    let limits = Limits { interrupted: &AtomicBool::new(false), until: None };
    let outcome = run.conduct(&place, &mut store, findings, &limits, &mut |_, _| {});
    assert_eq!(outcome.is_ok(), run.missing(findings).next().is_none());
    place.plans.into_inner().unwrap()
}

/// However an experiment is divided, and on however many CPUs: a guest that depends on its plan alone measures the same.
// Verifies PROVE-5.
#[test]
fn a_deterministic_block_has_one_plan_in_any_division() {
    // Every point is precise after three blocks.
    let in_stages = PARTS.replace("full = 12", "full = 12, least = 3, warm_up = 0")
        + "claim = [{ id = \"x.y\", promise = \"PROVE-5\", text = \"\", measure = \"gain\", arm = \"ours\", precision = 2 }]\n";
    for (text, quick, blocks, warm_up) in [(PARTS, true, 4, 2), (PARTS, false, 12, 2), (&in_stages, false, 12, 0)] {
        let mut divisions = Vec::new();
        for (shards, devices) in [
            (&["1/1"][..], 1),
            (&["1/1"], 3),
            (&["1/2", "2/2"], 2),
            (&["1/3", "2/3", "3/3"], 1),
            (&["1/2", "2/4", "4/4"], 1),
        ] {
            let plans = shards
                .iter()
                .flat_map(|shard| plans_of(text, quick, shard, devices, usize::MAX, &mut Findings::default()));
            let mut plans: Vec<Plan> = plans.collect();
            plans.sort_by_key(|plan| plan.replicates.iter().map(|replicate| replicate.block).min());
            divisions.push(plans);
        }
        let first = divisions[0].clone();
        assert_eq!(first.len(), blocks, "points that are precise early are measured as well");
        for (block, plan) in first.iter().enumerate() {
            let (warm_ups, counted): (Vec<&Replicate>, Vec<&Replicate>) =
                plan.replicates.iter().partition(|replicate| replicate.warm_up);
            assert!(plan.independent && warm_ups.len() == warm_up && counted.len() == 4);
            assert!(counted.iter().all(|replicate| replicate.block as usize == block));
        }
        assert!(divisions.iter().all(|division| *division == first));
    }
}

// Verifies PROVE-5.
#[test]
fn a_dead_shard_repeats_the_block_in_which_it_died() {
    let mut findings = Findings::default();
    // A block is two warm-ups and four replicates: it breaks in the second block.
    let begun = plans_of(PARTS, true, "1/2", 1, 9, &mut findings);
    assert_eq!((begun.len(), findings.measured().count()), (2, 9));
    let again = plans_of(PARTS, true, "1/2", 1, usize::MAX, &mut findings);
    assert_eq!(again, begun[1..], "whole, with its warm-ups");
    assert!(plans_of(PARTS, true, "1/2", 1, usize::MAX, &mut findings).is_empty());
}

/// On the host's clock, the blocks of a shard run on one device, and only missing replicates are measured again.
// Verifies PROVE-5.
#[test]
fn a_parallel_shard_keeps_its_blocks_on_one_device() {
    let text = PARTS.replace("deterministic", "parallel");
    let mut findings = Findings::default();
    let begun = plans_of(&text, true, "2/2", 1, 7, &mut findings);
    let [plan] = &begun[..] else { panic!("{begun:?}") };
    assert!(!plan.independent);
    assert_eq!(plan.replicates.iter().map(|replicate| replicate.block).collect::<BTreeSet<_>>(), [1, 3, 4].into());
    let again = plans_of(&text, true, "2/2", 1, usize::MAX, &mut findings);
    let counted = again[0].replicates.iter().filter(|replicate| !replicate.warm_up).count();
    assert_eq!((again.len(), counted), (1, 3));
}

/// With a time limit, a full run asks for the time before each block; a block is whole.
// Verifies PROVE-5.
#[test]
fn a_time_limit_is_checked_before_each_block() {
    let experiment = Experiment::parse("x", &PARTS.replace("deterministic", "parallel")).unwrap();
    let run = Run { experiment: &experiment, quick: false, seed: 5, shard: None };
    let plans = |until| {
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(folder.path(), &super::super::store::Header::default()).unwrap();
        let place = Recorder { devices: 1, breaks_after: usize::MAX, plans: std::sync::Mutex::default() };
        let limits = Limits { interrupted: &AtomicBool::new(false), until };
        run.conduct(&place, &mut store, &mut Findings::default(), &limits, &mut |_, _| {}).unwrap();
        place.plans.into_inner().unwrap()
    };
    assert_eq!(plans(None).len(), 1);
    let limited = plans(Some(Instant::now() + Duration::from_secs(3600)));
    let counted = |plan: &Plan| plan.replicates.iter().filter(|replicate| !replicate.warm_up).count();
    assert_eq!(limited.iter().map(counted).collect::<Vec<_>>(), [4; 12]);
    assert!(plans(Some(Instant::now())).is_empty());
}
