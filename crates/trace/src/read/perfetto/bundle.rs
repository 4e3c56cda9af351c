//! The events of one CPU: compact ones and others, merged in the order of time.

use prost::Message as _;

use super::{Clock, Reader, TooManyEvents, tid};
use crate::model::{Context, Event, Kind, NO_TID, Tid};
use crate::perfetto_schema::{CompactSched, FtraceEvent, FtraceEventBundle};

/// A switch or a wake-up of the compact form.
struct Compact<'a> {
    timestamp: u64,
    name: &'a [u8],
    /// The thread that comes to the CPU, or is woken.
    tid: Tid,
    what: What,
}

enum What {
    Switch { state: i64, priority: Option<i32> },
    Waking { cpu: i32, flags: Option<u32> },
}

/// Flags of common_flags: a hard and a soft interrupt, and one that cannot be masked.
const INTERRUPTS: u32 = 0x08 | 0x10 | 0x40;

pub(super) fn context(flags: Option<u32>) -> Context {
    match flags {
        None => Context::Unknown,
        Some(flags) if flags & INTERRUPTS != 0 => Context::Interrupt,
        Some(_) => Context::Thread,
    }
}

impl Reader<'_> {
    pub(super) fn bundle(&mut self, sequence: u32, bundle: &FtraceEventBundle) -> Result<(), TooManyEvents> {
        let Ok(cpu) = u16::try_from(bundle.cpu) else {
            self.damaged += 1;
            return Ok(());
        };
        self.running.entry(cpu).or_default();
        if bundle.lost_events {
            self.lose(cpu);
        }
        if bundle.ftrace_clock != 0 && !self.clock.is_known {
            self.set_clock(bundle);
        }
        let mut compact = self.compact(cpu, bundle.compact_sched.as_ref()).into_iter().peekable();
        for bytes in &bundle.event {
            let Ok(event) = FtraceEvent::decode(&bytes[..]) else {
                self.damaged += 1;
                self.lose(cpu);
                continue;
            };
            // Of equal times, those come first that the running thread recorded.
            while let Some(first) = compact.next_if(|it| {
                let runs_other = self.running[&cpu].is_some_and(|running| running != event.pid);
                it.timestamp < event.timestamp || it.timestamp == event.timestamp && runs_other
            }) {
                self.scheduled(cpu, &first)?;
            }
            self.running.entry(cpu).and_modify(|running| *running = running.or(Some(event.pid)));
            let time_ns = self.time_ns(event.timestamp);
            self.event(sequence, cpu, time_ns, &event)?;
        }
        for rest in compact {
            self.scheduled(cpu, &rest)?;
        }
        Ok(())
    }

    pub(super) fn lose(&mut self, cpu: u16) {
        self.collector.lost(cpu, 0);
        self.running.insert(cpu, None);
    }

    fn set_clock(&mut self, bundle: &FtraceEventBundle) {
        let has_both = bundle.ftrace_timestamp > 0 && bundle.boot_timestamp > 0;
        let offset_ns = if has_both { bundle.boot_timestamp - bundle.ftrace_timestamp } else { 0 };
        self.clock = Clock { is_known: true, offset_ns };
        let what = if has_both { "times are moved to it as far as the file tells" } else { "times are of that clock" };
        self.collector.fault(format!("the recorder's clock was not that of the time since boot: {what}"));
    }

    fn time_ns(&self, timestamp: u64) -> u64 {
        timestamp.saturating_add_signed(self.clock.offset_ns)
    }

    /// The compact events in the order of time. Columns of different lengths are damaged: the rows that all have are kept.
    fn compact<'b>(&mut self, cpu: u16, columns: Option<&'b CompactSched>) -> Vec<Compact<'b>> {
        let Some(of) = columns else { return Vec::new() };
        let lengths = [
            [of.switch_timestamp.len(), of.switch_prev_state.len(), of.switch_next_pid.len()],
            [of.waking_timestamp.len(), of.waking_pid.len(), of.waking_target_cpu.len()],
        ];
        let is_uneven = lengths.iter().any(|of| of.iter().any(|length| *length != of[0]));
        let name =
            |index: Option<&u32>| index.and_then(|&index| of.intern_table.get(index as usize)).map_or(&[][..], |it| it);
        let mut time = 0_u64;
        let wakings = of.waking_timestamp.iter().zip(&of.waking_pid).zip(&of.waking_target_cpu).enumerate();
        let wakings = wakings.map(|(row, ((delta, &pid), &cpu))| {
            time = time.wrapping_add(*delta);
            let what = What::Waking { cpu, flags: of.waking_common_flags.get(row).copied() };
            (time, name(of.waking_comm_index.get(row)), pid, what)
        });
        let mut rows: Vec<_> = wakings.collect();
        let mut time = 0_u64;
        let switches = of.switch_timestamp.iter().zip(&of.switch_next_pid).zip(&of.switch_prev_state).enumerate();
        rows.extend(switches.map(|(row, ((delta, &pid), &state))| {
            time = time.wrapping_add(*delta);
            let priority = of.switch_next_prio.get(row).copied();
            (time, name(of.switch_next_comm_index.get(row)), pid, What::Switch { state, priority })
        }));
        let count = rows.len();
        let rows = rows
            .into_iter()
            .filter_map(|(timestamp, name, pid, what)| Some(Compact { timestamp, name, tid: tid(pid)?, what }));
        let mut rows: Vec<Compact<'b>> = rows.collect();
        if is_uneven || rows.len() != count {
            self.damaged += 1;
            self.lose(cpu);
        }
        rows.sort_by_key(|row| row.timestamp);
        rows
    }

    /// Adds a compact event; the thread that recorded it is the one that ran.
    fn scheduled(&mut self, cpu: u16, row: &Compact<'_>) -> Result<(), TooManyEvents> {
        let time_ns = self.time_ns(row.timestamp);
        let tid = self.running[&cpu].unwrap_or(NO_TID);
        self.collector.name(row.tid, time_ns, &String::from_utf8_lossy(row.name));
        let (context, kind) = match row.what {
            What::Switch { state, priority } => {
                if let Some(priority) = priority {
                    self.collector.priority(row.tid, time_ns, priority.into());
                }
                self.running.insert(cpu, Some(row.tid));
                let leaving = self.collector.leaving(state as u64);
                (Context::Thread, Kind::Switch { next: row.tid, leaving })
            }
            What::Waking { cpu, flags } => {
                (context(flags), Kind::Waking { target: row.tid, cpu: u16::try_from(cpu).ok() })
            }
        };
        self.collector.push(Event { time_ns, tid, cpu, context, kind })
    }
}
