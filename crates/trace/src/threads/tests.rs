//! Timelines of small traces.

use super::{Runner, State, Timelines};
use crate::model::Trace;
use crate::sample::{khz, line, switch, timelines};

fn waking(cpu: u16, us: u64, by: u32, target: u32) -> String {
    crate::sample::waking(cpu, us, by, target, cpu)
}

/// The states of a thread as letters with the microseconds since 1 s.
fn states(trace: &Trace, timelines: &Timelines, thread: u32) -> Vec<(u64, char)> {
    let letter = |state| match state {
        State::Absent => '-',
        State::Running { .. } => 'r',
        State::Runnable { .. } => 'q',
        State::Waiting { .. } => 'w',
        State::Unknown => '?',
    };
    let transitions = &timelines.threads[thread as usize].transitions;
    transitions.iter().map(|it| (trace.time_ns(it.at) / 1000 - 1_000_000, letter(it.state))).collect()
}

/// The recorder reads a frequency after it has begun to record.
#[test]
fn a_noted_frequency_counts_until_the_first_change() {
    let noted = |us: u64, khz: u32| line(0, us, 9, &format!("tracing_mark_write: cpu_frequency: state={khz} cpu_id=0"));
    let run = switch(0, 0, 0, "R", 7);
    for (text, expected) in [
        (noted(10, 500), vec![500]),
        (noted(10, 500) + &khz(20, 0, 800), vec![500, 800]),
        (khz(5, 0, 800) + &noted(10, 500), vec![800]),
        (noted(10, 500) + &noted(20, 800), vec![500]),
    ] {
        let (_, timelines) = timelines(&(run.clone() + &text));
        let found: Vec<u32> = timelines.cpus[0].frequencies.iter().map(|(_, khz)| *khz).collect();
        assert_eq!(found, expected, "{text}");
    }
}

// Verifies TRACE-3.
#[test]
fn states_are_found_and_what_is_missing_is_unknown() {
    for (why, text, expected) in [
        (
            "it runs at first, waits, is woken and runs",
            line(0, 0, 7, "page_fault_user: address=0x1")
                + &switch(0, 100, 7, "S", 0)
                + &waking(1, 200, 8, 7)
                + &switch(0, 250, 0, "R", 7)
                + &switch(0, 300, 7, "R", 8),
            vec![(0, 'r'), (100, 'w'), (200, 'q'), (250, 'r'), (300, 'q')],
        ),
        (
            "its first event is its wake-up",
            line(0, 0, 0, "sched_migrate_task: comm=x pid=99 prio=1 orig_cpu=0 dest_cpu=0")
                + &waking(1, 200, 8, 7)
                + &switch(0, 250, 0, "R", 7),
            vec![(0, 'w'), (200, 'q'), (250, 'r')],
        ),
        (
            "it is woken before it has left the CPU",
            switch(0, 0, 0, "R", 7)
                + &waking(1, 90, 8, 7)
                + &switch(0, 100, 7, "S", 0)
                + &switch(0, 150, 0, "R", 7)
                + &switch(0, 200, 7, "S", 0),
            vec![(0, 'q'), (0, 'r'), (100, 'q'), (150, 'r'), (200, 'w')],
        ),
        (
            "the switch that took it off is missing",
            switch(0, 0, 0, "R", 7) + &waking(0, 50, 7, 8) + &switch(0, 100, 9, "S", 0) + &waking(1, 150, 8, 7),
            vec![(0, 'q'), (0, 'r'), (50, '?'), (150, 'q')],
        ),
        (
            "the switch that put it on is missing",
            switch(0, 0, 0, "R", 8)
                + &switch(1, 10, 0, "R", 7)
                + &switch(1, 20, 7, "S", 0)
                + &switch(0, 100, 7, "S", 0),
            vec![(0, '?'), (10, 'r'), (20, '?'), (100, 'w')],
        ),
        (
            "events of its CPU were lost while it ran",
            switch(0, 0, 0, "R", 7) + "CPU:0 [LOST 5 EVENTS]\n" + &switch(0, 100, 8, "S", 0) + &waking(1, 150, 8, 7),
            vec![(0, '?'), (150, 'q')],
        ),
        (
            "its wake-up was lost with others",
            switch(0, 0, 0, "R", 7)
                + &switch(0, 10, 7, "S", 0)
                + &waking(1, 20, 9, 8)
                + "CPU:1 [LOST 5 EVENTS]\n"
                + &waking(1, 60, 9, 8)
                + &switch(0, 100, 0, "R", 7),
            vec![(0, 'q'), (0, 'r'), (10, 'w'), (20, '?'), (100, 'r')],
        ),
    ] {
        let (trace, timelines) = timelines(&text);
        let thread = timelines.by_tid[&7][0];
        let found = states(&trace, &timelines, thread);
        assert_eq!(dedup(&found), dedup(&expected), "{why}\n{text}{:?}", timelines.faults);
    }
}

/// Without states that take no time.
fn dedup(states: &[(u64, char)]) -> Vec<(u64, char)> {
    let mut kept: Vec<(u64, char)> = Vec::new();
    for (number, &state) in states.iter().enumerate() {
        if states.get(number + 1).is_none_or(|next| next.0 > state.0) {
            kept.push(state);
        }
    }
    kept
}

// Verifies TRACE-3.
#[test]
fn a_number_that_is_used_again_is_another_thread() {
    let text = switch(0, 0, 0, "R", 7)
        + &switch(0, 100, 7, "X", 0)
        + &line(1, 200, 8, "sched_process_fork: comm=t8 pid=8 child_comm=t8 child_pid=7")
        + &line(1, 210, 8, "sched_wakeup_new: comm=t7 pid=7 prio=120 target_cpu=000")
        + &switch(0, 250, 0, "R", 7);
    let (trace, timelines) = timelines(&text);
    let [one, other] = timelines.by_tid[&7][..] else { panic!("{timelines:?}") };
    assert_eq!(dedup(&states(&trace, &timelines, one)), [(0, 'r'), (100, '-')]);
    assert_eq!(dedup(&states(&trace, &timelines, other)), [(0, '-'), (200, 'q'), (250, 'r')]);
    assert_eq!(timelines.threads[other as usize].parent, timelines.by_tid[&8].first().copied());
    assert!(timelines.faults.iter().any(|fault| fault.contains("1 thread numbers were used again")));
}

#[test]
fn a_cpus_runners_are_known() {
    let text = switch(0, 0, 0, "R", 7) + &switch(0, 100, 7, "S", 8) + &switch(0, 300, 8, "S", 0);
    let (trace, timelines) = timelines(&text);
    let runners: Vec<(u64, bool)> = timelines.cpus[0]
        .runners
        .iter()
        .map(|(at, runner)| (trace.time_ns(*at) / 1000 - 1_000_000, *runner == Runner::Idle))
        .collect();
    assert_eq!(runners, [(0, true), (0, false), (100, false), (300, true)]);
    assert_eq!(timelines.faults, Vec::<String>::new());
}
