//! Control groups that an arm makes by hand: one for the foreground and one for the background, with fixed limits.

use serde::{Deserialize, Serialize};

use brisk_sys::cgroup::hierarchy::Hierarchy;

/// The period of a limit of CPU time: the kernel's default.
const PERIOD_US: u64 = 100_000;
/// The greatest weight that BFQ accepts.
const MAXIMUM_STORAGE_WEIGHT: u32 = 1000;
/// The default weight in version 2, and the shares in version 1 that mean the same.
const DEFAULT_WEIGHT: u32 = 100;
/// The weight of a group of version 1 that has no other.
pub const DEFAULT_SHARES: u32 = 1024;

/// The two groups of an arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupsByHand {
    /// The version of control groups.
    pub cgroup: GroupVersion,
    /// The foreground's group.
    pub foreground: GroupByHand,
    /// The group of all background programs.
    pub background: GroupByHand,
}

/// A version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupVersion {
    /// A hierarchy for `cpu` and another one for `cpuset`.
    V1,
    /// One hierarchy.
    V2,
}

/// What a group gets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupByHand {
    /// Its CPUs, as the kernel lists them: `0`, `0-1`. All when absent.
    pub cpus: Option<String>,
    /// True: its CPUs belong to no other group. In version 2 they are a partition, which also keeps the tasks of the root group off.
    #[serde(default)]
    pub exclusive: bool,
    /// Its weight against the other group on each CPU that both want; 100 is the kernel's default, in version 1 `cpu.shares` of 1024.
    pub weight: Option<u32>,
    /// The most CPU time that it gets, in % of one CPU.
    pub maximum_percent: Option<u32>,
    /// Its weight for disks with the scheduler BFQ (`io.bfq.weight`); 100 is the kernel's default. Version 2 only.
    pub storage_weight: Option<u32>,
    /// Memory that is not reclaimed from it while other groups have any (`memory.low`), in MiB. Version 2 only.
    pub protected_mib: Option<u32>,
}

impl GroupsByHand {
    /// Groups of version 2 without limits.
    pub fn unlimited() -> Self {
        let [foreground, background] = [GroupByHand::default(), GroupByHand::default()];
        Self { cgroup: GroupVersion::V2, foreground, background }
    }

    /// The hierarchies in which the groups are made: in version 1 only those whose controller has something to do, since a
    /// cpuset without CPUs accepts no task.
    pub fn hierarchies(&self) -> Vec<Hierarchy> {
        match self.cgroup {
            GroupVersion::V2 => vec![Hierarchy::Unified],
            GroupVersion::V1 => {
                let has_cpus = self.foreground.cpus.is_some();
                let cpuset = has_cpus.then_some(Hierarchy::Cpuset);
                let has_time = [&self.foreground, &self.background].iter().any(|group| group.has_cpu_time());
                cpuset.into_iter().chain(has_time.then_some(Hierarchy::Cpu)).collect()
            }
        }
    }

    /// The first fault.
    pub(super) fn fault(&self) -> Option<&'static str> {
        let both = [&self.foreground, &self.background];
        if self.foreground.cpus.is_some() != self.background.cpus.is_some() {
            return Some("`cpus` are set for both groups or for none");
        }
        if both.iter().any(|group| group.exclusive && group.cpus.is_none()) {
            return Some("`exclusive` needs `cpus`");
        }
        let is_weight = |weight: u32| (1..=10_000).contains(&weight);
        if both.iter().any(|group| group.weight.is_some_and(|weight| !is_weight(weight))) {
            return Some("a weight is 1 to 10000");
        }
        if both.iter().any(|group| group.maximum_percent == Some(0)) {
            return Some("maximum_percent must be above zero");
        }
        let mut storage_weights = both.iter().filter_map(|group| group.storage_weight);
        if storage_weights.any(|weight| !(1..=MAXIMUM_STORAGE_WEIGHT).contains(&weight)) {
            return Some("a storage_weight is 1 to 1000");
        }
        let needs_version_2 = |group: &&GroupByHand| group.storage_weight.is_some() || group.protected_mib.is_some();
        if self.cgroup == GroupVersion::V1 && both.iter().any(needs_version_2) {
            return Some("storage_weight and protected_mib need version 2");
        }
        let is_empty = both.iter().all(|group| **group == GroupByHand::default());
        is_empty.then_some("nothing is set")
    }
}

impl GroupByHand {
    fn has_cpu_time(&self) -> bool {
        self.weight.is_some() || self.maximum_percent.is_some()
    }

    /// The files of its group in `hierarchy` and their values, in the order in which they are written, as
    /// [`brisk_sys::cgroup::group::make`] takes them.
    pub fn settings(&self, hierarchy: Hierarchy) -> String {
        let cpus = self.cpus.iter().map(|cpus| format!("cpuset.cpus={cpus}"));
        let quota_us = self.maximum_percent.map(|percent| u64::from(percent) * PERIOD_US / 100);
        let settings: Vec<String> = match hierarchy {
            Hierarchy::Unified => {
                let partition = self.exclusive.then(|| "cpuset.cpus.partition=root".to_owned());
                let weight = self.weight.map(|weight| format!("cpu.weight={weight}"));
                let limit = quota_us.map(|quota_us| format!("cpu.max={quota_us} {PERIOD_US}"));
                let storage = self.storage_weight.map(|weight| format!("io.bfq.weight={weight}"));
                let protected = self.protected_mib.map(|mib| format!("memory.low={}", u64::from(mib) << 20));
                cpus.chain(partition).chain(weight).chain(limit).chain(storage).chain(protected).collect()
            }
            Hierarchy::Cpuset => cpus.chain(self.exclusive.then(|| "cpuset.cpu_exclusive=1".to_owned())).collect(),
            Hierarchy::Cpu => {
                let shares =
                    self.weight.map(|weight| format!("cpu.shares={}", weight * DEFAULT_SHARES / DEFAULT_WEIGHT));
                let period = quota_us.map(|_| format!("cpu.cfs_period_us={PERIOD_US}"));
                let quota = quota_us.map(|quota_us| format!("cpu.cfs_quota_us={quota_us}"));
                shares.into_iter().chain(period).chain(quota).collect()
            }
        };
        settings.join("\t")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(text: &str) -> GroupsByHand {
        toml::from_str(text).unwrap()
    }

    // Verifies PLACE-7.
    #[test]
    fn each_version_writes_its_own_files() {
        let core = "foreground = { cpus = '1', exclusive = true, weight = 200, maximum_percent = 50 }\n\
                    background = { cpus = '0' }";
        let [version_1, version_2] = ["v1", "v2"].map(|version| groups(&format!("cgroup = '{version}'\n{core}")));
        assert_eq!(version_1.hierarchies(), [Hierarchy::Cpuset, Hierarchy::Cpu]);
        assert_eq!(version_2.hierarchies(), [Hierarchy::Unified]);
        for (hierarchy, foreground, background) in [
            (Hierarchy::Cpuset, "cpuset.cpus=1\tcpuset.cpu_exclusive=1", "cpuset.cpus=0"),
            (Hierarchy::Cpu, "cpu.shares=2048\tcpu.cfs_period_us=100000\tcpu.cfs_quota_us=50000", ""),
            (
                Hierarchy::Unified,
                "cpuset.cpus=1\tcpuset.cpus.partition=root\tcpu.weight=200\tcpu.max=50000 100000",
                "cpuset.cpus=0",
            ),
        ] {
            assert_eq!(version_1.foreground.settings(hierarchy), foreground, "{hierarchy:?}");
            assert_eq!(version_1.background.settings(hierarchy), background, "{hierarchy:?}");
        }
        let half = groups("cgroup = 'v1'\nforeground = { weight = 100 }\nbackground = { weight = 100 }");
        assert_eq!(half.hierarchies(), [Hierarchy::Cpu], "a cpuset without CPUs accepts no task");
        let other =
            groups("cgroup = 'v2'\nforeground = { storage_weight = 1000, protected_mib = 64 }\nbackground = {}");
        assert_eq!(other.foreground.settings(Hierarchy::Unified), "io.bfq.weight=1000\tmemory.low=67108864");
        let of_version_1 = GroupsByHand { cgroup: GroupVersion::V1, ..other };
        assert_eq!(of_version_1.fault(), Some("storage_weight and protected_mib need version 2"));
        assert_eq!(GroupsByHand::unlimited().background.settings(Hierarchy::Unified), "");
    }

    #[test]
    fn faults_are_named() {
        for (foreground, background, fault) in [
            ("cpus = '1'", "cpus = '0'", None),
            ("weight = 100", "", None),
            ("cpus = '1'", "", Some("`cpus` are set")),
            ("exclusive = true, weight = 5", "", Some("`exclusive` needs")),
            ("weight = 0", "", Some("a weight is")),
            ("weight = 10001", "", Some("a weight is")),
            ("maximum_percent = 0", "", Some("maximum_percent must")),
            ("storage_weight = 1000", "", None),
            ("storage_weight = 1001", "", Some("a storage_weight is")),
            ("", "storage_weight = 0", Some("a storage_weight is")),
        ] {
            let text = format!("cgroup = 'v2'\nforeground = {{ {foreground} }}\nbackground = {{ {background} }}");
            let found = groups(&text).fault();
            let expected = fault.is_none_or(|fault| found.is_some_and(|found| found.starts_with(fault)));
            assert!(expected && found.is_some() == fault.is_some(), "{text}: {found:?}");
        }
        for version in ["v1", "v2"] {
            let nothing = groups(&format!("cgroup = '{version}'\nforeground = {{}}\nbackground = {{}}"));
            assert_eq!(nothing.fault(), Some("nothing is set"));
        }
    }
}
