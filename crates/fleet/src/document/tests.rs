use super::*;
use crate::evidence::{Claim, Part, Phase};

const NOW_S: i64 = 1_795_700_000;
const PROOF: &str = include_str!("../../../../tests/fixtures/proof.json");
const RECORDING: &[u8] = include_bytes!("../../../../tests/bootchart/ubuntu-8.10.tgz");
const EXPLANATION: &str = r#"{
  "schema": 1,
  "trace": {"format": "text"},
  "launches": [{"name": "mail", "found": "exec", "pid": 7, "from_ns": 1000000, "to_ns": 5500000}],
  "windows": [
    {"thread": "mail", "tid": 7, "from_ns": 1000000, "to_ns": 5500000, "path": [], "parts": [
      {"cause": "full-speed", "subject": "mail", "on_behalf": null, "ns": 3000000, "times": 4},
      {"cause": "storage", "subject": null, "on_behalf": {"wait": "lock", "of": "io"}, "ns": 1500000, "times": 1}
    ]},
    {"thread": "late", "tid": 9, "from_ns": 7, "to_ns": 7, "path": [], "parts": []}
  ]
}"#;

fn given() -> Given {
    Given { device: Some(7), model: "board-a".to_owned(), build: "b2".to_owned(), day: Some(20_700) }
}

fn facts(bytes: &[u8]) -> Vec<Fact<'static>> {
    let rows = parse(bytes, 5, &given(), NOW_S).unwrap().rows.into_iter();
    rows.enumerate().inspect(|(at, row)| assert_eq!(row.row, *at as u64)).map(|(_, row)| row.fact).collect()
}

// Verifies FLEET-3.
#[test]
fn a_proof_has_a_row_for_each_claim() {
    let read = parse(PROOF.as_bytes(), 5, &given(), NOW_S).unwrap();
    let header = &read.header;
    // The proof says when it was made, so the given day does not count.
    assert_eq!((header.device, header.exported_at_s, header.memory_kib, header.cpus), (7, 1_767_225_600, 524_288, 1));
    assert_eq!((&*header.model, &*read.systems[0].build, &*read.systems[0].brisk), ("board-a", "b2", "0.1.0"));
    let facts = facts(PROOF.as_bytes());
    assert_eq!(facts.len(), 14);
    let expected = Claim {
        file: 5,
        experiment: "launch-paper".to_owned(),
        claim: "launch.paper-200".to_owned(),
        arm: Some("paper-100-to-50ms".to_owned()),
        point: "work 200 ms".to_owned(),
        unit: "%".to_owned(),
        required: ">= 0".to_owned(),
        measured: Some(9.5705),
        low: Some(8.3306),
        high: Some(10.7351),
        p: Some(0.0002),
        verdict: "shown",
        timekeeping: "deterministic",
        place: "lab".to_owned(),
        quick: true,
    };
    assert_eq!(facts[0], Fact::Claim(Box::new(expected)));
    let Some(Fact::Claim(last)) = facts.last() else { panic!("{facts:?}") };
    assert_eq!((last.measured, last.low, last.verdict), (None, None, "inconclusive"), "nothing was measured");
}

// Verifies FLEET-3.
#[test]
fn a_recorded_boot_has_a_row_for_each_phase() {
    let read = parse(RECORDING, 5, &given(), NOW_S).unwrap();
    assert_eq!((read.header.exported_at_s, read.header.cpus), (20_700 * DAY_S, 2));
    assert!(read.systems[0].kernel.contains("2.6.27"), "{:?}", read.systems);
    let phases: Vec<Phase> = facts(RECORDING)
        .into_iter()
        .map(|fact| if let Fact::Phase(phase) = fact { *phase } else { panic!("{fact:?}") })
        .collect();
    assert!(phases.len() > 2 && phases.windows(2).all(|pair| pair[0].end_ms == pair[1].start_ms), "{phases:?}");
    assert!(phases.iter().all(|phase| phase.start_ms < phase.end_ms && phase.busy_cpus <= 2.001), "{phases:?}");
}

// Verifies FLEET-3.
#[test]
fn an_explained_trace_has_a_row_for_each_part() {
    let part = |cause: &str, length_ms: f64, pieces: i64| Part {
        file: 5,
        window: 0,
        launch: Some("mail".to_owned()),
        thread: "mail".to_owned(),
        window_ms: 4.5,
        cause: cause.to_owned(),
        subject: None,
        wait: None,
        wait_of: None,
        length_ms,
        pieces,
    };
    let running = Part { subject: Some("mail".to_owned()), ..part("full-speed", 3.0, 4) };
    let waiting = Part { wait: Some("lock".to_owned()), wait_of: Some("io".to_owned()), ..part("storage", 1.5, 1) };
    let expected = [running, waiting].map(|part| Fact::Part(Box::new(part)));
    assert_eq!(facts(EXPLANATION.as_bytes()), expected);
}

// Verifies FLEET-3.
#[test]
fn a_file_that_is_not_good_is_refused_with_its_fault() {
    let cut = |text: &str| text.trim_end().as_bytes()[..text.trim_end().len() - 1].to_vec();
    let without = |change: fn(&mut Given)| {
        let mut given = given();
        change(&mut given);
        given
    };
    for (bytes, given, kind) in [
        (b"letter".to_vec(), given(), "no export"),
        (br#"{"schema":1,"rows":[]}"#.to_vec(), given(), "no export"),
        (PROOF.replace("\"schema\":1,", "\"schema\":9,").into_bytes(), given(), "other format"),
        (EXPLANATION.replace("\"schema\": 1,", "\"schema\": 9,").into_bytes(), given(), "other format"),
        (cut(PROOF), given(), "half file"),
        (cut(EXPLANATION), given(), "half file"),
        (RECORDING[..RECORDING.len() / 2].to_vec(), given(), "damaged"),
        (PROOF.replace("\"shown\"", "\"known\"").into_bytes(), given(), "damaged"),
        (EXPLANATION.replace("1500000", "1500001").into_bytes(), given(), "damaged"),
        (PROOF.as_bytes().to_vec(), without(|given| given.device = None), "no device"),
        (RECORDING.to_vec(), without(|given| given.day = None), "no date"),
        (RECORDING.to_vec(), without(|given| given.day = Some(10_000)), "clock off"),
        (PROOF.replace("2026-01-01", "2036-01-01").into_bytes(), given(), "clock off"),
    ] {
        let fault = parse(&bytes, 5, &given, NOW_S).unwrap_err();
        assert_eq!(fault.kind(), kind, "{fault}");
    }
    assert!(parse(PROOF.as_bytes(), 5, &without(|given| given.day = None), NOW_S).is_ok(), "it says its day");
}

// Verifies FLEET-3.
#[test]
fn no_beginning_of_a_file_is_good() {
    for (bytes, step) in [(PROOF.trim_end().as_bytes(), 997), (EXPLANATION.as_bytes(), 1), (RECORDING, 9973)] {
        for end in (0..bytes.len()).step_by(step) {
            assert!(parse(&bytes[..end], 5, &given(), NOW_S).is_err(), "{end} of {}", bytes.len());
        }
    }
}

#[test]
fn a_device_is_named_by_its_hash_or_by_a_name() {
    assert_eq!(device("00000000000000d1"), 0xd1);
    assert!(device("D1") != device("d1") && device("d1") != 0xd1, "a short or upper-case word is a name");
}
