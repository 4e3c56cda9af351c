//! What if: what the mechanisms would have removed of an explained window.
//!
//! The policy of each mechanism gets the trace as events, its decisions are carried out on a simulated device, and the pieces of
//! the critical path take the time that they would have taken there. Only time of the path is counted: what other threads would
//! have gained is not.

mod cpufreq;
mod facts;
mod launch;
mod lookup;
mod memory;
mod placement;
mod replay;
mod samples;
mod treatment;
pub mod words;

use serde::Serialize;

use crate::explain::{Explanation, Window};
use crate::model::Trace;
use crate::path::{self, Piece};
use crate::threads::Timelines;
use brisk_mechanism::launch::LaunchConfig;
use brisk_mechanism::lookup::LookupConfig;
use brisk_mechanism::memory::MemoryConfig;
use brisk_mechanism::placement::PlacementConfig;

pub use cpufreq::Device;
pub use facts::living;

/// A mechanism that can be estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    Launch,
    Placement,
    Lookup,
    Memory,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Launch, Self::Placement, Self::Lookup, Self::Memory];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => brisk_mechanism::launch::NAME,
            Self::Placement => brisk_mechanism::placement::NAME,
            Self::Lookup => brisk_mechanism::lookup::control::NAME,
            Self::Memory => brisk_mechanism::memory::NAME,
        }
    }
}

/// What is estimated, and on which device.
#[derive(Debug, Clone, Default)]
pub struct Remedies {
    /// In the order in which they are shown.
    pub with: Vec<Mechanism>,
    pub launch: LaunchConfig,
    pub placement: PlacementConfig,
    pub lookup: LookupConfig,
    pub memory: MemoryConfig,
    /// The device that the trace is of; without it only the trace's own frequencies are known.
    pub device: Option<Device>,
}

/// What one mechanism would have removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Estimate {
    pub mechanism: Mechanism,
    /// `None` where it cannot be estimated.
    pub removed_ns: Option<u64>,
    /// What it would have removed of single parts, by their index; never more than the part.
    pub parts: Vec<Removed>,
    /// Why nothing would have been removed, or why that cannot be estimated.
    pub because: Option<String>,
    /// What the estimate assumes.
    pub assumes: Vec<String>,
}

/// A removed share of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// The index of [`Explanation::parts`].
    pub part: usize,
    pub ns: u64,
}

/// The estimates of a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WhatIf {
    pub estimates: Vec<Estimate>,
    /// What they would have removed together: of a part that several shorten, each shortens what the others leave.
    pub removed_ns: u64,
    /// What would be left of each part; the sum is the window without `removed_ns`.
    pub left_ns: Vec<u64>,
}

/// What an estimate is made from.
struct Case<'t> {
    trace: &'t Trace,
    timelines: &'t Timelines,
    window: Window,
    explanation: &'t Explanation,
    /// Beside [`Explanation::path`].
    pieces: Vec<Piece>,
}

/// Why there is no estimate, in words that follow "because".
type Unknown = String;

/// A mechanism's estimate before it is added up: nanoseconds of each part, and what is said about them.
struct Found {
    removed_ns: Vec<u64>,
    nothing_because: Option<String>,
    assumes: Vec<String>,
}

impl Found {
    fn nothing(because: impl Into<String>) -> Self {
        Self { removed_ns: Vec::new(), nothing_because: Some(because.into()), assumes: Vec::new() }
    }
}

/// Estimates what `remedies` would have removed of the window that `explanation` explains.
pub fn what_if(
    trace: &Trace,
    timelines: &Timelines,
    (window, explanation): (Window, &Explanation),
    remedies: &Remedies,
) -> WhatIf {
    let pieces = path::walk(trace, timelines, window.thread, window.from_ns, window.to_ns);
    let case = Case { trace, timelines, window, explanation, pieces };
    let estimates = remedies.with.iter().map(|&mechanism| {
        let found = match mechanism {
            Mechanism::Launch => launch::estimate(&case, &remedies.launch, remedies.device.as_ref()),
            Mechanism::Placement => {
                let facts = remedies.device.as_ref().map(|device| device.threads.as_slice());
                placement::estimate(&case, &remedies.placement, facts)
            }
            Mechanism::Lookup => lookup::estimate(&case, &remedies.lookup),
            Mechanism::Memory => memory::estimate(&case, &remedies.memory),
        };
        Estimate::of(mechanism, explanation, found)
    });
    let estimates: Vec<Estimate> = estimates.collect();
    let parts = explanation.parts.iter().enumerate();
    let left_ns: Vec<u64> = parts.map(|(number, part)| left(part.ns, number, &estimates)).collect();
    let removed_ns = explanation.parts.iter().zip(&left_ns).map(|(part, left_ns)| part.ns - left_ns).sum();
    WhatIf { estimates, removed_ns, left_ns }
}

/// What is left of part `number` when each estimate takes its share of what the ones before it left.
fn left(ns: u64, number: usize, estimates: &[Estimate]) -> u64 {
    let shares = estimates.iter().flat_map(|it| &it.parts).filter(|removed| removed.part == number);
    shares.fold(ns, |left, removed| (u128::from(left) * u128::from(ns - removed.ns) / u128::from(ns.max(1))) as u64)
}

impl Estimate {
    fn of(mechanism: Mechanism, explanation: &Explanation, found: Result<Found, Unknown>) -> Self {
        let found = match found {
            Ok(found) => found,
            Err(unknown) => {
                let (parts, assumes) = (Vec::new(), Vec::new());
                return Self { mechanism, removed_ns: None, parts, because: Some(unknown), assumes };
            }
        };
        let whole = explanation.parts.iter().zip(&found.removed_ns).enumerate();
        // Sums of rounded pieces may exceed their part by some nanoseconds.
        let parts = whole.map(|(part, (whole, &ns))| Removed { part, ns: ns.min(whole.ns) });
        let parts: Vec<Removed> = parts.filter(|removed| removed.ns > 0).collect();
        let removed_ns = parts.iter().map(|removed| removed.ns).sum();
        let (because, assumes) = match removed_ns {
            0 => (found.nothing_because, Vec::new()),
            _ => (None, found.assumes),
        };
        Self { mechanism, removed_ns: Some(removed_ns), parts, because, assumes }
    }

    /// What it would have removed of `part`.
    pub fn of_part(&self, part: usize) -> u64 {
        self.parts.iter().find(|removed| removed.part == part).map_or(0, |removed| removed.ns)
    }
}

#[cfg(test)]
mod tests;
