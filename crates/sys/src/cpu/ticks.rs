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

/// Instructions of one calibration run.
const INSTRUCTIONS: u64 = 100_000;
/// An instruction counter may include an interrupt's instructions.
const TOLERANCE: f64 = 0.02;

impl Ticks {
    /// Determines what a tick is by running a known number of instructions, for at most some milliseconds.
    pub fn calibrate() -> Self {
        if !HAS_COUNTER {
            return Self { unit: TickUnit::Nanoseconds, per_unit: 1.0 };
        }
        let ticks_per_instruction = |run: &dyn Fn()| {
            let trial = || {
                let start = now();
                run();
                now().wrapping_sub(start)
            };
            // A disturbance only makes a trial longer.
            (0..5).map(|_| trial()).min().unwrap_or(0) as f64 / INSTRUCTIONS as f64
        };
        let short = ticks_per_instruction(&|| two_instructions(INSTRUCTIONS / 2));
        let long = ticks_per_instruction(&|| four_products(INSTRUCTIONS / 6));
        if let Some(per_unit) = per_instruction(short, long) {
            return Self { unit: TickUnit::Instructions, per_unit };
        }
        let (wall, start) = (Instant::now(), now());
        while wall.elapsed().as_millis() < 10 {
            two_instructions(INSTRUCTIONS / 2);
        }
        let per_unit = now().wrapping_sub(start) as f64 / wall.elapsed().as_nanos() as f64;
        Self { unit: TickUnit::Nanoseconds, per_unit }
    }

    /// `ticks` in [`Ticks::unit`].
    pub fn of(&self, ticks: u64) -> f64 {
        ticks as f64 / self.per_unit
    }
}

/// The ticks of an instruction on a counter of instructions, from those of an instruction with a `short` and with a `long`
/// latency; `None` on a counter of time. An emulator counts all instructions alike, in powers of two: in parts of a tick, if its
/// counter is slow. To a real processor a chain of products takes several times as long.
fn per_instruction(short: f64, long: f64) -> Option<f64> {
    let is_near = |found: f64, expected: f64| (found / expected - 1.0).abs() < TOLERANCE;
    let shift = short.log2().round();
    (is_near(short, shift.exp2()) && (-10.0..=10.0).contains(&shift) && is_near(long, short)).then(|| shift.exp2())
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const HAS_COUNTER: bool = true;
/// 32-bit ARM's counter is not readable on each kernel, and no scenario of the lab has such a machine.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const HAS_COUNTER: bool = false;

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

/// Executes six times as many instructions as `turns`, which must not be zero; of each six, four need the product before.
#[cfg(target_arch = "x86_64")]
fn four_products(turns: u64) {
    // SAFETY: changes two registers; touches no memory.
    unsafe {
        core::arch::asm!(
            "2:", "imul {product}, {product}", "imul {product}, {product}", "imul {product}, {product}",
            "imul {product}, {product}", "dec {turns}", "jnz 2b",
            turns = inout(reg) turns => _, product = inout(reg) 3u64 => _, options(nomem, nostack)
        );
    }
}

/// Executes six times as many instructions as `turns`, which must not be zero; of each six, four need the product before.
#[cfg(target_arch = "aarch64")]
fn four_products(turns: u64) {
    // SAFETY: changes two registers; touches no memory.
    unsafe {
        core::arch::asm!(
            "2:", "mul {product}, {product}, {product}", "mul {product}, {product}, {product}",
            "mul {product}, {product}, {product}", "mul {product}, {product}, {product}",
            "subs {turns}, {turns}, #1", "b.ne 2b",
            turns = inout(reg) turns => _, product = inout(reg) 3u64 => _, options(nomem, nostack)
        );
    }
}

/// Never called: there is no counter to calibrate.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn two_instructions(_: u64) {}

/// Never called: there is no counter to calibrate.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn four_products(_: u64) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_of_instructions_is_told_from_one_of_time() {
        for (short, long, expected, machine) in [
            (2.0, 2.0, Some(2.0), "an emulator with 2 ns an instruction and a counter of 1 GHz"),
            (1.01, 1.0, Some(1.0), "the same with an interrupt"),
            (0.125, 0.1251, Some(0.125), "the same with 2 ns and 62.5 MHz"),
            (0.384, 0.384, None, "an emulator whose counter divides unevenly"),
            (0.0064, 0.026, None, "a phone with 19.2 MHz"),
            (0.0078, 0.0312, None, "a phone that matches a power of two by chance"),
            (0.5, 2.0, None, "a processor at the counter's rate"),
            (1.4, 1.4, None, "a processor that is as fast at both"),
            (0.0, 0.0, None, "a counter that stands still"),
        ] {
            assert_eq!(per_instruction(short, long), expected, "{machine}");
        }
    }

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
