//! The grammar of claims: what is measured of which arms, at which points of the workload, and what is required.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// A quantity that a replicate measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// From just before the fork to the load's first screen.
    #[default]
    Launch,
    /// Launch time minus the time of the generated load (Jo and Suh 2017, "basic launch time").
    Basic,
    /// Energy over a window that is equally long in every arm.
    Energy,
    /// What the daemon did about the launch: the number of its actions.
    Actions,
    /// A service look-up, its median over a replicate: one call of the driver and all that it causes.
    LookUp,
    /// The same, its mean: what papers give, and what hits and misses together make.
    LookUpMean,
    /// The same, its 99th percentile.
    LookUpP99,
    /// A look-up on the clock, its mean: how long clients took, by how many look-ups each made.
    LookUpTime,
    /// A look-up right after the driver's cache was made to forget, its median.
    Miss,
    /// A call of the driver that does nothing.
    EmptyCall,
    /// A call of the driver that takes one reference and lets it go.
    ReferencePair,
    /// Applications that were killed, by whomever.
    Kills,
    /// Of those, the ones that were in front.
    FrontKills,
    /// Of those, the ones that the kernel itself killed.
    OomKills,
    /// Applications that live at the end.
    Alive,
    /// The first five launches, their median: memory is there for all.
    EarlyLaunch,
    /// The last five of the launches one after another, their median.
    LateLaunch,
    /// What a person waits for an application that is opened again, launch or resume: the mean.
    Reopen,
    /// An application that lives and is opened again, the median.
    Resume,
    /// Openings that showed nothing within the limit.
    Unresponsive,
    /// What was written to flash for swap.
    FlashWritten,
    /// What a process holds is read: how long that takes for one, on average.
    Reading,
    /// What a single application got before the kernel killed it.
    Single,
    /// How far the resident size was from what a kill returned: the median over kills.
    ResidentError,
    /// The same of the proportional size.
    ProportionalError,
    /// The same of the proportional size with swap.
    ProportionalSwapError,
    /// The same of brisk's estimate.
    EstimateError,
    /// The same of what the arm's own killer had predicted.
    PredictionError,
    /// What reading brisk's estimate takes, of what reading the exact figures takes: the median over kills.
    EstimateCost,
    /// From the kernel's event to SIGKILL, the longest of a replicate.
    KillDelay,
    /// From SIGKILL until the memory was back, the longest of a replicate.
    KillReturn,
    /// From the kernel's start to the first screen.
    Boot,
    /// The zygote's preloading of classes and resources.
    Preload,
    /// How much of the boot that is.
    PreloadShare,
    /// What the boot would take if its preloading were spread over two CPUs evenly: Amdahl's bound.
    BootBound,
    /// What that bound would win.
    BoundGain,
    /// Classes of the list that are not initialised in the zygote when it begins to fork.
    ClassesLeft,
    /// What the boot is predicted to take with a plan on two CPUs.
    BootOnTwo,
    /// The same on four.
    BootOnFour,
    /// The same on eight.
    BootOnEight,
    /// What a person waits for: how long its work takes, or the 95th percentile where it is paced.
    Foreground,
    /// Music whose next 20 ms came before the last were done.
    MusicMissed,
    /// What everybody beside the foreground got of the CPUs while that was there.
    Background,
}

/// What a metric is a metric of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Launches of a program.
    Launches,
    /// Look-ups of services.
    LookUps,
    /// Applications that share memory.
    Applications,
    /// What processes hold.
    Readings,
    /// Boots of a device.
    Boots,
    /// Something in front, and others beside it.
    Combinations,
}

impl Metric {
    /// Every metric, in the order of tables.
    pub const ALL: [Self; 43] = [
        Self::Launch,
        Self::Basic,
        Self::Energy,
        Self::Actions,
        Self::LookUp,
        Self::LookUpMean,
        Self::LookUpP99,
        Self::LookUpTime,
        Self::Miss,
        Self::EmptyCall,
        Self::ReferencePair,
        Self::Kills,
        Self::FrontKills,
        Self::OomKills,
        Self::Alive,
        Self::EarlyLaunch,
        Self::LateLaunch,
        Self::Reopen,
        Self::Resume,
        Self::Unresponsive,
        Self::FlashWritten,
        Self::Single,
        Self::ResidentError,
        Self::ProportionalError,
        Self::ProportionalSwapError,
        Self::EstimateError,
        Self::PredictionError,
        Self::EstimateCost,
        Self::KillDelay,
        Self::KillReturn,
        Self::Reading,
        Self::Boot,
        Self::Preload,
        Self::PreloadShare,
        Self::BootBound,
        Self::BoundGain,
        Self::ClassesLeft,
        Self::BootOnTwo,
        Self::BootOnFour,
        Self::BootOnEight,
        Self::Foreground,
        Self::MusicMissed,
        Self::Background,
    ];

    /// What it is measured of.
    pub fn subject(self) -> Subject {
        match self {
            Self::Launch | Self::Basic | Self::Energy | Self::Actions => Subject::Launches,
            Self::LookUp
            | Self::LookUpMean
            | Self::LookUpP99
            | Self::LookUpTime
            | Self::Miss
            | Self::EmptyCall
            | Self::ReferencePair => Subject::LookUps,
            Self::Reading => Subject::Readings,
            Self::Boot
            | Self::Preload
            | Self::PreloadShare
            | Self::BootBound
            | Self::BoundGain
            | Self::ClassesLeft
            | Self::BootOnTwo
            | Self::BootOnFour
            | Self::BootOnEight => Subject::Boots,
            Self::Foreground | Self::MusicMissed | Self::Background => Subject::Combinations,
            _ => Subject::Applications,
        }
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Basic => "basic",
            Self::Energy => "energy",
            Self::Actions => "actions",
            Self::LookUp => "look-up",
            Self::LookUpMean => "look-up mean",
            Self::LookUpP99 => "look-up p99",
            Self::LookUpTime => "look-up time",
            Self::Miss => "miss",
            Self::EmptyCall => "empty call",
            Self::ReferencePair => "reference pair",
            Self::Kills => "kills",
            Self::FrontKills => "kills in front",
            Self::OomKills => "kernel's kills",
            Self::Alive => "alive",
            Self::EarlyLaunch => "early launch",
            Self::LateLaunch => "late launch",
            Self::Reopen => "reopen",
            Self::Resume => "resume",
            Self::Unresponsive => "unresponsive",
            Self::FlashWritten => "flash written",
            Self::Single => "single task",
            Self::Reading => "reading",
            Self::ResidentError => "error of RSS",
            Self::ProportionalError => "error of PSS",
            Self::ProportionalSwapError => "error of PSS + swap",
            Self::EstimateError => "error of the estimate",
            Self::PredictionError => "error of its own",
            Self::EstimateCost => "cost of the estimate",
            Self::KillDelay => "event to kill",
            Self::KillReturn => "kill to memory",
            Self::Boot => "boot",
            Self::Preload => "preload",
            Self::PreloadShare => "preload's share",
            Self::BootBound => "Amdahl's bound",
            Self::BoundGain => "Amdahl's gain",
            Self::ClassesLeft => "classes left",
            Self::BootOnTwo => "predicted on 2 CPUs",
            Self::BootOnFour => "predicted on 4 CPUs",
            Self::BootOnEight => "predicted on 8 CPUs",
            Self::Foreground => "foreground",
            Self::MusicMissed => "music missed",
            Self::Background => "background",
        }
    }

    /// The unit in which results give it.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Launch
            | Self::Basic
            | Self::EarlyLaunch
            | Self::LateLaunch
            | Self::Reopen
            | Self::Resume
            | Self::KillDelay
            | Self::KillReturn
            | Self::Boot
            | Self::Preload
            | Self::BootBound
            | Self::BootOnTwo
            | Self::BootOnFour
            | Self::BootOnEight
            | Self::Foreground => "ms",
            Self::Energy => "mJ",
            Self::Kills | Self::FrontKills | Self::OomKills | Self::Alive => "applications",
            Self::Unresponsive => "openings",
            Self::FlashWritten | Self::Single => "KiB",
            Self::ClassesLeft => "classes",
            Self::PreloadShare
            | Self::BoundGain
            | Self::ResidentError
            | Self::ProportionalError
            | Self::ProportionalSwapError
            | Self::EstimateError
            | Self::PredictionError
            | Self::EstimateCost
            | Self::MusicMissed => "%",
            Self::Background => "% of a CPU",
            Self::Actions => "actions",
            Self::LookUpTime | Self::Reading => "us",
            Self::LookUp | Self::LookUpMean | Self::LookUpP99 | Self::Miss | Self::EmptyCall | Self::ReferencePair => {
                "instructions"
            }
        }
    }

    /// The key under which a replicate's line holds it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Launch => "launch_ms",
            Self::Basic => "basic_ms",
            Self::Energy => "energy_mj",
            Self::Actions => "actions",
            Self::LookUp => "look_up",
            Self::LookUpMean => "look_up_mean",
            Self::LookUpP99 => "look_up_p99",
            Self::LookUpTime => "look_up_us",
            Self::Miss => "miss",
            Self::EmptyCall => "empty_call",
            Self::ReferencePair => "reference_pair",
            Self::Kills => "kills",
            Self::FrontKills => "front_kills",
            Self::OomKills => "oom_kills",
            Self::Alive => "alive",
            Self::EarlyLaunch => "early_launch_ms",
            Self::LateLaunch => "late_launch_ms",
            Self::Reopen => "reopen_ms",
            Self::Resume => "resume_ms",
            Self::Unresponsive => "unresponsive",
            Self::FlashWritten => "flash_written_kib",
            Self::Single => "single_kib",
            Self::Reading => "reading_us",
            Self::ResidentError => "error_rss",
            Self::ProportionalError => "error_pss",
            Self::ProportionalSwapError => "error_pss_swap",
            Self::EstimateError => "error_estimate",
            Self::PredictionError => "error_prediction",
            Self::EstimateCost => "cost_estimate",
            Self::KillDelay => "kill_delay_ms",
            Self::KillReturn => "kill_return_ms",
            Self::Boot => "boot_ms",
            Self::Preload => "preload_ms",
            Self::PreloadShare => "preload_percent",
            Self::BootBound => "boot_bound_ms",
            Self::BoundGain => "bound_gain_percent",
            Self::ClassesLeft => "classes_left",
            Self::BootOnTwo => "boot_on_2_ms",
            Self::BootOnFour => "boot_on_4_ms",
            Self::BootOnEight => "boot_on_8_ms",
            Self::Foreground => "foreground_ms",
            Self::MusicMissed => "music_missed_percent",
            Self::Background => "background_percent",
        }
    }
}

/// What a claim computes from the samples of its arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// How much less the arm takes than `against`, in % of `against`.
    Gain,
    /// The part of the distance from `against` to `toward` that the arm covers, in %.
    GapClosed,
    /// How much the arm takes, in the metric's unit.
    Level,
    /// The greatest figure of any replicate of the arm, in the metric's unit.
    Worst,
    /// The 95th percentile of all single events of the arm, in the metric's unit.
    P95,
    /// The 99th.
    P99,
    /// How much more the arm takes than `toward`, in the metric's unit.
    Loss,
    /// The arm's standard deviation, in the metric's unit.
    Spread,
    /// The replicates of the arm in which the daemon did nothing, in %.
    StaysOff,
    /// The part that the arm has of the gain which the baseline's own bound ([`Metric::BootBound`]) allows, in %.
    OfBound,
    /// How far the arm is from what was predicted of the baseline ([`Metric::BootOnTwo`]), in %.
    OffPrediction,
}

/// How the samples of an arm become one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    /// The median.
    #[default]
    Median,
    /// The arithmetic mean, as most papers report.
    Mean,
}

/// The points of the workload that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum At {
    /// One result a launch point, or one for the look-ups.
    #[default]
    Each,
    /// One result: the mean of the measure over the launch points.
    Mean,
    /// One result: the idle point.
    Idle,
    /// One result for each of these launch points, named by their work.
    Work(Vec<u32>),
    /// One result for each combination of these names, or with one of these in front.
    Named(Vec<String>),
}

/// What of a figure a requirement is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// Its whole interval.
    #[default]
    Interval,
    /// The estimate; and the arm must not be shown to be worse than what it is compared with. "Shown" is less than one
    /// chance in twenty that any of the claim's results is by chance (Bonferroni), by the permutation test.
    Estimate,
}

impl<'de> Deserialize<'de> for At {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = At;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"each\", \"mean\", \"idle\", a list of work_ms values or one of combinations")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<At, E> {
                match text {
                    "each" => Ok(At::Each),
                    "mean" => Ok(At::Mean),
                    "idle" => Ok(At::Idle),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<At, A::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Place {
                    Work(u32),
                    Name(String),
                }
                let (mut work_ms, mut names) = (Vec::new(), Vec::new());
                while let Some(place) = list.next_element()? {
                    match place {
                        Place::Work(value) => work_ms.push(value),
                        Place::Name(name) => names.push(name),
                    }
                }
                Ok(if names.is_empty() { At::Work(work_ms) } else { At::Named(names) })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// What a measure has to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// `>= x`
    AtLeast(f64),
    /// `<= x`
    AtMost(f64),
    /// `within x`: no further than x from zero, to either side (an equivalence).
    Within(f64),
}

impl FromStr for Requirement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || format!("{text:?} is not a requirement; write \">= 90\", \"<= 8\" or \"within 1\"");
        let (word, number) = text.split_once(' ').ok_or_else(fault)?;
        let number: f64 = number.trim().parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(fault)?;
        match word {
            ">=" => Ok(Self::AtLeast(number)),
            "<=" => Ok(Self::AtMost(number)),
            "within" if number > 0.0 => Ok(Self::Within(number)),
            _ => Err(fault()),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(number) => write!(f, ">= {number}"),
            Self::AtMost(number) => write!(f, "<= {number}"),
            Self::Within(number) => write!(f, "within {number}"),
        }
    }
}

impl<'de> Deserialize<'de> for Requirement {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One claim of an experiment's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `mechanism.claim`, as SPECIFICATION.md names it.
    pub id: String,
    /// The claim in words.
    pub text: String,
    /// What is computed.
    pub measure: Measure,
    /// Of which metric.
    #[serde(default)]
    pub metric: Metric,
    /// Of which centre of the samples.
    #[serde(default)]
    pub centre: Centre,
    /// The arm that it is about.
    pub arm: Spanned<String>,
    /// The arm that it is compared with; the baseline when absent.
    pub against: Option<Spanned<String>>,
    /// The arm that is the goal, for [`Measure::GapClosed`] and [`Measure::Loss`].
    pub toward: Option<Spanned<String>>,
    /// At which points.
    #[serde(default)]
    pub at: At,
    /// What is required; only reported when absent.
    pub required: Option<Requirement>,
    /// Of what that is required.
    #[serde(default)]
    pub judged_by: Judge,
    /// In the full form, the largest half-width that the confidence interval may have, in the measure's unit.
    pub precision: Option<f64>,
    /// The paper's own figure, as printed there.
    pub paper: Option<String>,
}

impl Measure {
    /// The share of single events that is below the figure, for the measures that are about those.
    pub fn share_of_events(self) -> Option<f64> {
        match self {
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            _ => None,
        }
    }
}

impl Claim {
    /// The metrics of its arm, of what that is compared with, and of its goal.
    pub fn metrics(&self) -> [Metric; 3] {
        match self.measure {
            Measure::OfBound => [self.metric, self.metric, Metric::BootBound],
            Measure::OffPrediction => [self.metric, Metric::BootOnTwo, self.metric],
            _ => [self.metric; 3],
        }
    }

    /// The arms that it names.
    pub fn arms(&self) -> impl Iterator<Item = &String> {
        [Some(&self.arm), self.against.as_ref(), self.toward.as_ref()].into_iter().flatten().map(Spanned::get_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_parsed_and_printed_alike() {
        for text in [">= 90", "<= 8", "<= 0.3", "within 1", ">= -2.5"] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), text);
        }
        for text in ["", "90", ">=90", "> 90", "within 0", "within -1", ">= NaN", ">= inf", "<= eight"] {
            assert!(text.parse::<Requirement>().unwrap_err().contains(text), "{text}");
        }
    }
}
