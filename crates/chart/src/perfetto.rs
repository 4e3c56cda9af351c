//! The recording as a Perfetto trace, for ui.perfetto.dev and trace_processor: each process with its states and CPU
//! time, and counters of CPUs, frequencies, disks and pressure.
//!
//! Perfetto's format is protobuf (protos/perfetto/trace/ of its repository: trace_packet, track_descriptor,
//! track_event), of which seven messages are needed.

use super::diagnose;
use super::model::{Boot, CpuSample, Kind, OFFLINE, Process, Span, State};

/// Any number but 0: all packets are of one writer.
const SEQUENCE: u64 = 1;

/// Writes the trace.
pub fn render(boot: &Boot) -> Vec<u8> {
    let mut trace = Trace { bytes: Vec::new(), tracks: 0 };
    let phases = trace.track(None, &|track| track.text(track_descriptor::NAME, "What limited the boot"));
    for phase in diagnose::diagnose(boot).phases {
        trace.slice(phases, phase.span, phase.limit.words());
    }
    cpus(&mut trace, boot);
    disks(&mut trace, boot);
    pressures(&mut trace, boot);
    for process in &boot.processes {
        self::process(&mut trace, process);
    }
    trace.bytes
}

fn cpus(trace: &mut Trace, boot: &Boot) {
    let mut shares = |name: &str, share: &dyn Fn(&CpuSample) -> f32| {
        trace.counter(None, name, "%", boot.cpu.iter().map(|sample| (sample.span, percent(share(sample)))));
    };
    shares("CPU user", &|sample| sample.user);
    shares("CPU system", &|sample| sample.system);
    shares("CPU idle, waiting for a disk", &|sample| sample.io_wait);
    for core in &boot.cores {
        let name = format!("cpu{} busy", core.number);
        let known = boot.cpu.iter().zip(&core.busy).filter(|(_, busy)| **busy != OFFLINE);
        trace.counter(None, &name, "%", known.map(|(sample, busy)| (sample.span, u64::from(*busy))));
        let changes = core.frequency.iter();
        let until = |from_ms: u32| Span::new(from_ms, boot.span.end_ms);
        let values = changes.map(|&(from_ms, khz)| (until(from_ms), u64::from(khz)));
        trace.counter(None, &format!("cpu{} frequency", core.number), "kHz", values);
    }
}

fn disks(trace: &mut Trace, boot: &Boot) {
    for disk in &boot.disks {
        let busy = disk.samples.iter().map(|sample| (sample.span, percent(sample.busy)));
        trace.counter(None, &format!("{} busy", disk.name), "%", busy);
        let rate = |kib: u32, span: Span| u64::from(kib) * 1000 / u64::from(span.length_ms().max(1));
        let read = disk.samples.iter().map(|sample| (sample.span, rate(sample.read_kib, sample.span)));
        trace.counter(None, &format!("{} read", disk.name), "KiB/s", read);
        let written = disk.samples.iter().map(|sample| (sample.span, rate(sample.written_kib, sample.span)));
        trace.counter(None, &format!("{} written", disk.name), "KiB/s", written);
    }
}

fn pressures(trace: &mut Trace, boot: &Boot) {
    for pressure in &boot.pressures {
        let some = pressure.samples.iter().map(|sample| (sample.span, percent(sample.some)));
        trace.counter(None, &format!("waiting for {}: some", pressure.name), "%", some);
        let full = pressure.samples.iter().map(|sample| (sample.span, percent(sample.full)));
        trace.counter(None, &format!("waiting for {}: all", pressure.name), "%", full);
    }
}

fn process(trace: &mut Trace, process: &Process) {
    let track = trace.track(None, &|track| match process.kind {
        // An initcall has no PID.
        Kind::Initcall => track.text(track_descriptor::NAME, "initcall"),
        Kind::Process | Kind::KernelThread => {
            let mut descriptor = Message::default();
            descriptor.number(process_descriptor::PID, u64::from(process.pid));
            if let Some(command) = &process.command {
                descriptor.text(process_descriptor::COMMAND_LINE, command);
            }
            descriptor.text(process_descriptor::NAME, &process.name);
            descriptor.number(process_descriptor::START_NS, nanoseconds(process.span.start_ms));
            track.message(track_descriptor::PROCESS, &descriptor);
        }
    });
    trace.begin(track, process.span.start_ms, process.label());
    let mut states = process.activity.iter().filter_map(|activity| {
        let name = match activity.state {
            State::Running => "running",
            State::DiskWait => "waiting for a disk",
            State::Stopped => "stopped",
            State::Zombie => "dead, not collected",
            State::Sleeping => return None,
        };
        // Slices must nest, so states are clipped to the process's lifetime.
        let end_ms = activity.span.end_ms.min(process.span.end_ms);
        let start_ms = activity.span.start_ms.max(process.span.start_ms);
        (start_ms < end_ms).then(|| (Span::new(start_ms, end_ms), name))
    });
    let mut current = states.next();
    while let Some((mut span, name)) = current {
        current = states.next();
        while let Some((next, _)) = current.filter(|(next, other)| *other == name && next.start_ms == span.end_ms) {
            span.end_ms = next.end_ms;
            current = states.next();
        }
        trace.slice(track, span, name);
    }
    trace.end(track, process.span.end_ms);
    if process.cpu_ms > 0 {
        let values = process.activity.iter().map(|a| (a.span, u64::from(a.cpu_permille) / 10));
        trace.counter(Some(track), "CPU", "%", values);
    }
}

fn percent(share: f32) -> u64 {
    // Casts from floats saturate.
    (share * 100.0).round() as u64
}

fn nanoseconds(ms: u32) -> u64 {
    u64::from(ms) * 1_000_000
}

// Field numbers, by message.
mod packet {
    pub const IN_TRACE: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const TRACK_DESCRIPTOR: u32 = 60;
}
mod track_descriptor {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const PARENT_UUID: u32 = 5;
    pub const COUNTER: u32 = 8;
}
mod process_descriptor {
    pub const PID: u32 = 1;
    pub const COMMAND_LINE: u32 = 2;
    pub const NAME: u32 = 6;
    pub const START_NS: u32 = 7;
}
mod counter_descriptor {
    pub const UNIT_NAME: u32 = 6;
}
mod track_event {
    pub const TYPE: u32 = 9;
    pub const TRACK_UUID: u32 = 11;
    pub const NAME: u32 = 23;
    pub const COUNTER_VALUE: u32 = 30;
    pub const SLICE_BEGIN: u64 = 1;
    pub const SLICE_END: u64 = 2;
    pub const COUNTER: u64 = 4;
}

/// A trace being written. Packets of one track are in order of time, which is all that readers require.
struct Trace {
    bytes: Vec<u8>,
    tracks: u64,
}

impl Trace {
    fn packet(&mut self, body: &mut Message) {
        body.number(packet::SEQUENCE_ID, SEQUENCE);
        let mut outer = Message { bytes: std::mem::take(&mut self.bytes) };
        outer.message(packet::IN_TRACE, body);
        self.bytes = outer.bytes;
    }

    fn track(&mut self, parent: Option<u64>, describe: &dyn Fn(&mut Message)) -> u64 {
        self.tracks += 1;
        let mut track = Message::default();
        track.number(track_descriptor::UUID, self.tracks);
        if let Some(parent) = parent {
            track.number(track_descriptor::PARENT_UUID, parent);
        }
        describe(&mut track);
        let mut body = Message::default();
        body.message(packet::TRACK_DESCRIPTOR, &track);
        self.packet(&mut body);
        self.tracks
    }

    fn event(&mut self, track: u64, time_ms: u32, kind: u64, describe: impl FnOnce(&mut Message)) {
        let mut event = Message::default();
        event.number(track_event::TYPE, kind);
        event.number(track_event::TRACK_UUID, track);
        describe(&mut event);
        let mut body = Message::default();
        body.number(packet::TIMESTAMP, nanoseconds(time_ms));
        body.message(packet::TRACK_EVENT, &event);
        self.packet(&mut body);
    }

    fn begin(&mut self, track: u64, time_ms: u32, name: &str) {
        self.event(track, time_ms, track_event::SLICE_BEGIN, |event| event.text(track_event::NAME, name));
    }

    fn end(&mut self, track: u64, time_ms: u32) {
        self.event(track, time_ms, track_event::SLICE_END, |_| ());
    }

    fn slice(&mut self, track: u64, span: Span, name: &str) {
        self.begin(track, span.start_ms, name);
        self.end(track, span.end_ms);
    }

    /// A counter that has a value from the start of each interval on, and 0 where there is a gap and at the end.
    fn counter(&mut self, parent: Option<u64>, name: &str, unit: &str, values: impl Iterator<Item = (Span, u64)>) {
        let mut values = values.peekable();
        if values.peek().is_none() {
            return;
        }
        let track = self.track(parent, &|track| {
            track.text(track_descriptor::NAME, name);
            let mut counter = Message::default();
            counter.text(counter_descriptor::UNIT_NAME, unit);
            track.message(track_descriptor::COUNTER, &counter);
        });
        let mut last = None;
        while let Some((span, value)) = values.next() {
            if last != Some(value) {
                self.value(track, span.start_ms, value);
            }
            last = Some(value);
            let goes_on = values.peek().is_some_and(|(next, _)| next.start_ms <= span.end_ms);
            if !goes_on && value != 0 {
                self.value(track, span.end_ms, 0);
                last = Some(0);
            }
        }
    }

    fn value(&mut self, track: u64, time_ms: u32, value: u64) {
        self.event(track, time_ms, track_event::COUNTER, |event| event.number(track_event::COUNTER_VALUE, value));
    }
}

/// A protobuf message: fields as they are added.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u32, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    fn message(&mut self, field: u32, message: &Self) {
        self.bytes(field, &message.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Shape;
    use crate::sample;
    use std::collections::BTreeMap;

    /// The fields of a message: numbers, and bytes by their field.
    fn fields(mut bytes: &[u8]) -> Vec<(u32, u64, &[u8])> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut value = 0;
            for shift in (0..).step_by(7) {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7f) << shift;
                if byte < 0x80 {
                    break;
                }
            }
            value
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let value = varint(&mut bytes);
            let field = (key >> 3) as u32;
            match key & 7 {
                0 => found.push((field, value, &bytes[..0])),
                2 => {
                    let (inner, rest) = bytes.split_at(value as usize);
                    found.push((field, 0, inner));
                    bytes = rest;
                }
                other => panic!("wire type {other}"),
            }
        }
        found
    }

    fn number(fields: &[(u32, u64, &[u8])], field: u32) -> Option<u64> {
        fields.iter().find(|(number, ..)| *number == field).map(|(_, value, _)| *value)
    }

    // Verifies CHART-2.
    #[test]
    fn what_is_written_reads_back_as_nested_slices_and_counters() {
        let boot = sample::recording(&Shape::SMALL);
        let trace = render(&boot);
        let (mut open, mut last, mut names) = (BTreeMap::<u64, i32>::new(), BTreeMap::new(), Vec::new());
        let (mut pids, mut counters) = (0, 0);
        for (field, _, packet) in fields(&trace) {
            assert_eq!(field, packet::IN_TRACE);
            let packet = fields(packet);
            assert_eq!(number(&packet, packet::SEQUENCE_ID), Some(SEQUENCE));
            for (field, _, inner) in &packet {
                let inner = fields(inner);
                match *field {
                    packet::TRACK_DESCRIPTOR => {
                        pids += inner.iter().filter(|(field, ..)| *field == track_descriptor::PROCESS).count();
                        counters += inner.iter().filter(|(field, ..)| *field == track_descriptor::COUNTER).count();
                    }
                    packet::TRACK_EVENT => {
                        let time = number(&packet, packet::TIMESTAMP).unwrap();
                        let track = number(&inner, track_event::TRACK_UUID).unwrap();
                        assert!(last.insert(track, time).is_none_or(|before| before <= time), "time goes on");
                        let depth = open.entry(track).or_default();
                        match number(&inner, track_event::TYPE).unwrap() {
                            track_event::SLICE_BEGIN => *depth += 1,
                            track_event::SLICE_END => *depth -= 1,
                            kind => assert_eq!(kind, track_event::COUNTER),
                        }
                        assert!((0..=2).contains(depth), "slices nest");
                        let text = inner.iter().filter(|(field, ..)| *field == track_event::NAME);
                        names.extend(text.map(|(_, _, name)| String::from_utf8(name.to_vec()).unwrap()));
                    }
                    _ => {}
                }
            }
        }
        assert!(open.values().all(|depth| *depth == 0), "every slice ends");
        assert_eq!(pids, boot.processes.len());
        assert!(counters > 3 + 4 * 2 + 3, "{counters}");
        for name in ["zygote64", "one CPU", "running", "waiting for a disk"] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
