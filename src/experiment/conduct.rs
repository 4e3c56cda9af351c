//! One experiment from its file to its result: schedule, devices, partial results, verdicts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::claim::Measure;
use super::metric::{Metric, Subject};
use super::plan::{Line, Measured, Plan, Replicate};
use super::point::Point;
use super::samples::Samples;
use super::schedule::{Design, blocks, share};
use super::spec::Experiment;
use super::store::Store;
use super::verdict::{is_precise, judge, judge_one};
use crate::report::proof::{DeviceDescription, ExperimentResult, Mode, SelfCheck};

/// Somewhere to run plans: the lab's guests, or the user's own device.
pub trait Place: Sync {
    /// How many plans of this experiment it can run at once without one disturbing the other.
    fn devices(&self, experiment: &Experiment) -> u32;

    /// Whether `plan` names a device that there is, before anything is measured.
    ///
    /// # Errors
    /// When there is none.
    fn check(&self, _plan: &Plan) -> anyhow::Result<()> {
        Ok(())
    }

    /// The digest of the programs that measure.
    ///
    /// # Errors
    /// When they cannot be read.
    fn program(&self) -> anyhow::Result<String>;

    /// Fetches and builds what `plan` needs, and says what its device is: samples of another one are never mixed with
    /// its samples.
    ///
    /// # Errors
    /// When something of it cannot be had.
    fn prepare(&self, experiment: &Experiment, plan: &Plan) -> anyhow::Result<String>;

    /// True for an error of the place itself, which says nothing about the experiment.
    fn has_failed(&self, _error: &anyhow::Error) -> bool {
        false
    }

    /// Runs `plan` on device number `device` and hands on its lines as they come. Ends early when `interrupted` becomes
    /// true.
    ///
    /// # Errors
    /// When the device fails; lines that were handed on before count.
    fn run(
        &self,
        experiment: &Experiment,
        plan: &Plan,
        device: u32,
        interrupted: &AtomicBool,
        on_line: &mut dyn FnMut(Line),
    ) -> anyhow::Result<Vec<SelfCheck>>;
}

/// One run of one experiment.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What is run.
    pub experiment: &'a Experiment,
    /// True for the quick form.
    pub quick: bool,
    /// The seed of the schedule.
    pub seed: u64,
}

/// What has been found so far.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    device: Option<DeviceDescription>,
    measured: BTreeMap<u32, Measured>,
    self_checks: Vec<SelfCheck>,
    notes: Vec<String>,
}

impl Findings {
    /// Takes in one line.
    pub fn add(&mut self, line: Line) {
        match line {
            Line::Measured(measured) => drop(self.measured.insert(measured.replicate, measured)),
            Line::Device { device } => self.device = Some(device),
            Line::SelfCheck { self_check } if !self.self_checks.contains(&self_check) => {
                self.self_checks.push(self_check);
            }
            Line::Note { note } if !self.notes.contains(&note) => self.notes.push(note),
            Line::Started { .. } | Line::SelfCheck { .. } | Line::Note { .. } | Line::Failed { .. } => {}
        }
    }

    /// Forgets what was rejected, so that it is measured again. Returns how many replicates stay, and how many do not.
    pub fn retry_rejected(&mut self) -> (usize, usize) {
        let all = self.measured.len();
        self.measured.retain(|_, measured| measured.rejected.is_none());
        (self.measured.len(), all - self.measured.len())
    }

    /// Whether something is known of the replicate `id`: a figure, or why there is none.
    pub fn has(&self, id: u32) -> bool {
        self.measured.contains_key(&id)
    }

    /// What was measured or refused, by the number of its replicate.
    pub fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.measured.values()
    }

    /// The device that was measured, once it is known.
    pub fn device(&self) -> Option<&DeviceDescription> {
        self.device.as_ref()
    }
}

/// When a run ends early.
#[derive(Debug, Clone, Copy)]
pub struct Limits<'a> {
    /// As soon as this is true.
    pub interrupted: &'a AtomicBool,
    /// An experiment whose blocks are runs of their own begins none after this.
    pub until: Option<Instant>,
}

/// Whether a claim at a point is as precise as it asks to be.
#[derive(Debug)]
struct Precision {
    claim: String,
    arm: Option<String>,
    point: String,
    measured: f64,
    ci: [f64; 2],
    is_reached: bool,
}

/// What is run before anybody looks whether it is enough, or too late for more: points of blocks.
#[derive(Debug, Clone)]
struct Stage {
    blocks: Range<u32>,
    points: Range<usize>,
}

/// Points of a block that are a stage together, where blocks are runs of their own: some two minutes of combinations.
const POINTS_OF_A_STAGE: usize = 6;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All replicates were run.
    Complete,
    /// [`Limits::until`] came first; what was measured is stored.
    OutOfTime,
    /// It was interrupted; what was measured is stored.
    Interrupted,
}

impl Run<'_> {
    /// What is scheduled.
    pub fn design(&self) -> Design {
        Design {
            arms: self.experiment.arms.len(),
            replicates: self.experiment.replicates_by_point(self.quick),
            left_out: self.experiment.left_out(self.quick),
            warm_up: self.experiment.replicates.warm_up,
            settle_us: self.settle_ms().map(|ms| u64::from(ms) * 1000),
            seed: self.seed,
        }
    }

    /// About how long a replicate keeps a device busy, in milliseconds: for progress only.
    pub fn cost_ms(&self, replicate: &Replicate) -> u64 {
        // In deterministic mode the emulator works off busy time about four times as fast, idle time eight times.
        let [shortest, longest] = self.settle_ms();
        let rest = u64::from(shortest.midpoint(longest));
        let window = self.experiment.launches.as_ref().map_or(0, |launches| launches.window_beyond_work_ms);
        let look_ups = || self.experiment.look_ups.as_ref().map_or(0, |look_ups| u64::from(look_ups.count));
        let (busy, idle) = match self.experiment.points(self.quick)[replicate.point] {
            Point::Work(work_ms) => (u64::from(work_ms), rest + u64::from(window)),
            Point::Idle(idle_ms) => (0, rest + u64::from(idle_ms)),
            // Some 30 microseconds each, and as much again for what comes before.
            Point::LookUps(count) => (2 * u64::from(count) * 30 / 1000, 0),
            Point::Application(_) => (2 * look_ups() * 30 / 1000, 0),
            Point::Clients(clients) => (300 + u64::from(clients) * look_ups() * 60 / 1000, 0),
            // Half a second of work and a second in the foreground each.
            // A quarter of a second or so each for a few hundred processes.
            Point::Readings(count) => (250 * u64::from(count), 0),
            // A Java machine starts and preloads, under emulation.
            Point::Boot => (15_000, 0),
            Point::Openings(count) => (500 * u64::from(count), 1000 * u64::from(count)),
            // What is beside it has to wait for, and to be started.
            Point::Combination(_) => (u64::from(self.foreground_ms(replicate.point)) * 5 / 4 + 200, rest),
        };
        if self.experiment.mode == Mode::Deterministic { 300 + busy / 4 + idle / 8 } else { busy + idle }
    }

    /// Shortest and longest rest before a replicate.
    fn settle_ms(&self) -> [u32; 2] {
        #[cfg(feature = "lab")]
        if let Some(combinations) = &self.experiment.combinations {
            return combinations.settle_ms;
        }
        self.experiment.launches.as_ref().map_or([0, 0], |launches| launches.settle_ms)
    }

    #[cfg(feature = "lab")]
    fn foreground_ms(&self, point: usize) -> u32 {
        let combinations = self.experiment.combinations.iter();
        let mut of_form = combinations.flat_map(|combinations| combinations.of_form(self.quick));
        of_form.nth(point).map_or(0, |combination| combination.foreground.lasts_ms())
    }

    #[cfg(not(feature = "lab"))]
    fn foreground_ms(&self, _point: usize) -> u32 {
        0
    }

    /// The replicates that `findings` has not, each with its cost.
    pub fn missing<'a>(&'a self, findings: &'a Findings) -> impl Iterator<Item = (Replicate, u64)> + 'a {
        let all = blocks(&self.design()).into_iter();
        all.filter(|replicate| !findings.measured.contains_key(&replicate.id))
            .map(|replicate| (replicate, self.cost_ms(&replicate)))
    }

    /// Runs what is missing in `findings`, on as many devices as `place` has. Every line is stored, then added to
    /// `findings`, then shown to `progress`.
    ///
    /// # Errors
    /// When a device or the store fails; what was measured until then is stored.
    pub fn conduct(
        &self,
        place: &dyn Place,
        store: &mut Store,
        findings: &mut Findings,
        limits: &Limits<'_>,
        progress: &mut dyn FnMut(&Run<'_>, &Line),
    ) -> anyhow::Result<Ending> {
        for stage in self.stages() {
            if limits.until.is_some_and(|until| until <= Instant::now()) {
                return Ok(Ending::OutOfTime);
            }
            let skipped = self.not_wanted(findings, &stage);
            if let Ending::Interrupted = self.conduct_stage(&skipped, place, store, findings, limits, progress)? {
                return Ok(Ending::Interrupted);
            }
        }
        Ok(Ending::Complete)
    }

    fn stages(&self) -> Vec<Stage> {
        let (blocks, points) = (self.design().blocks(), self.experiment.points(self.quick).len());
        if self.quick || self.experiment.replicates.least.is_none() {
            return vec![Stage { blocks: 0..blocks, points: 0..points }];
        }
        let first = |block| (0..points).step_by(POINTS_OF_A_STAGE).map(move |point| (block, point));
        let stage = |(block, point): (u32, usize)| Stage {
            blocks: block..block + 1,
            points: point..(point + POINTS_OF_A_STAGE).min(points),
        };
        (0..blocks).flat_map(first).map(stage).collect()
    }

    /// The replicates that a stage leaves out: those of other blocks or points, those that `findings` has, and those of
    /// points of which enough is known.
    fn not_wanted(&self, findings: &Findings, stage: &Stage) -> BTreeSet<u32> {
        let is_late = !self.quick && self.experiment.replicates.least.is_some_and(|least| stage.blocks.start >= least);
        let known = if is_late { self.precise_points(findings) } else { BTreeSet::new() };
        let is_wanted = |replicate: &Replicate| {
            stage.blocks.contains(&replicate.block)
                && stage.points.contains(&replicate.point)
                && !findings.measured.contains_key(&replicate.id)
                && !known.contains(&replicate.point)
        };
        blocks(&self.design()).iter().filter(|replicate| !is_wanted(replicate)).map(|replicate| replicate.id).collect()
    }

    /// The points where every claim that asks for precision has it.
    fn precise_points(&self, findings: &Findings) -> BTreeSet<usize> {
        let samples = self.samples(findings);
        let precisions = self.precisions(&samples);
        let is_precise = |point: &str| {
            let mut here = precisions.iter().filter(|precision| precision.point == point).peekable();
            here.peek().is_some() && here.all(|precision| precision.is_reached)
        };
        (0..samples.points().len()).filter(|&point| is_precise(&samples.points()[point].to_string())).collect()
    }

    /// How precise the claims are that ask for it, point by point.
    fn precisions(&self, samples: &Samples) -> Vec<Precision> {
        let limits = self.experiment.claims.iter().filter_map(|claim| Some((claim, claim.precision?)));
        let reached = limits.flat_map(|(claim, limit)| {
            judge_one(self.experiment, claim, self.quick, samples).into_iter().map(move |result| Precision {
                is_reached: is_precise(result.ci, limit),
                claim: result.id,
                arm: result.arm,
                point: result.point,
                measured: result.measured,
                ci: result.ci,
            })
        });
        reached.collect()
    }

    fn conduct_stage(
        &self,
        skipped: &BTreeSet<u32>,
        place: &dyn Place,
        store: &mut Store,
        findings: &mut Findings,
        limits: &Limits<'_>,
        progress: &mut dyn FnMut(&Run<'_>, &Line),
    ) -> anyhow::Result<Ending> {
        let interrupted = limits.interrupted;
        let design = self.design();
        let devices = place.devices(self.experiment).clamp(1, design.blocks());
        let plans = (0..devices).map(|device| self.plans(&share(&design, device, devices, skipped)));
        let plans: Vec<Vec<Plan>> = plans.filter(|plans| !plans.is_empty()).collect();
        let stop = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        let outcome = std::thread::scope(|scope| -> anyhow::Result<()> {
            let threads: Vec<_> = (0u32..)
                .zip(&plans)
                .map(|(device, plans)| {
                    let (sender, stop) = (sender.clone(), &stop);
                    scope.spawn(move || {
                        // Nobody listens any more when the store has failed.
                        let send = |line| drop(sender.send(line));
                        for plan in plans.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                            let checks = place.run(self.experiment, plan, device, stop, &mut |line| send(line));
                            stop.fetch_or(checks.is_err(), Ordering::Relaxed);
                            checks?.into_iter().for_each(|self_check| send(Line::SelfCheck { self_check }));
                        }
                        Ok(())
                    })
                })
                .collect();
            drop(sender);
            let stored = self.collect(&receiver, store, findings, [interrupted, &stop], progress);
            let ended = threads.into_iter().map(|thread| thread.join().expect("a device's thread does not panic"));
            ended.fold(stored, Result::and)
        });
        if interrupted.load(Ordering::Relaxed) {
            return Ok(Ending::Interrupted);
        }
        outcome.map(|()| Ending::Complete)
    }

    /// Takes lines until every device has ended.
    fn collect(
        &self,
        receiver: &mpsc::Receiver<Line>,
        store: &mut Store,
        findings: &mut Findings,
        [interrupted, stop]: [&AtomicBool; 2],
        progress: &mut dyn FnMut(&Run<'_>, &Line),
    ) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        loop {
            if interrupted.load(Ordering::Relaxed) {
                stop.store(true, Ordering::Relaxed);
            }
            let line = match receiver.recv_timeout(Duration::from_millis(100)) {
                Ok(line) => line,
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                Err(mpsc::RecvTimeoutError::Disconnected) => return outcome,
            };
            if !matches!(line, Line::Started { .. }) && outcome.is_ok() {
                outcome = store.add(&line).map_err(Into::into);
                stop.fetch_or(outcome.is_err(), Ordering::Relaxed);
            }
            progress(self, &line);
            findings.add(line);
        }
    }

    /// What one device runs: a plan for each scenario of its arms, in the order in which they come first; for each boot one.
    fn plans(&self, replicates: &[Replicate]) -> Vec<Plan> {
        self.plans_of(replicates, self.experiment.boots.is_some())
    }

    /// A plan for each scenario that the experiment needs, with all of its replicates.
    pub fn scenarios(&self) -> Vec<Plan> {
        self.plans_of(&blocks(&self.design()), false)
    }

    fn plans_of(&self, replicates: &[Replicate], is_each_apart: bool) -> Vec<Plan> {
        let scenario = |replicate: &Replicate| {
            self.experiment.arms[replicate.arm].scenario.as_ref().or(self.experiment.scenario.as_ref()).cloned()
        };
        let mut plans: Vec<Plan> = Vec::new();
        for replicate in replicates {
            let scenario = scenario(replicate);
            match plans.iter_mut().find(|plan| plan.scenario == scenario && !is_each_apart) {
                Some(plan) => plan.replicates.push(*replicate),
                None => plans.extend(self.experiment.workload().map(|workload| Plan {
                    experiment: self.experiment.name.clone(),
                    arms: self.experiment.arms.clone(),
                    points: self.experiment.points(self.quick),
                    scenario,
                    workload,
                    guarded: self.experiment.mode == Mode::Native,
                    replicates: vec![*replicate],
                })),
            }
        }
        plans
    }

    fn samples(&self, findings: &Findings) -> Samples {
        let all = blocks(&self.design());
        let pairs = all.iter().filter_map(|replicate| Some((replicate, findings.measured.get(&replicate.id)?)));
        Samples::new(self.experiment.arms.len(), &self.experiment.points(self.quick), pairs)
    }

    /// What is known by now of each point for which a claim asks for precision, a line each.
    pub fn state(&self, findings: &Findings) -> Vec<String> {
        let line = |Precision { arm, point, measured, ci: [low, high], is_reached, .. }: Precision| {
            let arm = arm.unwrap_or_default();
            let of_arm = findings.measured.values().filter(|found| found.arm == arm && found.point == point);
            let (refused, accepted): (Vec<_>, Vec<_>) = of_arm.partition(|found| found.rejected.is_some());
            let word = if is_reached { "precise" } else { "wants more" };
            format!(
                "{point}: {} of {arm}, {} refused: {measured:+.1} % [{low:.1}, {high:.1}], {word}",
                accepted.len(),
                refused.len()
            )
        };
        self.precisions(&self.samples(findings)).into_iter().map(line).collect()
    }

    /// Names what is less precise than its claim asks for. A quick form promises no precision.
    fn imprecise_note(&self, samples: &Samples) -> Option<String> {
        let mut by_claim: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for precision in self.precisions(samples).into_iter().filter(|precision| !precision.is_reached && !self.quick) {
            by_claim.entry(precision.claim).or_default().push(precision.point);
        }
        let lists = by_claim.iter().map(|(claim, points)| format!("{claim}: {}", points.join("; ")));
        let lists: Vec<String> = lists.collect();
        (!lists.is_empty()).then(|| format!("Less precise than was asked for: {}.", lists.join(". ")))
    }

    /// The result of what was found.
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
            failure: None,
        }
    }
}

/// The metrics worth a series: times and energy always, the others where a claim is about them.
fn metrics(experiment: &Experiment) -> Vec<Metric> {
    let claimed = |metric: &Metric| match metric {
        metric if metric.subject() != experiment.subject() => false,
        // Of a device's own boot nothing else is known.
        metric if experiment.reboots.is_some() => matches!(metric, Metric::Boot | Metric::Kernel | Metric::Preload),
        Metric::LookUpTime => experiment.mode == Mode::Parallel,
        metric if metric.subject() == Subject::Boots => true,
        metric if metric.subject() == Subject::LookUps => experiment.mode == Mode::Deterministic,
        Metric::Basic => experiment.claims.iter().any(|claim| claim.metric == *metric),
        Metric::Actions => experiment.claims.iter().any(|claim| claim.measure == Measure::StaysOff),
        // What music missed is claimed of one arm alone.
        Metric::MusicMissed => false,
        metric if metric.subject() == Subject::Applications => experiment.claims.iter().any(|c| c.metric == *metric),
        _ => true,
    };
    Metric::ALL.into_iter().filter(claimed).collect()
}

fn mode_note(experiment: &Experiment) -> Option<&'static str> {
    match experiment.mode {
        Mode::Deterministic if experiment.applications.is_some() => Some(
            "Time is counted in instructions executed by the guest, two nanoseconds each: repeatable, but blind to caches. \
             Flash takes the time that its model says.",
        ),
        Mode::Deterministic if experiment.look_ups.is_some() => Some(
            "Figures are instructions executed by the guest: repeatable, but blind to caches and memory, and to what \
             switching between processes costs beside them.",
        ),
        Mode::Deterministic => Some(
            "Time is counted in instructions executed by the guest: repeatable, but blind to caches and memory. \
             Energy is the virtual CPU's model, C x V^2 x f while busy.",
        ),
        Mode::Parallel if experiment.look_ups.is_some() => Some(
            "Several emulated CPUs on the host's clock: only ratios of replicates that were run side by side count. \
             Replicates in which the host kept a CPU waiting for more than 3 % of the time are refused. Emulation makes \
             switching between processes dearer than it is on a processor, and a hit spares it.",
        ),
        Mode::Parallel if experiment.boots.is_some() => Some(
            "Each boot is a guest of its own, two emulated CPUs on the host's clock: only ratios of boots that were run \
             side by side count, and a boot in which the host kept a CPU waiting for more than 3 % of the time is refused. \
             HotSpot stands in for ART: it compiles while it runs, and two of its threads hardly load classes at the same \
             time. It cannot fork, so the paper's child is a second Java machine, whose start is dearer than fork(2). What \
             is said of 4 and 8 CPUs is predicted by scheduling the costs that were measured natively, not measured.",
        ),
        Mode::Parallel if experiment.subject() == Subject::Combinations => Some(
            "Two emulated CPUs on the host's clock: only ratios of replicates that were run side by side count, and a \
             replicate in which the host kept a CPU waiting for more than 3 % of the time is refused.",
        ),
        Mode::Parallel => Some(
            "Several emulated CPUs on the host's clock: only ratios of replicates that were run side by side count. \
             Replicates in which the host kept a CPU waiting for more than 3 % of the time are refused. The virtual \
             frequency itself is checked in deterministic mode alone.",
        ),
        Mode::Native => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arms_of_other_scenarios_are_plans_of_their_own() {
        let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "lookup"
mode = "deterministic"
scenario = "ours"
look_ups = { services = 1, count = 1, misses = 1 }
replicates = { quick = 3, full = 3 }
arm = [
  { name = "stock", title = "", baseline = true, scenario = "theirs", look_up = { manager = "own", format = "android-5" } },
  { name = "off", title = "", look_up = { manager = "own", format = "android-5" } },
  { name = "on", title = "", look_up = { manager = "own", format = "android-5" } },
]
"#;
        let experiment = Experiment::parse("x", text).unwrap();
        let run = Run { experiment: &experiment, quick: true, seed: 5 };
        let all = blocks(&run.design());
        let plans = run.plans(&all);
        assert_eq!(plans.len(), 2);
        for plan in &plans {
            let is_stock = plan.scenario.as_deref() == Some("theirs");
            assert!(plan.replicates.iter().all(|replicate| (replicate.arm == 0) == is_stock));
            assert!(plan.replicates.is_sorted_by_key(|replicate| replicate.id), "the schedule's order is kept");
        }
        assert_eq!(plans.iter().map(|plan| plan.replicates.len()).sum::<usize>(), all.len());
        assert!(run.plans(&[]).is_empty());
    }

    /// Scatters by `scatter` at its first point, not at all at its second.
    struct Device(f64);

    impl Place for Device {
        fn devices(&self, _: &Experiment) -> u32 {
            1
        }

        fn program(&self) -> anyhow::Result<String> {
            Ok(String::new())
        }

        fn prepare(&self, _: &Experiment, _: &Plan) -> anyhow::Result<String> {
            Ok(String::new())
        }

        fn run(
            &self,
            _: &Experiment,
            plan: &Plan,
            _: u32,
            _: &AtomicBool,
            on_line: &mut dyn FnMut(Line),
        ) -> anyhow::Result<Vec<SelfCheck>> {
            for replicate in &plan.replicates {
                let sign = if replicate.block.is_multiple_of(2) { 1.0 } else { -1.0 };
                let scatter = if (replicate.arm, replicate.point) == (1, 0) { self.0 * sign } else { 0.0 };
                on_line(Line::Measured(Measured {
                    replicate: replicate.id,
                    arm: plan.arms[replicate.arm].name.clone(),
                    point: plan.points[replicate.point].to_string(),
                    metrics: BTreeMap::from([("launch_ms".to_owned(), 100.0 + scatter)]),
                    events: BTreeMap::new(),
                    courses: BTreeMap::new(),
                    rejected: None,
                }));
            }
            Ok(Vec::new())
        }
    }

    #[test]
    fn what_is_precise_is_not_measured_again() {
        let text = r#"name = "x"
title = "x"
description = "x"
mechanism = "launch"
mode = "parallel"
scenario = "x"
workload = { program = "load", work_ms = [100, 200], settle_ms = [1, 2], window_beyond_work_ms = 500 }
replicates = { quick = 2, full = 12, least = 3, warm_up = 0 }
arm = [{ name = "stock", title = "", baseline = true }, { name = "ours", title = "" }]
[[claim]]
id = "x.y"
text = ""
measure = "gain"
arm = "ours"
precision = 2
"#;
        let experiment = Experiment::parse("x", text).unwrap();
        let run = |quick, scatter, until| {
            let run = Run { experiment: &experiment, quick, seed: 5 };
            let folder = tempfile::tempdir().unwrap();
            let header = super::super::store::Header {
                brisk: "1".into(),
                experiment: text.into(),
                quick,
                seed: 5,
                ..Default::default()
            };
            let mut store = Store::create(folder.path(), &header).unwrap();
            let mut findings = Findings::default();
            let limits = Limits { interrupted: &AtomicBool::new(false), until };
            run.conduct(&Device(scatter), &mut store, &mut findings, &limits, &mut |_, _| {}).unwrap();
            let result = run.result(&findings, String::new());
            let counts: Vec<usize> = result.arms.iter().map(|arm| arm.samples.len()).collect();
            let state = run.state(&findings);
            assert!(quick || counts.is_empty() || state.len() == 2 && state[1].ends_with("precise"), "{state:?}");
            let named = result.notes.iter().any(|note| note == "Less precise than was asked for: x.y: work 100 ms.");
            (counts, named)
        };
        assert_eq!(run(false, 30.0, None), (vec![12, 12, 3, 3], true), "two arms at each of two points");
        assert_eq!(run(false, 0.0, None), (vec![3; 4], false));
        assert_eq!(run(true, 30.0, None), (vec![2; 4], false), "a quick form promises no precision");
        assert_eq!(run(false, 0.0, Some(Instant::now())), (vec![], false), "no time");
    }
}
