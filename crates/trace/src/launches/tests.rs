//! Launches in small traces, and those of Perfetto's own tests.

use std::path::Path;

use super::{Found, choose, find};
use crate::explain::{Cause, explain};
use crate::model::Trace;
use crate::read::read_bytes;
use crate::sample::{STARTUP_SWITCHES, interrupt, line, switch, timelines, waking};
use crate::threads::resolve;

/// Name, how it was found, process, and the window in microseconds since 1 s.
fn launches(text: &str) -> Vec<(String, Found, Option<u32>, u64, u64)> {
    let (trace, timelines) = timelines(text);
    let us = |ns: u64| ns / 1000 - 1_000_000;
    let launches = find(&trace, &timelines).into_iter();
    launches.map(|it| (it.name, it.found, it.pid, us(it.from_ns), us(it.to_ns))).collect()
}

fn mark(us: u64, tid: u32, text: &str) -> String {
    line(0, us, tid, &format!("tracing_mark_write: {text}"))
}

/// Thread 7 runs from 0 to 9 ms; process 2 is system_server.
fn between(events: &str) -> String {
    switch(0, 0, 0, "R", 7) + events + &switch(0, 9_000, 7, "S", 0)
}

// Verifies TRACE-4.
#[test]
fn launches_are_found_in_each_way() {
    let start = |name: &str| format!("S|2|{name}|1");
    let end = |name: &str| format!("F|2|{name}|1");
    let name = |us, name: &str| line(0, us, 7, &format!("task_rename: pid=7 oldcomm=x newcomm={name} oom_score_adj=0"));
    let fork = |us, by: u32, child: u32| {
        line(0, us, by, &format!("task_newtask: pid={child} comm=t{by} clone_flags=1200000 oom_score_adj=0"))
    };
    let exec =
        |us, tid, path: &str| line(0, us, tid, &format!("sched_process_exec: filename={path} pid={tid} old_pid={tid}"));
    let begun = || {
        let forked = switch(0, 0, 0, "R", 3) + &fork(1_000, 3, 7);
        forked + &switch(0, 2_000, 3, "S", 7) + &exec(2_100, 7, "/usr/bin/editor")
    };
    let locks =
        |us| line(0, us, 7, "sys_enter_futex: uaddr: 0x1, op: 0x80, val: 0x2") + &switch(0, us + 100, 7, "S", 0);
    for (why, text, expected) in [
        (
            "a slice of system_server, from the intent on",
            between(
                &(name(100, "com.a")
                    + &mark(1_000, 2, "B|2|MetricsLogger:launchObserverNotifyIntentStarted")
                    + &mark(1_100, 2, "E|2")
                    + &mark(2_000, 2, &start("launching: com.a"))
                    + &mark(3_000, 7, "B|7|activityStart")
                    + &mark(3_500, 7, "E|7")
                    + &mark(5_000, 2, &end("launching: com.a"))),
            ),
            vec![("com.a", Found::Launching, Some(7), 1_000, 5_000)],
        ),
        (
            "of Android 13: the package is in an instant; another one does not complete",
            between(
                &(name(100, "com.a")
                    + &mark(2_000, 2, &start("launchingActivity#1"))
                    + &mark(5_000, 2, &end("launchingActivity#1"))
                    + &mark(5_100, 2, "I|2|launchingActivity#1:completed-warm:com.a")
                    + &mark(6_000, 2, &start("launchingActivity#2"))
                    + &mark(7_000, 2, &end("launchingActivity#2"))),
            ),
            vec![("com.a", Found::Launching, Some(7), 2_000, 5_000)],
        ),
        (
            "its process has another name, but only one started an activity",
            between(
                &(mark(2_000, 2, &start("launching: com.b"))
                    + &mark(3_000, 7, "B|7|bindApplication")
                    + &mark(5_000, 2, &end("launching: com.b"))),
            ),
            vec![("com.b", Found::Launching, Some(7), 2_000, 5_000)],
        ),
        (
            "slices of the application alone: until its first frame ends",
            between(
                &(mark(2_000, 7, "B|7|activityStart")
                    + &mark(2_500, 7, "E|7")
                    + &mark(2_600, 7, "B|7|activityResume")
                    + &mark(2_700, 7, "E|7")
                    + &mark(3_000, 7, "B|7|Choreographer#doFrame 42")
                    + &mark(3_100, 7, "B|7|draw")
                    + &mark(3_800, 7, "E|7")
                    + &mark(4_000, 7, "E|7")
                    + &mark(5_000, 7, "B|7|Choreographer#doFrame 43")),
            ),
            vec![("t7", Found::FirstFrame, Some(7), 2_000, 4_000)],
        ),
        (
            "a fork of the zygote without markers: until it waits for long",
            (switch(0, 0, 0, "R", 3)
                + &fork(1_000, 3, 7)
                + &switch(0, 2_000, 3, "S", 7)
                + &switch(0, 4_000, 7, "S", 0)
                + &interrupt(0, 4_500, 0, 7, 0)
                + &switch(0, 4_600, 0, "R", 7)
                + &switch(0, 8_000, 7, "S", 0)
                + &interrupt(0, 500_000, 0, 7, 0)
                + &switch(0, 500_100, 0, "R", 7))
                .replace("t3", "zygote64"),
            vec![("t7", Found::Zygote, Some(7), 1_000, 8_000)],
        ),
        (
            "a command: from its fork to its end; the shell's own program was executed before",
            switch(0, 0, 0, "R", 3)
                + &fork(1_000, 3, 7)
                + &switch(0, 2_000, 3, "S", 7)
                + &exec(2_100, 7, "/bin/env")
                + &exec(2_200, 7, "/usr/bin/editor")
                + &waking(0, 5_900, 7, 3, 0)
                + &switch(0, 6_000, 7, "Z", 3)
                + &switch(0, 9_000, 3, "S", 0),
            vec![("editor", Found::Exec, Some(7), 1_000, 6_000)],
        ),
        (
            "a shell that has waited executes a command, and later another one",
            switch(0, 0, 0, "R", 3)
                + &fork(1_000, 3, 7)
                + &switch(0, 2_000, 3, "S", 7)
                + &switch(0, 3_000, 7, "S", 0)
                + &interrupt(0, 303_000, 0, 7, 0)
                + &switch(0, 303_100, 0, "R", 7)
                + &exec(303_200, 7, "/usr/bin/editor")
                + &switch(0, 304_000, 7, "S", 0)
                + &interrupt(0, 604_000, 0, 7, 0)
                + &switch(0, 604_100, 0, "R", 7)
                + &exec(604_200, 7, "/usr/bin/viewer")
                + &switch(0, 605_000, 7, "Z", 0),
            vec![
                ("editor", Found::Exec, Some(7), 303_200, 304_000),
                ("viewer", Found::Exec, Some(7), 604_200, 605_000),
            ],
        ),
        (
            "a command that waits long for a service and for a lock is not ready yet",
            begun()
                + &line(
                    0,
                    2_200,
                    7,
                    "binder_transaction: transaction=5 dest_node=1 dest_proc=9 dest_thread=0 reply=0 flags=0x10 code=0x1",
                )
                + &switch(0, 2_300, 7, "S", 0)
                + &interrupt(0, 303_000, 0, 7, 0)
                + &switch(0, 303_100, 0, "R", 7)
                + &line(
                    0,
                    303_200,
                    7,
                    "binder_transaction: transaction=6 dest_node=0 dest_proc=7 dest_thread=7 reply=1 flags=0x0 code=0x0",
                )
                + &line(0, 303_300, 7, "binder_transaction_received: transaction=6")
                + &locks(304_000)
                + &interrupt(0, 605_000, 0, 7, 0)
                + &switch(0, 605_100, 0, "R", 7)
                + &line(0, 605_200, 7, "sys_exit_futex: 0x0")
                + &switch(0, 606_000, 7, "S", 0)
                + &interrupt(0, 907_000, 0, 7, 0)
                + &switch(0, 907_100, 0, "R", 7),
            vec![("editor", Found::Exec, Some(7), 1_000, 606_000)],
        ),
        (
            "a note of the recorder tells that a command waits for a lock",
            begun()
                + &switch(0, 4_000, 7, "S", 8)
                + &line(1, 104_000, 9, "tracing_mark_write: sched_blocked_reason: pid=7 iowait=0 caller=futex_wait")
                + &waking(0, 305_000, 8, 7, 0)
                + &switch(0, 305_100, 8, "S", 7)
                // Such a note comes too late.
                + &line(1, 305_500, 9, "tracing_mark_write: sched_blocked_reason: pid=7 iowait=0 caller=futex_wait")
                + &switch(0, 306_000, 7, "S", 0)
                + &interrupt(0, 607_000, 0, 7, 0)
                + &switch(0, 607_100, 0, "R", 7),
            vec![("editor", Found::Exec, Some(7), 1_000, 306_000)],
        ),
        (
            "the trace ends while a command waits for a lock",
            begun() + &locks(4_000) + &switch(1, 3_004_100, 9, "S", 0),
            vec![("editor", Found::Exec, Some(7), 1_000, 3_004_100)],
        ),
        (
            "a command is idle in a lock",
            begun() + &locks(4_000) + &switch(1, 5_004_100, 9, "S", 0),
            vec![("editor", Found::Exec, Some(7), 1_000, 4_100)],
        ),
        ("nothing", between(""), vec![]),
        ("a launch without an end", between(&mark(2_000, 2, &start("launching: com.a"))), vec![]),
    ] {
        let found = launches(&text);
        let found: Vec<_> = found.iter().map(|it| (it.0.as_str(), it.1, it.2, it.3, it.4)).collect();
        assert_eq!(found, expected, "{why}\n{text}");
    }
}

#[test]
fn a_launch_is_chosen_by_number_or_by_name() {
    let (trace, timelines) = timelines(&between(
        &(mark(1_000, 2, "S|2|launching: com.example.browser|0")
            + &mark(2_000, 2, "F|2|launching: com.example.browser|0")
            + &mark(3_000, 2, "S|2|launching: com.a|0")
            + &mark(4_000, 2, "F|2|launching: com.a|0")),
    ));
    let launches = find(&trace, &timelines);
    for (wanted, expected) in [
        ("1", Some(0)),
        ("2", Some(1)),
        ("3", None),
        ("0", None),
        ("com.a", Some(1)),
        ("com.example.browser", Some(0)),
        ("b", None),
    ] {
        assert_eq!(choose(&launches, wanted), expected, "{wanted}");
    }
}

/// A line of text with nanoseconds, as Perfetto's tests count them.
fn exact(ns: u64, tid: u32, event: &str) -> String {
    format!("{}-{tid} [000] .... {}.{:09}: {event}\n", name_of(tid), ns / 1_000_000_000, ns % 1_000_000_000)
}

fn name_of(tid: u32) -> &'static str {
    ["swapper", "init", "system_server", "calendar.google", "calendar.google"][tid as usize]
}

fn exact_switch(ns: u64, from: u32, state: &str, to: u32) -> String {
    let (of, next) = (name_of(from), name_of(to));
    let event = format!(
        "sched_switch: prev_comm={of} prev_pid={from} prev_prio=120 prev_state={state} ==> next_comm={next} next_pid={to} next_prio=120"
    );
    exact(ns, from, &event)
}

/// The states of the first launch's main thread: to the first run, running, runnable, sleeping.
fn states(trace: &Trace) -> (u64, [u64; 4]) {
    let timelines = resolve(trace);
    let launches = find(trace, &timelines);
    assert_eq!(launches.len(), 1, "{launches:?}");
    let explanation = explain(trace, &timelines, launches[0].window().unwrap());
    let sum = |cause: Cause| explanation.parts.iter().filter(|it| it.cause == cause).map(|it| it.ns).sum();
    let runnable = sum(Cause::Runnable) + sum(Cause::IdleExit);
    let states = [sum(Cause::Unknown), sum(Cause::Running), runnable, sum(Cause::Sleeping)];
    (explanation.to_ns - explanation.from_ns, states)
}

/// Of android_startup.py and android_startup_breakdown.py of Perfetto's tests what tells of the launch, with the values of their
/// expected metrics: the duration; time_to_running_state, running, runnable and interruptible sleep of the main thread.
// Verifies TRACE-2, TRACE-4.
#[test]
fn launches_of_perfettos_tests_have_its_values() {
    let launching =
        |ns, letter, package: &str| exact(ns, 2, &format!("tracing_mark_write: {letter}|2|launching: {package}|0"));
    let intent = |ns| exact(ns, 2, "tracing_mark_write: B|2|MetricsLogger:launchObserverNotifyIntentStarted");
    let mark = |ns, text: &str| exact(ns, 3, &format!("tracing_mark_write: {text}"));
    let s = 1_000_000_000;
    let package = "com.calendar.google";
    let warm = intent(100)
        + &intent(102)
        + &launching(110, 'S', package)
        + &exact_switch(110, 0, "R", 3)
        + &mark(115, "B|3|activityStart")
        + &mark(117, "E|3")
        + &exact_switch(120, 3, "S", 0)
        + &exact_switch(130, 0, "R", 3)
        + &exact_switch(130, 3, "R", 4)
        + &exact_switch(160, 4, "R", 0)
        + &exact_switch(209, 0, "R", 4)
        + &exact_switch(210, 4, "R", 0)
        + &launching(210, 'F', package)
        + &intent(402)
        + &launching(410, 'S', package)
        + &launching(510, 'F', "com.google.android.apps.nexuslauncher");
    let mut cold = intent(102 * s) + &launching(110 * s, 'S', package) + &mark(185 * s, "B|3|bindApplication");
    for (time, from, to) in STARTUP_SWITCHES {
        cold += &exact_switch(time * s, from, "R", to);
    }
    cold += &launching(210 * s, 'F', package);
    for (text, expected) in [(warm, (108, [8, 10, 80, 10])), (cold, (108 * s, [78 * s, 25 * s, 5 * s, 0]))] {
        let trace = read_bytes(Path::new("a"), text.as_bytes()).unwrap();
        assert_eq!(states(&trace), expected);
    }
}

// Verifies TRACE-2.
#[test]
fn the_time_before_its_birth_is_that_of_its_parent() {
    let (trace, timelines) = timelines(
        &(switch(0, 0, 0, "R", 3)
            + &line(0, 2_000, 3, "task_newtask: pid=7 comm=t3 clone_flags=1200000 oom_score_adj=0")
            + &line(0, 2_500, 3, "sched_process_exec: filename=/x/y pid=7 old_pid=7")
            + &switch(0, 3_000, 3, "S", 7)
            + &switch(0, 5_000, 7, "S", 0)),
    );
    let thread = timelines.by_tid[&7][0];
    let window = crate::explain::Window { thread, from_ns: trace.start_ns(), to_ns: trace.end_ns() };
    let parts = explain(&trace, &timelines, window).parts;
    let found: Vec<_> = parts
        .iter()
        .map(|it| (it.cause, it.on_behalf.as_ref().map(|it| (it.wait, it.of.as_str())), it.ns / 1000))
        .collect();
    let expected =
        [(Cause::Running, Some(("fork", "t3")), 2_000), (Cause::Running, None, 2_000), (Cause::Runnable, None, 1_000)];
    assert_eq!(found, expected);
}
