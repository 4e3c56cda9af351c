//! The findings of a run: a line for each point while it runs, and its result.

use std::collections::BTreeMap;

use super::{Findings, Precision, Run};
use crate::claim::Measure;
use crate::metric::{Metric, Subject};
use crate::samples::Samples;
use crate::spec::Experiment;
use crate::verdict::judge;
use brisk_report::proof::{ExperimentResult, Timekeeping};

impl Run<'_> {
    /// The state of each point for which a claim asks for precision, one line each.
    pub fn state(&self, findings: &Findings) -> Vec<String> {
        let line = |Precision { arm, point, measured, ci: [low, high], is_reached, .. }: Precision| {
            let arm = arm.unwrap_or_default();
            let of_arm = findings.measured.values().filter(|found| found.arm == arm && found.point == point);
            let (refused, accepted): (Vec<_>, Vec<_>) = of_arm.partition(|found| found.rejected.is_some());
            let word = if is_reached { "precise" } else { "needs more" };
            format!(
                "{point}: {} of {arm}, {} refused: {measured:+.1} % [{low:.1}, {high:.1}], {word}",
                accepted.len(),
                refused.len()
            )
        };
        self.precisions(&self.samples(findings)).into_iter().map(line).collect()
    }

    /// Names the points that are less precise than their claim asks for. The quick form promises no precision.
    fn imprecise_note(&self, samples: &Samples) -> Option<String> {
        let mut by_claim: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for precision in self.precisions(samples).into_iter().filter(|precision| !precision.is_reached && !self.quick) {
            by_claim.entry(precision.claim).or_default().push(precision.point);
        }
        let lists = by_claim.iter().map(|(claim, points)| format!("{claim}: {}", points.join("; ")));
        let lists: Vec<String> = lists.collect();
        (!lists.is_empty()).then(|| format!("Less precise than was asked for: {}.", lists.join(". ")))
    }

    /// The result of the findings.
    pub fn result(&self, findings: &Findings, command: String) -> ExperimentResult {
        let experiment = self.experiment;
        let samples = self.samples(findings);
        let mut notes = experiment.notes.clone();
        #[cfg(feature = "lab")]
        notes.extend(experiment.combinations.iter().flat_map(|combinations| combinations.notes(self.quick)));
        notes.extend(self.imprecise_note(&samples));
        notes.extend(mode_note(experiment).map(str::to_owned));
        notes.extend(findings.notes.iter().cloned());
        ExperimentResult {
            name: experiment.name.clone(),
            title: experiment.title.clone(),
            description: experiment.description.clone(),
            mechanism: experiment.mechanism.clone(),
            mode: experiment.mode,
            quick: self.quick,
            seed: self.seed,
            arms: samples.series(experiment, &metrics(experiment)),
            claims: judge(experiment, self.quick, &samples),
            notes,
            command,
            self_checks: findings.self_checks.clone(),
            rejections: samples.rejections(experiment),
            courses: samples.courses(experiment),
            processes: samples.processes(experiment),
            failure: None,
        }
    }
}

/// The metrics worth a series: times and energy always, the others where a claim is about them.
pub(super) fn metrics(experiment: &Experiment) -> Vec<Metric> {
    let claimed = |metric: &Metric| match metric {
        metric if metric.subject() != experiment.subject() => false,
        // A device's own boot has no other figures.
        metric if experiment.reboots.is_some() => matches!(metric, Metric::Boot | Metric::Kernel | Metric::Preload),
        Metric::LookupTime => experiment.mode == Timekeeping::Parallel,
        metric if metric.subject() == Subject::Boots => true,
        metric if metric.subject() == Subject::Lookups => experiment.mode == Timekeeping::Deterministic,
        Metric::Basic | Metric::RunEnergy => experiment.claims.iter().any(|claim| claim.metric == *metric),
        Metric::EstimatedGain => experiment.arms.iter().any(|arm| arm.estimates.is_some()),
        Metric::Actions => experiment.claims.iter().any(|claim| claim.measure == Measure::StaysOff),
        // Only one arm has a claim about missed music.
        Metric::MusicMissed => false,
        metric if metric.subject() == Subject::Applications => experiment.claims.iter().any(|c| c.metric == *metric),
        _ => true,
    };
    Metric::ALL.into_iter().filter(claimed).collect()
}

fn mode_note(experiment: &Experiment) -> Option<&'static str> {
    match experiment.mode {
        Timekeeping::Deterministic if experiment.applications.is_some() => Some(
            "Time is counted in instructions executed by the guest: repeatable, but blind to caches. Flash takes the time of \
             its model.",
        ),
        Timekeeping::Deterministic if experiment.lookups.is_some() => Some(
            "Figures are instructions executed by the guest: repeatable, but blind to caches and memory, and to the other \
             costs of switching between processes.",
        ),
        Timekeeping::Deterministic => Some(
            "Time is counted in instructions executed by the guest: repeatable, but blind to caches and memory. \
             Energy is the virtual CPU's model, C x V^2 x f while busy.",
        ),
        Timekeeping::Parallel if experiment.lookups.is_some() => Some(
            "Several emulated CPUs on the host's clock: only ratios of replicates that ran side by side are meaningful. \
             Replicates in which the host kept a CPU waiting for more than 3 % of the time are refused. Under emulation, \
             switching between processes is more expensive than on a processor, and a hit avoids it.",
        ),
        Timekeeping::Parallel if experiment.boots.is_some() => Some(
            "Each boot is a guest of its own, two emulated CPUs on the host's clock: only ratios of boots that ran side \
             by side are meaningful, and a boot in which the host kept a CPU waiting for more than 3 % of the time is \
             refused. HotSpot stands in for ART, and only interprets: two of its threads hardly load classes at the same \
             time. The paper's child is forked through JNI; it has one thread, so the zygote collects no garbage in any arm. \
             Figures for 4 and 8 CPUs are predicted by scheduling natively measured costs, not measured.",
        ),
        Timekeeping::Parallel if experiment.subject() == Subject::Combinations => Some(
            "Two emulated CPUs on the host's clock: only ratios of replicates that ran side by side are meaningful, and a \
             replicate in which the host kept a CPU waiting for more than 3 % of the time is refused.",
        ),
        Timekeeping::Parallel => Some(
            "Several emulated CPUs on the host's clock: only ratios of replicates that ran side by side are meaningful. \
             Replicates in which the host kept a CPU waiting for more than 3 % of the time are refused. The virtual \
             frequency itself is checked only in deterministic mode.",
        ),
        Timekeeping::Native => None,
    }
}
