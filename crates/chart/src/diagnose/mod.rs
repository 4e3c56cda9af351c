//! What a boot spent its time on, and what could be gained: phases by their limit, then findings by their gain.
//!
//! Each gain is an upper bound and is reported as one: the time saved if all work of a phase could run in parallel (Amdahl),
//! all data were read in advance, nothing had to wait, a process did nothing, or every CPU ran at its highest frequency. The
//! share of right verdicts is measured on boots with known causes (`diagnose/verdicts.rs`).

mod findings;
mod measures;
mod phases;
mod sources;

use serde::Serialize;

use super::model::{Boot, Span};

/// What limited a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// One CPU was busy while others were idle.
    OneCpu,
    /// Several CPUs were busy, but not all.
    SeveralCpus,
    /// Every CPU was busy.
    EveryCpu,
    /// Tasks waited for a disk.
    Disk,
    /// No CPU was busy all the time, and the disk was not the limit: work and waiting alternate.
    PartlyBusy,
    /// Neither CPU nor disk was busy: the boot waited for a device, a timer or the network.
    Waiting,
    /// The boot's work was finished.
    Idle,
}

impl Limit {
    /// All limits, in the order of legends.
    pub const ALL: [Self; 7] =
        [Self::OneCpu, Self::SeveralCpus, Self::EveryCpu, Self::Disk, Self::PartlyBusy, Self::Waiting, Self::Idle];

    /// Its name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::OneCpu => "one CPU",
            Self::SeveralCpus => "several CPUs",
            Self::EveryCpu => "every CPU",
            Self::Disk => "disk",
            Self::PartlyBusy => "partly busy",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
        }
    }

    /// The CSS class of its colour in charts.
    pub fn class(self) -> &'static str {
        match self {
            Self::OneCpu => "one-cpu",
            Self::SeveralCpus => "several-cpus",
            Self::EveryCpu => "every-cpu",
            Self::Disk => "disk-phase",
            Self::PartlyBusy => "partly-busy",
            Self::Waiting => "waiting",
            Self::Idle => "idle-phase",
        }
    }
}

/// A part of the boot with one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    /// What limited it.
    pub limit: Limit,
    /// When.
    pub span: Span,
    /// Busy CPUs, on average.
    pub busy_cpus: f32,
    /// CPUs that were idle while a task waited for a disk, on average.
    pub waiting_cpus: f32,
    /// The busy share of the busiest disk, when known.
    pub disk_busy: Option<f32>,
    /// The frequency of busy CPUs as a share of the highest, when known.
    pub speed: Option<f32>,
    /// The share of the time in which every task waited for I/O, when known.
    pub io_stall: Option<f32>,
    /// The same for memory.
    pub memory_stall: Option<f32>,
    /// The share of the CPU time that kernel threads took, when processes are known.
    pub kernel_threads: Option<f32>,
    /// The share of the CPU time that no sampled process took: interrupts, the kernel's initialisation, processes that
    /// began and ended between two samples.
    pub in_no_process: Option<f32>,
}

/// A kind of gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opportunity {
    /// Do the work of a phase on more CPUs.
    Parallel,
    /// Do less, or do it later: every CPU works.
    Work,
    /// Reduce the kernel's work.
    Kernel,
    /// Read the data before it is needed.
    Disk,
    /// Do not wait.
    Waiting,
    /// Run at the highest frequency.
    Frequency,
    /// Do not wait for memory.
    Memory,
}

/// One process in a finding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contributor {
    /// Its index in the boot's processes.
    pub process: usize,
    /// Milliseconds of CPU time, or of waiting for a disk.
    pub ms: u32,
    /// Its share of the span's CPU time, or of the span if it waits; `None` for a process that only runs after the wait.
    pub share: Option<f32>,
}

/// One way to a shorter boot.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The kind of gain.
    pub opportunity: Opportunity,
    /// The phase's index in [`Diagnosis::phases`].
    pub phase: usize,
    /// When.
    pub span: Span,
    /// Upper bound of the gain on this device.
    pub gain_ms: u32,
    /// For parallel work: the same with 2, 4 and 8 CPUs.
    pub bounds: Vec<(u32, u32)>,
    /// The responsible processes, the main one first.
    pub who: Vec<Contributor>,
    /// What to do.
    pub advice: String,
}

/// The phases and findings of one boot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// In order of time, from the first sample to the last; what follows `done_ms` is [`Limit::Idle`].
    pub phases: Vec<Phase>,
    /// The largest gain first.
    pub findings: Vec<Finding>,
    /// When the work ended: what follows is idle.
    pub done_ms: u32,
}

/// Findings with a smaller gain are dropped.
const MIN_GAIN_MS: u32 = 50;

/// Diagnoses `boot`. Without CPU samples there are no phases and no findings.
pub fn diagnose(boot: &Boot) -> Diagnosis {
    let measures = measures::measures(boot);
    let (mut phases, done_ms) = phases::phases(boot, &measures);
    let mut found = Vec::new();
    for (index, phase) in phases.iter_mut().enumerate().filter(|(_, phase)| phase.limit != Limit::Idle) {
        let sources = sources::Sources::of(boot, phase, &measures);
        if boot.has_processes() && sources.total_ms >= MIN_GAIN_MS as f32 {
            phase.kernel_threads = Some(sources.kernel_threads());
            phase.in_no_process = Some(sources.in_no_process());
        }
        found.extend(findings::of_phase(boot, index, phase, &measures, &sources));
    }
    found.retain(|finding| finding.gain_ms >= MIN_GAIN_MS);
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.gain_ms), finding.span.start_ms));
    Diagnosis { phases, findings: found, done_ms }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdicts;
