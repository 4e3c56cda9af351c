//! The `[launch]` section: what begins a launch, what ends it, and what is done meanwhile.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::mechanism::Process;

/// Everything that can be set about the launch mechanism. The commented example is `packaging/brisk.toml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LaunchConfig {
    /// False keeps the mechanism off, whatever the device offers.
    pub enabled: bool,
    /// Act even where the predicted gain is below `minimum_gain_percent`: for experiments.
    pub force: bool,
    /// The predicted gain of a typical launch below which the mechanism stays off.
    #[serde(deserialize_with = "percent")]
    pub minimum_gain_percent: f64,
    /// What begins a launch.
    pub triggers: Vec<Trigger>,
    /// What may be used, most wanted first; each cpufreq policy gets the first that serves it well.
    pub actuators: Vec<ActuatorKind>,
    /// Launches may begin at this rate for ever; beyond it events are dropped in the kernel.
    #[serde(deserialize_with = "within::<_, 1, 60_000>")]
    pub maximum_launches_per_minute: u64,
    /// That many launches may begin at once before the rate counts.
    #[serde(deserialize_with = "within::<_, 1, 1_000>")]
    pub burst_launches: u64,
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

impl Default for LaunchConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            force: false,
            minimum_gain_percent: 1.0,
            triggers: vec![Trigger::Fork, Trigger::Exec, Trigger::Announced],
            actuators: ActuatorKind::ALL.to_vec(),
            maximum_launches_per_minute: 120,
            burst_launches: 10,
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
    /// A process came into Android's `top-app` cpuset, or the control socket said that it is in front.
    Foreground,
    /// `brisk launch` or the control socket said so.
    Announced,
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

/// Which processes count as launches: each list that is not empty must have an entry that fits. Announced launches
/// pass without a filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilterConfig {
    /// Globs of the parent's name (`comm`, at most 15 bytes), for instance `zygote*`.
    pub parents: Vec<Glob>,
    /// Real user ids.
    pub uids: Vec<UidRange>,
    /// Globs of the cgroup path.
    pub cgroups: Vec<Glob>,
    /// Globs of the process's own name.
    pub commands: Vec<Glob>,
    /// Globs of names that never count.
    pub excluded_commands: Vec<Glob>,
}

impl FilterConfig {
    /// True when `process` counts. A fact that was not to be had fits no list.
    pub fn passes(&self, process: &Process) -> bool {
        let fits = |globs: &[Glob], text: &Option<String>| {
            globs.is_empty() || text.as_ref().is_some_and(|text| globs.iter().any(|glob| glob.matches(text)))
        };
        let is_excluded = |command: &String| self.excluded_commands.iter().any(|glob| glob.matches(command));
        !process.command.as_ref().is_some_and(is_excluded)
            && (self.uids.is_empty()
                || process.uid.is_some_and(|uid| self.uids.iter().any(|range| range.contains(uid))))
            && fits(&self.parents, &process.parent_command)
            && fits(&self.cgroups, &process.cgroup)
            && fits(&self.commands, &process.command)
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
    /// Over when the launched process comes to the front. Has no effect with the trigger `foreground`.
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

/// A pattern in which `*` stands for any text and `?` for one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The longest pattern that is taken: no name in the kernel that it is held against is longer.
    pub const MAXIMUM_BYTES: usize = 4096;

    /// True when the whole of `text` fits. Takes time in proportion to pattern times text at worst.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut position) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while position < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, position));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == text[position] => {
                    at += 1;
                    position += 1;
                }
                _ => {
                    let Some((star_at, taken)) = star else { return false };
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    position = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.len() > Self::MAXIMUM_BYTES {
            return Err(format!("a pattern has 1 to {} bytes", Self::MAXIMUM_BYTES));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// User ids from `first` to `last`, both included: written `10000-19999` or `1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl UidRange {
    /// True when `uid` lies in the range.
    pub fn contains(self, uid: u32) -> bool {
        (self.first..=self.last).contains(&uid)
    }
}

impl FromStr for UidRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("{text:?} is not a user id or a range such as \"10000-19999\"")),
        }
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}
as_text!(Glob);
as_text!(UidRange);

/// A whole number from `LOW` to `HIGH`, both included.
///
/// # Errors
/// Says the bounds, so that the message with its line needs no manual.
pub fn within<'de, D: Deserializer<'de>, const LOW: u64, const HIGH: u64>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_i64(Within::<LOW, HIGH>)
}

struct Within<const LOW: u64, const HIGH: u64>;

impl<const LOW: u64, const HIGH: u64> Visitor<'_> for Within<LOW, HIGH> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LOW} to {HIGH}")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u64, E> {
        if (LOW..=HIGH).contains(&number) {
            Ok(number)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    match f64::deserialize(deserializer)? {
        number if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err(D::Error::custom("must be from 0 to 100")),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_fit_whole_texts() {
        let cases = [
            ("zygote*", "zygote64", true),
            ("zygote*", "zygote", true),
            ("zygote", "zygote64", false),
            ("*", "", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*.sh", "run.sh.bak", false),
            ("*a*b*c", "xxaybzzbc", true),
            ("*a*b*c", "xxaybzz", false),
            ("/apps/*/ui", "/apps/one/two/ui", true),
        ];
        for (pattern, text, fits) in cases {
            assert_eq!(pattern.parse::<Glob>().unwrap().matches(text), fits, "{pattern} and {text}");
        }
        assert!("".parse::<Glob>().is_err());
    }

    #[test]
    fn a_glob_of_many_stars_ends_soon() {
        let glob: Glob = "*a".repeat(100).parse().unwrap();
        assert!(!glob.matches(&"a".repeat(99)));
        assert!(!glob.matches(&"ab".repeat(5_000)));
    }

    #[test]
    fn uid_ranges_are_read_and_printed() {
        for (text, printed) in [("1000", Some("1000")), ("10000-19999", Some("10000-19999")), (" 1 - 2 ", Some("1-2"))]
        {
            assert_eq!(text.parse::<UidRange>().ok().map(|range| range.to_string()).as_deref(), printed, "{text}");
        }
        for text in ["", "-", "2-1", "a", "-5", "1-2-3", "4294967296"] {
            assert!(text.parse::<UidRange>().is_err(), "{text}");
        }
        let range: UidRange = "10-20".parse().unwrap();
        assert_eq!([9, 10, 20, 21].map(|uid| range.contains(uid)), [false, true, true, false]);
    }
}
