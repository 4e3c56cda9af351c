//! Experiments end to end: a static brisk, the lab, `brisk prove`.

mod adb_device;
mod here;
mod kubernetes;
mod on;
mod on_adb;
mod on_guests;
mod shard;
mod ssh_server;

use std::path::Path;
use std::process::{Command, Output};

use brisk::experiment::plan::Line;
use brisk::experiment::store;
use brisk::report::proof::{ExperimentResult, FailureOf, Proof, Verdict};

use crate::patience::{LONG_PATIENCE, OutputWithin};
use crate::static_brisk::static_brisk;

/// Two arms, one point, three blocks; its claim always holds.
const EXPERIMENT: &str = r#"
name = "mini"
title = "Full speed against a slow governor"
description = "Ondemand at 100 ms against the highest frequency."
mechanism = "launch"
mode = "deterministic"
scenario = "debian-6.1"
[workload]
program = "load"
work_ms = [60]
start_up_ms = 20
settle_ms = [400, 500]
window_beyond_work_ms = 300
[replicates]
quick = 3
full = 3
[[arm]]
name = "slow"
title = "ondemand, 100 ms"
baseline = true
governor = "ondemand"
tunables = { sampling_rate = 100_000 }
[[arm]]
name = "fast"
title = "full speed"
governor = "performance"
[[claim]]
id = "launch.mini"
promise = "LAUNCH-4"
text = "Full speed is faster."
measure = "gain"
arm = "fast"
required = ">= 20"
"#;

/// Two drivers, each in its own guest, and the cache in one of them.
const LOOKUPS: &str = r#"
name = "mini"
title = "Lookups"
description = "A stock driver, and ours with its cache on."
mechanism = "lookup"
mode = "deterministic"
scenario = "binder-6.1"
lookups = { services = 20, count = 60, misses = 5 }
replicates = { quick = 2, full = 2, warm_up = 0 }
[[arm]]
name = "stock"
title = "stock"
baseline = true
scenario = "binder-stock-6.1"
lookup = { manager = "own", format = "android-5" }
[[arm]]
name = "cached"
title = "cached"
lookup = { manager = "own", format = "android-5", cache = { mode = "transparent" } }
[[arm]]
name = "wrong"
title = "a mode that needs a cooperating manager, and there is none"
lookup = { manager = "own", format = "android-5", cache = { mode = "cooperative" } }
[[claim]]
id = "lookup.mini"
promise = "LOOKUP-5"
text = "The cache saves most of it."
measure = "gain"
metric = "lookup"
arm = "cached"
required = ">= 50"
"#;

/// Six applications of which all stay alive, or no more than three in the background.
const APPLICATIONS: &str = r#"
name = "mini"
title = "A limit of hidden applications"
description = "Applications are opened with and without a limit."
mechanism = "memory"
mode = "deterministic"
scenario = "memory-6.1"
applications = { count = 6, storage = "/dev/flash0", limit_ms = 20_000 }
replicates = { quick = 2, full = 2, warm_up = 0 }
[[arm]]
name = "all"
title = "all"
baseline = true
[[arm]]
name = "three"
title = "three hidden"
hidden_limit = 3
[[claim]]
id = "memory.mini-kills"
promise = "MEMORY-9"
text = "Two more end than without the limit."
measure = "loss"
metric = "kills"
arm = "three"
toward = "all"
required = ">= 2"
[[claim]]
id = "memory.mini-alive"
promise = "MEMORY-9"
text = "The foreground and three others are alive."
measure = "level"
metric = "alive"
arm = "three"
required = "<= 4"
"#;

fn prove(folder: &Path, text: &str, arguments: &[&str]) -> Output {
    let file = folder.join("mini.toml");
    std::fs::write(&file, text).unwrap();
    proving(folder).arg(&file).args(arguments).output_within(3 * LONG_PATIENCE)
}

/// `brisk prove` with its results in `folder`, without an experiment yet.
fn proving(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.arg("prove").arg("--output").arg(folder);
    if let Some(binary) = static_brisk() {
        command.env("BRISK_BINARY", binary);
    }
    command
}

/// Proves the experiments of several files; a given text is written to its path first.
fn prove_all(folder: &Path, files: &[(&Path, Option<&str>)]) -> Output {
    let mut command = proving(folder);
    for (file, text) in files {
        text.iter().for_each(|text| std::fs::write(file, text).unwrap());
        command.arg(file);
    }
    command.output_within(3 * LONG_PATIENCE)
}

fn result(folder: &Path) -> ExperimentResult {
    let text = std::fs::read_to_string(folder.join("proof.json")).unwrap();
    serde_json::from_str::<Proof>(&text).unwrap().experiments.remove(0)
}

fn merge(folders: &[&Path], arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk"))
        .args(["prove", "merge"])
        .args(folders)
        .args(arguments)
        .output_within(LONG_PATIENCE)
}

/// The result of a merge of `folder` into `joined`.
fn merged(folder: &Path, joined: &Path) -> ExperimentResult {
    assert_code(&merge(&[folder], &["--output", joined.to_str().unwrap()]), 0);
    result(joined)
}

fn samples(result: &ExperimentResult, arm: &str, metric: &str) -> Vec<f64> {
    let series = result.arms.iter().find(|series| series.name == arm && series.metric == metric);
    series.unwrap_or_else(|| panic!("{arm} has no {metric}: {result:?}")).samples.clone()
}

fn launches(result: &ExperimentResult, arm: &str) -> Vec<f64> {
    samples(result, arm, "launch")
}

fn assert_code(output: &Output, code: i32) {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert_eq!(output.status.code(), Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
}

// Verifies PROVE-2.
#[test]
fn an_experiment_is_shown_repeats_and_resumes() {
    if static_brisk().is_none() {
        return;
    }
    let [first, second] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    assert_code(&prove(first.path(), EXPERIMENT, &["--seed", "5"]), 0);
    let one = result(first.path());
    assert_eq!((one.claims[0].verdict, one.seed, one.quick), (Verdict::Shown, 5, true));
    assert!(one.self_checks.iter().any(|check| check.passed), "{:?}", one.self_checks);
    assert!(one.rejections.is_empty(), "{:?}", one.rejections);
    assert!(one.arms.iter().any(|series| series.metric == "energy" && series.median > 0.0));
    let report = std::fs::read_to_string(first.path().join("report.html")).unwrap();
    assert!(report.contains("Full speed against a slow governor"));

    // The same seed on another boot gives the same times, within the 0.5 % that deterministic mode promises.
    let output = prove(second.path(), EXPERIMENT, &["--seed", "5", "--json"]);
    assert_code(&output, 0);
    let proof: Proof = serde_json::from_slice(&output.stdout).expect("--json prints one object");
    let two = &proof.experiments[0];
    let fast = launches(&one, "fast").into_iter().zip(launches(two, "fast"));
    for (one, two) in fast {
        assert!((one / two - 1.0).abs() <= 0.005, "{one} ms and then {two} ms");
    }

    // A run that was interrupted after three replicates resumes with the remaining ones and keeps its results.
    let [partial, archived] = ["partial/mini-quick", "samples/mini-quick"].map(|folder| second.path().join(folder));
    assert!(!partial.exists(), "a complete run leaves no partial results");
    std::fs::rename(&archived, &partial).unwrap();
    let lines_file = partial.join("replicates.jsonl");
    let (lines, _) = store::parse(&std::fs::read_to_string(&lines_file).unwrap());
    let measured = lines.iter().filter(|line| matches!(line, Line::Measured(measured) if measured.replicate < 3));
    let kept: String = measured.map(|line| serde_json::to_string(line).unwrap() + "\n").collect();
    std::fs::write(&lines_file, kept + "{\"replicate\":4,\"ar").unwrap();
    let output = prove(second.path(), EXPERIMENT, &[]);
    assert_code(&output, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("3 replicates of 1 experiment are kept (--restart"), "{said}");
    let resumed = result(second.path());
    assert_eq!(resumed.seed, 5, "a resumed run keeps its seed");
    for arm in ["slow", "fast"] {
        assert_eq!(launches(&resumed, arm).len(), 3, "{arm}");
    }
    assert_eq!(counted(&archived, 6), [0, 1, 2, 3, 4, 5], "nothing is measured twice");
}

/// The replicates below `end` on record in a run's folder, sorted, without warm-ups.
fn counted(folder: &Path, end: u32) -> Vec<u32> {
    let (lines, _) = store::parse(&std::fs::read_to_string(folder.join("replicates.jsonl")).unwrap_or_default());
    let numbers = lines.into_iter().filter_map(|line| match line {
        Line::Measured(measured) if measured.replicate < end => Some(measured.replicate),
        _ => None,
    });
    let mut numbers: Vec<u32> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// The first experiment's kernel is not available, the second one's is.
// Verifies PROVE-3.
#[test]
fn a_failed_preparation_does_not_stop_other_experiments() {
    if static_brisk().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let scenario = include_str!("../../lab/scenarios/debian-6.1.toml").replace("linux-image-amd64", "linux-image-none");
    assert!(scenario.contains("linux-image-none"));
    let scenario_file = folder.path().join("missing.toml");
    std::fs::write(&scenario_file, scenario).unwrap();
    let text = EXPERIMENT.replace("\"debian-6.1\"", &format!("{:?}", scenario_file.display().to_string()));
    let unprepared = folder.path().join("unprepared.toml");
    std::fs::write(&unprepared, text.replace("\"mini\"", "\"unprepared\"")).unwrap();
    let output = prove_all(folder.path(), &[(&unprepared, None), (&folder.path().join("mini.toml"), Some(EXPERIMENT))]);
    assert_code(&output, 69);
    let text = std::fs::read_to_string(folder.path().join("proof.json")).unwrap();
    let proof: Proof = serde_json::from_str(&text).unwrap();
    let [failed, measured] = &proof.experiments[..] else { panic!("{text}") };
    let failure = failed.failure.as_ref().expect("the first one failed");
    assert_eq!(failure.of, FailureOf::Lab);
    assert!(failure.reason.contains("linux-image-none"), "{}", failure.reason);
    assert_eq!((measured.claims[0].verdict, &measured.failure), (Verdict::Shown, &None));
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("1 experiment failed") && page.contains("linux-image-none"), "the report says so");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("unprepared failed: cannot get the package linux-image-none"), "{said}");
    // The same command retries the first one, and measures nothing again for the second one.
    assert_eq!(counted(&folder.path().join("partial/mini-quick"), 6), [0, 1, 2, 3, 4, 5]);
    let output = prove_all(folder.path(), &[(&unprepared, None), (&folder.path().join("mini.toml"), None)]);
    assert_code(&output, 69);
    assert_eq!(counted(&folder.path().join("partial/mini-quick"), 6), [0, 1, 2, 3, 4, 5]);
    assert_eq!(result(folder.path()).name, "unprepared");
}

// Verifies PROVE-3.
#[test]
fn a_refuted_claim_and_an_unsettable_arm_have_exit_codes() {
    if static_brisk().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let missed = EXPERIMENT.replace(">= 20", ">= 99");
    assert_code(&prove(folder.path(), &missed, &[]), 1);
    assert_eq!(result(folder.path()).claims[0].verdict, Verdict::NotShown);

    let output = prove(folder.path(), &EXPERIMENT.replace("\"performance\"", "\"warp\""), &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_code(&output, 2);
    assert!(stderr.contains("cannot be governed by warp"), "{stderr}");
}

#[test]
fn lookups_of_two_drivers_compare_and_an_idle_cache_is_refused() {
    if static_brisk().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let output = prove(folder.path(), LOOKUPS, &[]);
    assert_code(&output, 0);
    let result = result(folder.path());
    let medians = |metric: &str| {
        let series = result.arms.iter().filter(|arm| arm.metric == metric && !arm.samples.is_empty());
        series.map(|arm| (arm.name.clone(), arm.median)).collect::<Vec<_>>()
    };
    let [(stock, slow), (cached, fast)] = &medians("lookup")[..] else { panic!("{result:?}") };
    assert_eq!((stock.as_str(), cached.as_str()), ("stock", "cached"));
    assert!(*slow > 20_000.0 && *fast < 8_000.0, "{slow} {fast}");
    // A cache that is on and answers nothing would be measured as a slow one.
    let [rejection] = &result.rejections[..] else { panic!("{:?}", result.rejections) };
    assert_eq!((rejection.arm.as_str(), rejection.count), ("wrong", 2));
    assert!(rejection.reason.contains("answered 0 lookups"), "{}", rejection.reason);
}

#[test]
fn applications_beyond_the_limit_of_hidden_ones_end() {
    if static_brisk().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    assert_code(&prove(folder.path(), APPLICATIONS, &[]), 0);
    let result = result(folder.path());
    let found = ["all", "three"].map(|arm| ["kills", "alive"].map(|metric| samples(&result, arm, metric)));
    assert_eq!(found, [[vec![0.0; 2], vec![6.0; 2]], [vec![2.0; 2], vec![4.0; 2]]]);
}

#[test]
fn bad_input_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    for (text, arguments, message) in [
        (EXPERIMENT.replace("arm = \"fast\"", "arm = \"fats\""), &[][..], "mini.toml:32:7: there is no arm \"fats\""),
        (EXPERIMENT.replace("debian-6.1", "plan9"), &[][..], "there is no scenario plan9"),
        (EXPERIMENT.to_owned(), &["--here"][..], "leave --here out"),
        (EXPERIMENT.to_owned(), &["lunch"][..], "there is no experiment or mechanism \"lunch\""),
        (EXPERIMENT.to_owned(), &["--quick", "--full"][..], "cannot be used with"),
    ] {
        let output = prove(folder.path(), &text, arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_code(&output, 2);
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn an_experiment_without_a_quick_form_is_not_run_quickly() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = command.args(["prove", "memory-single", "memory-writeback"]).output_within(3 * LONG_PATIENCE);
    assert_code(&output, 2);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("only in the full form (--full): memory-single, memory-writeback"), "{said}");
}
