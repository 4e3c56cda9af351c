//! The journal on trees of files: what is held, what is given back, and every moment at which its writer can die.

use std::fs;
use std::io::{BufRead, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use proptest::prelude::*;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use super::*;
use crate::device::{affinity, hotplug, priority, process};

const SECOND: BootTime = BootTime::from_milliseconds(1000);
const LATER: BootTime = BootTime::from_milliseconds(2000);

/// A device of a few tunables, and a journal folder beside it.
struct Device {
    folder: tempfile::TempDir,
    root: Root,
}

impl Device {
    fn new(tunables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let device = Self { folder, root };
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
        Journal::open(&self.journal(), &self.root).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path(format!("/sys/{name}"))
    }

    fn set(&self, name: &str, value: &str) {
        fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        fs::write(self.path(name), format!("{value}\n")).unwrap();
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap().trim_end().to_owned()
    }

    fn replay(&self) -> Replay {
        Replay::of(&self.journal(), &self.root).unwrap()
    }
}

impl Journal {
    /// Dies as by SIGKILL: the lock goes, nothing is given back.
    fn die(mut self) {
        self.leases.clear();
    }
}

fn target(name: &str) -> Target {
    Target::Tunable(PathBuf::from(format!("/sys/{name}")))
}

fn outcomes(restorations: &[Restoration]) -> Vec<&Outcome> {
    restorations.iter().map(|restoration| &restoration.outcome).collect()
}

#[test]
fn a_lease_holds_until_it_is_released_expires_or_the_journal_is_dropped() {
    let device = Device::new(&[("a", "1"), ("b", "2"), ("c", "3")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "10", LATER, "test").unwrap();
    journal.lease(SECOND, &target("b"), "20", SECOND, "test").unwrap();
    journal.lease(SECOND, &target("c"), "30", LATER, "test").unwrap();
    assert_eq!((device.get("a"), device.get("b"), device.get("c")), ("10".into(), "20".into(), "30".into()));
    assert_eq!(journal.next_deadline(), Some(SECOND));
    assert_eq!(outcomes(&journal.expire(SECOND)), [&Outcome::Restored]);
    assert_eq!(device.get("b"), "2");
    assert_eq!(journal.release(SECOND, &target("a")).unwrap().outcome, Outcome::Restored);
    assert_eq!(device.get("a"), "1");
    assert!(matches!(journal.release(SECOND, &target("a")), Err(JournalError::NotLeased { .. })));
    drop(journal);
    assert_eq!(device.get("c"), "3");
    assert!(device.replay().restorations.is_empty());
}

#[test]
fn leasing_again_keeps_the_first_original_and_takes_a_foreign_value_as_the_new_one() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    for value in ["10", "10", "11"] {
        journal.lease(SECOND, &target("a"), value, LATER, "test").unwrap();
        assert_eq!((device.get("a").as_str(), journal.leases()[0].original.as_str()), (value, "1"));
    }
    device.set("a", "7");
    journal.lease(SECOND, &target("a"), "11", LATER, "again").unwrap();
    assert_eq!((device.get("a").as_str(), journal.leases()[0].original.as_str()), ("11", "7"));
    assert_eq!(journal.release(SECOND, &target("a")).unwrap().outcome, Outcome::Restored);
    assert_eq!(device.get("a"), "7");
}

#[test]
fn what_others_wrote_since_stays() {
    let device = Device::new(&[("a", "1"), ("scaling_min_freq", "200000")]);
    let mut journal = device.open();
    for name in ["a", "scaling_min_freq"] {
        journal.lease(SECOND, &target(name), "800000", LATER, "test").unwrap();
        device.set(name, "5");
        let expected = Outcome::ChangedByOther { found: "5".into() };
        assert_eq!(journal.release(SECOND, &target(name)).unwrap().outcome, expected);
        assert_eq!(device.get(name), "5");
    }
}

#[test]
fn a_governor_outlives_the_leases_of_its_tunables_and_what_vanished_is_gone() {
    let device = Device::new(&[("scaling_governor", "powersave"), ("ondemand/sampling_rate", "100000")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("scaling_governor"), "ondemand", LATER, "test").unwrap();
    journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap();
    let restorations = journal.release_all();
    assert_eq!(restorations[0].target, target("ondemand/sampling_rate"), "the latest first");
    assert_eq!(device.get("scaling_governor"), "powersave");

    journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap();
    fs::remove_dir_all(device.path("ondemand")).unwrap();
    assert_eq!(outcomes(&journal.release_all()), [&Outcome::Vanished]);
    let error = journal.lease(SECOND, &target("ondemand/sampling_rate"), "10000", LATER, "test").unwrap_err();
    assert!(error.to_string().contains("ondemand/sampling_rate"), "{error}");
    assert!(journal.leases().is_empty());
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    let error = Journal::open(&device.journal(), &device.root).unwrap_err().to_string();
    assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
    assert!(matches!(Replay::of(&device.journal(), &device.root), Err(JournalError::Locked { .. })));
    assert_eq!(device.get("a"), "2");
}

/// A process that has inherited the lock for `seconds`, as one between fork and exec has.
fn heir(journal: &Journal, seconds: &str) -> Child {
    Command::new("sleep").arg(seconds).stdin(journal.log.descriptor()).spawn().unwrap()
}

#[test]
fn a_lock_that_is_let_go_is_free_though_a_child_has_inherited_it() {
    let device = Device::new(&[("a", "1")]);
    let journal = device.open();
    let mut heir = heir(&journal, "60");
    drop(journal);
    let reopened = Journal::open(&device.journal(), &device.root);
    let _ = (heir.kill(), heir.wait());
    reopened.unwrap();
}

#[test]
fn the_dead_are_no_reason_to_refuse_the_living() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
    // A zombie is as dead as a process that has been waited for.
    let mut dead = Command::new("true").spawn().unwrap();
    waitid(WaitId::Pid(Pid::from_child(&dead)), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).unwrap();
    journal.log.append(&Record::Open { format: record::FORMAT, boot_id: None, pid: dead.id() }).unwrap();
    // After SIGKILL the lock goes with the last descriptor, and that is another's: a child of the dead, or its guardian.
    let mut heir = heir(&journal, "0.3");
    journal.log.lose();
    journal.die();
    assert_eq!(outcomes(&device.replay().restorations), [&Outcome::Restored]);
    assert_eq!(device.get("a"), "1");
    dead.wait().unwrap();
    heir.wait().unwrap();
}

#[test]
fn a_full_tmpfs_refuses_the_lease_and_changes_nothing() {
    let device = Device::new(&[("a", "1")]);
    let mut journal = device.open();
    journal.log = Log::on(Path::new("/dev/full"));
    let error = journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap_err().to_string();
    assert!(error.starts_with("/sys/a stays as it is") && error.contains("No space left"), "{error}");
    assert_eq!(device.get("a"), "1");
    assert!(journal.leases().is_empty());
}

#[test]
fn targets_that_cannot_be_held_are_refused_with_their_names() {
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
        assert!(error.contains(&format!("/sys/{name}")) && error.contains("; "), "{name}: {error}");
    }
    for path in ["relative", "/etc/passwd", "/sys/../etc/passwd", "/", "/sysfs"] {
        let outside = Target::Tunable(path.into());
        let error = journal.lease(SECOND, &outside, "2", LATER, "test").unwrap_err();
        assert!(matches!(error, JournalError::NotLeasable { .. }), "{path}: {error}");
    }
    assert!(journal.leases().is_empty());
}

#[test]
fn what_refuses_is_kept_and_tried_again() {
    let device = Device::new(&[("a", "1"), ("b", "1")]);
    let mut journal = device.open();
    for name in ["a", "b"] {
        journal.lease(SECOND, &target(name), "2", LATER, "test").unwrap();
    }
    // A directory in the place of the file is what any user can make refuse.
    let block = || {
        fs::remove_file(device.path("a")).unwrap();
        fs::create_dir(device.path("a")).unwrap();
    };
    block();
    let restorations = journal.expire(LATER);
    assert!(matches!(outcomes(&restorations)[..], [Outcome::Restored, Outcome::Refused { .. }]), "{restorations:?}");
    assert_eq!(journal.next_deadline(), Some(LATER + RETRY_AFTER));
    journal.die();
    assert!(!device.replay().is_complete());

    let mut journal = device.open();
    assert_eq!(journal.leases().len(), 1, "the next daemon goes on trying");
    assert!(!journal.replayed().is_complete());
    let mut now = LATER;
    for pause_s in [1, 2, 4, 8, 16, 32, 60, 60] {
        assert!(matches!(outcomes(&journal.expire(now))[..], [Outcome::Refused { .. }]));
        assert_eq!(journal.next_deadline(), Some(now + Duration::from_secs(pause_s)), "more and more patient");
        now = now + Duration::from_secs(pause_s);
    }
    fs::remove_dir(device.path("a")).unwrap();
    device.set("a", "2");
    assert_eq!(outcomes(&journal.expire(now)), [&Outcome::Restored]);
    assert_eq!(device.get("a"), "1");
    journal.lease(SECOND, &target("b"), "3", LATER, "test").unwrap();
    journal.die();
    assert_eq!(outcomes(&device.replay().restorations), [&Outcome::Restored]);
    assert_eq!(device.get("b"), "1");
}

#[test]
fn what_refuses_to_be_released_waits_for_no_deadline() {
    let device = Device::new(&[("a", "1"), ("b", "1")]);
    let mut journal = device.open();
    let much_later = LATER + Duration::from_secs(3600);
    for name in ["a", "b"] {
        journal.lease(SECOND, &target(name), "2", much_later, "test").unwrap();
    }
    fs::remove_file(device.path("a")).unwrap();
    fs::create_dir(device.path("a")).unwrap();
    let Outcome::Refused { error } = journal.release(LATER, &target("a")).unwrap().outcome else { panic!() };
    assert!(error.contains("/sys/a: ") && error.contains("; "), "what, where and what to do: {error}");
    assert_eq!(journal.next_deadline(), Some(LATER + RETRY_AFTER));
    assert!(matches!(outcomes(&journal.retry(LATER))[..], [Outcome::Refused { .. }]), "and b, which is held, stays so");
    fs::remove_dir(device.path("a")).unwrap();
    device.set("a", "2");
    assert_eq!(outcomes(&journal.retry(LATER)), [&Outcome::Restored], "the device has changed");
    assert_eq!((device.get("a").as_str(), device.get("b").as_str()), ("1", "2"));
    assert_eq!(journal.next_deadline(), Some(much_later));

    journal.lease(SECOND, &target("a"), "2", much_later, "test").unwrap();
    assert!(journal.retry(LATER).is_empty(), "what is leased anew is nobody's failure");
}

#[test]
fn a_log_of_an_earlier_boot_is_void_and_of_another_format_refused() {
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
    let error = Journal::open(&device.journal(), &device.root).unwrap_err();
    assert!(matches!(error, JournalError::ForeignFormat { format: 2, .. }), "{error}");
    assert_eq!(device.log(), newer.as_bytes(), "it is kept for the version that can read it");
}

#[test]
fn a_log_that_others_may_write_is_not_believed() {
    let device = Device::new(&[("a", "1")]);
    device.open().die();
    let path = device.journal().join("journal");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(matches!(Journal::open(&device.journal(), &device.root), Err(JournalError::Unusable { .. })));
    fs::remove_file(&path).unwrap();
    symlink("/dev/null", &path).unwrap();
    assert!(matches!(Replay::of(&device.journal(), &device.root), Err(JournalError::Unusable { .. })));
}

#[test]
fn a_log_cannot_make_the_replay_write_outside_the_kernels_files() {
    let device = Device::new(&[("a", "1")]);
    device.open().die();
    let lease = Lease {
        target: Target::Tunable("/sys/../victim".into()),
        original: "overwritten".into(),
        value: "2".into(),
        observed: None,
        since: SECOND,
        until: LATER,
        reason: String::new(),
    };
    fs::write(device.folder.path().join("victim"), "kept").unwrap();
    fs::write(device.journal().join("journal"), record::line(&Record::Intent { lease })).unwrap();
    assert!(!device.replay().is_complete());
    assert_eq!(fs::read_to_string(device.folder.path().join("victim")).unwrap(), "kept");
}

/// One thing that happens to the device or the daemon.
#[derive(Debug, Clone)]
enum Step {
    Lease {
        tunable: usize,
        value: u32,
        seconds: u64,
    },
    Release {
        tunable: usize,
    },
    Expire {
        seconds: u64,
    },
    Foreign {
        tunable: usize,
        value: u32,
    },
    Vanish {
        tunable: usize,
    },
    /// The daemon is killed at some point of the lease or release, and somebody may write before the replay.
    Kill {
        during: Box<Step>,
        cut: prop::sample::Index,
        foreign: Option<(usize, u32)>,
    },
}

const TUNABLES: [&str; 3] = ["a", "folder/b", "scaling_min_freq"];

/// Ours are even and the others' odd, so that nobody writes by chance what the other would.
fn step() -> impl Strategy<Value = Step> {
    let tunable = 0..TUNABLES.len();
    let ours = (0u32..1 << 20).prop_map(|value| value * 2);
    let theirs = (0u32..1 << 20).prop_map(|value| value * 2 + 1);
    let lease = (tunable.clone(), ours, 0u64..10);
    let lease = lease.prop_map(|(tunable, value, seconds)| Step::Lease { tunable, value, seconds });
    let release = tunable.clone().prop_map(|tunable| Step::Release { tunable });
    let write = (tunable.clone(), theirs);
    let foreign = write.clone().prop_map(|(tunable, value)| Step::Foreign { tunable, value });
    let during = prop_oneof![3 => lease.clone(), 1 => release.clone()].prop_map(Box::new);
    let kill = (during, any::<prop::sample::Index>(), prop::option::of(write))
        .prop_map(|(during, cut, foreign)| Step::Kill { during, cut, foreign });
    prop_oneof![
        4 => lease,
        2 => release,
        1 => (0u64..10).prop_map(|seconds| Step::Expire { seconds }),
        2 => foreign,
        1 => tunable.prop_map(|tunable| Step::Vanish { tunable }),
        3 => kill,
    ]
}

/// What the targets must hold when nothing is leased: what the last one who is not brisk wrote.
struct Model {
    device: Device,
    journal: Option<Journal>,
    now: BootTime,
    theirs: Vec<String>,
}

impl Model {
    fn new() -> Self {
        let device = Device::new(&TUNABLES.map(|name| (name, "1")));
        let journal = Some(device.open());
        Self { device, journal, now: SECOND, theirs: vec!["1".into(); TUNABLES.len()] }
    }

    fn values(&self) -> Vec<String> {
        TUNABLES.iter().map(|name| self.device.get(name)).collect()
    }

    fn foreign(&mut self, tunable: usize, value: u32) {
        self.device.set(TUNABLES[tunable], &value.to_string());
        self.theirs[tunable] = value.to_string();
    }

    fn apply(&mut self, step: &Step) {
        let journal = self.journal.as_mut().unwrap();
        match *step {
            Step::Lease { tunable, value, seconds } => {
                let until = self.now + Duration::from_secs(seconds);
                journal.lease(self.now, &target(TUNABLES[tunable]), &value.to_string(), until, "property").unwrap();
            }
            Step::Release { tunable } => match journal.release(self.now, &target(TUNABLES[tunable])) {
                Ok(restoration) => assert!(restoration.outcome.is_final()),
                Err(error) => assert!(matches!(error, JournalError::NotLeased { .. })),
            },
            Step::Expire { seconds } => {
                self.now = self.now + Duration::from_secs(seconds);
                journal.expire(self.now);
                assert!(journal.leases().iter().all(|lease| lease.until > self.now));
            }
            Step::Foreign { tunable, value } => self.foreign(tunable, value),
            Step::Vanish { tunable } => {
                // The governor is exchanged and comes back with its own default.
                fs::remove_file(self.device.path(TUNABLES[tunable])).unwrap();
                self.foreign(tunable, 77_777);
            }
            Step::Kill { ref during, cut, foreign } => self.kill(during, cut, foreign),
        }
    }

    /// Lets `during` happen, then makes the device look as it does when the daemon dies at a point of it.
    fn kill(&mut self, during: &Step, cut: prop::sample::Index, foreign: Option<(usize, u32)>) {
        let (log_before, values_before) = (self.device.log(), self.values());
        self.apply(during);
        let (log_after, values_after) = (self.device.log(), self.values());
        self.journal.take().unwrap().die();
        let log_path = self.device.journal().join("journal");
        let restore = |values: &[String]| {
            for (name, value) in TUNABLES.iter().zip(values) {
                self.device.set(name, value);
            }
        };
        if log_after.starts_with(&log_before) {
            // Killed at a byte of what was appended. Nothing is written into the target before the first line is whole.
            let appended = &log_after[log_before.len()..];
            let kept = cut.index(appended.len() + 1);
            let intent = appended.iter().position(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            fs::write(&log_path, &log_after[..log_before.len() + kept]).unwrap();
            if kept < intent || (kept == intent && cut.index(2) == 0) {
                restore(if matches!(during, Step::Release { .. }) { &values_after } else { &values_before });
            }
        } else if cut.index(2) == 0 {
            // The last lease was released; killed between the restoration and its record, or before both.
            fs::write(&log_path, &log_before).unwrap();
            restore(if cut.index(3) == 0 { &values_before } else { &values_after });
        }
        let allowed_original = foreign.map(|(tunable, _)| (tunable, self.theirs[tunable].clone()));
        if let Some((tunable, value)) = foreign {
            self.foreign(tunable, value);
        }
        let replay = self.device.replay();
        assert!(replay.is_complete() && replay.malformed_lines == 0, "{replay:?}");
        if let Some((tunable, original)) = allowed_original {
            // Where the record of what was written is missing, a write after the death cannot be told from ours.
            if self.device.get(TUNABLES[tunable]) == original {
                self.theirs[tunable] = original;
            }
        }
        assert_eq!(self.values(), self.theirs, "after the replay every target holds its original or a later write");
        self.journal = Some(self.device.open());
        assert!(self.journal.as_ref().unwrap().replayed().restorations.is_empty(), "a replay leaves nothing to do");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_others_have_the_last_word(steps in prop::collection::vec(step(), 1..25)) {
        let mut model = Model::new();
        for step in &steps {
            model.apply(step);
        }
        drop(model.journal.take());
        prop_assert_eq!(model.values(), model.theirs);
    }

    #[test]
    fn no_log_panics_a_replay(log in prop::collection::vec(any::<u8>(), 0..300), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let _ = record::parse(&log);
        let device = Device::new(&[("a", "1")]);
        let mut journal = device.open();
        journal.lease(SECOND, &target("a"), "2", LATER, "test").unwrap();
        journal.die();
        let mut damaged = device.log();
        let index = cut.index(damaged.len());
        damaged[index] ^= flip;
        fs::write(device.journal().join("journal"), &damaged).unwrap();
        let _ = Replay::of(&device.journal(), &device.root);
    }
}

/// A shell of ours: it makes a `sleep` and prints its number when it is told to, and ends both when it is told again.
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

    fn make_heir(&mut self) -> u32 {
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

/// CPUs that threads of ours may run on and that are there.
fn usable_cpus() -> Vec<u32> {
    let online = hotplug::online(&Root::system()).unwrap();
    affinity::allowed(&Root::system(), std::process::id())
        .unwrap()
        .into_iter()
        .filter(|cpu| online.contains(cpu))
        .collect()
}

#[test]
fn a_threads_mask_and_priority_are_given_back_unless_somebody_else_changed_them() {
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
    let mut journal = Journal::open(folder.path(), &root).unwrap();
    let confine = |journal: &mut Journal| journal.lease(now, &affinity, &one.to_string(), until, "test").unwrap();
    confine(&mut journal);
    assert_eq!(mask(tid), one.to_string());
    assert_eq!(journal.release(now, &affinity).unwrap().outcome, Outcome::Restored);
    assert_eq!(mask(tid), before);

    confine(&mut journal);
    journal.die();
    let replay = Replay::of(folder.path(), &root).unwrap();
    assert!(replay.is_complete() && mask(tid) == before, "{replay:?}");

    let mut journal = Journal::open(folder.path(), &root).unwrap();
    confine(&mut journal);
    affinity::set(tid, &[other]).unwrap();
    let outcome = journal.release(now, &affinity).unwrap().outcome;
    assert_eq!(outcome, Outcome::ChangedByOther { found: other.to_string() });
    assert_eq!(mask(tid), other.to_string(), "whoever chose it has the last word");

    let Target::CpuAffinity { start_time_ticks, .. } = affinity else { unreachable!() };
    let priority_before = priority::of(tid).unwrap().to_string();
    let priority = Target::Priority { tid, start_time_ticks };
    journal.lease(now, &priority, "idle 0", until, "test").unwrap();
    assert!(priority::of(tid).unwrap().to_string().starts_with("idle"));
    match journal.release(now, &priority).unwrap().outcome {
        Outcome::Restored => assert_eq!(priority::of(tid).unwrap().to_string(), priority_before),
        outcome => eprintln!("skipped: only root may go up again: {outcome:?}"),
    }

    let gone = Target::CpuAffinity { tid, start_time_ticks: start_time_ticks + 1 };
    assert!(journal.lease(now, &gone, "0", until, "test").is_err(), "the number belongs to somebody else");
    assert!(matches!(journal.lease(now, &affinity, "", until, "test"), Err(JournalError::Device { .. })));
    assert_eq!(mask(tid), other.to_string(), "no mask is empty");
}

#[test]
fn heirs_of_a_confined_thread_are_freed_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let (mut shell, root) = (Shell::start(), Root::system());
    let (tid, affinity) = (shell.child.id(), shell.affinity());
    let (before, cpus) = (mask(tid), usable_cpus());
    if !root.exists(format!("/proc/{tid}/task/{tid}/children")) || before != hotplug::format_list(&cpus) {
        return eprintln!("skipped: this kernel does not list children, or CPUs are offline");
    }
    let mut journal = Journal::open(folder.path(), &root).unwrap();
    let (now, one) = (BootTime::now(), cpus[0].to_string());
    journal.lease(now, &affinity, &one, now + Duration::from_secs(60), "test").unwrap();
    let heir = shell.make_heir();
    assert_eq!(mask(heir), one, "inherited");
    journal.release(now, &affinity).unwrap();
    assert_eq!([mask(tid), mask(heir)], [before.clone(), before]);
}

#[test]
fn a_mask_that_the_kernel_widened_is_ours_to_give_back() {
    for (original, found, ours) in
        [("0-3", "0-3", true), ("0-3", "0-7", true), ("0-3", "0-2", false), ("0-3", "2", false)]
    {
        let lease = Lease {
            target: Target::CpuAffinity { tid: 1, start_time_ticks: 1 },
            original: original.into(),
            value: "1".into(),
            observed: Some("1".into()),
            since: SECOND,
            until: LATER,
            reason: "test".into(),
        };
        let mut access = Access::new(&Root::system());
        assert_eq!(access.is_ours(&lease, found).unwrap(), ours, "{original} {found}");
    }
}
