//! Where the CPU time of a phase went: processes, kernel threads, and what no sampled process took.

use super::measures::DiagnosisMeasure;
use super::{Contributor, Phase};
use crate::model::{Activity, Boot, Kind, Span, State};

/// How many processes a finding names.
const NAMED: usize = 3;
/// Processes that took or waited less are not named.
const MIN_MS: f32 = 10.0;

/// CPU time of a phase, in milliseconds.
pub struct Sources {
    /// Of all CPUs.
    pub total_ms: f32,
    /// Of the busiest CPU.
    pub busiest_cpu_ms: f32,
    /// Of the busiest single-threaded process.
    pub serial_ms: f32,
    /// In the kernel, including system calls of processes.
    system_ms: f32,
    kernel_threads_ms: f32,
    in_no_process_ms: f32,
    /// The processes that took most, including kernel threads.
    pub who: Vec<Contributor>,
}

impl Sources {
    /// The sources of `phase`.
    pub fn of(boot: &Boot, phase: &Phase, measures: &[DiagnosisMeasure]) -> Self {
        let first = measures.partition_point(|measure| measure.span.end_ms <= phase.span.start_ms);
        let inside = measures[first..].iter().take_while(|measure| measure.span.start_ms < phase.span.end_ms);
        let sum = |value: &dyn Fn(&DiagnosisMeasure) -> f32| -> f32 {
            inside.clone().map(|measure| value(measure) * measure.span.length_ms() as f32).sum()
        };
        let total_ms = sum(&|measure| measure.busy);
        let (mut kernel_threads_ms, mut processes_ms, mut serial_ms) = (0.0, 0.0, 0.0f32);
        let mut who = Vec::new();
        for (process, of) in boot.processes.iter().enumerate() {
            let ms = match of.kind {
                Kind::Initcall => continue,
                Kind::Process | Kind::KernelThread => cpu_ms(&of.activity, phase.span),
            };
            *(if of.kind == Kind::KernelThread { &mut kernel_threads_ms } else { &mut processes_ms }) += ms;
            if of.threads == 1 {
                serial_ms = serial_ms.max(ms);
            }
            who.push((process, ms));
        }
        Self {
            total_ms,
            busiest_cpu_ms: busiest_cpu_ms(boot, phase.span, first),
            serial_ms,
            system_ms: sum(&|measure| measure.system),
            kernel_threads_ms,
            in_no_process_ms: (total_ms - processes_ms - kernel_threads_ms).max(0.0),
            who: most(who, total_ms.max(processes_ms + kernel_threads_ms)),
        }
    }

    fn share(&self, ms: f32) -> f32 {
        (ms / self.total_ms.max(1.0)).min(1.0)
    }

    /// The share of kernel threads.
    pub fn kernel_threads(&self) -> f32 {
        self.share(self.kernel_threads_ms)
    }

    /// The share that no sampled process took.
    pub fn in_no_process(&self) -> f32 {
        self.share(self.in_no_process_ms)
    }

    /// The share of the kernel itself: its threads, and system time outside of any sampled process. User time outside of any
    /// sampled process belongs to processes that ended between two samples.
    pub fn kernel(&self) -> f32 {
        let outside_ms = self.in_no_process_ms.min((self.system_ms - self.kernel_threads_ms).max(0.0));
        self.share(self.kernel_threads_ms + outside_ms)
    }
}

/// CPU time in `span`, in milliseconds.
pub fn cpu_ms(activity: &[Activity], span: Span) -> f32 {
    let first = activity.partition_point(|activity| activity.span.end_ms <= span.start_ms);
    let inside = activity[first..].iter().take_while(|activity| activity.span.start_ms < span.end_ms);
    inside.map(|activity| activity.span.overlap_ms(span) as f32 * f32::from(activity.cpu_permille) / 1000.0).sum()
}

fn busiest_cpu_ms(boot: &Boot, span: Span, first: usize) -> f32 {
    let worked_ms = |busy: &Vec<u8>| -> f32 {
        let samples =
            boot.cpu.iter().zip(busy).skip(first).take_while(|(sample, _)| sample.span.start_ms < span.end_ms);
        let known = samples.filter(|(_, percent)| **percent <= 100);
        known.map(|(sample, percent)| sample.span.length_ms() as f32 * f32::from(*percent) / 100.0).sum()
    };
    boot.cores.iter().map(|core| worked_ms(&core.busy)).fold(0.0, f32::max)
}

/// The processes that waited longest for a disk in `span`, with their share of it.
pub fn waiters(boot: &Boot, span: Span) -> Vec<Contributor> {
    let waited_ms = |activity: &[Activity]| -> f32 {
        let waits = activity.iter().filter(|activity| activity.state == State::DiskWait);
        waits.map(|activity| activity.span.overlap_ms(span) as f32).sum()
    };
    let values = boot.processes.iter().enumerate().map(|(process, of)| (process, waited_ms(&of.activity)));
    most(values.collect(), span.length_ms() as f32)
}

/// The process that runs first after a wait that ended at `end_ms`, if its share of the work there is large enough.
pub fn first_active_after(boot: &Boot, end_ms: u32, measures: &[DiagnosisMeasure]) -> Option<Contributor> {
    const NEAR_MS: u32 = 500;
    const MIN_SHARE: f32 = 0.4;
    let near = Span::new(end_ms.saturating_sub(NEAR_MS / 5), end_ms.saturating_add(NEAR_MS));
    let values: Vec<(usize, f32)> =
        boot.processes.iter().enumerate().map(|(process, of)| (process, cpu_ms(&of.activity, near))).collect();
    let inside = measures.iter().map(|measure| measure.busy * measure.span.overlap_ms(near) as f32);
    let first = most(values, inside.sum()).into_iter().next()?;
    (first.share? >= MIN_SHARE).then_some(Contributor { share: None, ..first })
}

fn most(mut values: Vec<(usize, f32)>, of_ms: f32) -> Vec<Contributor> {
    values.retain(|&(_, ms)| ms >= MIN_MS);
    values.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
    values.truncate(NAMED);
    let part = |(process, ms): (usize, f32)| Contributor {
        process,
        ms: ms as u32,
        share: Some((ms / of_ms.max(1.0)).min(1.0)),
    };
    values.into_iter().map(part).collect()
}
