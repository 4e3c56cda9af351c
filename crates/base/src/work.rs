//! Work for a CPU: a known number of instructions that access no memory and make no system call.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// A number of iterations of a fixed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    turns: u64,
}

impl Work {
    /// Work of `turns` iterations of the loop.
    pub const fn of_turns(turns: u64) -> Self {
        Self { turns }
    }

    /// The iterations of the loop.
    pub const fn turns(self) -> u64 {
        self.turns
    }

    /// Work that takes about `duration` at the CPU's present speed. Doubles a trial until it is long enough to measure,
    /// then scales.
    pub fn calibrated_for(duration: Duration) -> Self {
        const TRIAL: Duration = Duration::from_millis(20);
        let mut trial = Self::of_turns(1 << 14);
        let mut took = trial.time();
        while took < TRIAL {
            trial.turns *= 2;
            took = trial.time();
        }
        let turns = trial.turns as f64 * duration.as_secs_f64() / took.as_secs_f64();
        Self { turns: (turns as u64).max(1) }
    }

    /// Does the work.
    ///
    /// Calibration and work share one copy of the loop: an emulator runs a loop that crosses a page boundary several times
    /// slower.
    #[inline(never)]
    pub fn run(self) {
        // The result of each iteration feeds the next (xorshift), so that no compiler or CPU can run them in parallel.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..self.turns {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }

    /// Does the work and returns how long that took.
    pub fn time(self) -> Duration {
        let start = Instant::now();
        self.run();
        start.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twice_the_turns_take_longer() {
        let (one, ten) = (Work::of_turns(200_000), Work::of_turns(2_000_000));
        let shortest = |work: Work| (0..5).map(|_| work.time()).min().unwrap();
        assert!(shortest(ten) > shortest(one) * 4);
    }
}
