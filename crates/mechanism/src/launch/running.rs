//! A running launch, and the launches that were helped recently.

use std::time::Duration;

use super::config::Trigger;
use crate::{Process, Target};
use brisk_sys::BootTime;

/// Name of a launch if its process exited before its name could be read.
pub(super) const UNNAMED: &str = "?";

/// The length of a name in the kernel (`comm`).
const COMMAND_BYTES: usize = 15;

/// A running launch.
#[derive(Debug)]
pub(super) struct Launch {
    /// Its name, or [`UNNAMED`].
    pub application: String,
    /// Its process, with the start time where known.
    pub process: Option<(u32, Option<u64>)>,
    /// The trigger that detected it, or that last gave its name.
    pub trigger: Trigger,
    pub began: BootTime,
    /// When it ends at the latest.
    pub deadline: BootTime,
    /// The deadline comes from the learned duration.
    pub learned: bool,
}

impl Launch {
    /// True when it is the launch of process `pid`.
    pub fn is(&self, pid: u32) -> bool {
        self.process.is_some_and(|(own, _)| own == pid)
    }

    /// True while its name may be its parent's: a fork has that until it executes a program or names itself.
    pub fn may_have_parents_name(&self) -> bool {
        matches!(self.trigger, Trigger::Fork | Trigger::Uid | Trigger::Foreground)
    }

    /// True when its process is not known yet and its application matches `command`, a process name: the kernel keeps the first 15
    /// bytes, and Android gives a process the last 15 of its application's name.
    pub fn awaits(&self, command: Option<&str>) -> bool {
        let is_called = |command: &str| {
            let application = self.application.as_bytes();
            let first = &application[..application.len().min(COMMAND_BYTES)];
            let last = &application[application.len().saturating_sub(COMMAND_BYTES)..];
            [first, last].contains(&command.as_bytes())
        };
        self.process.is_none() && command.is_some_and(is_called)
    }

    /// The utilisation clamp of its process.
    pub fn clamp(&self) -> Option<Target> {
        let (pid, start_time_ticks) = self.process?;
        Some(Target::UtilizationClampMinimum { pid, start_time_ticks: start_time_ticks? })
    }

    /// The reason for decisions that `trigger` caused, in words.
    pub fn reason(&self, trigger: Trigger) -> String {
        match (self.application.as_str(), self.process) {
            (UNNAMED, Some((pid, _))) => format!("launch of process {pid}, noticed by {trigger}"),
            (name, Some((pid, _))) => format!("launch of {name} (process {pid}), noticed by {trigger}"),
            (name, None) => format!("launch of {name}, noticed by {trigger}"),
        }
    }
}

/// The processes of helped launches that are over, kept for as long as a launch may last: if such a process then comes to the
/// foreground, that is the same launch.
#[derive(Debug, Default)]
pub(super) struct RecentLaunches(Vec<((u32, Option<u64>), BootTime)>);

impl RecentLaunches {
    /// Stores that `launch`, which could have lasted for `longest`, is over.
    pub fn record(&mut self, now: BootTime, launch: &Launch, longest: Duration) {
        self.0.retain(|(_, until)| *until > now);
        let until = launch.began + longest;
        self.0.extend(launch.process.filter(|_| until > now).map(|process| (process, until)));
    }

    /// True when the launch of `process` was helped recently.
    pub fn has(&self, now: BootTime, process: &Process) -> bool {
        let is_same = |start: Option<u64>| start.is_none() || start == process.start_time_ticks;
        self.0.iter().any(|&((pid, start), until)| pid == process.pid && until > now && is_same(start))
    }
}
