//! The measurements that a comparison judges: proof.json of `brisk prove`, and the files of docs/evidence.

use serde::{Deserialize, Serialize};

use brisk_report::evidence::{self, Claim, Measured, Series};
use brisk_report::json;
use brisk_report::proof::{self, ExperimentResult, Proof};

use crate::paper::{Course, Source};

/// One experiment's figures.
#[derive(Debug, Clone)]
pub struct Found {
    measured: Measured,
    /// True for the quick form.
    quick: bool,
    /// The whole result, where it is from a proof: only that has courses.
    result: Option<ExperimentResult>,
}

/// The figures of several experiments, one result for each.
#[derive(Debug, Clone, Default)]
pub struct Results(Vec<Found>);

/// A measured figure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// Its 95 % interval; `None` where there are too few samples for one.
    pub interval: Option<[f64; 2]>,
    /// The samples that it rests on.
    pub count: usize,
    /// Its unit.
    pub unit: String,
    /// The experiment.
    pub experiment: String,
    /// The arm.
    pub arm: String,
    /// True for the quick form, whose figures decide less.
    pub quick: bool,
}

/// A text that has no measurements.
#[derive(Debug, thiserror::Error)]
pub enum ResultsError {
    /// It is not JSON of either kind.
    #[error("{origin} is neither a proof.json of `brisk prove` nor a file of docs/evidence: {source}")]
    Invalid {
        /// The file.
        origin: String,
        /// The place and the reason.
        source: serde_json::Error,
    },
    /// Another version wrote it.
    #[error("{origin} has schema {found}; this brisk reads schema {known}: read it with the brisk that wrote it")]
    Schema {
        /// The file.
        origin: String,
        /// What it has.
        found: u32,
        /// What is read.
        known: u32,
    },
}

impl Results {
    /// Adds the experiments of `text`, a proof or a file of docs/evidence; `origin` names it in errors. Of two results of an
    /// experiment the full form is kept, and of two in the same form the newer one.
    ///
    /// # Errors
    /// When it is neither, or has another schema.
    pub fn add_text(&mut self, origin: &str, text: &str) -> Result<(), ResultsError> {
        #[derive(Deserialize)]
        struct Kind {
            schema: u32,
            experiment: Option<serde::de::IgnoredAny>,
        }
        let invalid = |source| ResultsError::Invalid { origin: origin.to_owned(), source };
        let kind: Kind = serde_json::from_str(text).map_err(invalid)?;
        let known = if kind.experiment.is_some() { evidence::SCHEMA } else { proof::SCHEMA };
        if kind.schema != known {
            return Err(ResultsError::Schema { origin: origin.to_owned(), found: kind.schema, known });
        }
        if kind.experiment.is_some() {
            self.add_evidence(serde_json::from_str(text).map_err(invalid)?);
        } else {
            self.add_proof(&json::parse(text).map_err(invalid)?);
        }
        Ok(())
    }

    /// Adds a file of docs/evidence, which is of a full form.
    pub fn add_evidence(&mut self, measured: Measured) {
        self.add(Found { measured, quick: false, result: None });
    }

    /// Adds every experiment of a proof.
    pub fn add_proof(&mut self, proof: &Proof) {
        for result in &proof.experiments {
            let measured = Measured::of(proof, result, "");
            self.add(Found { measured, quick: result.quick, result: Some(result.clone()) });
        }
    }

    fn add(&mut self, found: Found) {
        let rank = |found: &Found| (!found.quick, found.measured.started.clone());
        match self.0.iter_mut().find(|other| other.measured.experiment == found.measured.experiment) {
            Some(other) if rank(other) < rank(&found) => *other = found,
            Some(_) => {}
            None => self.0.push(found),
        }
    }

    /// True where nothing was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The figure of `source`; `None` where it was not measured.
    pub fn figure(&self, source: &Source) -> Option<Figure> {
        let Found { measured, quick, .. } = self.0.iter().find(|it| it.measured.experiment == source.experiment)?;
        let is_at = |point: &str| source.point.as_ref().is_none_or(|wanted| wanted == point);
        let is_series = |series: &&Series| series.arm == source.arm && series.metric == source.metric;
        let mut series = measured.series.iter().filter(is_series);
        let figure = |value: Option<f64>, interval: [Option<f64>; 2], unit: &str, count: usize| {
            Some(Figure {
                value: value?,
                interval: interval[0].zip(interval[1]).map(|(low, high)| [low, high]),
                count,
                unit: unit.to_owned(),
                experiment: source.experiment.clone(),
                arm: source.arm.clone(),
                quick: *quick,
            })
        };
        if let Some(id) = &source.claim {
            let is_claim = |claim: &&Claim| claim.id == *id && is_at(&claim.point);
            let claim = measured.claims.iter().find(is_claim)?;
            // A claim about all points has none, and rests on the samples of each.
            let series = series.filter(|series| claim.point.is_empty() || is_at(&series.point));
            let count = series.map(|series| series.count).sum();
            return figure(claim.measured, claim.ci, &claim.unit, count);
        }
        let series = series.find(|series| is_at(&series.point))?;
        if source.gain {
            let [low, high] = series.change_ci.map(|end| end.map(|end| -end));
            return figure(series.change.map(|change| -change), [high, low], "%", series.count);
        }
        figure(series.median, series.ci, &series.unit, series.count)
    }

    /// The result that has the curve `course`; `None` where it was not recorded, or is not kept.
    pub fn with_course(&self, course: &Course) -> Option<&ExperimentResult> {
        let found = self.0.iter().find(|it| it.measured.experiment == course.experiment)?;
        found.result.as_ref().filter(|result| result.courses.iter().any(|it| it.what == course.what))
    }
}

/// A file of docs/evidence with a claim (an arm, a metric, the claim's name, its figure and the interval's ends) for each entry.
#[cfg(test)]
pub(crate) fn kept(experiment: &str, claims: &[(&str, &str, &str, [f64; 3])]) -> Measured {
    use serde_json::json;

    let series = claims.iter().map(|(arm, metric, ..)| {
        json!({"arm": arm, "point": "work 1 ms", "metric": metric, "unit": "ms", "count": 30, "rejected": 0, "median": 2411.19,
               "ci": [2410.96, 2411.29], "standard_deviation": 0.3, "change": -24.9544, "change_ci": [-25.1652, -24.935]})
    });
    let results = claims.iter().map(|(arm, _, id, [value, low, high])| {
        json!({"id": id, "arm": arm, "point": "work 1 ms", "unit": "%", "required": "reported", "measured": value,
               "ci": [low, high], "p": null, "verdict": "shown"})
    });
    let device =
        json!({"place": "lab", "kernel": "", "processor": "", "cpu_count": 1, "memory_kib": 1, "energy_source": null});
    let file = json!({"schema": 1, "experiment": experiment, "title": "", "started": "2026-11-24T23:01:29Z", "commit": "0",
                      "brisk": "0.1.0", "device": device, "mode": "deterministic", "seed": 1, "command": "",
                      "series": series.collect::<Vec<_>>(), "claims": results.collect::<Vec<_>>()});
    serde_json::from_value(file).expect("a file of docs/evidence")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF: &str = include_str!("../../../tests/fixtures/proof.json");

    fn bursts() -> Measured {
        kept("boot-bursts", &[("hold", "launch", "boot.bursts-hold", [24.9544, 24.935, 25.1652])])
    }

    fn source(experiment: &str, arm: &str, metric: &str) -> Source {
        Source {
            experiment: experiment.to_owned(),
            arm: arm.to_owned(),
            metric: metric.to_owned(),
            point: None,
            claim: None,
            gain: false,
        }
    }

    #[test]
    fn figures_are_found_by_claim_series_and_gain() {
        let mut results = Results::default();
        assert!(results.is_empty());
        results.add_text("boot-bursts.json", &serde_json::to_string(&bursts()).unwrap()).unwrap();
        let hold = source("boot-bursts", "hold", "launch");
        let level = results.figure(&hold).unwrap();
        assert_eq!((level.value, level.unit.as_str(), level.count), (2411.19, "ms", 30));
        let gain = results.figure(&Source { gain: true, ..hold.clone() }).unwrap();
        assert_eq!((gain.value, gain.interval, gain.unit.as_str()), (24.9544, Some([24.935, 25.1652]), "%"));
        let claim = results.figure(&Source { claim: Some("boot.bursts-hold".to_owned()), ..hold.clone() }).unwrap();
        assert_eq!((claim.value, claim.count), (24.9544, 30));
        for missing in [
            Source { point: Some("work 2 ms".to_owned()), ..hold.clone() },
            Source { claim: Some("boot.none".to_owned()), ..hold },
            source("boot-bursts", "none", "launch"),
            source("boot-bursts", "hold", "none"),
            source("none", "hold", "launch"),
        ] {
            assert_eq!(results.figure(&missing), None, "{missing:?}");
        }
    }

    #[test]
    fn the_full_form_and_the_newer_run_are_kept() {
        let proof = json::parse(PROOF).unwrap();
        let name = proof.experiments[0].name.clone();
        let arm = &proof.experiments[0].arms[0];
        let wanted = Source { point: Some(arm.point.clone()), ..source(&name, &arm.name, &arm.metric) };
        let with = |quick: bool, started: &str, median: f64| {
            let mut proof = proof.clone();
            proof.started = started.to_owned();
            proof.experiments[0].quick = quick;
            proof.experiments[0].arms[0].median = median;
            proof
        };
        let full = with(false, "2026-01-01", 1.0);
        let newer = with(false, "2026-01-02", 2.0);
        let quick = with(true, "2026-01-03", 3.0);
        for (proofs, expected) in
            [([&full, &newer, &quick], 2.0), ([&quick, &newer, &full], 2.0), ([&quick, &full, &full], 1.0)]
        {
            let mut results = Results::default();
            proofs.iter().for_each(|proof| results.add_proof(proof));
            assert_eq!(results.figure(&wanted).unwrap().value, expected);
        }
    }

    #[test]
    fn a_claim_about_all_points_rests_on_the_samples_of_each() {
        let mut measured = bursts();
        let again = measured.series[0].clone();
        measured.series.push(Series { point: "work 2 ms".to_owned(), count: 7, ..again });
        measured.claims[0].point = String::new();
        let mut results = Results::default();
        results.add_evidence(measured);
        let claim = Some("boot.bursts-hold".to_owned());
        let mean = Source { claim, point: Some(String::new()), ..source("boot-bursts", "hold", "launch") };
        assert_eq!(results.figure(&mean).unwrap().count, 37);
    }

    /// The baseline has no change.
    #[test]
    fn a_series_without_a_change_has_no_gain() {
        let mut measured = bursts();
        measured.series[0].change = None;
        let mut results = Results::default();
        results.add_evidence(measured);
        assert_eq!(results.figure(&Source { gain: true, ..source("boot-bursts", "hold", "launch") }), None);
    }

    #[test]
    fn other_texts_are_refused_with_their_name() {
        let evidence = serde_json::to_string_pretty(&bursts()).unwrap();
        for (text, expected) in [
            ("", "is neither"),
            ("{}", "is neither"),
            ("{\"schema\":1}", "is neither"),
            ("{\"schema\":1,\"experiment\":\"a\"}", "is neither"),
            (&evidence[..evidence.len() / 2], "is neither"),
            (&evidence.replacen("\"schema\": 1", "\"schema\": 2", 1), "has schema 2; this brisk reads schema 1"),
            (&evidence.replacen("\"seed\"", "\"sead\"", 1), "unknown field `sead`"),
        ] {
            let error = Results::default().add_text("x.json", text).unwrap_err().to_string();
            assert!(error.starts_with("x.json ") && error.contains(expected), "{error}");
        }
    }
}
