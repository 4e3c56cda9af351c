//! Which thread and window a user's words mean.

use std::path::Path;

use super::{TargetError, Wanted, find};
use crate::read::read_bytes;
use crate::threads::resolve;

const TEXT: &str = "\
main-7   (    7) [000] .... 1.000000: sched_switch: prev_comm=main prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=work next_pid=8 next_prio=120
work-8   (    7) [000] .... 1.100000: sched_switch: prev_comm=work prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=9 next_prio=120
sh-9     (    9) [000] .... 1.200000: sched_switch: prev_comm=sh prev_pid=9 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=10 next_prio=120
sh-10    (   10) [000] .... 1.250000: sched_switch: prev_comm=sh prev_pid=10 prev_prio=120 prev_state=X ==> next_comm=om.example.shop next_pid=11 next_prio=120
om.example.shop-11 (   11) [000] .... 1.300000: sched_switch: prev_comm=om.example.shop prev_pid=11 prev_prio=120 prev_state=S ==> next_comm=x next_pid=13 next_prio=120
x-13     (   12) [000] .... 1.400000: sched_switch: prev_comm=x prev_pid=13 prev_prio=120 prev_state=S ==> next_comm=swapper next_pid=0 next_prio=120
";

fn process(name: &str) -> Wanted {
    Wanted::Process(name.to_owned())
}

#[test]
fn a_process_is_found_by_number_and_by_name() {
    let trace = read_bytes(Path::new("a"), TEXT.as_bytes()).unwrap();
    let timelines = resolve(&trace);
    for (wanted, tid, from_ms, to_ms) in [
        (process("main"), 7, 0, 400),
        (process("7"), 7, 0, 400),
        (process("com.example.shop"), 11, 250, 400),
        (process("10"), 10, 200, 250),
        // Its main thread is not in the trace.
        (process("12"), 13, 300, 400),
        (Wanted::Thread(8), 8, 0, 400),
    ] {
        let (window, notes) = find(&trace, &timelines, &wanted, None, None).unwrap();
        assert_eq!(timelines.threads[window.thread as usize].tid, tid, "{wanted:?}");
        let ms = |ns: u64| (ns - trace.start_ns()) / 1_000_000;
        assert_eq!((ms(window.from_ns), ms(window.to_ns)), (from_ms, to_ms), "{wanted:?}");
        assert_eq!(notes.len(), usize::from(tid == 13), "{notes:?}");
    }
}

// Verifies TRACE-3.
#[test]
fn what_cannot_be_found_is_refused_with_what_there_is() {
    let trace = read_bytes(Path::new("a"), TEXT.as_bytes()).unwrap();
    let timelines = resolve(&trace);
    let second = 1_000_000_000;
    let find = |wanted, from, to| find(&trace, &timelines, &wanted, from, to);
    let error = |wanted, from, to| find(wanted, from, to).unwrap_err();
    assert!(matches!(error(process("browser"), None, None), TargetError::NoProcess { .. }));
    assert!(error(process("browser"), None, None).to_string().contains("main (7)"));
    assert!(matches!(error(Wanted::Thread(99), None, None), TargetError::NoThread { .. }));
    let several = error(process("sh"), None, None).to_string();
    assert_eq!(several, "several processes are called sh; give one by number: 9, 10");
    for (from, to) in [(3 * second, 4 * second), (0, second / 2), (second + 200, second + 100)] {
        assert!(matches!(error(process("7"), Some(from), Some(to)), TargetError::NoWindow { .. }), "{from} {to}");
    }
    let (window, notes) = find(process("7"), Some(0), Some(9 * second)).unwrap();
    assert_eq!((window.from_ns, window.to_ns), (trace.start_ns(), trace.end_ns()));
    assert!(notes[0].contains("has been cut"), "{notes:?}");
}
