//! The parts of a run: which blocks a shard measures, and on which device.

use std::collections::BTreeSet;

use super::{Findings, Run};
use crate::plan::Plan;
use crate::schedule::{Design, blocks, share};
use brisk_report::proof::Timekeeping;

impl Run<'_> {
    /// Whether `block` is measured here.
    pub(super) fn has_block(&self, block: u32) -> bool {
        self.shard.is_none_or(|shard| shard.holds(block))
    }

    /// Whether each block starts on a device of its own, so that its figures do not depend on the other blocks of its shard.
    /// Only deterministic figures are the same on another machine.
    pub fn has_independent_blocks(&self) -> bool {
        self.shard.is_some() && self.experiment.mode == Timekeeping::Deterministic
    }

    /// The replicates that are not measured again. An independent block counts only as a whole: the rest of it alone would
    /// begin on another device than the block did.
    pub(super) fn done(&self, findings: &Findings) -> BTreeSet<u32> {
        let measured = || findings.measured.keys().copied().collect();
        if !self.has_independent_blocks() {
            return measured();
        }
        let all = blocks(&self.design());
        let is_missing = |id: u32| !findings.measured.contains_key(&id);
        let cut: BTreeSet<u32> = all.iter().filter(|it| is_missing(it.id)).map(|it| it.block).collect();
        all.iter().filter(|it| !cut.contains(&it.block)).map(|it| it.id).collect()
    }

    /// The plans of each device, without the replicates in `skipped`.
    pub(super) fn plans_by_device(&self, design: &Design, devices: u32, skipped: &BTreeSet<u32>) -> Vec<Vec<Plan>> {
        let plans = |(device, devices)| self.plans(&share(design, device, devices, skipped));
        let numbers = 0..devices;
        let Some(shard) = self.shard else { return numbers.map(|device| plans((device, devices))).collect() };
        if !self.has_independent_blocks() {
            return numbers.map(|device| plans(shard.device(device, devices))).collect();
        }
        let mut by_device: Vec<Vec<Plan>> = numbers.map(|_| Vec::new()).collect();
        let mine = (0..design.blocks()).filter(|&block| shard.holds(block));
        let places = (0..by_device.len()).cycle();
        // To the schedule, each block has a device of its own, with its own warm-ups.
        mine.zip(places).for_each(|(block, place)| by_device[place].extend(plans((block, design.blocks()))));
        by_device
    }
}
