//! Which shards are parts of one run.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::record::Part;
use brisk_report::proof::Timekeeping;

/// What all parts of a run have in common, besides the experiment's name and form.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity<'a> {
    seed: u64,
    /// Whether it is a whole run. Those of several devices differ in all that follows.
    is_whole: bool,
    /// The digest of the programs that measure.
    program: &'a str,
    /// The experiment's file.
    experiment: &'a str,
    /// Scenario and kernel, as their place describes them; empty without measurements.
    devices: &'a str,
    /// On users' devices, what measured: in the lab, guests are the same on any processor.
    processor: Option<String>,
}

impl<'a> Identity<'a> {
    fn of(part: &'a Part) -> Self {
        let is_native = part.entry.experiment.mode == Timekeeping::Native;
        // The amount of memory differs a little between devices of one kind.
        let processor = part.devices().next().filter(|_| is_native).map(|device| {
            let energy = device.energy_source.as_deref().unwrap_or("nothing");
            format!("{}, {} CPUs, energy by {energy}", device.processor, device.cpu_count)
        });
        let header = &part.header;
        let experiment = &header.experiment;
        if part.is_whole() {
            return Self { seed: header.seed, is_whole: true, program: "", experiment, devices: "", processor: None };
        }
        Self {
            seed: header.seed,
            is_whole: false,
            program: &header.program,
            experiment,
            devices: &header.devices,
            processor,
        }
    }
}

/// The part with which most others belong together; of equally many, the first. Parts with measurements precede others.
pub fn of_most(parts: &[Part]) -> Option<&Part> {
    let mut counts: BTreeMap<Identity<'_>, (usize, Reverse<usize>)> = BTreeMap::new();
    for (index, part) in parts.iter().enumerate().filter(|(_, part)| part.has_measured()) {
        counts.entry(Identity::of(part)).or_insert((0, Reverse(index))).0 += 1;
    }
    let most = counts.into_values().max();
    parts.get(most.map_or(0, |(_, Reverse(index))| index))
}

/// Why `part` does not belong together with `kin`, if so. What has not measured has no device yet.
pub fn difference(part: &Part, kin: &Part) -> Option<String> {
    let (ours, theirs) = (Identity::of(part), Identity::of(kin));
    let folder = kin.folder.display();
    let differ = |what: &str, ours: &str, theirs: &str| Some(format!("{what} {ours}, and {theirs} in {folder}"));
    if ours.experiment != theirs.experiment {
        return Some(format!("the experiment's file is not that of {folder}"));
    }
    if ours.seed != theirs.seed {
        return differ("its seed is", &ours.seed.to_string(), &theirs.seed.to_string());
    }
    if ours.is_whole != theirs.is_whole {
        let kind = |is_whole| if is_whole { "a whole run" } else { "a shard" };
        return differ("it is", kind(ours.is_whole), kind(theirs.is_whole));
    }
    if ours.program != theirs.program {
        return differ("another build of brisk measured it:", ours.program, theirs.program);
    }
    if !ours.devices.is_empty() && !theirs.devices.is_empty() && ours.devices != theirs.devices {
        return differ(
            "the scenario, the kernel or something else of the device differs:",
            ours.devices,
            theirs.devices,
        );
    }
    match (ours.processor, theirs.processor) {
        (Some(ours), Some(theirs)) if ours != theirs => differ("another kind of device measured it:", &ours, &theirs),
        _ => None,
    }
}
