//! Watches a machine from start to end: its lines, its clock, its deadline, and its result.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

use super::console::{Lines, is_fatal};
use super::error::LabError;
use super::job::{Channel, GuestLine, HostClock};
use super::machine::{RunningMachine, Streams};
use super::record::GuestRecord;
use super::self_check::SelfCheck;
use brisk_sys::Root;

/// The number of the guest's last lines in an error message.
const LAST_LINES: usize = 50;

/// Time for the machine to print the rest and to end, once the outcome is known.
const GRACE: Duration = Duration::from_secs(2);

/// How long a machine may take, in host time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Until its first process begins.
    pub boot: Duration,
    /// In total.
    pub whole: Duration,
}

/// How a guest's command ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Ended {
    /// As in [`super::RunOutcome`].
    pub status: u8,
    /// As in [`super::RunOutcome`].
    pub self_check: Option<SelfCheck>,
    /// As in [`super::RunOutcome`].
    pub wall: Duration,
}

/// Reads all output of the machine until it ends, and passes the guest's lines to `on_line`.
///
/// `vcpu_threads` is the number of threads that the clock watches: none in deterministic mode.
///
/// # Errors
/// [`LabError`] for every end but that of the command.
pub fn watch(
    machine: RunningMachine,
    streams: Streams,
    limits: Limits,
    vcpu_threads: u32,
    on_line: &mut dyn FnMut(GuestLine),
) -> Result<Ended, LabError> {
    let clock = Clock::new(machine.pid(), vcpu_threads);
    let mut listener = Listener { clock, on_line, state: GuestState::default() };
    let begin = listener.clock.started;
    let (deadline, boot_deadline) = (begin + limits.whole, begin + limits.boot);
    let mut watch = Watch { machine, sources: Source::all(streams), deadline, boot_deadline };
    let in_time = watch.listen(&mut listener)?;
    let wall = listener.clock.started.elapsed();
    let status = watch.machine.reap().map_err(|error| failed_to("be reaped", error.to_string()))?;
    let state = listener.state;
    if !in_time && state.end.is_none() && state.fatal.is_none() {
        let last_lines = state.last_lines.into();
        return Err(match limits {
            Limits { boot, whole } if !state.has_begun && boot < whole => {
                LabError::BootTimedOut { limit: boot, last_lines }
            }
            Limits { whole, .. } => LabError::TimedOut { limit: whole, last_lines },
        });
    }
    state.into_result(&status.to_string(), wall)
}

fn failed_to(operation: &str, reason: String) -> LabError {
    LabError::Machine { operation: operation.into(), reason }
}

struct Watch {
    machine: RunningMachine,
    sources: Vec<Source>,
    deadline: Instant,
    /// For the first process to begin.
    boot_deadline: Instant,
}

/// One open stream of the machine.
struct Source {
    /// `None` for QEMU itself.
    channel: Option<Channel>,
    stream: OwnedFd,
    lines: Lines,
}

impl Source {
    fn all(streams: Streams) -> Vec<Self> {
        let source = |channel, stream| Self { channel, stream, lines: Lines::default() };
        let mut all = vec![source(Some(Channel::Results), streams.results), source(None, streams.errors)];
        all.extend(streams.console.map(|stream| source(Some(Channel::Console), stream)));
        all
    }
}

impl Watch {
    /// Reads until every stream has ended, as they do when QEMU exits; at a deadline, kills QEMU and returns false.
    fn listen(&mut self, listener: &mut Listener<'_>) -> Result<bool, LabError> {
        let (mut in_time, mut decided) = (true, false);
        while !self.sources.is_empty() {
            let now = Instant::now();
            let has_booted = listener.state.has_begun || listener.state.is_decided();
            let deadline = if has_booted { self.deadline } else { self.deadline.min(self.boot_deadline) };
            let left = deadline.saturating_duration_since(now);
            if left.is_zero() {
                self.machine.kill();
                in_time = false;
                (self.deadline, self.boot_deadline) = (now + GRACE, now + GRACE);
            }
            for index in self.readable(left)? {
                self.read(index, listener)?;
            }
            if !decided && listener.state.is_decided() {
                decided = true;
                self.deadline = self.deadline.min(Instant::now() + GRACE);
            }
        }
        Ok(in_time)
    }

    /// The sources that have something to read, last first so that they can be removed by index.
    fn readable(&self, left: Duration) -> Result<Vec<usize>, LabError> {
        let mut descriptors: Vec<PollFd<'_>> =
            self.sources.iter().map(|source| PollFd::new(&source.stream, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(left.max(Duration::from_millis(1))).expect("a deadline fits a timespec");
        match poll(&mut descriptors, Some(&timeout)) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(failed_to("be polled", error.to_string())),
        }
        let ready = descriptors.iter().enumerate().filter(|(_, descriptor)| !descriptor.revents().is_empty());
        Ok(ready.map(|(index, _)| index).rev().collect())
    }

    fn read(&mut self, index: usize, listener: &mut Listener<'_>) -> Result<(), LabError> {
        let source = &mut self.sources[index];
        let mut buffer = [0; 16 * 1024];
        let count = match read(&source.stream, &mut buffer) {
            Ok(count) => count,
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(failed_to("be read", error.to_string())),
        };
        for line in source.lines.push(&buffer[..count]) {
            listener.handle_line(source.channel, line);
        }
        if count == 0 {
            if let Some(line) = source.lines.rest() {
                listener.handle_line(source.channel, line);
            }
            self.sources.remove(index);
        }
        Ok(())
    }
}

/// Dispatches the machine's lines: records and fatal lines to the state, the guest's own to the caller.
struct Listener<'a> {
    clock: Clock,
    on_line: &'a mut dyn FnMut(GuestLine),
    state: GuestState,
}

impl Listener<'_> {
    fn handle_line(&mut self, channel: Option<Channel>, text: String) {
        let Some(channel) = channel else {
            self.state.emulator_lines.push(text);
            return;
        };
        if channel == Channel::Results
            && let Some((unfinished, record)) = GuestRecord::at_end_of(&text)
        {
            // The command's last line may lack its end.
            if !unfinished.is_empty() {
                self.forward_line(channel, unfinished.to_owned());
            }
            self.state.note(record);
            return;
        }
        if channel == Channel::Console && self.state.end.is_none() && is_fatal(&text) {
            self.state.fatal.get_or_insert_with(|| text.clone());
        }
        self.forward_line(channel, text);
    }

    fn forward_line(&mut self, channel: Channel, text: String) {
        if self.state.last_lines.len() == LAST_LINES {
            self.state.last_lines.pop_front();
        }
        self.state.last_lines.push_back(text.clone());
        (self.on_line)(GuestLine { channel, text, host: self.clock.read() });
    }
}

/// What is known about a guest's end.
#[derive(Debug, Default)]
struct GuestState {
    last_lines: VecDeque<String>,
    emulator_lines: Vec<String>,
    fatal: Option<String>,
    has_begun: bool,
    self_check: Option<SelfCheck>,
    end: Option<GuestRecord>,
}

impl GuestState {
    fn note(&mut self, record: GuestRecord) {
        match record {
            GuestRecord::Begun => self.has_begun = true,
            GuestRecord::SelfChecked(check) => self.self_check = Some(check),
            end @ (GuestRecord::Ended { .. } | GuestRecord::Failed { .. }) => self.end = Some(end),
        }
    }

    /// True when no further output of the guest can change the outcome.
    fn is_decided(&self) -> bool {
        self.end.is_some() || self.fatal.is_some()
    }

    fn into_result(self, emulator_status: &str, wall: Duration) -> Result<Ended, LabError> {
        let last_lines: Vec<String> = self.last_lines.into();
        if let Some(check) = self.self_check.clone().filter(|check| !check.passed()) {
            return Err(LabError::SelfCheck { check });
        }
        match (self.fatal, self.end) {
            (Some(line), _) => Err(LabError::Kernel { line, last_lines }),
            (None, Some(GuestRecord::Ended { status })) => Ok(Ended { status, self_check: self.self_check, wall }),
            (None, Some(GuestRecord::Failed { reason })) => Err(LabError::Ended { reason, last_lines }),
            (None, _) => {
                let emulator_output = self.emulator_lines.join("; ");
                let reason = format!("QEMU ended with {emulator_status} {emulator_output}").trim_end().to_owned();
                if last_lines.is_empty() {
                    return Err(failed_to("boot", reason));
                }
                Err(LabError::Ended { reason, last_lines })
            }
        }
    }
}

/// Host time of a machine and of its vCPU threads.
struct Clock {
    started: Instant,
    root: Root,
    pid: u32,
    wanted: usize,
    threads: Vec<u32>,
}

impl Clock {
    fn new(pid: u32, vcpu_threads: u32) -> Self {
        let wanted = usize::try_from(vcpu_threads).unwrap_or(0);
        Self { started: Instant::now(), root: Root::system(), pid, wanted, threads: Vec::new() }
    }

    fn read(&mut self) -> HostClock {
        if self.threads.len() < self.wanted {
            self.threads = self.find_threads();
        }
        let run_delay = self.threads.iter().map(|&thread| self.run_delay(thread)).collect();
        HostClock { wall: self.started.elapsed(), run_delay }
    }

    /// QEMU names its vCPU threads `CPU 0/TCG`, with `debug-threads=on`.
    fn find_threads(&self) -> Vec<u32> {
        let Ok(threads) = self.root.list(format!("/proc/{}/task", self.pid)) else { return Vec::new() };
        let is_vcpu = |thread: &String| {
            let name = self.root.read(format!("/proc/{}/task/{thread}/comm", self.pid));
            name.is_ok_and(|name| name.starts_with("CPU "))
        };
        threads.iter().filter(|thread| is_vcpu(thread)).filter_map(|thread| thread.parse().ok()).collect()
    }

    /// 0 for a thread that has exited.
    fn run_delay(&self, thread: u32) -> Duration {
        let text = self.root.read(format!("/proc/{}/task/{thread}/schedstat", self.pid));
        text.ok().and_then(|text| parse_run_delay(&text)).unwrap_or_default()
    }
}

/// The second field of schedstat: nanoseconds spent waiting on a run queue (Documentation/scheduler/sched-stats.rst).
fn parse_run_delay(schedstat: &str) -> Option<Duration> {
    schedstat.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfCheckPoint;

    #[test]
    fn run_delay_is_the_second_field_in_nanoseconds() {
        assert_eq!(parse_run_delay("148206 46465 2\n"), Some(Duration::from_nanos(46_465)));
        assert_eq!(parse_run_delay("148206"), None);
        assert_eq!(parse_run_delay("a b c"), None);
    }

    fn told(channel: Channel, lines: &[&str]) -> (GuestState, Vec<String>) {
        let mut heard = Vec::new();
        let mut on_line = |line: GuestLine| heard.push(line.text);
        let mut listener = Listener { clock: Clock::new(0, 0), on_line: &mut on_line, state: GuestState::default() };
        for line in lines {
            listener.handle_line(Some(channel), (*line).to_owned());
        }
        let state = listener.state;
        (state, heard)
    }

    #[test]
    fn records_are_kept_and_lines_handed_on() {
        let end = GuestRecord::Ended { status: 3 }.to_line();
        let (state, heard) = told(Channel::Results, &["{\"a\":1}", &format!("unfinished{}", end.trim_end())]);
        assert_eq!(heard, ["{\"a\":1}", "unfinished"]);
        assert!(state.is_decided());
        assert_eq!(state.into_result("exit status: 0", Duration::ZERO).unwrap().status, 3);
    }

    // Verifies LAB-1.
    #[test]
    fn a_program_cannot_end_the_guest_from_the_console() {
        let end = GuestRecord::Ended { status: 0 }.to_line();
        let (state, heard) = told(Channel::Console, &[end.trim_end()]);
        assert_eq!(heard.len(), 1);
        assert!(!state.is_decided());
    }

    // Verifies LAB-1.
    #[test]
    fn each_bad_end_has_its_error() {
        let bad = SelfCheckPoint { policy: "policy0".into(), frequency_khz: 1, time_us: 1, deviation: 0.5 };
        let checked = GuestRecord::SelfChecked(SelfCheck {
            points: vec![bad.clone(), bad],
            times_count: true,
            faults: Vec::new(),
        })
        .to_line();
        let failed = GuestRecord::Failed { reason: "no module".into() }.to_line();
        for (channel, line, expected) in [
            (
                Channel::Console,
                "[    1.000000] Kernel panic - not syncing: x",
                "the guest's kernel failed: [    1.000000]",
            ),
            (Channel::Results, failed.trim_end(), "the guest ended before its command did: no module"),
            (Channel::Results, checked.trim_end(), "self-check failed"),
            (Channel::Results, "partial", "the guest ended before its command did: QEMU ended with signal: 9"),
        ] {
            let (state, _) = told(channel, &[line]);
            let error = state.into_result("signal: 9", Duration::ZERO).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        let silent = GuestState { emulator_lines: vec!["qemu: no such machine".into()], ..GuestState::default() };
        let error = silent.into_result("exit status: 1", Duration::ZERO).unwrap_err().to_string();
        assert_eq!(error, "the virtual device failed to boot: QEMU ended with exit status: 1 qemu: no such machine");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let lines: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let (state, heard) = told(Channel::Console, &lines.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(heard.len(), 100);
        assert_eq!(state.last_lines.len(), LAST_LINES);
        assert_eq!(state.last_lines.back().unwrap(), "99");
    }
}
