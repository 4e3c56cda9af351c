//! One launch that goes on, and which were helped lately.

use std::time::Duration;

use super::config::Trigger;
use crate::{Process, Target};
use brisk_sys::BootTime;

/// Name of a launch whose process was gone before its name could be read.
pub(super) const UNNAMED: &str = "?";

/// What the kernel keeps of a name (`comm`).
const COMMAND_BYTES: usize = 15;

/// A launch that goes on.
#[derive(Debug)]
pub(super) struct Launch {
    /// Its name, or [`UNNAMED`].
    pub application: String,
    /// Its process, with its start time where that is known.
    pub process: Option<(u32, Option<u64>)>,
    /// What has told of it.
    pub trigger: Trigger,
    /// When it began.
    pub began: BootTime,
    /// When it is over at the latest.
    pub deadline: BootTime,
    /// The deadline is that of the learned duration.
    pub learned: bool,
}

impl Launch {
    /// True when it is the launch of process `pid`.
    pub fn is(&self, pid: u32) -> bool {
        self.process.is_some_and(|(own, _)| own == pid)
    }

    /// True when it is the launch of an application called `command` whose process was not known: a process's name is cut after
    /// 15 bytes.
    pub fn awaits(&self, command: Option<&str>) -> bool {
        let is_called = |command: &str| {
            let application = self.application.as_bytes();
            command.as_bytes() == &application[..application.len().min(COMMAND_BYTES)]
        };
        self.process.is_none() && command.is_some_and(is_called)
    }

    /// Its process's utilisation clamp.
    pub fn clamp(&self) -> Option<Target> {
        let (pid, start_time_ticks) = self.process?;
        Some(Target::UtilizationClampMinimum { pid, start_time_ticks: start_time_ticks? })
    }

    /// Why something is done for it that `trigger` has told of, in words.
    pub fn reason(&self, trigger: Trigger) -> String {
        match (self.application.as_str(), self.process) {
            (UNNAMED, Some((pid, _))) => format!("launch of process {pid}, noticed by {trigger}"),
            (name, Some((pid, _))) => format!("launch of {name} (process {pid}), noticed by {trigger}"),
            (name, None) => format!("launch of {name}, noticed by {trigger}"),
        }
    }
}

/// The processes whose launch was helped and is over, for as long as a launch may last: what comes to the foreground then is the
/// same start.
#[derive(Debug, Default)]
pub(super) struct HelpedLately(Vec<((u32, Option<u64>), BootTime)>);

impl HelpedLately {
    /// Notes that `launch` is over, which might have lasted for `longest`.
    pub fn note(&mut self, now: BootTime, launch: &Launch, longest: Duration) {
        self.0.retain(|(_, until)| *until > now);
        let until = launch.began + longest;
        self.0.extend(launch.process.filter(|_| until > now).map(|process| (process, until)));
    }

    /// True when `process` is one of them at `now`.
    pub fn has(&self, now: BootTime, process: &Process) -> bool {
        let is_same = |start: Option<u64>| start.is_none() || start == process.start_time_ticks;
        self.0.iter().any(|&((pid, start), until)| pid == process.pid && until > now && is_same(start))
    }
}
