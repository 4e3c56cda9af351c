//! Whole files of text.

use std::path::Path;

use crate::model::{Call, Kind, Leaving, Trace};
use crate::read::{ReadError, read_bytes};

fn read(text: &str) -> Trace {
    read_bytes(Path::new("a.txt"), text.as_bytes()).unwrap()
}

/// A switch that makes any text a trace.
const SWITCH: &str = "a-7 [000] 1.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b c next_pid=8 next_prio=120\n";

// Verifies TRACE-1.
#[test]
fn each_event_of_interest_is_read() {
    let call = |process, is_reply, is_one_way| Kind::BinderCall(Call { id: 5, process, is_reply, is_one_way });
    let device = 179 << 20 | 2;
    for (event, expected) in [
        (
            "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=4096 next_comm=b next_pid=8 next_prio=120",
            Kind::Switch { next: 8, leaving: Leaving::Runnable },
        ),
        ("sched_switch: a:7 [120] D ==> b c:8 [120]", Kind::Switch { next: 8, leaving: Leaving::Uninterruptible }),
        ("sched_waking: comm=b c pid=8 prio=120 target_cpu=002", Kind::Waking { target: 8, cpu: Some(2) }),
        ("sched_waking: b c:8 [120] CPU:002", Kind::Waking { target: 8, cpu: Some(2) }),
        (
            "sched_wakeup: comm=b pid=8 prio=120 success=1 target_cpu=1",
            Kind::Woken { target: 8, cpu: Some(1), is_new: false },
        ),
        ("sched_wakeup_new: b:8 [120] CPU:001", Kind::Woken { target: 8, cpu: Some(1), is_new: true }),
        ("sched_migrate_task: comm=b pid=8 prio=120 orig_cpu=0 dest_cpu=3", Kind::Migrated { target: 8, cpu: 3 }),
        ("cpu_frequency: state=1800000 cpu_id=4", Kind::Frequency { cpu: 4, khz: 1_800_000 }),
        ("cpu_frequency_limits: min=1 max=2000 cpu_id=4", Kind::FrequencyLimit { cpu: 4, khz: 2000 }),
        ("mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL", Kind::ReclaimBegin),
        ("mm_vmscan_direct_reclaim_end: nr_reclaimed=32", Kind::ReclaimEnd),
        ("page_fault_user: address=0x1 ip=0x2 error_code=0x4", Kind::PageFault),
        ("sys_futex(uaddr: 7f, op: 80)", Kind::LockBegin),
        ("sys_futex -> 0x0", Kind::LockEnd),
        ("sys_enter_futex: uaddr: 0x7f", Kind::LockBegin),
        ("contention_end: 00000000 (ret=0)", Kind::LockEnd),
        ("block_rq_issue: 179,2 R 4096 () 800 + 8 [a]", Kind::BlockIssue { device }),
        ("block_rq_complete: 179,2 R () 800 + 8 [0]", Kind::BlockComplete { device }),
        (
            "binder_transaction: transaction=5 dest_node=1 dest_proc=9 dest_thread=0 reply=0 flags=0x10 code=0x1",
            call(9, false, false),
        ),
        (
            "binder_transaction: transaction=5 dest_node=1 dest_proc=9 dest_thread=0 reply=1 flags=0x1 code=0x1",
            call(9, true, true),
        ),
        ("binder_transaction_received: transaction=5", Kind::BinderReceived { id: 5 }),
        ("sched_process_fork: comm=a pid=7 child_comm=a child_pid=9", Kind::Fork { child: 9 }),
        ("task_newtask: pid=9 comm=a clone_flags=3d0f00 oom_score_adj=0", Kind::Fork { child: 9 }),
        ("sched_process_exit: comm=a pid=7 prio=120", Kind::Exit),
        ("tracing_mark_write: E|7", Kind::SliceEnd),
        ("print: tracing_mark_write: E", Kind::SliceEnd),
    ] {
        let trace = read(&format!("{SWITCH}a-7 [000] 2.000000: {event}\n"));
        assert_eq!(trace.events.last().map(|event| event.kind), Some(expected), "{event}");
        assert!(!trace.faults.iter().any(|fault| fault.contains("lines")), "{:?}", trace.faults);
    }
}

#[test]
fn a_reason_names_its_function() {
    let trace = read(&format!(
        "{SWITCH}b-8 [000] 2.000000: sched_blocked_reason: pid=7 iowait=1 caller=filemap_fault+0x1f4/0x9a0\n"
    ));
    let Kind::BlockedReason { target: 7, is_io: true, function: Some(function) } = trace.events[1].kind else {
        panic!("{:?}", trace.events)
    };
    assert_eq!(trace.symbols.text(function), "filemap_fault");
}

#[test]
fn names_and_processes_are_kept() {
    let trace = read(
        "a-7  (    6) [000] .... 1.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=S ==> next_comm=b c next_pid=8 next_prio=1\n\
         b c-8 (-----) [000] .... 1.500000: task_newtask: pid=9 comm=b c clone_flags=3d0f00 oom_score_adj=0\n\
         b c-8 (-----) [000] .... 1.600000: task_rename: pid=9 oldcomm=b c newcomm=d e oom_score_adj=0\n\
         b c-8 (-----) [000] .... 1.700000: tracing_mark_write: B|8|x\n\
         b c-8 (-----) [000] .... 1.800000: sched_process_exec: filename=/a b/a name of twenty pid=8 old_pid=8\n",
    );
    assert_eq!(trace.name_at(8, 0), Some("b c"));
    assert_eq!(trace.name_at(9, 1_600_000_000), Some("d e"));
    assert_eq!(trace.name_at(8, 1_800_000_000), Some("a name of twent"));
    let processes = [7, 8, 9].map(|tid| trace.processes.get(&tid).copied());
    assert_eq!(processes, [Some(6), Some(8), Some(8)]);
}

// Verifies TRACE-1.
#[test]
fn html_of_systrace_is_read_only_where_it_holds_the_trace() {
    let page = |open: &str, line: &str, close: &str| {
        format!("<!DOCTYPE html>\n<script>\nvar a = b[0];\n</script>\n{open}\n# tracer: nop\n{line}{close}\n</html>\n")
    };
    let old = format!("{}\\n\\\n", SWITCH.trim_end());
    for text in [
        page("<script class=\"trace-data\" type=\"application/text\">", SWITCH, "</script>"),
        page("<script>\n  var linuxPerfData = \"\\", &old, "\";\n</script>"),
    ] {
        let trace = read(&text);
        assert_eq!((trace.events.len(), trace.format), (1, "systrace HTML"), "{text}");
        assert!(!trace.faults.iter().any(|fault| fault.contains("skipped")), "{:?}", trace.faults);
    }
}

// Verifies TRACE-1.
#[test]
fn packed_text_is_unpacked_and_a_cut_one_read_as_far_as_it_goes() {
    use std::io::Write as _;
    let text = SWITCH.repeat(20_000);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let gzip = gzip.finish().unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(b"TRACE:\r\n".to_vec(), flate2::Compression::default());
    zlib.write_all(text.as_bytes()).unwrap();
    for bytes in [gzip.clone(), zlib.finish().unwrap(), format!("TRACE:\n{text}").into_bytes()] {
        assert_eq!(read_bytes(Path::new("a"), &bytes).unwrap().counts.switches, 20_000);
    }
    let cut = read_bytes(Path::new("a"), &gzip[..gzip.len() - 100]).unwrap();
    assert!(cut.faults.iter().any(|fault| fault.contains("the file is damaged after")), "{:?}", cut.faults);
}

// Verifies TRACE-3.
#[test]
fn lines_that_are_no_events_are_counted() {
    let trace = read(&format!("cpus=6\n# a comment\n\n{SWITCH}half a li\na-7 [000] 1.0: sched_switch: prev_comm=a\n"));
    assert!(trace.faults.contains(&"1 lines are not events and have been skipped".to_owned()), "{:?}", trace.faults);
    assert_eq!(trace.counts.others, 1);
}

#[test]
fn other_files_are_refused_with_the_reason() {
    for (text, expected) in [
        ("", "the file is empty"),
        ("hello\n", "no line or packet of it is an event of ftrace"),
        ("a-7 [000] 1.000000: cpu_idle: state=1 cpu_id=0\n", "it has no sched_switch events"),
    ] {
        match read_bytes(Path::new("a"), text.as_bytes()) {
            Err(ReadError::NoTrace { what, .. }) => assert_eq!(what, expected, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}
