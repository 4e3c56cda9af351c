//! Joins the shards of experiments: checks that they belong together, and that each replicate was measured once. Whole runs that
//! several devices did by themselves are joined as well: each device keeps its own blocks.
//!
//! The result does not depend on how an experiment was divided, nor on the order of the folders: lines are sorted before they
//! are used. Folders are only read.

mod devices;
mod fault;
mod files;
mod identity;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::catalogue::Entry;
use super::conduct::{DeviceFindings, Findings, Run};
use super::plan::Line;
use super::shard::Shard;
use super::store::Header;
pub use fault::{Fault, FaultKind};
pub use files::records;
use record::Part;
pub use record::Record;

/// What was found in the folders of shards.
#[derive(Debug, Default)]
pub struct Merged {
    /// The experiments, by name and form.
    pub experiments: Vec<Joined>,
    /// The replicates that no shard has.
    pub missing: Vec<Missing>,
    /// What cannot be joined.
    pub faults: Vec<Fault>,
}

/// An experiment with all that was measured of it.
#[derive(Debug)]
pub struct Joined {
    /// The experiment in its form, and its file's text.
    pub entry: Entry,
    /// What its parts have in common, with the earliest start and without a shard.
    pub header: Header,
    /// The devices that measured it, by name: one for all shards, or one for each whole run.
    pub devices: Vec<Device>,
}

/// What one device measured, or all machines of a farm as one.
#[derive(Debug)]
pub struct Device {
    /// Its name: the folder of its results; empty for a farm.
    pub name: String,
    /// The header of its run.
    pub header: Header,
    /// First what is known of the device, then the replicates by number.
    pub lines: Vec<Line>,
}

impl Joined {
    /// The run that one machine would have done.
    pub fn run(&self) -> Run<'_> {
        Run { experiment: &self.entry.experiment, quick: self.header.quick, seed: self.header.seed, shard: None }
    }

    /// What each device has found.
    pub fn findings(&self) -> Vec<DeviceFindings> {
        let of_device = |Device { name, lines, .. }: &Device| {
            let mut findings = Findings::default();
            lines.iter().cloned().for_each(|line| findings.add(line));
            DeviceFindings { name: name.clone(), findings }
        };
        self.devices.iter().map(of_device).collect()
    }
}

/// Replicates of an experiment that no shard has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The experiment.
    pub experiment: String,
    /// True for its quick form.
    pub quick: bool,
    /// How many replicates are missing.
    pub replicates: usize,
    /// How many the experiment has.
    pub of: usize,
    /// The shards that measure them.
    pub shards: Vec<Shard>,
}

/// Joins `records` that brisk `version` wrote.
pub fn join(records: Vec<Record>, version: &str) -> Merged {
    let mut merged = Merged::default();
    let mut groups: BTreeMap<(String, bool), Vec<Part>> = BTreeMap::new();
    for record in records {
        match Part::of(record, version) {
            Ok(part) => {
                let key = (part.entry.experiment.name.clone(), part.header.quick);
                groups.entry(key).or_default().push(part);
            }
            Err(fault) => merged.faults.push(fault),
        }
    }
    for mut parts in groups.into_values() {
        parts.sort_by(|one, other| one.folder.cmp(&other.folder));
        let Some(kin) = identity::of_most(&parts) else { continue };
        let strange = parts.iter().map(|part| identity::difference(part, kin)).collect::<Vec<_>>();
        let (mut kindred, mut faults) = (Vec::new(), Vec::new());
        for (part, difference) in parts.into_iter().zip(strange) {
            match difference {
                Some(reason) => faults.push(part.fault(FaultKind::Foreign, reason)),
                None => kindred.push(part),
            }
        }
        merged.faults.extend(faults);
        if kindred.iter().all(Part::is_whole) {
            let (sound, faults) = devices::sound(kindred);
            merged.faults.extend(faults);
            merged.experiments.extend(devices::joined(sound));
        } else {
            merged.faults.extend(doubles(&kindred));
            merged.missing.extend(missing(&kindred));
            merged.experiments.extend(joined(kindred));
        }
    }
    merged.faults.sort();
    merged
}

/// A fault for each part with counted replicates that an earlier part has.
fn doubles(parts: &[Part]) -> Vec<Fault> {
    let mut holders: BTreeMap<u32, &Path> = BTreeMap::new();
    let mut faults = Vec::new();
    for part in parts {
        let mut shared: BTreeMap<&Path, Vec<u32>> = BTreeMap::new();
        for id in part.counted() {
            match holders.get(&id) {
                Some(&holder) => shared.entry(holder).or_default().push(id),
                None => drop(holders.insert(id, &part.folder)),
            }
        }
        faults.extend(shared.into_iter().map(|(holder, ids)| {
            let (first, count) = (ids.first().copied().unwrap_or(0), ids.len());
            let holder = holder.display();
            part.fault(
                FaultKind::Double,
                format!("{count} of its replicates, the first is {first}, are also in {holder}"),
            )
        }));
    }
    faults
}

/// What no part has, if anything.
fn missing(parts: &[Part]) -> Option<Missing> {
    let first = parts.first()?;
    let found: BTreeSet<u32> = parts.iter().flat_map(Part::counted).collect();
    let all = first.schedule();
    let lacking: Vec<_> = all.iter().filter(|replicate| !found.contains(&replicate.id)).collect();
    let used: BTreeSet<Shard> = parts.iter().map(|part| part.shard).collect();
    let count = used.iter().map(|shard| shard.count()).max()?;
    let of_block = |block| {
        // The same shard goes on where it stopped; a block of a shard that never began belongs to the finest division.
        let begun = used.iter().filter(|shard| shard.holds(block)).max_by_key(|shard| shard.count());
        begun.copied().unwrap_or(Shard::with(block, count))
    };
    let shards: BTreeSet<Shard> = lacking.iter().map(|replicate| of_block(replicate.block)).collect();
    (!lacking.is_empty()).then(|| Missing {
        experiment: first.entry.experiment.name.clone(),
        quick: first.header.quick,
        replicates: lacking.len(),
        of: all.len(),
        shards: shards.into_iter().collect(),
    })
}

/// The parts as one run. The order of lines depends on the lines alone.
fn joined(parts: Vec<Part>) -> Option<Joined> {
    let started = parts.iter().map(|part| part.header.started.clone()).min()?;
    let devices = parts.iter().map(|part| part.header.devices.clone()).max()?;
    let first = parts.first()?;
    let header = Header { started, devices, shard: None, ..first.header.clone() };
    let entry = first.entry.clone();
    let lines = sorted(parts.into_iter().flat_map(Part::into_lines));
    Some(Joined { entry, header: header.clone(), devices: vec![Device { name: String::new(), header, lines }] })
}

/// Lines by the replicate's number, then by the text; what is known of the devices comes first.
fn sorted(all: impl Iterator<Item = Line>) -> Vec<Line> {
    let mut lines: BTreeMap<(Option<u32>, String), Line> = BTreeMap::new();
    for line in all {
        let number = match &line {
            Line::Measured(measured) => Some(measured.replicate),
            _ => None,
        };
        let text = serde_json::to_string(&line).unwrap_or_default();
        lines.insert((number, text), line);
    }
    lines.into_values().collect()
}
