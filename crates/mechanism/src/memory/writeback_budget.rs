//! The daily budget of writes to flash, kept across runs: pure, the time is passed in.
//!
//! A write is charged before it happens, so a process that dies in between has spent it. A day is 24 hours of the time since
//! boot, which no process can set; only the time between two boots is taken from the wall clock. The record usually lies on
//! flash itself, so writing it is charged as well.

use serde::{Deserialize, Serialize};

use crate::StateFileSpec;
use brisk_sys::BootTime;

/// The state file.
pub const FILE: StateFileSpec = StateFileSpec {
    name: "memory-wear.json",
    what: "the write-back record",
    if_damaged: "nothing is written back until it is removed",
    is_durable: true,
};
/// The number of the state file's format.
const VERSION: u32 = 1;
const DAY_S: u64 = 24 * 60 * 60;
/// The most that saving the record once writes, the journal of its file system included: 65 KiB with ext4.
pub const RECORD_KIB: u64 = 96;

/// The time, comparable across boots.
#[derive(Debug, Clone, Copy)]
pub struct Clock<'a> {
    /// Identifies the boot.
    pub boot: &'a str,
    /// Time since boot.
    pub now: BootTime,
    /// Seconds since 1970, by the device's clock.
    pub wall_s: u64,
}

/// The amounts written, kept as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritebackBudget {
    version: u32,
    /// Written or reserved within this day.
    pub today_kib: u64,
    /// Written since the first day.
    pub total_kib: u64,
    /// How much of the day had passed at the time below.
    passed_s: u64,
    boot: String,
    uptime_s: u64,
    wall_s: u64,
}

impl Default for WritebackBudget {
    fn default() -> Self {
        let (boot, version) = (String::new(), VERSION);
        Self { version, today_kib: 0, total_kib: 0, passed_s: 0, boot, uptime_s: 0, wall_s: 0 }
    }
}

impl WritebackBudget {
    /// Reads a state file; `None` when it is damaged or of another version.
    pub fn parse(text: &str) -> Option<Self> {
        let state: Self = serde_json::from_slice(text.as_bytes()).ok()?;
        (state.version == VERSION && state.today_kib <= state.total_kib).then_some(state)
    }

    /// The text of the state file.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The rest of a day's `daily_kib`.
    pub fn left_kib(&mut self, clock: Clock<'_>, daily_kib: u64) -> u64 {
        self.advance_clock(clock);
        daily_kib.saturating_sub(self.today_kib)
    }

    /// Reserves up to `wanted_kib` of that, and the cost of saving the record. Returns how much may be written; when that is
    /// zero, nothing is reserved.
    pub fn reserve(&mut self, clock: Clock<'_>, daily_kib: u64, wanted_kib: u64) -> u64 {
        let granted_kib = wanted_kib.min(self.left_kib(clock, daily_kib).saturating_sub(RECORD_KIB));
        if granted_kib > 0 {
            self.spend(granted_kib + RECORD_KIB);
        }
        granted_kib
    }

    fn spend(&mut self, kib: u64) {
        self.today_kib += kib;
        self.total_kib = self.total_kib.saturating_add(kib);
    }

    /// Returns to the budget what was reserved and not written.
    pub fn refund(&mut self, kib: u64) {
        self.today_kib = self.today_kib.saturating_sub(kib);
        self.total_kib = self.total_kib.saturating_sub(kib);
    }

    /// True when more was returned since `kept`, the saved record, than saving it again costs; that cost is then charged.
    pub fn settle(&mut self, kept: &Self) -> bool {
        let is_worth_it = kept.today_kib.saturating_sub(self.today_kib) > RECORD_KIB;
        if is_worth_it {
            self.spend(RECORD_KIB);
        }
        is_worth_it
    }

    fn advance_clock(&mut self, clock: Clock<'_>) {
        let uptime_s = clock.now.since(BootTime::default()).as_secs();
        let passed_s = match self.boot.as_str() {
            "" => 0,
            boot if boot == clock.boot => uptime_s.saturating_sub(self.uptime_s),
            _ => clock.wall_s.saturating_sub(self.wall_s),
        };
        self.passed_s = self.passed_s.saturating_add(passed_s);
        if self.passed_s >= DAY_S {
            (self.passed_s, self.today_kib) = (0, 0);
        }
        (self.uptime_s, self.wall_s) = (uptime_s, clock.wall_s);
        if self.boot != clock.boot {
            clock.boot.clone_into(&mut self.boot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAILY_KIB: u64 = 1000;

    fn clock(boot: &str, uptime_s: u64, wall_s: u64) -> Clock<'_> {
        Clock { boot, now: BootTime::from_milliseconds(uptime_s * 1000), wall_s }
    }

    // Verifies MEMORY-6.
    #[test]
    fn grants_at_most_a_days_budget_and_a_new_one_the_next_day() {
        let mut wear = WritebackBudget::default();
        for (uptime_s, wanted_kib, granted_kib) in [
            (50, 600, 600),
            (51, 600, 400 - 2 * RECORD_KIB),
            (52, 1, 0),
            (49 + DAY_S, 1, 0),
            (50 + DAY_S, 1200, 1000 - RECORD_KIB),
            (51 + 2 * DAY_S, 0, 0),
            (52 + 2 * DAY_S, 7, 7),
        ] {
            assert_eq!(wear.reserve(clock("a", uptime_s, 0), DAILY_KIB, wanted_kib), granted_kib, "{uptime_s}");
        }
        assert_eq!((wear.today_kib, wear.total_kib), (7 + RECORD_KIB, 2 * DAILY_KIB + 7 + RECORD_KIB));
        wear.refund(5);
        assert_eq!((wear.today_kib, wear.total_kib), (2 + RECORD_KIB, 2 * DAILY_KIB + 2 + RECORD_KIB));
    }

    // Verifies MEMORY-6.
    #[test]
    fn a_returned_amount_is_saved_when_that_is_worth_it() {
        for (given_back_kib, today_kib) in [(RECORD_KIB, 500), (RECORD_KIB + 4, 500 + RECORD_KIB - 4)] {
            let mut wear = WritebackBudget::default();
            wear.reserve(clock("a", 50, 0), DAILY_KIB, 500);
            let kept = wear.clone();
            wear.refund(given_back_kib);
            assert_eq!(wear.settle(&kept), given_back_kib > RECORD_KIB);
            assert_eq!((wear.today_kib, wear.total_kib), (today_kib, today_kib), "{given_back_kib}");
        }
    }

    // Verifies MEMORY-6.
    #[test]
    fn a_wall_clock_jump_starts_no_day_while_the_device_runs() {
        let mut wear = WritebackBudget::default();
        for wall_s in [1_000_000, 90 * DAY_S, 0, u64::MAX, 1_000_000] {
            wear.reserve(clock("a", 50, wall_s), DAILY_KIB, DAILY_KIB);
            assert_eq!((wear.today_kib, wear.total_kib), (DAILY_KIB, DAILY_KIB), "{wall_s}");
        }
    }

    // Verifies MEMORY-6.
    #[test]
    fn between_boots_the_wall_clock_is_used_unless_it_went_back() {
        let whole = DAILY_KIB - RECORD_KIB;
        for (wall_s, granted_kib) in [(0, 0), (999, 0), (1000 + DAY_S - 61, 0), (1000 + DAY_S - 60, whole)] {
            let mut wear = WritebackBudget::default();
            wear.reserve(clock("a", 40, 940), DAILY_KIB, 600);
            wear.reserve(clock("a", 100, 1000), DAILY_KIB, 400);
            let mut wear = WritebackBudget::parse(&wear.to_text()).unwrap();
            assert_eq!(wear.reserve(clock("b", 5, wall_s), DAILY_KIB, DAILY_KIB), granted_kib, "{wall_s}");
        }
    }

    #[test]
    fn a_smaller_budget_holds_at_once_and_none_grants_nothing() {
        let mut wear = WritebackBudget::default();
        wear.reserve(clock("a", 1, 0), DAILY_KIB, 600);
        assert_eq!(wear.reserve(clock("a", 2, 0), 500, 10), 0);
        assert_eq!(wear.reserve(clock("a", 2, 0), 0, u64::MAX), 0);
        assert_eq!(wear.today_kib, 600 + RECORD_KIB);
    }

    #[test]
    fn damaged_text_is_refused() {
        let mut wear = WritebackBudget::default();
        wear.reserve(clock("a", 1, 0), DAILY_KIB, 60);
        let total = |kib| format!("\"total_kib\":{}", RECORD_KIB + kib);
        let text = wear.to_text();
        assert_eq!(WritebackBudget::parse(&text), Some(wear));
        for damaged in [
            "",
            "{}",
            &text[..text.len() - 2],
            &text.replace("\"version\":1", "\"version\":2"),
            &text.replace(&total(60), &total(59)),
            &text.replace("\"today_kib\":", "\"today_kib\":-"),
        ] {
            assert_eq!(WritebackBudget::parse(damaged), None, "{damaged}");
        }
    }
}
