//! Recorded device trees through the real program: doctor's output for each, and that leases leave no trace in any.
//!
//! `tests/golden/NN-name/` is a device's /proc, /sys and /dev, as far as brisk reads them; `doctor.txt`, `doctor.json` and
//! `memory-*.txt` in it are the expected output. `UPDATE_GOLDEN=1 cargo test --test integration golden::` rewrites them, for
//! manual review.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use brisk::sys::cpu::cpufreq::{self, Policies};
use brisk::sys::{BootTime, Root, Target};
use brisk::undo::journal::{Holder, Journal};

const EXPECTED: [&str; 2] = ["doctor.txt", "doctor.json"];
const MEMORY: [(&str, &[&str]); 2] =
    [("memory-plan.txt", &["memory", "plan"]), ("memory-status.txt", &["memory", "status"])];

pub(crate) fn trees() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn brisk(root: &Path, arguments: &[&str]) -> Output {
    let brisk = env!("CARGO_BIN_EXE_brisk");
    Command::new(brisk).arg("--root").arg(root).args(arguments).env("NO_COLOR", "1").output().unwrap()
}

/// Compares doctor's output for `root` with the expected output of the tree `name`.
fn doctor_says(name: &str, root: &Path) {
    for (file, arguments) in EXPECTED.into_iter().zip([&["doctor"][..], &["doctor", "--json"]]) {
        let output = brisk(root, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && error.is_empty(), "doctor never fails on a device: {error}");
        let version = format!("\"brisk\": \"{}\"", env!("CARGO_PKG_VERSION"));
        let found = String::from_utf8(output.stdout).unwrap().replace(&version, "\"brisk\": \"VERSION\"");
        let path = trees().join(name).join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{}: expected\n{expected}\nbut found\n{found}", path.display());
    }
}

/// Compares the output and exit code of `brisk memory` on `root` with those expected for the tree `name`.
fn memory_says(name: &str, root: &Path) {
    for (file, arguments) in MEMORY {
        let output = brisk(root, arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        let text = String::from_utf8(output.stdout).unwrap();
        let found = format!("{text}{error}exit code {}\n", output.status.code().expect("it is never killed"));
        let path = trees().join(name).join(file);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &found).unwrap();
        }
        let expected = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{}: expected\n{expected}\nbut found\n{found}", path.display());
    }
}

// Verifies MEMORY-1.
#[test]
fn memory_on_every_tree() {
    for tree in fs::read_dir(trees()).unwrap() {
        let name = tree.unwrap().file_name().into_string().unwrap();
        let folder = tempfile::tempdir().unwrap();
        copy(&trees().join(&name), folder.path());
        let before = everything(folder.path());
        memory_says(&name, folder.path());
        assert!(everything(folder.path()) == before, "{name}: a plan writes nothing");
    }
}

/// A copy of `tree` whose configuration is `text`.
fn configured(tree: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&trees().join(tree), folder.path());
    fs::create_dir_all(folder.path().join("etc/brisk")).unwrap();
    fs::write(folder.path().join("etc/brisk/brisk.toml"), text).unwrap();
    folder
}

// Verifies MEMORY-3.
#[test]
fn memory_status_lists_what_the_killer_would_kill() {
    for (text, expected) in [
        ("", &["Web Content"][..]),
        ("lowest_adj = 0", &["Web Content", "firefox-esr", "bash"]),
        ("lowest_adj = 0\nprotected_groups = [\"*/firefox\"]", &["Web Content", "bash"]),
        ("mode = \"lmk-rss\"", &[]),
        ("lowest_adj = 101", &[]),
    ] {
        let folder = configured("04-debian-pc", &format!("[memory.killer]\n{text}\n"));
        fs::write(folder.path().join("proc/1811/cgroup"), "0::/app.slice/firefox\n").unwrap();
        let output = brisk(folder.path(), &["memory", "status", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let names: Vec<&str> =
            report["victims"].as_array().unwrap().iter().flat_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, expected, "{text}");
    }
}

// Verifies MEMORY-2.
#[test]
fn memory_plan_and_doctor_follow_the_configuration() {
    for (text, arguments, planned, in_doctor) in [
        ("size_kib = 65536", &[][..], "65536 KiB", "zram size 65536 KiB"),
        ("plan = \"paper\"", &[], "290760 KiB", "zram size 290760 KiB"),
        ("plan = \"paper\"", &["--variant", "brisk"], "1453800 KiB", "zram size 290760 KiB"),
        ("algorithm = \"nosuch\"", &[], "is not offered by zram0 (", "is not offered by zram0 ("),
    ] {
        let folder = configured("06-embedded-board", &format!("[memory.zram]\n{text}\n"));
        for (arguments, said) in [(&[&["memory", "plan"], arguments].concat()[..], planned), (&["doctor"], in_doctor)] {
            let output = String::from_utf8(brisk(folder.path(), arguments).stdout).unwrap();
            let output = output.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(output.contains(said), "{text} {arguments:?}: {output}");
        }
    }
}

// Verifies MEMORY-2.
#[test]
fn memory_apply_refuses_what_cannot_be_set() {
    let folder = configured("06-embedded-board", "");
    let before = everything(&folder.path().join("sys"));
    for (option, value, said) in [
        ("--algorithm", "nosuch", "\"nosuch\" is not offered by zram0 ("),
        ("--size-kib", "0", "0 is not in 4..=67108864"),
    ] {
        let output = brisk(folder.path(), &["memory", "apply", "--keep", option, value]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && error.contains(said), "{option}: {error}");
    }
    assert!(everything(&folder.path().join("sys")) == before, "nothing was written");
}

/// The daemon's reason and doctor's line about control groups name the sub-tree and why it is not used.
// Verifies ON-4.
#[test]
fn doctor_tells_why_a_sub_tree_is_not_used() {
    let folder = configured("06-embedded-board", "[placement]\nenabled = true\ngroups = \"/tmp/x\"\n");
    let output = brisk(folder.path(), &["doctor", "--json"]).stdout;
    let report: serde_json::Value = serde_json::from_slice(&output).unwrap();
    let named = |list: &serde_json::Value, name: &str| {
        let found = list.as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
        (found["available"].clone(), found["reason"].as_str().unwrap().to_owned())
    };
    let why = "placement.groups = \"/tmp/x\" is not used: /tmp/x is in no mounted cgroup v2 hierarchy";
    let (available, reason) = named(&report["device"]["interfaces"], "control groups");
    assert_eq!((available, reason.as_str()), (false.into(), why));
    let (_, reason) = named(&report["mechanisms"], "placement");
    assert!(reason.contains(why), "{reason}");
}

// Verifies ON-3.
#[test]
fn enable_tells_what_stays_off() {
    for (tree, arguments, stays_off) in [
        ("07-vm-without-cpufreq", &["enable", "lookup"][..], Some("lookup stays off: /dev/binder does not exist")),
        ("09-binder-cache-board", &["enable", "lookup"], None),
        ("06-embedded-board", &["enable", "memory.killer", "--auto"], Some("stays off: a process that was killed")),
        ("06-embedded-board", &["disable", "launch"], None),
    ] {
        let folder = configured(tree, "");
        let output = brisk(folder.path(), arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(text.contains("stays off"), stays_off.is_some(), "{text}");
        assert!(text.contains(stays_off.unwrap_or_default()), "{text}");
    }
}

macro_rules! doctor_on {
    ($($test:ident: $tree:literal,)*) => {
        $(#[test]
        fn $test() {
            doctor_says($tree, &trees().join($tree));
        })*

        #[test]
        fn every_tree_is_tested() {
            let mut found: Vec<String> =
                fs::read_dir(trees()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            found.sort();
            let mut tested = [$($tree,)* BROKEN];
            tested.sort_unstable();
            assert_eq!(found, tested);
        }
    };
}

doctor_on! {
    doctor_on_an_android_4_phone: "01-android-4-phone",
    doctor_on_an_android_phone_with_interactive: "02-android-interactive-phone",
    // Verifies ANDROID-1.
    doctor_on_an_android_gki_phone: "03-android-gki-phone",
    doctor_on_a_debian_pc: "04-debian-pc",
    doctor_on_a_debian_pc_in_passive_mode: "05-debian-pc-passive",
    doctor_on_an_embedded_board: "06-embedded-board",
    // Verifies ON-4.
    doctor_on_a_vm_without_cpufreq: "07-vm-without-cpufreq",
    doctor_on_a_board_with_the_binder_cache: "09-binder-cache-board",
}

const BROKEN: &str = "08-broken";

/// A copy of the broken tree, with what git cannot store: FIFOs, directories in place of files, dangling links.
fn broken_tree() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&trees().join(BROKEN), folder.path());
    let cpu = folder.path().join("sys/devices/system/cpu");
    let fifo = |path: PathBuf| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    fs::create_dir_all(cpu.join("cpufreq/policy4/scaling_governor")).unwrap();
    fs::write(cpu.join("cpufreq/policy4/affected_cpus"), "4\n").unwrap();
    fs::create_dir_all(cpu.join("cpufreq/policy5")).unwrap();
    symlink("affected_cpus", cpu.join("cpufreq/policy5/affected_cpus")).unwrap();
    fs::create_dir_all(cpu.join("cpufreq/policy6")).unwrap();
    fifo(cpu.join("cpufreq/policy6/affected_cpus"));
    symlink("nowhere", cpu.join("cpufreq/policy7")).unwrap();
    fifo(cpu.join("cpufreq/policy3/ondemand/up_threshold"));
    fs::create_dir(cpu.join("cpufreq/policy3/ondemand/ignore_nice_load")).unwrap();
    let journal = folder.path().join("run/brisk/journal");
    fs::set_permissions(journal, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    folder
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        let copied = to.join(path.file_name().unwrap());
        if kind.is_symlink() {
            symlink(fs::read_link(&path).unwrap(), copied).unwrap();
        } else if kind.is_dir() {
            copy(&path, &copied);
        } else {
            fs::write(copied, fs::read(&path).unwrap()).unwrap();
        }
    }
}

/// Files below a root, each with its text.
type Files = &'static [(&'static str, &'static str)];

/// How each manager is detected: its name, the mechanism that it competes with, and a file of the recorded device.
const OTHER_MANAGERS: [(&str, &str, Files); 14] = [
    ("tuned", "launch", &[("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n")]),
    (
        "power-profiles-daemon",
        "launch",
        &[("sys/fs/cgroup/system.slice/power-profiles-daemon.service/cgroup.procs", "7\n")],
    ),
    ("TLP", "launch", &[("run/tlp/last_pwr", "0\n")]),
    ("auto-cpufreq", "launch", &[("proc/7/comm", "auto-cpufreq\n"), ("proc/7/status", "Uid:\t0\t0\t0\t0\n")]),
    ("GameMode", "launch", &[("proc/7/comm", "gamemoded\n"), ("proc/7/status", "Uid:\t1000\t0\t0\t0\n")]),
    (
        "Android's power HAL",
        "launch",
        &[
            ("proc/7/comm", "android.hardwar\n"),
            ("proc/7/cmdline", "/vendor/bin/hw/android.hardware.power-service\0"),
            ("proc/7/status", "Uid:\t0\t0\t0\t0\n"),
        ],
    ),
    ("ananicy", "placement", &[("sys/fs/cgroup/system.slice/ananicy-cpp.service/cgroup.procs", "7\n")]),
    ("earlyoom", "memory.killer", &[("sys/fs/cgroup/system.slice/earlyoom.service/cgroup.procs", "7\n")]),
    ("systemd-oomd", "memory.killer", &[("sys/fs/cgroup/system.slice/systemd-oomd.service/cgroup.procs", "7\n")]),
    ("nohang", "memory.killer", &[("sys/fs/cgroup/system.slice/nohang-desktop.service/cgroup.procs", "7\n")]),
    ("lmkd", "memory.killer", &[("proc/7/comm", "lmkd\n"), ("proc/7/status", "Uid:\t999\t0\t0\t0\n")]),
    ("zram-generator", "memory.zram", &[("etc/systemd/zram-generator.conf", "[zram0]\n")]),
    ("zramswap", "memory.zram", &[("etc/default/zramswap", "PERCENT=50\n")]),
    ("mmd", "memory.zram", &[("proc/7/comm", "mmd\n"), ("proc/7/status", "Uid:\t0\t0\t0\t0\n")]),
];

/// On a board whose ondemand has a long sampling period, launches would be boosted: each frequency manager prevents that.
// Verifies ON-2.
#[test]
fn doctor_names_each_other_manager_and_its_mechanism() {
    let report = |files: &[(&str, &str)]| -> serde_json::Value {
        let folder = tempfile::tempdir().unwrap();
        copy(&trees().join("06-embedded-board"), folder.path());
        for (file, text) in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        serde_json::from_slice(&brisk(folder.path(), &["doctor", "--json"]).stdout).unwrap()
    };
    assert_eq!(report(&[])["other_managers"], serde_json::json!([]));
    assert_eq!(report(&[])["enabled"][0]["on"], true, "{}", report(&[])["enabled"][0]);
    for (name, mechanism, files) in OTHER_MANAGERS {
        let report = report(files);
        let found = &report["other_managers"];
        assert_eq!((&found[0]["name"], &found[0]["mechanism"]), (&name.into(), &mechanism.into()), "{found}");
        assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
        let enabled = report["enabled"].as_array().unwrap().iter().find(|it| it["mechanism"] == mechanism).unwrap();
        let reason = enabled["reason"].as_str().unwrap();
        assert!(enabled["on"] == false && reason.contains(&format!("left to {name} (")), "{name}: {enabled}");
    }
}

#[test]
fn doctor_on_a_broken_device() {
    doctor_says(BROKEN, broken_tree().path());
}

#[test]
fn doctor_on_files_that_cannot_be_read() {
    let folder = broken_tree();
    let governor = folder.path().join("sys/devices/system/cpu/cpufreq/policy3/scaling_governor");
    fs::set_permissions(&governor, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    let output = brisk(folder.path(), &["doctor"]);
    assert!(output.status.success());
    if fs::read(&governor).is_ok() {
        return eprintln!("skipped: this user may read any file");
    }
    let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("policy3/scaling_governor: Permission denied"), "{text}");
}

#[test]
fn doctor_while_files_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    copy(&trees().join("06-embedded-board"), folder.path());
    let policy = folder.path().join("sys/devices/system/cpu/cpufreq/policy4");
    let (hidden, stop) = (policy.with_extension("hidden"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&policy, &hidden).unwrap();
                std::thread::sleep(Duration::from_micros(200));
                fs::rename(&hidden, &policy).unwrap();
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        for _ in 0..20 {
            let output = brisk(folder.path(), &["doctor"]);
            stop.store(!output.status.success(), Ordering::Relaxed);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn links_in_the_trees_stay_in_the_trees() {
    for (path, content) in everything(&trees()) {
        if let Content::Link(target) = content {
            assert!(target.is_relative() && trees().join(path.parent().unwrap()).join(target).exists(), "{path:?}");
        }
    }
}

#[derive(Debug, PartialEq)]
enum Content {
    Text(Vec<u8>),
    Link(PathBuf),
}

fn everything(folder: &Path) -> BTreeMap<PathBuf, Content> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
            let name = path.strip_prefix(folder).unwrap().to_owned();
            if kind.is_symlink() {
                found.insert(name, Content::Link(fs::read_link(path).unwrap()));
            } else if kind.is_dir() {
                folders.push(path);
            } else {
                found.insert(name, Content::Text(fs::read(path).unwrap()));
            }
        }
    }
    found
}

/// Leases every tunable of every governor, and the limits and the governor of every policy, on every tree.
#[test]
fn leases_leave_no_trace_on_any_tree() {
    let mut leased = 0;
    for tree in fs::read_dir(trees()).unwrap() {
        let name = tree.unwrap().file_name();
        let folder = tempfile::tempdir().unwrap();
        copy(&trees().join(&name), folder.path());
        let before = everything(folder.path());
        let root = Root::at(folder.path());
        let mut journal = Journal::open(Holder::Daemon, &folder.path().join("journal"), &root).unwrap();
        let now = BootTime::now();
        for policy in Policies::read(&root).list {
            let mut files = vec![policy.folder.join("scaling_governor"), policy.folder.join("scaling_min_freq")];
            if let Some(tunables) = cpufreq::governor_tunables(&root, &policy) {
                files.extend(root.list(&tunables).unwrap().into_iter().map(|name| tunables.join(name)));
            }
            for file in files {
                let target = Target::Tunable(file.clone());
                let value = "a rather long value that was never there";
                match journal.lease(now, &target, value, now + Duration::from_secs(60), "golden") {
                    Ok(()) => assert_eq!(root.read(&file).unwrap(), value),
                    Err(error) => assert!(root.read(&file).unwrap_or_default().is_empty(), "{error}"),
                }
            }
        }
        leased += journal.leases().len();
        drop(journal);
        fs::remove_dir_all(folder.path().join("journal")).unwrap();
        let after = everything(folder.path());
        let changed: Vec<_> = before.iter().filter(|&(path, content)| after.get(path) != Some(content)).collect();
        assert!(changed.is_empty() && after.len() == before.len(), "{name:?}: {changed:?}");
    }
    assert!(leased > 80, "only {leased} leases");
}
