//! The events and facts that a mechanism wants: the engine subscribes to nothing else and fetches nothing else.

use std::time::Duration;

use super::event::ProcessEventKind;

/// The events and facts that a mechanism wants now; it may change with every event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interest {
    /// Kinds of process events; the kernel's own filter drops the others before they wake the daemon.
    pub kinds: ProcessEventKinds,
    /// Facts about the processes of those events, forks excepted.
    pub facts: ProcessFacts,
    /// Facts about forked processes: early, and still under their parent's name.
    pub fork_facts: ProcessFacts,
    /// Changes of the set of foreground processes.
    pub foreground: bool,
    /// The processes of the foreground session, where no better source reports the foreground.
    pub session: bool,
    /// The period of load samples.
    pub load_period: Option<Duration>,
    /// The period of thread samples.
    pub sampling_period: Option<Duration>,
    /// A sample of all threads, quiet or not, as soon as the foreground has changed.
    pub samples_new_foreground: bool,
    /// Memory stalls of at least this length.
    pub stall: Option<Stall>,
}

/// A memory stall threshold within a time window (PSI trigger, `some`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// The stall time within the window.
    pub stall_us: u32,
    pub window_us: u32,
}

impl Stall {
    /// The threshold that triggers sooner.
    fn sooner(self, other: Self) -> Self {
        let share = |stall: &Self, window: &Self| u64::from(stall.stall_us) * u64::from(window.window_us);
        if share(&self, &other) <= share(&other, &self) { self } else { other }
    }
}

impl Interest {
    /// The union of this and `other`.
    pub fn and(self, other: Self) -> Self {
        Self {
            kinds: ProcessEventKinds(self.kinds.0 | other.kinds.0),
            facts: self.facts.and(other.facts),
            fork_facts: self.fork_facts.and(other.fork_facts),
            foreground: self.foreground || other.foreground,
            session: self.session || other.session,
            load_period: shorter(self.load_period, other.load_period),
            sampling_period: shorter(self.sampling_period, other.sampling_period),
            samples_new_foreground: self.samples_new_foreground || other.samples_new_foreground,
            stall: match (self.stall, other.stall) {
                (Some(one), Some(other)) => Some(one.sooner(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// A set of kinds of process events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessEventKinds(u8);

impl ProcessEventKinds {
    /// This set and `kind`.
    #[must_use]
    pub const fn with(self, kind: ProcessEventKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// True when `kind` is in the set.
    pub const fn contains(self, kind: ProcessEventKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// True when nothing is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Facts about a process, grouped by the cost of fetching them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessFacts {
    /// Name, parent and start time: one read of `/proc/PID/stat`.
    pub stat: bool,
    /// The parent's name: one more read.
    pub parent_command: bool,
    /// The real user id: `/proc/PID/status`.
    pub uid: bool,
    /// The cgroup path: `/proc/PID/cgroup`.
    pub cgroup: bool,
}

impl ProcessFacts {
    fn and(self, other: Self) -> Self {
        Self {
            stat: self.stat || other.stat,
            parent_command: self.parent_command || other.parent_command,
            uid: self.uid || other.uid,
            cgroup: self.cgroup || other.cgroup,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interests_add_up() {
        let one = Interest {
            kinds: ProcessEventKinds::default().with(ProcessEventKind::Exec),
            load_period: Some(Duration::from_millis(50)),
            ..Interest::default()
        };
        let two = Interest {
            kinds: ProcessEventKinds::default().with(ProcessEventKind::Exit),
            facts: ProcessFacts { uid: true, ..ProcessFacts::default() },
            fork_facts: ProcessFacts::default(),
            foreground: true,
            session: true,
            load_period: Some(Duration::from_millis(20)),
            sampling_period: Some(Duration::from_millis(100)),
            samples_new_foreground: true,
            stall: Some(Stall { stall_us: 50_000, window_us: 1_000_000 }),
        };
        let sooner = Stall { stall_us: 10_000, window_us: 500_000 };
        let one = Interest { stall: Some(sooner), ..one };
        let both = one.and(two);
        assert!(both.kinds.contains(ProcessEventKind::Exec) && both.kinds.contains(ProcessEventKind::Exit));
        assert!(!both.kinds.contains(ProcessEventKind::Fork));
        assert!(both.facts.uid && !both.facts.stat && both.foreground && both.session && both.samples_new_foreground);
        assert_eq!(both.load_period, Some(Duration::from_millis(20)));
        assert_eq!(both.sampling_period, Some(Duration::from_millis(100)));
        assert_eq!((both.stall, two.and(one).stall), (Some(sooner), Some(sooner)));
        assert_eq!(one.and(Interest::default()), one);
    }
}
