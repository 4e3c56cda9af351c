//! Keeps the daemon subscribed to exactly the events that its mechanisms want.

use std::path::PathBuf;

use super::poller::{Poller, Token};
use super::sensor::device_changes::{CpufreqFiles, Uevents, policy_folders};
use super::sensor::exits::Exits;
use super::sensor::load::LoadSampler;
use super::sensor::processes::Processes;
use super::sensor::stall::StallWatch;
use super::sensor::threads::ThreadSampler;
use super::status::Sensors;
use brisk_mechanism::{Interest, ProcessEventKind};
use brisk_sys::system::foreground::Foreground;
use brisk_sys::system::session::Sessions;
use brisk_sys::{BootTime, Root};

/// The daemon's event sources.
#[derive(Debug, Default)]
pub struct Subscriptions {
    /// Process events, once a mechanism has wanted any.
    pub processes: Option<Processes>,
    /// The foreground processes.
    pub foreground: Option<Foreground>,
    /// The foreground session, if no cgroup holds the foreground processes.
    pub sessions: Option<Sessions>,
    /// The exits of launched processes.
    pub exits: Exits,
    pub load: LoadSampler,
    /// Memory stalls.
    pub stalls: StallWatch,
    pub threads: ThreadSampler,
    /// The files that select governors and maximum frequencies.
    pub cpufreq_files: Option<CpufreqFiles>,
    /// CPU hotplug.
    pub uevents: Option<Uevents>,
    watched_policies: Vec<PathBuf>,
    processes_error: Option<String>,
    foreground_error: Option<String>,
    foreground_is_new: bool,
    sessions_tried: bool,
    interest: Interest,
}

impl Subscriptions {
    /// Renews the watches on the device: cpufreq policies may have been added or removed.
    pub fn watch_device(&mut self, root: &Root, poller: &Poller) {
        // A source that was not available before may be now.
        self.processes_error = None;
        self.foreground_error = None;
        self.sessions_tried = false;
        let policies = policy_folders(root);
        if self.cpufreq_files.is_none() || policies != self.watched_policies {
            let watch = CpufreqFiles::watch(root, &policies);
            match watch.and_then(|files| poller.watch(&files, Token::CpufreqFiles).map(|()| files)) {
                Ok(files) => self.cpufreq_files = Some(files),
                Err(error) => tracing::warn!("cannot watch changes of governors: {error}; reload the daemon after one"),
            }
            self.watched_policies = policies;
        }
        if self.uevents.is_none() && root.is_system() {
            let opened = Uevents::open();
            match opened.and_then(|objects| poller.watch(&objects, Token::Uevents).map(|()| objects)) {
                Ok(objects) => self.uevents = Some(objects),
                Err(error) => tracing::debug!("CPU hotplug will not be noticed: {error}"),
            }
        }
    }

    /// Subscribes to `interest` and to the exits of `awaited_exits` from `now` on; appends to `ended` the processes that
    /// have exited already.
    pub fn reconfigure(
        &mut self,
        now: BootTime,
        interest: Interest,
        awaited_exits: &[u32],
        (root, poller): (&Root, &Poller),
        ended: &mut Vec<u32>,
    ) {
        self.exits.reconfigure(awaited_exits, root, poller, ended);
        self.load.set_period(now, interest.load_period);
        self.threads.set_period(now, interest.sampling_period, root);
        let mut kinds = interest.kinds;
        if self.exits.needs_exit_events() {
            kinds = kinds.with(ProcessEventKind::Exit);
        }
        if self.processes.is_none() && self.processes_error.is_none() && !kinds.is_empty() {
            self.open_processes(poller);
        }
        if let Some(processes) = &mut self.processes {
            processes.want(kinds);
        }
        if interest.foreground && self.foreground.is_none() && self.foreground_error.is_none() {
            self.open_foreground(root, poller);
        } else if !interest.foreground
            && let Some(foreground) = self.foreground.take()
        {
            poller.unwatch(&foreground);
        }
        self.update_sessions(interest.session && self.foreground.is_none(), root, poller);
        self.interest = interest;
    }

    /// The mechanisms' last interest.
    pub fn interest(&self) -> Interest {
        self.interest
    }

    fn open_processes(&mut self, poller: &Poller) {
        let opened = Processes::open().map_err(|error| error.to_string());
        let watched = opened.and_then(|processes| {
            poller.watch(&processes, Token::Processes).map(|()| processes).map_err(|error| error.to_string())
        });
        match watched {
            Ok(processes) => self.processes = Some(processes),
            Err(error) => {
                tracing::warn!(
                    "no process events, so launches are noticed only when announced or in the foreground: {error}"
                );
                self.processes_error = Some(error);
            }
        }
    }

    /// Closes the failed socket of process events; it is opened again when they are wanted next.
    pub fn close_processes(&mut self, poller: &Poller) {
        if let Some(processes) = self.processes.take() {
            poller.unwatch(&processes);
        }
    }

    fn open_foreground(&mut self, root: &Root, poller: &Poller) {
        let opened = match Foreground::open(root) {
            Ok(Some(foreground)) => {
                poller.watch(&foreground, Token::Foreground).map(|()| foreground).map_err(|error| error.to_string())
            }
            Ok(None) => {
                Err("no top-app cpuset; a program may report foreground processes on the control socket".to_owned())
            }
            Err(error) => Err(error.to_string()),
        };
        match opened {
            Ok(foreground) => {
                self.foreground = Some(foreground);
                self.foreground_is_new = true;
            }
            Err(error) => self.foreground_error = Some(error),
        }
    }

    /// The foreground processes at the start of the watch; returned once.
    pub fn first_foreground(&mut self) -> Option<Vec<u32>> {
        let is_new = std::mem::take(&mut self.foreground_is_new);
        self.foreground.as_ref().filter(|_| is_new)?.pids().ok()
    }

    fn update_sessions(&mut self, wanted: bool, root: &Root, poller: &Poller) {
        if !wanted {
            if let Some(sessions) = self.sessions.take() {
                poller.unwatch(&sessions);
            }
            self.sessions_tried = false;
        } else if !std::mem::replace(&mut self.sessions_tried, true) && self.sessions.is_none() {
            let opened = Sessions::open(root).map_err(|error| error.to_string());
            let watched = opened.and_then(|sessions| match sessions {
                Some(sessions) => {
                    poller.watch(&sessions, Token::Session).map(|()| Some(sessions)).map_err(|error| error.to_string())
                }
                None => Ok(None),
            });
            match watched {
                Ok(sessions) => self.sessions = sessions,
                Err(error) => tracing::warn!("cannot watch the foreground session: {error}"),
            }
        }
    }

    /// A description for `brisk status`.
    pub fn describe(&self, scheduling: &str) -> Sensors {
        let text = |is_open: bool, open: &str, error: &Option<String>| match (is_open, error) {
            (true, _) => open.to_owned(),
            (false, Some(error)) => error.clone(),
            (false, None) => "not wanted".to_owned(),
        };
        Sensors {
            process_events: text(self.processes.is_some(), "subscribed", &self.processes_error),
            foreground: match self.sessions {
                Some(_) => "the active session (logind); a program may report more on the control socket".to_owned(),
                None => text(self.foreground.is_some(), "watched", &self.foreground_error),
            },
            scheduling: scheduling.to_owned(),
        }
    }
}
