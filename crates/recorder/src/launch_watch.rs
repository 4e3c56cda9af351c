//! Watches programs while they are recorded: those that are executed, and applications that the zygote forks. It notices the end of
//! a launch, and notes in the recording when a program waits for a lock, which no event of the scheduler tells.
//!
//! The events come from a second instance of tracing, which has no others: a program that begins is rare. Process events of the
//! kernel's connector would need CONFIG_PROC_EVENTS, which Android's kernels lack.

use brisk_sys::process::{self, process_watch, schedstat};
use brisk_sys::system::trace_events::{TraceEvent, TraceInstance, TracePipe};
use brisk_sys::system::trace_pages;
use brisk_sys::{BootTime, DeviceError, Root};

use crate::programs::{Doing, Process, Programs, SeenLaunch, Wait};
use crate::recording::Recording;

const BUFFER_KIB: u32 = 64;
const EXEC: &str = "sched_process_exec";
const RENAME: &str = "task_rename";

/// Watches programs that begin; the instance is removed when this value is dropped.
#[derive(Debug)]
pub struct LaunchWatch {
    root: Root,
    pipe: TracePipe,
    // Dropped last: the kernel removes no instance that is read.
    _instance: TraceInstance,
    programs: Programs,
}

impl LaunchWatch {
    /// Begins to watch. Launches are those of any program, or of the one called `wanted`.
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
        Ok(Self { root: root.clone(), pipe, _instance: instance, programs: Programs::new(wanted) })
    }

    /// Looks at the programs, notes in `recording` which wait for locks, and returns the launch that has ended by now.
    ///
    /// # Errors
    /// When the instance cannot be read.
    pub fn look(&mut self, recording: &Recording) -> Result<Option<SeenLaunch>, DeviceError> {
        let now = BootTime::now();
        for pid in self.pipe.read()?.iter().filter_map(begun) {
            if let Some(process) = read(&self.root, pid) {
                self.programs.begin(now, pid, process);
            }
        }
        let root = &self.root;
        let doing = |pid| read(root, pid).map_or(Doing::Gone, |process| process.doing);
        let changes = self.programs.look(now, doing);
        changes.lock_waits.iter().for_each(|wait| recording.note_lock_wait(wait));
        Ok(changes.ended)
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
fn read(root: &Root, pid: u32) -> Option<Process> {
    let text = root.read(format!("/proc/{pid}/stat")).ok()?;
    let (name, stat) = process_watch::parse(text.as_bytes())?;
    let used = || schedstat::parse(root.read(format!("/proc/{pid}/schedstat")).ok()?.as_bytes());
    let wait = || Wait::within(process::wait_function(root, pid).as_deref());
    let doing = match stat.state {
        b'Z' | b'X' => Doing::Gone,
        b'S' => used().map_or(Doing::Busy, |used| Doing::Sleeping { used, wait: wait() }),
        _ => Doing::Busy,
    };
    Some(Process { parent: stat.parent, name: String::from_utf8_lossy(name).into_owned(), doing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::process::schedstat::Schedstat;
    use brisk_sys::system::trace_events::parse;
    use brisk_sys::test_trees::root_of;

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
        let asleep = |wait| Doing::Sleeping { used, wait };
        let counters = ("proc/7/schedstat", "7 8 9\n");
        let function = |name| ("proc/7/wchan", name);
        for (state, files, expected) in [
            ("S", vec![counters, function("ep_poll")], asleep(Wait::Event)),
            ("S", vec![counters, function("futex_wait")], asleep(Wait::Lock("futex_wait".to_owned()))),
            ("S", vec![counters], asleep(Wait::Unclear)),
            // Without counters it is not known to sleep on.
            ("S", vec![function("ep_poll")], Doing::Busy),
            ("D", vec![counters], Doing::Busy),
            ("R", vec![counters], Doing::Busy),
            ("Z", vec![counters], Doing::Gone),
        ] {
            let stat = stat(state);
            let (_folder, root) = root_of(&[files, vec![("proc/7/stat", stat.as_str())]].concat());
            let found = read(&root, 7);
            assert_eq!(found, Some(Process { parent: 3, name: "a (b) c".to_owned(), doing: expected }), "{state}");
            assert_eq!(read(&root, 8), None);
        }
    }
}
