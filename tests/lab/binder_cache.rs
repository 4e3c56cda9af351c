//! The binder cache in a guest: its hazards one by one, and a race, by a client that speaks binder by hand.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use brisk::lab::{GuestFile, Job, Scenario};

use super::{results, run, static_brisk};

/// `kernel/binder-cache/tests/hazards.c`, static.
fn hazards() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("hazards");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/binder-cache/tests");
    let output = Command::new("make")
        .args(["-s", "-C"])
        .arg(tests)
        .arg("hazards")
        .arg(format!("O={}", folder.path().display()))
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make runs; install the packages make and gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(program).unwrap()
}

fn check(scenario: &str, arguments: &[&str]) {
    let Some(binary) = static_brisk() else { return };
    let command = std::iter::once("/bin/hazards").chain(arguments.iter().copied());
    let mut job = Job::new(Scenario::load(scenario).unwrap(), command);
    // Its hooks are called, and it tells of new policies; without one it allows everything.
    job.scenario.kernel.command_line.push_str(" security=selinux selinux=1");
    job.files.push(GuestFile { path: "/bin/hazards".into(), contents: hazards(), mode: 0o755 });
    job.binary = Some(binary.to_owned());
    job.timeout = Duration::from_secs(600);
    let (outcome, lines) = run(&job);
    let said = results(&lines);
    assert_eq!(outcome.map(|outcome| outcome.status).ok(), Some(0), "{}", said.join("\n"));
    assert_eq!(said.last(), Some(&"all ok"), "{}", said.join("\n"));
}

#[test]
fn no_hazard_of_the_binder_cache_comes_true() {
    check("binder-6.1", &[]);
}

#[test]
#[ignore = "downloads a second kernel's sources; ./dev test --deep"]
fn no_hazard_of_the_binder_cache_comes_true_on_linux_6_12() {
    check("binder-6.12", &[]);
}

#[test]
#[ignore = "takes minutes; ./dev test --deep"]
fn no_stale_answer_wins_a_race_on_two_cpus() {
    check("binder-6.1-parallel", &["race", "200000"]);
}
