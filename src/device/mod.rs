//! The kernel's interfaces, one file each, over a relocatable root.
//!
//! Everything below /proc, /sys and /dev is reached through [`Root`], so that a recorded tree of files
//! (`tests/golden/`) runs the code that a device runs.

pub mod affinity;
pub mod android_properties;
pub mod binder;
pub mod capacity;
pub mod cgroup;
pub mod cpu_times;
pub mod cpufreq;
pub mod current_frequency;
mod descriptors;
pub mod disk_stats;
pub mod energy;
pub mod error;
pub mod fields;
pub mod first_process;
pub mod foreground;
pub mod governor;
pub mod guardian;
pub mod hotplug;
pub mod journal;
pub mod kept_file;
pub mod kernel;
pub mod kinship;
pub mod load;
pub mod loadavg;
pub mod meminfo;
pub mod own_code;
pub mod peer;
pub mod priority;
pub mod process;
pub mod process_events;
pub mod process_filter;
pub mod process_kill;
pub mod process_memory;
pub mod process_reclaim;
pub mod process_watch;
pub mod psi;
pub mod root;
pub mod schedstat;
pub mod scheduling;
mod scheduling_attributes;
pub mod swap_area;
pub mod swaps;
pub mod target;
pub mod thread_facts;
pub mod threads;
pub mod ticks;
pub mod time;
pub mod timer;
pub mod trace_events;
pub mod tunable;
pub mod uclamp;
pub mod user;
pub mod vm_tunables;
pub mod vmstat;
pub mod zoneinfo;
pub mod zram;
pub mod zram_owner;

pub use error::{DeviceError, Operation};
pub use root::Root;
pub use target::Target;
pub use time::BootTime;
pub use timer::Timer;
pub use tunable::Tunable;
