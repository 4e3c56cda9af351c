//! A job for a virtual device, and its result.

use std::path::PathBuf;
use std::time::Duration;

use super::scenario::Scenario;
use super::self_check::SelfCheck;

/// One boot: a scenario, a command and its files.
#[derive(Debug, Clone)]
pub struct Job {
    /// The device.
    pub scenario: Scenario,
    /// What the guest runs once its modules are loaded and checked; `brisk` is in its PATH.
    pub command: Vec<String>,
    /// Files that the command finds in the guest.
    pub files: Vec<GuestFile>,
    /// The longest host time from boot to power-off.
    pub timeout: Duration,
    /// The longest host time until the guest's first process begins. A kernel that takes longer hangs, which happens now and
    /// then under multi-CPU emulation: the machine is started again, a few times.
    pub boot_timeout: Duration,
    /// The host CPU that the whole machine is pinned to; `None` leaves it to the host's scheduler.
    pub core: Option<usize>,
    /// Seeds the random numbers that the machine gives to its guest; `None` takes the host's.
    pub seed: Option<u64>,
    /// Puts BusyBox and its applets into the guest's /bin.
    pub busybox: bool,
    /// Gives the command this process's terminal as its console, and BusyBox; its output is not captured.
    pub interactive: bool,
    /// The static brisk binary for the guest; `None` takes `$BRISK_BINARY`, or else the running one.
    pub binary: Option<PathBuf>,
}

impl Job {
    /// A job without files, with ten minutes of host time, on any core.
    pub fn new(scenario: Scenario, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            scenario,
            command: command.into_iter().map(Into::into).collect(),
            files: Vec::new(),
            timeout: Duration::from_secs(600),
            boot_timeout: Duration::from_secs(240),
            core: None,
            seed: None,
            busybox: false,
            interactive: false,
            binary: None,
        }
    }

    /// Adds a readable file; `path` is absolute in the guest.
    #[must_use]
    pub fn with_file(mut self, path: impl Into<String>, contents: impl Into<Vec<u8>>) -> Self {
        self.files.push(GuestFile { path: path.into(), contents: contents.into(), mode: 0o644 });
        self
    }
}

/// A file of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestFile {
    /// Absolute in the guest; its folders are created.
    pub path: String,
    pub contents: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
}

/// The origin of a guest's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The command's stdout, on a serial port of its own.
    Results,
    /// The kernel's console and the command's stderr.
    Console,
}

/// One line of the guest's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestLine {
    /// Where it came from.
    pub channel: Channel,
    /// The line without its end; what is not UTF-8 is replaced.
    pub text: String,
    /// The host's clock at its arrival.
    pub host: HostClock,
}

/// Host time since the machine was started, and the run-queue delay of its vCPU threads on the host.
///
/// Two of them make a window: the runner prints a line before and after a replicate, and refuses the replicate when
/// [`HostClock::disturbance_since`] exceeds [`HostClock::DISTURBANCE_LIMIT`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostClock {
    /// Wall time since QEMU was started.
    pub wall: Duration,
    /// Time each vCPU thread was runnable but not running (`/proc/PID/task/TID/schedstat`, second field); empty in
    /// deterministic mode, where the guest's time does not depend on it.
    pub run_delay: Vec<Duration>,
}

impl HostClock {
    /// The share of wall time above which a replicate in parallel mode reflects the host more than the guest.
    pub const DISTURBANCE_LIMIT: f64 = 0.03;

    /// The largest run-queue delay of one vCPU thread since `earlier` as a share of the wall time, 0 to 1.
    pub fn disturbance_since(&self, earlier: &Self) -> f64 {
        let wall = self.wall.saturating_sub(earlier.wall).as_secs_f64();
        if wall <= 0.0 {
            return 0.0;
        }
        let waited = |(thread, delay): (usize, &Duration)| {
            let before = earlier.run_delay.get(thread).copied().unwrap_or_default();
            delay.saturating_sub(before).as_secs_f64()
        };
        self.run_delay.iter().enumerate().map(waited).fold(0.0, f64::max) / wall
    }
}

/// The result of a job that the guest completed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// The command's exit status; 128 + the signal's number when a signal ended it.
    pub status: u8,
    /// The release of the kernel that ran (`6.1.0-56-amd64`).
    pub kernel: String,
    /// Host time from start to power-off.
    pub wall: Duration,
    /// What the self-check measured, in scenarios that request it; it has passed.
    pub self_check: Option<SelfCheck>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(wall_ms: u64, run_delay_ms: &[u64]) -> HostClock {
        HostClock {
            wall: Duration::from_millis(wall_ms),
            run_delay: run_delay_ms.iter().copied().map(Duration::from_millis).collect(),
        }
    }

    #[test]
    fn the_disturbance_is_the_worst_threads_share_of_the_window() {
        for (earlier, later, expected) in [
            (clock(1000, &[5, 5]), clock(2000, &[5, 45]), 0.04),
            (clock(1000, &[5, 5]), clock(2000, &[35, 5]), 0.03),
            (clock(1000, &[]), clock(2000, &[]), 0.0),
            (clock(0, &[]), clock(100, &[1]), 0.01),
            (clock(100, &[1]), clock(100, &[1]), 0.0),
        ] {
            let share = later.disturbance_since(&earlier);
            assert!((share - expected).abs() < 1e-9, "{earlier:?} to {later:?}: {share}");
        }
    }
}
