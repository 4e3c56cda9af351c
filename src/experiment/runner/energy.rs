//! Energy counters of the device, and what they are.

use std::path::PathBuf;

use crate::device::Root;

/// Counters that together cover the device's CPUs.
#[derive(Debug)]
pub(super) struct Meter {
    zones: Vec<Zone>,
}

#[derive(Debug)]
struct Zone {
    file: PathBuf,
    /// The counter starts again at zero after this.
    range_uj: u64,
}

impl Meter {
    /// The powercap zones that are not part of another one.
    pub(super) fn find(root: &Root) -> Self {
        const FOLDER: &str = "/sys/class/powercap";
        let names = root.list(FOLDER).unwrap_or_default();
        let top = names.iter().filter(|name| name.matches(':').count() == 1);
        let zones = top.filter_map(|name| {
            let folder = PathBuf::from(FOLDER).join(name);
            let file = folder.join("energy_uj");
            root.read_number::<u64>(&file).ok()?;
            Some(Zone { file, range_uj: root.read_number(folder.join("max_energy_range_uj")).ok()? })
        });
        Self { zones: zones.collect() }
    }

    /// What it is, for the result.
    pub(super) fn source(&self) -> Option<String> {
        let zone = self.zones.first()?;
        let model = zone.file.to_string_lossy().contains("virtual-cpufreq");
        Some(if model { "model" } else { "rapl" }.to_owned())
    }

    /// The counters now.
    pub(super) fn read(&self, root: &Root) -> Option<Vec<u64>> {
        let counters: Option<Vec<u64>> = self.zones.iter().map(|zone| root.read_number(&zone.file).ok()).collect();
        counters.filter(|counters| !counters.is_empty())
    }

    /// The energy between two readings, in millijoule.
    pub(super) fn between_mj(&self, before: &[u64], after: &[u64]) -> f64 {
        let spent = |((zone, &before), &after): ((&Zone, &u64), &u64)| {
            if after >= before { after - before } else { after + zone.range_uj - before }
        };
        self.zones.iter().zip(before).zip(after).map(spent).sum::<u64>() as f64 / 1000.0
    }
}
