//! Which governors are held until the boot has completed: pure.

use brisk_sys::cpu::cpufreq::FrequencyPolicy;

/// The governor that is held during a boot.
pub const PERFORMANCE: &str = "performance";

/// What is done with one policy during the boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandOverStep {
    /// Hold `performance`, then restore the present governor.
    Hold,
    /// It boots under `performance` already (`cpufreq.default_governor=`): set this one afterwards.
    Adopt {
        /// The governor to set.
        governor: String,
    },
    /// Nothing, for this reason.
    Skip(String),
}

/// What is done with `policy`; `then` is the governor for policies that boot under `performance` already.
pub fn step(policy: &FrequencyPolicy, then: Option<&str>) -> HandOverStep {
    let has = |governor: &str| policy.available_governors.iter().any(|available| available == governor);
    let FrequencyPolicy { name, governor, .. } = policy;
    match then {
        Some(then) if governor == PERFORMANCE && then != PERFORMANCE => {
            HandOverStep::Adopt { governor: then.to_owned() }
        }
        _ if governor == PERFORMANCE => HandOverStep::Skip(format!("{name} is under {PERFORMANCE} already")),
        _ if !has(PERFORMANCE) => HandOverStep::Skip(format!("{name} has no governor {PERFORMANCE}")),
        _ => HandOverStep::Hold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_held_unless_it_is_fast_already() {
        let policy = |governor: &str, available: &str| FrequencyPolicy {
            name: "policy0".into(),
            folder: "/policy0".into(),
            cpus: vec![0],
            governor: governor.into(),
            available_governors: available.split(' ').map(str::to_owned).collect(),
            minimum_khz: None,
            maximum_khz: None,
            hardware_minimum_khz: None,
            hardware_maximum_khz: None,
            driver: None,
        };
        let both = "ondemand performance";
        let leave = |reason: &str| HandOverStep::Skip(reason.to_owned());
        for (governor, available, then, expected) in [
            ("ondemand", both, None, HandOverStep::Hold),
            ("ondemand", both, Some("schedutil"), HandOverStep::Hold),
            ("performance", both, None, leave("policy0 is under performance already")),
            ("performance", both, Some("performance"), leave("policy0 is under performance already")),
            ("performance", "performance", Some("ondemand"), HandOverStep::Adopt { governor: "ondemand".into() }),
            ("ondemand", "ondemand powersave", None, leave("policy0 has no governor performance")),
        ] {
            assert_eq!(step(&policy(governor, available), then), expected, "{governor} {available} {then:?}");
        }
    }
}
