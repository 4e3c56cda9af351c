//! No proof makes the report panic, nothing in it appears unescaped, and no unavailable figure is printed.

use brisk::report::proof::{
    ArmResult, ClaimResult, DeviceDescription, ExperimentResult, Failure, FailureOf, MedianChange, ProcessSeries,
    Proof, Rejection, SelfCheck, StepSeries, Timekeeping, Verdict,
};
use brisk::report::{brief, html, json, plot, table};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

const FIXTURE: &str = include_str!("fixtures/proof.json");

/// A hostile name tries to open an element, to leave an attribute, an entity or a style, to move the cursor.
const HOSTILE: [&str; 8] = [
    "<hostile>",
    "\"><hostile>",
    "' onload='hostile",
    "</style><hostile>",
    "</title></svg><hostile>",
    "&hostile;",
    "\u{1b}[2Jhostile\u{0}\u{7}",
    "\u{202e}hostile\u{2066}",
];

const CURSOR: [char; 3] = ['\u{0}', '\u{1b}', '\u{7}'];
const DIRECTION: [char; 2] = ['\u{202e}', '\u{2066}'];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        "[a-z]{1,8}( [a-z0-9]{1,40}){0,6}",
        any::<String>(),
    ]
}

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>(),
        -1e6..1e6f64,
        prop::sample::select(vec![0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE]),
    ]
}

prop_compose! {
    fn arm()(
        name in name(), point in name(), metric in name(), unit in prop_oneof![name(), Just("ms".to_owned()), Just("uJ".to_owned())],
        samples in prop::collection::vec(number(), 0..12), median in number(), ci in prop::array::uniform2(number()),
        standard_deviation in number(), rejected in any::<u32>(), baseline in any::<bool>(), higher_is_better in any::<bool>(),
        change in prop::option::of((number(), prop::array::uniform2(number()))),
    ) -> ArmResult {
        let change = change.map(|(percent, ci)| MedianChange { percent, ci });
        ArmResult { name, point, metric, unit, samples, median, ci, standard_deviation, rejected, baseline, change, higher_is_better }
    }
}

prop_compose! {
    fn claim()(
        id in name(), text in name(), arm in prop::option::of(name()), point in name(), unit in prop_oneof![name(), Just("%".to_owned())],
        required in prop_oneof![name(), Just(">= 90".to_owned()), Just("reported".to_owned())], measured in number(),
        ci in prop::array::uniform2(number()), p in prop::option::of(number()), effect in prop::option::of(number()),
        paper in prop::option::of(prop_oneof![name(), Just("2 to 5 %".to_owned())]),
        verdict in prop::sample::select(vec![Verdict::Shown, Verdict::NotShown, Verdict::Inconclusive]),
    ) -> ClaimResult {
        ClaimResult { id, text, arm, point, unit, required, measured, ci, p, effect, paper, verdict }
    }
}

prop_compose! {
    fn course()(
        arm in name(), what in name(), unit in name(), medians in prop::collection::vec(number(), 0..6),
    ) -> StepSeries {
        StepSeries { arm, what, unit, medians }
    }
}

prop_compose! {
    fn process()(
        arm in name(), process in name(), resident_mib in prop::collection::vec(number(), 0..6),
        swapped_mib in prop::collection::vec(number(), 0..6),
    ) -> ProcessSeries {
        ProcessSeries { arm, process, resident_mib, swapped_mib }
    }
}

prop_compose! {
    fn experiment()(
        name in name(), title in name(), description in name(), mechanism in name(), command in name(), note in name(),
        mode in prop::sample::select(vec![Timekeeping::Deterministic, Timekeeping::Parallel, Timekeeping::Native]),
        quick in any::<bool>(), seed in any::<u64>(), arms in prop::collection::vec(arm(), 0..8),
        claims in prop::collection::vec(claim(), 0..4), count in any::<u32>(), courses in prop::collection::vec(course(), 0..3),
        processes in prop::collection::vec(process(), 0..3),
        reason in prop::option::of(name()),
    ) -> ExperimentResult {
        let self_checks = vec![SelfCheck { text: note.clone(), passed: quick }];
        let rejections = vec![Rejection { arm: name.clone(), point: title.clone(), reason: note.clone(), count }];
        let failure = reason.map(|reason| Failure { of: FailureOf::Lab, reason });
        ExperimentResult {
            name, title, description, mechanism, mode, quick, seed, arms, claims, notes: vec![note], command, self_checks, rejections,
            courses, processes, failure,
        }
    }
}

prop_compose! {
    fn proof()(
        brisk in name(), started in name(), place in name(), kernel in name(), processor in name(),
        energy_source in prop::option::of(name()), memory_kib in any::<u64>(), cpu_count in any::<u32>(),
        experiments in prop::collection::vec(experiment(), 0..3),
    ) -> Proof {
        let device = DeviceDescription { place, kernel, processor, cpu_count, memory_kib, energy_source };
        Proof { schema: 1, brisk, started, device, experiments }
    }
}

/// The proof with plain names, so that a match can only be a broken figure.
fn without_names(mut proof: Proof) -> Proof {
    let plain = |text: &mut String| "plain".clone_into(text);
    for experiment in &mut proof.experiments {
        for text in
            [&mut experiment.title, &mut experiment.name, &mut experiment.description, &mut experiment.mechanism]
        {
            plain(text);
        }
        experiment.command.clear();
        experiment.notes.clear();
        experiment.self_checks.clear();
        experiment.rejections.clear();
        experiment.failure = None;
        for series in &mut experiment.processes {
            plain(&mut series.arm);
            plain(&mut series.process);
        }
        for course in &mut experiment.courses {
            [&mut course.arm, &mut course.what, &mut course.unit].into_iter().for_each(plain);
        }
        for arm in &mut experiment.arms {
            [&mut arm.name, &mut arm.point, &mut arm.metric, &mut arm.unit].into_iter().for_each(plain);
        }
        for claim in &mut experiment.claims {
            [&mut claim.id, &mut claim.text, &mut claim.point, &mut claim.unit, &mut claim.required]
                .into_iter()
                .for_each(plain);
            (claim.arm, claim.paper) = (None, None);
        }
    }
    let device = &mut proof.device;
    [&mut device.kernel, &mut device.processor, &mut device.place, &mut proof.brisk, &mut proof.started]
        .into_iter()
        .for_each(plain);
    device.energy_source = None;
    proof
}

fn assert_escaped(page: &str) {
    assert!(!page.contains("<hostile") && !page.contains("&hostile"), "an element or an entity got through");
    assert!(!page.contains("' onload='") && !page.contains("\" onload="), "an attribute got through");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    // Verifies PROVE-4.
    #[test]
    fn any_proof_is_rendered_and_escaped(proof in proof()) {
        let page = html::render(&proof);
        prop_assert!(page.trim_end().ends_with("</html>"));
        assert_escaped(&page);
        for experiment in &proof.experiments {
            if let Some(drawing) = plot::standalone(experiment) {
                assert_escaped(&drawing);
                prop_assert!(!drawing.contains(CURSOR), "a control character got through");
            }
        }
    }

    // Verifies PROVE-4.
    #[test]
    fn the_table_fits_and_cannot_move_the_cursor(proof in proof(), width in 0usize..200) {
        let text = table::render(&proof, width, false);
        prop_assert!(!text.contains(CURSOR) && !text.contains(DIRECTION), "a control character got through");
        for line in text.lines() {
            prop_assert!(line.width() <= width.max(table::MIN_WIDTH), "{} of {width}: {line:?}", line.width());
        }
    }

    // Verifies PROVE-4.
    #[test]
    fn the_summary_is_one_screen_and_cannot_move_the_cursor(proof in proof(), width in 0usize..200) {
        let text = brief::render(&proof, width, false);
        prop_assert!(text.lines().count() <= brief::MAX_LINES, "{text}");
        prop_assert!(!text.contains(CURSOR) && !text.contains(DIRECTION), "a control character got through");
        for line in text.lines() {
            prop_assert!(line.width() <= width.max(60), "{} of {width}: {line:?}", line.width());
        }
    }

    #[test]
    fn unavailable_figures_are_not_printed(proof in proof()) {
        let proof = without_names(proof);
        for text in [html::render(&proof), table::render(&proof, 80, false), brief::render(&proof, 80, false)] {
            prop_assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
        }
        for drawing in proof.experiments.iter().filter_map(plot::standalone) {
            prop_assert!(!drawing.contains("NaN") && !drawing.contains("\"inf") && !drawing.contains("\"-inf"));
        }
    }

    // Verifies PROVE-4.
    #[test]
    fn json_reads_back_as_it_was_written(proof in proof()) {
        let text = json::render(&proof);
        let again = json::render(&json::parse(&text).expect("what was written is a proof"));
        prop_assert_eq!(text, again);
    }

    #[test]
    fn broken_files_are_refused_quietly(at in 0usize..FIXTURE.len(), byte in any::<u8>()) {
        let mut bytes = FIXTURE.as_bytes().to_vec();
        bytes[at] = byte;
        html::render_untrusted(&bytes);
        html::render_untrusted(&bytes[..at]);
    }
}

// Verifies PROVE-4.
#[test]
fn the_fixture_has_every_verdict_and_renders_reproducibly() {
    let proof = json::parse(FIXTURE).expect("the fixture is a proof");
    let page = html::render(&proof);
    assert_eq!(page, html::render(&proof));
    for words in [
        "badge shown",
        "badge not-shown",
        "badge inconclusive",
        "badge reported",
        "no samples",
        "Content-Security-Policy",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("http://") && !page.contains("https://"), "the page names another place");
}

#[test]
fn the_table_of_the_fixture_at_80_and_120_columns() {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    proof.experiments.truncate(3);
    insta::assert_snapshot!("table-80", table::render(&proof, 80, false));
    insta::assert_snapshot!("table-120", table::render(&proof, 120, false));
    let coloured = table::render(&proof, 80, true);
    assert!(coloured.contains("\u{1b}[") && !table::render(&proof, 80, false).contains('\u{1b}'));
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), table::render(&proof, 80, false));
}

#[test]
fn an_empty_proof_says_so() {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    proof.experiments.clear();
    assert!(html::render(&proof).contains("No experiment was run"));
    assert_eq!(table::render(&proof, 80, false), "No experiment was run.\n");
}

/// As many experiments as the quick run has, with claims of every verdict; one experiment failed.
fn of_a_whole_run() -> Proof {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    let kick = proof.experiments.remove(1);
    let mechanisms = ["boot", "launch", "placement", "lookup", "memory"];
    let number = |number: usize| ExperimentResult {
        name: format!("{}-{number}", mechanisms[number % 5]),
        mechanism: mechanisms[number * 5 / 18].to_owned(),
        ..kick.clone()
    };
    proof.experiments = (0..18).map(number).collect();
    let reason = "cannot get the package linux-image-none: no such package\nits second line".to_owned();
    proof.experiments[3].failure = Some(Failure { of: FailureOf::Lab, reason });
    proof
}

// Verifies PROVE-4.
#[test]
fn a_whole_runs_summary_is_one_screen_with_what_was_not_shown() {
    for mut proof in [json::parse(FIXTURE).expect("the fixture is a proof"), of_a_whole_run()] {
        let text = brief::render(&proof, 100, false);
        assert!(text.lines().count() <= 38, "{} lines:\n{text}", text.lines().count());
        assert!(table::render(&proof, 100, false).lines().count() > 80, "the tables are longer");
        for words in ["claims shown", "Refuted: ", "Open: ", "launch.gap-closed-exec", "launch.steady"] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
        let failed = proof.experiments.iter().any(|experiment| experiment.failure.is_some());
        assert_eq!(text.contains("linux-image-none: no such package"), failed, "{text}");
        assert!(!text.contains("its second line"));
        let coloured = brief::render(&proof, 100, true);
        assert!(coloured.contains("\u{1b}["));
        assert_eq!(
            anstream::adapter::strip_str(&coloured).to_string().replace(" \n", "\n").lines().count(),
            text.lines().count()
        );
        proof.experiments.truncate(0);
        assert_eq!(brief::render(&proof, 100, false), "No experiment was run.\n");
    }
}

/// A user who runs it beside other work learns why a claim is inconclusive.
// Verifies PROVE-4.
#[test]
fn the_summary_counts_rejected_replicates_by_reason() {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    proof.experiments.iter_mut().for_each(|experiment| experiment.rejections.clear());
    assert!(!brief::render(&proof, 120, false).contains("rejected"));
    let is_open = |claim: &ClaimResult| claim.verdict == Verdict::Inconclusive;
    let open = proof.experiments.iter_mut().find(|experiment| experiment.claims.iter().any(is_open)).unwrap();
    for (reason, count) in [("a rare one", 1), ("the host kept a virtual CPU waiting", 4)] {
        let (arm, point) = (String::new(), String::new());
        open.rejections.push(Rejection { arm, point, reason: reason.to_owned(), count });
    }
    let text = brief::render(&proof, 120, false);
    assert!(text.contains("    5 replicates were rejected: the host kept a virtual CPU waiting\n"), "{text}");
}

/// Each experiment has its own line where the screen is large enough.
// Verifies PROVE-4.
#[test]
fn each_experiment_of_a_run_has_its_line() {
    let mut proof = of_a_whole_run();
    for experiment in &mut proof.experiments {
        experiment.claims.retain(|claim| claim.verdict == Verdict::Shown);
        experiment.failure = None;
    }
    let text = brief::render(&proof, 100, false);
    for experiment in &proof.experiments {
        assert_eq!(text.matches(&format!("\u{2713} {} ", experiment.name)).count(), 1, "{}:\n{text}", experiment.name);
    }
    assert!(text.contains("Everything that is required was shown."), "{text}");
}
