//! The memory of this device and its settings: read once, decided upon in `plan.rs`.

use brisk_sys::Root;
use brisk_sys::cpu::hotplug;
use brisk_sys::kernel;
use brisk_sys::memory::meminfo::{self, MemoryInfo};
use brisk_sys::memory::swaps::{self, Swap};
use brisk_sys::memory::vm_tunables::VmTunables;
use brisk_sys::memory::zram::{self, Module, Zram};
use brisk_sys::memory::zram_owner::{self, ZramOwner};

/// Facts about a device, as plain data.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryDevice {
    /// The kernel's figures; `None` when they cannot be read.
    pub memory: Option<MemoryInfo>,
    /// CPUs online; at least one.
    pub cpu_count: u32,
    /// Linux's version, where it could be read.
    pub kernel: Option<(u32, u32)>,
    /// The zram devices, or why they cannot be read.
    pub zram: Result<Vec<Zram>, String>,
    /// Whether the zram module is loaded or can be.
    pub module: Module,
    /// Swap areas in use, in fill order, or why they cannot be read.
    pub swaps: Result<Vec<Swap>, String>,
    /// Other programs that are configured to set up zram.
    pub owners: Vec<ZramOwner>,
    /// The kernel's reclaim tunables.
    pub tunables: VmTunables,
    /// What exists but could not be read, in words.
    pub faults: Vec<String>,
}

impl MemoryDevice {
    /// Reads the device below `root`. What is missing is a fact; what cannot be read is in `faults`.
    pub fn probe(root: &Root) -> Self {
        let release = kernel::release(root);
        let (tunables, tunable_faults) = VmTunables::read(root);
        let mut faults: Vec<String> = tunable_faults.iter().map(|fault| root.with_device_paths(fault)).collect();
        let memory = meminfo::read(root).map_err(|error| faults.push(root.with_device_paths(&error))).ok();
        let swaps = swaps::read(root).map_err(|error| match error.is_missing() {
            true => "/proc/swaps does not exist (CONFIG_SWAP)".to_owned(),
            false => root.with_device_paths(&error),
        });
        let zram = zram::devices(root).map_err(|error| root.with_device_paths(&error));
        Self {
            memory,
            cpu_count: hotplug::online(root).map_or(1, |cpus| cpus.len().max(1) as u32),
            kernel: release.as_deref().and_then(kernel::version),
            zram,
            module: zram::module(root, release.as_deref().unwrap_or_default()),
            swaps,
            owners: zram_owner::owners(root),
            tunables,
            faults,
        }
    }
}
