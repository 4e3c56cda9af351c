//! Small traces of known truth, one for each cause, and a property of all traces: the parts are the window.

use proptest::prelude::*;

use super::{Cause, Explanation, Window, explain};
use crate::sample::{any_event, flagged, interrupt, khz, line, switch, timelines, waking};
use crate::target::{Wanted, find};

/// Explains thread 7 in the whole trace.
fn of_7(text: &str) -> Explanation {
    let (trace, timelines) = timelines(text);
    let (window, _) = find(&trace, &timelines, &Wanted::Thread(7), None, None).unwrap();
    explain(&trace, &timelines, window)
}

/// The parts: cause, subject, on whose behalf, microseconds; in the order of length.
fn parts(explanation: &Explanation) -> Vec<(Cause, Option<&str>, Option<String>, u64)> {
    let on_behalf = |part: &super::Part| part.on_behalf.as_ref().map(|it| format!("{} {}", it.wait, it.of));
    let parts = explanation.parts.iter();
    parts.map(|part| (part.cause, part.subject.as_deref(), on_behalf(part), part.ns / 1000)).collect()
}

/// A part: cause, subject, on whose behalf, microseconds.
type Expected = (Cause, Option<&'static str>, Option<&'static str>, u64);

/// Checks what each trace is explained by.
fn check(cases: &[(&str, String, &[Expected])]) {
    for (why, text, expected) in cases {
        let explanation = of_7(text);
        let expected: Vec<_> =
            expected.iter().map(|&(cause, subject, by, us)| (cause, subject, by.map(str::to_owned), us)).collect();
        assert_eq!(parts(&explanation), expected, "{why}\n{text}");
        assert_adds_up(&explanation);
    }
}

fn assert_adds_up(explanation: &Explanation) {
    let window_ns = explanation.to_ns - explanation.from_ns;
    assert_eq!(explanation.parts.iter().map(|part| part.ns).sum::<u64>(), window_ns);
    let mut at = explanation.from_ns;
    for step in &explanation.path {
        assert_eq!(step.from_ns, at, "no gap and no overlap");
        assert!(step.to_ns > step.from_ns);
        assert_eq!(step.shares.iter().map(|(_, ns)| ns).sum::<u64>(), step.to_ns - step.from_ns);
        at = step.to_ns;
    }
    assert_eq!(at, explanation.to_ns);
}

// Verifies TRACE-2.
#[test]
fn running_is_split_by_frequency_and_by_core() {
    check(&[
        (
            "a ramp: 10 ms at a quarter of the speed, then full speed",
            khz(0, 0, 500_000) + &switch(0, 0, 0, "R", 7) + &khz(10_000, 0, 2_000_000) + &switch(0, 20_000, 7, "S", 0),
            &[(Cause::FullSpeed, None, None, 12_500), (Cause::Frequency, Some("CPU 0"), None, 7_500)],
        ),
        (
            "a core with half of the highest frequency, at half of its own",
            khz(0, 0, 500_000)
                + &khz(0, 1, 2_000_000)
                + &khz(0, 0, 1_000_000)
                + &khz(0, 0, 500_000)
                + &switch(0, 0, 0, "R", 7)
                + &switch(0, 8_000, 7, "S", 0),
            &[
                (Cause::Frequency, Some("CPU 0"), None, 4_000),
                (Cause::FullSpeed, None, None, 2_000),
                (Cause::SmallerCore, Some("CPU 0"), None, 2_000),
            ],
        ),
        (
            "the frequency is known from 3 ms on, and its limit is higher",
            switch(0, 0, 0, "R", 7)
                + &khz(3_000, 0, 1_000_000)
                + &line(0, 4_000, 7, "cpu_frequency_limits: min=1 max=2000000 cpu_id=0")
                + &switch(0, 5_000, 7, "S", 0),
            &[
                (Cause::Running, None, None, 3_000),
                (Cause::FullSpeed, None, None, 1_000),
                (Cause::Frequency, Some("CPU 0"), None, 1_000),
            ],
        ),
    ]);
}

// Verifies TRACE-2.
#[test]
fn waiting_for_a_cpu_names_what_ran() {
    check(&[
        (
            "a hog preempts it, then another thread runs",
            switch(0, 0, 0, "R", 7)
                + &switch(0, 2_000, 7, "R+", 8)
                + &switch(0, 9_000, 8, "R", 9)
                + &switch(0, 10_000, 9, "S", 7)
                + &waking(1, 10_500, 8, 99, 1)
                + &switch(0, 12_000, 7, "S", 0),
            &[
                (Cause::Runnable, Some("t8"), None, 7_000),
                (Cause::Running, None, None, 4_000),
                (Cause::Runnable, Some("t9"), None, 1_000),
            ],
        ),
        (
            "woken for a CPU that a hog has, moved to one that leaves an idle state",
            switch(0, 0, 0, "R", 8)
                + &switch(1, 0, 7, "S", 0)
                + &interrupt(1, 1_000, 0, 7, 0)
                + &line(1, 3_000, 0, "sched_migrate_task: comm=t7 pid=7 prio=120 orig_cpu=0 dest_cpu=1")
                + &switch(1, 3_200, 0, "R", 7)
                + &switch(1, 4_000, 7, "S", 0),
            &[
                (Cause::Runnable, Some("t8"), None, 2_000),
                (Cause::Sleeping, None, None, 1_000),
                (Cause::Running, None, None, 800),
                (Cause::IdleExit, None, None, 200),
            ],
        ),
    ]);
}

/// Thread 7 waits from 1 ms to 5 ms in this state and then runs for 1 ms; `cause` are the events that tell why.
fn waits(state: &str, before: &str, cause: &str, wake: &str) -> String {
    switch(0, 0, 0, "R", 7)
        + before
        + &switch(0, 1_000, 7, state, 0)
        + cause
        + wake
        + &switch(0, 5_000, 0, "R", 7)
        + &switch(0, 6_000, 7, "S", 0)
}

// Verifies TRACE-2.
#[test]
fn waits_for_storage_and_memory_name_their_cause() {
    let issue = line(0, 900, 7, "block_rq_issue: 179,0 R 4096 () 800 + 8 [t7]");
    let complete = flagged(0, 4_990, 0, "d.h.", "block_rq_complete: 179,0 R () 800 + 8 [0]");
    let woken = interrupt(0, 5_000, 0, 7, 0);
    let reason = |io: u8, function: &str| {
        line(0, 4_999, 0, &format!("sched_blocked_reason: pid=7 iowait={io} caller={function}+0x10/0x90"))
    };
    let fault = line(0, 950, 7, "page_fault_user: address=0x1 ip=0x2 error_code=0x4");
    let reads = |what: &str| line(0, 940, 7, &format!("f2fs_dataread_{what}"));
    let reclaim = |us, what: &str| line(0, us, 7, &format!("mm_vmscan_direct_reclaim_{what}: order=0"));
    let ran = (Cause::Running, None, None, 2_000);
    check(&[
        (
            "a request completes in the interrupt that wakes it",
            waits("D", &issue, &complete, &woken),
            &[(Cause::Storage, Some("179,0"), None, 4_000), ran],
        ),
        (
            "the page that it has added to the page cache tells the file",
            waits(
                "D",
                &(line(0, 950, 7, "mm_filemap_add_to_page_cache: dev 179:0 ino 2a pfn=0x1 ofs=0") + &issue),
                &complete,
                &woken,
            ),
            &[(Cause::Storage, Some("179,0, inode 42"), None, 4_000), ran],
        ),
        (
            "a read that has ended does not",
            waits(
                "D",
                &(reads("start: entry_name /a b, offset 0, bytes 9") + &reads("end: ino 1, offset 0") + &issue),
                &complete,
                &woken,
            ),
            &[(Cause::Storage, Some("179,0"), None, 4_000), ran],
        ),
        (
            "a read tells the file, whose pages do not",
            waits(
                "D",
                &(reads("start: entry_name /a b, offset 0, bytes 9")
                    + &line(0, 950, 7, "mm_filemap_add_to_page_cache: dev 179:0 ino 2a pfn=0x1 ofs=0")),
                &complete,
                &woken,
            ),
            &[(Cause::Storage, Some("179,0, file /a b"), None, 4_000), ran],
        ),
        (
            "sched_blocked_reason tells of a request that it issued",
            waits("D", &issue, &reason(1, "io_schedule"), &waking(1, 5_000, 9, 7, 0)),
            &[(Cause::Storage, Some("179,0"), None, 4_000), ran],
        ),
        (
            "a page of a file, by the fault before",
            waits("D", &(fault + &issue), &complete, &woken),
            &[(Cause::PageFault, Some("179,0"), None, 4_000), ran],
        ),
        (
            "a page of a file, by the function",
            waits("D", "", &reason(1, "filemap_fault"), &woken),
            &[(Cause::PageFault, None, None, 4_000), ran],
        ),
        (
            "a page that was swapped out",
            waits("D", "", &reason(1, "do_swap_page"), &woken),
            &[(Cause::SwapIn, None, None, 4_000), ran],
        ),
        (
            "reclaim, partly running",
            waits("D", &reclaim(800, "begin"), "", &woken)
                .replace(&switch(0, 6_000, 7, "S", 0), &(reclaim(5_300, "end") + &switch(0, 6_000, 7, "S", 0))),
            &[(Cause::Reclaim, None, None, 4_500), (Cause::Running, None, None, 1_500)],
        ),
        (
            "a function that says nothing",
            waits("D", "", &reason(0, "msleep"), &woken),
            &[(Cause::Uninterruptible, Some("msleep"), None, 4_000), ran],
        ),
        ("a timer", waits("S", "", "", &woken), &[(Cause::Sleeping, None, None, 4_000), ran]),
        ("it was stopped", waits("T", "", "", &waking(1, 5_000, 9, 7, 0)), &[(Cause::Stopped, None, None, 4_000), ran]),
    ]);
}

// Verifies TRACE-2.
#[test]
fn waits_for_other_threads_are_split_by_what_those_did() {
    // Thread 8 sleeps, is woken by a timer at 2 ms, runs from 2.5 ms and wakes thread 7 at 5 ms.
    let other = switch(1, 0, 8, "S", 0) + &interrupt(1, 2_000, 0, 8, 1) + &switch(1, 2_500, 0, "R", 8);
    let wake = waking(1, 5_000, 8, 7, 0);
    let contention = "tracing_mark_write: B|7|monitor contention with owner t8 (8) at a.b()(c:1) waiters=0";
    let ran = (Cause::Running, None, None, 2_000);
    let split = |on_behalf| {
        [
            (Cause::Running, None, Some(on_behalf), 2_500),
            ran,
            (Cause::Sleeping, None, Some(on_behalf), 1_000),
            (Cause::IdleExit, None, Some(on_behalf), 500),
        ]
    };
    check(&[
        ("a wake-up", waits("S", "", &other, &wake), &split("wake t8")),
        ("a futex", waits("S", &line(0, 900, 7, "sys_enter_futex: uaddr: 0x7f"), &other, &wake), &split("lock t8")),
        ("a monitor of ART", waits("S", &line(0, 900, 7, contention), &other, &wake), &split("lock t8")),
        (
            "a mutex of the kernel, by its function",
            waits(
                "D",
                "",
                &(other.clone() + &line(1, 4_999, 8, "sched_blocked_reason: pid=7 iowait=0 caller=mutex_lock+0x1")),
                &wake,
            ),
            &split("lock t8"),
        ),
    ]);
}

// Verifies TRACE-2.
#[test]
fn a_binder_call_is_split_by_what_its_server_did() {
    let call = |us, tid, cpu, id, process, reply| {
        let event = format!(
            "binder_transaction: transaction={id} dest_node=1 dest_proc={process} dest_thread=0 reply={reply} \
             flags=0x10 code=0x1"
        );
        line(cpu, us, tid, &event)
    };
    let received = |us, tid, cpu, id| line(cpu, us, tid, &format!("binder_transaction_received: transaction={id}"));
    // Thread 21 of process 20 is woken by the call, waits behind thread 9, and answers.
    let names = line(1, 2, 9, "task_rename: pid=20 oldcomm=t20 newcomm=servicemanager oom_score_adj=0");
    let text = names
        + &switch(1, 2, 21, "S", 9)
        + &switch(0, 2, 0, "R", 7)
        + &call(900, 7, 0, 5, 20, 0)
        + &waking(0, 902, 7, 21, 1)
        + &switch(0, 1_002, 7, "S", 0)
        + &switch(1, 3_002, 9, "R", 21)
        + &received(3_010, 21, 1, 5)
        + &call(4_990, 21, 1, 6, 7, 1)
        + &waking(1, 5_002, 21, 7, 0)
        + &switch(0, 5_002, 0, "R", 7)
        + &received(5_010, 7, 0, 6)
        + &switch(0, 6_002, 7, "S", 0);
    let mut explanation = of_7(&text);
    let lookups = |cause, subject, us| (cause, subject, Some("service-lookup servicemanager".to_owned()), us);
    assert_eq!(
        parts(&explanation),
        [
            (Cause::Running, None, None, 2_000),
            lookups(Cause::Runnable, Some("t9"), 2_000),
            lookups(Cause::Running, None, 2_000),
        ]
    );
    assert_adds_up(&explanation);
    assert_eq!(explanation.waits.pop_first().map(|(_, times)| times), Some(1));
}

// Verifies TRACE-2.
#[test]
fn a_chain_of_waits_is_followed_through_processes() {
    // 7 waits for 8, which waits for 9, which waits for storage.
    let text = switch(0, 0, 0, "R", 7)
        + &switch(1, 10, 0, "R", 8)
        + &switch(2, 20, 0, "R", 9)
        + &switch(0, 1_000, 7, "S", 0)
        + &switch(1, 1_500, 8, "S", 0)
        + &switch(2, 2_000, 9, "D", 0)
        + &flagged(2, 4_990, 0, "d.h.", "block_rq_complete: 8,16 R () 800 + 8 [0]")
        + &interrupt(2, 5_000, 0, 9, 2)
        + &switch(2, 5_000, 0, "R", 9)
        + &waking(2, 5_400, 9, 8, 1)
        + &switch(1, 5_400, 0, "R", 8)
        + &waking(1, 5_700, 8, 7, 0)
        + &switch(0, 5_700, 0, "R", 7)
        + &switch(0, 6_000, 7, "S", 0);
    let explanation = of_7(&text);
    let on_behalf = Some("wake t8".to_owned());
    assert_eq!(
        parts(&explanation),
        [
            (Cause::Storage, Some("8,16"), on_behalf.clone(), 3_000),
            // 8 until 1.5 ms, 9 until 2 ms, and both after the request.
            (Cause::Running, None, on_behalf, 1_700),
            (Cause::Running, None, None, 1_300),
        ]
    );
    assert_adds_up(&explanation);
}

/// A wait for a thread that the waiting one's child forked is followed to its birth.
#[test]
fn a_wait_is_followed_to_the_parent_of_a_thread_that_began_within_it() {
    let text = switch(0, 0, 0, "R", 7)
        + &switch(1, 0, 0, "R", 8)
        + &switch(0, 1_000, 7, "S", 0)
        + &line(1, 2_000, 8, "sched_process_fork: comm=t8 pid=8 child_comm=t8 child_pid=9")
        + &line(1, 2_000, 8, "sched_wakeup_new: comm=t9 pid=9 prio=120 target_cpu=002")
        + &switch(2, 2_000, 0, "R", 9)
        + &waking(2, 5_000, 9, 7, 0)
        + &switch(0, 5_000, 0, "R", 7)
        + &switch(0, 6_000, 7, "S", 0);
    let explanation = of_7(&text);
    let threads: Vec<(&str, u64)> =
        explanation.path.iter().map(|step| (step.thread.as_str(), (step.to_ns - step.from_ns) / 1000)).collect();
    assert_eq!(threads, [("t7", 1_000), ("t8", 1_000), ("t9", 3_000), ("t7", 1_000)]);
}

// Verifies TRACE-3.
#[test]
fn lost_events_are_unknown_time_and_said() {
    let text = switch(0, 0, 0, "R", 7)
        + &switch(1, 0, 0, "R", 8)
        + &line(0, 2_000, 7, "page_fault_user: address=0x1")
        + "CPU:0 [LOST 9 EVENTS]\n"
        + &switch(0, 5_000, 8, "S", 7)
        + &switch(0, 6_000, 7, "S", 0);
    let explanation = of_7(&text);
    assert_eq!(parts(&explanation), [(Cause::Running, None, None, 3_000), (Cause::Unknown, None, None, 3_000)]);
}

proptest! {
    // Verifies TRACE-2, TRACE-3.
    #[test]
    fn the_parts_of_any_trace_add_up_to_the_window(
        lines in prop::collection::vec(any_event(), 1..120),
        from in 0u64..2_000,
        length in 1u64..2_000,
    ) {
        // One switch at each end makes it a trace that has the window.
        let text = switch(0, 0, 0, "R", 1) + &lines.concat() + &switch(1, 4_001, 2, "S", 0);
        let (trace, timelines) = timelines(&text);
        for thread in 0..timelines.threads.len() as u32 {
            let from_ns = trace.start_ns() + from * 1000 + 7;
            let window = Window { thread, from_ns, to_ns: from_ns + length * 1000 };
            assert_adds_up(&explain(&trace, &timelines, window));
        }
    }
}
