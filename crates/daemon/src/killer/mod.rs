//! The killer: a separate process, so that neither the daemon's work nor its memory delays a kill under memory pressure.
//!
//! It sleeps until the kernel reports memory stalls, samples memory while the pressure may last, and kills one process at a
//! time. All its state can be read again, so the daemon simply restarts a killer that has died.

mod kill;
mod learned;
mod pageout;
mod prefetch;
mod preview;
mod sampler;
mod writeback;

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use brisk_mechanism::memory::candidates;
use brisk_mechanism::memory::config::KillerConfig;
use brisk_mechanism::memory::killer::kill_log;
use brisk_mechanism::memory::killer::lmkd::Lmkd;
use brisk_mechanism::memory::killer::{self, KillReason, KillRecord, Sample};
pub use brisk_mechanism::memory::policy::KILLER as SUBCOMMAND;
use brisk_mechanism::memory::policy::{FOREGROUND_PREFIX, KILLED_PREFIX};
use brisk_mechanism::memory::victim::{Candidate, Protection, Victim, VictimMode};
use brisk_sys::descriptors::unshare_standard_streams;
use brisk_sys::memory::memory_lock::{Locked, limit_kib, lock_as_used};
use brisk_sys::memory::psi;
use brisk_sys::process::own_code;
use brisk_sys::process::process_kill::ProcessHandle;
use brisk_sys::sched::own_policy;
use brisk_sys::{BootTime, Root, process};
use kill::KillResult;
pub use learned::Learned;
pub use preview::{preview, preview_line};
use sampler::{Sampler, page_kib};

/// The sampling period without PSI, and on kernels that report pressure late.
const POLL_PERIOD: Duration = Duration::from_millis(100);
/// Watermarks and kernel threads rarely change: they are read again after this time, when memory is not short.
const PREPARE_PERIOD: Duration = Duration::from_secs(5);
/// The most memory that a kill needs, made resident in advance.
const PREFAULT_BYTES: usize = 256 << 10;

/// A pipe that can be written has room for so much (PIPE_BUF), with the rest of the line.
const PIPE_ROOM_BYTES: usize = 4096 - 64;

/// What the daemon has prepared for the killer.
#[derive(Debug, Clone, Copy)]
pub struct WritebackSetup {
    /// The daemon has leased the kernel's limit on zram write-back.
    pub limits: bool,
    /// The configuration names a device to write back to.
    pub names_backing: bool,
}

/// Kills processes when memory is short, until standard input ends.
///
/// # Errors
/// When polling fails, or memory cannot be sampled.
pub fn run(root: &Root, config: &KillerConfig, prepared: WritebackSetup) -> anyhow::Result<()> {
    let mut killer = Killer::new(root, config)?;
    killer.sampler.prepare(root).context("cannot sample memory")?;
    // Code that only the start needed is not to be locked with the rest.
    if let Err(error) = own_code::unmap() {
        tracing::debug!("cannot unmap the start-up code: {error}");
    }
    killer.prefault();
    if config.pageout.target_kib > 0 {
        pageout::start(root, &config.pageout).context("cannot start a thread")?;
    }
    if config.writeback.daily_kib > 0 {
        writeback::start(root, &config.writeback, prepared).context("cannot start a thread")?;
    }
    if config.prefetch {
        killer.prefetch = Some(prefetch::start(root).context("cannot start a thread")?);
    }
    killer.harden();
    // A failed write means that the daemon has died, which `watch` notices at once.
    let _ = io::Write::write_all(&mut io::stdout(), b"ready\n");
    killer.watch()
}

struct Killer<'a> {
    root: &'a Root,
    config: &'a KillerConfig,
    protection: Protection,
    trigger: Option<psi::Trigger>,
    sampler: Sampler,
    /// The headroom of the last sample.
    headroom_kib: i64,
    /// For [`VictimMode::Lmkd`], whose need depends on earlier samples.
    lmkd: Option<Lmkd>,
    learned: Learned,
    /// Receives the foreground processes.
    prefetch: Option<Sender<u32>>,
    /// The daemon's next line, as far as it was read.
    input: String,
}

/// What woke the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WakeReason {
    Pressure,
    Timeout,
    DaemonEnded,
}

impl<'a> Killer<'a> {
    fn new(root: &'a Root, config: &'a KillerConfig) -> anyhow::Result<Self> {
        let protection = killer::protection(config, root.has_android_system());
        let trigger = psi::Trigger::open(root, config.stall_ms as u32 * 1000, config.window_ms as u32 * 1000);
        let sampling_ms = POLL_PERIOD.as_millis();
        match &trigger {
            Ok(trigger) => trigger.limitation().iter().for_each(|limitation| {
                tracing::warn!("{limitation}; memory is sampled every {sampling_ms} ms as well");
            }),
            Err(error) => {
                tracing::warn!("{}; memory is sampled every {sampling_ms} ms instead", psi::with_advice(error));
            }
        }
        Ok(Self {
            root,
            config,
            protection,
            trigger: trigger.ok(),
            sampler: Sampler::of(config),
            headroom_kib: i64::MIN,
            lmkd: (config.mode == VictimMode::Lmkd && !config.by_headroom).then(Lmkd::default),
            learned: Learned::read(root),
            prefetch: None,
            input: String::new(),
        })
    }

    /// Runs the path to a kill once, so that none of it runs for the first time when memory is short.
    fn prefault(&mut self) {
        let mut ballast = vec![1u8; PREFAULT_BYTES];
        std::hint::black_box(&mut ballast);
        drop(ballast);
        if let Ok(sample) = self.sampler.take(self.root, BootTime::now()) {
            let mut found = candidates(self.root, i16::MIN, false, &|_| false, &mut Vec::new()).unwrap_or_default();
            let _ = self.choose(&sample, i16::MIN, &mut found);
        }
        let _ = ProcessHandle::on(std::process::id());
    }

    /// Sets oom_score_adj -1000 and real-time priority, and locks memory. If that is not permitted, the killer warns and goes
    /// on.
    fn harden(&self) {
        if let Err(error) = self.root.write("/proc/self/oom_score_adj", "-1000") {
            tracing::warn!("the kernel may kill the killer: {error}; give it CAP_SYS_RESOURCE");
        }
        if let Err(error) = own_policy::become_real_time() {
            tracing::warn!("no real-time priority for the killer: {error}; give it CAP_SYS_NICE");
        }
        let what = match lock_as_used() {
            Ok(Locked::All) => return,
            Ok(Locked::MappedNow) => "what it allocates from now on is not locked".to_owned(),
            Err(error) => error.to_string(),
        };
        let limit = limit_kib().unwrap_or_default();
        tracing::warn!(
            "the killer may have to wait for its own pages: {what}; it may lock {limit} KiB: raise that to 256 MiB \
             (LimitMEMLOCK=), or give it CAP_IPC_LOCK"
        );
    }

    fn watch(&mut self) -> anyhow::Result<()> {
        let mut burst_until = BootTime::default();
        let mut prepared_at = BootTime::now();
        loop {
            let now = BootTime::now();
            let in_burst = (now < burst_until).then(|| Duration::from_millis(self.sampling_ms()));
            let rest = match &self.trigger {
                None => Some(POLL_PERIOD),
                Some(trigger) if trigger.limitation().is_some() => Some(in_burst.unwrap_or(POLL_PERIOD)),
                Some(_) => in_burst,
            };
            let woken = self.rest(rest)?;
            let woken_at = BootTime::now();
            if woken == WakeReason::DaemonEnded {
                self.learned.save();
                let_threads_end();
                return Ok(());
            }
            if woken == WakeReason::Pressure {
                burst_until = woken_at + Duration::from_millis(self.config.burst_ms);
            }
            let has_killed = self.kill_if_needed(woken_at, woken == WakeReason::Pressure)?;
            if has_killed || self.lmkd.as_ref().is_some_and(Lmkd::keeps_sampling) {
                burst_until = BootTime::now() + Duration::from_millis(self.config.burst_ms);
            } else if woken == WakeReason::Timeout && woken_at.since(prepared_at) >= PREPARE_PERIOD {
                self.sampler.prepare(self.root).context("cannot sample memory")?;
                self.learned.save();
                prepared_at = woken_at;
            }
        }
    }

    /// The sampling period while memory may be short.
    fn sampling_ms(&self) -> u64 {
        let sampling_period_ms =
            || killer::sampling_period_ms(self.config, self.headroom_kib, self.sampler.cpu_count());
        self.lmkd.as_ref().map_or_else(sampling_period_ms, Lmkd::sampling_ms)
    }

    fn rest(&mut self, rest: Option<Duration>) -> anyhow::Result<WakeReason> {
        let stdin = io::stdin();
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        loop {
            let mut wanted = Vec::with_capacity(2);
            wanted.push(PollFd::new(&stdin, PollFlags::IN));
            wanted
                .extend(self.trigger.as_ref().map(|trigger| PollFd::from_borrowed_fd(trigger.as_fd(), PollFlags::PRI)));
            let outcome = poll(&mut wanted, rest.as_ref());
            let is_told = !wanted[0].revents().is_empty();
            drop(wanted);
            match outcome {
                Ok(0) => return Ok(WakeReason::Timeout),
                Ok(_) if is_told => {
                    return Ok(if self.read_daemon_input() { WakeReason::Timeout } else { WakeReason::DaemonEnded });
                }
                Ok(_) => return Ok(WakeReason::Pressure),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for memory pressure"),
            }
        }
    }

    /// Reads the foreground processes from the daemon; false when it has exited.
    fn read_daemon_input(&mut self) -> bool {
        let mut bytes = [0; 256];
        let count = match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error == Errno::INTR,
        };
        self.input.extend(bytes[..count].iter().map(|&byte| char::from(byte)));
        while let Some((line, rest)) = self.input.split_once('\n') {
            let pid = line.strip_prefix(FOREGROUND_PREFIX).and_then(|pid| pid.parse().ok());
            if let (Some(prefetch), Some(pid)) = (&self.prefetch, pid) {
                // A thread that could not become idle has logged that and ended.
                let _ = prefetch.send(pid);
            }
            self.input = rest.to_owned();
        }
        true
    }

    /// Samples memory and kills a process if necessary. True when one was killed.
    fn kill_if_needed(&mut self, woken_at: BootTime, by_event: bool) -> anyhow::Result<bool> {
        let sample = self.sampler.take(self.root, woken_at).context("cannot sample memory")?;
        self.headroom_kib = sample.headroom_kib;
        let order = self.lmkd.as_mut().and_then(|lmkd| lmkd.evaluate(&sample.reading, page_kib()));
        let need = match (&self.lmkd, &order) {
            (None, _) => killer::kill_reason(self.config, &sample),
            (Some(_), order) => {
                order.as_ref().map(|order| KillReason { cause: order.cause.clone(), threshold: order.threshold })
            }
        };
        let Some(need) = need else { return Ok(false) };
        let known = |pid| self.sampler.is_kernel_thread(pid);
        let with_pss = self.config.mode.is_proportional();
        let mut found = candidates(self.root, self.config.lowest_adj, with_pss, &known, &mut Vec::new())?;
        self.learned.annotate(&mut found, sample.memory_pressure.swap_ratio);
        let Some(victim) = self.choose(&sample, need.threshold, &mut found) else { return Ok(false) };
        let Some(candidate) = found.iter().find(|candidate| candidate.pid == victim.pid) else { return Ok(false) };
        let chosen = kill::Chosen { victim: &victim, candidate, sampled_at: sample.reading.at };
        let Some(ending) = kill::end(self.root, self.config, chosen)? else { return Ok(false) };
        if let (Some(lmkd), Some(order)) = (&mut self.lmkd, &order) {
            lmkd.killed(order);
        }
        if let Some(kib) = ending.returned_kib {
            self.learned.learn(&victim.name, candidate, kib);
        }
        self.log_kill(&record(self.config.mode, (woken_at, by_event), need.cause, &sample, victim, candidate, &ending));
        Ok(true)
    }

    fn choose(&self, sample: &Sample, threshold: i16, found: &mut [Candidate]) -> Option<Victim> {
        let group_of = |pid| process::group(self.root, pid);
        killer::choose(self.config, sample, threshold, found, (&self.protection, &group_of))
    }

    fn log_kill(&self, record: &KillRecord) {
        tracing::info!("killed {} ({}): {}; {}", record.name, record.pid, record.cause, record.reason);
        if let Err(error) = kill_log::append(self.root, record) {
            tracing::warn!("{error}");
        }
        tell_daemon(record);
    }
}

/// Tells the daemon of a kill, unless it is so busy that it has left its pipe full: the killer waits for no other process.
fn tell_daemon(record: &KillRecord) {
    let mut stdout = io::stdout();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let has_room = poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0);
    let Some(record) = serde_json::to_string(record).ok().filter(|record| has_room && record.len() < PIPE_ROOM_BYTES)
    else {
        return;
    };
    let _ = io::Write::write_all(&mut stdout, format!("{KILLED_PREFIX}{record}\n").as_bytes());
}

/// The daemon waits until the killer has exited, and so for all of its threads.
fn let_threads_end() {
    if let Err(error) = own_policy::let_idle_threads_end(&Root::system(), std::process::id()) {
        tracing::debug!("the killer may take long to end: {error}");
    }
}

/// Makes the calling thread SCHED_IDLE, and closes its ends of the daemon's pipes. The daemon detects the killer's death by
/// their end of file, which would otherwise come only after this thread has run once more.
fn become_idle() -> io::Result<()> {
    if let Err(error) = unshare_standard_streams() {
        tracing::debug!("the killer's death may be noticed late: {error}");
    }
    own_policy::run_when_idle()
}

/// The log record of a kill.
fn record(
    mode: VictimMode,
    (woken_at, by_event): (BootTime, bool),
    cause: String,
    sample: &Sample,
    victim: Victim,
    candidate: &Candidate,
    ending: &KillResult,
) -> KillRecord {
    let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    KillRecord {
        at: ending.killed_at,
        pid: victim.pid,
        oom_score_adj: victim.oom_score_adj,
        mode,
        cause,
        reason: victim.reason,
        headroom_kib: sample.headroom_kib,
        predicted_kib: victim.predicted_kib,
        returned_kib: ending.returned_kib,
        rss_kib: candidate.rss_kib,
        rss_anonymous_kib: candidate.rss_anonymous_kib,
        swap_kib: candidate.swap_kib,
        swap_ratio: candidate.ratio(sample.memory_pressure.swap_ratio),
        pss_kib: ending.audit.map(|audit| audit.exact.pss_kib),
        swap_pss_kib: ending.audit.map(|audit| audit.exact.swap_pss_kib),
        estimated_in_ns: ending.audit.map(|audit| nanoseconds(audit.estimated_in)),
        audited_in_ns: ending.audit.map(|audit| nanoseconds(audit.audited_in)),
        decided_after_us: ending.killed_at.since(woken_at).as_micros() as u64,
        by_event,
        back_after_us: ending.freed_at.map(|at| at.since(ending.killed_at).as_micros() as u64),
        name: victim.name,
    }
}
