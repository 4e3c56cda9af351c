//! systemd as the first process: executes it in place of brisk, and checks the services that must run beside the command.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// The cgroups of system services.
const GROUPS: &str = "/sys/fs/cgroup/system.slice";

/// systemd's program, and the services that it must have started before the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSystemd {
    /// Its path in the guest.
    pub program: String,
    /// The services that the command needs.
    pub services: Vec<String>,
}

impl GuestSystemd {
    /// Executes systemd in place of this process.
    ///
    /// # Errors
    /// When it cannot be executed; else this does not return.
    pub fn exec_systemd(&self) -> anyhow::Result<u8> {
        let error = Command::new(&self.program).env_clear().exec();
        Err(error).with_context(|| format!("cannot run {}", self.program))
    }

    /// Checks that the services run: a failed unit does not end the others, and a measurement without it would not be valid.
    ///
    /// # Errors
    /// When one does not run.
    pub fn check(&self) -> anyhow::Result<()> {
        for service in &self.services {
            let processes = fs::read_to_string(format!("{GROUPS}/{service}/cgroup.procs")).unwrap_or_default();
            anyhow::ensure!(!processes.trim().is_empty(), "{service} does not run in the guest");
        }
        Ok(())
    }
}
