//! How the daemon itself is scheduled.

use std::io;

/// The lowest real-time priority: above every ordinary task, below every other real-time one.
const PRIORITY: i32 = 1;

/// Makes the calling thread a real-time task (SCHED_FIFO, sched(7)); its children are ordinary again.
///
/// Two reasons. A launch keeps the CPU busy that the daemon needs at that moment. And ondemand takes the sample that a
/// write of `sampling_rate` asks for at the next call of the scheduler's cpufreq hook, which is a tick away for ordinary
/// tasks, but is called whenever a real-time task starts or stops to run (`enqueue_top_rt_rq` and `dequeue_top_rt_rq` in
/// kernel/sched/rt.c).
///
/// # Errors
/// EPERM without CAP_SYS_NICE and RLIMIT_RTPRIO.
pub fn become_real_time() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
}

/// Lets the calling thread run only while no other task wants its CPU (SCHED_IDLE, sched(7)).
///
/// # Errors
/// EPERM for a real-time thread without CAP_SYS_NICE.
pub fn run_when_idle() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

fn set_policy(policy: libc::c_int, priority: i32) -> io::Result<()> {
    // SAFETY: plain integers, for which zero is a value; how many there are depends on the C library.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // The system call itself: musl's function of this name refuses, for reasons of POSIX.
    // SAFETY: the kernel only reads a `struct sched_param`, whose only field that it knows is the priority.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_time_thread_has_ordinary_children() {
        std::thread::spawn(|| {
            if let Err(error) = become_real_time() {
                return eprintln!("skipped: {error}");
            }
            // Field 41 of stat is the policy: 1 is SCHED_FIFO.
            let policy =
                |stat: &str| stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().nth(38).unwrap().to_owned();
            let own = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            assert_eq!(policy(&own), "1");
            let child = std::process::Command::new("cat").arg("/proc/self/stat").output().unwrap();
            assert_eq!(policy(&String::from_utf8(child.stdout).unwrap()), "0");
        })
        .join()
        .unwrap();
    }
}
