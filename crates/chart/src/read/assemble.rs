//! Assembles the files of a recording: parents, command lines, processes that are in no sample, initcalls.

use std::collections::{BTreeMap, HashMap};

use super::Recording;
use super::parsers::cpu_frequencies::Frequencies;
use super::parsers::kernel_log::Initcall;
use super::parsers::process_accounting::AccountingRecord;
use super::parsers::process_log::{ProcessLifetime, ProcessLog};
use crate::model::{Activity, Boot, Core, Format, Kind, Omission, Process, Span, State};

/// The parent of kernel threads (since Linux 2.6.23).
const KTHREADD: &str = "kthreadd";

/// Shorter initcalls are left out, because a chart of seconds cannot show them.
const MIN_INITCALL_US: u64 = 1000;

/// Makes one boot of what was read.
pub fn assemble(mut recording: Recording<'_>) -> Boot {
    note_missing(&mut recording);
    note_lost(&mut recording);
    let Recording {
        header,
        cpu,
        processes,
        tasks,
        disks,
        commands,
        parents,
        ended,
        initcalls,
        frequencies,
        pressures,
        omissions,
        ..
    } = recording;
    let has_tasks = tasks.as_ref().is_some_and(|log| !log.lives.is_empty());
    let log = if has_tasks { tasks } else { processes }.unwrap_or_default();
    let cpu = cpu.unwrap_or_default();
    let header = header.unwrap_or_default();
    let mut boot = Boot {
        format: format(&header, has_tasks),
        header,
        span: span(&log, &cpu.samples.iter().map(|sample| sample.span).collect::<Vec<_>>()),
        cpu: cpu.samples,
        cores: cpu.cores,
        disks: disks.unwrap_or_default(),
        pressures,
        processes: Vec::new(),
        omissions,
    };
    add_frequencies(&mut boot.cores, frequencies);
    let mut lives: Vec<ProcessLifetime> = log.lives;
    let sampled_ms = log.times_ms.first().zip(log.times_ms.last()).map(|(first, last)| Span::new(*first, *last));
    let parents = &merged(parents, &ended);
    if let Some(boot_time_s) = cpu.boot_time_s {
        add_unsampled(&mut lives, ended, boot_time_s, sampled_ms.unwrap_or(boot.span));
    }
    lives.sort_by_key(|life| (life.start_ms, life.pid));
    let parent_of = find_parents(&lives, parents);
    boot.processes = lives.into_iter().zip(parent_of).map(|(life, parent)| process(life, parent, &commands)).collect();
    mark_kernel_threads(&mut boot.processes);
    add_initcalls(&mut boot, initcalls);
    boot
}

fn add_frequencies(cores: &mut Vec<Core>, frequencies: BTreeMap<u32, Frequencies>) {
    for (number, known) in frequencies {
        let core = match cores.iter().position(|core| core.number == number) {
            Some(index) => &mut cores[index],
            None => {
                cores.push(Core { number, ..Core::default() });
                cores.last_mut().expect("it was pushed")
            }
        };
        (core.frequency, core.maximum_khz) = (known.changes, known.maximum_khz);
    }
    cores.sort_by_key(|core| core.number);
}

/// Adds the kernel's initcalls as processes; the boot begins with the first.
fn add_initcalls(boot: &mut Boot, initcalls: Vec<Initcall>) {
    let Some(first_call_ms) = initcalls.iter().map(|call| call.span.start_ms).min() else { return };
    let (useful, late): (Vec<_>, Vec<_>) = initcalls.into_iter().partition(|c| c.span.end_ms <= boot.span.end_ms);
    if !late.is_empty() {
        let what = "initcalls after the end of the recording are left out";
        let count = late.len() as u64;
        boot.omissions.push(Omission { file: "dmesg".to_owned(), what, count, line: 0 });
    }
    if !useful.is_empty() {
        boot.span.start_ms = boot.span.start_ms.min(first_call_ms);
    }
    let calls = useful.into_iter().filter(|call| call.took_us >= MIN_INITCALL_US);
    boot.processes.extend(calls.map(|call| Process {
        pid: 0,
        parent: None,
        name: call.name,
        command: None,
        kind: Kind::Initcall,
        span: call.span,
        threads: 0,
        cpu_ms: 0,
        disk_wait_ms: 0,
        activity: vec![Activity { span: call.span, cpu_permille: 0, state: State::Running }],
    }));
}

fn note_missing(recording: &mut Recording<'_>) {
    let mut missing = |file: &str, what| {
        recording.omissions.push(Omission { file: file.to_owned(), what, count: 1, line: 0 });
    };
    if recording.header.is_none() {
        missing("header", "is not there: the chart does not know the system");
    }
    match &recording.cpu {
        None => missing("proc_stat.log", "is not there: nothing is known of the CPUs"),
        Some(log) if log.samples.is_empty() => missing("proc_stat.log", "holds no two samples of the CPUs"),
        Some(_) => {}
    }
    match &recording.disks {
        None => missing("proc_diskstats.log", "is not there: nothing is known of the disks"),
        Some(disks) if disks.is_empty() => missing("proc_diskstats.log", "holds no disk that did anything"),
        Some(_) => {}
    }
    let is_empty = |log: &Option<ProcessLog>| log.as_ref().is_none_or(|log| log.lives.is_empty());
    if is_empty(&recording.processes) && is_empty(&recording.tasks) {
        missing("proc_ps.log", "is not there or empty: nothing is known of the processes");
    }
}

/// Notes what the recorder reports as lost.
fn note_lost(recording: &mut Recording<'_>) {
    for (key, what) in [
        ("brisk.dropped_samples", "samples did not fit into the recorder's memory"),
        ("brisk.passed_over", "processes began so fast that they were recorded late or not at all"),
    ] {
        let value = recording.header.iter().flatten().find(|(name, _)| name == key);
        let count = value.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
        if count > 0 {
            recording.omissions.push(Omission { file: "header".to_owned(), what, count, line: 0 });
        }
    }
}

fn format(header: &[(String, String)], has_tasks: bool) -> Format {
    let version = header.iter().find(|(key, _)| key == "version").map_or("", |(_, value)| value);
    match version {
        version if version.contains("brisk") => Format::Brisk,
        version if version.contains("Android") => Format::Android,
        _ if has_tasks => Format::Bootchart2,
        _ => Format::Bootchart,
    }
}

/// The sampled time; empty for a single sample.
fn span(log: &ProcessLog, cpu: &[Span]) -> Span {
    let starts = log.times_ms.first().copied().into_iter().chain(cpu.first().map(|span| span.start_ms));
    let ends = log.times_ms.last().copied().into_iter().chain(cpu.last().map(|span| span.end_ms));
    Span::new(starts.min().unwrap_or(0), ends.max().unwrap_or(0))
}

/// Recorded forks, completed with the parents from process accounting.
fn merged(mut parents: HashMap<u32, u32>, ended: &[AccountingRecord]) -> HashMap<u32, u32> {
    for process in ended {
        parents.entry(process.pid).or_insert(process.parent_pid);
    }
    parents
}

/// Adds processes that lived between two samples. Their start is known to a second only.
fn add_unsampled(lives: &mut Vec<ProcessLifetime>, ended: Vec<AccountingRecord>, boot_time_s: u64, sampled: Span) {
    const SECOND_MS: u32 = 1000;
    let mut starts: HashMap<u32, Vec<u32>> = HashMap::new();
    for life in lives.iter() {
        starts.entry(life.pid).or_default().push(life.start_ms);
    }
    let offset_ms = clock_offset_ms(lives, &ended, boot_time_s);
    for process in ended {
        let start_ms = since_boot_ms(&process, boot_time_s) - offset_ms;
        let start_ms = u32::try_from(start_ms.max(0)).unwrap_or(u32::MAX);
        let is_known = |starts: &Vec<u32>| starts.iter().any(|known| known.abs_diff(start_ms) <= 2 * SECOND_MS);
        let is_inside = (sampled.start_ms..sampled.end_ms).contains(&start_ms);
        if !is_inside || starts.get(&process.pid).is_some_and(is_known) {
            continue;
        }
        let span = Span::new(start_ms, start_ms.saturating_add(process.elapsed_ms).min(sampled.end_ms));
        let permille = u64::from(process.cpu_ms) * 1000 / u64::from(span.length_ms().max(1));
        let cpu_permille = u16::try_from(permille).unwrap_or(u16::MAX);
        lives.push(ProcessLifetime {
            pid: process.pid,
            parent_pid: process.parent_pid,
            name: process.name,
            start_ms: span.start_ms,
            end_ms: span.end_ms,
            cpu_us: u64::from(process.cpu_ms) * 1000,
            threads: 0,
            activity: if span.length_ms() > 0 {
                vec![Activity { span, cpu_permille, state: State::Sleeping }]
            } else {
                Vec::new()
            },
        });
    }
}

/// By the wall clock, which is set during a boot.
fn since_boot_ms(process: &AccountingRecord, boot_time_s: u64) -> i64 {
    let seconds = i64::try_from(process.start_s).unwrap_or(0) - i64::try_from(boot_time_s).unwrap_or(0);
    seconds.saturating_mul(1000)
}

/// How far the accounting's clock is ahead of the samples': the median over the processes that are in both.
fn clock_offset_ms(lives: &[ProcessLifetime], ended: &[AccountingRecord], boot_time_s: u64) -> i64 {
    let sampled: HashMap<(u32, &str), u32> =
        lives.iter().map(|life| ((life.pid, life.name.as_str()), life.start_ms)).collect();
    let offset = |process: &AccountingRecord| {
        let start_ms = sampled.get(&(process.pid, process.name.as_str()))?;
        Some(since_boot_ms(process, boot_time_s) - i64::from(*start_ms))
    };
    let mut offsets: Vec<i64> = ended.iter().filter_map(offset).collect();
    offsets.sort_unstable();
    offsets.get(offsets.len() / 2).copied().unwrap_or(0)
}

/// For each life the index of its parent: the last life of the parent's PID that began before it.
fn find_parents(lives: &[ProcessLifetime], recorded: &HashMap<u32, u32>) -> Vec<Option<usize>> {
    let mut by_pid: HashMap<u32, Vec<usize>> = HashMap::new();
    for (index, life) in lives.iter().enumerate() {
        by_pid.entry(life.pid).or_default().push(index);
    }
    let before = |pid: u32, child: usize| {
        let candidates = by_pid.get(&pid)?;
        // Lives are sorted by start, so a lower index began earlier, and no cycle is possible.
        candidates.iter().rev().copied().find(|&index| index < child)
    };
    let ancestor = |child: usize| {
        let life = &lives[child];
        // If init adopted a process before its first sample, the record of forks has the original parent.
        let adopted = life.parent_pid <= 1;
        let mut pid =
            if adopted { recorded.get(&life.pid).copied().unwrap_or(life.parent_pid) } else { life.parent_pid };
        for _ in 0..64 {
            if pid == 0 {
                return None;
            }
            match before(pid, child) {
                Some(index) => return Some(index),
                // No sample has this ancestor: continue with its parent.
                None => pid = recorded.get(&pid).copied().filter(|next| *next != pid)?,
            }
        }
        None
    };
    let by_init = by_pid.get(&1).and_then(|lives| lives.first().copied());
    (0..lives.len())
        .map(|child| {
            let orphan = || by_init.filter(|&init| init < child && lives[child].parent_pid > 2);
            ancestor(child).or_else(orphan)
        })
        .collect()
}

fn process(life: ProcessLifetime, parent: Option<usize>, commands: &HashMap<u32, String>) -> Process {
    let waits = life.activity.iter().filter(|activity| activity.state == State::DiskWait);
    Process {
        pid: life.pid,
        parent,
        command: commands.get(&life.pid).filter(|command| !command.is_empty()).cloned(),
        kind: Kind::Process,
        span: Span::new(life.start_ms, life.end_ms),
        threads: life.threads,
        cpu_ms: super::lines::saturate(life.cpu_us / 1000),
        disk_wait_ms: waits.map(|activity| activity.span.length_ms()).sum(),
        activity: life.activity,
        name: life.name,
    }
}

/// Marks descendants of kthreadd; before Linux 2.6.23, of the first threads that init started.
fn mark_kernel_threads(processes: &mut [Process]) {
    for index in 0..processes.len() {
        let by_parent = processes[index].parent.is_some_and(|parent| {
            let parent = &processes[parent];
            // These start programs of user space on behalf of the kernel: hotplug, modprobe.
            let starts_programs = parent.name.starts_with("khelper") || parent.name.starts_with("kworker");
            parent.kind == Kind::KernelThread && !starts_programs
        });
        let process = &mut processes[index];
        let is_root = process.pid == 2 && process.name == KTHREADD;
        let is_old_root = process.pid <= 16
            && ["ksoftirqd/", "events/", "khelper", "kthread", "kblockd/", "migration/", "watchdog/", "kacpid"]
                .iter()
                .any(|name| process.name.starts_with(name));
        if by_parent || is_root || is_old_root {
            process.kind = Kind::KernelThread;
        }
    }
}
