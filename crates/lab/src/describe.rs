//! A few facts about a device: what `brisk lab run` prints when it is given no command.

use serde::Serialize;

use brisk_sys::Root;

/// A device's facts; what cannot be read is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Kernel release and version.
    pub kernel: String,
    /// The processor's model.
    pub processor: String,
    /// CPUs online.
    pub cpu_count: usize,
    /// MemTotal.
    pub memory_kib: u64,
    /// MemAvailable.
    pub memory_available_kib: u64,
    /// Loaded kernel modules, newest first.
    pub modules: Vec<String>,
    /// The cpufreq policies.
    pub cpufreq: Vec<CpufreqPolicy>,
    /// Powercap zones that count energy, by folder and name.
    pub energy_zones: Vec<String>,
    /// What is mounted at /sys/fs/cgroup (`cgroup2`, `tmpfs`).
    pub cgroup: String,
}

/// One cpufreq policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpufreqPolicy {
    /// `policy0`.
    pub name: String,
    pub driver: String,
    /// The governor in force.
    pub governor: String,
    /// The available governors.
    pub available_governors: Vec<String>,
    /// The CPUs that it covers.
    pub cpus: String,
    pub frequencies_khz: Vec<u32>,
}

impl Description {
    /// Reads the device below `root`.
    pub fn read(root: &Root) -> Self {
        let line = |path: &str| root.read(path).unwrap_or_default().trim().to_owned();
        let cpuinfo = line("/proc/cpuinfo");
        let meminfo = line("/proc/meminfo");
        let memory = |name| field(&meminfo, name).and_then(|value| value.split(' ').next()?.parse().ok()).unwrap_or(0);
        let mounts = line("/proc/mounts");
        let mut cgroup = mounts.lines().filter_map(|mount| {
            let mut words = mount.split(' ').skip(1);
            (words.next() == Some("/sys/fs/cgroup")).then(|| words.next().unwrap_or_default().to_owned())
        });
        Self {
            kernel: format!("{} {}", line("/proc/sys/kernel/osrelease"), line("/proc/sys/kernel/version")),
            processor: field(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            cpu_count: cpuinfo.lines().filter(|line| line.starts_with("processor")).count(),
            memory_kib: memory("MemTotal"),
            memory_available_kib: memory("MemAvailable"),
            modules: words(&line("/proc/modules"), |module| module.split(' ').next()),
            cpufreq: policies(root),
            energy_zones: energy_zones(root),
            cgroup: cgroup.next_back().unwrap_or_default(),
        }
    }
}

fn words<'a>(text: &'a str, word: impl Fn(&'a str) -> Option<&'a str>) -> Vec<String> {
    text.lines().filter_map(word).map(str::to_owned).collect()
}

/// The value of a `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn policies(root: &Root) -> Vec<CpufreqPolicy> {
    const FOLDER: &str = "/sys/devices/system/cpu/cpufreq";
    let names = root.list(FOLDER).unwrap_or_default();
    let policy = |name: String| {
        let read = |file: &str| root.read(format!("{FOLDER}/{name}/{file}")).unwrap_or_default().trim().to_owned();
        CpufreqPolicy {
            driver: read("scaling_driver"),
            governor: read("scaling_governor"),
            available_governors: read("scaling_available_governors").split(' ').map(str::to_owned).collect(),
            cpus: read("affected_cpus"),
            frequencies_khz: read("scaling_available_frequencies")
                .split(' ')
                .filter_map(|frequency| frequency.parse().ok())
                .collect(),
            name,
        }
    };
    names.into_iter().filter(|name| name.starts_with("policy")).map(policy).collect()
}

fn energy_zones(root: &Root) -> Vec<String> {
    const FOLDER: &str = "/sys/class/powercap";
    let zone = |zone: String| {
        let name = root.read(format!("{FOLDER}/{zone}/name")).ok()?;
        root.read(format!("{FOLDER}/{zone}/energy_uj")).ok()?;
        Some(format!("{zone} {}", name.trim()))
    };
    root.list(FOLDER).unwrap_or_default().into_iter().filter_map(zone).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_device_tree_is_described_and_an_empty_one_too() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        assert_eq!(Description::read(&root).cpu_count, 0);
        for (path, text) in [
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: QEMU Virtual CPU\n\nprocessor\t: 1\n"),
            ("proc/meminfo", "MemTotal:         221432 kB\nMemAvailable:     180000 kB\n"),
            ("proc/modules", "zram 40960 0 - Live 0x0\nzsmalloc 32768 1 zram, Live 0x0\n"),
            ("proc/mounts", "sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
            ("sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies", "200000 1200000 \n"),
            ("sys/class/powercap/virtual-cpufreq:0/name", "package-0\n"),
            ("sys/class/powercap/virtual-cpufreq:0/energy_uj", "12\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let description = Description::read(&root);
        assert_eq!((description.processor.as_str(), description.cpu_count), ("QEMU Virtual CPU", 2));
        assert_eq!((description.memory_kib, description.memory_available_kib), (221_432, 180_000));
        assert_eq!(description.modules, ["zram", "zsmalloc"]);
        assert_eq!(description.cgroup, "cgroup2");
        assert_eq!(description.cpufreq[0].frequencies_khz, [200_000, 1_200_000]);
        assert_eq!(description.energy_zones, ["virtual-cpufreq:0 package-0"]);
    }
}
