//! The samples that phases are derived from: CPUs, disks, pressure and processes, aligned to the intervals of the CPU samples.

use std::iter::Peekable;
use std::slice::Iter;

use crate::model::{Boot, CpuSample, Kind, OFFLINE, PressureSample, Span};

/// One sample, or the average of several. CPU time is given as a number of CPUs.
#[derive(Debug, Clone, Copy)]
pub struct DiagnosisMeasure {
    /// When.
    pub span: Span,
    /// Busy CPUs.
    pub busy: f32,
    /// CPUs busy in the kernel.
    pub system: f32,
    /// CPUs that were idle while a task waited for a disk.
    pub waiting: f32,
    /// The sum of the squares of each CPU's busy share: see [`DiagnosisMeasure::density`].
    pub squares: f32,
    /// Busy CPUs, without those below `NOTABLE_SHARE`.
    pub notable_busy: f32,
    /// The share of one CPU that the busiest single-threaded process took, on any CPUs.
    pub serial: f32,
    /// The sum over all single-threaded processes that took half a CPU or more.
    pub serial_sum: f32,
    /// The busy share of the busiest disk.
    pub disk: Option<f32>,
    /// The frequency of busy CPUs as a share of the highest.
    pub speed: Option<f32>,
    /// The share of the time in which every task waited for I/O.
    pub io_stall: Option<f32>,
    /// The same for memory.
    pub memory_stall: Option<f32>,
}

impl DiagnosisMeasure {
    /// How busy a CPU is, weighted by its work: 1 where one or more CPUs are busy all the time and the others are idle; a
    /// quarter where each of four is busy for a quarter of the time.
    pub fn density(&self) -> f32 {
        self.squares / self.busy.max(0.01)
    }
}

/// A CPU with a lower busy share counts as idle.
const NOTABLE_SHARE: f32 = 0.25;
/// CPUs are compared over at least this time: the kernel accounts CPU time in ticks of up to 10 ms.
const MIN_BIN_MS: u32 = 100;

/// One measure for each CPU sample.
pub fn measures(boot: &Boot) -> Vec<DiagnosisMeasure> {
    let cpus = boot.cpu_count() as f32;
    let mut disks: Vec<_> = boot.disks.iter().map(|disk| disk.samples.iter().peekable()).collect();
    let [mut io, mut memory] = ["io", "memory"].map(|name| {
        let pressure = boot.pressures.iter().find(|pressure| pressure.name == name);
        pressure.map_or(&[][..], |pressure| pressure.samples.as_slice()).iter().peekable()
    });
    let (serial, serial_sum) = serial(boot);
    let measure = |(index, sample): (usize, &CpuSample)| {
        let middle_ms = sample.span.start_ms + sample.span.length_ms() / 2;
        let mut disk = None;
        for samples in &mut disks {
            while samples.next_if(|other| other.span.end_ms <= middle_ms).is_some() {}
            if let Some(other) = samples.peek().filter(|other| other.span.start_ms <= middle_ms) {
                disk = Some(other.busy.max(disk.unwrap_or(0.0)));
            }
        }
        DiagnosisMeasure {
            span: sample.span,
            busy: sample.busy() * cpus,
            system: sample.system * cpus,
            waiting: sample.io_wait * cpus,
            squares: sample.busy() * sample.busy() * cpus,
            notable_busy: if sample.busy() >= NOTABLE_SHARE { sample.busy() * cpus } else { 0.0 },
            serial: serial[index],
            serial_sum: serial_sum[index],
            disk,
            speed: speed(boot, index, middle_ms),
            io_stall: stall_at(&mut io, middle_ms),
            memory_stall: stall_at(&mut memory, middle_ms),
        }
    };
    let mut measures: Vec<DiagnosisMeasure> = boot.cpu.iter().enumerate().map(measure).collect();
    compare_cpus(boot, &mut measures);
    measures
}

/// Sets how the work was spread over the CPUs. With a recording of totals only, an even spread is assumed.
fn compare_cpus(boot: &Boot, measures: &mut [DiagnosisMeasure]) {
    if boot.cores.iter().all(|core| core.busy.is_empty()) {
        return;
    }
    let mut start = 0;
    while start < measures.len() {
        let from_ms = measures[start].span.start_ms;
        let long_enough = |measure: &DiagnosisMeasure| measure.span.end_ms.saturating_sub(from_ms) >= MIN_BIN_MS;
        let end = measures[start..].iter().position(long_enough).map_or(measures.len(), |last| start + last + 1);
        let length_ms: f32 = measures[start..end].iter().map(|measure| measure.span.length_ms() as f32).sum();
        let (mut squares, mut notable_busy) = (0.0, 0.0);
        for core in &boot.cores {
            let worked = measures[start..end].iter().zip(core.busy.get(start..end).unwrap_or_default());
            let worked = worked.filter(|(_, percent)| **percent != OFFLINE);
            let busy_ms: f32 = worked.map(|(m, percent)| m.span.length_ms() as f32 * f32::from(*percent) / 100.0).sum();
            let busy = busy_ms / length_ms.max(1.0);
            squares += busy * busy;
            notable_busy += if busy >= NOTABLE_SHARE { busy } else { 0.0 };
        }
        let busy_ms: f32 = measures[start..end].iter().map(|m| m.busy * m.span.length_ms() as f32).sum();
        let together = busy_ms / length_ms.max(1.0);
        for measure in &mut measures[start..end] {
            // Samples that are compared together share the result in proportion to their work.
            let part = if together > 0.0 { measure.busy / together } else { 0.0 };
            (measure.squares, measure.notable_busy) = (squares * part, notable_busy * part);
        }
        start = end;
    }
}

/// For each CPU sample, the largest share of one CPU that a single-threaded process took, and the sum over all such processes.
/// Such a process may have run on several CPUs one after the other, which per-CPU figures do not distinguish from several
/// threads at the same time. Without per-CPU figures, a process of unknown thread count is included as well.
fn serial(boot: &Boot) -> (Vec<f32>, Vec<f32>) {
    const MIN_PERMILLE: u16 = 500;
    let has_cores = boot.cores.iter().any(|core| !core.busy.is_empty());
    let (mut most, mut sum) = (vec![0.0f32; boot.cpu.len()], vec![0.0f32; boot.cpu.len()]);
    let may = |threads: u32| threads == 1 || threads == 0 && !has_cores;
    for process in boot.processes.iter().filter(|process| process.kind != Kind::Initcall && may(process.threads)) {
        let (mut place, mut share) = (0, 0.0f32);
        for activity in process.activity.iter().filter(|activity| activity.cpu_permille >= MIN_PERMILLE) {
            let begins = boot.cpu.partition_point(|sample| sample.span.end_ms <= activity.span.start_ms);
            for (index, sample) in boot.cpu.iter().enumerate().skip(begins) {
                if sample.span.start_ms >= activity.span.end_ms {
                    break;
                }
                if index != place {
                    (place, share) = (index, 0.0);
                }
                let overlap_ms = sample.span.overlap_ms(activity.span) as f32;
                let took =
                    overlap_ms * f32::from(activity.cpu_permille) / 1000.0 / sample.span.length_ms().max(1) as f32;
                share += took;
                most[place] = most[place].max(share.min(1.0));
                sum[place] += took;
            }
        }
    }
    (most, sum)
}

/// The share of the time in which every task waited, at `middle_ms`, which must grow from call to call.
fn stall_at(samples: &mut Peekable<Iter<'_, PressureSample>>, middle_ms: u32) -> Option<f32> {
    while samples.next_if(|sample| sample.span.end_ms <= middle_ms).is_some() {}
    samples.peek().filter(|sample| sample.span.start_ms <= middle_ms).map(|sample| sample.full)
}

/// The mean speed of the CPUs in a sample, weighted by how busy each was.
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

/// The average of `measures`, weighted by length.
pub fn average(measures: &[DiagnosisMeasure]) -> DiagnosisMeasure {
    let length: f32 = measures.iter().map(|m| m.span.length_ms() as f32).sum();
    let mean = |value: &dyn Fn(&DiagnosisMeasure) -> f32| {
        // The sum of an empty iterator of floats is -0.0.
        measures.iter().map(|m| value(m) * m.span.length_ms() as f32).sum::<f32>() / length.max(1.0) + 0.0
    };
    let known = |value: &dyn Fn(&DiagnosisMeasure) -> Option<f32>, weight: &dyn Fn(&DiagnosisMeasure) -> f32| {
        let weight = |m: &DiagnosisMeasure| weight(m) * m.span.length_ms() as f32;
        let sums = measures.iter().filter_map(|m| value(m).map(|value| (value * weight(m), weight(m))));
        let (sum, weight) = sums.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
        (weight > 0.0).then(|| sum / weight)
    };
    DiagnosisMeasure {
        span: Span::new(measures.first().map_or(0, |m| m.span.start_ms), measures.last().map_or(0, |m| m.span.end_ms)),
        busy: mean(&|m| m.busy),
        system: mean(&|m| m.system),
        waiting: mean(&|m| m.waiting),
        squares: mean(&|m| m.squares),
        notable_busy: mean(&|m| m.notable_busy),
        serial: mean(&|m| m.serial),
        serial_sum: mean(&|m| m.serial_sum),
        disk: known(&|m| m.disk, &|_| 1.0),
        speed: known(&|m| m.speed, &|m| m.busy + 0.001),
        io_stall: known(&|m| m.io_stall, &|_| 1.0),
        memory_stall: known(&|m| m.memory_stall, &|_| 1.0),
    }
}
