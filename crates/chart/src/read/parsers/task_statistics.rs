//! `taskstats.log` of bootchart2: PID, parent, name, then nanoseconds on a CPU, waiting for block I/O and for swapping in
//! (Documentation/accounting/taskstats-struct.rst). A process is only logged when these have grown, so its end is not known; it
//! lived at least as long as its children were logged.

use std::io::Read;

use super::process_log::{ProcessLog, ProcessLogBuilder, ProcessSample};
use crate::model::State;
use crate::read::blocks::{self, Item};
use crate::read::lines::{number, saturate};
use crate::read::{Notes, ReadError};

/// Reads the log.
///
/// # Errors
/// Read errors, and too many samples or processes.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<ProcessLog, ReadError> {
    let mut builder = ProcessLogBuilder::new(notes);
    let mut waits: Vec<(u32, u64)> = Vec::new();
    blocks::each(input, notes, &mut |item| match item {
        Item::Time(time_ms) => builder.begin_block(time_ms).map(|()| true),
        Item::Line(line) => match sample(line, &mut waits) {
            Some(sample) => builder.add(sample).map(|()| true),
            None => Ok(false),
        },
    })?;
    let log = builder.finish();
    let last_ms = log.times_ms.last().copied().unwrap_or(0);
    if log.lives.iter().any(|life| life.end_ms < last_ms) {
        notes.add_omission("lists a process only when its CPU time grows: one that seems to end may have lived on", 0);
    }
    Ok(log)
}

/// `waits` holds the total waiting time of each PID, in order of PID.
fn sample<'a>(line: &'a [u8], waits: &mut Vec<(u32, u64)>) -> Option<ProcessSample<'a>> {
    // A name may contain spaces: two fields from the left, three from the right.
    let mut left = line.splitn(3, |byte| *byte == b' ');
    let (pid, parent_pid) = (number(left.next()?)?, number(left.next()?)?);
    let mut right = left.next()?.rsplitn(4, |byte| *byte == b' ');
    let (swap_ns, block_ns, cpu_ns) = (number(right.next()?)?, number(right.next()?)?, number(right.next()?)?);
    let name = right.next()?;
    let name = name.strip_prefix(b"(").and_then(|name| name.strip_suffix(b")")).unwrap_or(name);
    let pid = u32::try_from(pid).ok()?;
    let wait_ns = block_ns.saturating_add(swap_ns);
    let place = waits.partition_point(|&(other, _)| other < pid);
    let waited = match waits.get_mut(place).filter(|(other, _)| *other == pid) {
        Some((_, before_ns)) => std::mem::replace(before_ns, wait_ns) < wait_ns,
        None => {
            waits.insert(place, (pid, wait_ns));
            wait_ns > 0
        }
    };
    // The log has no state: a process is logged because it ran or because it waited.
    let state = if waited { State::DiskWait } else { State::Running };
    let parent_pid = saturate(parent_pid);
    Some(ProcessSample { pid, parent_pid, name, cpu_us: cpu_ns / 1000, state, threads: 0, start_ms: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    // Verifies CHART-1.
    #[test]
    fn only_what_has_grown_is_written() {
        let text = "10\n1 0 init 5000000 0 0\n\n20\n1 0 init 55000000 0 0\n30 1 a b 20000000 7 0\n\n30\n\n\
                    40\n30 1 (a b) 30000000 9 0\n\n50\n30 1 c 1000 0 0\n31 1 torn 5\n";
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let log = parse(text.as_bytes(), &mut Notes::new("taskstats.log", &mut omissions, &limits)).unwrap();
        let seen: Vec<_> = log
            .lives
            .iter()
            .map(|life| (life.pid, life.name.as_str(), life.start_ms, life.end_ms, life.cpu_us))
            .collect();
        assert_eq!(
            seen,
            [(1, "init", 100, 500, 50_000), (30, "a b", 100, 400, 30_000), (30, "c", 400, 500, 1)],
            "less CPU time than before is another process, and a parent lives as long as its child is seen"
        );
        let activity: Vec<_> =
            log.lives[1].activity.iter().map(|a| (a.span.start_ms, a.cpu_permille, a.state)).collect();
        assert_eq!(activity, [(100, 200, State::DiskWait), (300, 100, State::DiskWait)]);
        let omissions: Vec<String> = omissions.iter().map(ToString::to_string).collect();
        let [torn, lives] = &omissions[..] else { panic!("{omissions:?}") };
        assert!(torn.contains("torn") && lives.ends_with("one that seems to end may have lived on"), "{omissions:?}");
        // If every process is logged until the end, nothing is unknown.
        let mut omissions = Vec::new();
        let text = "10\n1 0 init 5000000 0 0\n\n20\n1 0 init 55000000 0 0\n";
        parse(text.as_bytes(), &mut Notes::new("taskstats.log", &mut omissions, &limits)).unwrap();
        assert_eq!(omissions, []);
    }
}
