//! systemd as the first process: handing over to it, and what must run beside the command that it runs as a service.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// Where services of the system have their groups.
const GROUPS: &str = "/sys/fs/cgroup/system.slice";

/// How systemd is started, and what it must have started before the command runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestSystemd {
    /// Its path in the guest.
    pub program: String,
    /// The services that the command needs.
    pub services: Vec<String>,
}

impl GuestSystemd {
    /// Becomes systemd.
    ///
    /// # Errors
    /// When it cannot be executed; else this does not return.
    pub fn become_it(&self) -> anyhow::Result<u8> {
        let error = Command::new(&self.program).env_clear().exec();
        Err(error).with_context(|| format!("cannot run {}", self.program))
    }

    /// Checks that the services run: a unit that has failed does not end the others, and what is measured without it would be
    /// something else.
    ///
    /// # Errors
    /// When one does not.
    pub fn check(&self) -> anyhow::Result<()> {
        for service in &self.services {
            let processes = fs::read_to_string(format!("{GROUPS}/{service}/cgroup.procs")).unwrap_or_default();
            anyhow::ensure!(!processes.trim().is_empty(), "{service} does not run in the guest");
        }
        Ok(())
    }
}
