//! Chooses an actuator for each cpufreq policy: pure, from probed facts.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::NAME;
use super::config::{ActuatorKind, LaunchConfig, Trigger};
use super::loss::LaunchLoss;
use super::prediction::{ActuatorEffect, Governor, Prediction};
use super::probe::{LaunchDevice, PolicyFacts};
use super::triggers::{self, Detection, TOP_APP};
use crate::enabled::decide;
use crate::{Enabled, Support, SupportState, Target};

/// Since this version ondemand samples from the scheduler's hook, and at once after a write of `sampling_rate`.
const HOOK_SINCE: (u32, u32) = (4, 7);
/// intel_pstate's own sampling period (INTEL_PSTATE_SAMPLING_INTERVAL); hardware P-states react sooner.
const HARDWARE_SAMPLING_US: u64 = 10_000;
/// An earlier actuator of the list is chosen if it gains at least this share of the best one's gain.
const GOOD_ENOUGH: f64 = 0.5;
const DETECTION_ADVICE: &str =
    "Start applications with brisk launch; this kernel has no process events (CONFIG_PROC_EVENTS).";

/// An actuator with the targets and values that the policy needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actuator {
    /// Write `value`; the effect expires on its own, after `duration` where that is known.
    Pulse {
        /// `boostpulse` or `flexrate_request`.
        target: Target,
        /// The value to write.
        value: String,
        /// The duration of the effect.
        duration: Option<Duration>,
    },
    /// Rewrite unchanged values.
    Kick {
        /// `io_is_busy`, which restarts the load window.
        window: Option<Target>,
        /// `sampling_rate`, which makes the governor sample.
        sample: Target,
    },
    /// Hold `value` in `target` while the launch lasts.
    Lease {
        /// The tunable.
        target: Target,
        /// The value to hold.
        value: String,
    },
    /// Hold the utilisation floor of the launched process.
    Clamp {
        /// 0 to 1024.
        minimum: u64,
    },
}

/// The choice for one or more policies.
#[derive(Debug, Clone, PartialEq)]
pub struct ActuatorChoice {
    /// The actuator's kind.
    pub kind: ActuatorKind,
    /// Its targets and values.
    pub actuator: Actuator,
    /// The policies that it serves, with the predicted gain of each: global tunables serve all policies of their governor at
    /// once.
    pub serves: Vec<(String, Prediction)>,
}

/// What is done on this device, or why nothing is done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LaunchPlan {
    /// One entry for each set of tunables; empty when the mechanism stays off.
    pub choices: Vec<ActuatorChoice>,
    /// The same for the user.
    pub support: Support,
    /// What launches lose with it and without.
    pub loss: LaunchLoss,
}

impl LaunchPlan {
    /// Chooses for every policy of `facts`.
    pub fn of(facts: &LaunchDevice, config: &LaunchConfig) -> Self {
        let mut choices: Vec<ActuatorChoice> = Vec::new();
        let mut reasons = Vec::new();
        for policy in &facts.policies {
            match choose(facts, policy, config) {
                Ok(choice) => match choices.iter_mut().find(|other| other.actuator == choice.actuator) {
                    Some(other) => other.serves.extend(choice.serves),
                    None => choices.push(choice),
                },
                Err(reason) => reasons.push((policy.name.clone(), reason)),
            }
        }
        let support = support(facts, config, &choices, &reasons);
        if support.state != SupportState::Active {
            choices.clear();
        }
        Self { loss: loss(facts, config, &choices), choices, support }
    }

    /// The tunables that the plan writes, each once.
    pub fn tunables(&self) -> BTreeSet<&Target> {
        let mut targets = BTreeSet::new();
        for choice in &self.choices {
            match &choice.actuator {
                Actuator::Pulse { target, .. } | Actuator::Lease { target, .. } => {
                    targets.insert(target);
                }
                Actuator::Kick { window, sample } => targets.extend(window.iter().chain([sample])),
                Actuator::Clamp { .. } => {}
            }
        }
        targets
    }
}

/// Why a policy gets nothing.
#[derive(Debug, Clone, PartialEq)]
enum Refusal {
    /// The governor does not follow load, or its tunables are unknown.
    Governor(String),
    /// No actuator that the configuration allows exists here.
    NoActuator,
    /// The best available actuator gains too little.
    NoGain { kind: ActuatorKind, prediction: Prediction },
}

fn choose(facts: &LaunchDevice, policy: &PolicyFacts, config: &LaunchConfig) -> Result<ActuatorChoice, Refusal> {
    let governor = model(facts, policy).map_err(Refusal::Governor)?;
    let mut candidates = Vec::new();
    for &kind in &config.actuators {
        if let Some((actuator, help)) = candidate(kind, facts, policy, config) {
            candidates.push((kind, actuator, Prediction::of(governor, &policy.frequencies_khz, help)));
        }
    }
    let gain = |prediction: &Prediction| prediction.gain_percent();
    let best = candidates.iter().map(|(_, _, prediction)| gain(prediction)).fold(f64::MIN, f64::max);
    let good = (best * GOOD_ENOUGH).max(config.minimum_gain_percent).min(best);
    match candidates.into_iter().find(|(_, _, prediction)| gain(prediction) >= good) {
        None => Err(already_sufficient(policy, config).map_or(Refusal::NoActuator, Refusal::Governor)),
        Some((kind, _, prediction)) if gain(&prediction) < config.minimum_gain_percent && !config.force => {
            Err(Refusal::NoGain { kind, prediction })
        }
        Some((kind, actuator, prediction)) => {
            Ok(ActuatorChoice { kind, actuator, serves: vec![(policy.name.clone(), prediction)] })
        }
    }
}

/// What launches lose under the governor of the fastest CPUs, with `choices` and without.
fn loss(facts: &LaunchDevice, config: &LaunchConfig, choices: &[ActuatorChoice]) -> LaunchLoss {
    let speed = |policy: &&PolicyFacts| (policy.capacity, policy.frequencies_khz.last().copied());
    let Some(policy) = facts.policies.iter().max_by_key(speed) else { return LaunchLoss::default() };
    let serves = |choice: &&ActuatorChoice| choice.serves.iter().any(|(name, _)| *name == policy.name);
    let chosen = choices.iter().find(serves).and_then(|choice| candidate(choice.kind, facts, policy, config));
    let help = chosen.map_or(ActuatorEffect::None, |(_, help)| help);
    LaunchLoss::new(&policy.governor, model(facts, policy).ok(), &policy.frequencies_khz, help)
}

/// A value that the policy already has, where the configuration would not improve it.
fn already_sufficient(policy: &PolicyFacts, config: &LaunchConfig) -> Option<String> {
    let (name, present_us, section) = config.actuators.iter().find_map(|kind| match kind {
        ActuatorKind::SamplingRate => Some(("sampling_rate", policy.sampling_rate_us?, "sampling_rate")),
        ActuatorKind::RateLimit => policy.rate_limit.map(|(name, present_us)| (name, present_us, "rate_limit")),
        _ => None,
    })?;
    Some(format!("its {name} is {present_us} us, which launch.{section} would not shorten"))
}

/// The model of the policy's governor, or why no actuator can help it.
fn model(facts: &LaunchDevice, policy: &PolicyFacts) -> Result<Governor, String> {
    let name = policy.governor.as_str();
    if policy.frequencies_khz.len() < 2 {
        return Err("it has one frequency only".to_owned());
    }
    match name {
        "performance" => return Err("its governor performance holds the maximum already".to_owned()),
        "powersave" if is_hardware_managed(policy) => {
            return Ok(Governor::Ondemand { sampling_rate_us: HARDWARE_SAMPLING_US, hooked: true });
        }
        "powersave" => return Err("its governor powersave holds the minimum on purpose".to_owned()),
        "userspace" => return Err("its governor userspace leaves the frequency to another program".to_owned()),
        _ => {}
    }
    if let (Some(timer_rate_us), Some(hispeed_khz)) = (policy.timer_rate_us, policy.hispeed_khz) {
        let above_hispeed_delay_us = policy.above_hispeed_delay_us.unwrap_or(timer_rate_us);
        return Ok(Governor::Interactive { timer_rate_us, hispeed_khz, above_hispeed_delay_us });
    }
    match (policy.sampling_rate_us, policy.freq_step_percent) {
        (Some(sampling_rate_us), Some(step_percent)) if name == "conservative" => {
            return Ok(Governor::Conservative { sampling_rate_us, step_percent });
        }
        (Some(sampling_rate_us), _) => {
            return Ok(Governor::Ondemand { sampling_rate_us, hooked: is_hooked(facts, name) });
        }
        _ => {}
    }
    let rate_limit_us = match policy.rate_limit {
        Some((_, rate_limit_us)) => rate_limit_us,
        // intel_pstate and cppc expose no schedutil tunables on some kernels; the kernel's default is at most 10 ms.
        None if name == "schedutil" => 10_000,
        None => return Err(format!("its governor {name} has no tunables that brisk knows")),
    };
    let fastest = facts.policies.iter().filter_map(|policy| policy.capacity).max();
    let capacity_permille = policy.capacity.zip(fastest).map_or(1_000, |(own, fastest)| own * 1_000 / fastest.max(1));
    Ok(Governor::Schedutil { rate_limit_us, frequency_invariant: policy.capacity.is_some(), capacity_permille })
}

/// True for governors that sample from the scheduler's hook; others with ondemand's tunables behave like the old ondemand.
fn is_hooked(facts: &LaunchDevice, governor: &str) -> bool {
    matches!(governor, "ondemand" | "conservative") && !facts.is_older_than(HOOK_SINCE)
}

/// intel_pstate and amd-pstate in active mode: their "powersave" is the default governor and scales with load.
fn is_hardware_managed(policy: &PolicyFacts) -> bool {
    policy.driver.as_deref().is_some_and(|driver| matches!(driver, "intel_pstate" | "amd-pstate-epp"))
}

/// The actuator of `kind` for `policy`, if the device has it, and its effect in the model.
fn candidate(
    kind: ActuatorKind,
    facts: &LaunchDevice,
    policy: &PolicyFacts,
    config: &LaunchConfig,
) -> Option<(Actuator, ActuatorEffect)> {
    let tunable = |name: &str| Some(Target::Tunable(policy.tunables.as_deref()?.join(name)));
    let highest = *policy.frequencies_khz.last()?;
    match kind {
        ActuatorKind::Boostpulse if policy.boostpulse => {
            let duration = policy.boostpulse_duration_us.map(Duration::from_micros);
            let pulse = Actuator::Pulse { target: tunable("boostpulse")?, value: "1".to_owned(), duration };
            Some((pulse, ActuatorEffect::Floor(policy.hispeed_khz.unwrap_or(highest))))
        }
        ActuatorKind::Flexrate if policy.flexrate_request => {
            let (rate_us, samples) = (config.flexrate.sampling_rate_us, config.flexrate.samples);
            let duration = Some(Duration::from_micros(rate_us * samples));
            let value = format!("{rate_us} {samples}");
            Some((
                Actuator::Pulse { target: tunable("flexrate_request")?, value, duration },
                ActuatorEffect::SamplingRate(rate_us),
            ))
        }
        ActuatorKind::Kick if is_hooked(facts, &policy.governor) => {
            policy.sampling_rate_us?;
            let window = if policy.io_is_busy { tunable("io_is_busy") } else { None };
            Some((Actuator::Kick { window, sample: tunable("sampling_rate")? }, ActuatorEffect::Sample))
        }
        ActuatorKind::Uclamp if facts.uclamp && policy.governor == "schedutil" => {
            let minimum = config.uclamp.minimum;
            Some((Actuator::Clamp { minimum }, ActuatorEffect::Utilisation(minimum)))
        }
        ActuatorKind::SamplingRate => {
            let present_us = policy.sampling_rate_us?;
            let least_us = policy.sampling_rate_minimum_us.unwrap_or(0);
            let rate_us = config.sampling_rate.sampling_rate_us.max(least_us);
            // A longer period than the current one would slow the governor down.
            (rate_us < present_us || config.force).then_some(())?;
            let value = rate_us.to_string();
            Some((Actuator::Lease { target: tunable("sampling_rate")?, value }, ActuatorEffect::SamplingRate(rate_us)))
        }
        ActuatorKind::RateLimit => {
            let (name, present_us) = policy.rate_limit?;
            let limit_us = config.rate_limit.rate_limit_us;
            (limit_us < present_us || config.force).then_some(())?;
            let value = limit_us.to_string();
            Some((Actuator::Lease { target: tunable(name)?, value }, ActuatorEffect::RateLimit(limit_us)))
        }
        ActuatorKind::ScalingMinFreq => {
            let target = Target::Tunable(policy.folder.join("scaling_min_freq"));
            let floor = u64::from(highest) * config.scaling_min_freq.percent_of_maximum / 100;
            let floor = u32::try_from(floor).unwrap_or(highest);
            Some((Actuator::Lease { target, value: floor.to_string() }, ActuatorEffect::Floor(floor)))
        }
        _ => None,
    }
}

fn support(
    facts: &LaunchDevice,
    config: &LaunchConfig,
    choices: &[ActuatorChoice],
    reasons: &[(String, Refusal)],
) -> Support {
    if facts.policies.is_empty() {
        return without_policies(facts);
    }
    if config.enabled == Enabled::Off {
        return Support {
            state: SupportState::Available,
            reason: "switched off by the configuration (launch.enabled = false)".to_owned(),
            advice: "Set enabled = true in the section [launch].".to_owned(),
        };
    }
    let (is_on, why) = decide(NAME, config.enabled, facts.managers.as_deref());
    if !choices.is_empty() && !is_on {
        let reason = format!("{why}; {}", summary(choices));
        let advice = "Set launch.enabled = true to act beside it.".to_owned();
        return Support { state: SupportState::Available, reason, advice };
    }
    if !choices.is_empty() {
        return noticed(facts, config, &summary(choices));
    }
    without_choice(config, reasons)
}

/// The plan is active only where launches can be detected.
fn noticed(facts: &LaunchDevice, config: &LaunchConfig, summary: &str) -> Support {
    let triggers = triggers::effective(config, facts);
    let (state, what) = match triggers::detection(&triggers, facts) {
        Detection::ByDevice(source) => (SupportState::Active, source),
        Detection::ReportedOnly if triggers.contains(&Trigger::Foreground) => {
            (SupportState::Active, "announcements, and where a program tells what is in the foreground")
        }
        Detection::ReportedOnly => (SupportState::Active, "announcements alone"),
        Detection::Never => (SupportState::Unsupported, "nothing: launch.triggers has only process events"),
    };
    let has_device_source = facts.process_events || what == TOP_APP;
    let advice = if has_device_source { "" } else { DETECTION_ADVICE };
    Support { state, reason: format!("{summary}; launches are noticed by {what}"), advice: advice.to_owned() }
}

/// One sentence for each group of policies with the same actuator and prediction.
fn summary(choices: &[ActuatorChoice]) -> String {
    let mut groups: Vec<(ActuatorKind, Prediction, Vec<&str>)> = Vec::new();
    for choice in choices {
        for (policy, prediction) in &choice.serves {
            match groups.iter_mut().find(|(kind, of, _)| (*kind, *of) == (choice.kind, *prediction)) {
                Some((_, _, policies)) => policies.push(policy),
                None => groups.push((choice.kind, *prediction, vec![policy])),
            }
        }
    }
    let sentence = |(kind, prediction, policies): &(ActuatorKind, Prediction, Vec<&str>)| {
        let policies = match policies.as_slice() {
            [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
            policies => policies.concat(),
        };
        format!(
            "{kind} on {policies}: a typical launch loses {:.1} ms to the governor, {:.1} ms with it (predicted gain {:.1} %)",
            prediction.stock_loss_ms(),
            prediction.boosted_loss_ms(),
            prediction.gain_percent()
        )
    };
    groups.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

fn without_policies(facts: &LaunchDevice) -> Support {
    let (reason, advice) = match facts.faults.first() {
        Some(fault) => (format!("no cpufreq policy can be read: {fault}"), "Check the named file; run as root."),
        None => (
            format!(
                "{} has no policy: nothing changes the frequency of the CPUs here",
                Path::new("/sys/devices/system/cpu/cpufreq").display()
            ),
            "On hardware, load its cpufreq driver; a virtual machine has none.",
        ),
    };
    Support { state: SupportState::Unsupported, reason, advice: advice.to_owned() }
}

/// No policy got an actuator: reports the first policy's reason, a lack of gain before a governor's reason.
fn without_choice(config: &LaunchConfig, reasons: &[(String, Refusal)]) -> Support {
    let gain = reasons.iter().find_map(|(name, refusal)| match refusal {
        Refusal::NoGain { kind, prediction } => Some((name, kind, prediction)),
        _ => None,
    });
    if let Some((name, kind, prediction)) = gain {
        return Support {
            state: SupportState::Available,
            reason: format!(
                "nothing to gain on {name}: a typical launch loses {:.1} ms to the governor; {kind} would leave {:.1} ms, \
                 a gain of {:.1} % where {} % is asked for",
                prediction.stock_loss_ms(),
                prediction.boosted_loss_ms(),
                prediction.gain_percent(),
                config.minimum_gain_percent
            ),
            advice: "Nothing to do. For experiments: force = true in the section [launch].".to_owned(),
        };
    }
    let governor = reasons.iter().find_map(|(name, refusal)| match refusal {
        Refusal::Governor(reason) => Some((name, reason)),
        _ => None,
    });
    match governor {
        Some((name, reason)) => Support {
            state: SupportState::Available,
            reason: format!("{name} needs no help: {reason}"),
            advice: "Nothing to do while this governor is in force.".to_owned(),
        },
        None => Support {
            state: SupportState::Available,
            reason: "none of launch.actuators exists on this device".to_owned(),
            advice: "Allow more in launch.actuators; the default allows all.".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests;
