//! What a boot spent its time on, and what could be won: phases by what limited them, then findings by seconds.
//!
//! Each gain is an upper bound, named as such: what would be won if all the work of a phase could be done in parallel
//! (Amdahl), every read were already there, nothing had to wait, a process did nothing, every CPU ran at its highest
//! frequency. How often a verdict is right is measured on boots whose causes are known (`diagnose/verdicts.rs`).

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
    /// One CPU worked while others were idle.
    OneCpu,
    /// Several CPUs worked, not all.
    SeveralCpus,
    /// Every CPU worked.
    EveryCpu,
    /// A disk was waited for.
    Disk,
    /// CPUs worked, none of them all the time, and no disk was waited for: work and waiting alternate.
    PartlyBusy,
    /// Neither CPU nor disk worked: a device, a timer, the network.
    Waiting,
    /// The work was done.
    Idle,
}

impl Limit {
    /// Every one, in the order of legends.
    pub const ALL: [Self; 7] =
        [Self::OneCpu, Self::SeveralCpus, Self::EveryCpu, Self::Disk, Self::PartlyBusy, Self::Waiting, Self::Idle];

    /// As people read it.
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

    /// The class of its colour in charts.
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
    /// The share of the CPU time that the kernel's threads took, when processes are known.
    pub kernel_threads: Option<f32>,
    /// The share of the CPU time that no sampled process took: interrupts, the kernel's initialisation, processes that
    /// began and ended between two samples.
    pub in_no_process: Option<f32>,
}

/// What could be won.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opportunity {
    /// Do the work of a phase on more CPUs.
    Parallel,
    /// Do less, or do it later: every CPU works.
    Work,
    /// Have the kernel do less.
    Kernel,
    /// Have the data before it is needed.
    Disk,
    /// Do not wait.
    Waiting,
    /// Run at the highest frequency.
    Frequency,
    /// Do not wait for memory.
    Memory,
}

/// What one process has to do with a finding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// Which, as an index into the boot's processes.
    pub process: usize,
    /// Milliseconds of CPU time, or of waiting for a disk.
    pub ms: u32,
    /// Its share of the span's CPU time, or of the span where it waits; `None` where it only comes next.
    pub share: Option<f32>,
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
    /// Which processes it is about, the first above all.
    pub who: Vec<Part>,
    /// What to do.
    pub advice: String,
}

/// All that can be said about one boot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Diagnosis {
    /// One after the other, from the first sample to the last; what follows `done_ms` is [`Limit::Idle`].
    pub phases: Vec<Phase>,
    /// The largest gain first.
    pub findings: Vec<Finding>,
    /// When the work ended: what follows is idle.
    pub done_ms: u32,
}

/// A smaller gain is not worth a line.
const LEAST_GAIN_MS: u32 = 50;

/// Judges `boot`. Without samples of the CPUs there is nothing to say.
pub fn diagnose(boot: &Boot) -> Diagnosis {
    let measures = measures::measures(boot);
    let (mut phases, done_ms) = phases::phases(boot, &measures);
    let mut found = Vec::new();
    for (index, phase) in phases.iter_mut().enumerate().filter(|(_, phase)| phase.limit != Limit::Idle) {
        let sources = sources::Sources::of(boot, phase, &measures);
        if boot.has_processes() && sources.total_ms >= LEAST_GAIN_MS as f32 {
            phase.kernel_threads = Some(sources.kernel_threads());
            phase.in_no_process = Some(sources.in_no_process());
        }
        found.extend(findings::of_phase(boot, index, phase, &measures, &sources));
    }
    found.retain(|finding| finding.gain_ms >= LEAST_GAIN_MS);
    found.sort_by_key(|finding| (std::cmp::Reverse(finding.gain_ms), finding.span.start_ms));
    Diagnosis { phases, findings: found, done_ms }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod verdicts;
