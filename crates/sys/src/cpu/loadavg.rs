//! The number of threads and the last thread number assigned, from /proc/loadavg (proc_loadavg(5)).

use crate::fields::{Fields, number};

/// While it is unchanged, no thread was created: each new thread changes the last number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCounts {
    /// The number of threads.
    pub threads: u64,
    /// The number that was assigned to the newest thread.
    pub last_tid: u32,
}

/// Parses the file's one line.
pub fn parse(text: &[u8]) -> Option<TaskCounts> {
    let mut fields = Fields::of(text.trim_ascii_end());
    fields.skip_fields(3)?;
    let threads = fields.next()?.split(|&byte| byte == b'/').nth(1).and_then(number)?;
    let last_tid = u32::try_from(number(fields.next()?)?).ok()?;
    fields.next().is_none().then_some(TaskCounts { threads, last_tid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_population_is_threads_and_the_last_number() {
        let expected = TaskCounts { threads: 80, last_tid: 11_206 };
        assert_eq!(parse(b"0.20 0.18 0.12 1/80 11206\n"), Some(expected));
        for text in [
            "",
            "0.20 0.18 0.12 80 11206",
            "0.20 0.18 0.12 1/80",
            "0.20 0.18 0.12 1/80 x",
            "0.20 0.18 0.12 1/x 5",
            "0 0 0 0 5 6",
            "0 0 0 0/0 5 6",
            "0 0 0 1/80 4294967296",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }
}
