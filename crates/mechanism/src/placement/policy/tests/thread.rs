//! A simulated thread: its load and its scheduler state.

use brisk_sys::process::schedstat::Schedstat;
use brisk_sys::sched::priority::{Priority, SchedulingPolicy};
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Thread;

/// The repeated load of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Habit {
    /// Work at full capacity, in milliseconds; zero is endless.
    pub work_ms: u32,
    /// Sleep after the work.
    pub sleep_ms: u32,
    /// The period between starts of work, independent of its length; zero is off.
    pub period_ms: u32,
}

pub const HOG: Habit = Habit { work_ms: 0, sleep_ms: 0, period_ms: 0 };
pub const FRAMES: Habit = Habit { work_ms: 7, sleep_ms: 0, period_ms: 17 };
pub const MUSIC: Habit = Habit { work_ms: 1, sleep_ms: 0, period_ms: 20 };
pub const DOWNLOAD: Habit = Habit { work_ms: 15, sleep_ms: 25, period_ms: 0 };
/// One of many threads that exchange messages.
pub const MESSAGE: Habit = Habit { work_ms: 1, sleep_ms: 1, period_ms: 0 };

/// The limit of a thread's lag in virtual time, even if its mask kept it from running.
pub(super) const MOST_LAG_MS: f64 = 24.0;
/// A thread keeps its CPU for this long, even if another one wakes.
pub(super) const LEAST_SLICE_MS: u32 = 4;

#[derive(Debug, Clone)]
pub struct SimulatedThread {
    pub thread: Thread,
    pub habit: Habit,
    pub facts: ThreadFacts,
    pub mask: Vec<u32>,
    pub priority: Priority,
    pub(super) counters: Schedstat,
    /// A wait that has not ended, and is not accounted yet.
    pub(super) wait_ns: u64,
    pub(super) reported: Schedstat,
    pub(super) sampled_at: u64,
    pub(super) virtual_time: f64,
    pub(super) work_left: f64,
    pub(super) began_at: u64,
    /// It sleeps until this time.
    pub wakes_at: u64,
    pub(super) ran_last: bool,
    pub(super) ran_at: u64,
    /// How long it has run without a break.
    pub(super) slice_ms: u32,
    pub(super) is_new: bool,
    /// Its group's weight.
    pub group_weight: Option<f64>,
    /// Its run time, scaled to full capacity, in milliseconds.
    pub progress: f64,
    /// The number of finished work items.
    pub finished: u32,
    /// The longest work item, in milliseconds.
    pub slowest_ms: u64,
}

impl SimulatedThread {
    pub fn sleep_until(&mut self, moment_ms: u64) {
        self.wakes_at = moment_ms;
        self.ran_last = false;
    }

    /// Runs for a millisecond.
    pub(super) fn get(&mut self, capacity: u32, now: u64) {
        let weight = match (self.group_weight, self.priority) {
            (Some(weight), _) => weight,
            (None, Priority { policy: SchedulingPolicy::Idle, .. }) => 3.0,
            (None, Priority { nice, .. }) => 1024.0 / 1.25f64.powi(nice),
        };
        self.counters.run_ns += 1_000_000;
        self.counters.wait_ns += std::mem::take(&mut self.wait_ns);
        self.counters.slices += u64::from(!self.ran_last);
        self.virtual_time += 1024.0 / weight;
        self.slice_ms = if self.slice_ms == LEAST_SLICE_MS { 1 } else { self.slice_ms + 1 };
        self.ran_last = true;
        self.ran_at = now;
        let done = f64::from(capacity) / 1024.0;
        self.progress += done;
        if self.habit.work_ms == 0 {
            return;
        }
        self.work_left -= done;
        if self.work_left <= 0.001 {
            self.finished += 1;
            self.slowest_ms = self.slowest_ms.max(now + 1 - self.began_at);
            self.work_left = f64::from(self.habit.work_ms);
            self.wakes_at = match self.habit.period_ms {
                0 => now + 1 + u64::from(self.habit.sleep_ms),
                period => (self.began_at + u64::from(period)).max(now + 1),
            };
            self.began_at = self.wakes_at;
            self.ran_last = false;
            self.slice_ms = 0;
        }
    }
}
