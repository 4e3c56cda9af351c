//! One record of the program's output: a thread and its scheduling statistics.

use crate::BootTime;
use crate::process::schedstat::Schedstat;

/// Bytes of a record.
pub const RECORD_BYTES: usize = 64;
/// Bytes of a thread's name, with its terminating zero.
pub const COMMAND_BYTES: usize = 16;

/// The offset of each value in a record.
pub(super) const TID: i16 = 0;
pub(super) const PID: i16 = 4;
pub(super) const PARENT: i16 = 8;
pub(super) const PADDING: i16 = 12;
pub(super) const BORN: i16 = 16;
pub(super) const RUN: i16 = 24;
pub(super) const WAIT: i16 = 32;
pub(super) const SLICES: i16 = 40;
pub(super) const COMMAND: i16 = 48;

/// A thread, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Its thread ID.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Its process's parent.
    pub parent: u32,
    /// When it was created.
    pub born: BootTime,
    /// How long it has run and waited since.
    pub used: Schedstat,
    /// Its name (`comm`), padded with zeros.
    pub name: [u8; COMMAND_BYTES],
}

impl Task {
    /// The name as text.
    pub fn command(&self) -> String {
        let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(COMMAND_BYTES);
        String::from_utf8_lossy(&self.name[..length]).into_owned()
    }
}

/// The tasks in `bytes`; `None` where these are not whole records.
pub fn parse(bytes: &[u8]) -> Option<impl Iterator<Item = Task>> {
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    rest.is_empty().then(|| records.iter().map(task))
}

fn task(record: &[u8; RECORD_BYTES]) -> Task {
    Task {
        tid: u32::from_ne_bytes(part(record, TID)),
        pid: u32::from_ne_bytes(part(record, PID)),
        parent: u32::from_ne_bytes(part(record, PARENT)),
        born: BootTime::from_nanoseconds(u64::from_ne_bytes(part(record, BORN))),
        used: Schedstat {
            run_ns: u64::from_ne_bytes(part(record, RUN)),
            wait_ns: u64::from_ne_bytes(part(record, WAIT)),
            slices: u64::from_ne_bytes(part(record, SLICES)),
        },
        name: part(record, COMMAND),
    }
}

/// The `BYTES` bytes from `place` on.
fn part<const BYTES: usize>(record: &[u8; RECORD_BYTES], place: i16) -> [u8; BYTES] {
    std::array::from_fn(|index| record[place as usize + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Task {
        /// A task of `(process, parent)` created at `born_ms`, with `(run time, run-queue delay, time slices)` since, times in
        /// milliseconds.
        pub(crate) fn of(
            tid: u32,
            (pid, parent): (u32, u32),
            born_ms: u64,
            (run_ms, wait_ms, slices): (u64, u64, u64),
        ) -> Self {
            let [run_ns, wait_ns] = [run_ms, wait_ms].map(|time| time * 1_000_000);
            let used = Schedstat { run_ns, wait_ns, slices };
            Self {
                tid,
                pid,
                parent,
                born: BootTime::from_milliseconds(born_ms),
                used,
                name: *b"name\0\0\0\0\0\0\0\0\0\0\0\0",
            }
        }
    }

    fn record(tid: u32, command: &[u8; COMMAND_BYTES]) -> Vec<u8> {
        let mut bytes = Vec::new();
        [tid, 50, 1, 0].iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
        [1_000_000u64, 40, 30, 2].iter().for_each(|number| bytes.extend(number.to_ne_bytes()));
        bytes.extend(command);
        bytes
    }

    // Verifies PLACE-1.
    #[test]
    fn records_are_parsed_as_tasks() {
        let bytes = [record(51, b"ab c\0rest-of-it\0"), record(u32::MAX, b"0123456789abcde\xff")].concat();
        let tasks: Vec<Task> = parse(&bytes).unwrap().collect();
        assert_eq!(tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), [51, u32::MAX]);
        assert_eq!((tasks[0].pid, tasks[0].parent, tasks[0].born), (50, 1, BootTime::from_milliseconds(1)));
        assert_eq!(tasks[0].used, Schedstat { run_ns: 40, wait_ns: 30, slices: 2 });
        assert_eq!([tasks[0].command(), tasks[1].command()], ["ab c", "0123456789abcde\u{fffd}"]);
    }

    // Verifies PLACE-1.
    #[test]
    fn a_truncated_record_is_refused() {
        let bytes = record(51, b"name\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes.len(), RECORD_BYTES);
        for length in 1..RECORD_BYTES {
            assert!(parse(&bytes[..length]).is_none(), "{length}");
        }
        assert_eq!(parse(&[]).unwrap().count(), 0);
    }
}
