//! The I/O priority of a thread (ioprio_set(2), Documentation/block/ioprio.rst), and which disks have a scheduler that respects
//! it.

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Root;
use crate::io::disk_stats;

/// The target is a thread, by its number (linux/ioprio.h).
const WHO_PROCESS: libc::c_int = 1;
/// A priority holds its class above this many bits.
const CLASS_SHIFT: u32 = 13;
const DATA_MASK: u16 = (1 << CLASS_SHIFT) - 1;

/// The classes, in the order of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoClass {
    /// No class was chosen: it follows from the nice value.
    None,
    /// Served before all other classes.
    RealTime,
    /// Served by level.
    BestEffort,
    /// Served when no other thread has a request.
    Idle,
}

/// A thread's priority. As text `best-effort 7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPriority {
    pub class: IoClass,
    /// Its level in the lowest three bits, 0 the highest and 7 the lowest; the kernel uses the bits above for other data. Zero
    /// without a class.
    pub data: u16,
}

const NAMES: [(IoClass, &str); 4] = [
    (IoClass::None, "none"),
    (IoClass::RealTime, "real-time"),
    (IoClass::BestEffort, "best-effort"),
    (IoClass::Idle, "idle"),
];

impl fmt::Display for IoPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", NAMES[self.class as usize].1, self.data)
    }
}

impl FromStr for IoPriority {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, data) = text.split_once(' ').ok_or(())?;
        let (class, _) = NAMES.into_iter().find(|(_, known)| *known == name).ok_or(())?;
        let data = data.parse().ok().filter(|data| *data <= DATA_MASK).ok_or(())?;
        Ok(Self { class, data })
    }
}

/// The priority of thread `tid`.
///
/// # Errors
/// ESRCH when it has ended, ENOSYS without CONFIG_BLOCK.
pub fn of(tid: u32) -> io::Result<IoPriority> {
    // SAFETY: the call takes numbers only.
    let raw = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, tid as libc::c_int) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    let raw = raw as u16;
    let class = NAMES.get(usize::from(raw >> CLASS_SHIFT)).map_or(IoClass::None, |(class, _)| *class);
    // Some kernels report a level where no class was chosen, and none accepts it.
    let data = if class == IoClass::None { 0 } else { raw & DATA_MASK };
    Ok(IoPriority { class, data })
}

/// Sets the priority of thread `tid` to `wanted`.
///
/// # Errors
/// ESRCH when it has ended, EPERM for another user's thread without CAP_SYS_NICE.
pub fn set(tid: u32, wanted: IoPriority) -> io::Result<()> {
    let raw = (wanted.class as libc::c_int) << CLASS_SHIFT | libc::c_int::from(wanted.data);
    // SAFETY: the call takes numbers only.
    let result = unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, tid as libc::c_int, raw) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The I/O priority of a deprioritised thread on this device: the lowest level where a disk's scheduler distinguishes levels
/// (BFQ, CFQ); where it only distinguishes classes (mq-deadline), the lowest class, on kernels that do not starve it. `None`
/// where no disk's scheduler respects priorities.
pub fn lowest(root: &Root) -> Option<IoPriority> {
    let schedulers: Vec<(String, String)> = root
        .list("/sys/block")
        .unwrap_or_default()
        .into_iter()
        .filter(|name| disk_stats::is_whole_disk(root, name))
        .filter_map(|name| {
            let scheduler =
                active_scheduler(&root.read(format!("/sys/block/{name}/queue/scheduler")).ok()?)?.to_owned();
            Some((name, scheduler))
        })
        .collect();
    if schedulers.iter().any(|(_, scheduler)| ["bfq", "cfq"].contains(&scheduler.as_str())) {
        return Some(IoPriority { class: IoClass::BestEffort, data: 7 });
    }
    // Since Linux 5.16.
    let has_priority_aging = |name: &str| root.exists(format!("/sys/block/{name}/queue/iosched/prio_aging_expire"));
    let supports_idle_class =
        schedulers.iter().any(|(name, scheduler)| scheduler == "mq-deadline" && has_priority_aging(name));
    supports_idle_class.then_some(IoPriority { class: IoClass::Idle, data: 0 })
}

/// The current scheduler in the `text` of a disk's file queue/scheduler, which is in brackets: `none [mq-deadline] bfq`.
pub fn active_scheduler(text: &str) -> Option<&str> {
    text.split_ascii_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: IoPriority = IoPriority { class: IoClass::BestEffort, data: 7 };

    #[test]
    fn a_priority_survives_a_round_trip_as_text() {
        for (class, _) in NAMES {
            for data in [0, 7, DATA_MASK] {
                let priority = IoPriority { class, data };
                assert_eq!(priority.to_string().parse(), Ok(priority));
            }
        }
        for text in ["", "idle", "idle x", "idle -1", "best-effort 8192", "other 1", "idle 1 2"] {
            assert_eq!(text.parse::<IoPriority>(), Err(()), "{text:?}");
        }
    }

    #[test]
    fn a_threads_io_priority_is_lowered_and_restored() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = of(tid).unwrap();
            for wanted in [LAST, IoPriority { class: IoClass::Idle, data: 0 }, before] {
                set(tid, wanted).unwrap();
                assert_eq!(of(tid).unwrap(), wanted);
            }
        })
        .join()
        .unwrap();
        let gone = u32::from(u16::MAX) << 12;
        assert_eq!(of(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        assert_eq!(set(gone, LAST).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }

    // Verifies PLACE-2.
    #[test]
    fn the_lowest_priority_depends_on_the_disks_schedulers() {
        let idle = Some(IoPriority { class: IoClass::Idle, data: 0 });
        for (disks, expected) in [
            (&[][..], None),
            (&[("nvme0n1", "[none] mq-deadline", true)], None),
            (&[("sda", "none mq-deadline [bfq]", false)], Some(LAST)),
            (&[("mmcblk0", "noop deadline [cfq]", false)], Some(LAST)),
            (&[("vda", "[mq-deadline] none", true)], idle),
            (&[("vda", "[mq-deadline] none", false)], None),
            (&[("vda", "[mq-deadline] none", true), ("sda", "[bfq]", false)], Some(LAST)),
            (&[("zram0", "[bfq]", true), ("vda", "[kyber]", true), ("vdb", "", true)], None),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let root = Root::at(folder.path());
            for (name, schedulers, has_priority_aging) in disks {
                let queue = root.path(format!("/sys/block/{name}/queue"));
                std::fs::create_dir_all(queue.join("iosched")).unwrap();
                std::fs::write(queue.join("scheduler"), schedulers).unwrap();
                if *has_priority_aging {
                    std::fs::write(queue.join("iosched/prio_aging_expire"), "10000").unwrap();
                }
            }
            assert_eq!(lowest(&root), expected, "{disks:?}");
        }
    }
}
