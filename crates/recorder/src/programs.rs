//! Which programs have begun while it is recorded, what their main threads wait for, and when a launch has ended: pure.

use std::time::Duration;

use serde::Serialize;

use brisk_base::ready::{WAITS_FOR_EVENT, WAITS_FOR_LOCK, is_lock};
use brisk_sys::BootTime;
use brisk_sys::process::schedstat::Schedstat;

/// A program that exits sooner is a helper, for which no user waits.
const SHORTEST: Duration = WAITS_FOR_EVENT;
/// Programs beyond that, of a storm of them, are not followed.
const MAX_FOLLOWED: usize = 256;
/// The kernel keeps so much of a name: the beginning of a program's, the end of a package's.
const NAME_BYTES: usize = 15;

/// A launch that was seen from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenLaunch {
    pub pid: u32,
    pub name: String,
}

/// A main thread that waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockWait {
    pub pid: u32,
    /// The function of the kernel in which it waits.
    pub function: String,
}

/// What a thread sleeps for, as far as the kernel tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wait {
    Event,
    /// In this function of the kernel.
    Lock(String),
    /// For an answer or a call of binder, or for what the kernel does not tell: the recording may.
    Unclear,
}

/// What a process does at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doing {
    Gone,
    Sleeping { used: Schedstat, wait: Wait },
    Busy,
}

/// A process at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    pub parent: u32,
    pub name: String,
    pub doing: Doing,
}

/// What has changed since the last call of [`Programs::look`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The launch that has ended.
    pub ended: Option<SeenLaunch>,
    /// Waits for locks that have begun.
    pub lock_waits: Vec<LockWait>,
}

/// A sleep without interruption.
#[derive(Debug)]
struct Sleep {
    since: BootTime,
    /// What the thread had used then.
    used: Schedstat,
    wait: Wait,
}

/// A program that has begun.
#[derive(Debug)]
struct Followed {
    pid: u32,
    parent: u32,
    name: String,
    began: BootTime,
    sleep: Option<Sleep>,
    has_ended: bool,
}

/// The programs that have begun, and which of them is awaited.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    wanted: Option<String>,
    followed: Vec<Followed>,
}

impl Wait {
    /// What a thread waits for in a function of the kernel.
    pub fn within(function: Option<&str>) -> Self {
        let Some(function) = function else { return Self::Unclear };
        if is_lock(function) {
            return Self::Lock(function.to_owned());
        }
        if function.contains("binder") { Self::Unclear } else { Self::Event }
    }

    /// After how long a program that waits so is ready.
    fn limit(&self) -> Duration {
        if *self == Self::Event { WAITS_FOR_EVENT } else { WAITS_FOR_LOCK }
    }
}

impl Followed {
    /// Takes what it does now, and returns a wait for a lock that has begun.
    fn take(&mut self, now: BootTime, doing: Doing) -> Option<LockWait> {
        let (used, wait) = match doing {
            Doing::Gone => {
                self.has_ended = true;
                return None;
            }
            Doing::Busy => {
                self.sleep = None;
                return None;
            }
            Doing::Sleeping { used, wait } => (used, wait),
        };
        let before = self.sleep.take().filter(|sleep| sleep.used == used);
        let is_known = before.as_ref().is_some_and(|sleep| sleep.wait == wait);
        let since = before.map_or(now, |sleep| sleep.since);
        self.has_ended = now.since(since) >= wait.limit();
        let lock_wait = match &wait {
            Wait::Lock(function) if !is_known => Some(LockWait { pid: self.pid, function: function.clone() }),
            _ => None,
        };
        self.sleep = Some(Sleep { since, used, wait });
        lock_wait
    }
}

impl Programs {
    /// For launches of any program, or of the one called `wanted`.
    pub fn new(wanted: Option<String>) -> Self {
        Self { wanted, followed: Vec::new() }
    }

    pub fn begin(&mut self, now: BootTime, pid: u32, process: Process) {
        let Process { parent, name, .. } = process;
        // A shell executes another program in its place: the launch goes on.
        let began = self.followed.iter().position(|it| it.pid == pid).map_or(now, |at| self.followed.remove(at).began);
        if self.followed.len() >= MAX_FOLLOWED {
            let is_over = |it: &Followed| it.has_ended && !self.has_begun_another(it.pid);
            if let Some(at) = self.followed.iter().position(is_over) {
                self.followed.remove(at);
            }
        }
        if self.followed.len() < MAX_FOLLOWED {
            self.followed.push(Followed { pid, parent, name, began, sleep: None, has_ended: false });
        }
    }

    /// Looks at each program. A launch that waits for a program it has started has not ended.
    pub fn look(&mut self, now: BootTime, mut process: impl FnMut(u32) -> Doing) -> Changes {
        let mut changes = Changes::default();
        for it in self.followed.iter_mut().filter(|it| !it.has_ended) {
            changes.lock_waits.extend(it.take(now, process(it.pid)));
            if it.has_ended && now.since(it.began) < SHORTEST {
                // It is not even an ancestor whose name counts.
                it.name.clear();
            }
        }
        let ended = |it: &&Followed| it.has_ended && !it.name.is_empty() && self.is_wanted(&it.name);
        let ended = self.followed.iter().filter(ended).find(|it| !self.has_begun_another(it.pid));
        changes.ended = ended.map(|it| SeenLaunch { pid: it.pid, name: it.name.clone() });
        changes
    }

    fn is_wanted(&self, name: &str) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        let is_part = name.len() >= NAME_BYTES && (wanted.starts_with(name) || wanted.ends_with(name));
        name == wanted || is_part
    }

    /// Whether a descendant of the process is still in its launch.
    fn has_begun_another(&self, pid: u32) -> bool {
        let parent =
            |it: &&Followed| self.followed.iter().find(|parent| parent.pid == it.parent && parent.pid != it.pid);
        let descends = |it: &&Followed| {
            let ancestors = std::iter::successors(Some(*it), |it| parent(it)).take(MAX_FOLLOWED);
            ancestors.into_iter().any(|ancestor| ancestor.parent == pid)
        };
        self.followed.iter().filter(|it| !it.has_ended && it.pid != pid).any(|it| descends(&it))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const USED: Schedstat = Schedstat { run_ns: 7, wait_ns: 0, slices: 1 };
    const ASLEEP: Doing = Doing::Sleeping { used: USED, wait: Wait::Event };
    const AWOKE: Doing = Doing::Sleeping { used: Schedstat { run_ns: 9, wait_ns: 0, slices: 2 }, wait: Wait::Event };
    const UNCLEAR: Doing = Doing::Sleeping { used: USED, wait: Wait::Unclear };

    /// A time in milliseconds, and a program.
    type Moment = (u64, u32);

    fn locked() -> Doing {
        Doing::Sleeping { used: USED, wait: Wait::Lock("futex_wait_queue".to_owned()) }
    }

    fn at(ms: u64) -> BootTime {
        BootTime::from_milliseconds(ms)
    }

    fn begun_by(parent: u32, name: &str) -> Process {
        Process { parent, name: name.to_owned(), doing: Doing::Busy }
    }

    /// When which launch ends, of programs (begin, number, parent, name) that do something from a time on; and when which of them
    /// was seen to wait for a lock.
    fn follow(
        wanted: Option<&str>,
        begins: &[(u64, u32, u32, &str)],
        does: &[(u64, u32, Doing)],
    ) -> (Option<Moment>, Vec<Moment>) {
        let mut programs = Programs::new(wanted.map(str::to_owned));
        let mut doing: BTreeMap<u32, Doing> = BTreeMap::new();
        let mut waits = Vec::new();
        let ended = (0..80).map(|tick| tick * 100).find_map(|now| {
            for &(_, pid, parent, name) in begins.iter().filter(|(begin, ..)| *begin == now) {
                programs.begin(at(now), pid, begun_by(parent, name));
            }
            doing.extend(does.iter().filter(|(from, ..)| *from == now).map(|(_, pid, doing)| (*pid, doing.clone())));
            let changes = programs.look(at(now), |pid| doing.get(&pid).cloned().unwrap_or(Doing::Busy));
            waits.extend(changes.lock_waits.iter().map(|wait| (now, wait.pid)));
            changes.ended.map(|launch| (now, launch.pid))
        });
        (ended, waits)
    }

    // Verifies TRACE-10.
    #[test]
    fn a_launch_ends_when_its_program_waits_or_exits() {
        let browser = (100, 7, 1, "browser");
        for (why, wanted, begins, does, expected) in [
            ("it waits", None, vec![browser], vec![(500, 7, ASLEEP)], Some((700, 7))),
            ("it exits", None, vec![browser], vec![(500, 7, Doing::Gone)], Some((500, 7))),
            ("it still runs", None, vec![browser], vec![], None),
            ("it ran in between", None, vec![browser], vec![(500, 7, ASLEEP), (600, 7, AWOKE)], Some((800, 7))),
            ("it was busy between", None, vec![browser], vec![(500, 7, ASLEEP), (600, 7, Doing::Busy)], None),
            ("a helper", None, vec![browser], vec![(200, 7, Doing::Gone)], None),
            ("another name", Some("mail"), vec![browser], vec![(500, 7, ASLEEP)], None),
            ("its name", Some("browser"), vec![browser], vec![(500, 7, ASLEEP)], Some((700, 7))),
            (
                "the end of a package",
                Some("com.example.shopping"),
                vec![(0, 7, 1, "xample.shopping")],
                vec![(0, 7, ASLEEP)],
                Some((200, 7)),
            ),
            (
                "su waits for its command",
                None,
                vec![(0, 6, 1, "su"), (200, 7, 6, "browser")],
                vec![(200, 6, ASLEEP), (900, 7, ASLEEP)],
                Some((1100, 6)),
            ),
            (
                "also through a shell",
                None,
                vec![(0, 5, 1, "su"), (0, 6, 5, "sh"), (100, 7, 6, "browser")],
                vec![(100, 5, ASLEEP), (100, 6, ASLEEP), (600, 7, Doing::Gone)],
                Some((600, 5)),
            ),
            (
                "a shell executes it",
                None,
                vec![(0, 7, 1, "sh"), (300, 7, 1, "browser")],
                vec![(400, 7, Doing::Gone)],
                Some((400, 7)),
            ),
            (
                "another program still begins",
                None,
                vec![(0, 6, 1, "hog"), (0, 7, 1, "browser")],
                vec![(300, 7, ASLEEP)],
                Some((500, 7)),
            ),
        ] {
            assert_eq!(follow(wanted, &begins, &does).0, expected, "{why}");
        }
    }

    // Verifies TRACE-10.
    #[test]
    fn a_launch_goes_on_while_its_program_waits_for_a_lock_or_a_service() {
        let browser = [(100, 7, 1, "browser")];
        for (why, does, expected) in [
            ("a lock for 300 ms, then it is ready", vec![(500, locked()), (800, AWOKE)], (Some(1000), vec![500])),
            ("a lock to its exit", vec![(500, locked()), (1900, Doing::Gone)], (Some(1900), vec![500])),
            ("two locks", vec![(500, locked()), (900, Doing::Busy), (1000, locked())], (Some(6000), vec![500, 1000])),
            ("a lock that it never gets", vec![(500, locked())], (Some(5500), vec![500])),
            ("a service for 300 ms", vec![(500, UNCLEAR), (800, AWOKE)], (Some(1000), vec![])),
            ("nothing tells what for", vec![(500, UNCLEAR)], (Some(5500), vec![])),
            ("first nothing tells, then a lock", vec![(500, UNCLEAR), (700, locked())], (Some(5500), vec![700])),
            ("first nothing tells, then an event", vec![(500, UNCLEAR), (600, ASLEEP)], (Some(700), vec![])),
            ("a disk", vec![(500, Doing::Busy)], (None, vec![])),
        ] {
            let does: Vec<_> = does.into_iter().map(|(from, doing)| (from, 7, doing)).collect();
            let waits: Vec<Moment> = expected.1.iter().map(|from| (*from, 7)).collect();
            assert_eq!(follow(None, &browser, &does), (expected.0.map(|ended| (ended, 7)), waits), "{why}");
        }
    }

    #[test]
    fn functions_of_the_kernel_tell_what_a_thread_waits_for() {
        let lock = |function: &str| Wait::Lock(function.to_owned());
        for (function, expected) in [
            (Some("futex_wait_queue"), lock("futex_wait_queue")),
            (Some("futex_wait_queue_me"), lock("futex_wait_queue_me")),
            (Some("rwsem_down_read_slowpath"), lock("rwsem_down_read_slowpath")),
            (Some("binder_thread_read"), Wait::Unclear),
            (Some("do_epoll_wait"), Wait::Event),
            (Some("do_wait"), Wait::Event),
            (None, Wait::Unclear),
        ] {
            assert_eq!(Wait::within(function), expected, "{function:?}");
        }
    }

    #[test]
    fn a_storm_of_programs_that_have_ended_hides_no_launch() {
        let mut programs = Programs::new(None);
        for pid in 0..1000 {
            programs.begin(at(0), pid, begun_by(5000, "true"));
            assert_eq!(programs.look(at(0), |_| Doing::Gone), Changes::default());
        }
        programs.begin(at(0), 6000, begun_by(1, "browser"));
        let launch = SeenLaunch { pid: 6000, name: "browser".to_owned() };
        assert_eq!(programs.look(at(300), |_| Doing::Gone).ended, Some(launch));
        assert!(programs.followed.len() <= MAX_FOLLOWED);
    }
}
