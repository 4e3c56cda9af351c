//! The journal on trees of files: leases, restores, and every point at which its writer can die.

mod governors;
mod properties;
mod threads;
mod weights;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::log::LOCK_TIMEOUT;
use super::*;

const SECOND: BootTime = BootTime::from_milliseconds(1000);
const LATER: BootTime = BootTime::from_milliseconds(2000);
const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";

/// A device with a few tunables and a journal folder.
struct Device {
    holder: Holder,
    folder: tempfile::TempDir,
    root: Root,
}

impl Device {
    fn new(tunables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let device = Self { holder: Holder::Daemon, folder, root };
        fs::create_dir_all(device.root.path("/proc")).unwrap();
        fs::write(device.root.path("/proc/mounts"), "none /sys/fs/cgroup cgroup2 rw 0 0\n").unwrap();
        for (name, value) in tunables {
            device.set(name, value);
        }
        device
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("run/brisk")
    }

    fn log(&self) -> Vec<u8> {
        fs::read(self.journal().join("journal")).unwrap()
    }

    fn open(&self) -> Journal {
        Journal::open(self.holder, &self.journal(), &self.root).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path(place(name))
    }

    fn set(&self, name: &str, value: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), format!("{value}\n")).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap().trim_end().to_owned()
    }

    fn replay(&self) -> Replay {
        Replay::of(self.holder, &self.journal(), &self.root).unwrap()
    }
}

impl Journal {
    /// Dies as by SIGKILL: the lock is released, nothing is restored.
    fn die(mut self) {
        self.leases.clear();
    }
}

/// The path of a tunable, of which `name` is the end: in the policy's folder, unless `name` says where in /sys.
fn place(name: &str) -> String {
    let folder = if name.contains("fs/") || name.contains("devices/") { "/sys" } else { POLICY };
    format!("{folder}/{name}")
}

fn target(name: &str) -> Target {
    Target::Tunable(place(name).into())
}

fn outcomes(restorations: &[Restoration]) -> Vec<&RestoreOutcome> {
    restorations.iter().map(|restoration| &restoration.outcome).collect()
}

// Verifies UNDO-1.
#[test]
fn a_lease_ends_by_release_by_expiry_or_with_its_journal() {
    let device = Device::new(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "10", LATER, "test").unwrap();
    journal.lease(SECOND, &target("b"), "20", SECOND, "test").unwrap();
    journal.lease(SECOND, &target("c"), "30", LATER, "test").unwrap();
    assert_eq!((device.get("a"), device.get("b"), device.get("c")), ("10".into(), "20".into(), "30".into()));
    assert_eq!(journal.next_deadline(), Some(SECOND));
    assert_eq!(outcomes(&journal.expire(SECOND)), [&RestoreOutcome::Restored]);
    assert_eq!(device.get("b"), "2");
    assert_eq!(journal.release(SECOND, &target("a")).unwrap().outcome, RestoreOutcome::Restored);
    assert_eq!(device.get("a"), "1");
    assert!(matches!(journal.release(SECOND, &target("a")), Err(JournalError::NotLeased { .. })));
    drop(journal);
    assert_eq!(device.get("c"), "3");
    assert!(device.replay().restorations.is_empty());
}

// Verifies BOOT-2.
#[test]
fn a_twin_holds_the_same_leases_and_either_restores_them() {
    let device = Device::new(&[("a", "1"), ("b", "2")]);
    let elsewhere = device.folder.path().join("run/elsewhere");
    let journal = || {
        let mut journal = device.open();
        journal.lease(SECOND, &target("a"), "10", LATER, "test").unwrap();
        journal.lease(SECOND, &target("b"), "20", LATER, "test").unwrap();
        journal
    };
    let values = || (device.get("a"), device.get("b"));
    let (held, given_back) = (("10".to_owned(), "20".to_owned()), ("1".to_owned(), "2".to_owned()));

    let first = journal();
    let second = first.duplicate(&elsewhere, &device.root).unwrap();
    first.discard();
    assert_eq!((values(), device.log().len()), (held.clone(), 0));
    assert!(device.replay().restorations.is_empty(), "the log is empty and no process holds it");
    drop(second);
    assert_eq!(values(), given_back);

    // A process dies with both journals open: both logs are replayed, and the second replay finds the originals.
    let first = journal();
    first.duplicate(&elsewhere, &device.root).unwrap().die();
    assert!(matches!(first.duplicate(&elsewhere, &device.root), Err(JournalError::Locked { .. })), "it holds leases");
    assert_eq!(values(), held);
    first.die();
    for folder in [&elsewhere, &device.journal()] {
        assert_eq!(
            outcomes(&Replay::of(Holder::Daemon, folder, &device.root).unwrap().restorations),
            [&RestoreOutcome::Restored; 2]
        );
        assert_eq!(values(), given_back);
    }

    let first = journal();
    fs::write(device.folder.path().join("run/file"), "").unwrap();
    assert!(first.duplicate(&device.folder.path().join("run/file/x"), &device.root).is_err());
    assert_eq!((values(), first.leases().len()), (held, 2), "nothing has changed");
}

// Verifies UNDO-1.
#[test]
fn leasing_again_keeps_the_original_unless_another_tool_wrote() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    for value in ["10", "10", "11"] {
        journal.lease(SECOND, &target("a"), value, LATER, "test").unwrap();
        assert_eq!((device.get("a").as_str(), journal.leases()[0].original.as_str()), (value, "1"));
    }
    device.set("a", "7");
    journal.lease(SECOND, &target("a"), "11", LATER, "again").unwrap();
    assert_eq!((device.get("a").as_str(), journal.leases()[0].original.as_str()), ("11", "7"));
    assert_eq!(journal.release(SECOND, &target("a")).unwrap().outcome, RestoreOutcome::Restored);
    assert_eq!(device.get("a"), "7");
}

// Verifies UNDO-3.
#[test]
fn a_later_write_by_another_tool_is_kept() {
    let device = Device::new(&[("a", "1"), ("scaling_min_freq", "200000")]);
    let mut journal = device.open();
    for name in ["a", "scaling_min_freq"] {
        journal.lease(SECOND, &target(name), "800000", LATER, "test").unwrap();
        device.set(name, "5");
        let expected = RestoreOutcome::ChangedByOther { found: "5".into() };
        assert_eq!(journal.release(SECOND, &target(name)).unwrap().outcome, expected);
        assert_eq!(device.get(name), "5");
    }
}

// Verifies UNDO-2.
#[test]
fn tunables_are_restored_before_their_governor() {
    let device = Device::new(&[("scaling_governor", "powersave"), ("ondemand/sampling_rate", "100000")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("scaling_governor"), "ondemand", LATER, "test").unwrap();
    journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap();
    let restorations = journal.release_all();
    assert_eq!(restorations[0].target, target("ondemand/sampling_rate"), "the latest first");
    assert_eq!(device.get("scaling_governor"), "powersave");

    journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap();
    fs::remove_dir_all(device.path("ondemand")).unwrap();
    assert_eq!(outcomes(&journal.release_all()), [&RestoreOutcome::Vanished]);
    let error = journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap_err();
    assert!(error.to_string().contains("ondemand/sampling_rate"), "{error}");
    assert!(journal.leases().is_empty());
}

// Verifies UNDO-5.
#[test]
fn a_second_opener_gets_the_pid_of_the_first() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    let error = Journal::open(Holder::Daemon, &device.journal(), &device.root).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(matches!(Replay::of(Holder::Daemon, &device.journal(), &device.root), Err(JournalError::Locked { .. })));
    assert_eq!(device.get("a"), "2");
}

/// A process that has inherited the lock for `seconds`, as a child between fork and exec has.
fn child_with_lock(journal: &Journal, seconds: &str) -> Child {
    Command::new("sleep").arg(seconds).stdin(journal.log.descriptor()).spawn().unwrap()
}

// Verifies UNDO-5.
#[test]
fn a_released_lock_is_free_even_if_a_child_inherited_it() {
    let device = Device::new(&[("a", "1")]);
    let journal = device.open();
    let mut child = child_with_lock(&journal, "60");
    drop(journal);
    let reopened = Journal::open(Holder::Daemon, &device.journal(), &device.root);
    let _ = (child.kill(), child.wait());
    reopened.unwrap();
}

// Verifies UNDO-5.
#[test]
fn opening_waits_for_the_lock_of_a_dead_writer() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    // A zombie counts as dead, as a reaped process does.
    let mut dead = Command::new("true").spawn().unwrap();
    waitid(WaitId::Pid(Pid::from_child(&dead)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    journal
        .log
        .append(&JournalRecord::Open { format: record::FORMAT, boot_id: None, pid: dead.id(), tenure: Tenure::Lasting })
        .unwrap();
    // After SIGKILL the lock lasts as long as the last descriptor, which the dead writer's child or guardian has.
    let mut child = child_with_lock(&journal, "0.3");
    journal.log.lose();
    journal.die();
    assert_eq!(outcomes(&device.replay().restorations), [&RestoreOutcome::Restored]);
    assert_eq!(device.get("a"), "1");
    dead.wait().unwrap();
    child.wait().unwrap();
}

/// The guardian of a dead writer may run swapoff(2), which takes seconds on a slow CPU.
// Verifies UNDO-5.
#[test]
fn a_dead_writers_guardian_may_take_seconds() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    let mut dead = Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let open = JournalRecord::Open { format: record::FORMAT, boot_id: None, pid: dead.id(), tenure: Tenure::Lasting };
    journal.log.append(&open).unwrap();
    let mut child = child_with_lock(&journal, "6");
    journal.log.lose();
    journal.die();
    drop(device.open());
    child.wait().unwrap();
}

/// A launch is boosted without a daemon, and a daemon starts meanwhile.
// Verifies UNDO-5.
#[test]
fn only_a_lasting_opener_waits_for_the_end_of_a_launch() {
    let device = Device::new(&[("a", "1")]);
    let open_for = |tenure| Journal::open_for(tenure, Holder::Daemon, &device.journal(), &device.root);
    let mut launch = open_for(Tenure::Passing).unwrap();
    launch.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    let error = open_for(Tenure::Passing).unwrap_err().to_string();
    assert!(error.contains(&format!("(process {}, which boosts one launch)", std::process::id())), "{error}");
    let ends = std::thread::spawn(move || {
        std::thread::sleep(LOCK_TIMEOUT * 6);
        drop(launch);
    });
    let journal = open_for(Tenure::Lasting).unwrap();
    ends.join().unwrap();
    assert_eq!((device.get("a").as_str(), journal.replayed().restorations.len()), ("1", 0));
    assert!(open_for(Tenure::Lasting).is_err(), "a daemon is not waited for");
}

// Verifies UNDO-1.
#[test]
fn a_full_tmpfs_refuses_the_lease_and_changes_nothing() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.log = Log::on(Path::new("/dev/full"));
    let error = journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap_err().to_string();
    assert!(error.starts_with(&format!("{POLICY}/a stays as it is")) && error.contains("No space left"), "{error}");
    assert_eq!(device.get("a"), "1");
    assert!(journal.leases().is_empty());
}

#[test]
fn an_invalid_target_is_refused_with_its_name() {
    let device = Device::new(&[("folder/a", "1"), ("read-only", "1"), ("write-only", "1")]);
    symlink("nowhere", device.path("dangling")).unwrap();
    symlink("/dev/full", device.path("full")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, device.path("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::set_permissions(device.path("read-only"), fs::Permissions::from_mode(0o400)).unwrap();
    fs::set_permissions(device.path("write-only"), fs::Permissions::from_mode(0o200)).unwrap();
    let mut names = vec!["folder", "dangling", "full", "fifo", "missing"];
    if !rustix::process::geteuid().is_root() {
        names.extend(["read-only", "write-only"]);
    }
    let mut journal = device.open();
    for name in names {
        let error = journal.lease(SECOND, &target(name), "2", LATER, "test").unwrap_err().to_string();
        assert!(error.contains(&place(name)) && error.contains("; "), "{name}: {error}");
    }
    for path in ["relative", "/etc/passwd", "/sys/../etc/passwd", "/", "/sysfs"] {
        let outside = Target::Tunable(path.into());
        let error = journal.lease(SECOND, &outside, "2", LATER, "test").unwrap_err();
        assert!(matches!(error, JournalError::NotLeasable { .. }), "{path}: {error}");
    }
    assert!(journal.leases().is_empty());
}

// Verifies UNDO-2.
#[test]
fn a_failed_restore_stays_in_the_journal_and_is_retried() {
    let device = Device::new(&[("a", "1"), ("b", "1")]);
    let mut journal = device.open();
    for name in ["a", "b"] {
        journal.lease(SECOND, &target(name), "2", LATER, "test").unwrap();
    }
    // Even root cannot write a directory that replaces the file.
    let block = || {
        fs::remove_file(device.path("a")).unwrap();
        fs::create_dir(device.path("a")).unwrap();
    };
    block();
    let restorations = journal.expire(LATER);
    assert!(
        matches!(outcomes(&restorations)[..], [RestoreOutcome::Restored, RestoreOutcome::Refused { .. }]),
        "{restorations:?}"
    );
    assert_eq!(journal.next_deadline(), Some(LATER + RETRY_AFTER));
    journal.die();
    assert!(!device.replay().is_complete());

    let mut journal = device.open();
    assert_eq!(journal.leases().len(), 1, "the next daemon keeps retrying");
    assert!(!journal.replayed().is_complete());
    let mut now = LATER;
    for pause_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(matches!(outcomes(&journal.expire(now))[..], [RestoreOutcome::Refused { .. }]));
        assert_eq!(journal.next_deadline(), Some(now + Duration::from_secs(pause_s)), "with back-off");
        now = now + Duration::from_secs(pause_s);
    }
    fs::remove_dir(device.path("a")).unwrap();
    device.set("a", "2");
    assert_eq!(outcomes(&journal.expire(now)), [&RestoreOutcome::Restored]);
    assert_eq!(device.get("a"), "1");
    journal.lease(SECOND, &target("b"), "3", LATER, "test").unwrap();
    journal.die();
    assert_eq!(outcomes(&device.replay().restorations), [&RestoreOutcome::Restored]);
    assert_eq!(device.get("b"), "1");
}

// Verifies UNDO-2.
#[test]
fn a_failed_release_is_retried_before_the_deadline() {
    let device = Device::new(&[("a", "1"), ("b", "1")]);
    let mut journal = device.open();
    let much_later = LATER + Duration::from_secs(3600);
    for name in ["a", "b"] {
        journal.lease(SECOND, &target(name), "2", much_later, "test").unwrap();
    }
    fs::remove_file(device.path("a")).unwrap();
    fs::create_dir(device.path("a")).unwrap();
    let RestoreOutcome::Refused { error } = journal.release(LATER, &target("a")).unwrap().outcome else { panic!() };
    assert!(error.contains("policy0/a: ") && error.contains("; "), "what, where and what to do: {error}");
    assert_eq!(journal.next_deadline(), Some(LATER + RETRY_AFTER));
    assert!(
        matches!(outcomes(&journal.retry(LATER))[..], [RestoreOutcome::Refused { .. }]),
        "and b, which is leased, stays so"
    );
    fs::remove_dir(device.path("a")).unwrap();
    device.set("a", "2");
    assert_eq!(outcomes(&journal.retry(LATER)), [&RestoreOutcome::Restored], "the device has changed");
    assert_eq!((device.get("a").as_str(), device.get("b").as_str()), ("1", "2"));
    assert_eq!(journal.next_deadline(), Some(much_later));

    journal.lease(SECOND, &target("a"), "2", much_later, "test").unwrap();
    assert!(journal.retry(LATER).is_empty(), "a target that is leased again has not failed");
}

#[test]
fn a_log_of_another_boot_is_void_and_a_newer_format_is_refused() {
    let device = Device::new(&[("a", "1")]);
    let boot_id = device.root.path("/proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
    fs::write(&boot_id, "first\n").unwrap();
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    journal.die();
    let log = device.log();
    fs::write(&boot_id, "second\n").unwrap();
    let replay = device.replay();
    assert!(replay.earlier_boot && replay.restorations.is_empty());
    assert_eq!(device.get("a"), "2");

    let newer = String::from_utf8(log).unwrap().replacen("\"format\":1", "\"format\":2", 1);
    fs::write(device.journal().join("journal"), &newer).unwrap();
    let error = Journal::open(Holder::Daemon, &device.journal(), &device.root).unwrap_err();
    assert!(matches!(error, JournalError::ForeignFormat { format: 2, .. }), "{error}");
    assert_eq!(device.log(), newer.as_bytes(), "it is kept for the version that can read it");
}

// Verifies SECURITY-1.
#[test]
fn a_log_that_other_users_can_write_is_not_trusted() {
    let device = Device::new(&[("a", "1")]);
    device.open().die();
    let path = device.journal().join("journal");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(
        Journal::open(Holder::Daemon, &device.journal(), &device.root),
        Err(JournalError::Unusable { .. })
    ));
    fs::remove_file(&path).unwrap();
    symlink("/dev/null", &path).unwrap();
    assert!(matches!(Replay::of(Holder::Daemon, &device.journal(), &device.root), Err(JournalError::Unusable { .. })));
}

// Verifies SECURITY-1.
#[test]
fn a_log_cannot_make_the_replay_write_outside_the_kernels_files() {
    let device = Device::new(&[("a", "1"), ("b", "1")]);
    device.open().die();
    let lease = |path: &str| Lease {
        target: Target::Tunable(Path::new(POLICY).join(path)),
        original: "overwritten".into(),
        value: "2".into(),
        observed: None,
        since: SECOND,
        until: LATER,
        reason: String::new(),
    };
    fs::write(device.folder.path().join("victim"), "kept").unwrap();
    let lines =
        ["a", "../../../../../../victim", "b"].map(|path| record::line(&JournalRecord::Intent { lease: lease(path) }));
    fs::write(device.journal().join("journal"), lines.concat()).unwrap();
    let Replay { restorations, .. } = device.replay();
    let turns = outcomes(&restorations);
    assert!(
        matches!(turns[..], [RestoreOutcome::Restored, RestoreOutcome::Refused { .. }, RestoreOutcome::Restored]),
        "{restorations:?}"
    );
    assert_eq!(fs::read_to_string(device.folder.path().join("victim")).unwrap(), "kept");
}
