//! One line of ftrace's text: `comm-7   ( 7) [003] d..2.  12.345678: sched_switch: ...`.

use crate::model::{Context, Tid};

/// The parts of an event's line.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    pub name: &'a str,
    pub tid: Tid,
    /// The process, where the tracer recorded it (`record-tgid`).
    pub process: Option<Tid>,
    pub cpu: u16,
    pub context: Context,
    pub time_ns: u64,
    pub event: &'a str,
    pub rest: &'a str,
}

/// Parses a line; `None` when it is no event.
pub fn parse(line: &str) -> Option<Line<'_>> {
    // A name may contain brackets, so every `[` is tried.
    memchr::memchr_iter(b'[', line.as_bytes()).find_map(|bracket| parse_at(line, bracket))
}

fn parse_at(line: &str, bracket: usize) -> Option<Line<'_>> {
    let (cpu, after) = line[bracket + 1..].split_once(']')?;
    let cpu = digits(cpu)?.parse().ok()?;
    let (name, tid, process) = thread(line[..bracket].trim())?;
    let after = after.strip_prefix(' ')?.trim_start();
    let (first, following) = after.split_once(' ')?;
    let (context, time, following) = match first.strip_suffix(':') {
        Some(time) => (Context::Unknown, time, following),
        None => {
            let (time, following) = following.trim_start().split_once(' ')?;
            (context(first), time.strip_suffix(':')?, following)
        }
    };
    let (event, rest) = event(following.trim_start());
    Some(Line { name, tid, process, cpu, context, time_ns: nanoseconds(time)?, event, rest })
}

/// `comm-7` or `comm-7   (   7)`; the process is dashes where it is unknown.
fn thread(text: &str) -> Option<(&str, Tid, Option<Tid>)> {
    let (text, process) = match text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
        Some((before, process)) if before.ends_with([' ', '\t']) => (before.trim_end(), process.trim().parse().ok()),
        _ => (text, None),
    };
    let (name, tid) = text.rsplit_once('-')?;
    Some((name.trim(), digits(tid)?.parse().ok()?, process))
}

/// The third of the flags says which interrupt ran.
fn context(flags: &str) -> Context {
    match flags.as_bytes().get(2) {
        Some(b'h' | b'H' | b's' | b'z' | b'Z') => Context::Interrupt,
        Some(_) => Context::Thread,
        None => Context::Unknown,
    }
}

/// The name of the event and its fields. The kernel prints system calls as `sys_futex(uaddr: 7f, ...)` and `sys_futex -> 0x0`.
fn event(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    (name, rest.strip_prefix(':').unwrap_or(rest).trim_start())
}

fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// `12.345678` seconds, with up to nine decimals. A time without decimals is of another clock (`trace_clock` counter).
fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    let seconds: u64 = digits(seconds)?.parse().ok()?;
    let decimals = fraction.len();
    let fraction: u64 = digits(fraction)?.parse().ok()?;
    let scale = 10u64.pow(u32::try_from(9usize.checked_sub(decimals)?).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction * scale)
}

/// `CPU:2 [LOST 12 EVENTS]` of the kernel, `CPU:2 [12 EVENTS DROPPED]` of trace-cmd; 0 where the number is unknown.
pub fn lost(line: &str) -> Option<(u16, u64)> {
    let (cpu, what) = line.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let what = what.strip_suffix(']')?;
    if !what.contains("LOST") && !what.contains("DROPPED") {
        return None;
    }
    let count = what.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0);
    Some((cpu.trim().parse().ok()?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line<'a>(name: &'a str, tid: Tid, cpu: u16, event: &'a str, rest: &'a str) -> Line<'a> {
        let (time_ns, context) = (12_345_678_000, Context::Unknown);
        Line { name, tid, process: None, cpu, context, time_ns, event, rest }
    }

    #[test]
    fn lines_of_each_tool_are_parsed() {
        for (text, expected) in [
            ("  sh-7  [001]    12.345678: cpu_idle:   state=1", line("sh", 7, 1, "cpu_idle", "state=1")),
            ("  sh-7  [001] d.h2. 12.345678: a: b", Line { context: Context::Interrupt, ..line("sh", 7, 1, "a", "b") }),
            (
                "<idle>-0     (-----) [003] d..3  12.345678: a: b",
                Line { context: Context::Thread, ..line("<idle>", 0, 3, "a", "b") },
            ),
            (
                "Binder:1_2-77  (   70) [003] .... 12.345678: a: b",
                Line { context: Context::Thread, process: Some(70), ..line("Binder:1_2", 77, 3, "a", "b") },
            ),
            ("kworker/u12:1-46 [002] 12.345678000: a: b c", line("kworker/u12:1", 46, 2, "a", "b c")),
            ("a [1] (x)-b-46 [002] 12.345678: a: b", line("a [1] (x)-b", 46, 2, "a", "b")),
            ("a-46 [002] 12.345678: sys_futex(uaddr: 7f)", line("a", 46, 2, "sys_futex", "(uaddr: 7f)")),
            ("a-46 [002] 12.345678: sys_futex -> 0x0", line("a", 46, 2, "sys_futex", "-> 0x0")),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_lines_are_no_events() {
        for text in [
            "",
            "# tracer: nop",
            "cpus=6",
            "sh-7 [001]",
            "sh-7 [001] 12.345678",
            "sh-7 [001] 12.x: a: b",
            "sh-7 [99999999] 12.345678: a: b",
            "sh-99999999999 [001] 12.345678: a: b",
            "sh-7 [001] 99999999999999999999.1: a: b",
            "sh-7 [001] 12.3456789012: a: b",
            "sh-7 [001] 123456: a: b",
            "[[[[",
            "\u{e9}[\u{e9}]",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn lost_events_are_counted() {
        for (text, expected) in [
            ("CPU:2 [LOST 12 EVENTS]", Some((2, 12))),
            ("CPU:2 [12 EVENTS DROPPED]", Some((2, 12))),
            ("CPU:2 [EVENTS DROPPED]", Some((2, 0))),
            ("CPU 2 is empty", None),
            ("CPU:2 [other]", None),
            ("CPU:x [LOST 1 EVENTS]", None),
        ] {
            assert_eq!(lost(text), expected, "{text}");
        }
    }
}
