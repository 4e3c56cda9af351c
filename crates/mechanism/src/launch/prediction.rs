//! Estimates a launch's loss to the governor, and the loss that remains with an actuator: a small model, no measurement.
//!
//! The typical launch is one second of work at the maximum frequency, on one CPU that was idle at the minimum before.
//! The model of each governor, with its source in Linux 6.1 unless stated otherwise:
//!
//! - ondemand (`drivers/cpufreq/cpufreq_governor.c`, `cpufreq_ondemand.c`) samples at the wake-up itself, where the load
//!   window is still idle, and stays low. It samples again a full `sampling_rate` later, at the next call of the scheduler's
//!   hook, which comes with a tick. A load above `up_threshold` sets the maximum. After a write of `sampling_rate`, the next
//!   call of the hook samples (`sampling_rate_store` sets the delay to 0); when the daemon goes to sleep as a real-time task,
//!   that is such a call. Before 4.7, deferrable work ran instead of the hook, with the same period; there a shorter period
//!   starts at the write (`update_sampling_rate`, in Samsung's and others' 3.0 as well).
//! - conservative samples in the same way and climbs `freq_step` percent of the maximum per sample.
//! - schedutil (`kernel/sched/cpufreq_schedutil.c`) requests 1.25 x frequency x utilisation. Utilisation grows with a
//!   half-life of 32 ms (`kernel/sched/pelt.c`), starting for a new task at half the capacity
//!   (`post_init_entity_util_avg`). "Frequency" is the current one, or the maximum with frequency invariance. With it,
//!   utilisation grows in proportion to the speed (`update_rq_clock_pelt`), and a task that exceeds 80 % of a small
//!   CPU moves to a big one (`fits_capacity`); a task with a high clamp starts there.
//! - interactive (Android's, up to 4.x) samples every `timer_rate`, goes to `hispeed_freq` first and higher after
//!   `above_hispeed_delay`; `boostpulse` goes to `hispeed_freq` at once.

/// Work of the typical launch, in microseconds at the maximum frequency: a cold start of an application takes about a
/// second; the longer it takes, the smaller the relative gain.
pub const TYPICAL_WORK_US: u64 = 1_000_000;
/// From the first instruction of the launch to the write, at the lowest frequency.
pub const DETECTION_DELAY_US: u64 = 1_250;
/// The scheduler tick for CONFIG_HZ=250, as on Debian and most devices.
const TICK_US: u64 = 4_000;
/// The model's resolution.
const STEP_US: u64 = 250;
/// The longest modelled launch; the slowest governor stays at the lowest frequency.
const HORIZON_US: u64 = 120_000_000;
/// A task fits a CPU up to this share of its capacity.
const FITS_CAPACITY_SHARE: f64 = 0.8;
/// Half-life of utilisation (PELT).
const HALF_LIFE_US: f64 = 32_000.0;

/// A governor's algorithm with its current tunables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Governor {
    /// ondemand and its derivatives, of any kernel version.
    Ondemand {
        /// `sampling_rate`.
        sampling_rate_us: u64,
        /// It samples from the scheduler's hook, as since Linux 4.7.
        hooked: bool,
    },
    Conservative {
        /// `sampling_rate`.
        sampling_rate_us: u64,
        /// `freq_step`.
        step_percent: u64,
    },
    Schedutil {
        /// `rate_limit_us`.
        rate_limit_us: u64,
        /// The scheduler knows the current speed of the CPU (`arch_scale_freq_invariant`).
        frequency_invariant: bool,
        /// Speed of these CPUs at their highest frequency, in thousandths of the device's fastest.
        capacity_permille: u64,
    },
    /// Android's interactive.
    Interactive {
        /// `timer_rate`.
        timer_rate_us: u64,
        /// `hispeed_freq`.
        hispeed_khz: u32,
        /// `above_hispeed_delay`, its first value.
        above_hispeed_delay_us: u64,
    },
}

/// How an actuator changes the governor's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActuatorEffect {
    /// Nothing: the governor alone.
    None,
    /// The governor samples when the launch is detected.
    Sample,
    /// From the detection on, ondemand's or conservative's period is this, and the governor samples.
    SamplingRate(u64),
    /// From the detection on, the frequency is at least this many kHz.
    Floor(u32),
    /// From the detection on, this is schedutil's rate limit in microseconds.
    RateLimit(u64),
    /// From the detection on, the utilisation is at least this, of 1024.
    Utilisation(u64),
}

/// The model's result for one cpufreq policy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Duration of the typical launch at the maximum frequency throughout.
    pub ideal_us: u64,
    /// Duration under the unchanged governor.
    pub stock_us: u64,
    /// Duration with the actuator.
    pub boosted_us: u64,
}

impl Prediction {
    /// Predicts for the `frequencies_khz` (ascending, not empty) that `governor` may choose from.
    pub fn of(governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect) -> Self {
        Self {
            ideal_us: TYPICAL_WORK_US,
            stock_us: launch_us(governor, frequencies_khz, ActuatorEffect::None),
            boosted_us: launch_us(governor, frequencies_khz, help),
        }
    }

    /// The reduction of the launch time, in percent of the stock launch.
    pub fn gain_percent(&self) -> f64 {
        (self.stock_us as f64 - self.boosted_us as f64) * 100.0 / self.stock_us as f64
    }

    /// The loss of the stock governor against the maximum frequency, in milliseconds.
    pub fn stock_loss_ms(&self) -> f64 {
        (self.stock_us as f64 - self.ideal_us as f64) / 1_000.0
    }

    /// The remaining loss with the actuator, in milliseconds.
    pub fn boosted_loss_ms(&self) -> f64 {
        (self.boosted_us as f64 - self.ideal_us as f64) / 1_000.0
    }
}

/// The duration of the typical launch.
fn launch_us(governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect) -> u64 {
    match ramp(governor, frequencies_khz, help, TYPICAL_WORK_US as f64, HORIZON_US) {
        Some(Ramp { now_us, done, at_full_speed: true }) => now_us + (TYPICAL_WORK_US as f64 - done).max(0.0) as u64,
        Some(Ramp { now_us, .. }) => now_us,
        None => TYPICAL_WORK_US,
    }
}

/// How much shorter a launch that took `length_us` would have been at the maximum frequency throughout.
pub fn loss_us(governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect, length_us: u64) -> u64 {
    let ramp = ramp(governor, frequencies_khz, help, f64::INFINITY, length_us.min(HORIZON_US));
    ramp.map_or(0, |ramp| (ramp.now_us.min(length_us) as f64 - ramp.done).max(0.0) as u64)
}

/// The part of a launch until it is over or runs at full speed.
struct Ramp {
    now_us: u64,
    /// The work until then, in microseconds at the maximum frequency.
    done: f64,
    at_full_speed: bool,
}

/// Runs the model until `work_us` are done, `end_us` have passed, or full speed is reached: under full load the governor never
/// lowers the frequency. `None` without frequencies.
fn ramp(governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect, work_us: f64, end_us: u64) -> Option<Ramp> {
    let (&lowest, &highest) = (frequencies_khz.first()?, frequencies_khz.last()?);
    let next_sample_us = first_sample_us(governor);
    let mut state = State {
        khz: lowest,
        requested_khz: lowest,
        next_sample_us,
        above_hispeed_at_us: None,
        pelt_clock_us: 0.0,
        capacity: capacity(governor),
    };
    let (mut done, mut now_us, mut at_full_speed) = (0.0, 0, false);
    while done < work_us && now_us < end_us && !at_full_speed {
        state.step(governor, frequencies_khz, help, now_us);
        let work = STEP_US as f64 * state.capacity * f64::from(state.khz) / f64::from(highest.max(1));
        done += work;
        state.pelt_clock_us += work;
        now_us += STEP_US;
        at_full_speed = state.khz == highest && state.capacity >= 1.0;
    }
    Some(Ramp { now_us, done, at_full_speed })
}

/// The governor's first sample after the wake-up: on average half a tick after its period.
fn first_sample_us(governor: Governor) -> u64 {
    match governor {
        Governor::Ondemand { sampling_rate_us, .. } | Governor::Conservative { sampling_rate_us, .. } => {
            sampling_rate_us + TICK_US / 2
        }
        Governor::Schedutil { .. } => 0,
        Governor::Interactive { timer_rate_us, .. } => timer_rate_us,
    }
}

struct State {
    khz: u32,
    /// conservative climbs in steps that may be smaller than those of the frequency table.
    requested_khz: u32,
    next_sample_us: u64,
    above_hispeed_at_us: Option<u64>,
    /// The PELT clock under frequency invariance: slower at low frequencies.
    pelt_clock_us: f64,
    /// Capacity of the launch's current CPU; 1 for the fastest.
    capacity: f64,
}

impl State {
    fn step(&mut self, governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect, now_us: u64) {
        let noticed = now_us >= DETECTION_DELAY_US;
        // The model step in which the write happens.
        if noticed && now_us < DETECTION_DELAY_US + STEP_US {
            let sample_us = match (help, governor) {
                (ActuatorEffect::SamplingRate(rate_us), Governor::Ondemand { hooked: false, .. }) => {
                    now_us + rate_us + TICK_US / 2
                }
                (ActuatorEffect::Sample | ActuatorEffect::SamplingRate(_), _) => now_us,
                _ => self.next_sample_us,
            };
            self.next_sample_us = self.next_sample_us.min(sample_us);
        }
        if now_us >= self.next_sample_us {
            self.sample(governor, frequencies_khz, if noticed { help } else { ActuatorEffect::None }, now_us);
        }
        if let (ActuatorEffect::Floor(floor), true) = (help, noticed) {
            self.khz = self.khz.max(at_least(frequencies_khz, floor));
        }
    }

    fn sample(&mut self, governor: Governor, frequencies_khz: &[u32], help: ActuatorEffect, now_us: u64) {
        let highest = frequencies_khz[frequencies_khz.len() - 1];
        match governor {
            Governor::Ondemand { .. } => self.khz = highest,
            Governor::Conservative { sampling_rate_us, step_percent } => {
                let step = (u64::from(highest) * step_percent / 100).max(1);
                let requested = u64::from(self.requested_khz).saturating_add(step);
                self.requested_khz = u32::try_from(requested).unwrap_or(highest).min(highest);
                self.khz = at_most(frequencies_khz, self.requested_khz).max(self.khz);
                let period_us =
                    if let ActuatorEffect::SamplingRate(rate_us) = help { rate_us } else { sampling_rate_us };
                self.next_sample_us = now_us + period_us.max(STEP_US);
            }
            Governor::Schedutil { rate_limit_us, frequency_invariant, .. } => {
                let limit_us = if let ActuatorEffect::RateLimit(limit_us) = help { limit_us } else { rate_limit_us };
                let floor = if let ActuatorEffect::Utilisation(floor) = help { floor as f64 / 1024.0 } else { 0.0 };
                let wanted = if frequency_invariant {
                    let start = 0.5 * capacity(governor);
                    let utilisation = utilisation_after(start, self.pelt_clock_us).max(floor);
                    if self.capacity < 1.0 && utilisation > FITS_CAPACITY_SHARE * self.capacity {
                        // The big CPU was idle too.
                        (self.capacity, self.khz) = (1.0, frequencies_khz[0]);
                    }
                    1.25 * f64::from(highest) * utilisation / self.capacity
                } else {
                    1.25 * f64::from(self.khz) * utilisation_after(0.5, now_us as f64).max(floor)
                };
                let wanted = at_least(frequencies_khz, wanted as u32);
                self.next_sample_us = now_us + if wanted > self.khz { limit_us.max(STEP_US) } else { TICK_US };
                self.khz = self.khz.max(wanted);
            }
            Governor::Interactive { timer_rate_us, hispeed_khz, above_hispeed_delay_us } => {
                let hispeed = at_least(frequencies_khz, hispeed_khz.min(highest));
                match self.above_hispeed_at_us {
                    Some(moment_us) if now_us >= moment_us => self.khz = highest,
                    Some(_) => {}
                    None => {
                        self.khz = self.khz.max(hispeed);
                        self.above_hispeed_at_us = Some(now_us + above_hispeed_delay_us);
                    }
                }
                self.next_sample_us = now_us + timer_rate_us.max(STEP_US);
            }
        }
    }
}

/// The capacity of the CPU on which the launch starts.
fn capacity(governor: Governor) -> f64 {
    match governor {
        Governor::Schedutil { frequency_invariant: true, capacity_permille, .. } => {
            capacity_permille.clamp(1, 1_000) as f64 / 1_000.0
        }
        _ => 1.0,
    }
}

/// Utilisation of a task that runs continuously, `elapsed_us` after it was `start`.
fn utilisation_after(start: f64, elapsed_us: f64) -> f64 {
    1.0 - (1.0 - start) * 0.5_f64.powf(elapsed_us / HALF_LIFE_US)
}

/// The lowest frequency not below `khz`, or else the highest.
fn at_least(frequencies_khz: &[u32], khz: u32) -> u32 {
    let highest = frequencies_khz[frequencies_khz.len() - 1];
    frequencies_khz.iter().copied().find(|&frequency| frequency >= khz).unwrap_or(highest)
}

/// The highest frequency not above `khz`, or else the lowest.
fn at_most(frequencies_khz: &[u32], khz: u32) -> u32 {
    frequencies_khz.iter().rev().copied().find(|&frequency| frequency <= khz).unwrap_or(frequencies_khz[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHONE_KHZ: [u32; 5] = [200_000, 500_000, 800_000, 1_000_000, 1_200_000];

    fn predict(governor: Governor, help: ActuatorEffect) -> Prediction {
        Prediction::of(governor, &PHONE_KHZ, help)
    }

    #[test]
    fn a_kick_removes_most_of_the_loss_to_a_slow_ondemand() {
        let prediction =
            predict(Governor::Ondemand { sampling_rate_us: 100_000, hooked: true }, ActuatorEffect::Sample);
        // 102 ms at a sixth of the speed cost 85 ms.
        assert!((prediction.stock_loss_ms() - 85.0).abs() < 1.0, "{prediction:?}");
        assert!(prediction.boosted_loss_ms() < 2.0, "measured: 1.1 ms; {prediction:?}");
        assert!((7.0..8.0).contains(&prediction.gain_percent()), "{prediction:?}");
    }

    #[test]
    fn the_papers_method_gains_what_the_paper_reports() {
        let old = Governor::Ondemand { sampling_rate_us: 100_000, hooked: false };
        let gain = predict(old, ActuatorEffect::SamplingRate(50_000)).gain_percent();
        assert!((2.0..5.0).contains(&gain), "the paper's range; predicted {gain}");
    }

    // Verifies LAUNCH-3.
    #[test]
    fn a_fast_ondemand_leaves_nothing_to_gain() {
        for frequencies in [&PHONE_KHZ[..], &[100_000, 1_000_000], &[800_000, 1_200_000]] {
            for help in [ActuatorEffect::Sample, ActuatorEffect::SamplingRate(4_000), ActuatorEffect::Floor(u32::MAX)] {
                let stock = Governor::Ondemand { sampling_rate_us: 10_000, hooked: true };
                let gain = Prediction::of(stock, frequencies, help).gain_percent();
                assert!((0.0..1.0).contains(&gain), "{help:?} on {frequencies:?} gains {gain}");
            }
        }
    }

    #[test]
    fn schedutil_is_helped_by_a_floor_and_not_by_its_rate_limit() {
        let stock = Governor::Schedutil { rate_limit_us: 10_000, frequency_invariant: false, capacity_permille: 1_000 };
        let loss = predict(stock, ActuatorEffect::None).stock_loss_ms();
        assert!((20.0..60.0).contains(&loss), "measured: 31 ms; predicted {loss}");
        assert!(predict(stock, ActuatorEffect::Floor(1_200_000)).boosted_loss_ms() < 8.0);
        assert!(
            predict(stock, ActuatorEffect::Utilisation(1024)).boosted_loss_ms()
                < predict(stock, ActuatorEffect::RateLimit(0)).boosted_loss_ms()
        );
    }

    #[test]
    fn with_frequency_invariance_a_full_clamp_equals_a_floor() {
        let stock = Governor::Schedutil { rate_limit_us: 1_000, frequency_invariant: true, capacity_permille: 1_000 };
        let loss = |help| predict(stock, help).boosted_loss_ms();
        assert!(loss(ActuatorEffect::None) > 2.0, "{}", loss(ActuatorEffect::None));
        assert!(loss(ActuatorEffect::Utilisation(1024)) < loss(ActuatorEffect::Floor(1_200_000)) + 2.0);
    }

    #[test]
    fn a_clamp_beats_a_floor_because_it_moves_the_launch() {
        let stock = Governor::Schedutil { rate_limit_us: 1_000, frequency_invariant: true, capacity_permille: 300 };
        let loss = |help| predict(stock, help).boosted_loss_ms();
        assert!(loss(ActuatorEffect::None) > 30.0, "{}", loss(ActuatorEffect::None));
        assert!(loss(ActuatorEffect::Utilisation(1024)) < 5.0, "{}", loss(ActuatorEffect::Utilisation(1024)));
        assert!(loss(ActuatorEffect::Floor(1_200_000)) > loss(ActuatorEffect::Utilisation(1024)));
    }

    #[test]
    fn interactive_and_conservative_climb() {
        let interactive =
            Governor::Interactive { timer_rate_us: 20_000, hispeed_khz: 1_000_000, above_hispeed_delay_us: 80_000 };
        let boost = predict(interactive, ActuatorEffect::Floor(1_000_000));
        assert!(boost.boosted_us < boost.stock_us, "{boost:?}");
        let conservative = Governor::Conservative { sampling_rate_us: 100_000, step_percent: 20 };
        let paper = predict(conservative, ActuatorEffect::SamplingRate(50_000));
        assert!(paper.stock_loss_ms() > 100.0, "{paper:?}");
        assert!(paper.gain_percent() > 10.0, "{paper:?}");
    }

    /// The loss of a launch is what the typical launch of that length loses, and for a shorter one less.
    // Verifies FLEET-1.
    #[test]
    fn the_loss_of_a_launch_follows_from_its_length() {
        let slow = Governor::Ondemand { sampling_rate_us: 100_000, hooked: true };
        let schedutil =
            Governor::Schedutil { rate_limit_us: 10_000, frequency_invariant: false, capacity_permille: 1_000 };
        for (governor, help) in [
            (slow, ActuatorEffect::None),
            (slow, ActuatorEffect::Sample),
            (schedutil, ActuatorEffect::None),
            (schedutil, ActuatorEffect::Floor(1_200_000)),
        ] {
            let prediction = predict(governor, help);
            let loss = |length_us| loss_us(governor, &PHONE_KHZ, help, length_us);
            let typical_us = prediction.boosted_us - prediction.ideal_us;
            assert!(loss(prediction.boosted_us).abs_diff(typical_us) <= 1, "{governor:?} {help:?}");
            assert_eq!(loss(3_600_000_000), loss(prediction.boosted_us), "at full speed nothing more is lost");
            assert_eq!(loss(0), 0);
            assert!((1..=20).all(|step| loss(step * 10_000) >= loss((step - 1) * 10_000)), "{governor:?} {help:?}");
        }
        // A sixth of the speed for all of a launch that ends before the first sample.
        assert!(loss_us(slow, &PHONE_KHZ, ActuatorEffect::None, 60_000).abs_diff(50_000) <= 1);
        assert_eq!(loss_us(slow, &[], ActuatorEffect::None, 60_000), 0);
    }

    #[test]
    fn one_frequency_or_none_loses_nothing() {
        for frequencies in [&[][..], &[1_000_000][..], &[0][..]] {
            let prediction = Prediction::of(
                Governor::Ondemand { sampling_rate_us: 1_000, hooked: true },
                frequencies,
                ActuatorEffect::Sample,
            );
            assert!(prediction.gain_percent().abs() < 0.1, "{prediction:?}");
        }
    }

    #[test]
    fn the_model_ends_for_any_tunable() {
        for rate in [0, 1, u64::from(u32::MAX)] {
            let governors = [
                Governor::Ondemand { sampling_rate_us: rate, hooked: true },
                Governor::Conservative { sampling_rate_us: rate, step_percent: 0 },
                Governor::Schedutil { rate_limit_us: rate, frequency_invariant: true, capacity_permille: rate },
                Governor::Interactive { timer_rate_us: rate, hispeed_khz: 0, above_hispeed_delay_us: rate },
            ];
            for governor in governors {
                let prediction = predict(governor, ActuatorEffect::None);
                assert!(prediction.stock_us >= prediction.ideal_us / 2, "{governor:?}: {prediction:?}");
            }
        }
    }
}
