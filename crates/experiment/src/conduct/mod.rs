//! One experiment from its file to its result: schedule, devices, partial results, verdicts.

mod devices;
mod parts;
mod result;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::plan::{Line, Measured, Plan, Replicate};
use super::point::Point;
use super::samples::Samples;
use super::schedule::{Design, blocks};
use super::shard::Shard;
use super::spec::Experiment;
use super::store::Store;
use super::verdict::{is_precise, judge_claim};
use brisk_report::proof::{DeviceDescription, SelfCheck, Timekeeping};
pub use devices::DeviceFindings;

/// Somewhere to run plans: the lab's guests, or the user's own device.
pub trait Testbed: Sync {
    /// How many plans of this experiment it can run at once without one disturbing another.
    fn devices(&self, experiment: &Experiment) -> u32;

    /// Checks before any measurement that the device of `plan` exists.
    ///
    /// # Errors
    /// When it does not exist.
    fn check(&self, _plan: &Plan) -> anyhow::Result<()> {
        Ok(())
    }

    /// The digest of the programs that measure.
    ///
    /// # Errors
    /// When they cannot be read.
    fn program(&self) -> anyhow::Result<String>;

    /// Fetches and builds what `plan` needs, and returns a description of the device. Samples of devices with different
    /// descriptions are never mixed.
    ///
    /// # Errors
    /// When something is not available.
    fn prepare(&self, experiment: &Experiment, plan: &Plan) -> anyhow::Result<String>;

    /// True for an error of the testbed itself, not of the experiment.
    fn is_testbed_error(&self, _error: &anyhow::Error) -> bool {
        false
    }

    /// Runs `plan` on device number `device` and passes its lines to `on_line` as they arrive. Ends early when `interrupted`
    /// becomes true.
    ///
    /// # Errors
    /// When the device fails; lines that were passed on before stay valid.
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
    /// The experiment.
    pub experiment: &'a Experiment,
    /// True for the quick form.
    pub quick: bool,
    /// The seed of the schedule.
    pub seed: u64,
    /// The part that is measured here; all of it without.
    pub shard: Option<Shard>,
}

/// The findings of a run so far.
#[derive(Debug, Clone, Default)]
pub struct Findings {
    device: Option<DeviceDescription>,
    measured: BTreeMap<u32, Measured>,
    self_checks: Vec<SelfCheck>,
    notes: Vec<String>,
}

impl Findings {
    /// Adds a line.
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

    /// Drops rejected replicates, so that they are measured again. Returns the numbers of kept and of dropped replicates.
    pub fn retry_rejected(&mut self) -> (usize, usize) {
        let all = self.measured.len();
        self.measured.retain(|_, measured| measured.rejected.is_none());
        (self.measured.len(), all - self.measured.len())
    }

    /// Whether the replicate `id` is measured or refused.
    pub fn has(&self, id: u32) -> bool {
        self.measured.contains_key(&id)
    }

    /// The measured and the refused replicates, by number.
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
    /// The full form starts no further block after this, or stage where it has stages.
    pub until: Option<Instant>,
}

/// The precision of a claim at a point.
#[derive(Debug)]
struct Precision {
    claim: String,
    arm: Option<String>,
    point: String,
    measured: f64,
    ci: [f64; 2],
    is_reached: bool,
}

/// A part of a run: points of blocks. Before each stage, brisk checks the time limit and which points are precise already.
#[derive(Debug, Clone)]
struct Stage {
    blocks: Range<u32>,
    points: Range<usize>,
}

/// Points of a block in one stage, where a run has stages: about two minutes of combinations.
const POINTS_PER_STAGE: usize = 6;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnding {
    /// All replicates were run.
    Complete,
    /// [`Limits::until`] came first; what was measured is stored.
    OutOfTime,
    /// It was interrupted; what was measured is stored.
    Interrupted,
}

impl Run<'_> {
    /// The design of the schedule.
    pub fn design(&self) -> Design {
        Design {
            arms: self.experiment.arms.len(),
            replicates: self.experiment.replicates_by_point(self.quick),
            replicate_limits: self.experiment.replicate_limits(self.quick),
            excluded_cells: self.experiment.excluded_cells(self.quick),
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
        let lookups = || self.experiment.lookups.as_ref().map_or(0, |lookups| u64::from(lookups.count));
        let (busy, idle) = match self.experiment.points(self.quick)[replicate.point] {
            Point::Work(work_ms) => (u64::from(work_ms), rest + u64::from(window)),
            Point::Idle(idle_ms) => (0, rest + u64::from(idle_ms)),
            // About 30 microseconds each, and as much again for what precedes them.
            Point::Lookups(count) => (2 * u64::from(count) * 30 / 1000, 0),
            Point::Application(_) => (2 * lookups() * 30 / 1000, 0),
            Point::Clients(clients) => (300 + u64::from(clients) * lookups() * 60 / 1000, 0),
            // About a quarter of a second each for a few hundred processes.
            Point::Readings(count) => (250 * u64::from(count), 0),
            // A Java VM starts and preloads, under emulation.
            Point::Boot => (15_000, 0),
            // Half a second of work and a second in the foreground each.
            Point::Openings(count) => (500 * u64::from(count), 1000 * u64::from(count)),
            // Includes starting the background programs and waiting for them.
            Point::Combination(_) => (u64::from(self.foreground_ms(replicate.point)) * 5 / 4 + 200, rest),
        };
        if self.experiment.mode == Timekeeping::Deterministic { 300 + busy / 4 + idle / 8 } else { busy + idle }
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
        of_form.nth(point).map_or(0, |combination| combination.foreground.duration_ms())
    }

    #[cfg(not(feature = "lab"))]
    fn foreground_ms(&self, _point: usize) -> u32 {
        0
    }

    /// The replicates of this part that are missing in `findings`, each with its cost.
    pub fn missing<'a>(&'a self, findings: &'a Findings) -> impl Iterator<Item = (Replicate, u64)> + 'a {
        let done = self.done(findings);
        let all = blocks(&self.design()).into_iter();
        all.filter(move |replicate| self.has_block(replicate.block) && !done.contains(&replicate.id))
            .map(|replicate| (replicate, self.cost_ms(&replicate)))
    }

    /// Runs what is missing in `findings`, on as many devices as `testbed` has. Every line is stored, then added to `findings`,
    /// then passed to `progress`.
    ///
    /// # Errors
    /// When a device or the store fails; what was measured until then is stored.
    pub fn conduct(
        &self,
        testbed: &dyn Testbed,
        store: &mut Store,
        findings: &mut Findings,
        limits: &Limits<'_>,
        progress: &mut dyn FnMut(&Run<'_>, &Line),
    ) -> anyhow::Result<RunEnding> {
        let blocks_at_once = limits.until.map(|_| testbed.devices(self.experiment));
        for stage in self.stages(blocks_at_once) {
            if limits.until.is_some_and(|until| until <= Instant::now()) {
                return Ok(RunEnding::OutOfTime);
            }
            let skipped = self.skipped_replicates(findings, &stage);
            if let RunEnding::Interrupted = self.conduct_stage(&skipped, testbed, store, findings, limits, progress)? {
                return Ok(RunEnding::Interrupted);
            }
        }
        Ok(RunEnding::Complete)
    }

    /// The stages of a run: with a time limit, at most so many blocks at once.
    fn stages(&self, blocks_at_once: Option<u32>) -> Vec<Stage> {
        let (blocks, points) = (self.design().blocks(), self.experiment.points(self.quick).len());
        if self.quick || self.experiment.replicates.least.is_none() {
            let at_once = blocks_at_once.filter(|_| !self.quick).unwrap_or(blocks).max(1);
            let stage = |first: u32| Stage { blocks: first..(first + at_once).min(blocks), points: 0..points };
            return (0..blocks).step_by(at_once as usize).map(stage).collect();
        }
        let first = |block| (0..points).step_by(POINTS_PER_STAGE).map(move |point| (block, point));
        let stage = |(block, point): (u32, usize)| Stage {
            blocks: block..block + 1,
            points: point..(point + POINTS_PER_STAGE).min(points),
        };
        (0..blocks).flat_map(first).map(stage).collect()
    }

    /// The replicates that a stage skips: those of other blocks or points, those in `findings`, and those of points that are
    /// precise already.
    fn skipped_replicates(&self, findings: &Findings, stage: &Stage) -> BTreeSet<u32> {
        // A shard's figures alone cannot decide which points are precise already.
        let least = self.experiment.replicates.least.filter(|_| !self.quick && self.shard.is_none());
        let is_late = least.is_some_and(|least| stage.blocks.start >= least);
        let known = if is_late { self.precise_points(findings) } else { BTreeSet::new() };
        let done = self.done(findings);
        let is_wanted = |replicate: &Replicate| {
            stage.blocks.contains(&replicate.block)
                && stage.points.contains(&replicate.point)
                && !done.contains(&replicate.id)
                && !known.contains(&replicate.point)
        };
        blocks(&self.design()).iter().filter(|replicate| !is_wanted(replicate)).map(|replicate| replicate.id).collect()
    }

    /// The points where every claim that asks for precision reaches it.
    fn precise_points(&self, findings: &Findings) -> BTreeSet<usize> {
        let samples = self.samples(findings);
        let precisions = self.precisions(&samples);
        let is_precise = |point: &str| {
            let mut here = precisions.iter().filter(|precision| precision.point == point).peekable();
            here.peek().is_some() && here.all(|precision| precision.is_reached)
        };
        (0..samples.points().len()).filter(|&point| is_precise(&samples.points()[point].to_string())).collect()
    }

    /// The precision of the claims that ask for it, point by point.
    fn precisions(&self, samples: &Samples) -> Vec<Precision> {
        let limits = self.experiment.claims.iter().filter_map(|claim| Some((claim, claim.precision?)));
        let reached = limits.flat_map(|(claim, limit)| {
            judge_claim(self.experiment, claim, self.quick, std::slice::from_ref(samples)).into_iter().map(
                move |result| Precision {
                    is_reached: is_precise(result.ci, limit),
                    claim: result.id,
                    arm: result.arm,
                    point: result.point,
                    measured: result.measured,
                    ci: result.ci,
                },
            )
        });
        reached.collect()
    }

    fn conduct_stage(
        &self,
        skipped: &BTreeSet<u32>,
        testbed: &dyn Testbed,
        store: &mut Store,
        findings: &mut Findings,
        limits: &Limits<'_>,
        progress: &mut dyn FnMut(&Run<'_>, &Line),
    ) -> anyhow::Result<RunEnding> {
        let interrupted = limits.interrupted;
        let design = self.design();
        let devices = testbed.devices(self.experiment).clamp(1, design.blocks());
        let plans = self.plans_by_device(&design, devices, skipped).into_iter();
        let plans: Vec<Vec<Plan>> = plans.filter(|plans| !plans.is_empty()).collect();
        let stop = AtomicBool::new(false);
        let (sender, receiver) = mpsc::channel();
        let outcome = std::thread::scope(|scope| -> anyhow::Result<()> {
            let threads: Vec<_> = (0u32..)
                .zip(&plans)
                .map(|(device, plans)| {
                    let (sender, stop) = (sender.clone(), &stop);
                    scope.spawn(move || {
                        // The receiver no longer exists when the store has failed.
                        let send = |line| drop(sender.send(line));
                        for plan in plans.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
                            let checks = testbed.run(self.experiment, plan, device, stop, &mut |line| send(line));
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
            return Ok(RunEnding::Interrupted);
        }
        outcome.map(|()| RunEnding::Complete)
    }

    /// Receives lines until every device has ended.
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

    /// The plans of one device: one for each scenario of its arms, in order of first use; for boots, one for each replicate.
    fn plans(&self, replicates: &[Replicate]) -> Vec<Plan> {
        self.plans_of(replicates, self.experiment.boots.is_some())
    }

    /// A plan for each scenario that the experiment needs, with all of its replicates.
    pub fn scenarios(&self) -> Vec<Plan> {
        self.plans_of(&blocks(&self.design()), false)
    }

    fn plans_of(&self, replicates: &[Replicate], is_one_per_replicate: bool) -> Vec<Plan> {
        let scenario = |replicate: &Replicate| {
            self.experiment.arms[replicate.arm].scenario.as_ref().or(self.experiment.scenario.as_ref()).cloned()
        };
        let mut plans: Vec<Plan> = Vec::new();
        for replicate in replicates {
            let scenario = scenario(replicate);
            match plans.iter_mut().find(|plan| plan.scenario == scenario && !is_one_per_replicate) {
                Some(plan) => plan.replicates.push(*replicate),
                None => plans.extend(self.experiment.workload().map(|workload| Plan {
                    experiment: self.experiment.name.clone(),
                    arms: self.experiment.arms.clone(),
                    points: self.experiment.points(self.quick),
                    scenario,
                    workload,
                    guarded: self.experiment.mode == Timekeeping::Native,
                    independent: self.has_independent_blocks(),
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
}

#[cfg(test)]
mod tests;
