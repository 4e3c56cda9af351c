//! The fields of the events that answers need.

use super::line::Line;
use crate::collect::{self, Collector, TooManyEvents};
use crate::model::{Event, Kind, Tid};
use crate::read::marker;

/// Adds the line's event.
pub fn take(line: &Line<'_>, collector: &mut Collector) -> Result<(), TooManyEvents> {
    collector.name(line.tid, line.time_ns, line.name);
    if let Some(process) = line.process {
        collector.process_of(line.tid, process);
    }
    let Some(kind) = kind(line, collector) else {
        collector.skip();
        return Ok(());
    };
    let Line { time_ns, tid, cpu, context, .. } = *line;
    collector.push(Event { time_ns, tid, cpu, context, kind })
}

fn kind(line: &Line<'_>, collector: &mut Collector) -> Option<Kind> {
    let rest = line.rest;
    let value = |key| field(rest, key);
    Some(match line.event {
        "sched_switch" => switch(line, collector)?,
        "sched_waking" => {
            let (target, cpu) = woken(line, collector)?;
            Kind::Waking { target, cpu }
        }
        "sched_wakeup" | "sched_wakeup_new" => {
            let (target, cpu) = woken(line, collector)?;
            Kind::Woken { target, cpu, is_new: line.event.ends_with("new") }
        }
        "sched_migrate_task" => Kind::Migrated { target: number(value("pid")?)?, cpu: number(value("dest_cpu")?)? },
        "cpu_frequency" => Kind::Frequency { cpu: number(value("cpu_id")?)?, khz: number(value("state")?)? },
        "cpu_frequency_limits" => Kind::FrequencyLimit { cpu: number(value("cpu_id")?)?, khz: number(value("max")?)? },
        "sched_blocked_reason" => {
            let function = value("caller").map(|caller| caller.split('+').next().unwrap_or(caller));
            let function = function.map(|function| collector.symbol(function));
            Kind::BlockedReason { target: number(value("pid")?)?, is_io: value("iowait")? != "0", function }
        }
        "mm_vmscan_direct_reclaim_begin" => Kind::ReclaimBegin,
        "mm_vmscan_direct_reclaim_end" => Kind::ReclaimEnd,
        "page_fault_user" => Kind::PageFault,
        "sys_futex" if rest.starts_with("->") => Kind::LockEnd,
        "sys_futex" | "sys_enter_futex" | "contention_begin" => Kind::LockBegin,
        "sys_exit_futex" | "contention_end" => Kind::LockEnd,
        "android_fs_dataread_start" | "f2fs_dataread_start" => {
            let name = between(rest, "entry_name ", ", offset")?;
            Kind::Reads { file: Some(collector.symbol(&format!("file {name}"))), is_brief: false }
        }
        "android_fs_dataread_end" | "f2fs_dataread_end" => Kind::Reads { file: None, is_brief: false },
        "mm_filemap_add_to_page_cache" => {
            let inode = hexadecimal(between(rest, " ino ", " ")?)?;
            Kind::Reads { file: Some(collector.symbol(&format!("inode {inode}"))), is_brief: true }
        }
        "block_rq_issue" => Kind::BlockIssue { device: device(rest)? },
        "block_rq_complete" => Kind::BlockComplete { device: device(rest)? },
        "binder_transaction" => {
            let (id, process) = (number(value("transaction")?)?, number(value("dest_proc")?)?);
            Kind::BinderCall(collect::call(id, process, number(value("reply")?)?, hexadecimal(value("flags")?)?))
        }
        "binder_transaction_received" => Kind::BinderReceived { id: number(value("transaction")?)? },
        "sched_process_exec" | "sched_process_exit" | "sched_process_fork" | "task_newtask" | "task_rename" => {
            life(line, collector)?
        }
        "tracing_mark_write" | "print" | "0" => {
            let text = rest.strip_prefix("tracing_mark_write: ").unwrap_or(rest);
            marker::kind(text, line.time_ns, line.tid, collector)?
        }
        _ => return None,
    })
}

/// Both the kernel's text (`prev_comm=a prev_pid=7 ...`) and that of trace-cmd's plugin (`a:7 [120] S ==> b:8 [120]`).
fn switch(line: &Line<'_>, collector: &mut Collector) -> Option<Kind> {
    let rest = line.rest;
    if let Some(state) = field(rest, "prev_state") {
        let next: Tid = number(field(rest, "next_pid")?)?;
        collector.name(next, line.time_ns, between(rest, "next_comm=", " next_pid=")?);
        if let Some(priority) = field(rest, "next_prio").and_then(|text| text.parse().ok()) {
            collector.priority(next, line.time_ns, priority);
        }
        let leaving = match state.parse() {
            Ok(number) => collector.leaving(number),
            Err(_) => collect::leaving_of_letters(state)?,
        };
        return Some(Kind::Switch { next, leaving });
    }
    let (left, entered) = rest.split_once(" ==> ")?;
    let (_, state) = left.rsplit_once(' ')?;
    let (name, next) = named(entered)?;
    collector.name(next, line.time_ns, name);
    if let Some(priority) = between(entered, " [", "]").and_then(|text| text.parse().ok()) {
        collector.priority(next, line.time_ns, priority);
    }
    Some(Kind::Switch { next, leaving: collect::leaving_of_letters(state)? })
}

/// The thread that is woken, and its CPU.
fn woken(line: &Line<'_>, collector: &mut Collector) -> Option<(Tid, Option<u16>)> {
    let rest = line.rest;
    let (name, target, cpu) = match field(rest, "pid") {
        Some(pid) => (between(rest, "comm=", " pid=")?, number(pid)?, field(rest, "target_cpu")),
        None => {
            let (name, target) = named(rest)?;
            (name, target, rest.split_once("CPU:").map(|(_, cpu)| cpu.trim()))
        }
    };
    collector.name(target, line.time_ns, name);
    Some((target, cpu.and_then(number)))
}

/// `comm:7 [120] ...`.
fn named(text: &str) -> Option<(&str, Tid)> {
    let (thread, _) = text.split_once(" [")?;
    let (name, tid) = thread.rsplit_once(':')?;
    Some((name, number(tid)?))
}

fn life(line: &Line<'_>, collector: &mut Collector) -> Option<Kind> {
    let rest = line.rest;
    match line.event {
        "sched_process_exec" => {
            // A path can have spaces.
            collector.executed(line.tid, line.time_ns, between(rest, "filename=", " pid=")?);
            None
        }
        "sched_process_exit" => Some(Kind::Exit),
        "sched_process_fork" => {
            let child: Tid = number(field(rest, "child_pid")?)?;
            collector.name(child, line.time_ns, between(rest, "child_comm=", " child_pid=")?);
            Some(Kind::Fork { child })
        }
        "task_newtask" => {
            let child: Tid = number(field(rest, "pid")?)?;
            collector.name(child, line.time_ns, between(rest, "comm=", " clone_flags=")?);
            collector.born(child, line.tid, hexadecimal(field(rest, "clone_flags")?)?);
            Some(Kind::Fork { child })
        }
        _ => {
            collector.name(number(field(rest, "pid")?)?, line.time_ns, between(rest, "newcomm=", " oom_score_adj=")?);
            None
        }
    }
}

/// The value of `key=value` up to the next space.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let bytes = text.as_bytes();
    let start = memchr::memmem::find_iter(bytes, key).find_map(|at| {
        let is_word = at == 0 || bytes[at - 1] == b' ';
        (is_word && bytes.get(at + key.len()) == Some(&b'=')).then_some(at + key.len() + 1)
    })?;
    let value = &text[start..];
    Some(value.split([' ', '\t']).next().unwrap_or(value))
}

/// The text between two marks, as a name with spaces is.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let start = text.find(before)? + before.len();
    let end = text[start..].find(after)?;
    Some(text[start..start + end].trim())
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.trim().trim_end_matches(',').parse().ok()
}

fn hexadecimal(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim().strip_prefix("0x").unwrap_or(text.trim()), 16).ok()
}

/// `179,0 R ...`.
fn device(text: &str) -> Option<u32> {
    let (major, minor) = text.split(' ').next()?.split_once(',')?;
    let (major, minor): (u32, u32) = (number(major)?, number(minor)?);
    Some((major & 0xfff) << 20 | minor & 0xf_ffff)
}
