//! A dry run on a recorded phone: all decisions about memory are printed, and no file of the device is changed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::patience::{PATIENCE, end_of};

const EVERYTHING: &str = "
[launch]
triggers = [\"announced\"]
[memory]
restraint_s = 60
[memory.zram]
enabled = true
[memory.killer]
enabled = true
prefetch = true
lowest_adj = 500
reserve_kib = 40960
[memory.killer.pageout]
target_kib = 100000
lowest_adj = 500
[memory.killer.writeback]
daily_kib = 1024
lowest_adj = 500
";

/// A phone with memory pressure, control groups, and a group of foreground tasks.
fn phone() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/01-android-4-phone");
    let copied = Command::new("cp").arg("-rT").arg(tree).arg(folder.path()).status().unwrap();
    assert!(copied.success());
    let mounts = fs::read_to_string(folder.path().join("proc/mounts")).unwrap() + "none /cg cgroup2 rw 0 0\n";
    write(folder.path(), "proc/mounts", &mounts);
    write(
        folder.path(),
        "proc/3302/status",
        "Name:\tandroid.gallery\nUid:\t10057\t10057\t10057\t10057\nVmRSS:\t39904 kB\nRssAnon:\t15020 kB\nVmSwap:\t6000 kB\n",
    );
    write(folder.path(), "data/misc/brisk-config/brisk.toml", EVERYTHING);
    write(folder.path(), "dev/cpuset/top-app/cgroup.procs", "");
    write(folder.path(), "cg/front/cgroup.procs", "1702\n");
    write(folder.path(), "cg/back/cgroup.procs", "3302\n");
    stall(folder.path(), 0, 20_000);
    folder
}

fn write(tree: &Path, name: &str, text: &str) {
    let path = tree.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Stall time of foreground tasks, and resident memory of the background group.
fn stall(tree: &Path, waited_ms: u64, resident_kib: u64) {
    let pressure = |us: u64| {
        format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={us}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
    };
    for (group, us, kib) in [("front", waited_ms * 1000, 90_000), ("back", 0, resident_kib)] {
        write(tree, &format!("cg/{group}/memory.pressure"), &pressure(us));
        write(tree, &format!("cg/{group}/memory.current"), &format!("{}\n", kib << 10));
        write(tree, &format!("cg/{group}/memory.high"), "max\n");
    }
    write(tree, "proc/pressure/memory", &pressure(waited_ms * 1000));
}

/// All files of the tree except those that the test itself writes.
fn contents(tree: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let (path, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
            let is_ours = |part: &str| path.strip_prefix(tree).unwrap().starts_with(part);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() && !is_ours("cg") && !is_ours("proc/pressure") && !is_ours("dev/cpuset") {
                found.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn shown(lines: &Receiver<String>, is_meant: impl Fn(&Value) -> bool, what: &str) -> Value {
    let mut all = Vec::new();
    while let Ok(line) = lines.recv_timeout(PATIENCE) {
        let value: Value = serde_json::from_str(&line).unwrap();
        if is_meant(&value) {
            return value;
        }
        all.push(line);
    }
    panic!("{what} is not shown: {all:#?}");
}

// Verifies DAEMON-1.
#[test]
fn a_dry_run_shows_all_that_would_be_done_about_memory() {
    let folder = phone();
    let tree = folder.path();
    let before = contents(tree);
    let mut dry = Command::new(env!("CARGO_BIN_EXE_brisk"))
        .arg("--root")
        .arg(tree)
        .args(["daemon", "--dry-run", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (sender, lines) = channel();
    let stdout = BufReader::new(dry.stdout.take().unwrap());
    std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));

    let lease = |target: &'static str| {
        move |value: &Value| value["action"] == "lease" && value["target"].to_string().contains(target)
    };
    for target in ["zram-size", "zram-swap", "swappiness", "page-cluster"] {
        let value = shown(&lines, lease(target), target);
        assert_eq!(value["mechanism"], "memory", "{value}");
    }
    let act = |action: &'static str| move |value: &Value| value["action"] == action;
    let kill = shown(&lines, act("kill"), "the victim");
    assert_eq!(kill["subject"], "android.gallery (process 3302)");
    let reason = kill["reason"].as_str().unwrap();
    assert!(reason.starts_with("not yet: headroom is ") && reason.contains("class 600"), "{reason}");
    let swap_out = shown(&lines, act("swap out"), "swapping out");
    assert_eq!(swap_out["subject"], "android.gallery (process 3302)");
    let write_back = shown(&lines, act("write back"), "writing back");
    assert!(write_back["reason"].as_str().unwrap().contains("1024 KiB today of 1024"), "{write_back}");
    assert_eq!(shown(&lines, act("restrain"), "restraint")["subject"], "1 groups in the background");

    // Memory runs short, because the background group grows while the foreground stalls; the group is held once.
    for (waited_ms, resident_kib) in [(500, 20_000), (1000, 60_000)] {
        std::thread::sleep(std::time::Duration::from_millis(1100));
        stall(tree, waited_ms, resident_kib);
    }
    let held = shown(&lines, lease("/cg/back/memory.high"), "the limit");
    assert_eq!(held["value"], ((60_000 + 1024) << 10).to_string());
    write(tree, "dev/cpuset/top-app/cgroup.procs", "3302\n");
    let fetched = shown(&lines, act("fetch back"), "fetching back");
    assert!(fetched["reason"].as_str().unwrap().contains("6000 KiB on swap"), "{fetched}");

    kill_process(Pid::from_child(&dry), Signal::TERM).unwrap();
    assert!(end_of(&mut dry, PATIENCE).success());
    assert_eq!(contents(tree), before, "nothing is written");
    assert_eq!(fs::read_to_string(tree.join("cg/back/memory.high")).unwrap(), "max\n");
}
