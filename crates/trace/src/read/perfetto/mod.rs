//! Perfetto's files: protobuf (protos/perfetto/trace/trace_packet.proto of its repository), packet by packet.
//!
//! prost reads the messages. The crate perfetto_protos has all of them, hundreds of events without use here.

mod bundle;
mod events;
mod packets;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Read};

use flate2::bufread::ZlibDecoder;
use prost::Message as _;

use super::error::Fault;
use crate::collect::{Collector, TooManyEvents};
use crate::model::{Symbol, Tid};
use crate::perfetto_schema::{FtraceStats, InternedData, ProcessTree, TracePacket};
use packets::Next;
pub(super) use packets::are_at;

/// Perfetto packs at most half a MiB into a packet; more unpacks without end.
const MAX_UNPACKED: u64 = 64 << 20;
/// More functions of the kernel than that are forged.
const MAX_SYMBOLS: usize = 1 << 20;

/// Reads all packets.
pub(super) fn read(input: &mut dyn BufRead, collector: &mut Collector) -> Result<(), Fault> {
    let mut reader = Reader::new(collector);
    match reader.packets(input, true) {
        Err(Fault::Input(cause)) if reader.packets > 0 => {
            let packets = reader.packets;
            reader.collector.fault(format!("the file is damaged after {packets} packets: {cause}"));
        }
        other => other?,
    }
    reader.finish();
    Ok(())
}

struct Reader<'c> {
    collector: &'c mut Collector,
    packets: u64,
    damaged: u64,
    too_large: u64,
    of_guests: u64,
    /// What runs on each CPU, where that is known: compact events do not tell.
    running: BTreeMap<u16, Option<Tid>>,
    /// Functions of the kernel, by writer and number.
    functions: HashMap<(u32, u64), Symbol>,
    sequences: HashSet<u32>,
    names: BTreeMap<Tid, String>,
    /// The system calls that futex(2) is on this machine; none before the machine is known.
    futex: &'static [i64],
    clock: Clock,
    /// Events that the kernel lost before the recording and until now, by CPU.
    overruns: BTreeMap<u16, [u64; 2]>,
    discarded: u64,
}

/// How ftrace's times become times since boot.
#[derive(Debug, Clone, Copy, Default)]
struct Clock {
    is_known: bool,
    offset_ns: i64,
}

impl<'c> Reader<'c> {
    fn new(collector: &'c mut Collector) -> Self {
        Self {
            collector,
            packets: 0,
            damaged: 0,
            too_large: 0,
            of_guests: 0,
            running: BTreeMap::new(),
            functions: HashMap::new(),
            sequences: HashSet::new(),
            names: BTreeMap::new(),
            futex: &[],
            clock: Clock::default(),
            overruns: BTreeMap::new(),
            discarded: 0,
        }
    }

    fn packets(&mut self, input: &mut dyn BufRead, may_be_packed: bool) -> Result<(), Fault> {
        loop {
            match packets::next(input)? {
                Next::End => return Ok(()),
                Next::TooLarge => self.too_large += 1,
                Next::Packet(bytes) => match TracePacket::decode(prost::bytes::Bytes::from(bytes)) {
                    Ok(packet) => self.packet(&packet, may_be_packed)?,
                    Err(_) => self.lose_packet(),
                },
            }
            self.packets += 1;
        }
    }

    fn packet(&mut self, packet: &TracePacket, may_be_packed: bool) -> Result<(), Fault> {
        if packet.machine != 0 {
            self.of_guests += 1;
            return Ok(());
        }
        // The first packet of each writer has the flag as well.
        if !self.sequences.insert(packet.sequence) && packet.previous_packet_dropped != 0 {
            self.lose_all();
        }
        if let Some(interned) = &packet.interned_data {
            self.intern(packet.sequence, interned);
        }
        if let Some(info) = packet.system_info.as_ref().and_then(|info| info.utsname.as_ref()) {
            self.futex = futex(&info.machine);
        }
        if let Some(tree) = &packet.process_tree {
            self.processes(tree);
        }
        if let Some(stats) = &packet.ftrace_stats {
            self.lost(stats);
        }
        if let Some(stats) = &packet.trace_stats {
            self.discarded = stats.buffer_stats.iter().fold(0, |sum, it| sum.saturating_add(it.chunks_discarded));
        }
        if let Some(bundle) = &packet.ftrace_events {
            self.bundle(packet.sequence, bundle)?;
        }
        let (zlib, zstd) = (&packet.compressed_packets[..], &packet.zstd_compressed_packets[..]);
        if may_be_packed && !zlib.is_empty() {
            self.packed(ZlibDecoder::new(zlib))?;
        }
        if may_be_packed && !zstd.is_empty() {
            match ruzstd::decoding::StreamingDecoder::new(zstd) {
                Ok(unpacker) => self.packed(unpacker)?,
                Err(_) => self.lose_packet(),
            }
        }
        Ok(())
    }

    fn packed(&mut self, unpacker: impl Read) -> Result<(), Fault> {
        match self.packets(&mut BufReader::new(unpacker.take(MAX_UNPACKED)), false) {
            Err(Fault::Input(_)) => self.lose_packet(),
            other => other?,
        }
        Ok(())
    }

    fn intern(&mut self, sequence: u32, interned: &InternedData) {
        for symbol in &interned.kernel_symbols {
            if self.functions.len() < MAX_SYMBOLS {
                let name = self.collector.symbol(&String::from_utf8_lossy(&symbol.text));
                self.functions.insert((sequence, symbol.iid), name);
            }
        }
    }

    fn processes(&mut self, tree: &ProcessTree) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for process in &tree.processes {
            let Some(pid) = tid(process.pid) else { continue };
            let words: Vec<String> = process.cmdline.iter().map(|word| text(word)).collect();
            self.collector.command(pid, &words.join(" "));
            self.collector.process_of(pid, pid);
            if let Some(first) = words.into_iter().next() {
                self.names.entry(pid).or_insert(first);
            }
        }
        for thread in &tree.threads {
            let Some(number) = tid(thread.tid) else { continue };
            self.collector.process_of(number, tid(thread.tgid).unwrap_or(0));
            if !thread.name.is_empty() {
                self.names.insert(number, text(&thread.name));
            }
        }
    }

    fn lost(&mut self, stats: &FtraceStats) {
        let Some(phase) = usize::try_from(stats.phase).ok().and_then(|phase| phase.checked_sub(1)) else { return };
        for of in &stats.cpu_stats {
            if let Ok(cpu) = u16::try_from(of.cpu)
                && let Some(overrun) = self.overruns.entry(cpu).or_default().get_mut(phase)
            {
                *overrun = of.overrun.saturating_add(of.dropped_events);
            }
        }
    }

    fn lose_packet(&mut self) {
        self.damaged += 1;
        self.lose_all();
    }

    /// Events of any CPU are missing here.
    fn lose_all(&mut self) {
        for (&cpu, running) in &mut self.running {
            self.collector.lost(cpu, 0);
            *running = None;
        }
    }

    fn finish(self) {
        for (tid, name) in &self.names {
            self.collector.name_unknown(*tid, name);
        }
        for (&cpu, &[before, after]) in &self.overruns {
            if after > before {
                self.collector.lost(cpu, after - before);
            }
        }
        for (count, what) in [
            (self.damaged, "packets or events are damaged and have been skipped"),
            (self.too_large, "packets are larger than any of the scheduler and have been skipped"),
            (self.of_guests, "packets are of guest machines and have been skipped"),
            (self.discarded, "pieces did not fit into the recorder's buffer: the end of the trace is missing"),
        ] {
            if count > 0 {
                self.collector.fault(format!("{count} {what}"));
            }
        }
    }
}

/// A thread's number; negative ones are forged.
fn tid(number: i32) -> Option<Tid> {
    u32::try_from(number).ok()
}

/// The numbers of futex, futex_time64 and futex_waitv (arch/*/entry/syscalls of Linux).
fn futex(machine: &[u8]) -> &'static [i64] {
    match machine {
        b"aarch64" | b"riscv64" => &[98, 449],
        b"x86_64" => &[202, 449],
        b"i686" | b"i586" | b"i386" => &[240, 422, 449],
        _ if machine.starts_with(b"arm") => &[240, 422, 449],
        _ => &[],
    }
}

#[cfg(test)]
mod tests;
