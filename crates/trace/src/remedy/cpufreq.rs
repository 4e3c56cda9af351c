//! The simulated cpufreq: the trace's own frequencies, raised by what launch does.

use std::collections::BTreeMap;

use crate::model::{Tid, Trace};
use crate::threads::{Runner, Timelines};
use brisk_mechanism::launch::actuator::{Actuator, ActuatorChoice};
use brisk_mechanism::launch::config::ActuatorKind;
use brisk_mechanism::launch::probe::PolicyFacts;
use brisk_mechanism::launch::{LaunchConfig, LaunchDevice, LaunchPlan};
use brisk_mechanism::{Action, Support, SupportState, Target};
use brisk_sys::sched::thread_facts::ThreadFacts;

/// schedutil requests a quarter more than the utilisation (kernel/sched/cpufreq_schedutil.c).
const HEADROOM_PERCENT: u64 = 125;
/// The whole of a utilisation clamp.
const FULL_UTILISATION: u64 = 1024;

/// The device that the trace was recorded on.
#[derive(Debug, Clone, Default)]
pub struct Device {
    pub facts: LaunchDevice,
    /// The CPUs of each policy of the facts, by the policy's name.
    pub cpus: BTreeMap<String, Vec<u16>>,
    /// The threads that existed when the recording ended, for placement.
    pub threads: Vec<ThreadFacts>,
}

/// How a CPU's frequency is raised for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Floor {
    pub cpus: Vec<u16>,
    pub from_ns: u64,
    pub to_ns: u64,
    /// The lowest frequency; at most the CPU's highest one counts.
    pub khz: Khz,
    /// The process for whose threads alone it applies.
    pub process: Option<Tid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Khz {
    Highest,
    At(u32),
    /// Of the highest.
    Percent(u64),
}

/// What launch may do on the device.
pub(super) struct Boosts {
    pub plan: LaunchPlan,
    /// Beside the plan's choices.
    cpus: Vec<Vec<u16>>,
    policies: Vec<PolicyFacts>,
    /// Deferrable work samples with the governor's period, so that a write makes none.
    is_old: bool,
    pub floors: Vec<Floor>,
    /// The floors of the leases in force.
    open: BTreeMap<Target, usize>,
    /// What has no effect here, and why.
    pub uncounted: Vec<String>,
}

impl Boosts {
    /// What is chosen on this device.
    pub fn on(device: &Device, config: &LaunchConfig) -> Self {
        let plan = LaunchPlan::of(&device.facts, config);
        let cpus_of = |choice: &ActuatorChoice| {
            let served = choice.serves.iter().filter_map(|(policy, _)| device.cpus.get(policy));
            served.flatten().copied().collect()
        };
        let cpus = plan.choices.iter().map(cpus_of).collect();
        let (policies, is_old) = (device.facts.policies.clone(), device.facts.is_older_than((4, 7)));
        Self { plan, cpus, policies, is_old, floors: Vec::new(), open: BTreeMap::new(), uncounted: Vec::new() }
    }

    /// What every device can do whose frequencies are those of the trace: hold the lowest one, whatever the governor.
    pub fn of_trace(timelines: &Timelines, config: &LaunchConfig) -> Self {
        let (mut choices, mut cpus) = (Vec::new(), Vec::new());
        for (number, cpu) in timelines.cpus.iter().enumerate().filter(|(_, cpu)| cpu.highest_khz > 0) {
            let target = format!("/sys/devices/system/cpu/cpu{number}/cpufreq/scaling_min_freq");
            let khz = u64::from(cpu.highest_khz) * config.scaling_min_freq.percent_of_maximum / 100;
            let actuator = Actuator::Lease { target: Target::Tunable(target.into()), value: khz.to_string() };
            choices.push(ActuatorChoice { kind: ActuatorKind::ScalingMinFreq, actuator, serves: Vec::new() });
            cpus.push(vec![number as u16]);
        }
        let support = Support { state: SupportState::Active, ..Support::default() };
        let plan = LaunchPlan { choices, support, ..LaunchPlan::default() };
        let (policies, floors, open, uncounted) = Default::default();
        Self { plan, cpus, policies, is_old: false, floors, open, uncounted }
    }

    /// Carries out one action of launch at a time of the trace; a lease lasts until it is released.
    pub fn act(&mut self, trace: &Trace, timelines: &Timelines, now_ns: u64, action: &Action) {
        let (target, value) = match action {
            Action::Lease { target, value, .. } => (target, value.as_str()),
            Action::Release { target } => {
                if let Some(floor) = self.open.remove(target) {
                    self.floors[floor].to_ns = now_ns;
                }
                return;
            }
            Action::Pulse { target, value } => (target, value.as_str()),
            Action::Rewrite { target } => (target, ""),
            Action::Disinherit { .. } => return,
        };
        let Some(place) = self.plan.choices.iter().position(|choice| is_of(&choice.actuator, target)) else { return };
        if self.open.contains_key(target) {
            return;
        }
        let (choice, cpus) = (&self.plan.choices[place], self.cpus[place].clone());
        let (kind, actuator) = (choice.kind, choice.actuator.clone());
        let policy = choice.serves.first().and_then(|(name, _)| self.policies.iter().find(|it| it.name == *name));
        let policy = policy.cloned().unwrap_or_default();
        let always = Floor { cpus, from_ns: now_ns, to_ns: u64::MAX, khz: Khz::Highest, process: None };
        match (kind, &actuator) {
            (ActuatorKind::ScalingMinFreq, _) => {
                self.hold(target, Floor { khz: value.parse().map_or(Khz::Highest, Khz::At), ..always });
            }
            (ActuatorKind::Uclamp, Actuator::Clamp { minimum }) => {
                let Target::UtilizationClampMinimum { pid, .. } = target else { return };
                let percent = (HEADROOM_PERCENT * minimum / FULL_UTILISATION).min(100);
                self.hold(target, Floor { khz: Khz::Percent(percent), process: Some(*pid), ..always });
            }
            (ActuatorKind::Boostpulse, Actuator::Pulse { duration: Some(duration), .. }) => {
                let to_ns = now_ns.saturating_add(duration.as_nanos() as u64);
                self.floors.push(Floor { to_ns, khz: policy.hispeed_khz.map_or(Khz::Highest, Khz::At), ..always });
            }
            (ActuatorKind::RateLimit, _) => {
                self.leave_out("a shorter rate limit acts through the utilisation, which no trace tells");
            }
            _ if policy.governor == "conservative" => {
                self.leave_out("conservative climbs by steps from its own requests, which no trace tells");
            }
            _ => {
                let first_value = value.split(' ').next().and_then(|word| word.parse::<u64>().ok());
                let is_delayed = kind == ActuatorKind::Flexrate || (kind == ActuatorKind::SamplingRate && self.is_old);
                let after_us = first_value.filter(|_| is_delayed).unwrap_or(0);
                let is_shorter = matches!(kind, ActuatorKind::Flexrate | ActuatorKind::SamplingRate);
                let period_us = first_value.filter(|_| is_shorter).or(policy.sampling_rate_us);
                let from_ns = now_ns.saturating_add(after_us.saturating_mul(1000));
                self.sample(trace, timelines, Floor { from_ns, ..always }, period_us.unwrap_or(0).saturating_mul(1000));
            }
        }
    }

    fn hold(&mut self, target: &Target, floor: Floor) {
        self.open.insert(target.clone(), self.floors.len());
        self.floors.push(floor);
    }

    fn leave_out(&mut self, why: &str) {
        if !self.uncounted.iter().any(|it| it == why) {
            self.uncounted.push(why.to_owned());
        }
    }

    /// The governor samples: where a CPU of the policy is busy it goes to the highest frequency, until it lowers the frequency
    /// in the trace. Within a period it does not: that was by a sample which is not taken now.
    fn sample(&mut self, trace: &Trace, timelines: &Timelines, floor: Floor, period_ns: u64) {
        let at = trace.events.partition_point(|event| event.time_ns <= floor.from_ns) as u32;
        let cpus = floor.cpus.iter().filter_map(|&cpu| timelines.cpus.get(cpu as usize));
        let is_busy = cpus.clone().any(|cpu| {
            let runner = cpu.runners.partition_point(|(since, _)| *since < at).checked_sub(1);
            runner.is_some_and(|place| matches!(cpu.runners[place].1, Runner::Thread(_)))
        });
        if !is_busy {
            return;
        }
        let lowered = cpus.flat_map(|cpu| cpu.frequencies.windows(2));
        let lowered =
            lowered.filter(|pair| pair[1].0 >= at && pair[1].1 < pair[0].1).map(|pair| trace.time_ns(pair[1].0));
        let next_ns = floor.from_ns.saturating_add(period_ns);
        let to_ns = lowered.filter(|time_ns| *time_ns >= next_ns).min().unwrap_or(u64::MAX);
        self.floors.push(Floor { to_ns, ..floor });
    }

    /// How long a run of `process` from `from_ns` to `to_ns` at `khz` on `cpu` would have taken; never less than at `highest_khz`.
    pub fn run_ns(&self, (from_ns, to_ns): (u64, u64), process: Tid, cpu: u16, (khz, highest_khz): (u32, u32)) -> u64 {
        let applies = |floor: &&Floor| {
            let is_its = floor.process.is_none_or(|it| it == process);
            is_its && floor.cpus.contains(&cpu) && floor.from_ns < to_ns && from_ns < floor.to_ns
        };
        let floors: Vec<&Floor> = self.floors.iter().filter(applies).collect();
        // Within a piece between two moments the same floors apply.
        let mut moments: Vec<u64> = floors.iter().flat_map(|floor| [floor.from_ns, floor.to_ns]).collect();
        moments.extend([from_ns, to_ns]);
        moments.retain(|moment| (from_ns..=to_ns).contains(moment));
        moments.sort_unstable();
        let taken = moments.windows(2).map(|pair| {
            let lowest = floors.iter().filter(|floor| floor.from_ns <= pair[0] && pair[1] <= floor.to_ns);
            let lowest = lowest.map(|floor| floor.khz.of(highest_khz)).max().unwrap_or(0);
            let boosted_khz = khz.max(lowest.min(highest_khz)).max(1);
            u128::from(pair[1] - pair[0]) * u128::from(khz) / u128::from(boosted_khz)
        });
        taken.sum::<u128>() as u64
    }
}

impl Khz {
    fn of(self, highest_khz: u32) -> u32 {
        match self {
            Self::Highest => highest_khz,
            Self::At(khz) => khz,
            Self::Percent(percent) => (u64::from(highest_khz) * percent / 100) as u32,
        }
    }
}

/// True where the target is the one that makes the actuator act.
fn is_of(actuator: &Actuator, target: &Target) -> bool {
    match actuator {
        Actuator::Pulse { target: own, .. } | Actuator::Lease { target: own, .. } => own == target,
        Actuator::Kick { sample, .. } => sample == target,
        Actuator::Clamp { .. } => matches!(target, Target::UtilizationClampMinimum { .. }),
    }
}
