//! The processor's own counter: the cheapest clock there is, and in the lab's deterministic mode an instruction counter.

use std::time::Instant;

/// What a tick is on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TickUnit {
    /// One instruction: an emulator counts them.
    Instructions,
    /// One nanosecond, after division by [`Ticks::per_unit`].
    Nanoseconds,
}

impl TickUnit {
    /// As it stands behind a figure.
    pub fn label(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Nanoseconds => "ns",
        }
    }
}

/// How the counter is read on this machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ticks {
    /// What is counted.
    pub unit: TickUnit,
    /// Ticks of the counter in one of it.
    pub per_unit: f64,
}

/// The counter now (`rdtsc`, `cntvct_el0`); where there is none, nanoseconds.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a register that every x86-64 processor has; Linux leaves it open to programs.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let ticks: u64;
        // SAFETY: reads a register that Linux leaves open to programs; touches no memory.
        unsafe { core::arch::asm!("mrs {ticks}, cntvct_el0", ticks = out(reg) ticks, options(nomem, nostack)) };
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        crate::BootTime::now().nanoseconds()
    }
}

/// Turns of [`two_instructions`] by which the unit is found out.
const TURNS: u64 = 50_000;
/// A counter of instructions may be off by an interrupt's.
const TOLERANCE: f64 = 0.02;

impl Ticks {
    /// Finds out what a tick is: work of a known number of instructions is run, at most some milliseconds.
    pub fn calibrate() -> Self {
        let trial = || {
            let start = now();
            two_instructions(TURNS);
            now().wrapping_sub(start)
        };
        // What disturbs a trial only makes it longer.
        let fastest = (0..5).map(|_| trial()).min().unwrap_or(0);
        let instructions = (2 * TURNS) as f64;
        let ratio = fastest as f64 / instructions;
        // An emulator counts in powers of two; on real processors the ratio is any number.
        let shift = ratio.log2().round();
        if (ratio / shift.exp2() - 1.0).abs() < TOLERANCE && (0.0..=10.0).contains(&shift) && repeats(&trial, fastest) {
            return Self { unit: TickUnit::Instructions, per_unit: shift.exp2() };
        }
        let (wall, start) = (Instant::now(), now());
        while wall.elapsed().as_millis() < 10 {
            two_instructions(TURNS);
        }
        let per_unit = now().wrapping_sub(start) as f64 / wall.elapsed().as_nanos() as f64;
        Self { unit: TickUnit::Nanoseconds, per_unit }
    }

    /// `ticks` in [`Ticks::unit`].
    pub fn of(&self, ticks: u64) -> f64 {
        ticks as f64 / self.per_unit
    }
}

/// True when most trials take the same number of ticks, to a few: no real processor's do.
fn repeats(trial: &dyn Fn() -> u64, fastest: u64) -> bool {
    (0..8).filter(|_| trial().abs_diff(fastest) <= 8).count() >= 5
}

/// Twice as many instructions as `turns`, which must not be zero.
#[cfg(target_arch = "x86_64")]
fn two_instructions(turns: u64) {
    // SAFETY: counts a register down; touches no memory.
    unsafe { core::arch::asm!("2:", "dec {turns}", "jnz 2b", turns = inout(reg) turns => _, options(nomem, nostack)) };
}

/// Twice as many instructions as `turns`, which must not be zero.
#[cfg(target_arch = "aarch64")]
fn two_instructions(turns: u64) {
    // SAFETY: counts a register down; touches no memory.
    unsafe {
        core::arch::asm!("2:", "subs {turns}, {turns}, #1", "b.ne 2b", turns = inout(reg) turns => _, options(nomem, nostack));
    }
}

/// Some work; how many instructions it is is not known, and no emulator of such a machine counts them.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn two_instructions(turns: u64) {
    for turn in 0..turns {
        std::hint::black_box(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_machine_counts_time_and_agrees_with_the_clock() {
        let ticks = Ticks::calibrate();
        assert_eq!(ticks.unit, TickUnit::Nanoseconds, "{ticks:?}");
        let (wall, start) = (Instant::now(), now());
        std::thread::sleep(std::time::Duration::from_millis(20));
        let (measured, expected) = (ticks.of(now() - start), wall.elapsed().as_nanos() as f64);
        assert!((measured / expected - 1.0).abs() < 0.05, "{measured} ns by the counter, {expected} by the clock");
    }
}
