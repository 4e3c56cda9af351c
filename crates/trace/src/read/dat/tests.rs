//! Files of trace-cmd, against what trace-cmd itself reports (tests/fixtures/trace/README.md), cut and forged.

use std::io::{Cursor, Read as _};
use std::path::Path;

use crate::model::{Event, Kind, Trace};
use crate::read::read_bytes;

const VERSION_6: &[u8] = include_bytes!("../../../../../tests/fixtures/trace/rtapp-v6.dat.gz");
const VERSION_7: &[u8] = include_bytes!("../../../../../tests/fixtures/trace/rtapp-v7.dat");
const REPORT: &[u8] = include_bytes!("../../../../../tests/fixtures/trace/rtapp-report.txt.gz");

fn read(bytes: &[u8]) -> Trace {
    read_bytes(Path::new("a"), bytes).unwrap()
}

fn unpacked(gzip: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(gzip).read_to_end(&mut bytes).unwrap();
    bytes
}

/// What text and raw events share: rounded microseconds, the thread, the CPU, and what happened.
fn comparable(trace: &Trace) -> Vec<(u64, u32, u16, Kind)> {
    let switches = trace.events.iter().filter(|event| !matches!(event.kind, Kind::SliceBegin { .. } | Kind::Lost));
    switches.map(|&Event { time_ns, tid, cpu, kind, .. }| ((time_ns + 500) / 1000, tid, cpu, kind)).collect()
}

// Verifies TRACE-1.
#[test]
fn both_versions_have_the_events_that_trace_cmd_reports() {
    let report = read(REPORT);
    assert_eq!(report.counts.switches, 119);
    for (bytes, format) in [(VERSION_6, "trace-cmd v6"), (VERSION_7, "trace-cmd v7")] {
        let trace = read(bytes);
        assert_eq!(trace.format, format);
        assert_eq!(comparable(&trace), comparable(&report), "{format}");
        assert_eq!(trace.name_at(6984, u64::MAX), Some("task_r20_5-60"), "{format}");
    }
}

// Verifies TRACE-3.
#[test]
fn a_cut_file_is_refused_or_read_as_far_as_it_goes() {
    let version_6 = unpacked(VERSION_6);
    let whole = read(&version_6).counts.switches;
    let mut read_in_part = 0;
    for bytes in [&version_6[..], VERSION_7] {
        for length in (0..bytes.len()).step_by(211) {
            if let Ok(trace) = read_bytes(Path::new("a"), &bytes[..length]) {
                assert!(trace.counts.switches <= whole);
                let says_so = trace.faults.iter().any(|fault| fault.contains("damaged"));
                read_in_part += u64::from(says_so);
                assert!(says_so || trace.counts.switches == whole, "{length} {:?}", trace.faults);
            }
        }
    }
    assert!(read_in_part > 10, "{read_in_part}");
}

// Verifies TRACE-3, SECURITY-3.
#[test]
fn forged_bytes_are_refused_or_read() {
    let version_6 = unpacked(VERSION_6);
    for bytes in [&version_6[..], VERSION_7] {
        for at in (0..bytes.len()).step_by(97) {
            let mut forged = bytes.to_vec();
            let end = (at + 8).min(bytes.len());
            forged[at..end].fill(0xff);
            let _ = read_bytes(Path::new("a"), &forged);
        }
    }
}

/// A page of version 6 whose header says that events were lost before it.
#[test]
fn lost_events_are_known_from_the_page() {
    let mut bytes = unpacked(VERSION_6);
    let before = read(&bytes);
    assert!(!before.faults.iter().any(|fault| fault.contains("lost")), "{:?}", before.faults);
    // The last page of the file: its length is after its time, and bit 31 tells of a loss.
    let page = bytes.len() - 4096;
    bytes[page + 11] |= 0x80;
    let after = read(&bytes);
    assert!(after.faults.iter().any(|fault| fault.contains("some events were lost")), "{:?}", after.faults);
    assert_eq!(after.events.iter().filter(|event| event.kind == Kind::Lost).count(), 1);
}

#[test]
fn numbers_are_read_in_both_byte_orders() {
    for (is_big_endian, expected) in [(false, 0x0403_0201), (true, 0x0102_0304)] {
        let mut input = super::Input::new(Cursor::new([1, 2, 3, 4])).unwrap();
        input.is_big_endian = is_big_endian;
        assert_eq!(input.u32().unwrap(), expected);
    }
}
