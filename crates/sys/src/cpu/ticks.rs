//! The processor's own counter: the cheapest clock, and an instruction counter in the lab's deterministic mode.

use std::time::Instant;

/// The unit of a tick on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TickUnit {
    /// One instruction, as counted by an emulator.
    Instructions,
    /// One nanosecond, after division by [`Ticks::per_unit`].
    Nanoseconds,
}

impl TickUnit {
    /// The label after a figure.
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
    /// The unit.
    pub unit: TickUnit,
    /// Ticks of the counter per unit.
    pub per_unit: f64,
}

/// The counter now (`rdtsc`, `cntvct_el0`); nanoseconds where there is none.
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

/// Turns of [`two_instructions`] in one calibration run.
const TURNS: u64 = 50_000;
/// An instruction counter may include an interrupt's instructions.
const TOLERANCE: f64 = 0.02;

impl Ticks {
    /// Determines what a tick is by running a known number of instructions, for at most some milliseconds.
    pub fn calibrate() -> Self {
        let trial = || {
            let start = now();
            two_instructions(TURNS);
            now().wrapping_sub(start)
        };
        // A disturbance only makes a trial longer.
        let fastest = (0..5).map(|_| trial()).min().unwrap_or(0);
        let instructions = (2 * TURNS) as f64;
        let ratio = fastest as f64 / instructions;
        // An emulator counts in powers of two; on real processors the ratio is any number.
        let shift = ratio.log2().round();
        if (ratio / shift.exp2() - 1.0).abs() < TOLERANCE
            && (0.0..=10.0).contains(&shift)
            && is_repeatable(&trial, fastest)
        {
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

/// True when most trials take the same number of ticks, give or take 8: no real processor does that.
fn is_repeatable(trial: &dyn Fn() -> u64, fastest: u64) -> bool {
    (0..8).filter(|_| trial().abs_diff(fastest) <= 8).count() >= 5
}

/// Executes twice as many instructions as `turns`, which must not be zero.
#[cfg(target_arch = "x86_64")]
fn two_instructions(turns: u64) {
    // SAFETY: counts a register down; touches no memory.
    unsafe { core::arch::asm!("2:", "dec {turns}", "jnz 2b", turns = inout(reg) turns => _, options(nomem, nostack)) };
}

/// Executes twice as many instructions as `turns`, which must not be zero.
#[cfg(target_arch = "aarch64")]
fn two_instructions(turns: u64) {
    // SAFETY: counts a register down; touches no memory.
    unsafe {
        core::arch::asm!("2:", "subs {turns}, {turns}, #1", "b.ne 2b", turns = inout(reg) turns => _, options(nomem, nostack));
    }
}

/// Some work with an unknown number of instructions: no emulator of such a machine counts them.
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
