//! What is read of trees of files; recordings of a real kernel are in `tests/lab/trace/`.

use brisk_sys::test_trees::root_of;

use super::*;
use crate::sample::{PAGE, SWITCH};

const OPTIONS: fn() -> Options =
    || Options { output: PathBuf::from("/none/trace.dat"), buffer_kib: 64, limit_mib: 1, events: Vec::new() };

#[test]
fn without_tracefs_the_error_tells_how_to_mount_it() {
    for files in [&[][..], &[("sys/kernel/tracing/", "")]] {
        let (_folder, root) = root_of(files);
        let error = Recording::start(&root, &OPTIONS()).unwrap_err().to_string();
        assert!(error.starts_with("there is no tracefs at /sys/kernel/tracing: mount it "), "{error}");
    }
}

/// A tree's file system makes a folder without files, as a kernel without these would.
#[test]
fn an_instance_that_cannot_be_used_is_removed() {
    let (_folder, root) = root_of(&[("sys/kernel/debug/tracing/instances/", "")]);
    let error = Recording::start(&root, &OPTIONS()).unwrap_err().to_string();
    assert!(error.contains("sys/kernel/debug/tracing/instances/brisk-trace-"), "{error}");
    assert!(root.list("/sys/kernel/debug/tracing/instances").unwrap().is_empty());
}

#[test]
fn formats_and_functions_are_collected() {
    let symbols = "ffff0010 T schedule\nffff0020 d data\nffff0030 t wait [m]\n";
    let files = [
        ("i/events/header_page", PAGE),
        ("i/events/header_event", "# entry"),
        ("i/events/sched/sched_switch/format", SWITCH),
        ("i/events/sched/sched_blocked_reason/format", "name: sched_blocked_reason\nID: 7\n"),
        ("i/events/power/cpu_idle/format", "name: cpu_idle\nID: 8\n"),
        ("i/trace_clock", "local global [boot]\n"),
        ("proc/kallsyms", symbols),
    ];
    let (_folder, root) = root_of(&files);
    let events = ["sched/sched_switch", "power/cpu_idle", BLOCKED_REASON].map(str::to_owned);
    let found = parts(&root, "/i", &events).unwrap();
    let subsystems: Vec<_> = found.formats.iter().map(|(name, formats)| (name.as_str(), formats.len())).collect();
    assert_eq!(subsystems, [("sched", 2), ("power", 1)]);
    assert_eq!(String::from_utf8(found.functions).unwrap(), "ffff0010 T schedule\nffff0030 t wait [m]\n");
    assert_eq!((found.page.as_str(), chosen_clock(&found.clock)), ((PAGE.to_owned() + "\n").as_str(), "boot"));
    assert!(parts(&root, "/i", &events[..2]).unwrap().functions.is_empty(), "no event names a function");

    let (_folder, root) = root_of(&[("proc/kallsyms", &symbols.replace("ffff00", "000000").replace("10 T", "00 T"))]);
    let left = String::from_utf8(functions(&root.path("/proc/kallsyms"))).unwrap();
    assert_eq!(left, "00000030 t wait [m]\n", "addresses are hidden from some users");
    assert_eq!(chosen_clock("counter"), "counter");
}

#[test]
fn a_full_disk_is_told_from_a_missing_folder() {
    for (errno, expected) in [
        (Errno::NOSPC, "cannot write a.dat: No space left on device (os error 28); free space there; what"),
        (Errno::ROFS, "cannot write a.dat: Read-only file system (os error 30); name another place by --output"),
    ] {
        let error = RecordError::File { path: PathBuf::from("a.dat"), cause: errno.into() }.to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
