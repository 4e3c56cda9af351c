//! What a person sees while experiments run: a bar on a terminal, a line now and then elsewhere. Always on stderr.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "lab")]
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[cfg(feature = "lab")]
use indicatif::{ProgressBar, ProgressStyle};

use super::set_aside;
use brisk_base::notes::note;
use brisk_experiment::campaign::{CampaignEvent, ExperimentOutcome, Member};
use brisk_experiment::conduct::{Findings, Place};
use brisk_experiment::costs::Costs;
use brisk_experiment::estimate::{Estimate, words};
use brisk_experiment::plan::Line;
use brisk_experiment::spec::Experiment;

/// Between two lines where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(60);
/// The bar's parts.
#[cfg(feature = "lab")]
const PARTS: u64 = 1000;

/// A bar on a terminal. What a device carries says lines alone.
#[cfg(feature = "lab")]
struct Bar(ProgressBar);

#[cfg(feature = "lab")]
impl Bar {
    /// A bar, where stderr is a terminal.
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

/// Progress over all experiments of one `brisk prove`, and what is learned of their costs.
pub struct Progress {
    bar: Option<Bar>,
    begun: Instant,
    estimate: Estimate,
    costs: Costs,
    record: PathBuf,
    experiments: Vec<Measured>,
    /// When the measuring of the experiment under way began.
    since: Instant,
    last_line: Instant,
}

/// How far an experiment has come.
struct Measured {
    name: String,
    title: String,
    devices: u32,
    guests: usize,
    /// What each replicate costs, relative to the others.
    cost_ms: BTreeMap<u32, u64>,
    missing: BTreeSet<u32>,
    done_ms: u64,
}

impl Measured {
    fn of(member: &Member, place: &dyn Place) -> Self {
        let run = member.run();
        let Experiment { name, title, .. } = run.experiment;
        Self {
            name: name.clone(),
            title: title.clone(),
            devices: place.devices(run.experiment),
            guests: run.scenarios().iter().filter(|plan| plan.scenario.is_some()).count(),
            cost_ms: run.missing(&Findings::default()).map(|(replicate, cost_ms)| (replicate.id, cost_ms)).collect(),
            missing: run.missing(&member.findings).map(|(replicate, _)| replicate.id).collect(),
            done_ms: 0,
        }
    }

    /// Of all that is missing.
    fn left_ms(&self) -> u64 {
        self.missing.iter().filter_map(|id| self.cost_ms.get(id)).sum()
    }
}

impl Progress {
    /// Progress over `members` at `place`; what they cost is on record in the file `record`.
    pub fn new(members: &[Member], place: &dyn Place, record: PathBuf) -> Self {
        let costs = Costs::read(&record);
        let expected = members.iter().map(|member| {
            let run = member.run();
            (run, &member.findings, place.devices(run.experiment))
        });
        let estimate = Estimate::new(costs.expected(expected));
        let experiments = members.iter().map(|member| Measured::of(member, place)).collect();
        let now = Instant::now();
        Self { bar: Bar::new(), begun: now, estimate, costs, record, experiments, since: now, last_line: now }
    }

    /// Something happens to experiment number `index`.
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
            CampaignEvent::Measures => {
                self.since = Instant::now();
                let Measured { name, devices, guests, .. } = &*experiment;
                let expected_s = self.costs.measure_s(name, experiment.left_ms(), *devices, *guests);
                self.estimate.measures(expected_s, now);
            }
            CampaignEvent::Line(Line::Measured(measured)) => {
                if experiment.missing.remove(&measured.replicate) {
                    experiment.done_ms += experiment.cost_ms[&measured.replicate];
                    let all_ms = experiment.done_ms + experiment.left_ms();
                    self.estimate.advance(experiment.done_ms as f64 / all_ms.max(1) as f64, now);
                }
            }
            CampaignEvent::Line(_) => {}
            CampaignEvent::Ended(outcome) => {
                self.estimate.end(now);
                match outcome {
                    ExperimentOutcome::Complete => {
                        self.costs.learn_pace(&experiment.name, experiment.done_ms, self.since.elapsed());
                    }
                    ExperimentOutcome::OutOfTime => {}
                    ExperimentOutcome::Failed(failure) => {
                        let text = format!("{} failed: {}", experiment.name, failure.reason);
                        self.say(&text);
                    }
                }
                // Nothing depends on it but the time that is told.
                let _ = self.costs.write(&self.record);
            }
        }
        self.show(index);
    }

    /// Brings the bar up to date, or says now and then how far it is.
    fn show(&mut self, index: usize) {
        let now = self.begun.elapsed();
        let name = &self.experiments[index].name;
        if let Some(bar) = &self.bar {
            let (left, count) = (words(self.estimate.left(now)), self.experiments.len());
            bar.show(self.estimate.done(now), format!("{left}  {name}, {} of {count}", index + 1));
        } else if self.last_line.elapsed() >= LINE_PERIOD {
            let name = name.clone();
            self.line(&name);
        }
    }

    /// A line with the time that is left, where no bar tells it.
    fn line(&mut self, text: &str) {
        if self.bar.is_none() {
            self.last_line = Instant::now();
            note!("{text}, {}", words(self.estimate.left(self.begun.elapsed())));
        }
    }

    /// A line for people above the bar.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.say(text),
            None => note!("{text}"),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.iter().for_each(Bar::finish);
    }
}
