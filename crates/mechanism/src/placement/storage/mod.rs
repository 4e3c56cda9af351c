//! Who in the background moves so much from and to storage that the foreground waits for it, and gives way for a while: the
//! gain bound and the trial that CPUs have, for storage. Pure.
//!
//! Most a foreground can win is what it waits, and no more than the disks were busy for others. A reader that waits less
//! reads more, so whether it helped is told by what it waits for each byte.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::AddAssign;
use std::time::Duration;

use super::back_off::BackOff;
use crate::contract::facts::ThreadOfProcess;
use crate::{Action, Decision, Holdings, Outcome};
use brisk_sys::io::io_priority::{IoClass, IoPriority};
use brisk_sys::process::Life;
use brisk_sys::process::kinship::Kin;
use brisk_sys::{BootTime, Target};

/// How often storage is sampled while there is a foreground.
pub const SAMPLING_PERIOD: Duration = Duration::from_secs(1);
/// A sample that comes later than this says nothing of what happens now.
const FRESH: Duration = Duration::from_secs(3);
/// Looks that are evidence, and that a trial lasts.
const EVIDENCE: u32 = 3;
/// Who gives way moves at least this share of everything, and this much in a second.
const BULK_SHARE: f64 = 0.3;
const BULK_BYTES_PER_S: f64 = 1024.0 * 1024.0;
/// A trial has helped when the foreground waits at most this part of what it waited.
const HELPS: f64 = 0.8;
/// What helps is chosen again after this long; leases last a little longer, for the case that the daemon hangs.
const CHOSEN_FOR: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(90);
/// What did not help is tried again after this long, then after twice as long each time up to the longest.
const BACK_OFF: Duration = Duration::from_secs(10);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(600);

/// What was seen at one moment, all counted since boot.
#[derive(Debug, Clone, Default)]
pub struct StorageSample {
    /// How long some foreground task has waited for storage.
    pub waited: Duration,
    /// How long disks were busy, each for itself.
    pub busy: Duration,
    /// Bytes that each process has moved.
    pub moved: BTreeMap<Life, u64>,
}

/// A thread that could give way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageThread {
    /// Its number.
    pub tid: u32,
    /// Field 22 of /proc/TID/stat.
    pub start_time_ticks: u64,
    /// How it ranks now.
    pub priority: IoPriority,
}

impl StorageThread {
    pub(super) fn of(thread: &ThreadOfProcess) -> Self {
        let ThreadOfProcess { tid, start_time_ticks, io_priority: priority, .. } = *thread;
        Self { tid, start_time_ticks, priority }
    }
}

/// What the foreground did in some looks.
#[derive(Debug, Clone, Copy, Default)]
struct Front {
    samples: u32,
    wall: Duration,
    waited: Duration,
    bytes: u64,
    /// How long disks were busy for those who could give way.
    bulk: Duration,
}

impl Front {
    fn share(part: Duration, wall: Duration) -> f64 {
        if wall.is_zero() { 0.0 } else { (part.as_secs_f64() / wall.as_secs_f64()).min(1.0) }
    }

    fn gain_bound(&self) -> f64 {
        Self::share(self.waited.min(self.bulk), self.wall)
    }

    /// What it waits now of what it waited `before`, for each byte where it moved any in both.
    fn cost_since(&self, before: &Self) -> f64 {
        let per = |front: &Self, bytes: u64| front.waited.as_secs_f64() / bytes as f64;
        let (now, then) = match (self.bytes, before.bytes) {
            (0, _) | (_, 0) => (Self::share(self.waited, self.wall), Self::share(before.waited, before.wall)),
            (bytes, bytes_before) => (per(self, bytes), per(before, bytes_before)),
        };
        now / then.max(f64::MIN_POSITIVE)
    }
}

impl AddAssign for Front {
    fn add_assign(&mut self, other: Self) {
        self.samples += other.samples;
        self.wall += other.wall;
        self.waited += other.waited;
        self.bytes += other.bytes;
        self.bulk += other.bulk;
    }
}

/// What happened in `wall` between two looks, and who beside those in `front` moved so much that he could give way.
fn between(before: &StorageSample, now: &StorageSample, wall: Duration, front: &BTreeSet<u32>) -> (Front, Vec<Life>) {
    let moved = |(life, bytes): (&Life, &u64)| Some((*life, bytes.saturating_sub(*before.moved.get(life)?)));
    let moved: Vec<(Life, u64)> = now.moved.iter().filter_map(moved).collect();
    let sum = |is_meant: &dyn Fn(&(Life, u64)) -> bool| -> u64 {
        moved.iter().filter(|moved| is_meant(moved)).map(|(_, bytes)| bytes).sum()
    };
    let (is_front, all) = (|(life, _): &(Life, u64)| front.contains(&life.pid), sum(&|_| true));
    let least = (BULK_BYTES_PER_S * wall.as_secs_f64()).max(BULK_SHARE * all as f64);
    let is_bulk = |moved: &(Life, u64)| !is_front(moved) && moved.1 as f64 >= least;
    let busy = now.busy.saturating_sub(before.busy).min(wall);
    let front = Front {
        samples: 1,
        wall,
        waited: now.waited.saturating_sub(before.waited),
        bytes: sum(&is_front),
        bulk: busy.mul_f64(sum(&is_bulk) as f64 / all.max(1) as f64),
    };
    (front, moved.iter().filter(|moved| is_bulk(moved)).map(|(life, _)| *life).collect())
}

#[derive(Debug)]
struct Held {
    since: BootTime,
    /// What was seen before, until it is known whether it helps.
    before: Option<Front>,
    /// The processes that give way, with all that they have started since.
    bulk: BTreeMap<Life, BTreeSet<Kin>>,
}

/// Its state.
#[derive(Debug)]
pub struct StoragePolicy {
    least_gain: f64,
    lowest: IoPriority,
    /// What the foreground had waited when that was asked last.
    waited: Option<(BootTime, Duration)>,
    last: Option<(BootTime, StorageSample)>,
    seen: Front,
    held: Option<Held>,
    leases: Holdings,
    back_off: BackOff<()>,
}

impl StoragePolicy {
    /// A policy that acts where `least_gain_percent` could be won, by the priority `lowest`.
    pub fn new(least_gain_percent: f64, lowest: IoPriority) -> Self {
        Self {
            least_gain: least_gain_percent / 100.0,
            lowest,
            waited: None,
            last: None,
            seen: Front::default(),
            held: None,
            leases: Holdings::default(),
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
        }
    }

    /// True when all processes should be sampled: one of them gives way, or the foreground, which has `waited` so long in all,
    /// has waited enough for it since it was asked last.
    pub fn wants_sample(&mut self, now: BootTime, waited: Duration) -> bool {
        let before = self.waited.replace((now, waited));
        let share = before.map_or(0.0, |(at, before)| Front::share(waited.saturating_sub(before), now.since(at)));
        let wants = self.held.is_some() || share >= self.least_gain && self.back_off.allows(now, ());
        if !wants {
            (self.last, self.seen) = (None, Front::default());
        }
        wants
    }

    /// Gives everything back and forgets what was learned: the foreground is another, or there is none.
    pub fn begin_again(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.release(why, decisions);
        (self.waited, self.last) = (None, None);
        self.back_off.clear();
    }

    /// Takes a sample; returns the processes that are to give way from now on.
    pub fn take(
        &mut self,
        now: BootTime,
        sample: StorageSample,
        front: &BTreeSet<u32>,
        decisions: &mut Vec<Decision>,
    ) -> Vec<Life> {
        self.free_orphans(&sample, decisions);
        let Some((at, before)) = self.last.replace((now, sample)) else { return Vec::new() };
        let Some((_, sample)) = &self.last else { return Vec::new() };
        let wall = now.since(at);
        if wall > FRESH || wall.is_zero() {
            self.seen = Front::default();
            return Vec::new();
        }
        let (seen, bulk) = between(&before, sample, wall, front);
        self.seen += seen;
        if self.seen.samples < EVIDENCE {
            return Vec::new();
        }
        let seen = std::mem::take(&mut self.seen);
        if self.held.is_some() {
            self.judge(now, &seen, decisions);
            return Vec::new();
        }
        if seen.gain_bound() < self.least_gain || !self.back_off.allows(now, ()) || bulk.is_empty() {
            return Vec::new();
        }
        let childless = bulk.iter().map(|life| (*life, BTreeSet::new())).collect();
        self.held = Some(Held { since: now, before: Some(seen), bulk: childless });
        bulk
    }

    /// Makes `threads` of those processes give way; a thread that ranks as low already, or that another program put first, stays.
    pub fn make_way(&mut self, now: BootTime, threads: &[StorageThread], decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let gain = held.before.map_or(0.0, |before| before.gain_bound());
        let reason = format!("the foreground could be spared {:.0} % of its time, waiting for storage", gain * 100.0);
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
        self.end_in_vain(now);
    }

    /// Takes what became of its decisions: where no thread's priority was lowered, the trial is over.
    pub fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome]) {
        outcomes.iter().for_each(|outcome| self.leases.take(now, outcome));
        self.end_in_vain(now);
    }

    fn end_in_vain(&mut self, now: BootTime) {
        if self.leases.is_empty() && self.held.take().is_some() {
            self.back_off.add(now, ());
        }
    }

    /// Notes who has come to be of the process `of` since it gave way: they rank as it does.
    pub fn note_kin(&mut self, of: Life, kin: impl IntoIterator<Item = Kin>) {
        if let Some(known) = self.held.as_mut().and_then(|held| held.bulk.get_mut(&of)) {
            known.extend(kin);
        }
    }

    /// Processes whose kin is to be noted.
    pub fn parents(&self) -> impl Iterator<Item = (Life, BootTime)> {
        self.held.iter().flat_map(|held| held.bulk.keys().map(|life| (*life, held.since)))
    }

    fn judge(&mut self, now: BootTime, seen: &Front, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        match held.before.take() {
            Some(before) if seen.cost_since(&before) > HELPS => {
                let cost = seen.cost_since(&before) * 100.0;
                self.release(
                    &format!("it did not help: the foreground waits {cost:.0} % of what it waited"),
                    decisions,
                );
                self.back_off.add(now, ());
            }
            Some(_) => self.back_off.forgive(()),
            None if now.since(held.since) >= CHOSEN_FOR => self.release("chosen again after a while", decisions),
            None => {}
        }
        if self.held.as_ref().is_some_and(|held| held.bulk.is_empty()) {
            self.release("the processes that gave way have ended", decisions);
        }
    }

    /// A process that was started by one that gave way, which has ended since, ranks as all others do.
    fn free_orphans(&mut self, sample: &StorageSample, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let inherited = self.lowest.to_string();
        held.bulk.retain(|life, kin| {
            let is_there = sample.moved.contains_key(life);
            for Kin { tid, start_time_ticks } in kin.iter().filter(|_| !is_there) {
                let target = Target::IoPriority { tid: *tid, start_time_ticks: *start_time_ticks };
                let original = IoPriority { class: IoClass::None, data: 0 }.to_string();
                let action = Action::Disinherit { target, inherited: inherited.clone(), original };
                decisions.push(Decision { action, reason: "who made it has ended".to_owned() });
            }
            is_there
        });
    }

    fn release(&mut self, why: &str, decisions: &mut Vec<Decision>) {
        self.seen = Front::default();
        self.held = None;
        self.leases.release_where(why, decisions, |_| true);
    }
}

#[cfg(test)]
mod tests;
