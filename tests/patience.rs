//! An end for every wait of a test: a process that hangs must fail its test and not hold up all others, which a read of its output
//! or a wait for its end would do.

use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Above the longest wait for what happens at once, even on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// The same for a program that measures or waits itself.
pub const LONG_PATIENCE: Duration = Duration::from_secs(600);

/// Kills a process after a time, so that what reads its output goes on; dropping it in time calls that off.
pub struct Limit {
    _in_time: Sender<()>,
}

impl Limit {
    /// Of `child`, which was not waited for yet.
    pub fn of(child: &Child, longest: Duration) -> Self {
        let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty()).unwrap();
        let (in_time, dropped) = channel::<()>();
        std::thread::spawn(move || {
            if dropped.recv_timeout(longest) == Err(RecvTimeoutError::Timeout) {
                // It may have exited just now.
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
        });
        Self { _in_time: in_time }
    }
}

/// Fails the test whose process was killed by a [`Limit`].
fn assert_in_time(began: Instant, longest: Duration) {
    assert!(began.elapsed() < longest || std::thread::panicking(), "a process had to be killed after {longest:?}");
}

/// Waits until `child` has ended.
pub fn end_of(child: &mut Child, longest: Duration) -> ExitStatus {
    if let Some(status) = child.try_wait().unwrap() {
        return status;
    }
    let (began, _limit) = (Instant::now(), Limit::of(child, longest));
    let status = child.wait().unwrap();
    assert_in_time(began, longest);
    status
}

/// Waits until `child` has ended, and returns what it has written.
pub fn output_of(child: Child, longest: Duration) -> Output {
    let (began, _limit) = (Instant::now(), Limit::of(&child, longest));
    let output = child.wait_with_output().unwrap();
    assert_in_time(began, longest);
    output
}

/// [`Command::output`] with an end to the wait.
pub trait OutputWithin {
    /// Runs it without input to its end.
    fn output_within(&mut self, longest: Duration) -> Output;
}

impl OutputWithin for Command {
    fn output_within(&mut self, longest: Duration) -> Output {
        output_of(self.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), longest)
    }
}

#[test]
fn a_process_that_hangs_is_killed() {
    let longest = Duration::from_millis(50);
    let hanging = || Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn().unwrap();
    assert!(std::panic::catch_unwind(|| end_of(&mut hanging(), longest)).is_err());
    assert!(std::panic::catch_unwind(|| output_of(hanging(), longest)).is_err());
    let mut ended = Command::new("true").spawn().unwrap();
    assert!(end_of(&mut ended, LONG_PATIENCE).success() && end_of(&mut ended, LONG_PATIENCE).success());
}
