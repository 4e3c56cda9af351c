//! CPU time of a daemon while applications are opened.

use std::time::Duration;

use crate::runner::daemon::{CpuTime, Daemon};
use brisk_sys::{BootTime, Root};

/// Shares of one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cost {
    /// Of the daemon, its guardian and its killer, without the following.
    pub(super) own_percent: f64,
    /// Of swap-out ahead of need: compressing is the kernel's work, whichever thread requests it.
    pub(super) pageout_percent: f64,
}

/// A measurement in progress.
pub(super) struct CostMeter<'a> {
    daemon: &'a Daemon,
    began: BootTime,
    before: CpuTime,
}

impl<'a> CostMeter<'a> {
    /// Starts from what `daemon` has used up to now.
    pub(super) fn begin(root: &Root, daemon: &'a Daemon) -> anyhow::Result<Self> {
        Ok(Self { daemon, began: BootTime::now(), before: daemon.cpu_time(root)? })
    }

    /// The cost since the start.
    pub(super) fn end(self, root: &Root) -> anyhow::Result<Cost> {
        let now = self.daemon.cpu_time(root)?;
        let lasted = BootTime::now().since(self.began).as_secs_f64();
        let percent = |now: Duration, before: Duration| 100.0 * now.saturating_sub(before).as_secs_f64() / lasted;
        let pageout_percent = percent(now.pageout, self.before.pageout);
        let own_percent = (percent(now.all, self.before.all) - pageout_percent).max(0.0);
        Ok(Cost { own_percent, pageout_percent })
    }
}
