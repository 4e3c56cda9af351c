//! The events that answers need, from their raw fields.

use super::Header;
use super::format::Record;
use crate::collect::{self, Collector, TooManyEvents};
use crate::model::{Context, Event, Kind, Tid};
use crate::read::marker;

/// Flags of common_flags: a hard and a soft interrupt, and one that cannot be masked.
const INTERRUPTS: u64 = 0x08 | 0x10 | 0x40;

/// Adds the event with these bytes.
pub fn take(
    header: &Header,
    cpu: u16,
    time_ns: u64,
    bytes: &[u8],
    is_big_endian: bool,
    collector: &mut Collector,
) -> Result<(), TooManyEvents> {
    let Some(id) = bytes.get(..2) else { return Ok(()) };
    let Some(format) = header.formats.get(super::input::number(id, is_big_endian) as u16) else {
        collector.skip();
        return Ok(());
    };
    let record = Record { format, bytes, is_big_endian };
    let Some(tid) = record.u32("common_pid") else { return Ok(()) };
    let Some(kind) = kind(header, &record, tid, time_ns, collector) else {
        collector.skip();
        return Ok(());
    };
    let flags = record.number("common_flags").unwrap_or(0);
    let context = if flags & INTERRUPTS != 0 { Context::Interrupt } else { Context::Thread };
    collector.push(Event { time_ns, tid, cpu, context, kind })
}

fn kind(header: &Header, record: &Record<'_>, tid: Tid, time_ns: u64, collector: &mut Collector) -> Option<Kind> {
    let mut name = |tid: Option<Tid>, field: &str| {
        if let (Some(tid), Some(name)) = (tid, record.text(field)) {
            collector.name(tid, time_ns, &name);
        }
        tid
    };
    Some(match record.format.name.as_str() {
        "sched_switch" => {
            name(record.u32("prev_pid"), "prev_comm");
            let next = name(record.u32("next_pid"), "next_comm")?;
            if let Some(priority) = record.u32("next_prio") {
                collector.priority(next, time_ns, priority.cast_signed().into());
            }
            Kind::Switch { next, leaving: collector.leaving(record.number("prev_state")?) }
        }
        "sched_waking" => Kind::Waking { target: name(record.u32("pid"), "comm")?, cpu: record.u16("target_cpu") },
        event @ ("sched_wakeup" | "sched_wakeup_new") => Kind::Woken {
            target: name(record.u32("pid"), "comm")?,
            cpu: record.u16("target_cpu"),
            is_new: event.ends_with("new"),
        },
        "sched_migrate_task" => Kind::Migrated { target: record.u32("pid")?, cpu: record.u16("dest_cpu")? },
        "cpu_frequency" => Kind::Frequency { cpu: record.u16("cpu_id")?, khz: record.u32("state")? },
        "cpu_frequency_limits" => Kind::FrequencyLimit { cpu: record.u16("cpu_id")?, khz: record.u32("max_freq")? },
        "sched_blocked_reason" => {
            let function = header.functions.name(record.number("caller")?).map(|name| collector.symbol(name));
            Kind::BlockedReason { target: record.u32("pid")?, is_io: record.number("io_wait")? != 0, function }
        }
        "mm_vmscan_direct_reclaim_begin" => Kind::ReclaimBegin,
        "mm_vmscan_direct_reclaim_end" => Kind::ReclaimEnd,
        "page_fault_user" => Kind::PageFault,
        "sys_enter_futex" | "contention_begin" => Kind::LockBegin,
        "sys_exit_futex" | "contention_end" => Kind::LockEnd,
        "android_fs_dataread_start" | "f2fs_dataread_start" => {
            let name = format!("file {}", record.text("pathbuf")?);
            Kind::Reads { file: Some(collector.symbol(&name)), is_brief: false }
        }
        "android_fs_dataread_end" | "f2fs_dataread_end" => Kind::Reads { file: None, is_brief: false },
        "mm_filemap_add_to_page_cache" => {
            let name = format!("inode {}", record.number("i_ino")?);
            Kind::Reads { file: Some(collector.symbol(&name)), is_brief: true }
        }
        "block_rq_issue" => Kind::BlockIssue { device: record.u32("dev")? },
        "block_rq_complete" => Kind::BlockComplete { device: record.u32("dev")? },
        "binder_transaction" => Kind::BinderCall(collect::call(
            record.u32("debug_id")?,
            record.u32("to_proc")?,
            record.number("reply")?,
            record.number("flags")?,
        )),
        "binder_transaction_received" => Kind::BinderReceived { id: record.u32("debug_id")? },
        "print" | "tracing_mark_write" => marker::kind(&record.text("buf")?, time_ns, tid, collector)?,
        event => life(event, record, tid, time_ns, collector)?,
    })
}

/// Births, deaths and renamings.
fn life(event: &str, record: &Record<'_>, tid: Tid, time_ns: u64, collector: &mut Collector) -> Option<Kind> {
    let text = |field: &str| record.text(field);
    match event {
        "sched_process_exec" => {
            collector.executed(tid, time_ns, &text("filename")?);
            None
        }
        "sched_process_exit" => Some(Kind::Exit),
        "sched_process_fork" => {
            let child = record.u32("child_pid")?;
            collector.name(child, time_ns, &text("child_comm")?);
            Some(Kind::Fork { child })
        }
        "task_newtask" => {
            let child = record.u32("pid")?;
            collector.name(child, time_ns, &text("comm")?);
            collector.born(child, tid, record.number("clone_flags")?);
            Some(Kind::Fork { child })
        }
        "task_rename" => {
            collector.name(record.u32("pid")?, time_ns, &text("newcomm")?);
            None
        }
        _ => None,
    }
}
