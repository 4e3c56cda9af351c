//! Whole recordings: generated ones, damaged ones, and the real ones in `tests/bootchart/`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;

use super::*;
use crate::generate::{self, Shape};
use crate::model::{Format, Kind, Process};
use crate::{diagnose, html, json, perfetto, svg};

fn small() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    generate::android(&Shape::SMALL, folder.path()).unwrap();
    folder
}

fn archive(folder: &Path) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    tar.append_dir_all("bootchart", folder).unwrap();
    tar.into_inner().unwrap().finish().unwrap()
}

fn find<'a>(boot: &'a Boot, name: &str) -> &'a Process {
    boot.processes.iter().find(|process| process.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// The invariants of every boot.
fn check(boot: &Boot) {
    for (index, process) in boot.processes.iter().enumerate() {
        assert!(process.parent.is_none_or(|parent| parent < index), "a parent comes first");
        assert!(process.span.start_ms <= process.span.end_ms);
        let mut last_ms = 0;
        for activity in &process.activity {
            assert!(
                last_ms <= activity.span.start_ms && activity.span.start_ms < activity.span.end_ms.max(1),
                "{process:?}"
            );
            last_ms = activity.span.end_ms;
        }
    }
    for sample in &boot.cpu {
        assert!(sample.span.start_ms < sample.span.end_ms);
        assert!((0.0..=1.001).contains(&(sample.busy() + sample.io_wait)), "{sample:?}");
    }
    for core in &boot.cores {
        assert!(core.busy.is_empty() || core.busy.len() == boot.cpu.len());
        assert_eq!(core.busy.len(), core.io_wait.len());
    }
    for sample in boot.disks.iter().flat_map(|disk| &disk.samples) {
        assert!((0.0..=1.0).contains(&sample.busy));
    }
}

// Verifies CHART-1.
#[test]
fn a_generated_boot_reads_as_it_was_meant() {
    let boot = read(small().path()).unwrap();
    check(&boot);
    assert_eq!((boot.format, boot.cpu_count(), boot.omissions.len()), (Format::Android, 4, 0), "{:?}", boot.omissions);
    assert_eq!((boot.span.start_ms, boot.span.end_ms), (2000, 31_800));
    assert_eq!(boot.cpu.len(), 149);
    let (zygote, server) = (find(&boot, "zygote64"), find(&boot, "system_server"));
    assert_eq!(boot.processes[server.parent.unwrap()].name, "zygote64");
    assert_eq!(boot.processes[zygote.parent.unwrap()].name, "/init");
    assert!((7000..9000).contains(&zygote.cpu_ms), "a quarter of 30 s on one CPU: {}", zygote.cpu_ms);
    assert_eq!(find(&boot, "kswapd0").kind, Kind::KernelThread);
    assert_eq!(
        boot.cores[0].frequency,
        [
            (2000, 600_000),
            (5000, 1_200_000),
            (12_600, 1_800_000),
            (20_000, 600_000),
            (23_600, 1_800_000),
            (29_600, 600_000)
        ]
    );
    assert_eq!(boot.disks.iter().map(|disk| disk.name.as_str()).collect::<Vec<_>>(), ["mmcblk0"]);
    assert!((150..=160).contains(&boot.processes.len()), "{}", boot.processes.len());
}

// Verifies CHART-1.
#[test]
fn an_archive_reads_as_its_folder() {
    let folder = small();
    let bytes = archive(folder.path());
    let expected = read(folder.path()).unwrap();
    assert_eq!(read_bytes(&bytes, &Limits::default()).unwrap(), expected);
    // Android's scripts leave an empty archive among the logs.
    fs::write(folder.path().join("bootchart.tgz"), b"").unwrap();
    assert_eq!(read(folder.path()).unwrap(), expected);
}

// Verifies CHART-1.
#[test]
fn missing_data_is_reported() {
    for (missing, said) in [
        ("header", "header: is not there"),
        ("proc_stat.log", "proc_stat.log: is not there"),
        ("proc_ps.log", "proc_ps.log: is not there or empty"),
        ("proc_diskstats.log", "proc_diskstats.log: is not there"),
    ] {
        let folder = small();
        fs::remove_file(folder.path().join(missing)).unwrap();
        let boot = read(folder.path()).unwrap();
        check(&boot);
        let omissions: Vec<_> = boot.omissions.iter().map(ToString::to_string).collect();
        assert!(omissions.len() == 1 && omissions[0].starts_with(said), "{omissions:?}");
        if missing != "header" {
            fs::write(folder.path().join(missing), b"").unwrap();
            assert_eq!(read(folder.path()).unwrap().omissions.len(), 1, "{missing} empty");
        }
    }
}

// Verifies CHART-1.
#[test]
fn what_is_no_recording_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let mut bomb = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    let mut header = tar::Header::new_gnu();
    header.set_size(16 << 20);
    bomb.append_data(&mut header, "proc_ps.log", std::io::repeat(b'7').take(16 << 20)).unwrap();
    let bomb = bomb.into_inner().unwrap().finish().unwrap();
    let cut = {
        let folder = small();
        let bytes = archive(folder.path());
        bytes[..bytes.len() / 2].to_vec()
    };
    for (path, said) in [
        (file("empty.tgz", b""), "is no bootchart recording: the file is empty"),
        (file("photo.tgz", b"\x89PNG"), "is neither a tar archive nor a gzipped one"),
        (file("cut.tgz", &cut), "cannot read"),
        (file("bomb.tgz", &bomb), "unpacks to more than 8 MiB"),
        (folder.path().join("nowhere.tgz"), "No such file"),
        (folder.path().to_owned(), "it holds none of a recording's files"),
    ] {
        let limits = Limits { bytes: 8 << 20, ..Limits::default() };
        let error = read_within(&path, &limits).unwrap_err().to_string();
        assert!(error.contains(said), "{}: {error}", path.display());
    }
    fs::write(folder.path().join("proc_ps.log"), b"no time\n").unwrap();
    assert!(read(folder.path()).unwrap_err().to_string().contains("no sample that can be read"));
}

// Verifies CHART-1.
#[test]
fn more_than_the_limits_is_refused() {
    let folder = small();
    for (limits, said) in [
        (Limits { processes: 10, ..Limits::default() }, "proc_ps.log holds more than 10 processes"),
        (Limits { samples: 10, ..Limits::default() }, "holds more than 10 samples"),
        (Limits { activities: 10, ..Limits::default() }, "changes of what processes do"),
        (Limits { core_samples: 10, ..Limits::default() }, "holds more than 10 "),
    ] {
        let error = read_within(folder.path(), &limits).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// The real recordings; `tests/bootchart/README.md` says where they come from.
// Verifies CHART-1.
#[test]
fn real_recordings_read_whole() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bootchart");
    for (name, cpus, disk, process, parent) in
        [("ubuntu-8.10.tgz", 2, "sda", "Xorg", "gdm"), ("fedora-3-pacct.tgz", 1, "hda", "X", "gdm-binary")]
    {
        let boot = read(&folder.join(name)).unwrap();
        check(&boot);
        assert_eq!(boot.omissions, [], "{name}");
        assert_eq!((boot.format, boot.cpu_count()), (Format::Bootchart, cpus), "{name}");
        assert!(
            boot.disks.iter().any(|found| found.name == disk),
            "{name}: {:?}",
            boot.disks.iter().map(|d| &d.name).collect::<Vec<_>>()
        );
        assert_eq!(boot.processes[find(&boot, process).parent.unwrap()].name, parent, "{name}");
    }
}

/// Fedora's clock was set by three seconds while it booted, and khelper started hotplug.
// Verifies CHART-1.
#[test]
fn accounting_adds_each_process_that_no_sample_saw_once() {
    let boot = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bootchart/fedora-3-pacct.tgz")).unwrap();
    let long_lived = |process: &&Process| process.name == "bootchartd" && process.span.length_ms() > 20_000;
    assert_eq!(boot.processes.iter().filter(long_lived).count(), 4, "as many as were sampled");
    assert!(boot.processes.len() > 1500, "most lived between two samples: {}", boot.processes.len());
    assert_eq!(find(&boot, "hotplug").kind, Kind::Process);
    assert_eq!(find(&boot, "kblockd/0").kind, Kind::KernelThread);
}

/// A recording of bootchart2, as its collector writes it.
// Verifies CHART-1.
#[test]
fn bootchart2_adds_command_lines_forks_and_initcalls() {
    let limits = Limits::default();
    let mut recording = Recording::new(&limits);
    for (name, text) in [
        ("header", "version = 0.14.0\nsystem.cpu.num = 3\n"),
        ("proc_stat.log", "100\ncpu 0 0 0 9\n\n200\ncpu 5 0 0 14\n"),
        (
            "taskstats.log",
            "100\n1 0 init 10 0 0\n\n200\n1 0 init 20000000 0 0\n40 1 sleep 7 0 0\n50 45 app 90000000 0 0\n",
        ),
        ("cmdline2.log", "50\n:/usr/bin/app\n:app\0--fast\0\n\n"),
        ("paternity.log", "45 1\n40 45\n50 45\n"),
        (
            "dmesg",
            "[    0.500000] initcall slow_init+0x0/0x1 returned 0 after 300000 usecs\n[    0.510000] initcall quick+0x0/0x1 returned 0 after 3 usecs\n",
        ),
    ] {
        assert!(recording.take(name, &mut text.as_bytes()).unwrap());
    }
    let boot = recording.finish(Path::new("x")).unwrap();
    check(&boot);
    assert_eq!((boot.format, boot.cpu_count()), (Format::Bootchart2, 3));
    let app = find(&boot, "app");
    assert_eq!(app.command.as_deref(), Some("app --fast"));
    assert_eq!(boot.processes[app.parent.unwrap()].name, "init", "45 was never sampled");
    assert_eq!(boot.processes[find(&boot, "sleep").parent.unwrap()].name, "init");
    let slow = find(&boot, "slow_init");
    assert_eq!((slow.kind, slow.span.start_ms, boot.span.start_ms), (Kind::Initcall, 200, 200));
    assert!(boot.processes.iter().all(|process| process.name != "quick"), "too short to be seen");
}

/// From the log to each output format.
// Verifies CHART-2.
#[test]
fn logs_of_zero_and_of_4000_cpus_are_read_judged_and_drawn() {
    for cpus in [0, 4096] {
        let mut log = String::new();
        for at in [100, 200, 300] {
            // Only the first CPU is busy.
            let busy = at - 100;
            let idle = 100 + (cpus.max(1) - 1) * at;
            log += &format!("{at}\ncpu {busy} 0 0 {idle} 0 0 0\n");
            for cpu in 0..cpus {
                let busy = if cpu == 0 { busy } else { 0 };
                log += &format!("cpu{cpu} {busy} 0 0 {} 0 0 0\n", at - busy);
            }
            log += "\n";
        }
        let limits = Limits::default();
        let mut recording = Recording::new(&limits);
        let processes = "100\n1 (init) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n\n300\n1 (init) R 0 0 0 0 0 0 0 0 0 0 90 0 0 0 0 0 0 0 0\n";
        for (name, text) in [("proc_stat.log", log.as_str()), ("proc_ps.log", processes)] {
            assert!(recording.take(name, &mut text.as_bytes()).unwrap());
        }
        let boot = recording.finish(Path::new("x")).unwrap();
        check(&boot);
        assert_eq!(boot.cores.len(), cpus);
        let diagnosis = diagnose::diagnose(&boot);
        assert!(!diagnosis.phases.is_empty(), "one of {cpus} works");
        assert!(svg::render(&boot).ends_with("</svg>\n") && !html::render(&boot).is_empty());
        assert!(json::render(&boot).len() < 4 << 20 && !perfetto::render(&boot).is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// A damaged log is read or refused, and a boot that is read is consistent.
    // Verifies CHART-1.
    #[test]
    fn damaged_logs_are_read_or_refused(
        file in prop::sample::select(vec!["proc_stat.log", "proc_ps.log", "proc_diskstats.log", "header", "cpufreq.log"]),
        cuts in prop::collection::vec((0.0..1.0f64, 0usize..200, prop::collection::vec(any::<u8>(), 0..12)), 1..12),
    ) {
        let folder = tempfile::tempdir().unwrap();
        generate::android(&Shape { seconds: 3, processes: 60, ..Shape::SMALL }, folder.path()).unwrap();
        let path = folder.path().join(file);
        let mut bytes = fs::read(&path).unwrap();
        for (place, length, new) in cuts {
            let at = (place * bytes.len() as f64) as usize;
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, new);
        }
        fs::File::create(&path).unwrap().write_all(&bytes).unwrap();
        if let Ok(boot) = read(folder.path()) {
            check(&boot);
        }
    }
}

/// The clock is set while a boot is recorded, or is read wrong once.
// Verifies CHART-1.
#[test]
fn a_log_whose_clock_goes_backwards_is_drawn_with_an_omission() {
    type Clock = fn(u64) -> u64;
    let set_back: Clock = |hundredths| if hundredths < 2000 { hundredths } else { hundredths - 1510 };
    let wrong_once: Clock = |hundredths| if hundredths == 2000 { 7 } else { hundredths };
    for (clock, end_ms, samples, left_out) in [(set_back, 19_800, 89, 60), (wrong_once, 31_800, 148, 1)] {
        let folder = small();
        let logs = ["proc_stat.log", "proc_ps.log", "proc_diskstats.log", "cpufreq.log"];
        let mut said = Vec::new();
        for log in logs {
            let path = folder.path().join(log);
            let text = fs::read_to_string(&path).unwrap();
            let shown = |line: &str| line.parse().map_or_else(|_| line.to_owned(), |time| clock(time).to_string());
            fs::write(&path, text.lines().map(|line| shown(line) + "\n").collect::<String>()).unwrap();
            let line = 1 + text.lines().position(|line| line == "2000").unwrap();
            let times = if left_out == 1 { String::new() } else { format!(" ({left_out} times)") };
            said.push(format!("{log}:{line}: the clock goes backwards: the block is left out{times}"));
        }
        let boot = read(folder.path()).unwrap();
        check(&boot);
        let mut omissions: Vec<String> = boot.omissions.iter().map(ToString::to_string).collect();
        omissions.sort();
        said.sort();
        assert_eq!(omissions, said);
        assert_eq!((boot.span.start_ms, boot.span.end_ms, boot.cpu.len()), (2000, end_ms, samples));
        assert!(!diagnose::diagnose(&boot).phases.is_empty());
        let (picture, page) = (svg::render(&boot), html::render(&boot));
        assert!(picture.contains("the clock goes backwards") && page.contains("the clock goes backwards"));
    }
}

// Verifies BOOT-1.
#[test]
fn data_the_recorder_dropped_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    generate::android(&Shape { seconds: 2, ..Shape::SMALL }, folder.path()).unwrap();
    let header = "version = 0.8 (brisk 0.1.0)\nbrisk.dropped_samples = 12\nbrisk.passed_over = 0\n";
    fs::write(folder.path().join("header"), header).unwrap();
    let boot = read(folder.path()).unwrap();
    assert_eq!(boot.format, Format::Brisk);
    let omissions: Vec<String> = boot.omissions.iter().map(ToString::to_string).collect();
    assert_eq!(omissions, ["header: samples did not fit into the recorder's memory (12 times)"]);
}
