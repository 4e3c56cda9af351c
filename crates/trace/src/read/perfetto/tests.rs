//! Packets encoded by the same schema from what the reader of text has found: both readers give the same events, so the same
//! explanation; and a launch of Perfetto's own tests.

use std::io::{Read as _, Write as _};
use std::path::Path;

use prost::Message as _;

use crate::explain::{Cause, explain};
use crate::model::{self, Context, Kind, NO_TID, Trace};
use crate::perfetto::{Functions, flags, message, state};
use crate::perfetto_schema::*;
use crate::read::read_bytes;
use crate::sample::STARTUP_SWITCHES;
use crate::target::{Wanted, find};
use crate::threads::resolve;

const LAUNCH: &str = include_str!("../../../../../tests/cli/trace.in/launch.txt");
const REPORT: &[u8] = include_bytes!("../../../../../tests/fixtures/trace/rtapp-report.txt.gz");

fn read(bytes: &[u8]) -> Trace {
    read_bytes(Path::new("a"), bytes).unwrap()
}

/// A file of one packet.
fn file(packet: &TracePacket) -> Vec<u8> {
    let message = packet.encode_to_vec();
    let mut bytes = vec![super::packets::KEY];
    prost::encode_length_delimiter(message.len(), &mut bytes).unwrap();
    [bytes, message].concat()
}

fn bundle(bundle: FtraceEventBundle) -> TracePacket {
    TracePacket { sequence: 1, ftrace_events: Some(bundle), ..TracePacket::default() }
}

/// How switches and wake-ups are encoded.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Plain,
    Compact,
}

/// A file of these packets.
fn bytes(packets: &[TracePacket]) -> Vec<u8> {
    packets.iter().flat_map(file).collect()
}

/// The events of a trace as packets: one CPU after the other, some events each.
fn encode(trace: &Trace, form: Form) -> Vec<TracePacket> {
    let machine = SystemInfo { utsname: Some(Utsname { machine: b"aarch64".to_vec() }) };
    let machine = TracePacket { sequence: 9, system_info: Some(machine), ..TracePacket::default() };
    let mut packets = vec![machine, processes(trace)];
    let cpus: std::collections::BTreeSet<u16> = trace.events.iter().map(|event| event.cpu).collect();
    for cpu in cpus {
        let events: Vec<&model::Event> = trace.events.iter().filter(|event| event.cpu == cpu).collect();
        for events in events.chunks(7) {
            packets.push(packet(trace, cpu, events, form));
        }
    }
    packets
}

fn processes(trace: &Trace) -> TracePacket {
    let number = |tid: u32| tid as i32;
    let threads = trace.processes.iter().map(|(&tid, &process)| Thread {
        tid: number(tid),
        name: Vec::new(),
        tgid: number(process),
    });
    let tree = ProcessTree { processes: Vec::new(), threads: threads.collect() };
    TracePacket { sequence: 2, process_tree: Some(tree), ..TracePacket::default() }
}

fn packet(trace: &Trace, cpu: u16, events: &[&model::Event], form: Form) -> TracePacket {
    let mut packet = bundle(FtraceEventBundle { cpu: u32::from(cpu), ..FtraceEventBundle::default() });
    let mut compact = CompactSched::default();
    let mut functions = Functions::default();
    let (mut switched, mut woke) = (0, 0);
    for event in events {
        let comm = |tid: u32| trace.name_at(tid, event.time_ns).unwrap_or("").as_bytes().to_vec();
        let mut intern = |tid: u32| {
            compact.intern_table.push(comm(tid).into());
            compact.intern_table.len() as u32 - 1
        };
        match event.kind {
            Kind::Switch { next, leaving } if form == Form::Compact => {
                compact.switch_next_comm_index.push(intern(next));
                compact.switch_timestamp.push(event.time_ns - switched);
                compact.switch_prev_state.push(state(leaving));
                compact.switch_next_pid.push(next as i32);
                compact.switch_next_prio.push(trace.priority_at(next, event.time_ns).into());
                switched = event.time_ns;
            }
            Kind::Waking { target, cpu } if form == Form::Compact => {
                compact.waking_comm_index.push(intern(target));
                compact.waking_timestamp.push(event.time_ns - woke);
                compact.waking_pid.push(target as i32);
                compact.waking_target_cpu.push(cpu.map_or(-1, i32::from));
                compact.waking_common_flags.push(flags(event.context).unwrap_or(0));
                woke = event.time_ns;
            }
            _ => {
                let message = other_form(trace, event, &mut functions);
                let message = FtraceEvent {
                    timestamp: event.time_ns,
                    pid: event.tid,
                    common_flags: flags(event.context),
                    event: Some(message),
                };
                packet.ftrace_events.as_mut().unwrap().event.push(message.encode_to_vec().into());
            }
        }
    }
    packet.ftrace_events.as_mut().unwrap().compact_sched = (form == Form::Compact).then_some(compact);
    packet.interned_data = functions.take_new(trace);
    packet
}

/// As Perfetto encodes it where the writer has another way.
fn other_form(trace: &Trace, event: &model::Event, functions: &mut Functions) -> Event {
    match event.kind {
        Kind::LockBegin if event.tid % 2 == 1 => Event::SysEnter(SystemCall { id: 98 }),
        Kind::LockEnd if event.tid % 2 == 1 => Event::SysExit(SystemCall { id: 98 }),
        Kind::Fork { child } => {
            let child_comm = trace.name_at(child, event.time_ns).unwrap_or_default().into();
            Event::SchedProcessFork(SchedProcessFork { child_comm, child_pid: child as i32 })
        }
        _ => message(trace, event, functions).unwrap(),
    }
}

/// Every kind of event, each cause of a wait, and what a board recorded.
fn texts() -> Vec<String> {
    let mut report = String::new();
    flate2::read::GzDecoder::new(REPORT).read_to_string(&mut report).unwrap();
    let begin = "a-7 (    7) [000] .... 1.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=b next_pid=8 next_prio=120\n";
    let events = [
        "sched_waking: comm=b pid=8 prio=120 target_cpu=002",
        "sched_wakeup: comm=b pid=8 prio=120 success=1 target_cpu=1",
        "sched_wakeup_new: comm=b pid=8 prio=120 success=1 target_cpu=1",
        "sched_migrate_task: comm=b pid=8 prio=120 orig_cpu=0 dest_cpu=3",
        "cpu_frequency: state=1800000 cpu_id=4",
        "cpu_frequency_limits: min=1 max=2000 cpu_id=4",
        "sched_blocked_reason: pid=7 iowait=1 caller=filemap_fault+0x1f4/0x9a0",
        "sched_blocked_reason: pid=8 iowait=0 caller=mutex_lock+0x1f4/0x9a0",
        "mm_vmscan_direct_reclaim_begin: order=0 gfp_flags=GFP_KERNEL",
        "mm_vmscan_direct_reclaim_end: nr_reclaimed=32",
        "page_fault_user: address=0x1 ip=0x2 error_code=0x4",
        "sys_enter_futex: uaddr: 0x7f",
        "sys_exit_futex: 0x0",
        "block_rq_issue: 259,300 R 4096 () 800 + 8 [a]",
        "block_rq_complete: 259,300 R () 800 + 8 [0]",
        "binder_transaction: transaction=5 dest_node=1 dest_proc=9 dest_thread=0 reply=0 flags=0x10 code=0x1",
        "binder_transaction: transaction=6 dest_node=1 dest_proc=9 dest_thread=0 reply=1 flags=0x1 code=0x1",
        "binder_transaction_received: transaction=5",
        "sched_process_fork: comm=a pid=7 child_comm=a child_pid=9",
        "tracing_mark_write: B|7|Lock contention on a",
        "tracing_mark_write: B|7|a",
        "tracing_mark_write: E|7",
        "sched_process_exit: comm=a pid=7 prio=120",
    ];
    let lines = events.iter().enumerate();
    let lines = lines.map(|(at, event)| format!("{} [001] d.h1. 2.0000{at:02}: {event}\n", ["a-7", "b-8"][at % 2]));
    vec![LAUNCH.to_owned(), report, begin.to_owned() + &lines.collect::<String>()]
}

// Verifies TRACE-1.
#[test]
fn packets_have_the_events_that_text_has() {
    for text in texts() {
        let expected = read(text.as_bytes());
        assert!(!expected.events.iter().any(|event| event.kind == Kind::Lost));
        let found = read(&bytes(&encode(&expected, Form::Plain)));
        assert_eq!(found.format, "Perfetto");
        // Symbols are numbered in the order in which they come.
        let readable = |trace: &Trace| {
            let kind = |kind| match kind {
                Kind::BlockedReason { target, is_io, function } => {
                    format!("{target} {is_io} {:?}", function.map(|it| trace.symbols.text(it).to_owned()))
                }
                kind => format!("{kind:?}"),
            };
            let mut events: Vec<_> =
                trace.events.iter().map(|it| (it.time_ns, it.cpu, it.tid, it.context, kind(it.kind))).collect();
            events.sort_by_key(|it| (it.0, it.1));
            events
        };
        assert_eq!(readable(&found), readable(&expected));
        assert_eq!(found.counts, model::Counts { others: found.counts.others, ..expected.counts });
        for tid in expected.names.keys() {
            assert_eq!(found.name_at(*tid, u64::MAX), expected.name_at(*tid, u64::MAX), "{tid}");
        }
        assert!(!found.faults.iter().any(|fault| fault.contains("damaged")), "{:?}", found.faults);
    }
}

// Verifies TRACE-1, TRACE-2.
#[test]
fn plain_and_compact_packets_are_explained_as_text_is() {
    let explained = |trace: &Trace, process: &str| {
        let timelines = resolve(trace);
        let (window, _) = find(trace, &timelines, &Wanted::Process(process.to_owned()), None, None).unwrap();
        explain(trace, &timelines, window)
    };
    let texts = texts();
    for (text, process) in [(&texts[0], "browser"), (&texts[1], "task_r20_5-60")] {
        let text = read(text.as_bytes());
        let expected = explained(&text, process);
        assert!(expected.parts.len() > 1);
        let mut packets = encode(&text, Form::Plain);
        let plain = read(&bytes(&packets));
        assert_eq!(explained(&plain, process), expected);
        // Packets of different CPUs are in no order.
        packets[2..].sort_by_key(|packet| packet.ftrace_events.as_ref().map(|it| std::cmp::Reverse(it.cpu)));
        let unordered = read(&bytes(&packets));
        assert_eq!(explained(&unordered, process).parts, expected.parts);
        let compact = read(&bytes(&encode(&text, Form::Compact)));
        let mut unknown = 0;
        for (compact, plain) in compact.events.iter().zip(&plain.events) {
            let tid = if compact.tid == NO_TID { plain.tid } else { compact.tid };
            unknown += u32::from(compact.tid == NO_TID);
            // Text of old tools does not tell who interrupts; a switch is never within an interrupt.
            let context = if plain.context == Context::Unknown { Context::Unknown } else { compact.context };
            assert_eq!(model::Event { tid, context, ..*compact }, *plain);
        }
        // What ran before the first switch of a CPU is not in the compact form; here another event of the CPU tells.
        assert!(unknown <= 6, "{unknown}");
        if unknown == 0 {
            assert_eq!(explained(&compact, process), expected);
        }
        assert_eq!(unknown == 0, process == "browser");
    }
}

#[test]
fn a_compact_switch_may_be_of_an_unknown_thread() {
    let compact = CompactSched {
        intern_table: vec![b"a".to_vec().into(), b"b".to_vec().into()],
        switch_timestamp: vec![1_000, 1_000],
        switch_prev_state: vec![1, 1],
        switch_next_pid: vec![7, 8],
        switch_next_prio: vec![],
        switch_next_comm_index: vec![0, 1],
        waking_timestamp: vec![900, 200],
        waking_pid: vec![8, 8],
        waking_target_cpu: vec![0, 0],
        waking_comm_index: vec![1, 1],
        waking_common_flags: vec![],
    };
    let trace =
        read(&file(&bundle(FtraceEventBundle { compact_sched: Some(compact), ..FtraceEventBundle::default() })));
    let found: Vec<(u64, u32)> = trace.events.iter().map(|event| (event.time_ns, event.tid)).collect();
    assert_eq!(found, [(900, NO_TID), (1_000, NO_TID), (1_100, 7), (2_000, 7)]);
    let timelines = resolve(&trace);
    assert!(!timelines.by_tid.contains_key(&NO_TID));
    let (window, _) = find(&trace, &timelines, &Wanted::Thread(8), Some(900), None).unwrap();
    let parts = explain(&trace, &timelines, window).parts;
    assert_eq!(parts.iter().map(|part| part.ns).sum::<u64>(), 1_100);
}

// Verifies TRACE-1.
#[test]
fn packed_packets_are_unpacked() {
    let text = read(LAUNCH.as_bytes());
    let packets = bytes(&encode(&text, Form::Compact));
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    zlib.write_all(&packets).unwrap();
    let zlib = zlib.finish().unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&packets[..], ruzstd::encoding::CompressionLevel::Fastest);
    let expected = read(&packets).events;
    for packet in [
        TracePacket { compressed_packets: zlib.clone().into(), ..TracePacket::default() },
        TracePacket { zstd_compressed_packets: zstd.into(), ..TracePacket::default() },
    ] {
        assert_eq!(read(&file(&packet)).events, expected);
    }
    // A packed packet within a packed one is forged: nothing of it is read.
    let inner = file(&TracePacket { compressed_packets: zlib.clone().into(), ..TracePacket::default() });
    let mut outer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    outer.write_all(&inner).unwrap();
    let outer = TracePacket { compressed_packets: outer.finish().unwrap().into(), ..TracePacket::default() };
    assert!(read_bytes(Path::new("a"), &file(&outer)).is_err());
    let cut = TracePacket { compressed_packets: zlib[..zlib.len() / 2].to_vec().into(), ..TracePacket::default() };
    let faults = read(&[file(&cut), packets].concat()).faults;
    assert!(faults.iter().any(|fault| fault.contains("1 packets or events are damaged")), "{faults:?}");
}

// Verifies TRACE-3.
#[test]
fn a_file_cut_at_any_byte_says_so() {
    let text = read(LAUNCH.as_bytes());
    let packets = encode(&text, Form::Plain);
    let ends: Vec<usize> = (0..=packets.len()).map(|count| bytes(&packets[..count]).len()).collect();
    let whole = bytes(&packets);
    let mut read_in_part = 0;
    for length in 0..whole.len() {
        let Ok(trace) = read_bytes(Path::new("a"), &whole[..length]) else { continue };
        let says_so = trace.faults.iter().any(|fault| fault.contains("the file is damaged after"));
        assert_eq!(says_so, !ends.contains(&length), "{length} {:?}", trace.faults);
        read_in_part += u64::from(says_so);
    }
    assert!(read_in_part > 500, "{read_in_part}");
}

// Verifies TRACE-3, SECURITY-3.
#[test]
fn forged_packets_are_refused_or_read() {
    let text = read(LAUNCH.as_bytes());
    for form in [Form::Plain, Form::Compact] {
        let whole = bytes(&encode(&text, form));
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0xff] {
                let mut forged = whole.clone();
                forged[at] = byte;
                if let Ok(trace) = read_bytes(Path::new("a"), &forged) {
                    let _ = resolve(&trace);
                }
            }
        }
    }
}

// Verifies TRACE-3.
#[test]
fn what_the_recorder_lost_is_said() {
    let text = read(LAUNCH.as_bytes());
    let packets = encode(&text, Form::Plain);
    let lossy = |change: &dyn Fn(&mut TracePacket)| {
        let mut packets = packets.clone();
        change(packets.last_mut().unwrap());
        read(&bytes(&packets))
    };
    let before = read(&bytes(&packets));
    assert!(!before.faults.iter().any(|fault| fault.contains("lost")), "{:?}", before.faults);
    let stats =
        |phase, overrun| FtraceStats { phase, cpu_stats: vec![FtraceCpuStats { cpu: 1, overrun, dropped_events: 2 }] };
    let losses = |trace: &Trace| trace.events.iter().filter(|event| event.kind == Kind::Lost).count();
    let of_cpu = lossy(&|packet| packet.ftrace_events.as_mut().unwrap().lost_events = true);
    assert_eq!(losses(&of_cpu), 1);
    let of_writer = lossy(&|packet| packet.previous_packet_dropped = 64);
    assert_eq!(losses(&of_writer), 1);
    for trace in [&of_cpu, &of_writer] {
        assert!(trace.faults.iter().any(|fault| fault.contains("some events were lost")), "{:?}", trace.faults);
    }
    let counted = lossy(&|packet| packet.ftrace_stats = Some(stats(2, 40)));
    assert!(counted.faults.iter().any(|fault| fault.starts_with("42 events were lost")), "{:?}", counted.faults);
    let of = |phase, overrun| TracePacket { ftrace_stats: Some(stats(phase, overrun)), ..TracePacket::default() };
    let counted = read(&[bytes(&packets), bytes(&[of(1, 30), of(2, 40)])].concat());
    assert!(counted.faults.iter().any(|fault| fault.starts_with("10 events were lost")), "{:?}", counted.faults);
    let full = TraceStats { buffer_stats: vec![BufferStats { chunks_discarded: 3 }] };
    let full = lossy(&|packet| packet.trace_stats = Some(full.clone()));
    assert!(full.faults.iter().any(|fault| fault.starts_with("3 pieces did not fit")), "{:?}", full.faults);
    let guest = lossy(&|packet| packet.machine = 5);
    assert!(guest.faults.iter().any(|fault| fault.starts_with("1 packets are of guest")), "{:?}", guest.faults);
}

#[test]
fn times_of_another_clock_are_moved() {
    let event = FtraceEvent {
        timestamp: 500,
        pid: 7,
        common_flags: None,
        event: Some(Event::SchedSwitch(SchedSwitch { prev_pid: 7, next_pid: 8, ..SchedSwitch::default() })),
    };
    for (boot_timestamp, expected_ns, what) in [(1_700, 1_200, "are moved"), (0, 500, "of that clock")] {
        let packet = bundle(FtraceEventBundle {
            event: vec![event.encode_to_vec().into()],
            ftrace_clock: 2,
            ftrace_timestamp: 1_000,
            boot_timestamp,
            ..FtraceEventBundle::default()
        });
        let trace = read(&file(&packet));
        assert_eq!(trace.start_ns(), expected_ns);
        assert!(trace.faults.iter().any(|fault| fault.contains(what)), "{:?}", trace.faults);
    }
}

/// The switches of android_startup_breakdown.py of Perfetto's tests; the values are those of its android_startup_breakdown.out.
// Verifies TRACE-2.
#[test]
fn a_launch_of_perfettos_tests_has_its_states() {
    let second = 1_000_000_000;
    let name =
        |pid| ["swapper", "init", "system_server", "com.google.android.calendar"][pid as usize].as_bytes().to_vec();
    let mut events = vec![FtraceEvent {
        timestamp: 50 * second,
        pid: 0,
        common_flags: None,
        event: Some(Event::CpuFrequency(CpuFrequency { state: 1000, cpu_id: 0 })),
    }];
    for (s, from, to) in STARTUP_SWITCHES {
        let (prev_pid, next_pid) = (from.cast_signed(), to.cast_signed());
        let switch = SchedSwitch {
            prev_pid,
            next_pid,
            prev_comm: name(prev_pid),
            next_comm: name(next_pid),
            ..Default::default()
        };
        let (timestamp, event) = (s * second, Some(Event::SchedSwitch(switch)));
        events.push(FtraceEvent { timestamp, pid: 0, common_flags: None, event });
    }
    let event = events.iter().map(|event| event.encode_to_vec().into()).collect();
    let trace = read(&file(&bundle(FtraceEventBundle { event, ..FtraceEventBundle::default() })));
    let timelines = resolve(&trace);
    let wanted = Wanted::Process("com.google.android.calendar".to_owned());
    let (window, _) = find(&trace, &timelines, &wanted, Some(102 * second), Some(210 * second)).unwrap();
    let explanation = explain(&trace, &timelines, window);
    let found: Vec<_> = explanation.parts.iter().map(|it| (it.cause, it.subject.as_deref(), it.ns / second)).collect();
    // time_to_running_state, running_dur_ns and runnable_dur_ns.
    let expected =
        [(Cause::Unknown, None, 78), (Cause::FullSpeed, None, 25), (Cause::Runnable, Some("system_server"), 5)];
    assert_eq!(found, expected);
}
