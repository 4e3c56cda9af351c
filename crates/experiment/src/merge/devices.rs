//! Whole runs of one experiment, each by another device.

use std::collections::BTreeSet;

use super::fault::{Fault, FaultKind};
use super::files::device_name;
use super::record::Part;
use super::{Device, Joined, sorted};
use crate::store::Header;

/// The runs that count, and a fault for each that is a copy of an earlier one, or not whole.
pub fn sound(parts: Vec<Part>) -> (Vec<Part>, Vec<Fault>) {
    let (mut sound, mut faults) = (Vec::new(), Vec::new());
    for part in parts {
        match fault(&part, &sound) {
            Some(fault) => faults.push(fault),
            None => sound.push(part),
        }
    }
    (sound, faults)
}

fn fault(part: &Part, earlier: &[Part]) -> Option<Fault> {
    if let Some(earlier) = earlier.iter().find(|earlier| earlier.has_same_figures(part)) {
        return Some(part.fault(FaultKind::Double, format!("it has the very figures of {}", earlier.folder.display())));
    }
    // A full run may leave out points that were precise early.
    let may_lack = !part.header.quick && part.entry.experiment.replicates.least.is_some();
    let (of, has) = (part.schedule().len(), part.counted().count());
    let reason = || format!("it lacks {} of {of} replicates of a whole run", of - has);
    (has == 0 || has < of && !may_lack).then(|| part.fault(FaultKind::Damaged, reason()))
}

/// The runs as devices, by name; by the whole path where names are equal.
pub fn joined(parts: Vec<Part>) -> Option<Joined> {
    let started = parts.iter().map(|part| part.header.started.clone()).min()?;
    let first = parts.first()?;
    let header = Header { started, ..first.header.clone() };
    let entry = first.entry.clone();
    let names: BTreeSet<String> = parts.iter().map(|part| device_name(&part.folder)).collect();
    let are_unique = names.len() == parts.len();
    let of_part = |part: Part| {
        let name = if are_unique { device_name(&part.folder) } else { part.folder.display().to_string() };
        Device { name, header: part.header.clone(), lines: sorted(part.into_lines()) }
    };
    let mut devices: Vec<Device> = parts.into_iter().map(of_part).collect();
    devices.sort_by(|one, other| one.name.cmp(&other.name));
    Some(Joined { entry, header, devices })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;
    use crate::conduct::{Findings, Run};
    use crate::merge::{Merged, Record, join, records};
    use crate::plan::{Line, Measured};
    use crate::schedule::blocks;
    use crate::spec::Experiment;
    use brisk_report::proof::{ClaimResult, DeviceDescription, ExperimentResult, Verdict};

    const VERSION: &str = "1";
    const BLOCKS: usize = 6;

    fn text() -> String {
        let head = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "native"
workload = { program = "load", work_ms = [100], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 6, full = 6 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
"#;
        let claim = |id: &str, rest: &str| {
            format!("[[claim]]\nid = \"x.{id}\"\npromise = \"LAUNCH-4\"\ntext = \"\"\narm = \"ours\"\n{rest}\n")
        };
        head.to_owned()
            + &claim("gain", "measure = \"gain\"\nrequired = \">= 5\"")
            + &claim("worst", "measure = \"worst\"\nrequired = \"<= 115\"")
            + &claim("level", "measure = \"level\"")
    }

    fn header() -> Header {
        Header {
            brisk: VERSION.into(),
            experiment: text(),
            quick: true,
            seed: 5,
            devices: "here".into(),
            ..Header::default()
        }
    }

    /// A whole run: stock takes 100 ms, ours what is given, block by block; a block that is not a number was refused.
    fn run(folder: &str, header: &Header, ours: &[f64]) -> Record {
        let experiment = Experiment::parse("x", &header.experiment).unwrap();
        let run = Run { experiment: &experiment, quick: header.quick, seed: header.seed, shard: None };
        let line = |planned: &crate::plan::Replicate| {
            let figure = if planned.arm == 0 { 100.0 } else { ours[planned.block as usize] };
            Line::Measured(Measured {
                replicate: planned.id,
                arm: experiment.arms[planned.arm].name.clone(),
                point: experiment.points(true)[planned.point].to_string(),
                metrics: BTreeMap::from([("launch_ms".to_owned(), if figure.is_nan() { 1.0 } else { figure })]),
                rejected: figure.is_nan().then(|| "busy".to_owned()),
                ..Measured::default()
            })
        };
        let device = DeviceDescription { processor: format!("that of {folder}"), ..DeviceDescription::default() };
        let all = blocks(&run.design());
        let lines = std::iter::once(Line::Device { device }).chain(all.iter().map(line));
        let lines = lines.flat_map(|line| serde_json::to_vec(&line).unwrap().into_iter().chain([b'\n']));
        Record { folder: folder.into(), header: serde_json::to_vec(header).unwrap(), lines: lines.collect() }
    }

    fn result(merged: &Merged) -> ExperimentResult {
        assert_eq!((&merged.missing, &merged.faults), (&vec![], &vec![]));
        let [joined] = &merged.experiments[..] else { panic!("{merged:?}") };
        joined.run().result_of_devices(&joined.findings(), String::new())
    }

    fn judged(devices: &[(&str, [f64; BLOCKS])]) -> ExperimentResult {
        let runs = devices.iter().map(|(folder, ours)| run(folder, &header(), ours));
        result(&join(runs.collect(), VERSION))
    }

    fn printed(result: &ExperimentResult) -> String {
        serde_json::to_string(result).unwrap()
    }

    /// The devices, the mean gain, whether it is shown, and what the notes have.
    type Case<'a> = (&'a [(&'a str, [f64; BLOCKS])], f64, Verdict, &'a [&'a str]);

    const BETTER: [f64; BLOCKS] = [80.0, 81.0, 79.0, 80.5, 79.5, 80.0];
    const WORSE: [f64; BLOCKS] = [120.0, 121.0, 119.0, 120.5, 119.5, 120.0];

    // Verifies PROVE-7.
    #[test]
    fn one_device_gives_its_own_result_to_the_last_bit() {
        let alone = run("a", &header(), &BETTER);
        let mut findings = Findings::default();
        let text = String::from_utf8(alone.lines.clone()).unwrap();
        crate::store::parse(&text).0.into_iter().for_each(|line| findings.add(line));
        let experiment = Experiment::parse("x", &header().experiment).unwrap();
        let experiment = experiment.in_quick_form();
        let own = Run { experiment: &experiment, quick: true, seed: 5, shard: None };
        let joined = join(vec![alone], VERSION);
        assert_eq!(printed(&result(&joined)), printed(&own.result(&findings, String::new())));
    }

    /// Each device has the same weight; a device's own figure is in the notes.
    // Verifies PROVE-7.
    #[test]
    fn devices_have_equal_weights_and_their_own_figures() {
        let refused = f64::NAN;
        let few = [70.0, refused, refused, 70.0, refused, 70.0];
        let cases: [Case; 4] = [
            (&[("a", BETTER), ("b", BETTER.map(|it| it + 0.25))], 19.875, Verdict::Shown, &["a 20.00 %", "b 19.75 %"]),
            (
                &[("a", BETTER), ("b", WORSE)],
                0.0,
                Verdict::NotShown,
                &[
                    "a 20.00 % [18",
                    ", shown; b -20.00 % [-21",
                    ", refuted.",
                    "2 devices measured it: a (that of a, 12 runs)",
                ],
            ),
            // Six blocks and three: the mean of 20 and 30, not that of nine blocks.
            (&[("a", BETTER), ("b", few)], 25.0, Verdict::Shown, &["b 30.00 % [30.00, 30.00], shown"]),
            (
                &[("a", BETTER), ("b", [refused; BLOCKS])],
                f64::NAN,
                Verdict::Inconclusive,
                &["a 20.00 %", "b has too few runs"],
            ),
        ];
        for (devices, expected, verdict, notes) in cases {
            let found = judged(devices);
            let gain: &ClaimResult = &found.claims[0];
            let is_close = (gain.measured - expected).abs() < 1e-9 || (gain.measured.is_nan() && expected.is_nan());
            assert!(is_close, "{devices:?}: {}", gain.measured);
            assert_eq!(gain.verdict, verdict, "{devices:?}: {:?}", gain.ci);
            let said = found.notes.join("\n");
            notes.iter().for_each(|note| assert!(said.contains(note), "{note}: {said}"));
        }
    }

    /// The scatter of the devices among each other does not widen the interval: it is about these devices.
    // Verifies PROVE-7.
    #[test]
    fn devices_are_resampled_by_themselves() {
        let found = judged(&[("a", BETTER), ("b", WORSE)]);
        let [low, high] = found.claims[0].ci;
        assert!(low > -1.0 && high < 1.0 && low < 0.0 && high > 0.0, "{low} {high}");
        // The worst figure is that of the worst device, not a mean of 81 and 121.
        assert_eq!((found.claims[1].measured, found.claims[1].verdict), (121.0, Verdict::NotShown));
        assert_eq!(found.arms.iter().find(|series| series.name == "ours").unwrap().samples.len(), 2 * BLOCKS);
    }

    // Verifies PROVE-7.
    #[test]
    fn runs_that_are_no_devices_of_one_experiment_are_refused() {
        let one = || run("a", &header(), &BETTER);
        let other = |change: fn(&mut Header)| {
            let mut header = header();
            change(&mut header);
            run("b", &header, &WORSE)
        };
        let cut = |lines: usize| {
            let whole = run("b", &header(), &WORSE);
            let kept = whole.lines.split_inclusive(|&byte| byte == b'\n').take(lines).flatten().copied().collect();
            Record { lines: kept, ..whole }
        };
        for (second, kind, reason) in [
            (other(|header| header.brisk = "2".into()), FaultKind::Foreign, "brisk 2 measured it"),
            (
                other(|header| header.experiment.push('\n')),
                FaultKind::Foreign,
                "the experiment's file is not that of a",
            ),
            (other(|header| header.seed = 6), FaultKind::Foreign, "its seed is 6, and 5 in a"),
            (
                other(|header| header.shard = "1/1".parse().ok()),
                FaultKind::Foreign,
                "it is a shard, and a whole run in a",
            ),
            (run("b", &header(), &BETTER), FaultKind::Double, "it has the very figures of a"),
            (cut(9), FaultKind::Damaged, "it lacks 4 of 12 replicates of a whole run"),
            (cut(0), FaultKind::Damaged, "it lacks 12 of 12 replicates"),
        ] {
            let merged = join(vec![one(), second], VERSION);
            let [fault] = &merged.faults[..] else { panic!("{reason}: {:?}", merged.faults) };
            assert_eq!((fault.kind, fault.folder.as_path()), (kind, Path::new("b")), "{fault:?}");
            assert!(fault.reason.contains(reason), "{reason}: {fault:?}");
        }
        // Another program and another kernel are what devices differ in.
        let other = other(|header| (header.program, header.devices) = ("aarch64".into(), "6.12".into()));
        assert_eq!(join(vec![one(), other], VERSION).faults, []);
    }

    #[test]
    fn a_device_has_the_name_of_the_folder_of_its_results() {
        for (folder, name) in [
            ("/results/ssh-root@board-1/samples/x-quick", "ssh-root@board-1"),
            ("/results/board/x-quick", "x-quick"),
            ("/samples/x-quick", "/samples/x-quick"),
        ] {
            assert_eq!(device_name(Path::new(folder)), name);
        }
        // Equal names: the paths tell the devices apart.
        let runs = [("/1/board/samples/x-quick", BETTER), ("/2/board/samples/x-quick", WORSE)];
        let merged = join(runs.iter().map(|(folder, ours)| run(folder, &header(), ours)).collect(), VERSION);
        let names: Vec<_> = merged.experiments[0].devices.iter().map(|device| device.name.clone()).collect();
        assert_eq!(names, ["/1/board/samples/x-quick", "/2/board/samples/x-quick"]);
    }

    /// Results as `--on` fetches them are found; what a merge writes is found and judged alike.
    // Verifies PROVE-7.
    #[test]
    fn results_of_devices_are_found_and_written() {
        let base = tempfile::tempdir().unwrap();
        let write = |folder: &Path, record: &Record| {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("run.json"), &record.header).unwrap();
            std::fs::write(folder.join("replicates.jsonl"), &record.lines).unwrap();
        };
        for (name, ours) in [("a", BETTER), ("b", WORSE)] {
            write(&base.path().join("in").join(name).join("samples/x-quick"), &run(name, &header(), &ours));
        }
        let found = |folder: PathBuf| join(records(&[folder]).unwrap(), VERSION);
        let first = found(base.path().join("in"));
        first.experiments[0].write(&base.path().join("out"), "x-quick").unwrap();
        let again = found(base.path().join("out"));
        assert_eq!(printed(&result(&first)), printed(&result(&again)));
        assert_eq!(found(base.path().join("in/a")).experiments[0].devices.len(), 1);
        // Beside a shard, whole runs stay out, as before.
        write(&base.path().join("in/shard-1-of-1/x-quick"), &run("s", &header(), &BETTER));
        assert_eq!(records(&[base.path().join("in")]).unwrap().len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]

        /// The order of folders changes nothing, and the mean lies between the devices.
        // Verifies PROVE-7.
        #[test]
        fn a_mean_lies_between_its_devices(devices in prop::collection::vec(prop::array::uniform6(50.0f64..150.0), 2..4)) {
            let names = ["a", "b", "c"];
            let runs: Vec<Record> = names.iter().zip(&devices).map(|(name, ours)| run(name, &header(), ours)).collect();
            let found = result(&join(runs.clone(), VERSION));
            let reversed: Vec<Record> = runs.iter().rev().cloned().collect();
            prop_assert_eq!(printed(&found), printed(&result(&join(reversed, VERSION))));
            let own: Vec<f64> =
                runs.iter().map(|run| result(&join(vec![run.clone()], VERSION)).claims[0].measured).collect();
            let (least, most) = own.iter().fold((f64::MAX, f64::MIN), |(a, b), &it| (a.min(it), b.max(it)));
            prop_assert!((least - 1e-9..=most + 1e-9).contains(&found.claims[0].measured));
            let mean = own.iter().sum::<f64>() / own.len() as f64;
            prop_assert!((found.claims[0].measured - mean).abs() < 1e-9);
        }
    }
}
