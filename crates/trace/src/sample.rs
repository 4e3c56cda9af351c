//! Lines of small traces for tests. Thread 7 is called t7; thread 0 is a CPU's idle task.

use std::path::Path;

use crate::model::Trace;
use crate::read::read_bytes;
use crate::threads::{Timelines, resolve};

/// The trace and its timelines.
pub fn timelines(text: &str) -> (Trace, Timelines) {
    let trace = read_bytes(Path::new("a"), text.as_bytes()).unwrap();
    let timelines = resolve(&trace);
    (trace, timelines)
}

/// One line: CPU, microseconds after 1 s, the thread that runs, the event.
pub fn line(cpu: u16, us: u64, tid: u32, event: &str) -> String {
    flagged(cpu, us, tid, "....", event)
}

/// A line with the kernel's flags: `..h.` is an interrupt.
pub fn flagged(cpu: u16, us: u64, tid: u32, flags: &str, event: &str) -> String {
    let (s, us) = (1 + us / 1_000_000, us % 1_000_000);
    format!("t{tid}-{tid} [{cpu:03}] {flags} {s}.{us:06}: {event}\n")
}

pub fn switch(cpu: u16, us: u64, from: u32, state: &str, to: u32) -> String {
    let event = format!(
        "sched_switch: prev_comm=t{from} prev_pid={from} prev_prio=120 prev_state={state} ==> next_comm=t{to} \
         next_pid={to} next_prio=120"
    );
    line(cpu, us, from, &event)
}

/// `by` wakes `target`, which will run on CPU `on`.
pub fn waking(cpu: u16, us: u64, by: u32, target: u32, on: u16) -> String {
    line(cpu, us, by, &format!("sched_waking: comm=t{target} pid={target} prio=120 target_cpu={on:03}"))
}

/// An interrupt that interrupts `by` wakes `target`.
pub fn interrupt(cpu: u16, us: u64, by: u32, target: u32, on: u16) -> String {
    flagged(cpu, us, by, "d.h.", &format!("sched_waking: comm=t{target} pid={target} prio=120 target_cpu={on:03}"))
}

/// The switches of a launch in Perfetto's own test of startups: second, thread before, thread after.
pub const STARTUP_SWITCHES: [(u64, u32, u32); 9] = [
    (100, 0, 2),
    (115, 2, 0),
    (120, 0, 2),
    (125, 2, 1),
    (150, 1, 2),
    (160, 2, 1),
    (180, 1, 3),
    (205, 3, 2),
    (220, 2, 0),
];
