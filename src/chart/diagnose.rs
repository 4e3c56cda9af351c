//! What a boot spent its time on, and what could be won: phases by what limited them, then findings by seconds.
//!
//! Each gain is an upper bound, named as such: what would be won if all the work of a phase could be done in parallel
//! (Amdahl), every read were already there, no one had to wait, every CPU ran at its highest frequency.

use std::iter::Peekable;
use std::slice::Iter;

use serde::Serialize;

use super::model::{Boot, CpuSample, Kind, OFFLINE, PressureSample, Span, State};

/// What limited a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// One CPU worked while others were idle.
    OneCpu,
    /// Several CPUs worked, not all.
    SeveralCpus,
    /// Every CPU worked.
    EveryCpu,
    /// A disk was waited for.
    Disk,
    /// Neither CPU nor disk worked: a device, a timer, the network.
    Waiting,
}

impl Limit {
    /// As people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneCpu => "one CPU",
            Self::SeveralCpus => "several CPUs",
            Self::EveryCpu => "every CPU",
            Self::Disk => "disk",
            Self::Waiting => "waiting",
        }
    }

    /// The class of its colour in charts.
    pub fn class(self) -> &'static str {
        match self {
            Self::OneCpu => "one-cpu",
            Self::SeveralCpus => "several-cpus",
            Self::EveryCpu => "every-cpu",
            Self::Disk => "disk-phase",
            Self::Waiting => "waiting",
        }
    }
}

/// A stretch of the boot with one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// What limited it.
    pub limit: Limit,
    /// When.
    pub span: Span,
    /// How many CPUs worked, on average.
    pub busy_cpus: f32,
    /// How many CPUs were idle with a task waiting for a disk, on average.
    pub waiting_cpus: f32,
    /// The share of the time that the busiest disk worked, when known.
    pub disk_busy: Option<f32>,
    /// The frequency of working CPUs as a share of the highest, when known.
    pub speed: Option<f32>,
    /// The share of the time in which every task waited for I/O, when known.
    pub io_stall: Option<f32>,
    /// The same for memory.
    pub memory_stall: Option<f32>,
}

/// What could be won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opportunity {
    /// Do the work of a phase on several CPUs.
    Parallel,
    /// Have the data before it is needed.
    Disk,
    /// Do not wait.
    Waiting,
    /// Run at the highest frequency.
    Frequency,
    /// Do not wait for memory.
    Memory,
}

/// One way to a shorter boot.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which.
    pub opportunity: Opportunity,
    /// The phase's place in [`Diagnosis::phases`].
    pub phase: usize,
    /// When.
    pub span: Span,
    /// At most this much can be won on this device.
    pub gain_ms: u32,
    /// For parallel work: the same with 2, 4 and 8 CPUs.
    pub bounds: Vec<(u32, u32)>,
    /// Who it is about, as an index into the boot's processes and milliseconds of CPU or of waiting.
    pub who: Vec<(usize, u32)>,
    /// What to do.
    pub advice: String,
}

/// All that can be said about one boot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// One after the other, from the first sample to the last.
    pub phases: Vec<Phase>,
    /// The largest gain first.
    pub findings: Vec<Finding>,
    /// When the work ended: what follows is idle.
    pub done_ms: u32,
}

/// A phase shorter than so many samples, within these bounds, and than this share of the boot, belongs to its neighbours:
/// the finer the samples, the shorter a phase can be told.
const LEAST_PHASE_SAMPLES: u32 = 3;
const LEAST_PHASE_MS: std::ops::RangeInclusive<u32> = 250..=600;
const LEAST_PHASE_SHARE: u32 = 50;
/// Samples are judged by the average of those this near, as a single one is often half of something; the kernel counts
/// CPU time in ticks of up to 10 ms, so that a few of them must come together.
const SMOOTHING_MS: std::ops::RangeInclusive<u32> = 80..=200;
/// Below this share of the highest frequency a working CPU counts as slow.
const FULL_SPEED: f32 = 0.97;
/// A smaller gain is not worth a line.
const LEAST_GAIN_MS: u32 = 50;
/// The CPUs that bounds are given for.
const BOUNDS: [u32; 3] = [2, 4, 8];
/// How many processes a finding names.
const NAMED: usize = 3;

/// One sample as the phases see it; shares became numbers of CPUs.
#[derive(Debug, Clone, Copy)]
struct Measure {
    span: Span,
    busy: f32,
    waiting: f32,
    disk: Option<f32>,
    speed: Option<f32>,
    io_stall: Option<f32>,
    memory_stall: Option<f32>,
}

/// Judges `boot`. Without samples of the CPUs there is nothing to say.
pub fn diagnose(boot: &Boot) -> Diagnosis {
    let measures = measures(boot);
    let cpus = boot.cpu_count();
    let sample_ms = typical_sample_ms(&measures);
    let limits = limits(&measures, cpus, sample_ms.clamp(*SMOOTHING_MS.start(), *SMOOTHING_MS.end()));
    let least_ms = (LEAST_PHASE_SAMPLES * sample_ms).clamp(*LEAST_PHASE_MS.start(), *LEAST_PHASE_MS.end());
    let runs = merge(runs(&measures, &limits), least_ms.max(boot.span.length_ms() / LEAST_PHASE_SHARE));
    let phases: Vec<Phase> = runs.into_iter().map(|(limit, range)| phase(limit, &measures[range])).collect();
    let done_ms = match phases.last() {
        Some(last) if last.limit == Limit::Waiting => last.span.start_ms,
        Some(last) => last.span.end_ms,
        None => boot.span.end_ms,
    };
    let mut findings = Vec::new();
    for (index, phase) in phases.iter().enumerate() {
        if phase.span.start_ms < done_ms {
            findings.extend(of_phase(boot, index, phase, cpus));
            findings.extend(of_frequency(boot, index, phase, &measures));
            findings.extend(of_memory(index, phase));
        }
    }
    findings.retain(|finding| finding.gain_ms >= LEAST_GAIN_MS);
    findings.sort_by_key(|finding| (std::cmp::Reverse(finding.gain_ms), finding.span.start_ms));
    Diagnosis { phases, findings, done_ms }
}

fn measures(boot: &Boot) -> Vec<Measure> {
    let cpus = boot.cpu_count() as f32;
    let mut disks: Vec<_> = boot.disks.iter().map(|disk| disk.samples.iter().peekable()).collect();
    let [mut io, mut memory] = ["io", "memory"].map(|name| {
        let pressure = boot.pressures.iter().find(|pressure| pressure.name == name);
        pressure.map_or(&[][..], |pressure| pressure.samples.as_slice()).iter().peekable()
    });
    let measure = |(index, sample): (usize, &CpuSample)| {
        let middle_ms = sample.span.start_ms + sample.span.length_ms() / 2;
        let mut disk = None;
        for samples in &mut disks {
            while samples.next_if(|other| other.span.end_ms <= middle_ms).is_some() {}
            if let Some(other) = samples.peek().filter(|other| other.span.start_ms <= middle_ms) {
                disk = Some(other.busy.max(disk.unwrap_or(0.0)));
            }
        }
        Measure {
            span: sample.span,
            busy: sample.busy() * cpus,
            waiting: sample.io_wait * cpus,
            disk,
            speed: speed(boot, index, sample.span.end_ms),
            io_stall: stall_at(&mut io, middle_ms),
            memory_stall: stall_at(&mut memory, middle_ms),
        }
    };
    boot.cpu.iter().enumerate().map(measure).collect()
}

/// The share in which every task waited at `middle_ms`, which grows from call to call.
fn stall_at(samples: &mut Peekable<Iter<'_, PressureSample>>, middle_ms: u32) -> Option<f32> {
    while samples.next_if(|sample| sample.span.end_ms <= middle_ms).is_some() {}
    samples.peek().filter(|sample| sample.span.start_ms <= middle_ms).map(|sample| sample.full)
}

/// The mean speed of the CPUs at a sample, each by how much it worked.
fn speed(boot: &Boot, index: usize, time_ms: u32) -> Option<f32> {
    let (mut sum, mut weight) = (0.0, 0.0);
    for core in &boot.cores {
        let busy = match core.busy.get(index) {
            Some(&OFFLINE) | None => continue,
            Some(&busy) => f32::from(busy) + 0.01,
        };
        if let Some(speed) = core.speed_at(time_ms) {
            (sum, weight) = (sum + busy * speed, weight + busy);
        }
    }
    (weight > 0.0).then(|| sum / weight)
}

/// The median length of a sample.
fn typical_sample_ms(measures: &[Measure]) -> u32 {
    let mut lengths_ms: Vec<u32> = measures.iter().map(|measure| measure.span.length_ms()).collect();
    lengths_ms.sort_unstable();
    lengths_ms.get(lengths_ms.len() / 2).copied().unwrap_or(0)
}

/// The limit at each sample, judged by the average of those within `near_ms` of it.
fn limits(measures: &[Measure], cpus: usize, near_ms: u32) -> Vec<Limit> {
    let (mut first, mut last) = (0, 0);
    (0..measures.len())
        .map(|index| {
            let middle = measures[index].span;
            while measures[first].span.end_ms + near_ms <= middle.start_ms {
                first += 1;
            }
            while last < measures.len() && measures[last].span.start_ms < middle.end_ms + near_ms {
                last += 1;
            }
            limit(average(&measures[first..last]), cpus as f32)
        })
        .collect()
}

fn limit(measure: Measure, cpus: f32) -> Limit {
    // I/O wait is per CPU and forgets a task that moved on; where every task waited for I/O, the kernel knows better.
    let reads = measure.waiting >= 0.25
        || measure.disk.is_some_and(|busy| busy >= 0.6) && measure.waiting >= 0.05
        || measure.io_stall.is_some_and(|stall| stall >= 0.3);
    match measure.busy {
        busy if busy >= 0.85 * cpus => Limit::EveryCpu,
        busy if busy >= 1.5 => Limit::SeveralCpus,
        busy if busy >= 0.7 => Limit::OneCpu,
        _ if reads => Limit::Disk,
        // On one CPU, being half busy is mostly answering somebody who waits.
        busy if busy >= 0.5 && cpus > 1.0 => Limit::OneCpu,
        _ => Limit::Waiting,
    }
}

fn average(measures: &[Measure]) -> Measure {
    let length: f32 = measures.iter().map(|m| m.span.length_ms() as f32).sum();
    let mean = |value: &dyn Fn(&Measure) -> f32| {
        measures.iter().map(|m| value(m) * m.span.length_ms() as f32).sum::<f32>() / length.max(1.0)
    };
    let known = |value: &dyn Fn(&Measure) -> Option<f32>, weight: &dyn Fn(&Measure) -> f32| {
        let weight = |m: &Measure| weight(m) * m.span.length_ms() as f32;
        let sums = measures.iter().filter_map(|m| value(m).map(|value| (value * weight(m), weight(m))));
        let (sum, weight) = sums.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        (weight > 0.0).then(|| sum / weight)
    };
    Measure {
        span: Span::new(measures.first().map_or(0, |m| m.span.start_ms), measures.last().map_or(0, |m| m.span.end_ms)),
        busy: mean(&|m| m.busy),
        waiting: mean(&|m| m.waiting),
        disk: known(&|m| m.disk, &|_| 1.0),
        speed: known(&|m| m.speed, &|m| m.busy + 0.001),
        io_stall: known(&|m| m.io_stall, &|_| 1.0),
        memory_stall: known(&|m| m.memory_stall, &|_| 1.0),
    }
}

type Run = (Limit, std::ops::Range<usize>);

fn runs(measures: &[Measure], limits: &[Limit]) -> Vec<(Run, u32)> {
    let mut runs: Vec<(Run, u32)> = Vec::new();
    for (index, (&limit, measure)) in limits.iter().zip(measures).enumerate() {
        match runs.last_mut() {
            Some(((last, range), length_ms)) if *last == limit => {
                range.end = index + 1;
                *length_ms += measure.span.length_ms();
            }
            _ => runs.push(((limit, index..index + 1), measure.span.length_ms())),
        }
    }
    runs
}

/// Gives runs that are shorter than `least_ms` to the longer neighbour, the shortest first.
fn merge(mut runs: Vec<(Run, u32)>, least_ms: u32) -> Vec<Run> {
    while runs.len() > 1 {
        let (index, _) = runs.iter().enumerate().min_by_key(|(_, (_, ms))| *ms).expect("there is more than one");
        if runs[index].1 >= least_ms {
            break;
        }
        let before = index.checked_sub(1).map_or(0, |before| runs[before].1);
        let after = runs.get(index + 1).map_or(0, |(_, ms)| *ms);
        let ((_, range), length_ms) = runs.remove(index);
        let place = if before >= after { index - 1 } else { index };
        let ((_, into), sum_ms) = &mut runs[place];
        *into = into.start.min(range.start)..into.end.max(range.end);
        *sum_ms += length_ms;
        // The neighbours may have become one.
        for left in (0..runs.len().saturating_sub(1)).rev() {
            if runs[left].0.0 == runs[left + 1].0.0 {
                let ((_, range), length_ms) = runs.remove(left + 1);
                runs[left].0.1.end = range.end;
                runs[left].1 += length_ms;
            }
        }
    }
    runs.into_iter().map(|(run, _)| run).collect()
}

fn phase(limit: Limit, measures: &[Measure]) -> Phase {
    let Measure { span, busy, waiting, disk, speed, io_stall, memory_stall } = average(measures);
    Phase { limit, span, busy_cpus: busy, waiting_cpus: waiting, disk_busy: disk, speed, io_stall, memory_stall }
}

/// What the phase's own limit lets win.
fn of_phase(boot: &Boot, index: usize, phase: &Phase, cpus: usize) -> Option<Finding> {
    let length_ms = phase.span.length_ms() as f32;
    let idle_ms = length_ms * (1.0 - phase.busy_cpus.min(1.0));
    let (opportunity, gain_ms, bounds, who, advice) = match phase.limit {
        Limit::OneCpu if cpus > 1 => {
            let work_ms = length_ms * phase.busy_cpus.min(1.0);
            let bound_ms = |cpus: u32| (work_ms * (1.0 - 1.0 / cpus as f32)) as u32;
            let who = busiest(boot, phase.span);
            let what = who.first().map_or("the work", |&(process, _)| boot.processes[process].label());
            let advice = format!(
                "{what} works on one CPU while {} idle: do it in parallel, start it earlier or later, or do less of it",
                if cpus == 2 { "the other is".to_owned() } else { format!("{} are", cpus - 1) }
            );
            let bounds = BOUNDS.map(|cpus| (cpus, bound_ms(cpus))).to_vec();
            (Opportunity::Parallel, bound_ms(u32::try_from(cpus).unwrap_or(u32::MAX)), bounds, who, advice)
        }
        Limit::Disk => {
            let advice = "read it earlier and in order (readahead), read less, or store it compressed".to_owned();
            (Opportunity::Disk, idle_ms as u32, Vec::new(), waiters(boot, phase.span), advice)
        }
        Limit::Waiting => {
            let next = next_to_work(boot, phase.span.end_ms);
            let advice = match next {
                Some((process, _)) => format!(
                    "neither CPU nor disk works until {} does: find the timer, device or event that it waits for",
                    boot.processes[process].label()
                ),
                None => "neither CPU nor disk works: find the timer, device or event that is waited for".to_owned(),
            };
            (Opportunity::Waiting, idle_ms as u32, Vec::new(), next.into_iter().collect(), advice)
        }
        Limit::OneCpu | Limit::SeveralCpus | Limit::EveryCpu => return None,
    };
    Some(Finding { opportunity, phase: index, span: phase.span, gain_ms, bounds, who, advice })
}

/// What the highest frequency would win while CPUs worked.
fn of_frequency(boot: &Boot, index: usize, phase: &Phase, measures: &[Measure]) -> Option<Finding> {
    let speed = phase.speed.filter(|speed| *speed < FULL_SPEED)?;
    if !matches!(phase.limit, Limit::OneCpu | Limit::SeveralCpus | Limit::EveryCpu) {
        return None;
    }
    let inside = measures.iter().filter(|measure| phase.span.overlap_ms(measure.span) > 0);
    let gain_ms: f32 = inside
        .filter_map(|measure| {
            let slow = 1.0 - measure.speed.filter(|speed| *speed < FULL_SPEED)?;
            Some(measure.span.length_ms() as f32 * measure.busy.min(1.0) * slow)
        })
        .sum();
    let advice = format!(
        "the CPUs work at {:.0} % of their highest frequency: boot under the performance governor and hand back at the end",
        speed * 100.0
    );
    let who = busiest(boot, phase.span);
    let (opportunity, gain_ms) = (Opportunity::Frequency, gain_ms as u32);
    Some(Finding { opportunity, phase: index, span: phase.span, gain_ms, bounds: Vec::new(), who, advice })
}

/// What memory that is there in time would win: while every task waits for it, nothing else is done.
fn of_memory(index: usize, phase: &Phase) -> Option<Finding> {
    let gain_ms = (phase.span.length_ms() as f32 * phase.memory_stall?) as u32;
    let advice =
        "every task waits for memory: start less at the same time, or keep more in it (`brisk memory plan`)".to_owned();
    let (opportunity, span) = (Opportunity::Memory, phase.span);
    Some(Finding { opportunity, phase: index, span, gain_ms, bounds: Vec::new(), who: Vec::new(), advice })
}

/// Who took most CPU time in `span`.
fn busiest(boot: &Boot, span: Span) -> Vec<(usize, u32)> {
    top(boot, |process| {
        let spent = boot.processes[process]
            .activity
            .iter()
            .map(|activity| u64::from(activity.span.overlap_ms(span)) * u64::from(activity.cpu_permille) / 1000);
        spent.sum()
    })
}

/// Who waited longest for a disk in `span`.
fn waiters(boot: &Boot, span: Span) -> Vec<(usize, u32)> {
    top(boot, |process| {
        let waits = boot.processes[process].activity.iter().filter(|activity| activity.state == State::DiskWait);
        waits.map(|activity| u64::from(activity.span.overlap_ms(span))).sum()
    })
}

fn top(boot: &Boot, mut value: impl FnMut(usize) -> u64) -> Vec<(usize, u32)> {
    const LEAST_MS: u64 = 10;
    let candidates = (0..boot.processes.len()).filter(|&process| boot.processes[process].kind != Kind::Initcall);
    let mut values: Vec<(usize, u64)> = candidates.map(|process| (process, value(process))).collect();
    values.retain(|&(_, value)| value >= LEAST_MS);
    values.sort_by_key(|&(process, value)| (std::cmp::Reverse(value), process));
    values.truncate(NAMED);
    values.into_iter().map(|(process, value)| (process, u32::try_from(value).unwrap_or(u32::MAX))).collect()
}

/// Who works first when a wait has ended.
fn next_to_work(boot: &Boot, end_ms: u32) -> Option<(usize, u32)> {
    const NEAR_MS: u32 = 500;
    let near = Span::new(end_ms.saturating_sub(NEAR_MS / 2), end_ms.saturating_add(NEAR_MS));
    busiest(boot, near).into_iter().next()
}

#[cfg(test)]
mod tests;
