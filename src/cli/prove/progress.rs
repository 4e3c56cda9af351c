//! Progress while experiments run, on stderr: a bar on a terminal, otherwise a line every [`LINE_PERIOD`].

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "lab")]
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anstream::{AutoStream, ColorChoice};
#[cfg(feature = "lab")]
use indicatif::{ProgressBar, ProgressStyle};

use super::set_aside;
use brisk_base::notes::note;
use brisk_experiment::campaign::{CampaignEvent, CampaignMember, ExperimentOutcome};
use brisk_experiment::conduct::{Findings, Testbed};
use brisk_experiment::costs::Costs;
use brisk_experiment::estimate::{Estimate, remaining_text};
use brisk_experiment::plan::Line;
use brisk_experiment::spec::Experiment;
use brisk_report::brief;

/// The period of progress lines without a terminal.
const LINE_PERIOD: Duration = Duration::from_secs(60);
/// The bar's resolution.
#[cfg(feature = "lab")]
const PARTS: u64 = 1000;

/// A bar on a terminal. The device's build prints only lines.
#[cfg(feature = "lab")]
struct Bar(ProgressBar);

#[cfg(feature = "lab")]
impl Bar {
    /// A bar, if stderr is a terminal.
    fn new() -> Option<Self> {
        let bar =
            (std::io::stderr().is_terminal() && !brisk_base::notes::are_silent()).then(|| ProgressBar::new(PARTS))?;
        bar.set_style(ProgressStyle::with_template("{bar:24} {percent:>3} %  {wide_msg}").ok()?);
        bar.enable_steady_tick(Duration::from_millis(250));
        Some(Self(bar))
    }

    fn show(&self, share: f64, text: String) {
        self.0.set_message(text);
        self.0.set_position((share * PARTS as f64) as u64);
    }

    fn say(&self, text: &str) {
        self.0.println(text);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}

#[cfg(not(feature = "lab"))]
enum Bar {}

#[cfg(not(feature = "lab"))]
impl Bar {
    fn new() -> Option<Self> {
        None
    }

    fn show(&self, _share: f64, _text: String) {}

    fn say(&self, _text: &str) {}

    fn finish(&self) {}
}

/// The progress of all experiments of one `brisk prove`, and their measured costs.
pub struct Progress {
    bar: Option<Bar>,
    begun: Instant,
    estimate: Estimate,
    costs: Costs,
    record: PathBuf,
    experiments: Vec<Measured>,
    /// When the current experiment began to measure.
    since: Instant,
    last_line: Instant,
}

/// The progress of one experiment.
struct Measured {
    name: String,
    title: String,
    devices: u32,
    guests: usize,
    /// The relative cost of each replicate.
    cost_ms: BTreeMap<u32, u64>,
    missing: BTreeSet<u32>,
    done_ms: u64,
}

impl Measured {
    fn of(member: &CampaignMember, testbed: &dyn Testbed) -> Self {
        let run = member.run();
        let Experiment { name, title, .. } = run.experiment;
        Self {
            name: name.clone(),
            title: title.clone(),
            devices: testbed.devices(run.experiment),
            guests: run.scenarios().iter().filter(|plan| plan.scenario.is_some()).count(),
            cost_ms: run.missing(&Findings::default()).map(|(replicate, cost_ms)| (replicate.id, cost_ms)).collect(),
            missing: run.missing(&member.findings).map(|(replicate, _)| replicate.id).collect(),
            done_ms: 0,
        }
    }

    /// The cost of all missing replicates.
    fn left_ms(&self) -> u64 {
        self.missing.iter().filter_map(|id| self.cost_ms.get(id)).sum()
    }
}

impl Progress {
    /// The progress of `members` at `testbed`; the file `record` holds the costs of earlier runs.
    pub fn new(members: &[CampaignMember], testbed: &dyn Testbed, record: PathBuf) -> Self {
        let costs = Costs::read(&record);
        let expected = members.iter().map(|member| {
            let run = member.run();
            (run, &member.findings, testbed.devices(run.experiment))
        });
        let estimate = Estimate::new(costs.expected(expected));
        let experiments = members.iter().map(|member| Measured::of(member, testbed)).collect();
        let now = Instant::now();
        Self { bar: Bar::new(), begun: now, estimate, costs, record, experiments, since: now, last_line: now }
    }

    /// Handles an event of experiment number `index`.
    pub fn on(&mut self, index: usize, event: &CampaignEvent<'_>) {
        let now = self.begun.elapsed();
        let count = self.experiments.len();
        let experiment = &mut self.experiments[index];
        match event {
            CampaignEvent::Begun => {
                self.estimate.begin(index, now);
                let text = format!("{} of {count}: {}: {}", index + 1, experiment.name, experiment.title);
                self.line(&text);
            }
            CampaignEvent::Prepared { plan, took } => {
                self.estimate.prepared(now);
                plan.scenario.iter().for_each(|scenario| self.costs.learn_set_up(scenario, *took));
            }
            CampaignEvent::SetAside(found) => {
                experiment.missing = experiment.cost_ms.keys().copied().collect();
                let text = format!("{}: {}", experiment.name, set_aside(found));
                self.say(&text);
            }
            CampaignEvent::MeasuringBegun => {
                self.since = Instant::now();
                let Measured { name, devices, guests, .. } = &*experiment;
                let expected_s = self.costs.measure_s(name, experiment.left_ms(), *devices, *guests);
                self.estimate.begin_measuring(expected_s, now);
            }
            CampaignEvent::Line(Line::Measured(measured)) => {
                if experiment.missing.remove(&measured.replicate) {
                    experiment.done_ms += experiment.cost_ms[&measured.replicate];
                    let all_ms = experiment.done_ms + experiment.left_ms();
                    self.estimate.advance(experiment.done_ms as f64 / all_ms.max(1) as f64, now);
                }
            }
            CampaignEvent::Line(_) => {}
            CampaignEvent::Ended(member) => {
                self.estimate.end(now);
                match &member.outcome {
                    Some(ExperimentOutcome::Complete) => {
                        self.costs.learn_pace(&experiment.name, experiment.done_ms, self.since.elapsed());
                        self.say_result(member);
                    }
                    Some(ExperimentOutcome::OutOfTime) | None => {}
                    Some(ExperimentOutcome::Failed(failure)) => {
                        let text = format!("{} failed: {}", experiment.name, failure.reason);
                        self.say(&text);
                    }
                }
                // Only the estimate of the remaining time depends on it.
                let _ = self.costs.write(&self.record);
            }
        }
        self.show(index);
    }

    /// Prints the result of an experiment at once: all of them take long. A shard has none of its own.
    fn say_result(&self, member: &CampaignMember) {
        if self.experiments.len() < 2 || member.store.header().shard.is_some() {
            return;
        }
        let names = brief::column_width(self.experiments.iter().map(|experiment| experiment.name.as_str()));
        let colour = self.bar.is_some() && AutoStream::choice(&std::io::stderr()) != ColorChoice::Never;
        self.say(&brief::line(&member.result(String::new()), names, super::report::width(), colour));
    }

    /// Updates the bar, or prints a line every [`LINE_PERIOD`].
    fn show(&mut self, index: usize) {
        let now = self.begun.elapsed();
        let name = &self.experiments[index].name;
        if let Some(bar) = &self.bar {
            let (left, count) = (remaining_text(self.estimate.left(now)), self.experiments.len());
            bar.show(self.estimate.done(now), format!("{left}  {name}, {} of {count}", index + 1));
        } else if self.last_line.elapsed() >= LINE_PERIOD {
            let name = name.clone();
            self.line(&name);
        }
    }

    /// Prints a line with the remaining time, unless there is a bar.
    fn line(&mut self, text: &str) {
        if self.bar.is_none() {
            self.last_line = Instant::now();
            note!("{text}, {}", remaining_text(self.estimate.left(self.begun.elapsed())));
        }
    }

    /// Prints a line, above the bar if there is one.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.say(text),
            None => note!("{text}"),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.iter().for_each(Bar::finish);
    }
}
