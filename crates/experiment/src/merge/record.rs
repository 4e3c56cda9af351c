//! One shard's two files, parsed and checked against the schedule of their experiment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::fault::{Fault, FaultKind};
use crate::catalogue::Entry;
use crate::conduct::Run;
use crate::plan::{Line, Measured, Replicate};
use crate::schedule::blocks;
use crate::shard::Shard;
use crate::spec::Experiment;
use crate::store::Header;
use brisk_report::proof::{DeviceDescription, Timekeeping};

/// The most replicates of an experiment: a forged file must not fill the memory.
const MOST_REPLICATES: u64 = 100_000;

/// The files of a shard's folder, unparsed.
#[derive(Debug, Clone)]
pub struct Record {
    /// The folder, for messages.
    pub folder: PathBuf,
    /// `run.json`.
    pub header: Vec<u8>,
    /// `replicates.jsonl`.
    pub lines: Vec<u8>,
}

/// A shard's record that is whole in itself.
#[derive(Debug)]
pub struct Part {
    pub folder: PathBuf,
    pub header: Header,
    pub shard: Shard,
    pub entry: Entry,
    /// The number of counted replicates of the experiment: warm-ups have higher numbers.
    count: u32,
    measured: BTreeMap<u32, Measured>,
    others: Vec<Line>,
}

impl Part {
    /// Parses `record`, which brisk `version` must have written.
    pub fn of(record: Record, version: &str) -> Result<Self, Fault> {
        let Record { folder, header, lines } = record;
        let fault = |kind, reason| Fault { folder: folder.clone(), kind, reason };
        let damaged = |reason| fault(FaultKind::Damaged, reason);
        let header: Header = serde_json::from_slice(&header).map_err(|error| damaged(format!("run.json: {error}")))?;
        if header.brisk != version {
            let reason = format!("brisk {} measured it, and this is brisk {version}", header.brisk);
            return Err(fault(FaultKind::Foreign, reason));
        }
        let entry = entry(&folder, &header).map_err(damaged)?;
        // Whole runs of the lab are the same device again.
        if header.shard.is_none() && entry.experiment.mode != Timekeeping::Native {
            let reason = "it was measured neither with --shard nor with --here".to_owned();
            return Err(fault(FaultKind::Foreign, reason));
        }
        let shard = header.shard.unwrap_or(Shard::with(0, 1));
        let all = schedule(&entry, &header);
        let count = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let points = entry.experiment.points(header.quick);
        let points: Vec<String> = points.iter().map(ToString::to_string).collect();
        let (mut measured, mut others) = (BTreeMap::new(), Vec::new());
        for (number, line) in parse(&lines).map_err(damaged)? {
            match line {
                Line::Measured(line) => {
                    check(&line, &all, &entry.experiment, &points, shard)
                        .map_err(|(kind, reason)| fault(kind, format!("replicates.jsonl, line {number}: {reason}")))?;
                    // A refused replicate that was measured again: the last line counts, as in a resumed run.
                    measured.insert(line.replicate, line);
                }
                Line::Device { .. } | Line::SelfCheck { .. } | Line::Note { .. } => others.push(line),
                Line::Started { .. } | Line::Failed { .. } => {}
            }
        }
        if header.devices.is_empty() && !measured.is_empty() {
            return Err(damaged("run.json does not name the device of its measurements".into()));
        }
        Ok(Self { folder, header, shard, entry, count, measured, others })
    }

    pub fn fault(&self, kind: FaultKind, reason: String) -> Fault {
        Fault { folder: self.folder.clone(), kind, reason }
    }

    /// Whether a device measured all of the experiment by itself.
    pub fn is_whole(&self) -> bool {
        self.header.shard.is_none()
    }

    /// Whether all replicates have the same figures, which two measurements never have.
    pub fn has_same_figures(&self, other: &Self) -> bool {
        self.measured == other.measured
    }

    /// Whether it has a measured or refused replicate.
    pub fn has_measured(&self) -> bool {
        !self.measured.is_empty()
    }

    /// The numbers of its measured and refused replicates, without warm-ups.
    pub fn counted(&self) -> impl Iterator<Item = u32> {
        self.measured.range(..self.count).map(|(&id, _)| id)
    }

    /// All counted replicates of the experiment.
    pub fn schedule(&self) -> Vec<Replicate> {
        schedule(&self.entry, &self.header)
    }

    /// The devices that measured.
    pub fn devices(&self) -> impl Iterator<Item = &DeviceDescription> {
        self.others.iter().filter_map(|line| match line {
            Line::Device { device } => Some(device),
            _ => None,
        })
    }

    /// All of its lines.
    pub fn into_lines(self) -> impl Iterator<Item = Line> {
        self.others.into_iter().chain(self.measured.into_values().map(Line::Measured))
    }
}

fn schedule(entry: &Entry, header: &Header) -> Vec<Replicate> {
    let run = Run { experiment: &entry.experiment, quick: header.quick, seed: header.seed, shard: None };
    blocks(&run.design())
}

/// The experiment of the header, in its form.
fn entry(folder: &Path, header: &Header) -> Result<Entry, String> {
    let origin = format!("the experiment in {}", folder.join("run.json").display());
    let experiment = Experiment::parse(&origin, &header.experiment).map_err(|error| error.to_string())?;
    let experiment = if header.quick { experiment.in_quick_form() } else { experiment };
    let most = experiment.replicates_by_point(header.quick).into_iter().map(u64::from).max().unwrap_or(0);
    let cells = experiment.arms.len() as u64 * experiment.points(header.quick).len() as u64;
    if most.saturating_mul(cells) > MOST_REPLICATES {
        return Err(format!("{origin} has more than {MOST_REPLICATES} replicates"));
    }
    Ok(Entry { experiment, text: header.experiment.clone() })
}

/// The lines of `bytes`, each with its number. The last one may be torn: its replicate is missing then.
fn parse(bytes: &[u8]) -> Result<Vec<(usize, Line)>, String> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(bytes.split_inclusive(|&byte| byte == b'\n')) {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let line = serde_json::from_slice(line);
        lines.push((number, line.map_err(|error| format!("replicates.jsonl, line {number}: {error}"))?));
    }
    Ok(lines)
}

/// Checks a measured line against the schedule `all`. Warm-ups are not in it.
fn check(
    line: &Measured,
    all: &[Replicate],
    experiment: &Experiment,
    points: &[String],
    shard: Shard,
) -> Result<(), (FaultKind, String)> {
    let damaged = |reason| Err((FaultKind::Damaged, reason));
    let Measured { replicate: id, arm, point, .. } = line;
    if experiment.arm(arm).is_none() || !points.contains(point) {
        return damaged(format!("the experiment has no {arm:?} at {point:?}"));
    }
    let Some(planned) = all.get(*id as usize) else { return Ok(()) };
    let (planned_arm, planned_point) = (&experiment.arms[planned.arm].name, &points[planned.point]);
    if (planned_arm, planned_point) != (arm, point) {
        return damaged(format!(
            "replicate {id} is {arm:?} at {point:?}, and {planned_arm:?} at {planned_point:?} in the schedule"
        ));
    }
    if !shard.holds(planned.block) {
        let other = Shard::with(planned.block, shard.count());
        return Err((
            FaultKind::Foreign,
            format!("replicate {id} belongs to shard {other}, and the folder is {shard}"),
        ));
    }
    Ok(())
}
