//! Finds background processes that make the foreground wait for storage, and lowers their I/O priority: the gain bound and
//! the trial of CPUs, applied to storage. Pure.
//!
//! A foreground can gain at most its waiting time, and no more than the disks' busy time for bulk processes. A reader that
//! waits less reads more, so a trial compares the waiting time per byte.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use super::back_off::BackOff;
use crate::contract::facts::ThreadOfProcess;
use crate::{Action, Decision, LeaseSet, Outcome};
use brisk_sys::io::io_priority::{IoClass, IoPriority};
use brisk_sys::process::ProcessIdentity;
use brisk_sys::process::kinship::Kin;
use brisk_sys::{BootTime, Target};

/// How often storage is sampled while there is a foreground.
pub const SAMPLING_PERIOD: Duration = Duration::from_secs(1);
/// Samples that are farther apart are not compared.
const MAXIMUM_SAMPLE_GAP: Duration = Duration::from_secs(3);
/// The number of samples before a decision, and in a trial.
const EVIDENCE: u32 = 3;
/// A bulk process moves at least this share of all bytes, and this many bytes per second.
const BULK_SHARE: f64 = 0.3;
const BULK_BYTES_PER_S: f64 = 1024.0 * 1024.0;
/// A trial has helped when the foreground waits at most this fraction of the baseline.
const MAXIMUM_WAIT_RATIO: f64 = 0.8;
/// A step that helps is chosen again after this long. Leases last longer: they expire only if the daemon hangs.
const REEVALUATE_AFTER: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(90);
/// The first pause after a step that did not help; it doubles each time up to the longest.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(600);

/// The counters at one time, all since boot.
#[derive(Debug, Clone, Default)]
pub struct StorageSample {
    /// How long some foreground task has waited for storage.
    pub waited: Duration,
    /// The busy time of the disks, summed.
    pub busy: Duration,
    /// Bytes that each process has read and written.
    pub moved: BTreeMap<ProcessIdentity, u64>,
}

/// A thread that could get a lower priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageThread {
    /// Its thread id.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat.
    pub start_time_ticks: u64,
    /// Its current I/O priority.
    pub priority: IoPriority,
}

impl StorageThread {
    pub(super) fn of(thread: &ThreadOfProcess) -> Self {
        let ThreadOfProcess { tid, start_time_ticks, io_priority: priority, .. } = *thread;
        Self { tid, start_time_ticks, priority }
    }
}

/// What the foreground did in several samples.
#[derive(Debug, Clone, Copy, Default)]
struct ForegroundTotals {
    samples: u32,
    wall: Duration,
    waited: Duration,
    bytes: u64,
    /// The disks' busy time for bulk processes.
    bulk: Duration,
}

impl ForegroundTotals {
    fn share(part: Duration, wall: Duration) -> f64 {
        if wall.is_zero() { 0.0 } else { (part.as_secs_f64() / wall.as_secs_f64()).min(1.0) }
    }

    fn gain_bound(&self) -> f64 {
        Self::share(self.waited.min(self.bulk), self.wall)
    }

    /// The waiting time as a fraction of the time `before`; per byte where it moved bytes in both periods.
    fn wait_ratio(&self, before: &Self) -> f64 {
        let per = |foreground: &Self, bytes: u64| foreground.waited.as_secs_f64() / bytes as f64;
        let (now, then) = match (self.bytes, before.bytes) {
            (0, _) | (_, 0) => (Self::share(self.waited, self.wall), Self::share(before.waited, before.wall)),
            (bytes, bytes_before) => (per(self, bytes), per(before, bytes_before)),
        };
        now / then.max(f64::MIN_POSITIVE)
    }
}

impl AddAssign for ForegroundTotals {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.wall += other.wall;
        self.waited += other.waited;
        self.bytes += other.bytes;
        self.bulk += other.bulk;
    }
}

/// The activity in `wall` between two samples, and the bulk processes that are not in `foreground`.
fn between(
    before: &StorageSample,
    now: &StorageSample,
    wall: Duration,
    foreground: &BTreeSet<u32>,
) -> (ForegroundTotals, Vec<ProcessIdentity>) {
    let moved = |(life, bytes): (&ProcessIdentity, &u64)| Some((*life, bytes.saturating_sub(*before.moved.get(life)?)));
    let moved: Vec<(ProcessIdentity, u64)> = now.moved.iter().filter_map(moved).collect();
    let sum = |is_meant: &dyn Fn(&(ProcessIdentity, u64)) -> bool| -> u64 {
        moved.iter().filter(|moved| is_meant(moved)).map(|(_, bytes)| bytes).sum()
    };
    let (is_foreground, all) = (|(life, _): &(ProcessIdentity, u64)| foreground.contains(&life.pid), sum(&|_| true));
    let least = (BULK_BYTES_PER_S * wall.as_secs_f64()).max(BULK_SHARE * all as f64);
    let is_bulk = |moved: &(ProcessIdentity, u64)| !is_foreground(moved) && moved.1 as f64 >= least;
    let busy = now.busy.saturating_sub(before.busy).min(wall);
    let foreground = ForegroundTotals {
        samples: 1,
        wall,
        waited: now.waited.saturating_sub(before.waited),
        bytes: sum(&is_foreground),
        bulk: busy.mul_f64(sum(&is_bulk) as f64 / all.max(1) as f64),
    };
    (foreground, moved.iter().filter(|moved| is_bulk(moved)).map(|(life, _)| *life).collect())
}

/// The result of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedTrial {
    pub has_helped: bool,
    /// By how much the foreground waited less, as it was judged.
    pub effect_percent: f64,
}

#[derive(Debug)]
struct Held {
    since: BootTime,
    /// The baseline, until the trial is judged.
    before: Option<ForegroundTotals>,
    /// The deprioritised processes, with the threads and children that they have created since.
    bulk: BTreeMap<ProcessIdentity, BTreeSet<Kin>>,
}

/// The policy for storage contention.
#[derive(Debug)]
pub struct StoragePolicy {
    minimum_gain: f64,
    lowest: IoPriority,
    /// The foreground's waiting time at the last query.
    waited: Option<(BootTime, Duration)>,
    last: Option<(BootTime, StorageSample)>,
    seen: ForegroundTotals,
    held: Option<Held>,
    leases: LeaseSet,
    back_off: BackOff<()>,
    judged: Option<JudgedTrial>,
}

impl StoragePolicy {
    /// A policy that lowers priorities to `lowest` where `minimum_gain_percent` could be gained.
    pub fn new(minimum_gain_percent: f64, lowest: IoPriority) -> Self {
        Self {
            minimum_gain: minimum_gain_percent / 100.0,
            lowest,
            waited: None,
            last: None,
            seen: ForegroundTotals::default(),
            held: None,
            leases: LeaseSet::default(),
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
            judged: None,
        }
    }

    /// True when all processes should be sampled: some are deprioritised, or the foreground has waited enough since the last
    /// query. `waited` is its total waiting time.
    pub fn wants_sample(&mut self, now: BootTime, waited: Duration) -> bool {
        let before = self.waited.replace((now, waited));
        let share =
            before.map_or(0.0, |(at, before)| ForegroundTotals::share(waited.saturating_sub(before), now.since(at)));
        let wants = self.held.is_some() || share >= self.minimum_gain && self.back_off.allows(now, ());
        if !wants {
            (self.last, self.seen) = (None, ForegroundTotals::default());
        }
        wants
    }

    /// Restores everything and drops what was learned: the foreground has changed or has gone.
    pub fn reset(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.release(why, decisions);
        (self.waited, self.last) = (None, None);
        self.back_off.clear();
    }

    /// Takes a sample; returns the processes to deprioritise from now on.
    pub fn take(
        &mut self,
        now: BootTime,
        sample: StorageSample,
        foreground: &BTreeSet<u32>,
        decisions: &mut Vec<Decision>,
    ) -> Vec<ProcessIdentity> {
        self.restore_orphans(&sample, decisions);
        let Some((at, before)) = self.last.replace((now, sample)) else { return Vec::new() };
        let Some((_, sample)) = &self.last else { return Vec::new() };
        let wall = now.since(at);
        if wall > MAXIMUM_SAMPLE_GAP || wall.is_zero() {
            self.seen = ForegroundTotals::default();
            return Vec::new();
        }
        let (seen, bulk) = between(&before, sample, wall, foreground);
        self.seen += seen;
        if self.seen.samples < EVIDENCE {
            return Vec::new();
        }
        let seen = std::mem::take(&mut self.seen);
        if self.held.is_some() {
            self.judge(now, &seen, decisions);
            return Vec::new();
        }
        if seen.gain_bound() < self.minimum_gain || !self.back_off.allows(now, ()) || bulk.is_empty() {
            return Vec::new();
        }
        let childless = bulk.iter().map(|life| (*life, BTreeSet::new())).collect();
        self.held = Some(Held { since: now, before: Some(seen), bulk: childless });
        bulk
    }

    /// Lowers the priority of `threads` of these processes, except threads that are already that low or have real-time class.
    pub fn lower_priorities(&mut self, now: BootTime, threads: &[StorageThread], decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let gain = held.before.map_or(0.0, |before| before.gain_bound());
        let reason = format!("the foreground could save {:.0} % of its time, now waiting for storage", gain * 100.0);
        for thread in threads {
            let is_lower = match thread.priority.class {
                IoClass::None => true,
                IoClass::BestEffort => self.lowest.class == IoClass::Idle || thread.priority.data < self.lowest.data,
                IoClass::RealTime | IoClass::Idle => false,
            };
            if !is_lower {
                continue;
            }
            let target = Target::IoPriority { tid: thread.tid, start_time_ticks: thread.start_time_ticks };
            self.leases.lease(now, (&target, &self.lowest.to_string()), now + LEASE, &reason, decisions);
        }
        self.end_ineffective_trial(now);
    }

    /// Takes the outcomes of its decisions: where no thread's priority was lowered, the trial is over.
    pub fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome]) {
        outcomes.iter().for_each(|outcome| self.leases.take(now, outcome));
        self.end_ineffective_trial(now);
    }

    fn end_ineffective_trial(&mut self, now: BootTime) {
        if self.leases.is_empty() && self.held.take().is_some() {
            self.back_off.add(now, ());
        }
    }

    /// Notes the threads and children that process `of` has created since it was deprioritised: they inherit its priority.
    pub fn note_kin(&mut self, of: ProcessIdentity, kin: impl IntoIterator<Item = Kin>) {
        if let Some(known) = self.held.as_mut().and_then(|held| held.bulk.get_mut(&of)) {
            known.extend(kin);
        }
    }

    /// The deprioritised processes, and since when: their new threads and children are to be queried.
    pub fn parents(&self) -> impl Iterator<Item = (ProcessIdentity, BootTime)> {
        self.held.iter().flat_map(|held| held.bulk.keys().map(|life| (*life, held.since)))
    }

    fn judge(&mut self, now: BootTime, seen: &ForegroundTotals, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let (since, ratio) = (held.since, held.before.take().map(|before| seen.wait_ratio(&before)));
        self.judged = ratio.map(|ratio| JudgedTrial {
            has_helped: ratio <= MAXIMUM_WAIT_RATIO,
            effect_percent: (1.0 - ratio) * 100.0,
        });
        match ratio {
            Some(ratio) if ratio > MAXIMUM_WAIT_RATIO => {
                let cost = ratio * 100.0;
                self.release(
                    &format!("it did not help: the foreground waits {cost:.0} % as long as before"),
                    decisions,
                );
                self.back_off.add(now, ());
            }
            Some(_) => self.back_off.reset(()),
            None if now.since(since) >= REEVALUATE_AFTER => self.release("expired: to be chosen again", decisions),
            None => {}
        }
        if self.held.as_ref().is_some_and(|held| held.bulk.is_empty()) {
            self.release("the deprioritised processes have exited", decisions);
        }
    }

    /// The result of a trial that has ended since the last call.
    pub fn take_judged(&mut self) -> Option<JudgedTrial> {
        self.judged.take()
    }

    /// Restores the default priority of threads and children of a deprioritised process that has exited.
    fn restore_orphans(&mut self, sample: &StorageSample, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let inherited = self.lowest.to_string();
        held.bulk.retain(|life, kin| {
            let is_there = sample.moved.contains_key(life);
            for Kin { tid, start_time_ticks } in kin.iter().filter(|_| !is_there) {
                let target = Target::IoPriority { tid: *tid, start_time_ticks: *start_time_ticks };
                let original = IoPriority { class: IoClass::None, data: 0 }.to_string();
                let action = Action::Disinherit { target, inherited: inherited.clone(), original };
                decisions.push(Decision { action, reason: "inherited from a process that has exited".to_owned() });
            }
            is_there
        });
    }

    fn release(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.seen = ForegroundTotals::default();
        self.held = None;
        self.leases.release_where(why, decisions, |_| true);
    }
}

#[cfg(test)]
mod tests;
