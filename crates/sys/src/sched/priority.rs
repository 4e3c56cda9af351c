//! A thread's scheduling policy and nice value (sched(7)).

use std::fmt;
use std::io;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::sched::scheduling_attributes::SchedulingAttributes;

/// Children get the default policy (SCHED_FLAG_RESET_ON_FORK): the only flag that a thread keeps.
const RESET_ON_FORK: u64 = 0x01;

/// The weight of a nice value by that of the next one (`sched_prio_to_weight` in kernel/sched/core.c).
pub const NICE_LEVEL_RATIO: f64 = 1.25;

/// A scheduling policy, as far as placement distinguishes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchedulingPolicy {
    /// SCHED_OTHER: an ordinary thread.
    Other,
    /// SCHED_IDLE: runs nearly only on CPU time that no other thread wants.
    Idle,
    /// Any other policy: it was chosen deliberately.
    Special,
}

/// A thread's policy and nice value. As text `other 10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Priority {
    pub policy: SchedulingPolicy,
    /// -20 (the highest weight) to 19; each step changes the weight by about a quarter.
    pub nice: i32,
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = match self.policy {
            SchedulingPolicy::Other => "other",
            SchedulingPolicy::Idle => "idle",
            SchedulingPolicy::Special => "special",
        };
        write!(f, "{policy} {}", self.nice)
    }
}

impl FromStr for Priority {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (policy, nice) = text.split_once(' ').ok_or(())?;
        let policy = match policy {
            "other" => SchedulingPolicy::Other,
            "idle" => SchedulingPolicy::Idle,
            "special" => SchedulingPolicy::Special,
            _ => return Err(()),
        };
        let nice = nice.parse().ok().filter(|nice| (-20..=19).contains(nice)).ok_or(())?;
        Ok(Self { policy, nice })
    }
}

/// The priority of thread `tid`.
///
/// # Errors
/// ESRCH when it has ended, ENOSYS before Linux 3.14.
pub fn of(tid: u32) -> io::Result<Priority> {
    Ok(Priority::from(&SchedulingAttributes::of(tid)?))
}

impl From<&SchedulingAttributes> for Priority {
    fn from(attributes: &SchedulingAttributes) -> Self {
        let policy = match attributes.policy as i32 {
            libc::SCHED_OTHER => SchedulingPolicy::Other,
            libc::SCHED_IDLE => SchedulingPolicy::Idle,
            _ => SchedulingPolicy::Special,
        };
        Self { policy, nice: attributes.nice }
    }
}

/// Sets the priority of thread `tid` to `wanted`; its utilisation clamps, and whether its children inherit it, stay unchanged.
///
/// # Errors
/// ESRCH when it has ended, EPERM without CAP_SYS_NICE, EINVAL for a special policy, which is never set.
pub fn set(tid: u32, wanted: Priority) -> io::Result<()> {
    let policy = match wanted.policy {
        SchedulingPolicy::Other => libc::SCHED_OTHER,
        SchedulingPolicy::Idle => libc::SCHED_IDLE,
        SchedulingPolicy::Special => return Err(io::ErrorKind::InvalidInput.into()),
    };
    let flags = SchedulingAttributes::of(tid)?.flags & RESET_ON_FORK;
    SchedulingAttributes { policy: policy as u32, flags, nice: wanted.nice, ..Default::default() }.set(tid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_priority_survives_a_round_trip_as_text() {
        for policy in [SchedulingPolicy::Other, SchedulingPolicy::Idle, SchedulingPolicy::Special] {
            for nice in [-20, 0, 19] {
                let priority = Priority { policy, nice };
                assert_eq!(priority.to_string().parse(), Ok(priority));
            }
        }
        for text in ["", "other", "other 20", "other -21", "fifo 1", "other 1 2", "idle x"] {
            assert_eq!(text.parse::<Priority>(), Err(()), "{text:?}");
        }
    }

    #[test]
    fn a_threads_priority_is_lowered_and_restored() {
        std::thread::spawn(|| {
            let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            let before = of(tid).unwrap();
            assert_eq!(before.policy, SchedulingPolicy::Other);
            let lower = Priority { nice: 12, ..before };
            set(tid, lower).unwrap();
            assert_eq!(of(tid).unwrap(), lower);
            set(tid, Priority { policy: SchedulingPolicy::Idle, nice: 12 }).unwrap();
            assert_eq!(of(tid).unwrap(), Priority { policy: SchedulingPolicy::Idle, nice: 12 });
            match set(tid, before) {
                Ok(()) => assert_eq!(of(tid).unwrap(), before),
                Err(error) => eprintln!("only root may raise it again: {error}"),
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_has_exited_is_an_error() {
        let gone = u32::from(u16::MAX) << 12;
        assert_eq!(of(gone).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        let other = Priority { policy: SchedulingPolicy::Other, nice: 0 };
        assert_eq!(set(gone, other).unwrap_err().raw_os_error(), Some(libc::ESRCH));
        let special = Priority { policy: SchedulingPolicy::Special, nice: 0 };
        assert_eq!(set(0, special).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
