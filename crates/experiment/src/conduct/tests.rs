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
    let run = Run { experiment: &experiment, quick: true, seed: 5 };
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
                events: BTreeMap::new(),
                courses: BTreeMap::new(),
                rejected: None,
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
        let run = Run { experiment: &experiment, quick, seed: 5 };
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
