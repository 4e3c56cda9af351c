//! `brisk soak`: tests the law "every write can be undone". It repeatedly starts a daemon with leases and a guardian, kills
//! one or both with SIGKILL at a random moment, and checks that every tunable holds its original again.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::Serialize;

use brisk_base::random::Random;
use brisk_sys::{BootTime, Root, Target};
use brisk_undo::guardian::Guardian;
use brisk_undo::journal::{Holder, Journal, JournalError, Replay};

/// A guardian that needs longer to revert a few leases is broken.
const GUARDIAN_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest life of a daemon: enough for some hundred leases, and for a few guardians when those are killed.
const LONGEST_LIFE_US: usize = 20_000;
/// A guardian that was being started when its daemon died must restore within this time.
const UNREPORTED_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest time from the death of a guardian to that of its daemon.
const LONGEST_DELAY_US: f64 = 2_000_000.0;

/// Arguments of `brisk soak`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The number of kills
    #[arg(long, default_value_t = 1000)]
    pub kills: u32,
    /// The seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Run as the daemon that is killed
    #[arg(long, hide = true)]
    pub be_daemon: bool,
    /// Tunables and the values to lease: /sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate=10000,20000
    #[arg(required = true, value_name = "TUNABLE=VALUE,...", value_parser = parse_tunable)]
    pub tunables: Vec<Leasable>,
}

/// A tunable and the values that may be leased.
#[derive(Debug, Clone)]
pub struct Leasable {
    file: PathBuf,
    values: Vec<String>,
}

fn parse_tunable(text: &str) -> Result<Leasable, String> {
    let (file, values) = text.split_once('=').ok_or("expected TUNABLE=VALUE,VALUE,...")?;
    Ok(Leasable { file: file.into(), values: values.split(',').map(str::to_owned).collect() })
}

/// How often each process was killed, and the results.
#[derive(Debug, Default, Serialize)]
struct Tally {
    schema: u32,
    /// All kills.
    kills: u32,
    /// Kills of the daemon alone: the guardian must restore.
    daemon: u32,
    /// Kills of the guardian: the daemon must start another one, and is killed after that.
    guardian: u32,
    /// Kills of both at once: `brisk restore` must restore.
    both: u32,
    /// Kills of the guardian, then within 2 s of the daemon: the next guardian, if it was started, must restore.
    apart: u32,
    /// How often a value was still changed when both were dead and every guardian had ended, so that `brisk restore` had work.
    found_changed: u32,
    /// The longest delay between the two kills after which a value was still changed.
    longest_unguarded_us: u64,
    /// How often a value was still changed after the restoration.
    left_changed: u32,
}

/// Kills as often as requested and prints the tally; exit code 1 when a value was ever left changed.
///
/// # Errors
/// When processes cannot be started or killed, or a tunable cannot be read.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    if arguments.be_daemon {
        return run_leasing_daemon(arguments, root);
    }
    let originals = values(arguments, root)?;
    for (tunable, original) in arguments.tunables.iter().zip(&originals) {
        ensure!(original.is_some(), "{} does not exist, so it cannot be leased", tunable.file.display());
    }
    let mut random = Random::new(arguments.seed);
    let mut tally = Tally { schema: 1, ..Tally::default() };
    for _ in 0..arguments.kills {
        tally.kills += 1;
        kill_once(arguments, root, &originals, &mut random, &mut tally)?;
        let held = values(arguments, root)?;
        if held != originals {
            tally.left_changed += 1;
            eprintln!("brisk: kill {} left {held:?} in the place of {originals:?}", tally.kills);
            restore(root)?;
        }
    }
    writeln!(anstream::stdout(), "{}", serde_json::to_string(&tally)?)?;
    Ok(if tally.left_changed == 0 { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn kill_once(
    arguments: &Arguments,
    root: &Root,
    originals: &[Option<String>],
    random: &mut Random,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let mut daemon = Daemon::start(arguments, root, random.bits())?;
    let mut guardian = daemon.next_guardian()?;
    std::thread::sleep(Duration::from_micros(random.below(LONGEST_LIFE_US) as u64));
    match random.below(4) {
        0 => {
            tally.daemon += 1;
            daemon.kill()?;
            guardian.wait()?;
        }
        1 => {
            tally.guardian += 1;
            guardian.kill()?;
            guardian = daemon.next_guardian()?;
            std::thread::sleep(Duration::from_micros(random.below(LONGEST_LIFE_US) as u64));
            daemon.kill()?;
            guardian.wait()?;
        }
        2 => {
            tally.both += 1;
            kill_both(arguments, root, originals, (&mut daemon, &mut guardian, Duration::ZERO), tally)?;
        }
        _ => {
            tally.apart += 1;
            // Delays are distributed logarithmically, because the start of the next guardian is a short window.
            let delay = Duration::from_micros(LONGEST_DELAY_US.powf(random.unit()) as u64);
            kill_both(arguments, root, originals, (&mut daemon, &mut guardian, delay), tally)?;
        }
    }
    Ok(())
}

/// Kills the guardian and, `delay` later, the daemon; restores what no later guardian has restored.
fn kill_both(
    arguments: &Arguments,
    root: &Root,
    originals: &[Option<String>],
    (daemon, guardian, delay): (&mut Daemon, &mut GuardianHandle, Duration),
    tally: &mut Tally,
) -> anyhow::Result<()> {
    guardian.kill()?;
    let killed_at = Instant::now();
    // Without a delay the daemon has no time to start another guardian.
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
    daemon.kill()?;
    let delay = if delay.is_zero() { delay } else { killed_at.elapsed() };
    while let Some(mut late) = daemon.remaining_guardian()? {
        late.wait()?;
    }
    if !is_restored_soon(arguments, root, originals, delay)? {
        tally.found_changed += 1;
        tally.longest_unguarded_us = tally.longest_unguarded_us.max(delay.as_micros() as u64);
    }
    restore(root)
}

/// Whether all values are the originals. A guardian that the daemon had no time to report may still be restoring, so after a
/// `delay` this waits for it.
fn is_restored_soon(
    arguments: &Arguments,
    root: &Root,
    originals: &[Option<String>],
    delay: Duration,
) -> anyhow::Result<bool> {
    let checked = Instant::now();
    while values(arguments, root)? != originals {
        if delay.is_zero() || checked.elapsed() > UNREPORTED_TIMEOUT {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(true)
}

/// Does what `brisk restore` does. It waits for a guardian that is still restoring, started just before both were killed.
fn restore(root: &Root) -> anyhow::Result<()> {
    let replay = Replay::of(Holder::Daemon, &root.runtime_folder(), root)?;
    ensure!(replay.is_complete(), "could not restore: {replay:?}");
    Ok(())
}

/// The value of each tunable; `None` while it does not exist, because another governor is in force.
fn values(arguments: &Arguments, root: &Root) -> anyhow::Result<Vec<Option<String>>> {
    let value = |tunable: &Leasable| match root.read(&tunable.file) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error.into()),
    };
    arguments.tunables.iter().map(value).collect()
}

/// The daemon to be killed, and its output: the pid of each guardian that it has started.
struct Daemon {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Daemon {
    fn start(arguments: &Arguments, root: &Root, seed: u64) -> anyhow::Result<Self> {
        let tunables = arguments.tunables.iter().map(|it| format!("{}={}", it.file.display(), it.values.join(",")));
        let mut child = Command::new("/proc/self/exe")
            .arg("--root")
            .arg(root.path("/"))
            .args(["soak", "--be-daemon", "--seed", &seed.to_string()])
            .args(tunables)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the daemon to be killed")?;
        let stdout = child.stdout.take().context("the daemon has no pipe")?;
        Ok(Self { child, lines: BufReader::new(stdout) })
    }

    fn next_guardian(&mut self) -> anyhow::Result<GuardianHandle> {
        self.remaining_guardian()?.context("the daemon ended before it had a guardian; see its messages above")
    }

    /// The next guardian that the daemon has reported; `None` when it is dead and no further one was reported.
    fn remaining_guardian(&mut self) -> anyhow::Result<Option<GuardianHandle>> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        GuardianHandle::open(line.trim().parse().with_context(|| format!("not a guardian's pid: {line:?}"))?).map(Some)
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().context("cannot kill the daemon")?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A guardian, which is not a child of this process; `None` when it had ended before it was opened.
struct GuardianHandle(Option<(Pid, OwnedFd)>);

impl GuardianHandle {
    fn open(pid: i32) -> anyhow::Result<Self> {
        let pid = Pid::from_raw(pid).context("zero is no guardian")?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) => Ok(Self(Some((pid, fd)))),
            Err(rustix::io::Errno::SRCH) => Ok(Self(None)),
            Err(error) => Err(error).context("cannot watch the guardian (pidfd_open needs Linux 5.3)"),
        }
    }

    fn kill(&mut self) -> anyhow::Result<()> {
        match &self.0 {
            Some((_, fd)) => match pidfd_send_signal(fd, Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
                Err(error) => Err(error).context("cannot kill the guardian"),
            },
            None => Ok(()),
        }
    }

    fn wait(&mut self) -> anyhow::Result<()> {
        let Some((pid, fd)) = &self.0 else { return Ok(()) };
        let started = Instant::now();
        loop {
            let left = Timespec::try_from(GUARDIAN_TIMEOUT.saturating_sub(started.elapsed())).ok();
            match poll(&mut [PollFd::new(fd, PollFlags::IN)], left.as_ref()) {
                Ok(0) => {
                    bail!("guardian {} has not ended within {} s", pid.as_raw_nonzero(), GUARDIAN_TIMEOUT.as_secs())
                }
                Ok(_) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// The daemon's loop: it leases and releases at random until it is killed, and starts a new guardian when one has died.
fn run_leasing_daemon(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let folder = root.runtime_folder();
    let mut journal = Journal::open(Holder::Daemon, &folder, root)?;
    let mut guardian = start_guardian(root)?;
    let mut random = Random::new(arguments.seed);
    loop {
        if guardian.has_ended() {
            guardian = start_guardian(root)?;
        }
        let tunable = &arguments.tunables[random.below(arguments.tunables.len())];
        let target = Target::Tunable(tunable.file.clone());
        let now = BootTime::now();
        if random.below(3) == 0 && journal.leases().iter().any(|lease| lease.target == target) {
            journal.release(now, &target)?;
        } else {
            let value = &tunable.values[random.below(tunable.values.len())];
            let until = now + Duration::from_micros(random.below(5000) as u64);
            match journal.lease(now, &target, value, until, "soak") {
                // A leased governor replaces the tunables of the previous one.
                Err(JournalError::Device { fault }) if fault.is_missing() => {}
                outcome => outcome?,
            }
        }
        journal.expire(BootTime::now());
        std::thread::sleep(Duration::from_micros(random.below(50) as u64));
    }
}

fn start_guardian(root: &Root) -> anyhow::Result<Guardian> {
    let guardian = Guardian::start(Holder::Daemon, &root.runtime_folder(), root)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", guardian.pid())?;
    out.flush()?;
    Ok(guardian)
}
