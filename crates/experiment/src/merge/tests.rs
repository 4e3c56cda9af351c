use std::fs;
use std::path::PathBuf;

use super::*;
use crate::plan::Measured;
use crate::schedule::blocks;
use crate::spec::Experiment;
use crate::store::Store;
use brisk_report::proof::DeviceDescription;

const VERSION: &str = "1";

/// Two arms, two points and four blocks: block 0 has replicates 0 to 3.
const TEXT: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "deterministic"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 4, full = 4 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
[[claim]]
id = "x.y"
promise = "LAUNCH-4"
text = ""
measure = "gain"
arm = "ours"
"#;

fn header(shard: &str) -> Header {
    Header {
        brisk: VERSION.into(),
        program: "p".into(),
        experiment: TEXT.into(),
        quick: true,
        seed: 5,
        started: format!("2026-11-26T09:00:0{}Z", &shard[..1]),
        devices: "x: 6.1".into(),
        shard: Some(shard.parse().unwrap()),
    }
}

/// The line of a replicate of the schedule, with a figure that no decimal fraction of few digits has.
fn line(id: u32) -> Line {
    line_of(id, 5)
}

fn line_of(id: u32, seed: u64) -> Line {
    let entry = Experiment::parse("x", TEXT).unwrap();
    let run = Run { experiment: &entry, quick: true, seed, shard: None };
    let planned = blocks(&run.design())[id as usize];
    Line::Measured(Measured {
        replicate: id,
        arm: entry.arms[planned.arm].name.clone(),
        point: entry.points(true)[planned.point].to_string(),
        metrics: BTreeMap::from([("launch_ms".to_owned(), f64::from(id + 7).sqrt() / 3.0)]),
        ..Measured::default()
    })
}

fn text(lines: &[Line]) -> Vec<u8> {
    lines.iter().flat_map(|line| serde_json::to_vec(line).unwrap().into_iter().chain([b'\n'])).collect()
}

fn record(folder: &str, header: &Header, lines: &[Line]) -> Record {
    Record { folder: folder.into(), header: serde_json::to_vec(header).unwrap(), lines: text(lines) }
}

/// The two halves: blocks 0 and 2, then 1 and 3.
fn halves() -> [Record; 2] {
    let half = |shard: &str, first: u32| {
        let ids = [first..first + 4, first + 8..first + 12].into_iter().flatten();
        record(shard, &header(shard), &ids.map(line).collect::<Vec<_>>())
    };
    [half("1/2", 0), half("2/2", 4)]
}

fn result(joined: &Joined) -> String {
    serde_json::to_string(&joined.run().result_of_devices(&joined.findings(), "c".into())).unwrap()
}

/// The replicates of a real run in the lab, dealt to shards and joined: figures, intervals and verdicts are the run's own.
// Verifies PROVE-5.
#[cfg(feature = "lab")]
#[test]
fn recorded_replicates_give_the_same_bits_in_any_division() {
    let header: Header =
        serde_json::from_str(include_str!("../../../../tests/fixtures/placement-units-full/run.json")).unwrap();
    let recorded = include_str!("../../../../tests/fixtures/placement-units-full/replicates.jsonl");
    let (lines, _) = crate::store::parse(recorded);
    let experiment = Experiment::parse("recorded", &header.experiment).unwrap();
    let run = Run { experiment: &experiment, quick: header.quick, seed: header.seed, shard: None };
    let all = blocks(&run.design());
    assert_eq!(all.len(), 72);
    let mut whole = Findings::default();
    lines.iter().cloned().for_each(|line| whole.add(line));
    let expected = serde_json::to_string(&run.result(&whole, "c".into())).unwrap();
    assert!(expected.contains("\"verdict\":\"shown\""), "{expected}");
    let divisions = [
        &["1/1"][..],
        &["1/2", "2/2"],
        &["2/3", "3/3", "1/3"],
        &["1/2", "2/4", "4/4"],
        &["1/6", "2/6", "3/6", "4/6", "5/6", "6/6"],
        &["1/9", "2/9", "3/9", "4/9", "5/9", "6/9", "7/9", "8/9", "9/9"],
    ];
    let mut texts = BTreeSet::new();
    for division in divisions {
        let part = |name: &&str| {
            let shard: Shard = name.parse().unwrap();
            let is_mine = |line: &&Line| match line {
                Line::Measured(measured) => shard.holds(all[measured.replicate as usize].block),
                _ => true,
            };
            let mine: Vec<Line> = lines.iter().filter(is_mine).cloned().collect();
            record(name, &Header { shard: Some(shard), ..header.clone() }, &mine)
        };
        let merged = join(division.iter().map(part).collect(), &header.brisk);
        assert_eq!((merged.missing, merged.faults), (vec![], vec![]), "{division:?}");
        let [joined] = &merged.experiments[..] else { panic!("{division:?}") };
        assert_eq!(result(joined), expected, "{division:?}");
        texts.insert(text(&joined.devices[0].lines));
    }
    assert_eq!(texts.len(), 1, "the joined files are the same as well");
}

// Verifies PROVE-5.
#[test]
fn shards_are_joined_in_any_order_of_folders() {
    let [one, two] = halves();
    let reversed = join(vec![two.clone(), one.clone()], VERSION);
    let merged = join(vec![one, two], VERSION);
    assert_eq!((&merged.missing, &merged.faults), (&vec![], &vec![]));
    assert_eq!(result(&merged.experiments[0]), result(&reversed.experiments[0]));
    let joined = &merged.experiments[0];
    assert_eq!((joined.header.shard, joined.header.started.as_str()), (None, "2026-11-26T09:00:01Z"));
    assert_eq!(joined.devices[0].lines, (0..16).map(line).collect::<Vec<_>>());
}

// Verifies PROVE-5.
#[test]
fn the_merge_names_the_shards_of_what_is_missing() {
    let [one, two] = halves();
    let cut = |mut record: Record, bytes: usize| {
        record.lines.truncate(record.lines.len() - bytes);
        record
    };
    let thirds = |ids: &[u32]| record("1/3", &header("1/3"), &ids.iter().map(|&id| line(id)).collect::<Vec<_>>());
    let empty = record("2/2", &Header { devices: String::new(), ..header("2/2") }, &[]);
    for (what, records, replicates, shards) in [
        ("a shard that never began", vec![one.clone()], 8, &["2/2"][..]),
        ("one that only began", vec![one.clone(), empty], 8, &["2/2"]),
        ("a torn line", vec![one.clone(), cut(two.clone(), 9)], 1, &["2/2"]),
        ("only its end is torn", vec![one, cut(two, 1)], 1, &["2/2"]),
        ("another division", vec![thirds(&[0, 1, 2, 3, 12, 13, 14])], 9, &["1/3", "2/3", "3/3"]),
    ] {
        let merged = join(records, VERSION);
        let [missing] = &merged.missing[..] else { panic!("{what}: {merged:?}") };
        let found: Vec<String> = missing.shards.iter().map(ToString::to_string).collect();
        assert_eq!((missing.replicates, missing.of), (replicates, 16), "{what}");
        assert_eq!(
            (found.iter().map(String::as_str).collect::<Vec<_>>(), merged.faults),
            (shards.to_vec(), vec![]),
            "{what}"
        );
    }
}

// Verifies PROVE-5.
#[test]
fn what_does_not_belong_together_is_foreign() {
    let [one, _] = halves();
    let other = |change: fn(&mut Header)| {
        let mut header = header("2/2");
        change(&mut header);
        let lines = [4, 5, 6, 7, 12, 13, 14, 15].map(|id| line_of(id, header.seed));
        record("2/2", &header, &lines)
    };
    for (changed, expected) in [
        (other(|header| header.brisk = "2".into()), "brisk 2 measured it, and this is brisk 1"),
        (other(|header| header.program = "q".into()), "another build of brisk measured it: q, and p in 1/2"),
        (other(|header| header.experiment.push('\n')), "the experiment's file is not that of 1/2"),
        (other(|header| header.seed = 6), "its seed is 6, and 5 in 1/2"),
        (other(|header| header.devices = "x: 6.12".into()), "the scenario, the kernel or something else"),
        (other(|header| header.shard = None), "it was measured neither with --shard nor with --here"),
        (other(|header| header.shard = "1/2".parse().ok()), "replicate 4 belongs to shard 2/2, and the folder is 1/2"),
    ] {
        let merged = join(vec![one.clone(), changed], VERSION);
        let [fault] = &merged.faults[..] else { panic!("{expected}: {:?}", merged.faults) };
        assert!(fault.reason.contains(expected) && fault.folder == Path::new("2/2"), "{expected}: {fault:?}");
        let [missing] = &merged.missing[..] else { panic!("{expected}") };
        assert_eq!(missing.replicates, 8, "what is foreign is not counted");
    }
    // Another form is another experiment, of which half is missing.
    let merged = join(vec![one, other(|header| header.quick = false)], VERSION);
    assert_eq!((merged.missing.len(), merged.faults), (2, vec![]));
}

/// With three shards, the one that differs is foreign, wherever it is.
#[test]
fn the_shard_that_differs_from_most_is_foreign() {
    let third = |number: u32, kernel: &str| {
        let shard = format!("{number}/3");
        let ids = (0..16).filter(|id| id / 4 % 3 == number - 1);
        record(&shard, &Header { devices: kernel.into(), ..header(&shard) }, &ids.map(line).collect::<Vec<_>>())
    };
    for strange in 1..=3 {
        let kernel = |number| if number == strange { "x: 6.12" } else { "x: 6.1" };
        let merged = join((1..=3).map(|number| third(number, kernel(number))).collect(), VERSION);
        let folders: Vec<_> = merged.faults.iter().map(|fault| fault.folder.clone()).collect();
        assert_eq!(folders, [PathBuf::from(format!("{strange}/3"))]);
    }
}

/// In the lab, guests hide the host's processor. Users' devices do not.
#[test]
fn other_kinds_of_users_devices_are_foreign() {
    let native = TEXT.replace("deterministic", "native").replace("scenario = \"x\"\n", "");
    for (text, expected) in [(TEXT, 0), (native.as_str(), 1)] {
        let records = halves().into_iter().zip(["1/2", "2/2"]).map(|(record, shard)| {
            let device = DeviceDescription { processor: shard.into(), ..DeviceDescription::default() };
            let mut lines = self::text(&[Line::Device { device }]);
            lines.extend(record.lines);
            let header = Header { experiment: text.to_owned(), ..header(shard) };
            Record { header: serde_json::to_vec(&header).unwrap(), lines, ..record }
        });
        let merged = join(records.collect(), VERSION);
        assert_eq!(merged.faults.len(), expected, "{:?}", merged.faults);
        assert!(merged.faults.iter().all(|fault| fault.reason.starts_with("another kind of device")));
    }
}

// Verifies PROVE-5.
#[test]
fn each_replicate_counts_once() {
    let [one, two] = halves();
    let again = Record { folder: "copy".into(), ..two.clone() };
    let merged = join(vec![one.clone(), two.clone(), again], VERSION);
    let [fault] = &merged.faults[..] else { panic!("{:?}", merged.faults) };
    assert_eq!((fault.kind, fault.folder.as_path()), (FaultKind::Double, Path::new("copy")));
    assert_eq!(fault.reason, "8 of its replicates, the first is 4, are also in 2/2");

    // A refused replicate is measured again in the same shard: its last line counts.
    let Line::Measured(mut refused) = line(4) else { panic!() };
    refused.rejected = Some("the host was busy".into());
    let lines = [text(&[Line::Measured(refused)]), two.lines.clone()].concat();
    let merged = join(vec![one, Record { lines, ..two }], VERSION);
    assert_eq!((merged.missing, merged.faults), (vec![], vec![]));
    assert_eq!(merged.experiments[0].devices[0].lines, (0..16).map(line).collect::<Vec<_>>());
}

// Verifies PROVE-5.
#[test]
fn damaged_and_forged_records_are_refused_with_their_place() {
    let [one, two] = halves();
    let lines = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut record = two.clone();
        change(&mut record.lines);
        record
    };
    let forged = |id: u32, arm: &str, point: &str| {
        let Line::Measured(measured) = line(4) else { panic!() };
        let forged = Measured { replicate: id, arm: arm.into(), point: point.into(), ..measured };
        lines(&|text| text.extend(self::text(&[Line::Measured(forged.clone())])))
    };
    let huge = Header {
        experiment: TEXT.replace("= 4,", "= 4000000000,").replace("= 4 }", "= 4000000000 }"),
        ..header("2/2")
    };
    let strange = Header { experiment: "name = 1".into(), ..header("2/2") };
    let unnamed = Header { devices: String::new(), ..header("2/2") };
    let with = |header: Vec<u8>| Record { header, ..two.clone() };
    let whole = serde_json::to_vec(&header("2/2")).unwrap();
    for (record, expected) in [
        (with(Vec::new()), "run.json: EOF"),
        (with(whole[..whole.len() / 2].to_vec()), "run.json: EOF"),
        (
            with(String::from_utf8(whole).unwrap().replace("2/2", "9/2").into_bytes()),
            "run.json: \"9/2\" is not a shard",
        ),
        (with(serde_json::to_vec(&huge).unwrap()), "has more than 100000 replicates"),
        (with(serde_json::to_vec(&strange).unwrap()), "run.json:1:"),
        (with(serde_json::to_vec(&unnamed).unwrap()), "run.json does not name the device"),
        (lines(&|text| text.splice(..0, *b"{}\n").for_each(drop)), "line 1: "),
        (lines(&|text| text.extend(b"\xff\xfe\n")), "line 9: "),
        (lines(&|text| text.extend(b"{\"replicate\":1e999,\"arm\":\"ours\",\"point\":\"\"}\n")), "line 9: "),
        (forged(4, "fats", "work 100 ms"), "line 9: the experiment has no \"fats\" at \"work 100 ms\""),
        (forged(99, "ours", "idle"), "line 9: the experiment has no \"ours\" at \"idle\""),
        (forged(0, "ours", "work 100 ms"), "line 9: replicate 0 "),
    ] {
        let merged = join(vec![one.clone(), record], VERSION);
        let [fault] = &merged.faults[..] else { panic!("{expected}: {:?}", merged.faults) };
        assert!(fault.reason.contains(expected) && fault.folder == Path::new("2/2"), "{expected}: {fault:?}");
    }
}

#[test]
fn shards_are_found_once_and_set_aside_ones_are_not() {
    let base = tempfile::tempdir().unwrap();
    let place = |name: &str| base.path().join("results").join(name);
    for (name, shard) in
        [("shard-1-of-2/x-quick", "1/2"), ("shard-2-of-2/x-quick", "2/2"), ("shard-2-of-2/x-quick.aside-1", "2/2")]
    {
        drop(Store::create(&place(name), &header(shard)).unwrap());
    }
    fs::write(place("shard-1-of-2/costs.json"), "{}").unwrap();
    fs::create_dir_all(base.path().join("empty")).unwrap();
    drop(Store::create(&place("samples/x-quick"), &header("1/1")).unwrap());
    let folders = |given: &[&str]| {
        let given: Vec<PathBuf> = given.iter().map(|name| base.path().join(name)).collect();
        records(&given).map(|records| records.len()).map_err(|error| format!("{error:#}"))
    };
    assert_eq!(folders(&["results"]), Ok(2));
    assert_eq!(folders(&["results", "results/shard-1-of-2", "results/../results/shard-1-of-2/x-quick"]), Ok(2));
    assert_eq!(folders(&["results/shard-2-of-2/x-quick.aside-1"]), Ok(1), "named, it is taken");
    assert!(folders(&["results", "empty"]).unwrap_err().contains("empty has no results of `brisk prove --shard`"));
    assert!(folders(&["none"]).unwrap_err().contains("cannot read"));
    // A run that lost one of its files is found, so that it is not taken for one that never began.
    fs::remove_file(place("shard-1-of-2/x-quick/run.json")).unwrap();
    fs::remove_file(place("shard-2-of-2/x-quick/replicates.jsonl")).unwrap();
    let found = records(&[place("")]).unwrap();
    assert_eq!(found.iter().map(|record| record.header.is_empty()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(join(found, VERSION).faults.len(), 1);
}
