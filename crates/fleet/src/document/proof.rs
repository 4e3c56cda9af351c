//! A proof: a row for each claim.

use brisk_report::proof::{ClaimResult, ExperimentResult, Proof, Verdict};
use chrono::DateTime;

use super::Content;
use crate::evidence::Claim;
use crate::export::Fact;
use crate::fault::Fault;

/// Reads a proof of this schema.
pub fn read(bytes: &[u8], file: i64) -> Result<Content, Fault> {
    let Proof { brisk, started, device, experiments, .. } = super::json(bytes)?;
    let row = |experiment: &ExperimentResult, claim: &ClaimResult| {
        let ClaimResult { id, arm, point, unit, required, measured, ci, p, verdict, .. } = claim.clone();
        Fact::Claim(Box::new(Claim {
            file,
            experiment: experiment.name.clone(),
            claim: id,
            arm,
            point,
            unit,
            required,
            measured: available(measured),
            low: available(ci[0]),
            high: available(ci[1]),
            p,
            verdict: word(verdict),
            timekeeping: experiment.mode.word(),
            place: device.place.clone(),
            quick: experiment.quick,
        }))
    };
    let rows = experiments.iter().flat_map(|experiment| experiment.claims.iter().map(move |claim| (experiment, claim)));
    Ok(Content {
        made_at_s: DateTime::parse_from_rfc3339(&started).ok().map(|at| at.timestamp()),
        memory_kib: i64::try_from(device.memory_kib).unwrap_or(0),
        cpus: device.cpu_count.into(),
        brisk,
        kernel: device.kernel.clone(),
        facts: rows.map(|(experiment, claim)| row(experiment, claim)).collect(),
    })
}

/// In a proof NaN stands for what is not available.
fn available(figure: f64) -> Option<f64> {
    Some(figure).filter(|figure| figure.is_finite())
}

/// As a proof has it.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Shown => "shown",
        Verdict::NotShown => "not-shown",
        Verdict::Inconclusive => "inconclusive",
    }
}
