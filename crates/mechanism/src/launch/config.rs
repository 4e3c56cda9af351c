//! The `[launch]` section: what starts a launch, what ends it, and what is done in between.

use std::fmt;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::filter::FilterConfig;
use crate::Enabled;
use crate::bounds::{percent, within};
use crate::deference::Intervals;

/// All settings of the launch mechanism. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchConfig {
    /// False keeps the mechanism off on every device; auto leaves launches to another frequency manager if one runs.
    pub enabled: Enabled,
    /// Act even where the predicted gain is below `minimum_gain_percent`: for experiments.
    pub force: bool,
    /// The predicted gain of a typical launch below which the mechanism stays off.
    #[serde(deserialize_with = "percent")]
    pub minimum_gain_percent: f64,
    /// What starts a launch; an empty list lets the device decide (`triggers.rs`).
    pub triggers: Vec<Trigger>,
    /// The allowed actuators in order of preference; each cpufreq policy gets the first that gains enough.
    pub actuators: Vec<ActuatorKind>,
    /// The sustained rate of launches; above it, events are dropped in the kernel.
    #[serde(deserialize_with = "within::<_, 1, 60_000>")]
    pub maximum_launches_per_minute: u64,
    /// This many launches may start at once before the rate limit applies.
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub burst_launches: u64,
    /// How other frequency managers are detected while `enabled` is auto.
    pub other_managers: OtherManagersConfig,
    /// Which processes count as launches.
    pub filter: FilterConfig,
    /// When a launch is over.
    pub end: EndConfig,
    /// `flexrate`: the request to Samsung's governor.
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
    /// True where launches are left to other frequency managers.
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

/// What starts a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// A process was forked: earlier than `exec`, but more often not a launch.
    Fork,
    /// A process executed a program.
    Exec,
    /// A process changed its name.
    Comm,
    /// A process changed its user, as Android's zygote children do when they become an application.
    Uid,
    /// A process entered Android's `top-app` cpuset, or a client of the control socket reported it as the foreground.
    Foreground,
    /// `brisk launch` or a client of the control socket announced it.
    Announced,
}

impl Trigger {
    /// True for triggers that a client of the control socket can send; the other triggers need process events.
    pub fn is_client_report(&self) -> bool {
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

/// The ways to make the governor react sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ActuatorKind {
    /// interactive's `boostpulse`: the boost expires after `boostpulse_duration`.
    Boostpulse,
    /// Samsung ondemand's `flexrate_request`: some fast samples, then the governor's own rate again.
    Flexrate,
    /// ondemand's `io_is_busy` and `sampling_rate`, rewritten unchanged: the governor samples at once.
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
    /// Every kind, ordered by safety if brisk crashes: effects that expire, rewrites that change nothing, the clamp that ends
    /// with its process, leases, and last the lease that would cost most energy if it stayed.
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

/// Other frequency managers that start and stop while the daemon runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OtherManagersConfig {
    /// The minimum interval between checks after process starts, and the interval while launches are left to a manager.
    #[serde(deserialize_with = "within::<_, 1, 3_600>")]
    pub check_s: u64,
    /// Launches are helped again once no manager has run for this long.
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

/// When a launch is over: at the first of these conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndConfig {
    /// The longest launch.
    #[serde(deserialize_with = "within::<_, 10, 600_000>")]
    pub deadline_ms: u64,
    /// Load and foreground do not end a launch before this time.
    #[serde(deserialize_with = "within::<_, 0, 60_000>")]
    pub minimum_ms: u64,
    /// Learn how long each application takes to launch, and end its launches soon after that time.
    pub learn: bool,
    /// Over when the total CPU load is below this (100 is one CPU); 0 disables this condition.
    #[serde(deserialize_with = "within::<_, 0, 100_000>")]
    pub load_below_cpu_percent: u64,
    /// The load sampling period; the load is sampled only during launches that hold something.
    #[serde(deserialize_with = "within::<_, 10, 10_000>")]
    pub load_period_ms: u64,
    /// The number of consecutive samples below the threshold.
    #[serde(deserialize_with = "within::<_, 1, 100>")]
    pub load_periods: u64,
    /// Over when the launched process comes to the foreground. No effect on launches that the foreground itself triggered.
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
    /// The number of fast samples.
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub samples: u64,
}

impl Default for FlexrateConfig {
    fn default() -> Self {
        Self { sampling_rate_us: 10_000, samples: 10 }
    }
}

/// When the kick writes are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KickConfig {
    /// Times after the detection of the launch at which the governor is made to sample; 0 is at once.
    #[serde(deserialize_with = "kick_moments")]
    pub at_us: Vec<u64>,
    /// Rewrite `io_is_busy` first, so that the load window restarts.
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
    /// The period to lease; the paper uses 50 000 instead of 100 000.
    #[serde(deserialize_with = "within::<_, 100, 10_000_000>")]
    pub sampling_rate_us: u64,
}

impl Default for SamplingRateConfig {
    fn default() -> Self {
        Self { sampling_rate_us: 10_000 }
    }
}

/// A frequency floor.
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
    /// The rate limit to lease.
    #[serde(deserialize_with = "within::<_, 0, 1_000_000>")]
    pub rate_limit_us: u64,
}

/// The minimum utilisation that the scheduler assumes (uclamp).
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

/// The longest sequence of kicks: more would amount to a second governor.
const MAXIMUM_KICKS: usize = 32;
/// The latest time of a kick.
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
