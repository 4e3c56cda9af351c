//! An explanation as data for programs.

use serde::Serialize;

use crate::explain::{Explanation, Part};
use crate::launches::Launch;
use crate::model::{Counts, Tid, Trace};
use crate::remedy::{WhatIf, words};

/// The number of the schema; it rises when a field changes its meaning or goes.
pub const SCHEMA: u32 = 1;

/// All that `brisk trace explain --json` prints.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    pub schema: u32,
    pub trace: File<'a>,
    /// In the order in which they begin; empty where a process, a thread or a time is asked for.
    pub launches: &'a [Launch],
    pub windows: Vec<Window<'a>>,
}

/// The file.
#[derive(Debug, Serialize)]
pub struct File<'a> {
    pub format: &'a str,
    pub from_ns: u64,
    pub to_ns: u64,
    pub events: usize,
    pub counts: Counts,
    /// What is missing or wrong.
    pub missing: Vec<&'a str>,
}

/// A window. The parts' times add up to `to_ns - from_ns`, and so do the path's.
#[derive(Debug, Serialize)]
pub struct Window<'a> {
    pub thread: &'a str,
    pub tid: Tid,
    pub pid: Tid,
    pub from_ns: u64,
    pub to_ns: u64,
    pub sentence: String,
    pub parts: &'a [Part],
    /// What the mechanisms would have removed; `None` where that was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub what_if: Option<&'a WhatIf>,
    pub path: Vec<Step<'a>>,
}

/// A step of the path.
#[derive(Debug, Serialize)]
pub struct Step<'a> {
    pub from_ns: u64,
    pub to_ns: u64,
    pub thread: &'a str,
    pub tid: Tid,
    pub cpu: Option<u16>,
    pub khz: Option<u32>,
    pub shares: Vec<Share>,
}

/// The share of a part in a step.
#[derive(Debug, Serialize)]
pub struct Share {
    /// The index in the window's parts.
    pub part: usize,
    pub ns: u64,
}

impl<'a> File<'a> {
    /// The file, with what the timelines add to what is missing.
    pub fn of(trace: &'a Trace, missing: Vec<&'a str>) -> Self {
        Self {
            format: trace.format,
            from_ns: trace.start_ns(),
            to_ns: trace.end_ns(),
            events: trace.events.len(),
            counts: trace.counts,
            missing,
        }
    }
}

impl<'a> Window<'a> {
    /// The window of an explanation, with its estimates.
    pub fn of(explanation: &'a Explanation, what_if: Option<&'a WhatIf>) -> Self {
        let steps = explanation.path.iter().map(|step| Step {
            from_ns: step.from_ns,
            to_ns: step.to_ns,
            thread: &step.thread,
            tid: step.tid,
            cpu: step.cpu,
            khz: step.khz,
            shares: step.shares.iter().map(|&(part, ns)| Share { part, ns }).collect(),
        });
        Self {
            thread: &explanation.thread,
            tid: explanation.tid,
            pid: explanation.process,
            from_ns: explanation.from_ns,
            to_ns: explanation.to_ns,
            sentence: words::sentence(explanation, what_if),
            parts: &explanation.parts,
            what_if,
            path: steps.collect(),
        }
    }
}
