//! The kernel's interfaces, one file each, over a relocatable root.
//!
//! Everything below /proc, /sys and /dev is reached through [`Root`], so that a recorded tree of files
//! (`tests/golden/`) runs the code that a device runs.

pub mod binder;
pub mod cpufreq;
pub mod energy;
pub mod error;
pub mod foreground;
pub mod guardian;
pub mod hotplug;
pub mod journal;
pub mod load;
pub mod peer;
pub mod process;
pub mod process_events;
pub mod process_filter;
pub mod root;
pub mod scheduling;
pub mod target;
pub mod ticks;
pub mod time;
pub mod timer;
pub mod trace_events;
pub mod tunable;
pub mod uclamp;

pub use error::{DeviceError, Operation};
pub use root::Root;
pub use target::Target;
pub use time::BootTime;
pub use timer::Timer;
pub use tunable::Tunable;
