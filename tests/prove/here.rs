//! `brisk prove --here`: a device measures itself and is fully restored, whichever process is killed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use brisk::experiment::plan::Line;
use brisk::experiment::store;
use brisk::lab::{self, Channel, GuestFile, Job, Scenario};
use brisk::report::proof::{FailureOf, Proof, Timekeeping, Verdict};
use rustix::process::{Pid, Signal, kill_process};

use super::{assert_code, counted, launches, result};
use crate::patience::{LONG_PATIENCE, OutputWithin, end_of, output_of};
use crate::static_brisk::{static_brisk, static_brisk_of_a_device};

/// An experiment for `--here` that keeps the device's own governor.
pub(super) const HERE: &str = r#"
name = "mini-here"
title = "A device by itself"
description = "As it is, with brisk, and at the highest frequency."
mechanism = "launch"
mode = "native"
[workload]
program = "load"
work_ms = [60]
settle_ms = [400, 500]
window_beyond_work_ms = 300
[replicates]
quick = 3
full = 3
[[arm]]
name = "stock"
title = "as it is"
baseline = true
[[arm]]
name = "brisk"
title = "with brisk"
[arm.brisk.launch]
filter = { parents = ["launcher"] }
[[arm]]
name = "maximum"
title = "pinned at the highest frequency"
policy = { scaling_min_freq = "maximum" }
[[claim]]
id = "launch.mini-here"
promise = "LAUNCH-4"
text = "brisk makes launches faster."
measure = "gain"
arm = "brisk"
required = ">= 10"
"#;

/// Runs the experiment on the guest itself and prints its JSON; exits with 9 when a file of cpufreq has changed, and
/// otherwise with the exit status of `brisk prove`.
const PROVE_HERE: &str = r#"
snapshot() { cd /sys/devices/system/cpu/cpufreq/policy0 && cat scaling_governor scaling_min_freq scaling_max_freq ../ondemand/*; }
before=$(snapshot)
$1 prove --here /job/mini-here.toml --output /tmp/out --json
status=$?
[ "$before" = "$(snapshot)" ] || exit 9
exit $status
"#;

/// A device of regular files, with ondemand at 20 ms.
pub(super) fn device() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_device(folder.path());
    folder
}

pub(super) fn write_device(folder: &Path) {
    let cpufreq = "sys/devices/system/cpu/cpufreq";
    for (file, text) in [
        (format!("{cpufreq}/policy0/affected_cpus"), "0"),
        (format!("{cpufreq}/policy0/scaling_governor"), "ondemand"),
        (format!("{cpufreq}/policy0/scaling_available_governors"), "ondemand performance"),
        (format!("{cpufreq}/policy0/scaling_min_freq"), "200000"),
        (format!("{cpufreq}/policy0/scaling_max_freq"), "1200000"),
        (format!("{cpufreq}/ondemand/sampling_rate"), "20000"),
        ("proc/cpuinfo".into(), "model name\t: Recorded CPU"),
        ("proc/meminfo".into(), "MemTotal:         221432 kB\nMemFree:          100000 kB"),
        ("run/keep".into(), ""),
    ] {
        let path = folder.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
}

pub(super) fn tunables(device: &Path) -> [String; 2] {
    ["policy0/scaling_min_freq", "ondemand/sampling_rate"]
        .map(|file| std::fs::read_to_string(device.join("sys/devices/system/cpu/cpufreq").join(file)).unwrap())
        .map(|text| text.trim_end().to_owned())
}

/// `brisk prove --here` on the recorded device: its tunables are real files, its CPU is this machine's.
pub(super) fn here(device: &Path, replicates: u32) -> Command {
    let file = device.join("recorded.toml");
    std::fs::write(&file, recorded(replicates)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.arg("--root").arg(device).arg("prove").arg(&file).arg("--here");
    command.arg("--output").arg(device.join("results")).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// An experiment for that device.
pub(super) fn recorded(replicates: u32) -> String {
    format!(
        "name = \"recorded\"\ntitle = \"\"\ndescription = \"\"\nmechanism = \"launch\"\nmode = \"native\"\n\
         workload = {{ program = \"load\", work_ms = [5], settle_ms = [20, 30], window_beyond_work_ms = 2000 }}\n\
         replicates = {{ quick = {replicates}, full = {replicates} }}\n\
         [[arm]]\nname = \"stock\"\ntitle = \"\"\nbaseline = true\n\
         [[arm]]\nname = \"fast\"\ntitle = \"\"\npolicy = {{ scaling_min_freq = \"maximum\" }}\n\
         tunables = {{ sampling_rate = 10_000 }}\n"
    )
}

pub(super) fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

pub(super) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < limit, "waited a minute for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_experiment_on_a_device_restores_everything() {
    let device = device();
    let before = tunables(device.path());
    assert_code(&here(device.path(), 2).output_within(LONG_PATIENCE), 0);
    assert_eq!(tunables(device.path()), before);
    let found = result(&device.path().join("results"));
    assert_eq!((launches(&found, "stock").len(), launches(&found, "fast").len()), (2, 2));
    assert!(found.rejections.is_empty(), "{:?}", found.rejections);
}

#[test]
fn an_interrupted_experiment_restores_and_prints_how_to_resume() {
    let device = device();
    let before = tunables(device.path());
    let child = here(device.path(), 100).spawn().unwrap();
    wait_until("the second arm", || tunables(device.path())[1] == "10000");
    signal(child.id(), Signal::INT);
    let output = output_of(child, LONG_PATIENCE);
    assert_code(&output, 2);
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("the same command resumes the run: brisk prove"),
        "{output:?}"
    );
    assert_eq!(tunables(device.path()), before);
}

/// A killed run resumes automatically; a run with another number of replicates starts from the beginning.
// Verifies PROVE-2.
#[test]
fn a_killed_run_resumes_automatically() {
    let device = device();
    let before = tunables(device.path());
    let mut child = here(device.path(), 6).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let partial = device.path().join("results/partial/recorded-quick");
    wait_until("four replicates", || counted(&partial, 12).len() >= 4);
    signal(child.id(), Signal::KILL);
    child.wait().unwrap();
    wait_until("its guardian", || tunables(device.path()) == before && !has_runner(device.path()));
    let kept = counted(&partial, 12);
    let sizes: Vec<f64> = samples_of(&partial);
    let output = here(device.path(), 6).output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    let said = String::from_utf8_lossy(&output.stderr);
    let told = format!(": {} replicates of 1 experiment are kept (--restart", kept.len());
    assert!(said.contains("resuming the run of 2") && said.contains(&told), "{told}: {said}");
    let archived = device.path().join("results/samples/recorded-quick");
    assert_eq!(counted(&archived, 12), (0..12).collect::<Vec<_>>(), "each replicate is measured once");
    assert!(samples_of(&archived).starts_with(&sizes), "what was measured stays");
    let found = result(&device.path().join("results"));
    assert_eq!((launches(&found, "stock").len(), launches(&found, "fast").len()), (6, 6));

    // Complete results are measured again; a different number of replicates is a different experiment.
    let output = here(device.path(), 2).output_within(LONG_PATIENCE);
    assert_code(&output, 0);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("resuming the run"), "{output:?}");
}

/// Whether a runner uses the device below `folder`.
pub(super) fn has_runner(folder: &Path) -> bool {
    let folder = folder.to_string_lossy().into_owned();
    let processes =
        std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    processes.map(said).any(|line| line.contains(&folder) && line.contains("\0replicate\0"))
}

/// The samples, in the order of the record.
fn samples_of(folder: &Path) -> Vec<f64> {
    let (lines, _) = store::parse(&std::fs::read_to_string(folder.join("replicates.jsonl")).unwrap());
    let samples = lines.into_iter().filter_map(|line| match line {
        Line::Measured(measured) => Some(measured.metrics["launch_ms"]),
        _ => None,
    });
    samples.collect()
}

/// One experiment's device cannot be set up as specified; the other's result exists, and the exit status reports the failure.
// Verifies PROVE-3.
#[test]
fn an_experiment_that_cannot_run_does_not_stop_the_others() {
    let device = device();
    let mut command = here(device.path(), 2);
    let text = std::fs::read_to_string(device.path().join("recorded.toml")).unwrap();
    let impossible = text.replace("\"recorded\"", "\"impossible\"").replace("sampling_rate", "sampling_rat");
    std::fs::write(device.path().join("impossible.toml"), impossible).unwrap();
    let output = command.arg(device.path().join("impossible.toml")).output().unwrap();
    assert_code(&output, 2);
    let text = std::fs::read_to_string(device.path().join("results/proof.json")).unwrap();
    let proof: Proof = serde_json::from_str(&text).unwrap();
    let [measured, failed] = &proof.experiments[..] else { panic!("{text}") };
    assert_eq!((launches(measured, "stock").len(), &measured.failure), (2, &None));
    let failure = failed.failure.as_ref().expect("it failed");
    assert_eq!(failure.of, FailureOf::Experiment);
    assert!(failure.reason.contains("sampling_rat"), "{}", failure.reason);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("impossible failed:") && said.contains("the same command measures the rest"), "{said}");
}

/// No run measures a gain to a billionth, so the claim never reaches the required precision.
// Verifies PROVE-3.
#[test]
fn an_inconclusive_claim_is_listed_and_fails_with_strict() {
    let device = device();
    let command = |strict: bool| {
        let mut command = here(device.path(), 2);
        command.arg("--full");
        let file = device.path().join("recorded.toml");
        let claim = "[[claim]]\nid = \"launch.imprecise\"\npromise = \"LAUNCH-4\"\ntext = \"\"\nmeasure = \"gain\"\narm = \"fast\"\n\
                     required = \">= -1000000\"\nprecision = 1e-9\n";
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + claim).unwrap();
        command.args(strict.then_some("--strict")).output().unwrap()
    };
    let output = command(false);
    assert_code(&output, 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 inconclusive"), "{output:?}");
    assert_code(&command(true), 1);
}

/// On a terminal that script(1) creates, with and without NO_COLOR, and into a pipe.
// Verifies PROVE-4.
#[test]
fn a_run_prints_one_screen_and_colours_only_for_a_terminal() {
    let device = device();
    let mut piped = here(device.path(), 2);
    let output = piped.output().unwrap();
    assert_code(&output, 0);
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(stdout.lines().count() + stderr.lines().count() <= 40, "{stdout}{stderr}");
    assert!(!stdout.contains('\u{1b}') && !stderr.contains('\u{1b}'), "{stdout}{stderr}");
    let page = device.path().join("results/report.html");
    assert!(stderr.contains(&format!("report: {}", page.display())), "{stderr}");
    assert!(!stdout.contains("median"), "the tables are for --verbose: {stdout}");
    let tables = here(device.path(), 2).arg("--verbose").output().unwrap();
    assert!(String::from_utf8_lossy(&tables.stdout).contains("median"), "{tables:?}");

    let words: Vec<String> = std::iter::once(piped.get_program())
        .chain(piped.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    for (no_color, is_coloured) in [(None, true), (Some("1"), false)] {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("{} 2>/dev/null", words.join(" ")), "/dev/null"]).env("TERM", "xterm-256color");
        script.env_remove("NO_COLOR").envs(no_color.map(|value| ("NO_COLOR", value)));
        let output = script.stdin(Stdio::null()).output().expect("script(1) is part of util-linux");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("without requirements"), "{said}");
        assert_eq!(said.contains("\u{1b}["), is_coloured, "NO_COLOR {no_color:?}: {said:?}");
    }
}

#[test]
fn a_killed_runner_leaves_nothing_changed() {
    let device = device();
    let before = tunables(device.path());
    let mut child = here(device.path(), 100).spawn().unwrap();
    wait_until("the second arm", || tunables(device.path())[1] == "10000");
    let runner = children(child.id()).into_iter().next().expect("the runner is a child");
    signal(runner, Signal::KILL);
    assert_eq!(end_of(&mut child, LONG_PATIENCE).code(), Some(2));
    wait_until("the guardian", || tunables(device.path()) == before);
}

// Verifies UNDO-4.
#[test]
fn a_killed_experiment_ends_its_runner_and_their_daemon() {
    for killed in ["the experiment", "its runner"] {
        let device = device();
        let before = tunables(device.path());
        let mut command = here(device.path(), 100);
        let file = device.path().join("recorded.toml");
        let daemon = "[[arm]]\nname = \"brisk\"\ntitle = \"\"\n[arm.brisk]\nlaunch = { enabled = true }\n";
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + daemon).unwrap();
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut family = [0; 2];
        wait_until("the daemon", || {
            let Some(runner) = children(child.id()).into_iter().next() else { return false };
            let daemon = children(runner).into_iter().find(|pid| said(*pid).contains("\0daemon\0--config\0"));
            family = [runner, daemon.unwrap_or(0)];
            daemon.is_some()
        });
        let victim = if killed == "the experiment" { child.id() } else { family[0] };
        signal(victim, Signal::KILL);
        end_of(&mut child, LONG_PATIENCE);
        // An exited process has no command line, reaped or not.
        wait_until("their end", || family.iter().all(|pid| said(*pid).is_empty()));
        wait_until("the original values", || tunables(device.path()) == before);
    }
}

fn said(pid: u32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).into_owned()
}

// Verifies UNDO-4.
#[test]
fn restore_reverts_a_runner_killed_with_its_guardian() {
    let device = device();
    let before = tunables(device.path());
    let mut child = here(device.path(), 100).spawn().unwrap();
    wait_until("the second arm", || tunables(device.path())[1] == "10000");
    let runner = children(child.id()).into_iter().next().expect("the runner is a child");
    let name = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let guardian = children(runner).into_iter().find(|pid| name(*pid).starts_with(b"@brisk-guardian\0"));
    for pid in [guardian.expect("the runner has a guardian"), runner] {
        signal(pid, Signal::KILL);
    }
    assert_eq!(end_of(&mut child, LONG_PATIENCE).code(), Some(2));
    assert_ne!(tunables(device.path()), before, "no process is left that could restore it");
    let restore =
        Command::new(env!("CARGO_BIN_EXE_brisk")).arg("--root").arg(device.path()).arg("restore").output().unwrap();
    assert_code(&restore, 0);
    assert_eq!(tunables(device.path()), before);
}

/// The children of all threads of `pid`.
fn children(pid: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let lists = threads.map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).unwrap());
    lists.flat_map(|list| list.split_ascii_whitespace().map(|word| word.parse().unwrap()).collect::<Vec<_>>()).collect()
}

#[test]
fn a_device_without_frequency_scaling_is_refused_with_advice() {
    let root = tempfile::tempdir().unwrap();
    for folder in ["run", "proc", "sys/devices/system/cpu"] {
        std::fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    let output = Command::new(env!("CARGO_BIN_EXE_brisk"))
        .arg("--root")
        .arg(root.path())
        .args(["prove", "launch", "--here", "--output"])
        .arg(root.path().join("results"))
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_code(&output, 2);
    assert!(stderr.contains("no CPU frequency scaling") && stderr.contains("brisk prove --lab"), "{stderr}");
}

// Verifies PROVE-3.
#[test]
fn a_device_measures_itself_and_everything_is_restored() {
    let Some(binary) = static_brisk() else { return };
    measured_and_restored(&here_job(binary, "brisk"));
}

// Verifies PROVE-3.
#[test]
#[ignore = "builds a device's program: ./dev test --deep"]
fn a_devices_own_program_measures_it_and_restores_everything() {
    let Some(binary) = static_brisk() else { return };
    let program = static_brisk_of_a_device();
    let mut job = here_job(binary, "/bin/program");
    let contents = std::fs::read(program).unwrap();
    job.files.push(GuestFile { path: "/bin/program".into(), contents, mode: 0o755 });
    measured_and_restored(&job);
    let known = Command::new(program).args(["prove", "--here", "none"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&known.stderr);
    assert!(stderr.contains("there are") && stderr.contains("launch-here"), "it reads its experiments: {stderr}");
}

/// A device of `binary` that is measured by the program `prover`.
fn here_job(binary: &Path, prover: &str) -> Job {
    let mut job = Job::new(Scenario::load("debian-6.1").unwrap(), ["sh", "-c", PROVE_HERE, "sh", prover]);
    job = job.with_file("/job/mini-here.toml", HERE);
    job.busybox = true;
    job.binary = Some(binary.to_owned());
    job
}

fn measured_and_restored(job: &Job) {
    let (mut json, mut console) = (String::new(), String::new());
    let outcome = lab::run(job, &mut |line| match line.channel {
        Channel::Results => json += &line.text,
        Channel::Console => console += &format!("{}\n", line.text),
    });
    assert_eq!(outcome.unwrap().status, 0, "{console}");
    let proof: Proof = serde_json::from_str(&json).expect("--json prints one object");
    let result = &proof.experiments[0];
    assert_eq!((result.mode, result.claims[0].verdict), (Timekeeping::Native, Verdict::Shown));
    assert_eq!(proof.device.energy_source.as_deref(), Some("model"), "energy is labelled as what it is");
    assert!(result.rejections.is_empty(), "{:?}", result.rejections);
}

// Verifies MEMORY-8.
#[test]
fn memory_is_read_here_and_no_process_is_killed() {
    let results = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.args(["prove", "memory", "--here", "--output"]).arg(results.path());
    let output = command.output().unwrap();
    assert_code(&output, 0);
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("the headroom is"), "the device's own figures are printed first: {table}");
    let found = result(results.path());
    assert_eq!((found.name.as_str(), found.mode, found.arms.len()), ("memory-here", Timekeeping::Native, 2));
    assert!(found.arms.iter().all(|arm| arm.samples.len() == 10 && arm.samples.iter().all(|&us| us > 0.0)));
    assert!(found.notes.iter().any(|note| note.contains("processes hold memory")), "{:?}", found.notes);
}

/// A build in the foreground, with music beside it and alone; no setting of the device is changed.
const COMBINATIONS: &str = r#"{
  "experiment": "mini", "scenario": null, "guarded": false,
  "arms": [
    { "name": "stock", "title": "", "baseline": true },
    { "name": "alone", "title": "", "alone": true }
  ],
  "points": [{ "combination": "compile / music" }],
  "workload": { "combinations": {
    "settle_ms": [0, 0],
    "list": [{ "foreground": "compile", "background": ["music"], "alone": true }]
  } },
  "replicates": [
    { "id": 0, "block": 0, "arm": 0, "point": 0, "settle_us": 1000, "seed": 1, "warm_up": false },
    { "id": 1, "block": 0, "arm": 1, "point": 0, "settle_us": 1000, "seed": 1, "warm_up": false }
  ]
}"#;

// Verifies PROVE-2.
#[test]
fn combinations_are_run_and_reported() {
    let device = tempfile::tempdir().unwrap();
    std::fs::create_dir(device.path().join("proc")).unwrap();
    std::fs::write(device.path().join("proc/cpuinfo"), "model name\t: a processor\n").unwrap();
    let plan = device.path().join("plan.json");
    std::fs::write(&plan, COMBINATIONS).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.arg("--root").arg(device.path()).args(["replicate", "--plan"]).arg(&plan);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (lines, _) = store::parse(std::str::from_utf8(&output.stdout).unwrap());
    let measured: Vec<_> = lines
        .into_iter()
        .filter_map(|line| if let Line::Measured(measured) = line { Some(measured) } else { None })
        .collect();
    assert_eq!(measured.len(), 2);
    for (measured, arm) in measured.iter().zip(["stock", "alone"]) {
        assert_eq!((measured.arm.as_str(), measured.point.as_str()), (arm, "compile / music"));
        assert_eq!(measured.rejected, None);
        assert!(measured.metrics["foreground_ms"] > 0.0);
        assert_eq!(measured.metrics.contains_key("background_percent"), arm == "stock");
        assert_eq!(measured.metrics.contains_key("music_missed_percent"), arm == "stock");
    }
}
