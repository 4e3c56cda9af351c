//! When a program that was started is ready, for the recorder, which waits for that, and for explanations, which look for it.

use std::time::Duration;

/// A program that waits this long for an event is ready: no other event ends the launch of a command.
pub const WAITS_FOR_EVENT: Duration = Duration::from_millis(200);
/// A program that waits this long for a lock or a service, or nothing tells for what, counts as ready too: some are idle in
/// such a wait.
pub const WAITS_FOR_LOCK: Duration = Duration::from_secs(5);

/// What functions of the kernel that wait for locks are called.
const LOCKS: [&str; 5] = ["futex", "mutex", "rwsem", "rtlock", "rt_mutex"];

/// Whether a function of the kernel waits for a lock; it is named as in `/proc/PID/wchan`.
pub fn is_lock(function: &str) -> bool {
    LOCKS.iter().any(|lock| function.contains(lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_known_by_the_function_that_waits() {
        for lock in ["futex_wait_queue", "__mutex_lock.constprop.0", "rwsem_down_read_slowpath", "rt_mutex_schedule"] {
            assert!(is_lock(lock), "{lock}");
        }
        for event in ["", "ep_poll", "do_select", "pipe_read", "binder_thread_read", "hrtimer_nanosleep"] {
            assert!(!is_lock(event), "{event}");
        }
    }
}
