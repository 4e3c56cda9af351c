//! Masks, priorities and clamps of real threads.

use std::io::{self, BufRead, Write};
use std::process::{Child, Command, Stdio};

use super::*;
use brisk_sys::cpu::hotplug;
use brisk_sys::io::io_priority;
use brisk_sys::process;
use brisk_sys::sched::{affinity, priority, uclamp};

/// A shell that on the first line of input starts a `sleep` and prints its pid, and on the second line ends it and exits.
struct Shell {
    child: Child,
    said: io::BufReader<std::process::ChildStdout>,
}

impl Shell {
    fn start() -> Self {
        let script = "read go; sleep 600 & echo $!; read end; kill $!";
        let pipes = Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = pipes.unwrap();
        Self { said: io::BufReader::new(child.stdout.take().unwrap()), child }
    }

    fn fork_child(&mut self) -> u32 {
        writeln!(self.child.stdin.as_mut().unwrap(), "go").unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }

    fn affinity(&self) -> Target {
        let tid = self.child.id();
        Target::CpuAffinity { tid, start_time_ticks: process::start_time_ticks(&Root::system(), tid).unwrap() }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = writeln!(self.child.stdin.as_mut().unwrap(), "end");
        let _ = self.child.wait();
    }
}

fn mask(tid: u32) -> String {
    hotplug::format_list(&affinity::allowed(&Root::system(), tid).unwrap())
}

/// The online CPUs that this process may run on.
fn usable_cpus() -> Vec<u32> {
    let online = hotplug::online(&Root::system()).unwrap();
    affinity::allowed(&Root::system(), std::process::id())
        .unwrap()
        .into_iter()
        .filter(|cpu| online.contains(cpu))
        .collect()
}

// Verifies PLACE-5.
#[test]
fn mask_and_priority_are_restored_unless_displaced() {
    let folder = tempfile::tempdir().unwrap();
    let (shell, root) = (Shell::start(), Root::system());
    let (tid, affinity) = (shell.child.id(), shell.affinity());
    let (before, cpus) = (mask(tid), usable_cpus());
    if before != hotplug::format_list(&cpus) || cpus.len() < 2 {
        return eprintln!("skipped: this machine has one CPU, or some are offline");
    }
    let [one, other] = [cpus[0], cpus[1]];
    let now = BootTime::now();
    let until = now + Duration::from_secs(60);
    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    let confine = |journal: &mut Journal| journal.lease(now, &affinity, &one.to_string(), until, "test").unwrap();
    confine(&mut journal);
    assert_eq!(mask(tid), one.to_string());
    assert_eq!(journal.release(now, &affinity).unwrap().outcome, RestoreOutcome::Restored);
    assert_eq!(mask(tid), before);

    confine(&mut journal);
    journal.die();
    let replay = Replay::of(Holder::Daemon, folder.path(), &root).unwrap();
    assert!(replay.is_complete() && mask(tid) == before, "{replay:?}");

    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    confine(&mut journal);
    affinity::set(tid, &[other]).unwrap();
    let outcome = journal.release(now, &affinity).unwrap().outcome;
    assert_eq!(outcome, RestoreOutcome::ChangedByOther { found: other.to_string() });
    assert_eq!(mask(tid), other.to_string(), "displaced by another writer");

    let Target::CpuAffinity { start_time_ticks, .. } = affinity else { unreachable!() };
    let priority_before = priority::of(tid).unwrap().to_string();
    let priority = Target::Priority { tid, start_time_ticks };
    journal.lease(now, &priority, "idle 0", until, "test").unwrap();
    assert!(priority::of(tid).unwrap().to_string().starts_with("idle"));
    match journal.release(now, &priority).unwrap().outcome {
        RestoreOutcome::Restored => assert_eq!(priority::of(tid).unwrap().to_string(), priority_before),
        outcome => eprintln!("skipped: only root may raise it again: {outcome:?}"),
    }

    let gone = Target::CpuAffinity { tid, start_time_ticks: start_time_ticks + 1 };
    assert!(journal.lease(now, &gone, "0", until, "test").is_err(), "the number belongs to another process");
    assert!(matches!(journal.lease(now, &affinity, "", until, "test"), Err(JournalError::Device { .. })));
    assert_eq!(mask(tid), other.to_string(), "no mask is empty");
}

// Verifies PLACE-5.
#[test]
fn children_that_inherited_a_mask_are_restored_too() {
    let folder = tempfile::tempdir().unwrap();
    let (mut shell, root) = (Shell::start(), Root::system());
    let (tid, affinity) = (shell.child.id(), shell.affinity());
    let (before, cpus) = (mask(tid), usable_cpus());
    if !root.exists(format!("/proc/{tid}/task/{tid}/children")) || before != hotplug::format_list(&cpus) {
        return eprintln!("skipped: this kernel does not list children, or CPUs are offline");
    }
    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    let (now, one) = (BootTime::now(), cpus[0].to_string());
    journal.lease(now, &affinity, &one, now + Duration::from_secs(60), "test").unwrap();
    let child = shell.fork_child();
    assert_eq!(mask(child), one, "inherited");
    journal.release(now, &affinity).unwrap();
    assert_eq!([mask(tid), mask(child)], [before.clone(), before]);
}

// Verifies PLACE-5.
#[test]
fn restores_threads_together_with_children_that_inherited() {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::system();
    let mut shells = [Shell::start(), Shell::start()];
    let (before, cpus) = (mask(shells[0].child.id()), usable_cpus());
    let own = std::process::id();
    if !root.exists(format!("/proc/{own}/task/{own}/children")) || before != hotplug::format_list(&cpus) {
        return eprintln!("skipped: this kernel does not list children, or CPUs are offline");
    }
    let rank = |tid| io_priority::of(tid).unwrap().to_string();
    let rank_before = rank(shells[0].child.id());
    let (now, one, last) = (BootTime::now(), cpus[0].to_string(), "best-effort 7");
    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    let mut lease = |target: &Target, value: &str| {
        journal.lease(now, target, value, now + Duration::from_secs(60), "test").unwrap();
        target.clone()
    };
    let mut targets = Vec::new();
    for shell in &shells {
        let affinity = shell.affinity();
        let Target::CpuAffinity { tid, start_time_ticks } = affinity else { unreachable!() };
        targets.push(lease(&affinity, &one));
        targets.push(lease(&Target::IoPriority { tid, start_time_ticks }, last));
    }
    let children = shells.each_mut().map(Shell::fork_child);
    let all = [shells[0].child.id(), children[0], shells[1].child.id(), children[1]];
    assert_eq!(all.map(|tid| (mask(tid), rank(tid))), [(); 4].map(|()| (one.clone(), last.to_owned())), "inherited");
    let not_leased = Target::IoPriority { tid: 1, start_time_ticks: 0 };
    let asked: Vec<_> = targets.iter().rev().chain([&not_leased]).collect();
    let restorations = journal.release_each(now, &asked);
    let restored: Vec<_> =
        restorations.iter().map(|done| done.as_ref().map(|done| (&done.target, &done.outcome))).collect();
    let expected = targets.iter().rev().map(|target| Some((target, &RestoreOutcome::Restored)));
    assert_eq!(restored, expected.chain([None]).collect::<Vec<_>>());
    assert_eq!(all.map(|tid| (mask(tid), rank(tid))), [(); 4].map(|()| (before.clone(), rank_before.clone())));
    assert!(journal.leases().is_empty());
}

// Verifies PLACE-5.
#[test]
fn a_mask_that_the_kernel_changed_is_still_restored() {
    let online = |text: &str| hotplug::parse_list(text).unwrap();
    for (original, observed, found, are_online, ours) in [
        ("0-3", "1", "0-3", "0-3", true),
        ("0-3", "1", "0-7", "0-3", true),
        ("0-3", "1", "0-2", "0-3", false),
        ("0-3", "1", "2", "0-3", false),
        ("0-3", "1", "0-2", "0-2", true),
        ("0-3", "0-2", "0-1", "0-1", true),
        ("0-3", "0-2", "1", "0-1", false),
        ("0-3", "0-2", "0-1", "0-3", false),
    ] {
        let is_ours = access::is_kernel_change(original, observed, found, &online(are_online));
        assert_eq!(is_ours, ours, "{original} {observed} {found} {are_online}");
    }
}

// Verifies PLACE-2.
#[test]
fn io_priority_is_restored_in_children_unless_displaced() {
    let folder = tempfile::tempdir().unwrap();
    let (mut shell, root) = (Shell::start(), Root::system());
    let tid = shell.child.id();
    let start_time_ticks = process::start_time_ticks(&root, tid).unwrap();
    let target = Target::IoPriority { tid, start_time_ticks };
    let rank = |tid| io_priority::of(tid).unwrap().to_string();
    let before = rank(tid);
    let (now, last) = (BootTime::now(), "best-effort 7");
    let until = now + Duration::from_secs(60);
    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    journal.lease(now, &target, last, until, "test").unwrap();
    assert_eq!(rank(tid), last);
    if root.exists(format!("/proc/{tid}/task/{tid}/children")) {
        let child = shell.fork_child();
        assert_eq!(rank(child), last, "inherited");
        assert_eq!(journal.release(now, &target).unwrap().outcome, RestoreOutcome::Restored);
        assert_eq!(rank(child), before);
    } else {
        journal.release(now, &target).unwrap();
    }
    assert_eq!(rank(tid), before);

    journal.lease(now, &target, last, until, "test").unwrap();
    journal.die();
    let replay = Replay::of(Holder::Daemon, folder.path(), &root).unwrap();
    assert!(replay.is_complete() && rank(tid) == before, "{replay:?}");

    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    journal.lease(now, &target, last, until, "test").unwrap();
    io_priority::set(tid, "best-effort 2".parse().unwrap()).unwrap();
    let outcome = journal.release(now, &target).unwrap().outcome;
    assert_eq!(outcome, RestoreOutcome::ChangedByOther { found: "best-effort 2".to_owned() });
    assert_eq!(rank(tid), "best-effort 2", "displaced by another writer");
}

// Verifies PLACE-5.
#[test]
fn clamps_are_restored_in_children_unless_displaced() {
    let folder = tempfile::tempdir().unwrap();
    let (mut shell, root) = (Shell::start(), Root::system());
    let pid = shell.child.id();
    let start_time_ticks = process::start_time_ticks(&root, pid).unwrap();
    let minimum = Target::UtilizationClampMinimum { pid, start_time_ticks };
    let clamps = |pid| uclamp::of(pid).map(|clamps| (clamps.minimum, clamps.maximum)).unwrap();
    let now = BootTime::now();
    let until = now + Duration::from_secs(60);
    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    if let Err(error) = uclamp::set_maximum(pid, 446) {
        assert!(uclamp::support_file(&root).is_none(), "{error}");
        return eprintln!("skipped: {error}");
    }
    journal.lease(now, &minimum, "1024", until, "test").unwrap();
    assert_eq!(clamps(pid), (446, 446), "a lower clamp goes as far as the user's upper one lets it");
    if root.exists(format!("/proc/{pid}/task/{pid}/children")) {
        let child = shell.fork_child();
        assert_eq!(clamps(child), (446, 446), "inherited");
        let restored = journal.release(now, &minimum).unwrap();
        assert_eq!(restored.outcome, RestoreOutcome::Restored);
        assert_eq!(clamps(child), (0, 446));
    } else {
        journal.release(now, &minimum).unwrap();
    }
    assert_eq!(clamps(pid), (0, 446));

    journal.lease(now, &minimum, "300", until, "test").unwrap();
    journal.die();
    let replay = Replay::of(Holder::Daemon, folder.path(), &root).unwrap();
    assert!(replay.is_complete() && clamps(pid) == (0, 446), "{replay:?}");

    let mut journal = Journal::open(Holder::Daemon, folder.path(), &root).unwrap();
    journal.lease(now, &minimum, "300", until, "test").unwrap();
    uclamp::set_minimum(pid, 200).unwrap();
    let outcome = journal.release(now, &minimum).unwrap().outcome;
    assert_eq!(outcome, RestoreOutcome::ChangedByOther { found: "200".to_owned() });
    assert_eq!(clamps(pid), (200, 446), "displaced by another writer");
}
