//! How brisk's own processes are scheduled.

use std::io;

use crate::Root;

/// The lowest real-time priority: above every ordinary task, below every other real-time one.
const PRIORITY: i32 = 1;

/// Makes the calling thread a real-time task (SCHED_FIFO, sched(7)); its children get the default policy.
///
/// There are two reasons. A launch keeps the CPU busy just when the daemon needs it. And after a write of `sampling_rate`,
/// ondemand takes its sample at the scheduler's next call of the cpufreq hook: for ordinary tasks that is a tick later, but the
/// hook is also called whenever a real-time task starts or stops running (`enqueue_top_rt_rq` and `dequeue_top_rt_rq` in
/// kernel/sched/rt.c).
///
/// # Errors
/// EPERM without CAP_SYS_NICE and RLIMIT_RTPRIO.
pub fn become_real_time() -> io::Result<()> {
    set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, PRIORITY)
}

/// Runs `start`, to whose children a real-time thread passes its policy on: a busy CPU delays an ordinary child by several turns
/// of all other tasks before it has even loaded its program. A child gives it up with [`become_ordinary`].
///
/// Children of an ordinary thread, and of one that may not pass it on (without CAP_SYS_NICE), are ordinary.
pub fn passing_on<T>(start: impl FnOnce() -> T) -> T {
    let is_passed_on = is_real_time() && set_policy(libc::SCHED_FIFO, PRIORITY).is_ok();
    let started = start();
    if is_passed_on {
        // The kernel never refuses it: the priority stays the same, and the flag only takes rights from children.
        let _ = become_real_time();
    }
    started
}

/// True while the calling thread is a real-time task.
pub fn is_real_time() -> bool {
    policy_of(0) & !libc::c_long::from(libc::SCHED_RESET_ON_FORK) == libc::c_long::from(libc::SCHED_FIFO)
}

/// Makes the calling thread an ordinary task with the nice value that it was started with.
///
/// For work that takes longer than audio may wait: a task that wakes up preempts one that has run for long, but never a
/// real-time task. Its weight is not raised: the foreground has the same weight and must not wait either.
///
/// # Errors
/// EPERM where a filter forbids it.
pub fn become_ordinary() -> io::Result<()> {
    set_policy(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
}

/// Lets the calling thread run only while no other task wants its CPU (SCHED_IDLE, sched(7)).
///
/// # Errors
/// EPERM for a real-time thread without CAP_SYS_NICE.
pub fn run_when_idle() -> io::Result<()> {
    set_policy(libc::SCHED_IDLE, 0)
}

/// Lets the SCHED_IDLE threads of process `pid` exit: a process ends with its last thread, and on a busy CPU such threads would
/// take minutes to get there. They become real-time tasks for their remaining work: as ordinary tasks they would keep the
/// virtual runtime accumulated at an idle task's weight, and wait until all other tasks have caught up. Without CAP_SYS_NICE
/// they become ordinary tasks.
///
/// # Errors
/// EPERM for another user's threads without CAP_SYS_NICE.
pub fn let_idle_threads_end(root: &Root, pid: u32) -> io::Result<()> {
    for thread in root.list(format!("/proc/{pid}/task")).unwrap_or_default() {
        let Ok(thread) = thread.parse::<libc::pid_t>() else { continue };
        if policy_of(thread) == libc::c_long::from(libc::SCHED_IDLE) {
            set_policy_of(thread, libc::SCHED_RR, PRIORITY).or_else(|_| set_policy_of(thread, libc::SCHED_OTHER, 0))?;
        }
    }
    Ok(())
}

/// The policy of `thread` with its flag; 0 is the calling one. Negative for a thread that has ended.
fn policy_of(thread: libc::pid_t) -> libc::c_long {
    // SAFETY: it takes and returns plain integers.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, thread) }
}

fn set_policy(policy: libc::c_int, priority: i32) -> io::Result<()> {
    set_policy_of(0, policy, priority)
}

/// Sets the policy of `thread`; 0 is the calling one.
fn set_policy_of(thread: libc::pid_t, policy: libc::c_int, priority: i32) -> io::Result<()> {
    // SAFETY: plain integers, for which zero is valid; their number depends on the C library.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = priority;
    // The system call directly: musl's function of this name refuses, for reasons of POSIX.
    // SAFETY: the kernel only reads a `struct sched_param`, whose only field that it knows is the priority.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, thread, policy, &raw const parameters) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields 41 and 19 of stat: 1 is SCHED_FIFO, 0 SCHED_OTHER.
    fn policy_and_nice(stat: &str) -> [String; 2] {
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
        [fields[38], fields[16]].map(str::to_owned)
    }

    // Verifies UNDO-4.
    #[test]
    fn idle_threads_of_a_process_no_longer_wait_for_an_idle_cpu() {
        let (told, hear) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let idle = std::thread::spawn(move || {
            let outcome = run_when_idle();
            told.send((outcome.is_ok(), rustix::thread::gettid().as_raw_nonzero())).unwrap();
            let _ = ended.recv();
        });
        let (is_idle, thread) = hear.recv().unwrap();
        let policy = || policy_and_nice(&std::fs::read_to_string(format!("/proc/{thread}/stat")).unwrap())[0].clone();
        assert!(!is_idle || policy() == "5");
        if let Err(error) = let_idle_threads_end(&Root::system(), std::process::id()) {
            eprintln!("skipped: {error}");
        } else {
            let may_be_real_time = set_policy(libc::SCHED_RR, PRIORITY).is_ok();
            assert_eq!(policy(), if may_be_real_time { "2" } else { "0" });
        }
        drop(end);
        idle.join().unwrap();
    }

    // Verifies PLACE-3.
    #[test]
    fn a_real_time_thread_becomes_ordinary_its_children_always() {
        std::thread::spawn(|| {
            let own = || policy_and_nice(&std::fs::read_to_string("/proc/thread-self/stat").unwrap());
            let ordinary = own();
            if let Err(error) = become_real_time() {
                return eprintln!("skipped: {error}");
            }
            let child = || {
                let child = std::process::Command::new("cat").arg("/proc/self/stat").output().unwrap();
                policy_and_nice(&String::from_utf8(child.stdout).unwrap())
            };
            assert_eq!((own()[0].as_str(), child()), ("1", ["0", "0"].map(str::to_owned)));
            if set_policy(libc::SCHED_FIFO, PRIORITY).is_ok() {
                assert_eq!(passing_on(child)[0], "1");
            }
            assert_eq!((own()[0].as_str(), child()), ("1", ["0", "0"].map(str::to_owned)), "passed on only there");
            become_ordinary().unwrap();
            assert_eq!((own(), child()), (ordinary.clone(), ordinary.clone()));
            assert_eq!(passing_on(child), ordinary, "an ordinary thread has nothing to pass on");
            become_real_time().unwrap();
            assert_eq!(own()[0], "1");
        })
        .join()
        .unwrap();
    }
}
