//! The capacity of each CPU, 1024 for the device's fastest: `cpu_capacity` (Documentation/scheduler/sched-capacity.rst), or, on
//! kernels and architectures without it, its highest frequency against the highest of all.

use std::collections::BTreeMap;

use crate::Root;
use crate::cpu::hotplug;

const CAPACITY_SCALE: u64 = 1024;

/// The capacities of `cpus`; a CPU with neither file counts as the fastest.
pub fn of(root: &Root, cpus: &[u32]) -> BTreeMap<u32, u32> {
    let read = |cpu: u32, file: &str| root.read_number::<u64>(format!("{}/cpu{cpu}/{file}", hotplug::CPU_FOLDER)).ok();
    let capacities: Vec<_> = cpus.iter().map(|&cpu| read(cpu, "cpu_capacity")).collect();
    // Two scales cannot be mixed: frequencies are used only where no CPU has a capacity.
    let has_capacities = capacities.iter().any(Option::is_some);
    let frequencies: Vec<_> = cpus.iter().map(|&cpu| read(cpu, "cpufreq/cpuinfo_max_freq")).collect();
    let fastest = frequencies.iter().flatten().copied().max().unwrap_or(0).max(1);
    let of_frequency = |khz: u64| (u128::from(khz) * u128::from(CAPACITY_SCALE) / u128::from(fastest)) as u64;
    let capacity = |index: usize| {
        let known = if has_capacities { capacities[index] } else { frequencies[index].map(of_frequency) };
        known.unwrap_or(CAPACITY_SCALE).clamp(1, CAPACITY_SCALE) as u32
    };
    cpus.iter().enumerate().map(|(index, &cpu)| (cpu, capacity(index))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn capacities_take_precedence_over_frequencies() {
        let (capacity, frequency) = ("cpu_capacity", "cpufreq/cpuinfo_max_freq");
        for (files, expected) in [
            (vec![], [1024; 3]),
            (vec![(0, capacity, "446"), (1, capacity, "446"), (2, capacity, "1024")], [446, 446, 1024]),
            (vec![(0, capacity, "446"), (2, frequency, "9000")], [446, 1024, 1024]),
            (vec![(0, frequency, "1200000"), (1, frequency, "600000"), (2, frequency, "0")], [1024, 512, 1]),
            (vec![(0, capacity, "much"), (1, capacity, "99999999999")], [1024; 3]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::at(folder.path());
            for (cpu, file, text) in &files {
                let path = root.path(format!("{}/cpu{cpu}/{file}", hotplug::CPU_FOLDER));
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            assert_eq!(of(&root, &[0, 1, 2]).into_values().collect::<Vec<_>>(), expected, "{files:?}");
        }
    }
}
