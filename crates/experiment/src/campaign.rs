//! Several experiments, one after another. A failed one ends alone: its measurements are kept, and the others run.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::catalogue::Entry;
use super::conduct::{Findings, Limits, Run, RunEnding, Testbed};
use super::plan::{Line, Plan};
use super::store::{Store, StoredResults};
use brisk_report::proof::{ExperimentResult, Failure, FailureOf};

/// An experiment and its store.
#[derive(Debug)]
pub struct CampaignMember {
    /// The experiment and its file's text.
    pub entry: Entry,
    /// True for the quick form.
    pub quick: bool,
    /// The measured lines on disk.
    pub store: Store,
    /// The measured lines in memory.
    pub findings: Findings,
    /// How it ended; `None` until then.
    pub outcome: Option<ExperimentOutcome>,
}

/// How an experiment ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExperimentOutcome {
    /// Every replicate is measured.
    Complete,
    /// The time limit ended it.
    OutOfTime,
    /// It failed.
    Failed(Failure),
}

/// An event of an experiment.
#[derive(Debug)]
pub enum CampaignEvent<'a> {
    /// It starts.
    Begun,
    /// What one of its devices needs is fetched and built.
    Prepared {
        /// The device's plan.
        plan: &'a Plan,
        /// How long that took.
        took: Duration,
    },
    /// Its earlier measurements cannot be used: [`StoredResults::Other`].
    SetAside(&'a StoredResults),
    /// All devices are prepared; measuring starts.
    MeasuringBegun,
    /// A device sent a line.
    Line(&'a Line),
    /// It has ended: [`CampaignMember::outcome`].
    Ended(&'a CampaignMember),
}

impl CampaignMember {
    /// The run that it measures.
    pub fn run(&self) -> Run<'_> {
        run_of(&self.entry, self.quick, &self.store)
    }

    /// Its result; `command` repeats it.
    pub fn result(&self, command: String) -> ExperimentResult {
        let failure = match &self.outcome {
            Some(ExperimentOutcome::Failed(failure)) => Some(failure.clone()),
            _ => None,
        };
        ExperimentResult { failure, ..self.run().result(&self.findings, command) }
    }

    fn conduct(
        &mut self,
        testbed: &dyn Testbed,
        limits: &Limits<'_>,
        on_event: &mut dyn FnMut(CampaignEvent<'_>),
    ) -> anyhow::Result<RunEnding> {
        if self.store.header().shard.is_some() && self.run().missing(&self.findings).next().is_none() {
            // A farm starts complete shards again, and shards that got no block: they need no device.
            return Ok(RunEnding::Complete);
        }
        let mut devices = Vec::new();
        for plan in self.run().scenarios() {
            if limits.interrupted.load(Ordering::Relaxed) {
                return Ok(RunEnding::Interrupted);
            }
            let begun = Instant::now();
            devices.push(testbed.prepare(&self.entry.experiment, &plan)?);
            on_event(CampaignEvent::Prepared { plan: &plan, took: begun.elapsed() });
        }
        if let Some(found) = self.store.set_devices(&devices.join("\n"))? {
            self.findings = Findings::default();
            on_event(CampaignEvent::SetAside(&found));
        }
        on_event(CampaignEvent::MeasuringBegun);
        let Self { entry, quick, store, findings, .. } = self;
        let run = run_of(entry, *quick, store);
        run.conduct(testbed, store, findings, limits, &mut |_, line| on_event(CampaignEvent::Line(line)))
    }
}

fn run_of<'a>(entry: &'a Entry, quick: bool, store: &Store) -> Run<'a> {
    Run { experiment: &entry.experiment, quick, seed: store.header().seed, shard: store.header().shard }
}

/// Runs the experiments in order and reports each event with its experiment's index. [`CampaignMember::outcome`] has failures.
pub fn conduct(
    members: &mut [CampaignMember],
    testbed: &dyn Testbed,
    limits: &Limits<'_>,
    on_event: &mut dyn FnMut(usize, CampaignEvent<'_>),
) -> RunEnding {
    let mut ending = RunEnding::Complete;
    for (index, member) in members.iter_mut().enumerate() {
        on_event(index, CampaignEvent::Begun);
        let ended = member.conduct(testbed, limits, &mut |event| on_event(index, event));
        // An interrupt makes running devices fail; that is not the experiment's failure.
        if limits.interrupted.load(Ordering::Relaxed) {
            return RunEnding::Interrupted;
        }
        let outcome = match ended {
            Ok(RunEnding::Complete) => ExperimentOutcome::Complete,
            Ok(_) => {
                ending = RunEnding::OutOfTime;
                ExperimentOutcome::OutOfTime
            }
            Err(error) => ExperimentOutcome::Failed(failure(testbed, &error)),
        };
        member.outcome = Some(outcome);
        on_event(index, CampaignEvent::Ended(member));
    }
    ending
}

fn failure(testbed: &dyn Testbed, error: &anyhow::Error) -> Failure {
    let of = if testbed.is_testbed_error(error) { FailureOf::Lab } else { FailureOf::Experiment };
    Failure { of, reason: format!("{error:#}") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use anyhow::bail;

    use super::*;
    use crate::plan::Measured;
    use crate::spec::Experiment;
    use crate::store::Header;
    use brisk_report::proof::SelfCheck;

    const TEXT: &str = r#"name = "NAME"
title = "x"
description = "x"
mechanism = "launch"
mode = "native"
workload = { program = "load", work_ms = [100], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 3, full = 3, warm_up = 0 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
"#;

    fn member(folder: &Path, name: &str) -> CampaignMember {
        let text = TEXT.replace("NAME", name);
        let entry = Entry { experiment: Experiment::parse("x", &text).unwrap(), text: text.clone() };
        let header = Header { brisk: "1".into(), experiment: text, quick: true, seed: 5, ..Header::default() };
        let (store, found) = Store::open(&folder.join(name), &header, None, false).unwrap();
        let mut findings = Findings::default();
        if let StoredResults::Same(lines) = found {
            lines.into_iter().for_each(|line| findings.add(line));
        }
        CampaignMember { entry, quick: true, store, findings, outcome: None }
    }

    /// Fails by the experiment's name: `unprepared` in preparation, `broken` after `breaks_after` replicates.
    struct Device {
        kernel: &'static str,
        breaks_after: usize,
    }

    impl Testbed for Device {
        fn devices(&self, _: &Experiment) -> u32 {
            1
        }

        fn program(&self) -> anyhow::Result<String> {
            Ok(String::new())
        }

        fn prepare(&self, experiment: &Experiment, _: &Plan) -> anyhow::Result<String> {
            if experiment.name == "unprepared" {
                bail!("there is no such package");
            }
            Ok(self.kernel.to_owned())
        }

        fn is_testbed_error(&self, error: &anyhow::Error) -> bool {
            error.to_string().contains("package")
        }

        fn run(
            &self,
            experiment: &Experiment,
            plan: &Plan,
            _: u32,
            _: &AtomicBool,
            on_line: &mut dyn FnMut(Line),
        ) -> anyhow::Result<Vec<SelfCheck>> {
            for (count, replicate) in plan.replicates.iter().enumerate() {
                if experiment.name == "broken" && count == self.breaks_after {
                    bail!("the device broke");
                }
                on_line(Line::Measured(Measured {
                    replicate: replicate.id,
                    arm: plan.arms[replicate.arm].name.clone(),
                    point: plan.points[replicate.point].to_string(),
                    metrics: BTreeMap::from([("launch_ms".to_owned(), 100.0)]),
                    ..Measured::default()
                }));
            }
            Ok(Vec::new())
        }
    }

    /// Runs the experiments in `folder`: for each, the replicates that it resumed with, measured and has, and its failure.
    fn conducted(folder: &Path, device: &Device) -> Vec<(usize, usize, usize, Option<Failure>)> {
        let mut members = ["unprepared", "broken", "whole"].map(|name| member(folder, name));
        let taken = members.each_ref().map(|member| member.findings.measured().count());
        let mut measured = [0; 3];
        let mut ended = Vec::new();
        let limits = Limits { interrupted: &AtomicBool::new(false), until: None };
        conduct(&mut members, device, &limits, &mut |index, event| match event {
            CampaignEvent::Line(Line::Measured(_)) => measured[index] += 1,
            CampaignEvent::Ended(member) => ended.push((index, member.outcome.is_some())),
            _ => {}
        });
        assert_eq!(ended, [(0, true), (1, true), (2, true)]);
        let results = members.iter().map(|member| member.result(String::new()));
        let had = results.map(|result| {
            let launches = result.arms.iter().filter(|arm| arm.metric == "launch");
            (launches.map(|arm| arm.samples.len()).sum(), result.failure)
        });
        let rows = taken.into_iter().zip(measured).zip(had);
        rows.map(|((taken, measured), (has, failure))| (taken, measured, has, failure)).collect()
    }

    // Verifies PROVE-3.
    #[test]
    fn a_failed_experiment_ends_alone_and_resumes_where_it_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let failed = |of, reason: &str| Some(Failure { of, reason: reason.to_owned() });
        let no_package = || failed(FailureOf::Lab, "there is no such package");
        let broken = || failed(FailureOf::Experiment, "the device broke");
        let first = conducted(folder.path(), &Device { kernel: "one", breaks_after: 4 });
        assert_eq!(first, [(0, 0, 0, no_package()), (0, 4, 4, broken()), (0, 6, 6, None)]);
        let second = conducted(folder.path(), &Device { kernel: "one", breaks_after: 1 });
        assert_eq!(second, [(0, 0, 0, no_package()), (4, 1, 5, broken()), (6, 0, 6, None)]);
        let third = conducted(folder.path(), &Device { kernel: "two", breaks_after: 9 });
        assert_eq!(third, [(0, 0, 0, no_package()), (5, 6, 6, None), (6, 6, 6, None)], "another kernel begins again");
    }
}
