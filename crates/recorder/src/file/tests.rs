//! Files at every stage, through the reader of `brisk trace explain`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use brisk_trace::Trace;
use brisk_trace::model::Kind;
use brisk_trace::read::read;

use super::*;
use crate::sample::{LAYOUT, header, page};

const MIB: u64 = 1 << 20;

fn file(limit_bytes: u64) -> (tempfile::TempDir, PathBuf, TraceFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.dat");
    let file = TraceFile::create(&path, header(3), 3, LAYOUT.page_bytes, limit_bytes).unwrap();
    (folder, path, file)
}

/// CPU, time and next thread of each switch.
fn switches(trace: &Trace) -> Vec<(u16, u64, u32)> {
    let switch = |event: &brisk_trace::model::Event| match event.kind {
        Kind::Switch { next, .. } => Some((event.cpu, event.time_ns, next)),
        _ => None,
    };
    trace.events.iter().filter_map(switch).collect()
}

const UNFINISHED: &str = "the recording did not end properly";

fn is_said_to_be_unfinished(trace: &Trace) -> bool {
    trace.faults.iter().any(|fault| fault.contains(UNFINISHED))
}

// Verifies TRACE-7.
#[test]
fn after_each_write_the_file_has_all_that_was_written() {
    let (_folder, path, mut file) = file(64 * MIB);
    assert!(read(&path).unwrap_err().to_string().contains("no line or packet of it is an event"));
    let mut expected = Vec::new();
    for (cpu, time_ns, next) in [(0, 100, 7), (2, 200, 8), (0, 300, 9)] {
        file.append(cpu, &page(time_ns, 1, next)).unwrap();
        expected.push((cpu, time_ns, next));
        // What is read is what SIGKILL would leave.
        let trace = read(&path).unwrap();
        assert_eq!(switches(&trace), expected);
        assert!(is_said_to_be_unfinished(&trace), "{:?}", trace.faults);
        assert_eq!(trace.name_at(next, time_ns), Some(format!("thread{next}").as_str()));
    }
    let before = fs::metadata(&path).unwrap();
    assert!(before.len() > 128 * MIB && before.blocks() * 512 < MIB, "what is not written takes no space");

    let bytes = file.finish("41 quiet\n7 other\n").unwrap();
    let trace = read(&path).unwrap();
    assert_eq!(switches(&trace), expected);
    assert!(!is_said_to_be_unfinished(&trace), "{:?}", trace.faults);
    assert_eq!((trace.name_at(41, 0), trace.name_at(7, 100)), (Some("quiet"), Some("thread7")));
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    assert!(bytes < MIB, "{bytes}");
}

/// The lines of sched_switch that trace-cmd prints; `None` where it is not installed.
fn by_trace_cmd(path: &Path) -> Option<usize> {
    let output = std::process::Command::new("trace-cmd").arg("report").arg(path).output().ok()?;
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().filter(|line| line.contains("sched_switch:")).count())
}

// Verifies TRACE-6, TRACE-7.
#[test]
fn trace_cmd_reads_it_before_and_after_its_end() {
    let (_folder, path, mut file) = file(4 * MIB);
    for (cpu, time_ns) in [(0, 1000), (2, 2000), (2, 3000)] {
        file.append(cpu, &page(time_ns, 1, 7)).unwrap();
    }
    let Some(before) = by_trace_cmd(&path) else { return eprintln!("skipped: there is no trace-cmd") };
    file.finish("41 quiet\n").unwrap();
    assert_eq!((before, by_trace_cmd(&path)), (3, Some(3)));
}

#[test]
fn full_regions_are_joined_without_a_loss() {
    let pages = 40;
    let limit_bytes = pages * LAYOUT.page_bytes as u64 + 100;
    for first in [0, 1, 20, 39, 40] {
        let (_folder, path, mut file) = file(limit_bytes);
        let mut expected = Vec::new();
        for number in 0..pages as u32 {
            assert!(!file.is_full());
            let cpu = if number < first { 1 } else { 2 };
            file.append(cpu, &page(number.into(), 0, number + 1)).unwrap();
            expected.push((cpu, number.into(), number + 1));
        }
        assert!(file.is_full());
        // What is beyond the limit is left out.
        file.append(0, &page(1000, 0, 1000)).unwrap();
        let before = switches(&read(&path).unwrap());
        file.finish("").unwrap();
        let after = switches(&read(&path).unwrap());
        assert_eq!((&before, &after), (&expected, &expected), "{first}");
    }
}

// Verifies SECURITY-2.
#[test]
fn what_is_there_is_replaced_and_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (path, victim) = (folder.path().join("trace.dat"), folder.path().join("victim"));
    fs::write(&victim, "kept").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    TraceFile::create(&path, header(1), 1, LAYOUT.page_bytes, MIB).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    assert!(path.symlink_metadata().unwrap().is_file());
}
