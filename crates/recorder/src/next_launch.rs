//! Notices the end of a launch while it is recorded: a program that is executed, or an application that the zygote forks, until
//! it waits for an event or exits.
//!
//! The events come from a second instance of tracing, which has no others: a program that begins is rare. Process events of the
//! kernel's connector would need CONFIG_PROC_EVENTS, which Android's kernels lack.

use std::time::Duration;

use serde::Serialize;

use brisk_sys::process::process_watch;
use brisk_sys::process::schedstat::{self, Schedstat};
use brisk_sys::system::trace_events::{TraceEvent, TraceInstance, TracePipe};
use brisk_sys::system::trace_pages;
use brisk_sys::{BootTime, DeviceError, Root};

/// A program that sleeps this long is ready, as for explanations (`launches` of brisk-trace).
const READY: Duration = Duration::from_millis(200);
/// A program that exits sooner is a helper, for which no user waits.
const SHORTEST: Duration = READY;
/// Programs beyond that, of a storm of them, are not followed.
const MAX_FOLLOWED: usize = 256;
const BUFFER_KIB: u32 = 64;
/// The kernel keeps so much of a name: the beginning of a program's, the end of a package's.
const NAME_BYTES: usize = 15;
const EXEC: &str = "sched_process_exec";
const RENAME: &str = "task_rename";

/// A launch that was seen from its beginning to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SeenLaunch {
    pub pid: u32,
    pub name: String,
}

/// What a process does at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    Gone,
    Sleeping(Schedstat),
    Busy,
}

/// A process at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    parent: u32,
    name: String,
    doing: Doing,
}

/// A program that has begun.
#[derive(Debug)]
struct Followed {
    pid: u32,
    parent: u32,
    name: String,
    began: BootTime,
    /// Since when it sleeps, and what it had used then.
    sleeps: Option<(BootTime, Schedstat)>,
    has_ended: bool,
}

/// The programs that have begun, and which of them is awaited.
#[derive(Debug, Default)]
struct Programs {
    wanted: Option<String>,
    followed: Vec<Followed>,
}

impl Programs {
    fn begin(&mut self, now: BootTime, pid: u32, process: Process) {
        let Process { parent, name, .. } = process;
        // A shell executes another program in its place: the launch goes on.
        let began = self.followed.iter().position(|it| it.pid == pid).map_or(now, |at| self.followed.remove(at).began);
        if self.followed.len() < MAX_FOLLOWED {
            self.followed.push(Followed { pid, parent, name, began, sleeps: None, has_ended: false });
        }
    }

    /// Looks at each program, and returns a launch that has ended. One that waits for a program it has started has not.
    fn look(&mut self, now: BootTime, mut process: impl FnMut(u32) -> Doing) -> Option<SeenLaunch> {
        for it in self.followed.iter_mut().filter(|it| !it.has_ended) {
            match (process(it.pid), it.sleeps) {
                (Doing::Gone, _) => it.has_ended = true,
                (Doing::Sleeping(used), Some((since, before))) if used == before => {
                    it.has_ended = now.since(since) >= READY;
                }
                (Doing::Sleeping(used), _) => it.sleeps = Some((now, used)),
                (Doing::Busy, _) => it.sleeps = None,
            }
            if it.has_ended && now.since(it.began) < SHORTEST {
                // It is not even an ancestor whose name counts.
                it.name.clear();
            }
        }
        let ended = |it: &&Followed| it.has_ended && !it.name.is_empty() && self.is_wanted(&it.name);
        let ended = self.followed.iter().filter(ended).find(|it| !self.has_begun_another(it.pid));
        ended.map(|it| SeenLaunch { pid: it.pid, name: it.name.clone() })
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

/// Waits for the next launch; the instance is removed when this value is dropped.
#[derive(Debug)]
pub struct NextLaunch {
    root: Root,
    pipe: TracePipe,
    // Dropped last: the kernel removes no instance that is read.
    _instance: TraceInstance,
    programs: Programs,
}

impl NextLaunch {
    /// Begins to wait for a launch of any program, or of the one called `wanted`.
    ///
    /// # Errors
    /// Without the right to make another instance of tracing, and where the kernel does not have its events.
    pub fn begin(root: &Root, wanted: Option<String>) -> Result<Self, DeviceError> {
        let name = format!("{}-launches", trace_pages::own_instance(root));
        let instance = TraceInstance::make(root, &name, &[], BUFFER_KIB)?;
        instance.enable("sched/sched_process_exec", "")?;
        match instance.enable("task/task_rename", "") {
            Err(error) if !error.is_missing() => return Err(error),
            _ => {}
        }
        let pipe = instance.follow()?;
        Ok(Self { root: root.clone(), pipe, _instance: instance, programs: Programs { wanted, followed: Vec::new() } })
    }

    /// The launch that has ended by now.
    ///
    /// # Errors
    /// When the instance cannot be read.
    pub fn ended(&mut self) -> Result<Option<SeenLaunch>, DeviceError> {
        let now = BootTime::now();
        for pid in self.pipe.read()?.iter().filter_map(begun) {
            if let Some(process) = process(&self.root, pid) {
                self.programs.begin(now, pid, process);
            }
        }
        let root = &self.root;
        Ok(self.programs.look(now, |pid| process(root, pid).map_or(Doing::Gone, |process| process.doing)))
    }
}

/// The process that an event says has begun: by an exec, or by a name of its own that replaces the zygote's.
fn begun(event: &TraceEvent) -> Option<u32> {
    match event.name.as_str() {
        EXEC => Some(event.tid),
        RENAME => {
            let is_zygote = |key| {
                let name = event.text.split_once(key).map_or("", |(_, name)| name);
                ["zygote", "usap"].iter().any(|zygote| name.starts_with(zygote))
            };
            (is_zygote("oldcomm=") && !is_zygote("newcomm=")).then_some(event.tid)
        }
        _ => None,
    }
}

/// What a process does; none when it has ended.
fn process(root: &Root, pid: u32) -> Option<Process> {
    let text = root.read(format!("/proc/{pid}/stat")).ok()?;
    let (name, stat) = process_watch::parse(text.as_bytes())?;
    let used = || schedstat::parse(root.read(format!("/proc/{pid}/schedstat")).ok()?.as_bytes());
    let doing = match stat.state {
        b'Z' | b'X' => Doing::Gone,
        b'S' => used().map_or(Doing::Busy, Doing::Sleeping),
        _ => Doing::Busy,
    };
    Some(Process { parent: stat.parent, name: String::from_utf8_lossy(name).into_owned(), doing })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use brisk_sys::system::trace_events::parse;
    use brisk_sys::test_trees::root_of;

    const ASLEEP: Doing = Doing::Sleeping(Schedstat { run_ns: 7, wait_ns: 0, slices: 1 });
    const AWOKE: Doing = Doing::Sleeping(Schedstat { run_ns: 9, wait_ns: 0, slices: 2 });

    fn at(ms: u64) -> BootTime {
        BootTime::from_milliseconds(ms)
    }

    fn begun_by(parent: u32, name: &str) -> Process {
        Process { parent, name: name.to_owned(), doing: Doing::Busy }
    }

    /// When which launch ends, of programs (begin, number, parent, name) that do something from a time on.
    fn end(wanted: Option<&str>, begins: &[(u64, u32, u32, &str)], does: &[(u64, u32, Doing)]) -> Option<(u64, u32)> {
        let mut programs = Programs { wanted: wanted.map(str::to_owned), ..Programs::default() };
        let mut doing: BTreeMap<u32, Doing> = BTreeMap::new();
        (0..30).map(|tick| tick * 100).find_map(|now| {
            for &(_, pid, parent, name) in begins.iter().filter(|(begin, ..)| *begin == now) {
                programs.begin(at(now), pid, begun_by(parent, name));
            }
            doing.extend(does.iter().filter(|(from, ..)| *from == now).map(|(_, pid, doing)| (*pid, doing.clone())));
            let ended = programs.look(at(now), |pid| doing.get(&pid).cloned().unwrap_or(Doing::Busy));
            ended.map(|launch| (now, launch.pid))
        })
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
            assert_eq!(end(wanted, &begins, &does), expected, "{why}");
        }
    }

    #[test]
    fn programs_and_applications_begin() {
        for (event, expected) in [
            ("sched_process_exec: filename=/usr/bin/a b pid=7 old_pid=7", Some(7)),
            ("task_rename: pid=7 oldcomm=zygote64 newcomm=m.example.shop oom_score_adj=0", Some(7)),
            ("task_rename: oldcomm=usap64 newcomm=m.example.shop oom_score_adj=0", Some(7)),
            ("task_rename: pid=7 oldcomm=zygote64 newcomm=usap64 oom_score_adj=0", None),
            ("task_rename: pid=7 oldcomm=sh newcomm=zygote oom_score_adj=0", None),
            ("sched_process_exit: comm=a pid=7 prio=120", None),
        ] {
            let event = parse(&format!("           a-7       [000] .....    12.345678: {event}")).unwrap();
            assert_eq!(begun(&event), expected, "{}", event.text);
        }
    }

    #[test]
    fn what_a_process_does_is_read_from_proc() {
        let stat = |state: &str| format!("7 (a (b) c) {state} 3 7 7 0 -1 4194304 1 0 0 0 5 6 0 0 20 0 1 0 900 1 1");
        let used = Schedstat { run_ns: 7, wait_ns: 8, slices: 9 };
        for (state, schedstat, expected) in [
            ("S", Some("7 8 9\n"), Doing::Sleeping(used)),
            // Without counters it is not known to sleep on.
            ("S", None, Doing::Busy),
            ("D", Some("7 8 9\n"), Doing::Busy),
            ("R", Some("7 8 9\n"), Doing::Busy),
            ("Z", Some("7 8 9\n"), Doing::Gone),
        ] {
            let stat = stat(state);
            let files = [("proc/7/stat", stat.as_str()), ("proc/7/schedstat", schedstat.unwrap_or_default())];
            let (_folder, root) = root_of(&files[..1 + usize::from(schedstat.is_some())]);
            let found = process(&root, 7);
            assert_eq!(found, Some(Process { parent: 3, name: "a (b) c".to_owned(), doing: expected }), "{state}");
            assert_eq!(process(&root, 8), None);
        }
    }
}
