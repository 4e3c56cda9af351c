//! What the governor costs a launch of known length, by its model: for telemetry.

use std::time::Duration;

use super::prediction::{ActuatorEffect, Governor, loss_us};

/// The governor of the device's fastest CPUs, where launches run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchLoss {
    /// Its name; empty without cpufreq.
    pub governor: String,
    cost: Cost,
}

#[derive(Debug, Clone, Default, PartialEq)]
enum Cost {
    /// The governor has no model.
    #[default]
    Unknown,
    /// It holds the maximum.
    Nothing,
    Modelled {
        governor: Governor,
        frequencies_khz: Vec<u32>,
        /// What a boost changes.
        help: ActuatorEffect,
    },
}

impl LaunchLoss {
    /// Under the governor called `name`, which `model` describes where there is one; a boost has the effect `help`.
    pub fn new(name: &str, model: Option<Governor>, frequencies_khz: &[u32], help: ActuatorEffect) -> Self {
        let cost = match model {
            Some(governor) => Cost::Modelled { governor, frequencies_khz: frequencies_khz.to_vec(), help },
            None if name == "performance" => Cost::Nothing,
            None => Cost::Unknown,
        };
        Self { governor: name.to_owned(), cost }
    }

    /// What it has cost a launch of this `length`, in milliseconds.
    pub fn of(&self, length: Duration, boosted: bool) -> Option<f64> {
        match &self.cost {
            Cost::Unknown => None,
            Cost::Nothing => Some(0.0),
            Cost::Modelled { governor, frequencies_khz, help } => {
                let help = if boosted { *help } else { ActuatorEffect::None };
                let length_us = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
                Some(loss_us(*governor, frequencies_khz, help, length_us) as f64 / 1_000.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boost_costs_less_and_an_unknown_governor_is_unknown() {
        let ondemand = Some(Governor::Ondemand { sampling_rate_us: 100_000, hooked: true });
        let second = Duration::from_secs(1);
        for (name, model, boosted, expected_ms) in [
            ("ondemand", ondemand, false, Some(85.0)),
            ("ondemand", ondemand, true, Some(1.0)),
            ("performance", None, false, Some(0.0)),
            ("userspace", None, false, None),
            ("", None, true, None),
        ] {
            let loss = LaunchLoss::new(name, model, &[200_000, 1_200_000], ActuatorEffect::Sample);
            let loss_ms = loss.of(second, boosted);
            let is_near = loss_ms.zip(expected_ms).is_none_or(|(loss, expected)| (loss - expected).abs() < 1.0);
            assert!(loss_ms.is_some() == expected_ms.is_some() && is_near, "{name} {boosted}: {loss_ms:?}");
        }
    }
}
