//! The virtual device: a stock kernel under QEMU, with every file of the guest written by brisk.
//!
//! A [`Scenario`] says which kernel, modules and machine; a [`Job`] adds a command and its files. [`run`] boots it,
//! hands on what the guest says line by line, and returns how the command ended. The guest is just another device:
//! its first process is the running brisk binary itself.

pub mod architecture;
pub mod error;
pub mod job;
pub mod scenario;
pub mod self_check;

pub use error::LabError;
pub use job::{Channel, GuestFile, GuestLine, HostClock, Job, Outcome};
pub use scenario::{Mode, Scenario, ScenarioError};
pub use self_check::{SelfCheck, SelfCheckPoint};

/// The exit code of `brisk` when the lab itself failed: BSD's EX_UNAVAILABLE.
pub const EXIT_LAB_FAILED: u8 = 69;

/// Boots the job's scenario, runs its command as the guest's only program, and reaps the machine.
///
/// `on_line` is called for each line as it comes, in order, with the host's clock at its arrival. Machines on different
/// threads do not disturb each other; [`Job::core`] gives each a host CPU of its own.
///
/// # Errors
/// [`LabError`] when the kernel cannot be had, the machine does not boot, panics, locks up or runs out of time, or
/// when the self-check fails. A command that ends with an error is not one: see [`Outcome::status`].
pub fn run(job: &Job, on_line: &mut dyn FnMut(GuestLine)) -> Result<Outcome, LabError> {
    let _ = on_line;
    Err(LabError::Machine { operation: "boot".into(), reason: format!("{} is not built in yet", job.scenario.name) })
}
