//! What a process has read from and written to storage: /proc/PID/task/TID/io (proc_pid_io(5)).
//!
//! /proc/PID/io itself adds the I/O of children to the process once it has waited for them, so that a shell would seem to have
//! done the I/O of its commands.

use crate::{DeviceError, Root};

/// I/O so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageIo {
    /// Bytes read from storage.
    pub read_bytes: u64,
    /// Bytes meant for storage, without those that were discarded before they reached it.
    pub written_bytes: u64,
}

/// The figures of process `pid`: the sum of its current threads.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended or the kernel does not account I/O (`CONFIG_TASK_IO_ACCOUNTING`),
/// [`DeviceError::is_denied`] for another user's, [`DeviceError::is_malformed`] when the file is not as documented.
pub fn read(root: &Root, pid: u32) -> Result<StorageIo, DeviceError> {
    let folder = format!("/proc/{pid}/task");
    let mut sum = StorageIo::default();
    for tid in root.list(&folder)? {
        let file = format!("{folder}/{tid}/io");
        let text = match root.read(&file) {
            // A thread may end meanwhile.
            Err(error) if error.is_missing() && tid != pid.to_string() => continue,
            text => text?,
        };
        let malformed = || DeviceError::malformed(&root.path(&file), "read_bytes and write_bytes", &text);
        let thread = parse(&text).ok_or_else(malformed)?;
        sum.read_bytes += thread.read_bytes;
        sum.written_bytes += thread.written_bytes;
    }
    Ok(sum)
}

/// Parses a thread's file.
pub fn parse(text: &str) -> Option<StorageIo> {
    let number = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().parse::<u64>().ok()
    };
    let cancelled_bytes = number("cancelled_write_bytes").unwrap_or(0);
    Some(StorageIo {
        read_bytes: number("read_bytes")?,
        written_bytes: number("write_bytes")?.saturating_sub(cancelled_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nsyscw: 632675\nread_bytes: 4096\n\
                            write_bytes: 323932160\ncancelled_write_bytes: 32160\n";

    // Verifies ON-4.
    #[test]
    fn all_threads_are_summed_and_children_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let text = |bytes: u64| format!("read_bytes: {bytes}\nwrite_bytes: 1\n");
        for (file, bytes) in [("io", 900), ("task/7/io", 30), ("task/8/io", 4)] {
            let path = root.path(format!("/proc/7/{file}"));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text(bytes)).unwrap();
        }
        // A thread that has just ended.
        std::fs::create_dir(root.path("/proc/7/task/9")).unwrap();
        assert_eq!(read(&root, 7).unwrap(), StorageIo { read_bytes: 34, written_bytes: 2 });
        assert!(read(&root, 8).unwrap_err().is_missing());
    }

    // Verifies ON-4.
    #[test]
    fn what_never_reached_storage_is_not_counted() {
        for (text, expected) in [
            (RECORDED, Some(StorageIo { read_bytes: 4096, written_bytes: 323_900_000 })),
            (
                "read_bytes: 1\nwrite_bytes: 2\ncancelled_write_bytes: 3\n",
                Some(StorageIo { read_bytes: 1, written_bytes: 0 }),
            ),
            ("read_bytes: 1\nwrite_bytes: 2\n", Some(StorageIo { read_bytes: 1, written_bytes: 2 })),
            ("rchar: 1\nwchar: 2\n", None),
            ("read_bytes: -1\nwrite_bytes: 2\n", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expected, "{text:?}");
        }
    }
}
