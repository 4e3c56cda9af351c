//! Lines of small traces for tests. Thread 7 is called t7; thread 0 is a CPU's idle task.

use std::path::Path;

use proptest::prelude::*;

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

/// CPU `cpu` changes its frequency.
pub fn khz(us: u64, cpu: u16, khz: u32) -> String {
    line(cpu, us, 0, &format!("cpu_frequency: state={khz} cpu_id={cpu}"))
}

/// Any order of switches, wake-ups, losses and other events, also contradictory ones, of few threads on few CPUs.
pub fn any_event() -> impl Strategy<Value = String> {
    let (cpu, tid) = (0u16..3, 0u32..6);
    let states = prop::sample::select(vec!["R", "R+", "S", "D", "X", "T", "I"]);
    let us = 0u64..2_000;
    let state_and_next = (states, 0u32..6);
    (cpu, tid, us, 0u8..16, state_and_next, 0u32..4).prop_map(|(cpu, tid, us, kind, (state, other), number)| match kind
    {
        0..5 => switch(cpu, us, tid, state, other),
        5..8 => waking(cpu, us, tid, other, number as u16),
        8 => interrupt(cpu, us, tid, other, cpu),
        9 => khz(us, cpu, number * 500_000),
        10 => format!("CPU:{cpu} [LOST {number} EVENTS]\n"),
        11 => line(cpu, us, tid, &format!("sched_blocked_reason: pid={other} iowait={} caller=mutex_lock", number % 2)),
        12 => line(cpu, us, tid, "mm_vmscan_direct_reclaim_begin: order=0"),
        13 => line(cpu, us, tid, &format!("sched_process_fork: comm=a pid={tid} child_comm=b child_pid={other}")),
        14 => line(
            cpu,
            us,
            tid,
            &format!(
                "binder_transaction: transaction={number} dest_node=1 dest_proc={other} dest_thread=0 reply={} \
                 flags=0x0 code=0x1",
                number % 2
            ),
        ),
        _ => line(cpu, us, tid, &format!("sched_migrate_task: comm=a pid={other} prio=1 orig_cpu=0 dest_cpu={number}")),
    })
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
