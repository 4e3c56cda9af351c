//! Checks that a guest's kernel knows its unequal CPUs: their capacities and their energy, and that it weighs both when it places
//! tasks (Energy-Aware Scheduling, Documentation/scheduler/sched-energy.rst).

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use rustix::fs::OFlags;

use brisk_sys::Root;
use brisk_sys::cpu::hotplug;

/// Makes the scheduler log what it does with its domains (since Linux 5.13).
const VERBOSE: &str = "/sys/kernel/debug/sched/verbose";
/// How long the kernel may take to rebuild its domains after a change of governors.
const PATIENCE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// The kernel's log from now on: whether Energy-Aware Scheduling is on.
#[derive(Debug)]
pub struct SchedulerLog {
    log: File,
    is_on: bool,
}

impl SchedulerLog {
    /// Follows the log from its end, and makes the scheduler write to it.
    ///
    /// # Errors
    /// When the log cannot be read, or the kernel has no debugging of the scheduler (CONFIG_SCHED_DEBUG).
    pub fn follow(root: &Root) -> anyhow::Result<Self> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let path = root.path("/dev/kmsg");
        let log = File::options().read(true).custom_flags(flags).open(&path);
        let mut log = log.with_context(|| format!("cannot open {}", path.display()))?;
        log.seek(SeekFrom::End(0)).context("cannot follow the kernel's log")?;
        root.write(VERBOSE, "Y")?;
        Ok(Self { log, is_on: false })
    }

    /// What is wrong, after a change of governors that switched Energy-Aware Scheduling off and on again; the scheduler is then
    /// as silent as before.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn end(mut self, root: &Root) -> anyhow::Result<Option<String>> {
        let mut left = PATIENCE;
        self.read()?;
        while !self.is_on && !left.is_zero() {
            sleep(POLL);
            left = left.saturating_sub(POLL);
            self.read()?;
        }
        root.write(VERBOSE, "N")?;
        Ok((!self.is_on).then(|| "the kernel has not started Energy-Aware Scheduling".to_owned()))
    }

    /// Reads all new records; a read returns one.
    fn read(&mut self) -> anyhow::Result<()> {
        let mut record = [0; 8192];
        loop {
            match self.log.read(&mut record) {
                Ok(0) => return Ok(()),
                Ok(size) => self.is_on = state_after(self.is_on, &String::from_utf8_lossy(&record[..size])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The kernel has overwritten records that were not read.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
                Err(error) => return Err(error).context("cannot read the kernel's log"),
            }
        }
    }
}

/// Whether Energy-Aware Scheduling is on after a record (`sched_energy_set` of kernel/sched/topology.c).
fn state_after(was_on: bool, record: &str) -> bool {
    if record.contains("sched_energy_set: starting EAS") {
        return true;
    }
    was_on && !record.contains("sched_energy_set: stopping EAS")
}

/// What the kernel tells differently than `capacities`, the capacity of each CPU, says.
pub fn faults(root: &Root, capacities: &[u32]) -> Vec<String> {
    const ALLOWED: &str = "/proc/sys/kernel/sched_energy_aware";
    const DOMAINS: &str = "/sys/kernel/debug/energy_model";
    let mut faults = Vec::new();
    for (cpu, stated) in capacities.iter().enumerate() {
        let found = root.read(format!("{}/cpu{cpu}/cpu_capacity", hotplug::CPU_FOLDER)).unwrap_or_default();
        if found.trim() != stated.to_string() {
            faults.push(format!("CPU {cpu} has the capacity {:?} and not {stated}", found.trim()));
        }
    }
    let domains = root.list(DOMAINS).unwrap_or_default();
    let cpus_of = |domain: &String| hotplug::parse_list(root.read(format!("{DOMAINS}/{domain}/cpus")).ok()?.trim());
    let known: Vec<u32> = domains.iter().filter_map(cpus_of).flatten().collect();
    for cpu in (0..).take(capacities.len()).filter(|cpu| !known.contains(cpu)) {
        faults.push(format!("CPU {cpu} has no energy model in {DOMAINS}"));
    }
    if root.read_number::<u32>(ALLOWED).ok() != Some(1) {
        faults.push(format!("{ALLOWED} is not 1"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LAB-3.
    #[test]
    fn what_differs_from_the_scenario_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |file: &str, text: &str| {
            let path = root.path(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        assert_eq!(faults(&root, &[407, 1024]).len(), 5, "an empty device lacks everything");
        for (file, text) in [
            ("/sys/devices/system/cpu/cpu0/cpu_capacity", "407\n"),
            ("/sys/devices/system/cpu/cpu1/cpu_capacity", "1024\n"),
            ("/sys/kernel/debug/energy_model/cpu0/cpus", "0\n"),
            ("/sys/kernel/debug/energy_model/cpu1/cpus", "1\n"),
            ("/proc/sys/kernel/sched_energy_aware", "1\n"),
        ] {
            write(file, text);
        }
        assert_eq!(faults(&root, &[407, 1024]), [""; 0]);
        for (file, wrong, right, expected) in [
            ("/sys/devices/system/cpu/cpu0/cpu_capacity", "406", "407", "CPU 0 has the capacity \"406\" and not 407"),
            ("/sys/kernel/debug/energy_model/cpu1/cpus", "0-0", "1", "CPU 1 has no energy model"),
            ("/proc/sys/kernel/sched_energy_aware", "0", "1", "sched_energy_aware is not 1"),
        ] {
            write(file, wrong);
            let found = faults(&root, &[407, 1024]);
            assert!(found.len() == 1 && found[0].contains(expected), "{found:?}");
            write(file, right);
        }
    }

    // Verifies LAB-3.
    #[test]
    fn the_log_tells_when_energy_aware_scheduling_starts() {
        for (records, expected) in [
            (&["6,700,900,-;sched_energy_set: starting EAS\n"][..], true),
            (&["6,700,900,-;sched_energy_set: starting EAS\n", "6,701,990,-;sched_energy_set: stopping EAS\n"], false),
            (&["6,700,900,-;sched_energy_set: stopping EAS\n", "6,701,990,-;sched_energy_set: starting EAS\n"], true),
            (&["6,700,900,-;sched_energy_set: starting EAS\n", "6,701,990,-;root domain span: 0-1\n"], true),
            (&["6,700,900,-;rd 0-1: Disabling EAS, schedutil is mandatory\n"], false),
            (&[], false),
        ] {
            assert_eq!(
                records.iter().fold(false, |was_on, record| state_after(was_on, record)),
                expected,
                "{records:?}"
            );
        }
    }
}
