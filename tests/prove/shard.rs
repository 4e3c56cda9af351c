//! Shards: an experiment is measured in parts, and joined.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use brisk::report::proof::{ExperimentResult, Proof};
use rustix::process::Signal;
use serde_json::Value;

use super::here::{device, has_runner, here, signal, wait_until};
use super::{EXPERIMENT, assert_code, counted, launches, merge, proving, result};
use crate::patience::{LONG_PATIENCE, OutputWithin};
use crate::static_brisk::static_brisk;

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn results(device: &Path) -> PathBuf {
    device.join("results")
}

/// A shard of four blocks of a real, short experiment on this machine.
fn shard(device: &Path, shard: &str) -> Command {
    let mut command = here(device, 4);
    command.args(["--shard", shard]);
    command
}

/// One of two shards is killed and runs again alone. The merge says what is missing, then joins what both measured.
// Verifies PROVE-5.
#[test]
fn a_killed_shard_runs_again_alone_and_is_joined() {
    let device = device();
    let all = results(device.path());
    let [one, two] = ["shard-1-of-2", "shard-2-of-2"].map(|name| all.join(name).join("recorded-quick"));
    let output = shard(device.path(), "1/2").output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    assert!(said(&output).contains("shard 1/2 of recorded-quick: 4 of 4 replicates, 0 of them refused"), "{output:?}");

    let mut child = shard(device.path(), "2/2").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a replicate", || !counted(&two, 8).is_empty());
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    wait_until("its guardian", || !has_runner(device.path()));
    let kept = counted(&two, 8).len();
    let output = merge(&[&all], &[]);
    assert_code(&output, 1);
    let missing = format!("missing: {} of 8 replicates of recorded-quick; run again: --shard 2/2", 4 - kept);
    assert!(said(&output).contains(&missing), "{missing}: {output:?}");
    assert!(!all.join("proof.json").exists());

    assert_code(&shard(device.path(), "2/2").output_within(LONG_PATIENCE), 0);
    let lines = [&one, &two].map(|folder| std::fs::read(folder.join("replicates.jsonl")).unwrap());
    let joined = device.path().join("joined");
    assert_code(&merge(&[&all], &["--output", joined.to_str().unwrap()]), 0);
    let found = result(&joined);
    assert_eq!((launches(&found, "stock").len(), launches(&found, "fast").len()), (4, 4));
    assert_eq!(counted(&joined.join("samples/recorded-quick"), 8), (0..8).collect::<Vec<_>>());
    assert!(joined.join("report.html").is_file());

    // Neither a merge nor another start of a complete shard changes it.
    assert_code(&shard(device.path(), "1/2").output_within(LONG_PATIENCE), 0);
    assert_eq!([&one, &two].map(|folder| std::fs::read(folder.join("replicates.jsonl")).unwrap()), lines);
    // In another order of folders, the joined run is the same.
    let again = merge(&[&two, &one], &["--json", "--output", device.path().join("again").to_str().unwrap()]);
    assert_code(&again, 0);
    let proof: Proof = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(figures(&proof.experiments[0]), figures(&found));
}

// Verifies PROVE-5.
#[test]
fn shards_that_do_not_belong_together_are_refused() {
    let device = device();
    let all = results(device.path());
    assert_code(&shard(device.path(), "1/2").output_within(LONG_PATIENCE), 0);
    // The other half of an experiment with more blocks, and a shard that was measured twice.
    assert_code(&here(device.path(), 6).args(["--shard", "2/2"]).output_within(LONG_PATIENCE), 0);
    let copy = all.join("shard-1-of-2/copy");
    std::fs::create_dir(&copy).unwrap();
    for name in ["run.json", "replicates.jsonl"] {
        std::fs::copy(all.join("shard-1-of-2/recorded-quick").join(name), copy.join(name)).unwrap();
    }
    let damaged = all.join("shard-2-of-2/damaged");
    std::fs::create_dir(&damaged).unwrap();
    std::fs::write(damaged.join("run.json"), "{").unwrap();
    let output = merge(&[&all], &["--json"]);
    assert_code(&output, 2);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut kinds: Vec<&str> =
        answer["faults"].as_array().unwrap().iter().map(|it| it["kind"].as_str().unwrap()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["damaged", "double", "foreign"], "{answer:#}");
    assert_eq!(answer["missing"][0]["shards"], serde_json::json!(["2/2"]), "{answer:#}");
    assert_code(&merge(&[device.path()], &[]), 2);
    assert_code(&shard(device.path(), "3/2").output_within(LONG_PATIENCE), 2);
    assert_code(&shard(device.path(), "1/2").args(["--minutes", "1"]).output_within(LONG_PATIENCE), 2);
}

/// A shard without a block of the experiment is complete at once, so that one job array serves experiments of any size.
#[test]
fn a_shard_without_a_block_is_complete() {
    let device = device();
    let output = shard(device.path(), "6/6").arg("--json").output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["shard"], &answer["experiments"][0]["of"]), (&"6/6".into(), &0.into()));
    let output = merge(&[&results(device.path())], &[]);
    assert_code(&output, 1);
    assert!(said(&output).contains("run again: --shard 1/6, 2/6, 3/6, 4/6"), "{output:?}");
}

/// The script of a job array, as Slurm starts each of its tasks.
// Verifies PROVE-5.
#[test]
fn each_task_of_a_job_array_measures_its_shard() {
    let device = device();
    // Writes the experiment's file.
    drop(here(device.path(), 2));
    let task = |task: Option<&str>, count: &str| {
        let mut command = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/farm/slurm.sh"));
        command.arg(count).arg(results(device.path())).arg("--here").arg(device.path().join("recorded.toml"));
        command.arg("--root").arg(device.path()).env("BRISK", env!("CARGO_BIN_EXE_brisk"));
        command
            .env_remove("SLURM_ARRAY_TASK_ID")
            .envs(task.map(|task| ("SLURM_ARRAY_TASK_ID", task)))
            .output_within(LONG_PATIENCE)
    };
    assert_code(&task(None, "2"), 2);
    assert_code(&task(Some("3"), "2"), 2);
    assert_code(&task(Some("1"), "2"), 0);
    assert_code(&task(Some("2"), "2"), 0);
    let joined = device.path().join("joined");
    assert_code(&merge(&[&results(device.path())], &["--output", joined.to_str().unwrap()]), 0);
    assert_eq!(launches(&result(&joined), "fast").len(), 2);
}

/// The figures with all of their bits, as serde_json prints them.
fn figures(result: &ExperimentResult) -> String {
    serde_json::to_string(&(&result.arms, &result.claims, &result.self_checks, &result.rejections)).unwrap()
}

/// Whole, in halves, and in thirds, each in guests that boot again: the same figures to the last bit.
// Verifies PROVE-5.
#[test]
fn no_division_changes_a_bit_in_deterministic_mode() {
    if static_brisk().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mini.toml");
    std::fs::write(&file, EXPERIMENT).unwrap();
    let mut found = Vec::new();
    for count in 1..=3 {
        let parts = folder.path().join(format!("of-{count}"));
        for number in 1..=count {
            let shard = format!("{number}/{count}");
            assert_code(&proving(&parts).arg(&file).args(["--shard", &shard]).output_within(LONG_PATIENCE), 0);
        }
        let joined = parts.join("joined");
        assert_code(&merge(&[&parts], &["--output", joined.to_str().unwrap()]), 0);
        let result = result(&joined);
        assert_eq!((launches(&result, "slow").len(), launches(&result, "fast").len()), (3, 3));
        assert!(result.self_checks.iter().any(|check| check.passed), "{:?}", result.self_checks);
        found.push(figures(&result));
    }
    assert_eq!(found[0], found[1]);
    assert_eq!(found[0], found[2]);
}
