//! The host's request to the guest's first process: a file of the initramfs.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::systemd::GuestSystemd;
use crate::android::Android;
use crate::scenario::CgroupVersion;

/// Where the guest finds its job.
pub const JOB_FILE: &str = "/job/job.json";

/// The job as the guest sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestJob {
    /// What to run.
    pub command: Vec<String>,
    /// True for an interactive job: the command gets the console as its terminal instead of the results port.
    pub interactive: bool,
    /// The console's name below /dev.
    pub console: String,
    /// The results port's name below /dev.
    pub results: String,
    /// What to mount at /sys/fs/cgroup.
    pub cgroup: CgroupVersion,
    /// Whether to set the loopback interface up.
    pub loopback: bool,
    /// Modules in the order of loading.
    pub modules: Vec<GuestModule>,
    /// Whether BusyBox is present, to be installed under its applets' names.
    pub busybox: bool,
    /// The folders that are on the disk.
    pub kept: Vec<String>,
    /// systemd as the first process; brisk remains the first process when absent.
    pub systemd: Option<GuestSystemd>,
    /// Android's userspace.
    pub android: Option<Android>,
    /// Whether to run the self-check, which compares time with frequency, first.
    pub self_check: bool,
    /// The stated capacity of each CPU; empty where CPUs are equal.
    pub capacities: Vec<u32>,
}

/// One module to load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestModule {
    pub name: String,
    /// Its object file in the guest.
    pub path: String,
    /// Its parameters, as init_module(2) takes them.
    pub parameters: String,
}

impl GuestJob {
    /// Reads [`JOB_FILE`].
    ///
    /// # Errors
    /// When it is missing or is not a job: the guest was not built by this brisk.
    pub fn read() -> anyhow::Result<Self> {
        let text = std::fs::read(JOB_FILE).with_context(|| format!("cannot read {JOB_FILE}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{JOB_FILE} is not a job"))
    }
}
