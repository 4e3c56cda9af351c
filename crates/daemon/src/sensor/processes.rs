//! Process events: the subscription, the filter in the kernel, and the facts that mechanisms want with them.

use std::os::fd::{AsFd, BorrowedFd};

use brisk_mechanism::{Event, Interest, Process, ProcessEvent, ProcessEventKind, ProcessEventKinds, ProcessFacts};
use brisk_sys::process::process_events::{Notice, ProcessEvents, ProcessEventsError, TimedNotice};
use brisk_sys::process::process_filter::{self, EventMask};
use brisk_sys::{Root, process};

/// The subscription and its filter.
#[derive(Debug)]
pub struct Processes {
    events: ProcessEvents,
    notices: Vec<TimedNotice>,
    /// The events that the filter passes; `None` before it is attached.
    wanted: Option<EventMask>,
}

/// An event and when the kernel reported it.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedEvent {
    /// Nanoseconds of CLOCK_MONOTONIC; zero when it is not known.
    pub monotonic_ns: u64,
    pub event: Event,
}

impl Processes {
    /// Subscribes; nothing is filtered yet.
    ///
    /// # Errors
    /// Why process events are not available, with advice.
    pub fn open() -> Result<Self, ProcessEventsError> {
        Ok(Self { events: ProcessEvents::open()?, notices: Vec::new(), wanted: None })
    }

    /// Passes only `kinds` from now on; with none, the kernel does not even create messages for this socket.
    pub fn want(&mut self, kinds: ProcessEventKinds) {
        let wanted = EventMask {
            fork: kinds.contains(ProcessEventKind::Fork),
            exec: kinds.contains(ProcessEventKind::Exec),
            comm: kinds.contains(ProcessEventKind::Comm),
            uid: kinds.contains(ProcessEventKind::Uid),
            exit: kinds.contains(ProcessEventKind::Exit),
        };
        if self.wanted == Some(wanted) {
            return;
        }
        // Without a filter the daemon works too, at a higher cost: the policy ignores events that it did not ask for.
        if let Err(error) = process_filter::attach(&self.events, wanted) {
            tracing::debug!("cannot filter process events in the kernel: {error}");
        }
        if let Err(error) = self.events.listen(!kinds.is_empty()) {
            tracing::debug!("{error}");
        }
        self.wanted = Some(wanted);
    }

    /// Receives all pending messages; [`Processes::next`] turns them into events one by one.
    ///
    /// # Errors
    /// When the socket fails.
    pub fn receive(&mut self) -> Result<(), ProcessEventsError> {
        self.notices.clear();
        self.events.receive(&mut self.notices)?;
        // `next` takes them from the end.
        self.notices.reverse();
        Ok(())
    }

    /// The next received event that is not ignored, with the facts that `interest` wants.
    pub fn next(
        &mut self,
        root: &Root,
        interest: &Interest,
        ignored: impl Fn(ProcessEventKind, u32) -> bool,
    ) -> Option<TimedEvent> {
        loop {
            let TimedNotice { monotonic_ns, notice } = self.notices.pop()?;
            if let Some(event) = event(root, interest, notice, &ignored) {
                return Some(TimedEvent { monotonic_ns, event });
            }
        }
    }
}

impl AsFd for Processes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

fn event(
    root: &Root,
    interest: &Interest,
    notice: Notice,
    ignored: impl Fn(ProcessEventKind, u32) -> bool,
) -> Option<Event> {
    let (kind, mut process) = match notice {
        Notice::Acknowledged(_) => return None,
        Notice::Lost => return Some(Event::ProcessEventsLost),
        Notice::Fork { parent, child } => {
            (ProcessEventKind::Fork, Process { pid: child, parent: Some(parent), ..Process::default() })
        }
        Notice::Exec { pid } => (ProcessEventKind::Exec, Process { pid, ..Process::default() }),
        Notice::Comm { pid, command } => {
            (ProcessEventKind::Comm, Process { pid, command: Some(command), ..Process::default() })
        }
        Notice::Uid { pid, real, .. } => {
            (ProcessEventKind::Uid, Process { pid, uid: Some(real), ..Process::default() })
        }
        Notice::Exit { pid } => (ProcessEventKind::Exit, Process { pid, ..Process::default() }),
    };
    if kind != ProcessEventKind::Exit {
        if !interest.kinds.contains(kind) || ignored(kind, process.pid) {
            return None;
        }
        let facts = if kind == ProcessEventKind::Fork { interest.fork_facts } else { interest.facts };
        fetch_facts(root, &mut process, facts);
    }
    Some(Event::Process(ProcessEvent { kind, process }))
}

/// Adds to `process` the `facts` that the event lacks. A process that has exited by now has none.
pub fn fetch_facts(root: &Root, process: &mut Process, facts: ProcessFacts) {
    if facts.stat || (facts.parent_command && process.parent.is_none()) {
        let Ok(stat) = process::stat(root, process.pid) else { return };
        process.command.get_or_insert(stat.command);
        process.parent.get_or_insert(stat.parent);
        process.start_time_ticks = Some(stat.start_time_ticks);
    }
    if facts.parent_command {
        process.parent_command = process.parent.and_then(|parent| process::command(root, parent).ok());
    }
    if facts.uid && process.uid.is_none() {
        let status = root.read(format!("/proc/{}/status", process.pid)).ok();
        process.uid = status.and_then(|text| process::parse_real_uid(&text));
    }
    if facts.cgroup {
        let cgroup = root.read(format!("/proc/{}/cgroup", process.pid)).ok();
        process.cgroup = cgroup.and_then(|text| process::parse_cgroup(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_facts_are_read() {
        let root = Root::system();
        let own = Process { pid: std::process::id(), ..Process::default() };
        let mut nothing = own.clone();
        fetch_facts(&root, &mut nothing, ProcessFacts::default());
        assert_eq!(nothing, own);
        let mut everything = own;
        let all = ProcessFacts { stat: true, parent_command: true, uid: true, cgroup: false };
        fetch_facts(&root, &mut everything, all);
        assert_eq!(everything.uid, Some(rustix::process::getuid().as_raw()));
        assert!(everything.command.is_some() && everything.parent_command.is_some());
        assert!(everything.start_time_ticks.is_some());
        let mut gone = Process { pid: u32::MAX, ..Process::default() };
        fetch_facts(&root, &mut gone, all);
        assert_eq!(gone, Process { pid: u32::MAX, ..Process::default() });
    }

    #[test]
    fn only_wanted_notices_become_events() {
        let root = Root::system();
        let interest =
            Interest { kinds: ProcessEventKinds::default().with(ProcessEventKind::Exec), ..Interest::default() };
        let event = |notice| event(&root, &interest, notice, |_, pid| pid == 3);
        assert_eq!(event(Notice::Fork { parent: 1, child: 2 }), None);
        assert!(event(Notice::Exec { pid: 2 }).is_some());
        assert_eq!(event(Notice::Exec { pid: 3 }), None, "ignored");
        assert!(event(Notice::Exit { pid: 3 }).is_some(), "exits always pass: one may end a launch");
        assert_eq!(event(Notice::Lost), Some(Event::ProcessEventsLost));
    }
}
