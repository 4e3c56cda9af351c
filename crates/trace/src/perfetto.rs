//! Writes a trace as Perfetto's, for ui.perfetto.dev and trace_processor.
//!
//! It has the events that explanations use, so that both show the same. A trace in memory has of slices the names of launches only,
//! and of priorities those of threads that come to a CPU; others are lost.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};

use prost::Message as _;

use crate::model::{Context, Event, Kind, Leaving, Marker, MarkerKind, NO_TID, Symbol, Tid, Trace};
use crate::perfetto_schema::{self as schema, Event as Of, FtraceEvent, FtraceEventBundle, TracePacket};

/// The key of a packet in a file: field 1, with a length.
const KEY: u8 = 0x0a;
/// How many events of a CPU share a packet.
const EVENTS_IN_PACKET: usize = 2048;
/// Any number but 0: all packets are of one writer.
const SEQUENCE: u32 = 1;
/// The writer's interned data begins.
const BEGINS: u32 = 1;
/// A hard interrupt, in common_flags.
const HARD_INTERRUPT: u32 = 0x08;
/// A flag of clone(2).
const CLONE_THREAD: u64 = 0x10000;
/// Stands for the name of a slice that was not kept.
const SLICE: &str = "slice";
const LOCK_SLICE: &str = "Lock contention on a monitor";

/// Writes the trace.
///
/// # Errors
/// When `output` cannot be written.
pub fn write(trace: &Trace, output: &mut dyn Write) -> io::Result<()> {
    put(&processes(trace), output)?;
    let mut writer =
        Writer { trace, output, cpus: BTreeMap::new(), on: HashMap::new(), functions: Functions::default() };
    writer.events()
}

fn put(packet: &TracePacket, output: &mut dyn Write) -> io::Result<()> {
    let message = packet.encode_to_vec();
    let mut head = vec![KEY];
    // A vector has room for any length.
    let _ = prost::encode_length_delimiter(message.len(), &mut head);
    output.write_all(&head)?;
    output.write_all(&message)
}

/// Which thread is of which process, and what these are called.
fn processes(trace: &Trace) -> TracePacket {
    let mut processes: BTreeSet<Tid> = trace.commands.keys().copied().collect();
    let mut threads = Vec::new();
    let known: BTreeMap<Tid, Tid> = trace.processes.iter().map(|(tid, process)| (*tid, *process)).collect();
    for (tid, process) in known {
        processes.insert(process);
        if tid != process {
            let name = trace.name_at(tid, u64::MAX).unwrap_or_default().into();
            threads.push(schema::Thread { tid: number(tid), name, tgid: number(process) });
        }
    }
    let named = |pid: Tid| {
        let command = trace.commands.get(&pid).map(String::as_str).or_else(|| trace.name_at(pid, u64::MAX));
        schema::Process { pid: number(pid), cmdline: command.into_iter().map(|command| command.into()).collect() }
    };
    let process_tree = schema::ProcessTree { processes: processes.into_iter().map(named).collect(), threads };
    TracePacket {
        process_tree: Some(process_tree),
        timestamp: trace.start_ns(),
        sequence: SEQUENCE,
        sequence_flags: BEGINS,
        ..TracePacket::default()
    }
}

struct Writer<'t> {
    trace: &'t Trace,
    output: &'t mut dyn Write,
    /// What is not written yet of each CPU.
    cpus: BTreeMap<u16, FtraceEventBundle>,
    /// The CPU that each thread ran on last.
    on: HashMap<Tid, u16>,
    functions: Functions,
}

impl Writer<'_> {
    fn events(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut besides = besides(trace).into_iter().peekable();
        for event in &trace.events {
            while let Some((time_ns, tid, of)) = besides.next_if(|(time_ns, ..)| *time_ns <= event.time_ns) {
                self.beside(time_ns, tid, of)?;
            }
            self.event(event)?;
        }
        for cpu in self.cpus.keys().copied().collect::<Vec<_>>() {
            self.flush(cpu)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.kind == Kind::Lost {
            self.flush(event.cpu)?;
            self.bundle(event.cpu).lost_events = true;
            return Ok(());
        }
        self.on.insert(event.tid, event.cpu);
        if let Kind::Switch { next, .. } = event.kind {
            self.on.insert(next, event.cpu);
        }
        if event.tid == NO_TID
            && let Some(compact) = compact(self.trace, event)
        {
            self.flush(event.cpu)?;
            self.bundle(event.cpu).compact_sched = Some(compact);
            return self.flush(event.cpu);
        }
        let Some(of) = message(self.trace, event, &mut self.functions) else { return Ok(()) };
        self.push(event.cpu, event.time_ns, event.tid, flags(event.context), of)
    }

    /// An event of which only the thread is known.
    fn beside(&mut self, time_ns: u64, tid: Tid, of: Of) -> io::Result<()> {
        let cpu = self.on.get(&tid).copied().unwrap_or(0);
        self.push(cpu, time_ns, tid, None, of)
    }

    fn push(&mut self, cpu: u16, timestamp: u64, pid: Tid, common_flags: Option<u32>, of: Of) -> io::Result<()> {
        let event = FtraceEvent { timestamp, pid, common_flags, event: Some(of) };
        let bundle = self.bundle(cpu);
        bundle.event.push(event.encode_to_vec().into());
        if bundle.event.len() >= EVENTS_IN_PACKET { self.flush(cpu) } else { Ok(()) }
    }

    fn bundle(&mut self, cpu: u16) -> &mut FtraceEventBundle {
        self.cpus.entry(cpu).or_insert_with(|| FtraceEventBundle { cpu: cpu.into(), ..FtraceEventBundle::default() })
    }

    fn flush(&mut self, cpu: u16) -> io::Result<()> {
        let Some(bundle) = self.cpus.remove(&cpu) else { return Ok(()) };
        let packet = TracePacket {
            ftrace_events: Some(bundle),
            interned_data: self.functions.take_new(self.trace),
            sequence: SEQUENCE,
            ..TracePacket::default()
        };
        put(&packet, self.output)
    }
}

/// New names, programs, markers and counters, which have no events in memory, in the order of time, with their threads.
fn besides(trace: &Trace) -> Vec<(u64, Tid, Of)> {
    let text = |symbol| trace.symbols.text(symbol).into();
    // A thread has its first name from the beginning.
    let renamings = trace.names.iter().flat_map(|(&tid, names)| names.iter().skip(1).map(move |naming| (tid, naming)));
    let renamings = renamings.map(|(tid, naming)| {
        let of = schema::TaskRename { pid: number(tid), newcomm: text(naming.name) };
        (naming.time_ns, tid, Of::TaskRename(of))
    });
    let execs = trace.execs.iter().map(|exec| {
        let of = schema::SchedProcessExec { filename: text(exec.name) };
        (exec.time_ns, exec.tid, Of::SchedProcessExec(of))
    });
    let markers = trace.markers.iter().filter(|marker| marker.kind != MarkerKind::Begin);
    let markers = markers.map(|marker| (marker.time_ns, marker.tid, mark(trace, marker)));
    let counts = trace.memory.iter().map(|count| {
        let text = format!("C|{}|{}|{}\n", count.tid, count.counter.name(), count.value);
        (count.time_ns, count.tid, print(text))
    });
    let mut besides: Vec<_> = renamings.chain(execs).chain(markers).chain(counts).collect();
    besides.sort_by_key(|(time_ns, tid, _)| (*time_ns, *tid));
    besides
}

/// The functions of the kernel that events name, by number.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    numbers: HashMap<Symbol, u64>,
    new: Vec<Symbol>,
}

impl Functions {
    fn number(&mut self, function: Symbol) -> u64 {
        let next = self.numbers.len() as u64 + 1;
        *self.numbers.entry(function).or_insert_with(|| {
            self.new.push(function);
            next
        })
    }

    /// Those since the last call, for the packet whose events name them first.
    pub(crate) fn take_new(&mut self, trace: &Trace) -> Option<schema::InternedData> {
        let text = |function| trace.symbols.text(function).into();
        let new = std::mem::take(&mut self.new).into_iter();
        let kernel_symbols: Vec<_> =
            new.map(|function| schema::InternedString { iid: self.numbers[&function], text: text(function) }).collect();
        (!kernel_symbols.is_empty()).then_some(schema::InternedData { kernel_symbols })
    }
}

/// The flags that tell a context.
pub(crate) fn flags(context: Context) -> Option<u32> {
    match context {
        Context::Unknown => None,
        Context::Thread => Some(0),
        Context::Interrupt => Some(HARD_INTERRUPT),
    }
}

/// The kernel's number of a state; all versions have these.
pub(crate) fn state(leaving: Leaving) -> i64 {
    match leaving {
        Leaving::Runnable => 0,
        Leaving::Sleeping => 1,
        Leaving::Uninterruptible => 2,
        Leaving::Stopped => 4,
        Leaving::Dead => 16,
        Leaving::DeadOrParked => 64,
    }
}

fn number(tid: Tid) -> i32 {
    tid.cast_signed()
}

fn mark(trace: &Trace, marker: &Marker) -> Of {
    let (process, name) = (marker.process, trace.symbols.text(marker.name));
    let text = match marker.kind {
        MarkerKind::Begin => format!("B|{process}|{name}\n"),
        MarkerKind::AsyncBegin => format!("S|{process}|{name}|0\n"),
        MarkerKind::AsyncEnd => format!("F|{process}|{name}|0\n"),
        MarkerKind::Instant => format!("I|{process}|{name}\n"),
    };
    print(text)
}

/// Text that a program writes into the trace.
fn print(text: String) -> Of {
    Of::Print(schema::Print { buf: text.into() })
}

/// A switch or a wake-up of which it is not known who ran: only the compact form leaves that open.
fn compact(trace: &Trace, event: &Event) -> Option<schema::CompactSched> {
    let comm = |tid: Tid| vec![Vec::from(trace.name_at(tid, event.time_ns).unwrap_or_default()).into()];
    Some(match event.kind {
        Kind::Switch { next, leaving } => schema::CompactSched {
            switch_timestamp: vec![event.time_ns],
            switch_prev_state: vec![state(leaving)],
            switch_next_pid: vec![number(next)],
            switch_next_prio: vec![trace.priority_at(next, event.time_ns).into()],
            intern_table: comm(next),
            switch_next_comm_index: vec![0],
            ..schema::CompactSched::default()
        },
        Kind::Waking { target, cpu } => schema::CompactSched {
            waking_timestamp: vec![event.time_ns],
            waking_pid: vec![number(target)],
            waking_target_cpu: vec![cpu.map_or(-1, i32::from)],
            intern_table: comm(target),
            waking_comm_index: vec![0],
            waking_common_flags: flags(event.context).into_iter().collect(),
            ..schema::CompactSched::default()
        },
        _ => return None,
    })
}

/// The event's message; losses and reads of files have none.
pub(crate) fn message(trace: &Trace, event: &Event, functions: &mut Functions) -> Option<Of> {
    let comm = |tid: Tid| Vec::from(trace.name_at(tid, event.time_ns).unwrap_or_default());
    Some(match event.kind {
        Kind::Switch { next, leaving } => Of::SchedSwitch(schema::SchedSwitch {
            prev_comm: comm(event.tid),
            prev_pid: number(event.tid),
            prev_state: state(leaving),
            next_comm: comm(next),
            next_pid: number(next),
            next_prio: Some(trace.priority_at(next, event.time_ns).into()),
        }),
        Kind::Waking { target, cpu } => Of::SchedWaking(wakeup(target, cpu, comm(target))),
        Kind::Woken { target, cpu, is_new: true } => Of::SchedWakeupNew(wakeup(target, cpu, comm(target))),
        Kind::Woken { target, cpu, .. } => Of::SchedWakeup(wakeup(target, cpu, comm(target))),
        Kind::Migrated { target, cpu } => {
            Of::SchedMigrateTask(schema::SchedMigrateTask { pid: number(target), dest_cpu: cpu.into() })
        }
        Kind::Frequency { cpu, khz } => Of::CpuFrequency(schema::CpuFrequency { state: khz, cpu_id: cpu.into() }),
        Kind::FrequencyAtStart { cpu, khz } => print(format!("cpu_frequency: state={khz} cpu_id={cpu}\n")),
        Kind::FrequencyLimit { cpu, khz } => {
            Of::CpuFrequencyLimits(schema::CpuFrequencyLimits { max_freq: khz, cpu_id: cpu.into() })
        }
        Kind::BlockedReason { target, is_io, function } => {
            let caller = function.map_or(0, |function| functions.number(function));
            let of = schema::SchedBlockedReason { pid: number(target), caller, io_wait: is_io.into() };
            Of::SchedBlockedReason(of)
        }
        Kind::ReclaimBegin => Of::DirectReclaimBegin(schema::NoFields {}),
        Kind::ReclaimEnd => Of::DirectReclaimEnd(schema::NoFields {}),
        Kind::PageFault => generic("page_fault_user"),
        Kind::LockBegin => generic("contention_begin"),
        Kind::LockEnd => generic("contention_end"),
        Kind::BlockIssue { device } => Of::BlockRqIssue(schema::BlockRequest { dev: made(device) }),
        Kind::BlockComplete { device } => Of::BlockRqComplete(schema::BlockRequest { dev: made(device) }),
        Kind::BinderCall(call) => Of::BinderTransaction(schema::BinderTransaction {
            debug_id: call.id.cast_signed(),
            to_proc: number(call.process),
            reply: call.is_reply.into(),
            flags: call.is_one_way.into(),
        }),
        Kind::BinderReceived { id } => {
            Of::BinderTransactionReceived(schema::BinderTransactionReceived { debug_id: id.cast_signed() })
        }
        Kind::Fork { child } => {
            let is_thread = trace.processes.get(&child).is_some_and(|process| *process != child);
            let clone_flags = if is_thread { CLONE_THREAD } else { 0 };
            Of::TaskNewtask(schema::TaskNewtask { pid: number(child), comm: comm(child), clone_flags })
        }
        Kind::Exit => Of::SchedProcessExit(schema::NoFields {}),
        Kind::SliceBegin { is_lock } => slice(trace, event, is_lock),
        Kind::SliceEnd => print(format!("E|{}\n", process(trace, event.tid))),
        Kind::Reads { .. } | Kind::Lost => return None,
    })
}

fn wakeup(target: Tid, cpu: Option<u16>, comm: Vec<u8>) -> schema::Wakeup {
    schema::Wakeup { comm, pid: number(target), target_cpu: cpu.map_or(-1, i32::from) }
}

/// The process of a thread; of an unknown one, itself.
fn process(trace: &Trace, tid: Tid) -> Tid {
    trace.processes.get(&tid).copied().unwrap_or(tid)
}

fn generic(name: &str) -> Of {
    Of::Generic(schema::Generic { event_name: name.into() })
}

/// The number of a device as makedev(3) makes it.
fn made(device: u32) -> u64 {
    let (major, minor) = (u64::from(device >> 20), u64::from(device & 0xf_ffff));
    major << 8 | minor & 0xff | (minor & !0xff) << 12
}

/// A slice, with its name where that was kept.
fn slice(trace: &Trace, event: &Event, is_lock: bool) -> Of {
    let first = trace.markers.partition_point(|marker| marker.time_ns < event.time_ns);
    let at_once = trace.markers[first..].iter().take_while(|marker| marker.time_ns == event.time_ns);
    match at_once.into_iter().find(|it| it.kind == MarkerKind::Begin && it.tid == event.tid) {
        Some(marker) => mark(trace, marker),
        None => {
            let name = if is_lock { LOCK_SLICE } else { SLICE };
            print(format!("B|{}|{name}\n", process(trace, event.tid)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::explain::{Explanation, Window, explain};
    use crate::launches::{self, Launch};
    use crate::read::read_bytes;
    use crate::sample;
    use crate::threads::resolve;
    use proptest::prelude::*;

    const TEXTS: [&str; 2] = [
        include_str!("../../../tests/cli/trace.in/launch.txt"),
        include_str!("../../../tests/cli/trace.in/launches.txt"),
    ];
    const RECORDED: &[u8] = include_bytes!("../../../tests/fixtures/trace/rtapp-v6.dat.gz");

    fn converted(trace: &Trace) -> Trace {
        let mut bytes = Vec::new();
        write(trace, &mut bytes).unwrap();
        read_bytes(Path::new("a"), &bytes).unwrap()
    }

    /// Symbols are numbered in the order in which they come.
    fn readable(trace: &Trace) -> Vec<String> {
        let of = |event: &Event| match event.kind {
            Kind::BlockedReason { target, is_io, function } => {
                format!("{target} {is_io} {:?}", function.map(|it| trace.symbols.text(it)))
            }
            kind => format!("{kind:?}"),
        };
        let of = |it: &Event| format!("{} {} {} {:?} {}", it.time_ns, it.cpu, it.tid, it.context, of(it));
        let mut lines: Vec<String> = trace.events.iter().map(of).collect();
        // Those of one moment may change places between CPUs.
        lines.sort();
        lines
    }

    /// The launches, and the explanation of each and of each thread's whole life.
    fn answers(trace: &Trace) -> (Vec<Launch>, Vec<Explanation>) {
        let timelines = resolve(trace);
        let launches = launches::find(trace, &timelines);
        let (from_ns, to_ns) = (trace.start_ns(), trace.end_ns());
        let whole = (0..timelines.threads.len() as u32).map(|thread| Window { thread, from_ns, to_ns });
        let windows = whole.chain(launches.iter().filter_map(Launch::window));
        let explanations = windows.map(|window| explain(trace, &timelines, window)).collect();
        (launches, explanations)
    }

    // Verifies TRACE-1.
    #[test]
    fn a_converted_trace_is_explained_as_before() {
        let texts = TEXTS.iter().map(|text| text.as_bytes());
        for bytes in texts.chain([RECORDED]) {
            let trace = read_bytes(Path::new("a"), bytes).unwrap();
            let found = converted(&trace);
            assert_eq!(found.format, "Perfetto");
            assert_eq!(readable(&found), readable(&trace));
            let (expected, found) = (answers(&trace), answers(&found));
            let names = |launches: &[Launch]| launches.iter().map(|it| it.name.clone()).collect::<Vec<_>>();
            assert_eq!(names(&found.0), names(&expected.0));
            assert_eq!(found, expected);
        }
    }

    /// What the compact form does not tell: who ran before the first switch, and who woke a thread until then.
    #[test]
    fn an_unknown_thread_stays_unknown() {
        let event = |time_ns, tid, kind| Event { time_ns, tid, cpu: 1, context: Context::Thread, kind };
        let mut trace = Trace { format: "a", ..Trace::default() };
        trace.events = vec![
            event(10, NO_TID, Kind::Waking { target: 7, cpu: Some(1) }),
            event(20, NO_TID, Kind::Switch { next: 7, leaving: Leaving::Sleeping }),
            event(30, 7, Kind::Switch { next: 0, leaving: Leaving::Uninterruptible }),
            event(40, 0, Kind::Lost),
            event(40, NO_TID, Kind::Switch { next: 8, leaving: Leaving::Runnable }),
        ];
        let found = converted(&trace);
        let lost = Event { tid: NO_TID, context: Context::Unknown, ..trace.events[3] };
        let expected: Vec<Event> =
            trace.events.iter().map(|it| if it.kind == Kind::Lost { lost } else { *it }).collect();
        assert_eq!(found.events, expected);
    }

    #[test]
    fn a_program_keeps_its_name_and_a_thread_its_process() {
        let text = sample::switch(0, 0, 0, "R", 3)
            + &sample::line(0, 1_000, 3, "task_newtask: pid=7 comm=t3 clone_flags=1200000 oom_score_adj=0")
            + &sample::switch(0, 2_000, 3, "S", 7)
            + &sample::line(0, 2_100, 7, "sched_process_exec: filename=/usr/bin/editor pid=7 old_pid=7")
            + &sample::line(0, 2_200, 7, "task_newtask: pid=8 comm=t8 clone_flags=1210f00 oom_score_adj=0")
            + &sample::switch(0, 9_000, 7, "S", 0);
        let trace = read_bytes(Path::new("a"), text.as_bytes()).unwrap();
        let found = converted(&trace);
        let (launches, _) = answers(&found);
        assert_eq!((launches[0].name.as_str(), launches[0].pid), ("editor", Some(7)));
        assert_eq!((found.processes.get(&8), found.processes.get(&7)), (Some(&7), Some(&7)));
    }

    proptest! {
        // Verifies TRACE-1.
        #[test]
        fn any_events_survive(lines in prop::collection::vec(sample::any_event(), 1..80)) {
            let text = sample::switch(0, 0, 1, "S", 2) + &lines.concat();
            let trace = read_bytes(Path::new("a"), text.as_bytes()).unwrap();
            prop_assert_eq!(readable(&converted(&trace)), readable(&trace));
        }
    }
}
