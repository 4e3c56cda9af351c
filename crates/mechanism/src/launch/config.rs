//! The `[launch]` section: what begins a launch, what ends it, and what is done meanwhile.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::filter::FilterConfig;
use crate::Enabled;
use crate::bounds::{percent, within};
use crate::deference::Intervals;

/// Everything that can be set about the launch mechanism. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchConfig {
    /// False keeps the mechanism off, whatever the device offers; auto leaves it to another manager of frequencies.
    pub enabled: Enabled,
    /// Act even where the predicted gain is below `minimum_gain_percent`: for experiments.
    pub force: bool,
    /// The predicted gain of a typical launch below which the mechanism stays off.
    #[serde(deserialize_with = "percent")]
    pub minimum_gain_percent: f64,
    /// What begins a launch; none leaves it to the device (`triggers.rs`).
    pub triggers: Vec<Trigger>,
    /// What may be used, most wanted first; each cpufreq policy gets the first that serves it well.
    pub actuators: Vec<ActuatorKind>,
    /// Launches may begin at this rate for ever; beyond it events are dropped in the kernel.
    #[serde(deserialize_with = "within::<_, 1, 60_000>")]
    pub maximum_launches_per_minute: u64,
    /// That many launches may begin at once before the rate counts.
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub burst_launches: u64,
    /// How other managers of frequencies are noticed while `enabled` is auto.
    pub other_managers: OtherManagersConfig,
    /// Which processes count.
    pub filter: FilterConfig,
    /// When a launch is over.
    pub end: EndConfig,
    /// `flexrate`: what is asked of Samsung's governor.
    pub flexrate: FlexrateConfig,
    /// `kick`: when the unchanged tunables are written again.
    pub kick: KickConfig,
    /// `sampling-rate`: ondemand's and conservative's period during a launch.
    pub sampling_rate: SamplingRateConfig,
    /// `scaling-min-freq`: the frequency floor during a launch.
    pub scaling_min_freq: ScalingMinFreqConfig,
    /// `rate-limit`: schedutil's `rate_limit_us` during a launch.
    pub rate_limit: RateLimitConfig,
    /// `uclamp`: the utilisation floor of the launched process.
    pub uclamp: UclampConfig,
}

impl LaunchConfig {
    /// True where launches are left to other managers of frequencies.
    pub fn defers(&self) -> bool {
        self.enabled == Enabled::Auto && !self.force
    }
}

impl Default for LaunchConfig {
    fn default() -> Self {
        Self {
            enabled: Enabled::Auto,
            force: false,
            minimum_gain_percent: 1.0,
            triggers: Vec::new(),
            actuators: ActuatorKind::ALL.to_vec(),
            maximum_launches_per_minute: 120,
            burst_launches: 10,
            other_managers: OtherManagersConfig::default(),
            filter: FilterConfig::default(),
            end: EndConfig::default(),
            flexrate: FlexrateConfig::default(),
            kick: KickConfig::default(),
            sampling_rate: SamplingRateConfig::default(),
            scaling_min_freq: ScalingMinFreqConfig::default(),
            rate_limit: RateLimitConfig::default(),
            uclamp: UclampConfig::default(),
        }
    }
}

/// What begins a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A process was forked: earlier than `exec`, and more often without one.
    Fork,
    /// A process became another program.
    Exec,
    /// A process changed its name.
    Comm,
    /// A process changed its user: Android's zygote makes an application of its child.
    Uid,
    /// A process came into Android's `top-app` cpuset, or the control socket said that it is the foreground.
    Foreground,
    /// `brisk launch` or the control socket said so.
    Announced,
}

impl Trigger {
    /// True for what a program can tell the control socket; the others need process events.
    pub fn can_be_told(&self) -> bool {
        matches!(self, Self::Foreground | Self::Announced)
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Comm => "comm",
            Self::Uid => "uid",
            Self::Foreground => "foreground",
            Self::Announced => "announced",
        })
    }
}

/// The ways to make the governor answer sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActuatorKind {
    /// interactive's `boostpulse`: the boost ends by itself after `boostpulse_duration`.
    Boostpulse,
    /// Samsung ondemand's `flexrate_request`: some fast samples, then the governor's own rate again.
    Flexrate,
    /// ondemand's `io_is_busy` and `sampling_rate` written again unchanged: the governor samples at once.
    Kick,
    /// The launched process's utilisation floor: lasts as long as the process at most.
    Uclamp,
    /// ondemand's or conservative's `sampling_rate`, leased.
    SamplingRate,
    /// schedutil's `rate_limit_us`, leased.
    RateLimit,
    /// The policy's `scaling_min_freq`, leased.
    ScalingMinFreq,
}

impl ActuatorKind {
    /// Every kind, the safest in a crash first: what ends by itself, what changes nothing, what dies with its process,
    /// what is leased, and last the lease that costs most energy if it stayed.
    pub const ALL: [Self; 7] = [
        Self::Boostpulse,
        Self::Flexrate,
        Self::Kick,
        Self::Uclamp,
        Self::SamplingRate,
        Self::RateLimit,
        Self::ScalingMinFreq,
    ];
}

impl fmt::Display for ActuatorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boostpulse => "boostpulse",
            Self::Flexrate => "flexrate",
            Self::Kick => "kick",
            Self::Uclamp => "uclamp",
            Self::SamplingRate => "sampling-rate",
            Self::RateLimit => "rate-limit",
            Self::ScalingMinFreq => "scaling-min-freq",
        })
    }
}

/// Other managers of frequencies that start and end while the daemon runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtherManagersConfig {
    /// They are looked for so often at most, after processes have started, and so often while launches are left to one.
    #[serde(deserialize_with = "within::<_, 1, 3_600>")]
    pub check_s: u64,
    /// Launches are helped again once they have been gone for so long.
    #[serde(deserialize_with = "within::<_, 0, 86_400>")]
    pub away_s: u64,
}

impl OtherManagersConfig {
    pub(super) fn intervals(&self) -> Intervals {
        Intervals { check: Duration::from_secs(self.check_s), away: Duration::from_secs(self.away_s) }
    }
}

impl Default for OtherManagersConfig {
    fn default() -> Self {
        Self { check_s: 60, away_s: 120 }
    }
}

/// When a launch is over: whatever comes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndConfig {
    /// A launch never lasts longer.
    #[serde(deserialize_with = "within::<_, 10, 600_000>")]
    pub deadline_ms: u64,
    /// Before that, load and foreground do not end it.
    #[serde(deserialize_with = "within::<_, 0, 60_000>")]
    pub minimum_ms: u64,
    /// Learn how long each application takes, and end its launches soon after that.
    pub learn: bool,
    /// Over when the CPUs together are busy less than this (100 is one CPU); 0 turns this off.
    #[serde(deserialize_with = "within::<_, 0, 100_000>")]
    pub load_below_cpu_percent: u64,
    /// How often the load is looked at, only while a launch lasts that holds something.
    #[serde(deserialize_with = "within::<_, 10, 10_000>")]
    pub load_period_ms: u64,
    /// That many times in a row.
    #[serde(deserialize_with = "within::<_, 1, 100>")]
    pub load_periods: u64,
    /// Over when the launched process comes to the foreground. Has no effect on a launch that was noticed by that.
    pub foreground: bool,
}

impl Default for EndConfig {
    fn default() -> Self {
        Self {
            deadline_ms: 3_000,
            minimum_ms: 100,
            learn: true,
            load_below_cpu_percent: 30,
            load_period_ms: 100,
            load_periods: 2,
            foreground: false,
        }
    }
}

/// Samsung's temporary sampling rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FlexrateConfig {
    /// The period of the fast samples.
    #[serde(deserialize_with = "within::<_, 1_000, 1_000_000>")]
    pub sampling_rate_us: u64,
    /// How many of them.
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub samples: u64,
}

impl Default for FlexrateConfig {
    fn default() -> Self {
        Self { sampling_rate_us: 10_000, samples: 10 }
    }
}

/// When the kick's writes are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KickConfig {
    /// Moments after the launch was noticed at which the governor is made to look; 0 is at once.
    #[serde(deserialize_with = "kick_moments")]
    pub at_us: Vec<u64>,
    /// Write `io_is_busy` again first, so that the load is measured from now on.
    pub restart_load_window: bool,
}

impl Default for KickConfig {
    fn default() -> Self {
        Self { at_us: vec![0], restart_load_window: true }
    }
}

/// The paper's method: a shorter sampling period for the launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplingRateConfig {
    /// The period to lease; the paper's is 50 000 in place of 100 000.
    #[serde(deserialize_with = "within::<_, 100, 10_000_000>")]
    pub sampling_rate_us: u64,
}

impl Default for SamplingRateConfig {
    fn default() -> Self {
        Self { sampling_rate_us: 10_000 }
    }
}

/// A floor below which the frequency does not go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScalingMinFreqConfig {
    /// The floor as a share of the policy's `scaling_max_freq`.
    #[serde(deserialize_with = "within::<_, 1, 100>")]
    pub percent_of_maximum: u64,
}

impl Default for ScalingMinFreqConfig {
    fn default() -> Self {
        Self { percent_of_maximum: 100 }
    }
}

/// How soon schedutil may change the frequency again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimitConfig {
    /// The limit to lease.
    #[serde(deserialize_with = "within::<_, 0, 1_000_000>")]
    pub rate_limit_us: u64,
}

/// The utilisation that the scheduler is told to assume at least.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct UclampConfig {
    /// 0 to 1024, the capacity of the fastest CPU.
    #[serde(deserialize_with = "within::<_, 0, 1_024>")]
    pub minimum: u64,
}

impl Default for UclampConfig {
    fn default() -> Self {
        Self { minimum: 1_024 }
    }
}

/// The longest sequence of kicks: more would be a governor of its own.
const MAXIMUM_KICKS: usize = 32;
/// The last moment of a kick.
const MAXIMUM_KICK_AT_US: u64 = 10_000_000;

fn kick_moments<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let moments = Vec::<u64>::deserialize(deserializer)?;
    let rising = moments.windows(2).all(|pair| pair[0] < pair[1]);
    let bounded = moments.last().is_some_and(|&last| last <= MAXIMUM_KICK_AT_US) && moments.len() <= MAXIMUM_KICKS;
    if rising && bounded {
        Ok(moments)
    } else {
        Err(D::Error::custom(format!(
            "must be 1 to {MAXIMUM_KICKS} rising moments, the last at most {MAXIMUM_KICK_AT_US}"
        )))
    }
}
