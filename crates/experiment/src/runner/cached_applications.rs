//! Cached applications, which hold the memory that a launch needs.

use super::applications::{CACHED_ADJ, CACHED_STEP};
use super::launch::Application;
use super::locked_memory::LockedMemory;
use super::{Runner, install};
use crate::spec::LaunchMemory;

/// Their name: they are not the launched application.
const NAME: &str = "cached";
/// Enough for a process to begin.
const WORK_MS: u32 = 1;
/// The daemon and the recorder take more.
const TOLERANCE_KIB: u64 = 1024;

/// Runs beside a launch; dropping it ends the applications.
pub(super) struct CachedApplications {
    /// Those that were in the foreground longest ago first.
    _applications: Vec<Application>,
    _locked_memory: LockedMemory,
}

impl CachedApplications {
    /// Launches them one after another; each has filled its memory then.
    pub(super) fn start(runner: &Runner<'_>, memory: &LaunchMemory) -> anyhow::Result<Self> {
        let root = runner.root;
        root.write("/proc/sys/vm/drop_caches", "3")?;
        let locked_memory = LockedMemory::within(root, memory.available_kib, TOLERANCE_KIB)?;
        let (program, mut applications) = (install(&runner.folder, NAME)?, Vec::new());
        for number in 0..memory.cached {
            let arguments = fill_arguments(memory.cached_kib);
            let mut application = Application::start_program(&program, runner, WORK_MS, &arguments)?;
            application.first_screen()?;
            let rank = i16::try_from(memory.cached - 1 - number).unwrap_or(i16::MAX);
            let adj = CACHED_STEP.saturating_mul(rank).saturating_add(CACHED_ADJ).min(1000);
            root.write(format!("/proc/{}/oom_score_adj", application.pid()), &adj.to_string())?;
            applications.push(application);
        }
        Ok(Self { _applications: applications, _locked_memory: locked_memory })
    }
}

/// Arguments of `brisk load` to fill this much memory.
pub(super) fn fill_arguments(kib: u64) -> [String; 2] {
    ["--fill-kib".to_owned(), kib.to_string()]
}
