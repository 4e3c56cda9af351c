//! The exit status of a proof.

use super::summary::Tally;
use crate::proof::{FailureOf, Proof};

/// A proof's overall status: the greatest that applies. The report lists the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// No claim was refuted.
    NothingRefuted,
    /// A claim was refuted; or one was left open, with `strict`.
    Refuted,
    /// An experiment could not be run.
    Error,
    /// The lab failed in an experiment.
    LabFailed,
}

impl Status {
    /// The status of `proof`; with `strict` a claim that was left open counts as a refuted one.
    pub fn of(proof: &Proof, strict: bool) -> Self {
        let tally = Tally::of(&proof.experiments);
        let is_refuted = tally.not_shown > 0 || strict && tally.inconclusive > 0;
        let claims = if is_refuted { Self::Refuted } else { Self::NothingRefuted };
        let failures = proof.experiments.iter().filter_map(|experiment| experiment.failure.as_ref());
        let failures = failures.map(|failure| match failure.of {
            FailureOf::Lab => Self::LabFailed,
            FailureOf::Experiment => Self::Error,
        });
        failures.fold(claims, Self::max)
    }

    /// The exit status of `brisk prove`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::NothingRefuted => 0,
            Self::Refuted => 1,
            Self::Error => 2,
            Self::LabFailed => 69,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;
    use crate::proof::{Failure, Verdict};

    /// The fixture's first experiment with claims of these verdicts, `None` for one that only reports, and a failure.
    fn proof(verdicts: &[Option<Verdict>], failures: &[FailureOf]) -> Proof {
        let mut proof = json::parse(include_str!("../../../tests/fixtures/proof.json")).unwrap();
        let mut experiment = proof.experiments.remove(0);
        let claim = experiment.claims.remove(0);
        experiment.claims = verdicts
            .iter()
            .map(|verdict| {
                let mut claim = claim.clone();
                claim.required = if verdict.is_some() { ">= 1" } else { "reported" }.into();
                claim.verdict = verdict.unwrap_or(Verdict::Inconclusive);
                claim
            })
            .collect();
        proof.experiments = vec![experiment.clone()];
        for &of in failures {
            let failure = Some(Failure { of, reason: "it broke".into() });
            proof.experiments.push(crate::proof::ExperimentResult {
                failure,
                claims: Vec::new(),
                ..experiment.clone()
            });
        }
        proof
    }

    /// Verdicts, failures, the status, the status with --strict.
    type Case<'a> = (&'a [Option<Verdict>], &'a [FailureOf], u8, u8);

    // Verifies PROVE-3.
    #[test]
    fn the_exit_status_follows_from_verdicts_and_failures() {
        use FailureOf::{Experiment, Lab};
        use Verdict::{Inconclusive, NotShown, Shown};
        let [shown, refuted, open] = [Shown, NotShown, Inconclusive].map(Some);
        let cases: [Case<'_>; 13] = [
            (&[], &[], 0, 0),
            (&[shown], &[], 0, 0),
            (&[None], &[], 0, 0),
            (&[shown, None], &[], 0, 0),
            (&[open], &[], 0, 1),
            (&[shown, open], &[], 0, 1),
            (&[shown, refuted], &[], 1, 1),
            (&[open, refuted, shown], &[], 1, 1),
            (&[shown], &[Experiment], 2, 2),
            (&[refuted], &[Experiment], 2, 2),
            (&[shown], &[Lab], 69, 69),
            (&[refuted, open], &[Lab], 69, 69),
            (&[shown], &[Lab, Experiment], 69, 69),
        ];
        for (verdicts, failures, expected, strict) in cases {
            let proof = proof(verdicts, failures);
            let found = [false, true].map(|strict| Status::of(&proof, strict).exit_code());
            assert_eq!(found, [expected, strict], "{verdicts:?} {failures:?}");
        }
    }
}
