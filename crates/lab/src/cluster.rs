//! Unequal CPUs as data, in the terms of a device tree: clusters of equal CPUs.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Value;

/// The capacity of a device's fastest CPU (Documentation/scheduler/sched-capacity.rst).
pub const FULL_CAPACITY: u32 = 1024;

/// More CPUs would share the host's, and none would have the stated speed.
const MOST_CPUS: u32 = 2;

/// What virtual-cpufreq accepts.
const MOST_PICOFARADS: u32 = 10_000;

/// `capacity-dmips-mhz` of the fastest CPU: large, so that every capacity is a whole number of the kernel's.
const FASTEST_DMIPS_MHZ: u64 = 100_000;

/// CPUs that are equal to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// How many CPUs; those of the first cluster have the lowest numbers.
    pub cpus: u32,
    /// The speed of one at its highest frequency, 1024 for the device's fastest CPU.
    pub capacity: u32,
    /// Its highest frequency, one of `frequencies_mhz` of virtual-cpufreq.
    pub maximum_mhz: u32,
    /// C of its power C·V²·f, as in a device tree's `dynamic-power-coefficient` (µW/MHz/V² are pF).
    pub capacitance_pf: u32,
}

/// The `value` of each CPU, in the order of their numbers.
pub fn of_each_cpu(clusters: &[Cluster], value: impl Fn(&Cluster) -> u32) -> Vec<u32> {
    clusters.iter().flat_map(|cluster| std::iter::repeat_n(value(cluster), cluster.cpus as usize)).collect()
}

/// The parameters of virtual-cpufreq; none without clusters.
pub fn parameters(clusters: &[Cluster]) -> BTreeMap<String, Value> {
    let list = |value: fn(&Cluster) -> u32| {
        of_each_cpu(clusters, value).into_iter().map(|value| Value::Integer(value.into())).collect()
    };
    let parameters = [
        ("maxima_mhz", list(|cluster| cluster.maximum_mhz)),
        ("capacities", list(|cluster| cluster.capacity)),
        ("capacitance_pf", list(|cluster| cluster.capacitance_pf)),
    ];
    let parameters = parameters.into_iter().filter(|_| !clusters.is_empty());
    parameters.map(|(name, values)| (name.to_owned(), Value::Array(values))).collect()
}

/// `capacity-dmips-mhz` of each CPU: the kernel multiplies it by the highest frequency, relates it to the greatest product, and
/// rounds down (`topology_normalize_cpu_scale` of drivers/base/arch_topology.c).
pub fn dmips_mhz(clusters: &[Cluster]) -> Vec<u32> {
    let full = u64::from(FULL_CAPACITY);
    let fastest = clusters.iter().filter(|cluster| cluster.capacity == FULL_CAPACITY);
    let greatest = fastest.map(|cluster| FASTEST_DMIPS_MHZ * u64::from(cluster.maximum_mhz)).max().unwrap_or(0);
    of_each_cpu(clusters, |cluster| {
        (u64::from(cluster.capacity) * greatest).div_ceil(full * u64::from(cluster.maximum_mhz)) as u32
    })
}

/// Why `clusters` do not describe a machine of `cpus` CPUs of `architecture` with these parameters of virtual-cpufreq.
pub fn contradiction(
    clusters: &[Cluster],
    cpus: u32,
    architecture: &str,
    driver: Option<&BTreeMap<String, Value>>,
) -> Option<String> {
    if clusters.is_empty() {
        return None;
    }
    if architecture != "arm64" {
        return Some(format!(
            "machine.cluster is for arm64: the kernel for {architecture} reads no capacities from a device tree"
        ));
    }
    let total: u64 = clusters.iter().map(|cluster| u64::from(cluster.cpus)).sum();
    if total > u64::from(MOST_CPUS) || clusters.iter().any(|cluster| cluster.cpus == 0) {
        return Some(format!("the clusters of a machine have one CPU each, and {MOST_CPUS} in total at most"));
    }
    if total != u64::from(cpus) {
        return Some(format!("machine.cpus is {cpus}, and the clusters have {total}"));
    }
    if let Some(wrong) = clusters.iter().find(|cluster| !(1..=FULL_CAPACITY).contains(&cluster.capacity)) {
        return Some(format!("machine.cluster has capacity = {}: it is 1 to {FULL_CAPACITY}", wrong.capacity));
    }
    let fastest = clusters.iter().filter(|cluster| cluster.capacity == FULL_CAPACITY).count();
    if clusters.len() < 2 || fastest != 1 {
        return Some(format!(
            "machine.cluster is for unequal CPUs: one cluster has capacity = {FULL_CAPACITY}, another one less"
        ));
    }
    let Some(frequencies) = driver.and_then(|driver| driver.get("frequencies_mhz")?.as_array()) else {
        return Some("machine.cluster needs the module virtual-cpufreq with its parameter frequencies_mhz".into());
    };
    if let Some(name) = parameters(clusters).into_keys().find(|name| driver.is_some_and(|it| it.contains_key(name))) {
        return Some(format!("the module's parameter {name} comes from machine.cluster: leave it out"));
    }
    let is_known = |mhz: u32| frequencies.contains(&Value::Integer(mhz.into()));
    if let Some(wrong) = clusters.iter().find(|cluster| !is_known(cluster.maximum_mhz)) {
        return Some(format!("machine.cluster has maximum_mhz = {}: frequencies_mhz lacks it", wrong.maximum_mhz));
    }
    let wrong = clusters.iter().find(|cluster| !(1..=MOST_PICOFARADS).contains(&cluster.capacitance_pf));
    wrong.map(|wrong| {
        format!("machine.cluster has capacitance_pf = {}: it is 1 to {MOST_PICOFARADS}", wrong.capacitance_pf)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Cluster = Cluster { cpus: 1, capacity: 407, maximum_mhz: 800, capacitance_pf: 154 };
    const BIG: Cluster = Cluster { cpus: 1, capacity: 1024, maximum_mhz: 1200, capacitance_pf: 442 };

    // Verifies LAB-3.
    #[test]
    fn wrong_clusters_are_refused_with_the_reason() {
        let driver = |text: &str| Some(text.parse::<toml::Table>().unwrap().into_iter().collect());
        let mhz = driver("frequencies_mhz = [200, 800, 1200]");
        let little = |capacity, maximum_mhz, capacitance_pf| Cluster { cpus: 1, capacity, maximum_mhz, capacitance_pf };
        for (clusters, cpus, architecture, driver, expected) in [
            (vec![], 8, "amd64", None, None),
            (vec![LITTLE, BIG], 2, "arm64", mhz.clone(), None),
            (vec![LITTLE, BIG], 2, "amd64", mhz.clone(), Some("machine.cluster is for arm64")),
            (vec![LITTLE, BIG], 1, "arm64", mhz.clone(), Some("machine.cpus is 1, and the clusters have 2")),
            (vec![LITTLE, Cluster { cpus: 3, ..BIG }], 4, "arm64", mhz.clone(), Some("2 in total at most")),
            (vec![LITTLE, LITTLE, BIG], 3, "arm64", mhz.clone(), Some("2 in total at most")),
            (vec![Cluster { cpus: u32::MAX, ..LITTLE }; 2], 2, "arm64", mhz.clone(), Some("2 in total at most")),
            (vec![Cluster { cpus: 0, ..LITTLE }, BIG], 1, "arm64", mhz.clone(), Some("have one CPU each")),
            (vec![little(0, 800, 154), BIG], 2, "arm64", mhz.clone(), Some("capacity = 0: it is 1 to 1024")),
            (vec![little(1025, 800, 154), BIG], 2, "arm64", mhz.clone(), Some("capacity = 1025: it is 1 to 1024")),
            (vec![LITTLE, LITTLE], 2, "arm64", mhz.clone(), Some("one cluster has capacity = 1024, another one less")),
            (vec![BIG, BIG], 2, "arm64", mhz.clone(), Some("another one less")),
            (vec![BIG], 1, "arm64", mhz.clone(), Some("another one less")),
            (vec![LITTLE, BIG], 2, "arm64", None, Some("needs the module virtual-cpufreq")),
            (vec![LITTLE, BIG], 2, "arm64", driver(""), Some("with its parameter frequencies_mhz")),
            (
                vec![LITTLE, BIG],
                2,
                "arm64",
                driver("frequencies_mhz = [800, 1200]\ncapacities = [1, 2]"),
                Some("parameter capacities comes from machine.cluster"),
            ),
            (vec![little(407, 700, 154), BIG], 2, "arm64", mhz.clone(), Some("maximum_mhz = 700: frequencies_mhz")),
            (vec![little(407, 800, 0), BIG], 2, "arm64", mhz.clone(), Some("capacitance_pf = 0: it is 1 to 10000")),
            (vec![little(407, 800, 10_001), BIG], 2, "arm64", mhz, Some("capacitance_pf = 10001")),
        ] {
            let found = contradiction(&clusters, cpus, architecture, driver.as_ref());
            assert_eq!(found.is_some(), expected.is_some(), "{clusters:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{clusters:?}: {expected:?}");
        }
    }

    /// As the kernel computes it.
    fn capacities(dmips_mhz: &[u32], maxima_mhz: &[u32]) -> Vec<u32> {
        let products: Vec<u64> = dmips_mhz.iter().zip(maxima_mhz).map(|(&a, &b)| u64::from(a) * u64::from(b)).collect();
        let greatest = *products.iter().max().unwrap();
        products.iter().map(|product| ((product << 10) / greatest) as u32).collect()
    }

    // Verifies LAB-3.
    #[test]
    fn the_kernel_computes_every_capacity_as_stated() {
        for capacity in 1..FULL_CAPACITY {
            for (little_mhz, big_mhz) in [(800, 1200), (1200, 1200), (1200, 800), (1, 10_000), (10_000, 200)] {
                let little = Cluster { capacity, maximum_mhz: little_mhz, ..LITTLE };
                for clusters in [
                    [little, Cluster { maximum_mhz: big_mhz, ..BIG }],
                    [Cluster { maximum_mhz: big_mhz, ..BIG }, little],
                ] {
                    let maxima = of_each_cpu(&clusters, |cluster| cluster.maximum_mhz);
                    let stated = of_each_cpu(&clusters, |cluster| cluster.capacity);
                    assert_eq!(capacities(&dmips_mhz(&clusters), &maxima), stated, "{clusters:?}");
                }
            }
        }
    }
}
