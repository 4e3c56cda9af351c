//! The models of a simulated fleet: their hardware, and what the policy of `launch` predicts for it.

use brisk_mechanism::launch::prediction::{ActuatorEffect, Governor, Prediction};

/// A model of device.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub name: &'static str,
    pub memory_kib: u64,
    pub cpus: u32,
    /// The governor's name.
    pub governor: &'static str,
    algorithm: Governor,
    frequencies_khz: &'static [u32],
    /// What brisk does for a launch there.
    boost: ActuatorEffect,
    /// Of a boot.
    pub boot_ms: f64,
    /// Processes killed in a day.
    pub kills: f64,
    /// Devices of the fleet, in parts of all.
    pub share: u32,
}

const GIB: u64 = 1 << 20;
const SMALL: &[u32] = &[300_000, 600_000, 1_000_000];
const LARGE: &[u32] = &[400_000, 800_000, 1_400_000, 2_000_000];

const fn ondemand(sampling_rate_us: u64) -> Governor {
    Governor::Ondemand { sampling_rate_us, hooked: true }
}

const fn schedutil(rate_limit_us: u64) -> Governor {
    Governor::Schedutil { rate_limit_us, frequency_invariant: true, capacity_permille: 1000 }
}

/// All models.
pub const MODELS: [Model; 6] = [
    Model {
        name: "kiosk-1",
        memory_kib: GIB / 2 - 30_000,
        cpus: 1,
        governor: "ondemand",
        algorithm: ondemand(100_000),
        frequencies_khz: SMALL,
        boost: ActuatorEffect::Sample,
        boot_ms: 21_000.0,
        kills: 1.4,
        share: 2,
    },
    Model {
        name: "kiosk-2",
        memory_kib: GIB - 40_000,
        cpus: 2,
        governor: "ondemand",
        algorithm: ondemand(40_000),
        frequencies_khz: SMALL,
        boost: ActuatorEffect::Sample,
        boot_ms: 17_000.0,
        kills: 0.8,
        share: 2,
    },
    Model {
        name: "board-a",
        memory_kib: 2 * GIB - 60_000,
        cpus: 4,
        governor: "schedutil",
        algorithm: schedutil(10_000),
        frequencies_khz: LARGE,
        boost: ActuatorEffect::Floor(2_000_000),
        boot_ms: 12_000.0,
        kills: 0.3,
        share: 3,
    },
    Model {
        name: "board-b",
        memory_kib: 4 * GIB - 90_000,
        cpus: 4,
        governor: "schedutil",
        algorithm: schedutil(2_000),
        frequencies_khz: LARGE,
        boost: ActuatorEffect::Utilisation(1024),
        boot_ms: 9_500.0,
        kills: 0.1,
        share: 2,
    },
    Model {
        name: "car/display 7",
        memory_kib: 3 * GIB - 70_000,
        cpus: 6,
        governor: "conservative",
        algorithm: Governor::Conservative { sampling_rate_us: 20_000, step_percent: 20 },
        frequencies_khz: LARGE,
        boost: ActuatorEffect::SamplingRate(4_000),
        boot_ms: 14_000.0,
        kills: 0.2,
        share: 1,
    },
    Model {
        name: "phone-9",
        memory_kib: 8 * GIB - 200_000,
        cpus: 8,
        governor: "schedutil",
        algorithm: schedutil(500),
        frequencies_khz: LARGE,
        boost: ActuatorEffect::Floor(1_400_000),
        boot_ms: 19_000.0,
        kills: 0.05,
        share: 2,
    },
];

impl Model {
    /// What a launch loses to the governor: without a boost, and with it.
    pub fn losses_ms(&self) -> [f64; 2] {
        let prediction = Prediction::of(self.algorithm, self.frequencies_khz, self.boost);
        [prediction.stock_loss_ms(), prediction.boosted_loss_ms()]
    }
}

/// The place in [`MODELS`] for a number drawn from `0..total_share()`.
pub fn drawn(mut number: u32) -> usize {
    for (index, model) in MODELS.iter().enumerate() {
        match number.checked_sub(model.share) {
            Some(rest) => number = rest,
            None => return index,
        }
    }
    0
}

/// The sum of all shares.
pub fn total_share() -> u32 {
    MODELS.iter().map(|model| model.share).sum()
}
