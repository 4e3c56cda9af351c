//! A boot recorded by its first process on a real kernel, and governors that are restored even after SIGKILL.

use std::io::Write;
use std::time::Duration;

use brisk::chart::diagnose;
use brisk::chart::model::Format;
use brisk::chart::read::{self, Limits};
use brisk::chart::svg;
use brisk::lab::{GuestFile, Job};
use serde_json::Value;

use super::{job, results, run, static_brisk};

/// The guest's output for each step.
struct Report(Vec<(String, String)>);

impl Report {
    /// Runs `steps` of boot.sh; `prepare` changes the job first. `None` where no machine can be emulated.
    fn of(steps: &[&str], prepare: impl FnOnce(&mut Job, Vec<u8>)) -> Option<Self> {
        let binary = static_brisk()?;
        let command = [&["sh", "/boot.sh"], steps].concat();
        let mut job = job(binary, "debian-6.1", &command).with_file("/boot.sh", include_str!("boot.sh"));
        job.scenario.guest.self_check = false;
        job.busybox = true;
        job.timeout = Duration::from_secs(600);
        prepare(&mut job, std::fs::read(binary).unwrap());
        let (outcome, lines) = run(&job);
        let said = results(&lines).into_iter().filter_map(|line| line.split_once(": "));
        let report = Self(said.map(|(name, text)| (name.to_owned(), text.to_owned())).collect());
        assert_eq!(outcome.unwrap().status, 0, "{:#?}\n{lines:#?}", report.0);
        Some(report)
    }

    fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == name).map(|(_, text)| text.as_str()).collect()
    }

    fn one(&self, name: &str) -> &str {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.0);
        all[0]
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.one(name)).unwrap()
    }
}

/// Boots with brisk as the kernel's first process, from a separate file, because the lab's own first process is brisk as well.
fn recorded_as_init(options: &str) -> impl FnOnce(&mut Job, Vec<u8>) {
    let line = format!(" rdinit=/record -- boot record --init=/init {options}");
    move |job, binary| {
        job.scenario.kernel.command_line += &line;
        job.files.push(GuestFile { path: "/record".into(), contents: binary, mode: 0o755 });
    }
}

// Verifies BOOT-1.
#[test]
fn a_boot_recorded_by_its_first_process_is_charted() {
    let options = "--output=/recording.tgz --until=file:/booted --performance";
    let Some(report) = Report::of(&["recorded"], recorded_as_init(options)) else { return };
    assert!(report.one("recorded.recorder").starts_with("@brisk-boot boot record --first-process "));
    assert_eq!(report.one("recorded.own"), "yes", "init's mounts and unmounts do not affect the recorder");
    let archive = decoded(&report.all("recorded.archive").concat());
    let boot = read::read_bytes(&archive, &Limits::default()).unwrap();
    assert_eq!((boot.format, boot.cpu_count()), (Format::Brisk, 1));
    let left_out: Vec<String> = boot.omissions.iter().map(ToString::to_string).collect();
    assert_eq!(left_out, ["proc_diskstats.log: is not there: nothing is known of the disks"], "the guest has none");
    assert_eq!(boot.header_value("brisk.ended"), Some("file:/booted"));
    assert_eq!(boot.header_value("brisk.held"), Some("policy0"));
    assert!(boot.span.start_ms < 3000 && boot.cpu.len() > 50, "from the first process on: {:?}", boot.span);
    let names: Vec<&str> = boot.processes.iter().map(|process| process.label()).collect();
    assert!(names.contains(&"sh") && names.contains(&"kthreadd"), "{names:?}");
    let init = boot.processes.iter().find(|process| process.pid == 1).unwrap();
    assert!(init.cpu_ms > 0 && init.parent.is_none(), "{init:?}");
    let [core] = &boot.cores[..] else { panic!("{:?}", boot.cores) };
    assert_eq!(core.maximum_khz, 1_200_000);
    assert_eq!(core.speed_at(boot.span.end_ms), Some(1.0), "the governor is held");
    assert!(boot.pressures.iter().any(|pressure| pressure.name == "cpu"), "{:?}", boot.pressures);
    let diagnosis = diagnose::diagnose(&boot);
    assert!(diagnosis.phases.iter().any(|phase| phase.limit == diagnose::Limit::EveryCpu), "{diagnosis:?}");
    assert!(svg::render(&boot).contains("frequency, of the highest"));
    let _ =
        writeln!(std::io::stderr(), "recorded as init: {} bytes, {:?}, {:?}", archive.len(), boot.span, boot.header);
}

/// In instructions; a CPU at the highest frequency executes 500 million a second, fewer than any phone's.
// Verifies BOOT-1.
#[test]
fn recording_300_processes_takes_under_one_percent_of_a_cpu() {
    let Some(report) = Report::of(&["cost"], |_, _| ()) else { return };
    let percents = report.all("cost.report").into_iter().map(|text| {
        let report: Value = serde_json::from_str(text).unwrap();
        let [began, ended, cpu] = ["began_ms", "ended_ms", "cpu_ms"].map(|name| report[name].as_f64().unwrap());
        assert!(report["recording"]["samples"].as_u64() >= Some(740), "25 a second: {report}");
        cpu / (ended - began) * 100.0
    });
    let percents: Vec<f64> = percents.collect();
    let mean = percents.iter().sum::<f64>() / percents.len() as f64;
    let _ = writeln!(std::io::stderr(), "recorder: {mean:.3} % of a CPU, of {percents:.2?}");
    assert!(mean < 1.0, "{percents:?}");
    assert!(percents.iter().all(|&percent| percent < 1.5), "once samples keep in step with the clock: {percents:?}");
}

// Verifies BOOT-2.
#[test]
fn governors_and_tunables_are_restored_after_any_death() {
    let Some(report) = Report::of(&["hold", "chosen"], |_, _| ()) else { return };
    let before = "ondemand 30000";
    assert_eq!(report.one("hold.before"), before);
    assert_eq!(report.one("hold.during"), "performance ");
    assert_eq!((report.one("hold.exit"), report.one("hold.completed")), ("0", before));
    assert_eq!(report.one("hold.timeout"), before);
    assert_eq!(report.all("hold.killed"), [before; 5]);
    assert_eq!(report.one("hold.both"), "performance ");
    assert_eq!(report.one("hold.restored"), before);
    assert_eq!(report.one("chosen.kept"), "userspace", "displaced by another writer");
    assert_eq!(report.one("chosen.then"), "ondemand");
}

// Verifies BOOT-1.
#[test]
fn a_killed_recorder_leaves_no_file_and_a_reused_pid_is_new() {
    let Some(report) = Report::of(&["killed", "reused"], |_, _| ()) else { return };
    assert_eq!(report.one("killed.left"), "", "neither a recording nor a part of one");
    assert_eq!(report.one("reused.exit"), "0");
    let archive = decoded(&report.all("reused.archive").concat());
    let boot = read::read_bytes(&archive, &Limits::default()).unwrap();
    let lives: Vec<_> = boot.processes.iter().filter(|process| process.pid == 4000).collect();
    let [first, second] = &lives[..] else { panic!("{lives:?}") };
    assert_eq!((first.label(), second.label()), ("sleep", "sleep"));
    assert!(first.span.length_ms() >= 300 && second.span.length_ms() >= 300, "{lives:?}");
    assert!(first.span.end_ms <= second.span.start_ms, "{lives:?}");
}

// Verifies BOOT-2.
#[test]
fn governors_are_restored_after_recorder_and_guardian_die() {
    let options = "--until=file:/never --output=/recording.tgz --performance";
    let Some(report) = Report::of(&["orphaned"], recorded_as_init(options)) else { return };
    let original = report.one("orphaned.original");
    assert!(!original.is_empty() && original != "performance", "{original:?}");
    assert_eq!(report.one("orphaned.alive"), "2 performance", "while it lives, no other process restores it");
    assert_eq!((report.one("orphaned.both"), report.one("orphaned.again")), ("performance", "performance"));
    for way in ["orphaned.restored", "orphaned.daemon"] {
        assert_eq!(report.one(way), format!("0 {original}"), "{way}");
    }
}

// Verifies BOOT-1.
#[test]
fn init_runs_even_if_the_recorder_fails() {
    // The recorder exits at once because of an invalid option.
    let Some(report) = Report::of(&["bare", "full"], recorded_as_init("--rate=none")) else { return };
    assert!(["1", "2"].contains(&report.one("bare.exit")), "an ordinary error, and no abort");
    assert_eq!(report.one("full.exit"), "0");
    assert_eq!(report.json("full.report")["recording"]["file"], "/free/boot.tgz");
    assert_eq!(report.json("full.report")["ended"], "timeout", "no event reports that this boot has completed");
    let left: Vec<_> = report.one("full.left").split_whitespace().collect();
    assert_eq!(left, ["/free/boot.tgz", "/full/taken"], "no draft is left on a full disk");
    let lost = report.one("full.lost");
    assert!(lost.starts_with("2 ") && lost.contains("/full/boot.tgz: ") && lost.contains("--output"), "{lost}");
}

/// Two boots whose kernels unpack the same files; in one of them brisk is the first process and records. The amount that the
/// kernel unpacks shifts later events against its clock.
// Verifies BOOT-1.
#[test]
fn a_recorder_does_not_delay_init() {
    const PADDING_BYTES: [usize; 3] = [0, 4096, 300_000];
    let began_ms = |recorded: bool, padding_bytes: usize| {
        let prepare = |job: &mut Job, binary: Vec<u8>| {
            // A clock that follows the load would measure its governor rather than the delay.
            job.scenario.modules.clear();
            let stock = job.scenario.kernel.command_line.clone();
            recorded_as_init("--output=/recording.tgz --until=file:/booted")(job, binary);
            if !recorded {
                job.scenario.kernel.command_line = stock;
            }
            job.files.push(GuestFile { path: "/padding".into(), contents: vec![0; padding_bytes], mode: 0o644 });
        };
        let report = Report::of(&["began"], prepare)?;
        assert_eq!(report.one("began.recorder"), if recorded { "1" } else { "0" });
        Some(report.one("began.ms").parse::<i64>().unwrap())
    };
    let pairs = PADDING_BYTES.map(|padding| began_ms(true, padding).zip(began_ms(false, padding)));
    let Some(pairs) = pairs.into_iter().collect::<Option<Vec<_>>>() else { return };
    let _ = writeln!(std::io::stderr(), "init with a recorder and without, in ms: {pairs:?}");
    for (recorded_ms, stock_ms) in &pairs {
        assert!((0..=60).contains(&(recorded_ms - stock_ms)), "with a recorder and without, in ms: {pairs:?}");
    }
}

// Verifies BOOT-1.
#[test]
#[ignore = "thousands of processes take a minute: ./dev test --deep"]
fn a_fork_storm_is_bounded_and_said() {
    let Some(report) = Report::of(&["storm"], |_, _| ()) else { return };
    assert_eq!(report.one("storm.exit"), "0");
    let recording = &report.json("storm.report")["recording"];
    assert!(recording["memory_bytes"].as_u64().unwrap() <= 64 * 1024, "{recording}");
    assert!(recording["dropped"].as_u64().unwrap() > 0, "{recording}");
}

pub fn decoded(base64: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = base64.bytes().filter(|byte| *byte != b'=').map(digit).collect();
    let group = |group: &[u8]| {
        let bits = (0..4).fold(0u32, |bits, index| bits << 6 | u32::from(group.get(index).copied().unwrap_or(0)));
        bits.to_be_bytes()[1..group.len()].to_vec()
    };
    digits.chunks(4).flat_map(group).collect()
}
