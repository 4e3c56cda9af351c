//! From samples to phases: the limit of each sample from its surroundings, runs of one limit, and the end of the work.

use std::ops::Range;

use super::measures::{DiagnosisMeasure, average};
use super::{Limit, Phase};
use crate::model::{Boot, Span};

/// A phase shorter than this number of samples, within these bounds, or than this fraction of the boot is merged into a
/// neighbour: with finer samples, shorter phases can be distinguished.
const MIN_PHASE_SAMPLES: u32 = 3;
const MIN_PHASE_MS: std::ops::RangeInclusive<u32> = 250..=600;
const MIN_PHASE_DIVISOR: u32 = 50;
/// Each sample is judged together with this number of samples before or after it, within these times: a single sample often
/// covers half of an event, and the kernel accounts CPU time in ticks of up to 10 ms.
const SMOOTHING_SAMPLES: u32 = 2;
const SMOOTHING_MS: std::ops::RangeInclusive<u32> = 160..=500;
/// The least density ([`DiagnosisMeasure::density`]) of CPUs that are busy all the time; the second applies while tasks wait
/// for a disk, the third to a device with one CPU.
const DENSE: f32 = 0.66;
const DENSE_BESIDE_READS: f32 = 0.8;
const DENSE_ALONE: f32 = 0.8;
/// The least `notable_busy` work, in CPUs, for the limits `OneCpu` and `SeveralCpus`.
const ONE_CPU: f32 = 0.65;
const SEVERAL_CPUS: f32 = 1.5;
/// The least share of one CPU that a single-threaded process takes when it computes all the time.
const ONE_SERIAL: f32 = 0.8;
/// Every CPU counts as busy if no more than this part of one CPU, and this share of all, is idle.
const MAX_IDLE_OF_ONE: f32 = 0.5;
const MAX_IDLE_OF_ALL: f32 = 0.15;
/// Runs that differ by less than this, in CPUs and in density, are the same work.
const SAME_CPUS: f32 = 0.35;
const SAME_DENSITY: f32 = 0.2;
/// A device with fewer busy CPUs than this, plus this much for each CPU, is quiet, because some thread always wakes up.
const QUIET_CPUS: f32 = 0.28;
const QUIET_EACH: f32 = 0.02;
/// A burst with less CPU time and disk waiting than this does not move the end of the work.
const MIN_WORK_MS: f32 = 150.0;

/// The phases of `boot`, and the end of its work.
pub fn phases(boot: &Boot, measures: &[DiagnosisMeasure]) -> (Vec<Phase>, u32) {
    let cpus = boot.cpu_count() as f32;
    let sample_ms = typical_sample_ms(measures);
    let smoothing_ms = (SMOOTHING_SAMPLES * sample_ms).clamp(*SMOOTHING_MS.start(), *SMOOTHING_MS.end());
    let smooth = smoothed(measures, smoothing_ms);
    let Some(first) = measures.first() else { return (Vec::new(), boot.span.end_ms) };
    let (working, done_ms) = work(measures, &smooth, cpus).unwrap_or((0, first.span.start_ms));
    let limits: Vec<Limit> = smooth[..working].iter().map(|measure| limit(measure, cpus)).collect();
    let least_ms = (MIN_PHASE_SAMPLES * sample_ms).clamp(*MIN_PHASE_MS.start(), *MIN_PHASE_MS.end());
    let least_ms = least_ms.max(boot.span.length_ms() / MIN_PHASE_DIVISOR);
    let runs = merge_similar(merge(runs(&measures[..working], &limits), least_ms), measures, cpus);
    let mut phases: Vec<Phase> = runs.into_iter().map(|(limit, range)| phase(limit, &measures[range])).collect();
    if let Some(last) = phases.last_mut() {
        last.span.end_ms = done_ms;
    }
    if let Some(end) = measures.last().filter(|last| last.span.end_ms > done_ms) {
        let rest = if working < measures.len() { &measures[working..] } else { &[] };
        let mut idle = phase(Limit::Idle, rest);
        idle.span = Span::new(done_ms, end.span.end_ms);
        phases.push(idle);
    }
    (phases, done_ms)
}

/// The median length of a sample.
fn typical_sample_ms(measures: &[DiagnosisMeasure]) -> u32 {
    let mut lengths_ms: Vec<u32> = measures.iter().map(|measure| measure.span.length_ms()).collect();
    lengths_ms.sort_unstable();
    lengths_ms.get(lengths_ms.len() / 2).copied().unwrap_or(0)
}

/// The average of each sample with those within `near_ms` before it, or after it, whichever vary less: this smooths noise and
/// keeps the position of a change.
fn smoothed(measures: &[DiagnosisMeasure], near_ms: u32) -> Vec<DiagnosisMeasure> {
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
            let sides = [&measures[first..=index], &measures[index..last]];
            let [before, behind] = sides.map(|side| (side, average(side)));
            let [before_variance, behind_variance] = [&before, &behind].map(|(side, mean)| variance(side, mean));
            // At either end of the recording, one side has too few samples to be used.
            let is_short = |side: &[DiagnosisMeasure], other: &[DiagnosisMeasure]| 2 * side.len() < other.len();
            match () {
                () if is_short(before.0, behind.0) => behind.1,
                () if is_short(behind.0, before.0) || before_variance <= behind_variance => before.1,
                () => behind.1,
            }
        })
        .collect()
}

fn variance(measures: &[DiagnosisMeasure], mean: &DiagnosisMeasure) -> f32 {
    let square = |value: f32| value * value;
    let sum: f32 = measures.iter().map(|m| square(m.busy - mean.busy) + square(m.waiting - mean.waiting)).sum();
    sum / measures.len() as f32
}

fn is_quiet(busy: f32, cpus: f32) -> bool {
    busy < QUIET_CPUS + QUIET_EACH * cpus
}

fn waits_for_disk(measure: &DiagnosisMeasure) -> bool {
    // I/O wait is accounted per CPU and loses a task that has migrated; the pressure of I/O (PSI) does not.
    measure.waiting >= 0.25
        || measure.disk.is_some_and(|busy| busy >= 0.6) && measure.waiting >= 0.05
        || measure.io_stall.is_some_and(|stall| stall >= 0.3)
}

/// The limit of one sample. Load is judged per CPU: four CPUs that are busy for a quarter of the time are not one that is busy
/// all the time. Waiting for a disk takes precedence over CPUs that are busy for a part of the time.
fn limit(measure: &DiagnosisMeasure, cpus: f32) -> Limit {
    let reads = waits_for_disk(measure);
    let dense = match () {
        () if reads => DENSE_BESIDE_READS,
        () if cpus == 1.0 => DENSE_ALONE,
        () => DENSE,
    };
    let left = cpus - measure.busy;
    if left <= (MAX_IDLE_OF_ALL * cpus).min(MAX_IDLE_OF_ONE) || cpus == 1.0 && measure.busy >= dense {
        return Limit::EveryCpu;
    }
    let some = |several: bool| if several { Limit::SeveralCpus } else { Limit::OneCpu };
    match () {
        () if cpus > 1.0 && measure.density() >= dense && measure.notable_busy >= ONE_CPU => {
            some(measure.notable_busy >= SEVERAL_CPUS)
        }
        () if reads => Limit::Disk,
        () if measure.serial >= ONE_SERIAL => some(measure.serial_sum >= 2.0 * ONE_SERIAL),
        () if is_quiet(measure.busy, cpus) => Limit::Waiting,
        () => Limit::PartlyBusy,
    }
}

/// Merges adjacent runs of the same work that differ in little but their limit; the result has the limit of its average.
fn merge_similar(mut runs: Vec<Run>, measures: &[DiagnosisMeasure], cpus: f32) -> Vec<Run> {
    let computes = |limit| matches!(limit, Limit::OneCpu | Limit::SeveralCpus | Limit::PartlyBusy | Limit::EveryCpu);
    let mut place = 0;
    while place + 1 < runs.len() {
        let (one, other) = (average(&measures[runs[place].1.clone()]), average(&measures[runs[place + 1].1.clone()]));
        let is_same =
            (one.busy - other.busy).abs() < SAME_CPUS && (one.density() - other.density()).abs() < SAME_DENSITY;
        if computes(runs[place].0) && computes(runs[place + 1].0) && is_same {
            let range = runs[place].1.start..runs.remove(place + 1).1.end;
            runs[place] = (limit(&average(&measures[range.clone()]), cpus), range);
            place = place.saturating_sub(1);
        } else {
            place += 1;
        }
    }
    let mut joined: Vec<Run> = Vec::new();
    for (limit, range) in runs {
        match joined.last_mut() {
            Some((last, before)) if *last == limit => before.end = range.end,
            _ => joined.push((limit, range)),
        }
    }
    joined
}

/// The number of samples up to the end of the work, and its time; `None` if no work was done.
fn work(measures: &[DiagnosisMeasure], smooth: &[DiagnosisMeasure], cpus: f32) -> Option<(usize, u32)> {
    let is_work = |measure: &DiagnosisMeasure| !is_quiet(measure.busy, cpus) || waits_for_disk(measure);
    let mut end = smooth.len();
    loop {
        let last = smooth[..end].iter().rposition(is_work)?;
        let first = smooth[..last].iter().rposition(|measure| !is_work(measure)).map_or(0, |quiet| quiet + 1);
        let spent = |measure: &DiagnosisMeasure| (measure.busy + measure.waiting) * measure.span.length_ms() as f32;
        if measures[first..=last].iter().map(spent).sum::<f32>() >= MIN_WORK_MS {
            return Some(exact_end(measures, first, last, &is_work));
        }
        end = first;
    }
}

/// Smoothed samples reach into the idle time after the work, so the end is taken from the samples themselves. The last sample
/// counts in proportion to its load, compared with the samples before it.
fn exact_end(
    measures: &[DiagnosisMeasure],
    first: usize,
    last: usize,
    is_work: &dyn Fn(&DiagnosisMeasure) -> bool,
) -> (usize, u32) {
    const BEFORE: usize = 3;
    let load = |measure: &DiagnosisMeasure| measure.busy + measure.waiting;
    let level_at = |end: usize| average(&measures[end.saturating_sub(BEFORE).max(first).min(end - 1)..end]);
    let last = measures[first..=last].iter().rposition(is_work).map_or(last, |place| first + place);
    // The work may end early in the next sample, which then seems idle.
    let level = load(&level_at(last + 1));
    let partly = measures.get(last + 1).filter(|next| load(next) >= 0.1 * level.max(1.0));
    let last = if partly.is_some() { last + 1 } else { last };
    let span = measures[last].span;
    let level = if last > first { load(&level_at(last)) } else { load(&measures[last]) };
    let share = (load(&measures[last]) / level.max(0.001)).min(1.0);
    let share = if share >= 0.9 { 1.0 } else { share };
    (last + 1, span.start_ms + (span.length_ms() as f32 * share).round() as u32)
}

type Run = (Limit, Range<usize>);

fn runs(measures: &[DiagnosisMeasure], limits: &[Limit]) -> Vec<(Run, u32)> {
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

/// Merges runs that are shorter than `least_ms` into the longer neighbour, the shortest first.
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
        // The neighbours may now have the same limit.
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

fn phase(limit: Limit, measures: &[DiagnosisMeasure]) -> Phase {
    let DiagnosisMeasure { span, busy, waiting, disk, speed, io_stall, memory_stall, .. } = average(measures);
    Phase {
        limit,
        span,
        busy_cpus: busy,
        waiting_cpus: waiting,
        disk_busy: disk,
        speed,
        io_stall,
        memory_stall,
        kernel_threads: None,
        in_no_process: None,
    }
}
