//! The kernel's interfaces, one file each, over a relocatable root.
//!
//! Everything below /proc, /sys and /dev is accessed through [`Root`], so that tests run the code of a device on a recorded
//! tree of files (`tests/golden/`).

pub mod binder;
pub mod bpf;
pub mod cgroup;
pub mod cpu;
pub mod descriptors;
pub mod durable_file;
pub mod error;
pub mod fields;
pub mod file_recorder;
pub mod io;
pub mod kernel;
pub mod locked_file;
pub mod memory;
pub mod network;
pub mod open_file;
pub mod process;
pub mod root;
pub mod sched;
pub mod system;
pub mod target;
#[cfg(any(test, feature = "for-tests"))]
pub mod test_trees;
pub mod time;
pub mod timer;
pub mod tunable;

pub use error::{DeviceError, Operation};
pub use root::Root;
pub use target::Target;
pub use time::BootTime;
pub use timer::Timer;
pub use tunable::Tunable;
