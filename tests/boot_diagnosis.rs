//! What `brisk boot diagnose` and `compare` conclude from generated boot logs.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::patience::{LONG_PATIENCE, OutputWithin};

/// An interval of a boot with constant load. Shares are percent.
#[derive(Clone, Copy)]
struct Stretch<'a> {
    ms: u32,
    /// Busy time of each CPU.
    busy: &'a [u32],
    /// The kernel's share of it.
    system: u32,
    /// iowait of each CPU: it is idle while a task waits for a disk.
    wait: u32,
    /// Busy time of the disk.
    disk: u32,
    /// CPU time of each process, in percent of one CPU, in the order of [`Log::processes`].
    work: &'a [u32],
}

const IDLE: Stretch<'_> = Stretch { ms: 0, busy: &[], system: 20, wait: 0, disk: 0, work: &[] };

/// A recording of bootchart with a sample each 200 ms, from one second after the kernel's start.
struct Log<'a> {
    cpus: usize,
    /// Name, parent and threads; the PIDs are 10, 11 and so on.
    processes: &'a [(&'a str, u32, u32)],
    stretches: &'a [Stretch<'a>],
}

const STEP_MS: u32 = 10;
const SAMPLE_MS: u32 = 200;

impl Log<'_> {
    fn write(&self, folder: &Path) {
        let mut cpus = vec![[0u64; 4]; self.cpus];
        let (mut disk_ms, mut work) = (0u64, vec![0u64; self.processes.len()]);
        let [mut stat, mut ps, mut disks] = [const { String::new() }; 3];
        let mut now_ms = 1000;
        let mut sample = |now_ms: u32, cpus: &[[u64; 4]], disk_ms: u64, work: &[u64]| {
            let time = now_ms / 10;
            // Times are counted in microseconds; ticks are ten milliseconds.
            let line = |name: String, of: &dyn Fn(usize) -> u64| {
                let [user, system, idle, wait] = [of(0), of(1), of(2), of(3)].map(|us| us / 10_000);
                format!("{name} {user} 0 {system} {idle} {wait} 0 0 0\n")
            };
            writeln!(stat, "{time}").unwrap();
            stat += &line("cpu ".to_owned(), &|place| cpus.iter().map(|cpu| cpu[place]).sum());
            for (number, cpu) in cpus.iter().enumerate() {
                stat += &line(format!("cpu{number}"), &|place| cpu[place]);
            }
            stat += "\n";
            let busy_ms = disk_ms / 1000;
            writeln!(disks, "{time}\n 8 0 sda 9 0 {} 5 0 0 0 0 0 {busy_ms} {busy_ms}\n", busy_ms * 80).unwrap();
            writeln!(ps, "{time}\n1 (init) S 0 0 0 0 0 0 0 0 0 0 3 0 0 0 20 0 1 0 1").unwrap();
            writeln!(ps, "2 (kthreadd) S 0 0 0 0 0 0 0 0 0 0 0 0 0 0 20 0 1 0 1").unwrap();
            for ((pid, (name, parent, threads)), us) in (10..).zip(self.processes).zip(work) {
                let ticks = us / 10_000;
                writeln!(ps, "{pid} ({name}) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 50").unwrap();
            }
            ps += "\n";
        };
        sample(now_ms, &cpus, disk_ms, &work);
        for stretch in self.stretches {
            for _ in 0..stretch.ms / STEP_MS {
                let us = |percent: u32| u64::from(percent * STEP_MS * 10);
                for (place, cpu) in cpus.iter_mut().enumerate() {
                    let busy = us(stretch.busy.get(place).copied().unwrap_or(0));
                    let system = busy * u64::from(stretch.system) / 100;
                    let wait = us(stretch.wait);
                    let add = [busy - system, system, us(100) - busy - wait, wait];
                    cpu.iter_mut().zip(add).for_each(|(sum, add)| *sum += add);
                }
                disk_ms += us(stretch.disk);
                work.iter_mut().zip(stretch.work).for_each(|(sum, percent)| *sum += us(*percent));
                now_ms += STEP_MS;
                if now_ms % SAMPLE_MS == 0 {
                    sample(now_ms, &cpus, disk_ms, &work);
                }
            }
        }
        let header = "version = 0.8\ntitle = Boot chart of a story\n";
        for (name, text) in
            [("header", header), ("proc_stat.log", &stat), ("proc_ps.log", &ps), ("proc_diskstats.log", &disks)]
        {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    fn diagnosis(&self) -> Value {
        let folder = tempfile::tempdir().unwrap();
        self.write(folder.path());
        let output = brisk(&["boot", "diagnose", "--json", folder.path().to_str().unwrap()]);
        serde_json::from_str(&output.0).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }
}

/// Standard output and standard error.
fn brisk(arguments: &[&str]) -> (String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_brisk")).args(arguments).output_within(LONG_PATIENCE);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout), text(output.stderr))
}

/// The limit of each phase, without a trailing idle one.
fn limits(diagnosis: &Value) -> Vec<&str> {
    let phases = diagnosis["phases"].as_array().unwrap().iter();
    phases.map(|phase| phase["limit"].as_str().unwrap()).filter(|limit| *limit != "idle").collect()
}

/// The opportunity and the advice of the finding with the largest gain.
fn first(diagnosis: &Value) -> (&str, &str) {
    let finding = &diagnosis["findings"][0];
    (finding["opportunity"].as_str().unwrap_or("none"), finding["advice"].as_str().unwrap_or(""))
}

// Verifies CHART-3.
#[test]
fn a_saturated_disk_is_not_one_cpu() {
    let stretch = Stretch { ms: 6000, busy: &[17, 25, 20, 22], wait: 70, disk: 98, work: &[30, 30], ..IDLE };
    let log = Log { cpus: 4, processes: &[("ureadahead", 1, 1), ("mount", 1, 1)], stretches: &[stretch] };
    let diagnosis = log.diagnosis();
    assert_eq!(limits(&diagnosis), ["disk"], "{diagnosis:#}");
    assert_eq!(diagnosis["findings"].as_array().unwrap().len(), 1, "{diagnosis:#}");
    let gain_ms = diagnosis["findings"][0]["gain_at_most_ms"].as_u64().unwrap();
    assert!((4100..=4300).contains(&gain_ms), "the busiest process's CPU time remains: {gain_ms}");
}

// Verifies CHART-3.
#[test]
fn four_threads_with_a_quarter_cpu_each_are_not_one_busy_cpu() {
    let stretch = Stretch { ms: 6000, busy: &[25, 25, 25, 25], work: &[98], ..IDLE };
    let log = |threads| {
        Log { cpus: 4, processes: &[("server", 1, 4), ("server", 1, 1)][threads..=threads], stretches: &[stretch] }
            .diagnosis()
    };
    let of_four_threads = log(0);
    assert_eq!(limits(&of_four_threads), ["partly-busy"], "{of_four_threads:#}");
    let (opportunity, advice) = first(&of_four_threads);
    assert_eq!(opportunity, "waiting", "{advice}");
    assert!(advice.contains("server (98 % of the CPU time)") && !advice.contains("works on one CPU"), "{advice}");
    // A process of one thread migrates from CPU to CPU.
    assert_eq!(limits(&log(1)), ["one-cpu"]);
}

// Verifies CHART-3.
#[test]
fn a_process_is_the_cause_only_with_most_of_the_cpu_time() {
    let log = |work: &[u32]| {
        let stretch = Stretch { ms: 3000, busy: &[100, 0, 0, 0], work, ..IDLE };
        Log {
            cpus: 4,
            processes: &[("vold", 1, 1), ("netd", 1, 1), ("logd", 1, 1), ("sh", 1, 1)],
            stretches: &[stretch],
        }
        .diagnosis()
    };
    let shared = log(&[17, 30, 28, 25]);
    let (opportunity, advice) = first(&shared);
    assert_eq!((limits(&shared), opportunity), (vec!["one-cpu"], "parallel"));
    assert!(advice.contains("no process has most of the work") && advice.contains("netd 30 %"), "{advice}");
    let of_one = log(&[90, 5, 5, 0]);
    let (_, advice) = first(&of_one);
    assert!(advice.starts_with("vold (90 % of the CPU time) works on one CPU while 3 are idle"), "{advice}");
    assert_eq!(of_one["findings"][0]["who"][0]["share"], 0.9, "{of_one:#}");
}

// Verifies CHART-3.
#[test]
fn the_end_of_the_work_is_found_within_a_sample() {
    // Idle from 4.74 s on, in the middle of a sample.
    let busy = Stretch { ms: 3740, busy: &[100], work: &[95], ..IDLE };
    let idle = Stretch { ms: 5260, ..IDLE };
    let processes = &[("init.rc", 1, 1)];
    let done_ms =
        |cpus, stretches: &[Stretch<'_>]| Log { cpus, processes, stretches }.diagnosis()["done_ms"].as_u64().unwrap();
    for cpus in [1, 2, 4] {
        assert!(done_ms(cpus, &[busy, idle]).abs_diff(4740) <= 20, "{cpus}: {}", done_ms(cpus, &[busy, idle]));
    }
    // Half a CPU's load is work.
    let half = Stretch { ms: 20_000, busy: &[55], work: &[50], ..IDLE };
    assert_eq!(done_ms(1, &[busy, Stretch { ms: 60, ..IDLE }, half]), 24_800);
    // So is a short burst after a pause.
    let burst = Stretch { ms: 400, ..busy };
    let story = [busy, Stretch { ms: 2060, ..IDLE }, burst, idle];
    assert!(done_ms(2, &story).abs_diff(7200) <= 20, "{}", done_ms(2, &story));
    // A wake-up of 60 ms is not.
    let blip = Stretch { ms: 60, ..busy };
    assert!(done_ms(2, &[busy, Stretch { ms: 2060, ..IDLE }, blip, idle]).abs_diff(4740) <= 20);
}

// Verifies CHART-3.
#[test]
fn compare_reports_the_end_of_the_work() {
    let folder = tempfile::tempdir().unwrap();
    for (name, ms) in [("a", 3740), ("b", 4340)] {
        let stretches = [Stretch { ms, busy: &[100], work: &[95], ..IDLE }, Stretch { ms: 6000 - ms, ..IDLE }];
        fs::create_dir(folder.path().join(name)).unwrap();
        Log { cpus: 2, processes: &[("init.rc", 1, 1)], stretches: &stretches }.write(&folder.path().join(name));
    }
    let [a, b] = ["a", "b"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let (json, _) = brisk(&["boot", "compare", "--json", &a, &b]);
    assert!(!json.contains("-0.0"), "{json}");
    let report: Value = serde_json::from_str(&json).unwrap();
    let done = report["measures"].as_array().unwrap().iter().find(|line| line["measure"] == "done").unwrap();
    assert!((done["difference"].as_f64().unwrap() - 600.0).abs() <= 30.0, "{done:#}");
    assert!(!brisk(&["boot", "compare", "--json", &b, &a]).0.contains("-0.0"));
}

// Verifies CHART-3.
#[test]
fn cpus_that_stay_idle_are_reported_as_idle() {
    let stretch = Stretch { ms: 6000, busy: &[98, 98, 0, 0], work: &[98, 98], ..IDLE };
    let log = Log { cpus: 4, processes: &[("dex2oat", 1, 1), ("zygote", 1, 1)], stretches: &[stretch] };
    let diagnosis = log.diagnosis();
    assert_eq!(limits(&diagnosis), ["several-cpus"], "{diagnosis:#}");
    let (opportunity, advice) = first(&diagnosis);
    assert_eq!(opportunity, "parallel");
    assert!(advice.contains("2 of 4 CPUs while 2 are idle"), "{advice}");
    let gain_ms = diagnosis["findings"][0]["gain_at_most_ms"].as_u64().unwrap();
    assert!((2900..=3200).contains(&gain_ms), "half of the phase: {gain_ms}");
}

// Verifies CHART-3.
#[test]
fn a_boot_with_all_cpus_busy_names_the_largest_consumer() {
    let stretch = Stretch { ms: 6000, busy: &[99, 99], work: &[80, 50, 40], ..IDLE };
    let log = Log { cpus: 2, processes: &[("dex2oat", 1, 2), ("zygote", 1, 1), ("sh", 1, 1)], stretches: &[stretch] };
    let diagnosis = log.diagnosis();
    let (opportunity, advice) = first(&diagnosis);
    assert_eq!((limits(&diagnosis), opportunity), (vec!["every-cpu"], "work"), "{diagnosis:#}");
    assert!(advice.contains("dex2oat 40 %"), "{advice}");
    let gain_ms = diagnosis["findings"][0]["gain_at_most_ms"].as_u64().unwrap();
    assert!((2300..=2500).contains(&gain_ms), "dex2oat's share: {gain_ms}");
}

// Verifies CHART-3.
#[test]
fn cpu_time_outside_all_processes_is_reported() {
    let processes = &[("modprobe", 1, 1), ("kworker/0:1", 2, 1)];
    let log = |system, work: &[u32]| {
        let stretch = Stretch { ms: 6000, busy: &[100], system, work, ..IDLE };
        Log { cpus: 1, processes, stretches: &[stretch] }.diagnosis()
    };
    let kernel = log(80, &[41, 0]);
    let (opportunity, advice) = first(&kernel);
    assert_eq!(opportunity, "kernel", "{kernel:#}");
    assert!(advice.contains("59 % in no process"), "{advice}");
    assert_eq!(kernel["phases"][0]["in_no_process"], 0.59, "{kernel:#}");
    let threads = log(90, &[20, 75]);
    let (opportunity, advice) = first(&threads);
    assert_eq!(opportunity, "kernel", "{threads:#}");
    assert!(advice.contains("kworker/0:1 75 %"), "{advice}");
    // User time cannot be the kernel's: its processes exited before a sample.
    let short_lived = log(10, &[41, 0]);
    let (opportunity, advice) = first(&short_lived);
    assert_eq!(opportunity, "work", "{short_lived:#}");
    assert!(advice.contains("59 % of the CPU time is in no process that was sampled"), "{advice}");
}

// Verifies CHART-1.
#[test]
fn a_broken_archive_is_named_without_its_escape_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let logs = folder.path().join("logs");
    fs::create_dir(&logs).unwrap();
    let stretches = [Stretch { ms: 3000, busy: &[100], work: &[95], ..IDLE }];
    Log { cpus: 1, processes: &[("a", 1, 1)], stretches: &stretches }.write(&logs);
    let mut tar = tar::Builder::new(Vec::new());
    tar.append_dir_all("boot", &logs).unwrap();
    let whole = tar.into_inner().unwrap();
    // A header whose size field is an escape sequence, with a valid checksum.
    let mut escape = whole.clone();
    escape[124..136].copy_from_slice(b"\x1b[31m\x1b]0;xy\x07");
    escape[148..156].fill(b' ');
    let sum: u32 = escape[..512].iter().copied().map(u32::from).sum();
    escape[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let set = folder.path().join("set");
    fs::create_dir(&set).unwrap();
    fs::write(set.join("1.tar"), &whole).unwrap();
    for (name, bytes, reason) in [
        ("2.tar", &escape[..], "numeric field was not a number: \\u{1b}[31m\\u{1b}]0;xy\\u{7}"),
        ("3.tar", &whole[..whole.len() / 2], "unexpected EOF during skip"),
        ("4\u{1b}[5m.tar", &whole[..700], "\\u{1b}[5m.tar"),
    ] {
        fs::write(set.join(name), bytes).unwrap();
        for arguments in [
            vec!["boot", "compare", set.to_str().unwrap(), &path("logs")],
            vec!["boot", "diagnose", set.join(name).to_str().unwrap()],
        ] {
            let (_, said) = brisk(&arguments);
            assert!(said.contains(reason), "{arguments:?}: {said:?}");
            assert!(said.contains(&name[..1]), "the archive is named: {said:?}");
            assert!(!said.contains('\u{1b}') && !said.contains('\u{7}'), "{said:?}");
        }
        fs::remove_file(set.join(name)).unwrap();
    }
    // Damage inside a compressed file: the error names the archive and the file.
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &whole).unwrap();
    let packed = gzip.finish().unwrap();
    fs::write(set.join("5.tgz"), &packed[..packed.len() * 2 / 3]).unwrap();
    let (_, said) = brisk(&["boot", "compare", set.to_str().unwrap(), &path("logs")]);
    assert!(said.contains("5.tgz: proc_") && said.contains("stream"), "{said}");
}

// Verifies CHART-1.
#[test]
fn a_name_in_a_log_cannot_change_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let stretches = [Stretch { ms: 3000, busy: &[100], work: &[95], ..IDLE }];
    Log { cpus: 2, processes: &[("evil\u{1b}[31m\u{9b}2J", 1, 1)], stretches: &stretches }.write(folder.path());
    fs::write(folder.path().join("header"), "version = 0.8\ntitle = \u{1b}]0;pwned\u{7}\n").unwrap();
    for arguments in [&["boot", "diagnose"][..], &["boot", "diagnose", "--json"]] {
        let (said, _) = brisk(&[arguments, &[folder.path().to_str().unwrap()]].concat());
        assert!(said.contains("evil") && said.contains("pwned"), "{said}");
        assert!(!said.chars().any(|letter| letter.is_control() && letter != '\n'), "{said:?}");
    }
}

// Verifies CHART-1.
#[test]
fn diagnose_and_compare_round_mebibytes_alike() {
    let folder = tempfile::tempdir().unwrap();
    // 80 sectors per millisecond: 7500 ms are 292.97 MiB.
    let stretches =
        [Stretch { ms: 7500, busy: &[20], wait: 70, disk: 100, work: &[15], ..IDLE }, Stretch { ms: 500, ..IDLE }];
    Log { cpus: 1, processes: &[("a", 1, 1)], stretches: &stretches }.write(folder.path());
    let path = folder.path().to_str().unwrap();
    assert!(brisk(&["boot", "diagnose", path]).0.contains("293 MiB read"));
    assert!(brisk(&["boot", "compare", path, path]).0.contains("293 MiB"));
}
