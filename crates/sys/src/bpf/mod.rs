//! All threads at once, by a BPF program that the kernel runs for each task: the task iterator
//! (Documentation/bpf/bpf_iterators.rst, Linux 5.8). `egress` is the program for the packets of a control group.
//!
//! It needs no libbpf: the program is assembled for the running kernel, whose BTF gives the offsets of what is read.

pub mod btf;
mod call;
pub mod egress;
mod instruction;
pub mod layout;
mod program;
pub mod task;
#[cfg(test)]
mod test_btf;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;

use rustix::io::{Errno, read};
use thiserror::Error;

use self::btf::{BtfError, Types};
use self::call::Kind;
use self::layout::Layout;
use self::task::{RECORD_BYTES, Task};
use crate::Root;
use brisk_base::insertion_sort::insertion_sort;

const TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Debian's are 5 MiB; more than this is not read.
const TYPES_LIMIT_BYTES: u64 = 64 << 20;
const NAMESPACE: &str = "/proc/self/ns/pid";
/// The name of the initial PID namespace (`PROC_PID_INIT_INO` of linux/proc_ns.h): only there do the kernel's IDs match /proc.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";
/// The kernel collects eight pages of records before it returns them.
const BUFFER_BYTES: usize = 512 * RECORD_BYTES;

/// Why the BPF iterator is not supported on this device.
#[derive(Debug, Error)]
pub enum BpfError {
    /// A recorded tree of files has no kernel.
    #[error("this is not the running system")]
    RecordedTree,
    /// The kernel would number threads differently from /proc.
    #[error("this is a PID namespace of its own")]
    Namespace,
    /// The kernel does not expose its types.
    #[error("{TYPES} cannot be read: {0}")]
    NoTypes(io::Error),
    /// The types are not as expected.
    #[error("{TYPES} is unusable: {0}")]
    Types(#[from] BtfError),
    /// bpf(2) failed; with the verifier's last line.
    #[error("bpf(2) cannot {0}: {1}{2}")]
    Kernel(&'static str, io::Error, String),
}

impl BpfError {
    /// Advice for the user; empty where there is none.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::RecordedTree | Self::Types(_) => "",
            Self::Namespace => "Run brisk outside the container.",
            Self::NoTypes(_) => "Build the kernel with CONFIG_DEBUG_INFO_BTF.",
            Self::Kernel(_, error, _) if error.raw_os_error() == Some(libc::EPERM) => {
                "Give the service CAP_BPF, CAP_PERFMON and the call bpf(2)."
            }
            Self::Kernel(..) => "Build the kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_EVENTS.",
        }
    }
}

/// The program, linked to the kernel's tasks; the kernel unloads it when this is dropped.
#[derive(Debug)]
pub struct Tasks {
    link: OwnedFd,
}

impl Tasks {
    /// Loads the program; it leaves out the threads of process `own` and kernel threads.
    ///
    /// # Errors
    /// Why this device does not support it.
    pub fn open(root: &Root, own: u32) -> Result<Self, BpfError> {
        if !root.is_system() {
            return Err(BpfError::RecordedTree);
        }
        if fs::read_link(NAMESPACE).is_ok_and(|name| name.as_os_str() != INITIAL_NAMESPACE) {
            return Err(BpfError::Namespace);
        }
        let layout = {
            let bytes = types().map_err(BpfError::NoTypes)?;
            Layout::of(&Types::parse(&bytes)?)?
        };
        let program = call::load(&program::assemble(&layout, own), &Kind::TaskIterator { hook: layout.hook }).map_err(
            |(error, log_line)| {
                let log_line = if log_line.is_empty() { log_line } else { format!(" ({log_line})") };
                BpfError::Kernel("load the program", error, log_line)
            },
        )?;
        let link = call::link(&program, &Kind::TaskIterator { hook: layout.hook }, 0)
            .map_err(|error| BpfError::Kernel("link it", error, String::new()))?;
        Ok(Self { link })
    }

    /// All current threads, ordered by their IDs.
    ///
    /// # Errors
    /// When the kernel has no memory for it, or the output is not whole records.
    pub fn sample(&self, expected: usize) -> io::Result<Vec<Task>> {
        let iterator = call::open_iterator(&self.link)?;
        let mut tasks = Vec::with_capacity(expected);
        let mut buffer = [0u8; BUFFER_BYTES];
        loop {
            match read(&iterator, &mut buffer[..]) {
                Ok(0) => break,
                Ok(length) => tasks.extend(task::parse(&buffer[..length]).ok_or(io::ErrorKind::InvalidData)?),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        sort_by_tid(&mut tasks);
        Ok(tasks)
    }
}

/// Tasks arrive ordered by ID, but a thread that becomes its process's leader by an exec changes its ID meanwhile. As this is
/// rare, an entry out of place is moved back step by step.
fn sort_by_tid(tasks: &mut Vec<Task>) {
    insertion_sort(tasks, |one, next| one.tid > next.tid);
    tasks.dedup_by_key(|task| task.tid);
}

fn types() -> io::Result<Vec<u8>> {
    let file = File::open(TYPES)?;
    let mut bytes = Vec::with_capacity(file.metadata()?.len().min(TYPES_LIMIT_BYTES) as usize + 1);
    file.take(TYPES_LIMIT_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_ordered_by_their_ids_each_once() {
        for (numbers, ordered) in [
            (&[][..], &[][..]),
            (&[7], &[7]),
            (&[1, 2, 3], &[1, 2, 3]),
            (&[1, 105, 101, 104, 105, 106], &[1, 101, 104, 105, 106]),
            (&[101, 104, 100, 106], &[100, 101, 104, 106]),
        ] {
            let mut tasks: Vec<Task> = numbers.iter().map(|&tid| Task::of(tid, (1, 1), 0, (0, 0, 0))).collect();
            sort_by_tid(&mut tasks);
            assert_eq!(tasks.iter().map(|task| task.tid).collect::<Vec<_>>(), ordered, "{numbers:?}");
        }
    }
}
