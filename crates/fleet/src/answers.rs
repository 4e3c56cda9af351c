//! The answers to the questions, with their columns' types.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::duckdb::{Answer, DuckDbError};

/// A row of `questions/regressions.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Change {
    /// `launch` or `boot`.
    pub metric: String,
    pub model: String,
    pub build: String,
    /// The build before it.
    pub previous: String,
    /// Devices that ran both.
    pub devices: u64,
    /// How much longer, in percent.
    pub change_percent: f64,
    pub low_percent: f64,
    pub high_percent: f64,
    /// Of the test that nothing has changed.
    pub p: f64,
    /// The smallest rate of false discoveries at which this is one.
    pub q: f64,
}

/// A row of `questions/boots.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Boots {
    pub model: String,
    pub build: String,
    pub devices: u64,
    pub boots: u64,
    pub length_ms: f64,
    pub low_ms: Option<f64>,
    pub high_ms: Option<f64>,
    pub kernel_ms: Option<f64>,
    pub held_percent: Option<f64>,
}

/// A row of `questions/launch_loss.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Loss {
    pub model: String,
    pub governor: String,
    pub boosted: bool,
    pub devices: u64,
    pub launches: u64,
    /// Launches whose loss is not known.
    pub unknown: u64,
    /// Not known where no launch has a known loss, as the next ones.
    pub length_ms: Option<f64>,
    pub loss_ms: Option<f64>,
    pub loss_percent: Option<f64>,
    pub low_percent: Option<f64>,
    pub high_percent: Option<f64>,
}

/// A row of `questions/kills.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Kills {
    pub memory_mib: u64,
    pub devices: u64,
    pub hours: f64,
    pub kills: u64,
    pub foreground_kills: u64,
    pub kills_in_100_hours: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub freed_kib: Option<f64>,
    pub headroom_kib: Option<f64>,
}

/// A row of `questions/switched_on.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Switched {
    pub mechanism: String,
    pub model: String,
    pub devices: u64,
    pub launches: u64,
    pub change_percent: f64,
    pub low_percent: Option<f64>,
    pub high_percent: Option<f64>,
}

/// A row of `questions/claims.sql`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Claimed {
    pub model: String,
    pub build: String,
    pub experiment: String,
    pub claim: String,
    /// Of the experiment's quick form.
    pub quick: bool,
    pub unit: String,
    pub required: String,
    /// Devices with a proof of it.
    pub devices: u64,
    /// Those whose proof shows the claim.
    pub shown: u64,
    /// Those whose proof refutes it.
    pub not_shown: u64,
    pub measured: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// All answers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    pub changes: Vec<Change>,
    pub boots: Vec<Boots>,
    pub losses: Vec<Loss>,
    pub kills: Vec<Kills>,
    pub switched: Vec<Switched>,
    pub claims: Vec<Claimed>,
    /// How long each question took, by name, where that is known.
    pub seconds: BTreeMap<&'static str, f64>,
}

impl Answers {
    /// The typed rows of what DuckDB answered.
    ///
    /// # Errors
    /// When an answer is not what its question selects.
    pub fn of(answers: &BTreeMap<&'static str, Answer>) -> Result<Self, DuckDbError> {
        fn rows<Row: serde::de::DeserializeOwned>(
            answers: &BTreeMap<&'static str, Answer>,
            question: &'static str,
        ) -> Result<Vec<Row>, DuckDbError> {
            let rows = answers.get(question).map_or_else(|| Ok(Vec::new()), Answer::rows);
            rows.map_err(|source| DuckDbError::Answer { question, source })
        }
        Ok(Self {
            changes: rows(answers, "regressions")?,
            boots: rows(answers, "boots")?,
            losses: rows(answers, "launch_loss")?,
            kills: rows(answers, "kills")?,
            switched: rows(answers, "switched_on")?,
            claims: rows(answers, "claims")?,
            seconds: answers.iter().filter_map(|(name, answer)| Some((*name, answer.seconds?))).collect(),
        })
    }
}
