//! The grammar of claims: the measure, its arms, the points of the workload, and the requirement.

use std::fmt;
use std::str::FromStr;

use brisk_base::toml_text::Located;
use serde::{Deserialize, Deserializer};

use super::metric::Metric;

/// What a claim computes from the samples of its arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The arm's reduction relative to `against`, in % of `against`.
    Gain,
    /// The share of the difference between `against` and `toward` that the arm removes, in %.
    GapClosed,
    /// The arm's figure, in the metric's unit.
    Level,
    /// The largest figure of any replicate of the arm, in the metric's unit.
    Worst,
    /// The 95th percentile of all single events of the arm, in the metric's unit.
    P95,
    /// The 99th percentile of the same.
    P99,
    /// The arm's excess over `toward`, in the metric's unit.
    Loss,
    /// The arm's standard deviation, in the metric's unit.
    Spread,
    /// The share of the arm's replicates in which the daemon took no action, in %.
    StaysOff,
    /// The arm's gain as a share of the gain that the baseline's bound ([`Metric::BootBound`], [`Metric::PreloadBound`])
    /// allows, in %.
    OfBound,
    /// The arm's deviation from the baseline's prediction ([`Metric::BootOnTwo`], [`Metric::PreloadOnTwo`]), in % of the boot:
    /// of the predicted boot, or for a preload of the baseline's boot.
    OffPrediction,
    /// How far the estimate of the arm `toward` ([`Metric::EstimatedGain`]) is from what the arm really takes less than
    /// `against`, in % of the latter.
    OffEstimate,
}

/// How the samples of an arm become one figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Centre {
    #[default]
    Median,
    /// The arithmetic mean, as most papers report.
    Mean,
}

/// The points of the workload that a claim is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PointSelector {
    /// One result for each launch point, or one for the lookups.
    #[default]
    Each,
    /// One result: the mean of the measure over the launch points.
    Mean,
    /// One result: the idle point.
    Idle,
    /// One result for each of these launch points, named by their work.
    Work(Vec<u32>),
    /// One result for each combination of these names, or with one of these in the foreground.
    Named(Vec<String>),
}

/// Which part of a result must meet the requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VerdictBasis {
    /// The whole confidence interval.
    #[default]
    Interval,
    /// The estimate, which meets the requirement or, in a full form, misses it with the claim's `precision`; and no result may
    /// be significantly worse than what the arm is compared with: the permutation test's p is below 0.05 over the number of the
    /// claim's results (Bonferroni).
    Estimate,
}

impl<'de> Deserialize<'de> for PointSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = PointSelector;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("\"each\", \"mean\", \"idle\", a list of work_ms values or one of combinations")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PointSelector, E> {
                match text {
                    "each" => Ok(PointSelector::Each),
                    "mean" => Ok(PointSelector::Mean),
                    "idle" => Ok(PointSelector::Idle),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<PointSelector, A::Error> {
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
                Ok(if names.is_empty() { PointSelector::Work(work_ms) } else { PointSelector::Named(names) })
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

/// The requirement on a measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Requirement {
    /// `>= x`
    AtLeast(f64),
    /// `<= x`
    AtMost(f64),
    /// `within x`: from -x to x (an equivalence).
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

/// The number of a promise in SPECIFICATION.md: `LAUNCH-4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise(String);

impl FromStr for Promise {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_promise = text.split_once('-').is_some_and(|(group, number)| {
            let digits = !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
            let letters = group.bytes().all(|byte| byte.is_ascii_uppercase());
            letters && digits && !group.is_empty() && !number.is_empty()
        });
        if is_promise {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!("{text:?} is not a promise's number; write \"LAUNCH-4\", as SPECIFICATION.md does"))
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Promise {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One claim of an experiment's file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// `mechanism.claim`.
    pub id: String,
    /// The promise that it verifies.
    pub promise: Promise,
    /// The claim in words.
    pub text: String,
    /// What is computed from the samples.
    pub measure: Measure,
    /// The metric of the samples.
    #[serde(default)]
    pub metric: Metric,
    /// How the samples become one figure.
    #[serde(default)]
    pub centre: Centre,
    /// True compares within each block first: the result is the centre of the blocks' ratios (for a gain) or differences (for a
    /// loss and for both sides of a gap), not the ratio or difference of two centres. For experiments whose blocks differ more
    /// than their arms do.
    #[serde(default)]
    pub paired: bool,
    /// The arm that it is about.
    pub arm: Located<String>,
    /// The arm that it is compared with; the baseline when absent.
    pub against: Option<Located<String>>,
    /// The arm that is the goal, for [`Measure::GapClosed`] and [`Measure::Loss`]; that of the estimates, for
    /// [`Measure::OffEstimate`].
    pub toward: Option<Located<String>>,
    /// The points of the workload.
    #[serde(default)]
    pub at: PointSelector,
    /// The requirement; without one, the result is only reported.
    pub required: Option<Requirement>,
    /// Which part of the result must meet it.
    #[serde(default)]
    pub judged_by: VerdictBasis,
    /// In the full form, the largest half-width that the confidence interval may have, in the measure's unit.
    pub precision: Option<f64>,
    /// The figure that the paper prints.
    pub paper: Option<String>,
    /// True for a claim that the quick form cannot decide.
    #[serde(default)]
    pub full_only: bool,
}

impl Measure {
    /// Whether the measure can be computed within each block ([`Claim::paired`]).
    pub fn can_be_paired(self) -> bool {
        matches!(self, Self::Gain | Self::GapClosed | Self::Loss)
    }

    /// Whether it compares the arm with others.
    pub fn compares(self) -> bool {
        self.can_be_paired() || matches!(self, Self::OfBound | Self::OffPrediction | Self::OffEstimate)
    }

    /// Whether its figure is in %, and not in the metric's unit.
    pub fn is_percentage(self) -> bool {
        self == Self::StaysOff || self.compares() && self != Self::Loss
    }

    /// The quantile of single events, for the measures of single events.
    pub fn event_quantile(self) -> Option<f64> {
        match self {
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            _ => None,
        }
    }
}

impl Claim {
    /// The metrics of the claim's arm, of `against` and of `toward`.
    pub fn metrics(&self) -> [Metric; 3] {
        match self.measure {
            Measure::OfBound if self.metric == Metric::Preload => [self.metric, self.metric, Metric::PreloadBound],
            Measure::OfBound => [self.metric, self.metric, Metric::BootBound],
            Measure::OffPrediction if self.metric == Metric::Preload => {
                [self.metric, Metric::PreloadOnTwo, Metric::Boot]
            }
            Measure::OffPrediction => [self.metric, Metric::BootOnTwo, Metric::BootOnTwo],
            Measure::OffEstimate => [self.metric, self.metric, Metric::EstimatedGain],
            _ => [self.metric; 3],
        }
    }

    /// The arms that it names.
    pub fn arms(&self) -> impl Iterator<Item = &String> {
        [Some(&self.arm), self.against.as_ref(), self.toward.as_ref()].into_iter().flatten().map(|arm| &arm.value)
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

    #[test]
    fn a_promise_has_a_group_and_a_number() {
        for text in ["LAUNCH-4", "UNDO-12"] {
            assert_eq!(text.parse::<Promise>().unwrap().to_string(), text);
        }
        for text in ["", "LAUNCH", "LAUNCH-", "-4", "launch-4", "LAUNCH-04", "LAUNCH-4a", "LAUNCH-4-5", "LAUNCH 4"] {
            assert!(text.parse::<Promise>().unwrap_err().contains(text), "{text}");
        }
    }
}
