//! The killer: a process of its own, so that neither the daemon's work nor its memory stands between pressure and relief.
//!
//! It sleeps until the kernel says that tasks wait for memory, looks at memory for as long as that may go on, and ends one
//! process at a time. It keeps nothing that cannot be read again: one that dies is simply started anew.

mod child;
mod look;
mod pageout;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mm::{MlockAllFlags, mlockall};

use crate::device::process_kill::{Hold, Release, kill_by_number};
use crate::device::{BootTime, Root, meminfo, process, process_memory, psi, scheduling};
use crate::mechanism::memory::config::KillerConfig;
use crate::mechanism::memory::killer::{self, KillRecord};
use crate::mechanism::memory::victim::{Candidate, Mode, Protection, Victim};
use crate::mechanism::memory::{candidates, kill_log};
pub use child::Child;
use look::Looks;

/// Without PSI memory is looked at this often.
const BLIND_LOOK: Duration = Duration::from_millis(100);
/// Watermarks and kernel threads hardly ever change: they are read again after so long, when there is time.
const PREPARATION: Duration = Duration::from_secs(5);
/// What the way to a kill needs at most, made resident before it is needed.
const REHEARSED_BYTES: usize = 256 << 10;
/// A victim works for nobody but its own end.
const VICTIM_NICE: i32 = -20;

/// Ends processes when memory is short, until standard input ends.
///
/// # Errors
/// When nothing can be waited for, or memory cannot be looked at.
pub fn run(root: &Root, config: &KillerConfig) -> anyhow::Result<()> {
    let mut killer = Killer::new(root, config)?;
    killer.looks.prepare(root).context("cannot look at memory")?;
    killer.rehearse();
    if config.pageout.target_kib > 0 {
        pageout::start(root, &config.pageout).context("cannot start a thread")?;
    }
    killer.harden();
    // A daemon that is dead by now will be noticed at once.
    let _ = io::Write::write_all(&mut io::stdout(), b"ready\n");
    killer.watch()
}

struct Killer<'a> {
    root: &'a Root,
    config: &'a KillerConfig,
    protection: Protection,
    trigger: Option<psi::Trigger>,
    looks: Looks,
}

/// What woke the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Woken {
    Pressure,
    Time,
    DaemonEnded,
}

impl<'a> Killer<'a> {
    fn new(root: &'a Root, config: &'a KillerConfig) -> anyhow::Result<Self> {
        let mut protection = Protection::of_system(root.exists("/system/build.prop"));
        protection.names.extend(config.protected.iter().cloned());
        protection.adj_floor = config.lowest_adj;
        let trigger = psi::Trigger::open(root, config.stall_ms as u32 * 1000, config.window_ms as u32 * 1000);
        let trigger = trigger.map_err(|error| {
            tracing::warn!("{error}; memory is looked at every {} ms instead", BLIND_LOOK.as_millis());
        });
        Ok(Self { root, config, protection, trigger: trigger.ok(), looks: Looks::default() })
    }

    /// Goes the way to a kill once, so that nothing on it is done for the first time when memory is short.
    fn rehearse(&mut self) {
        let mut ballast = vec![1u8; REHEARSED_BYTES];
        std::hint::black_box(&mut ballast);
        drop(ballast);
        if let Ok(look) = self.looks.take(self.root, BootTime::now()) {
            let mut found = candidates(self.root, i16::MIN, false, &|_| false, &mut Vec::new()).unwrap_or_default();
            let _ = killer::choose(self.config, &look, &mut found, &self.protection);
        }
        let _ = Hold::on(std::process::id());
    }

    /// The last one to go, the first one to run, and never waiting for a page. What is not permitted is said, and done
    /// without.
    fn harden(&self) {
        if let Err(error) = self.root.write("/proc/self/oom_score_adj", "-1000") {
            tracing::warn!("the kernel may kill the killer: {error}");
        }
        if let Err(error) = scheduling::become_real_time() {
            tracing::warn!("the killer has to wait for a CPU like everybody: {error}; give it CAP_SYS_NICE");
        }
        if let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT) {
            tracing::warn!("the killer may have to wait for its own pages: {error}; raise its limit of locked memory");
        }
    }

    fn watch(&mut self) -> anyhow::Result<()> {
        let mut burst_until = BootTime::default();
        let mut prepared_at = BootTime::now();
        loop {
            let now = BootTime::now();
            let rest = match &self.trigger {
                None => Some(BLIND_LOOK),
                Some(_) => (now < burst_until).then(|| Duration::from_millis(self.config.look_ms)),
            };
            let woken = self.rest(rest)?;
            let woken_at = BootTime::now();
            if woken == Woken::DaemonEnded {
                return Ok(());
            }
            if woken == Woken::Pressure {
                burst_until = woken_at + Duration::from_millis(self.config.burst_ms);
            }
            if self.relieve(woken_at, woken == Woken::Pressure)? {
                burst_until = BootTime::now() + Duration::from_millis(self.config.burst_ms);
            } else if woken == Woken::Time && woken_at.since(prepared_at) >= PREPARATION {
                self.looks.prepare(self.root).context("cannot look at memory")?;
                prepared_at = woken_at;
            }
        }
    }

    fn rest(&self, rest: Option<Duration>) -> anyhow::Result<Woken> {
        let stdin = io::stdin();
        let rest = rest.and_then(|rest| Timespec::try_from(rest).ok());
        loop {
            let mut wanted = Vec::with_capacity(2);
            wanted.push(PollFd::new(&stdin, PollFlags::IN));
            wanted
                .extend(self.trigger.as_ref().map(|trigger| PollFd::from_borrowed_fd(trigger.as_fd(), PollFlags::PRI)));
            match poll(&mut wanted, rest.as_ref()) {
                Ok(0) => return Ok(Woken::Time),
                Ok(_) if !wanted[0].revents().is_empty() => return Ok(Woken::DaemonEnded),
                Ok(_) => return Ok(Woken::Pressure),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error).context("cannot wait for memory pressure"),
            }
        }
    }

    /// Looks at memory and ends somebody if somebody must go. True when somebody did.
    fn relieve(&mut self, woken_at: BootTime, by_event: bool) -> anyhow::Result<bool> {
        let look = self.looks.take(self.root, woken_at).context("cannot look at memory")?;
        let Some(cause) = killer::cause(self.config, &look) else { return Ok(false) };
        let with_pss = self.config.mode == Mode::LmkPss;
        let known = |pid| self.looks.is_kernel_thread(pid);
        let mut found = candidates(self.root, self.config.lowest_adj, with_pss, &known, &mut Vec::new())?;
        let Some(victim) = killer::choose(self.config, &look, &mut found, &self.protection) else { return Ok(false) };
        let Some(candidate) = found.iter().find(|candidate| candidate.pid == victim.pid) else { return Ok(false) };
        let hold = Hold::on(victim.pid);
        if !self.is_still(candidate) {
            return Ok(false);
        }
        let audited = self.config.audit.then(|| process_memory::proportional(self.root, victim.pid).ok()).flatten();
        let free_before_kib = meminfo::read(self.root)?.free_kib;
        let killed = match &hold {
            Ok(hold) => hold.kill(),
            Err(_) => kill_by_number(victim.pid),
        };
        let killed_at = BootTime::now();
        if let Err(error) = killed {
            tracing::debug!("{} was not killed: {error}", victim.name);
            return Ok(false);
        }
        let back_at = self.wait_for_end(&victim, hold.ok().as_ref(), killed_at);
        let returned_kib = match back_at {
            Some(_) => Some(meminfo::read(self.root)?.free_kib as i64 - free_before_kib as i64),
            None => None,
        };
        let record = KillRecord {
            at: killed_at,
            pid: victim.pid,
            oom_score_adj: victim.oom_score_adj,
            mode: self.config.mode,
            cause,
            reason: victim.reason,
            headroom_kib: look.headroom_kib,
            predicted_kib: victim.predicted_kib,
            returned_kib,
            rss_kib: candidate.rss_kib,
            rss_anonymous_kib: candidate.rss_anonymous_kib,
            swap_kib: candidate.swap_kib,
            swap_ratio: look.situation.swap_ratio,
            pss_kib: audited.map(|exact| exact.pss_kib),
            swap_pss_kib: audited.map(|exact| exact.swap_pss_kib),
            decided_after_us: killed_at.since(woken_at).as_micros() as u64,
            by_event,
            back_after_us: back_at.map(|at| at.since(killed_at).as_micros() as u64),
            name: victim.name,
        };
        tracing::info!("killed {} ({}): {}; {}", record.name, record.pid, record.cause, record.reason);
        if let Err(error) = kill_log::append(self.root, &record) {
            tracing::warn!("{error}");
        }
        Ok(true)
    }

    /// True while `candidate` is the process that was looked at: a number goes to another one when its owner has ended.
    fn is_still(&self, candidate: &Candidate) -> bool {
        process::command(self.root, candidate.pid).is_ok_and(|name| name == candidate.name)
            && process_memory::oom_score_adj(self.root, candidate.pid).is_ok_and(|adj| adj == candidate.oom_score_adj)
    }

    /// Waits until `victim` has gone, and says when its memory was back; `None` when it is given up.
    fn wait_for_end(&self, victim: &Victim, hold: Option<&Hold>, killed_at: BootTime) -> Option<BootTime> {
        let limit = killed_at + Duration::from_millis(self.config.patience_ms);
        let Some(hold) = hold else {
            while BootTime::now() < limit {
                if process::has_ended(victim.pid) {
                    return Some(BootTime::now());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            return None;
        };
        if let Some(pid) = process::id(victim.pid) {
            // It may be one of those that wait longest for a CPU. Without the right to, it takes its time.
            let _ = rustix::process::setpriority_process(Some(pid), VICTIM_NICE);
        }
        let released_at = (hold.release_memory() == Release::Released).then(BootTime::now);
        loop {
            let left = Timespec::try_from(limit.since(BootTime::now())).ok();
            match poll(&mut [PollFd::new(hold, PollFlags::IN)], left.as_ref()) {
                Ok(0) => {
                    tracing::warn!(
                        "{} ({}) has not gone after {} ms",
                        victim.name,
                        victim.pid,
                        self.config.patience_ms
                    );
                    return released_at;
                }
                Ok(_) => return Some(released_at.unwrap_or_else(BootTime::now)),
                Err(Errno::INTR) => {}
                Err(_) => return released_at,
            }
        }
    }
}
