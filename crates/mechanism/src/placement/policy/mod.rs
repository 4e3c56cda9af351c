//! Decides what is done for the foreground, when it is judged, and when it ends: pure, from samples and the time.
//!
//! A ladder: nothing is done; bulk threads get a lower weight; they run only on idle CPU time; cores are reserved. The gain
//! bound chooses the step, a trial keeps or reverts it, and after a minute everything is chosen again, so that no step stays
//! that no longer helps.

use std::collections::BTreeSet;
use std::time::Duration;

use self::group_weights::GroupWeights;
use super::back_off::BackOff;
use super::config::{PlacementConfig, Rule};
use super::contention::Contention;
use super::cores::Machine;
use super::gain::Window;
use super::groups::task_groups::TaskGroups;
use super::step::{Step, StepKind};
use super::thesis;
use super::threads::inherited::InheritedAttributes;
use super::threads::roster::Roster;
use super::trial::{PeriodicThreads, Trial};
use crate::deference::Deference;
use crate::{
    Decision, Effect, Event, Facts, Interest, Job, LeaseSet, Observation, Observations, Outcome, Policy, Question,
    Support, SupportState, Target, ThreadDemand, ThreadSampling,
};
use brisk_sys::BootTime;
use brisk_sys::io::io_priority::IoPriority;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// Nothing is decided before a foreground was sampled for this long.
const EVIDENCE: Duration = Duration::from_millis(100);
/// The period over which parallelism and gain are measured.
const WINDOW: Duration = Duration::from_secs(1);
/// A step is released and chosen again after this long.
const REEVALUATE_AFTER: Duration = Duration::from_secs(60);
/// Leases last longer than that: they expire only if the daemon hangs.
const LEASE: Duration = Duration::from_secs(90);
/// Facts of bulk threads are read again after this long, to notice changes by the user.
const FACTS_AGE: Duration = Duration::from_secs(5);
/// The first pause before a reverted step is tried again; it doubles each time up to the longest.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(300);
/// Why everything is released before a probe.
const CHANGED: &str = "the device or the configuration changed";
/// For this long after a start a service manager may still move a process into a control group of its own.
const MAY_BE_MOVED_FOR: Duration = Duration::from_millis(500);
/// A foreground with a lower CPU demand is idle.
const IDLE_DEMAND: f64 = 0.01;

/// The placement mechanism's state and its decisions.
#[derive(Debug)]
pub struct PlacementPolicy {
    config: PlacementConfig,
    support: Support,
    /// All CPUs of the last probe.
    present: Machine,
    /// The online CPUs of these.
    machine: Machine,
    roster: Roster,
    window: Window,
    sampled_at: Option<BootTime>,
    /// The foreground has changed since the last sample, so the next sample mostly covers the previous foreground.
    has_changed: bool,
    facts_at: BootTime,
    unknown: Vec<u32>,
    held: Option<Held>,
    /// Whole sessions and groups that are deprioritised without a trial.
    group_weights: Option<GroupWeights>,
    /// The leases on background threads, groups and sessions.
    leased: LeaseSet,
    inherited: InheritedAttributes,
    /// Temporary masks of foreground threads, until the next sample.
    temporary_masks: LeaseSet,
    task_groups: TaskGroups,
    /// Until when the foreground is so new that its manager may still move it into a control group of its own.
    may_be_moved_until: Option<BootTime>,
    /// So many samples may follow each other at once, to learn the groups beside a new foreground.
    quick_samples: u32,
    /// A group could not be created or entered: per-thread masks and nice values are used instead.
    without_groups: bool,
    back_off: BackOff<StepKind>,
    /// A step with an unclear trial, to be judged by a measurement without it.
    unclear_step: Option<StepKind>,
    /// Until when the new foreground counts as opening.
    opening: Option<BootTime>,
    /// Since when there is nothing to gain for this foreground.
    settled_since: Option<BootTime>,
    /// The foreground may still be starting.
    is_start: bool,
    /// Light threads that missed their period off the reserved cores: they are not confined again.
    unconfined_light: BTreeSet<u32>,
    /// What the foreground waits for besides a CPU.
    contention: Contention,
    /// Other managers of priorities.
    deference: Deference,
    questions: Vec<Question>,
    probe_requested: bool,
    observations: Observations,
    /// Why the current step is in force, or why nothing is done.
    reason: String,
}

/// The step in force.
#[derive(Debug)]
struct Held {
    step: Step,
    since: BootTime,
    /// When the step is chosen again.
    until: BootTime,
    trial: Option<Trial>,
    periodic_threads: PeriodicThreads,
    /// The previous step, which is restored if this one fails.
    before: Option<Step>,
    /// The foreground threads were spread over the CPUs for this step.
    is_spread: bool,
}

impl Held {
    fn new(
        step: Step,
        now: BootTime,
        trial: Option<Trial>,
        periodic_threads: PeriodicThreads,
        before: Option<Step>,
    ) -> Self {
        Self { step, since: now, until: now + REEVALUATE_AFTER, trial, periodic_threads, before, is_spread: false }
    }
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self::new(PlacementConfig::default(), Support::default(), Machine::equal(1))
    }
}

impl PlacementPolicy {
    /// A policy for `machine` with `support`.
    pub fn new(config: PlacementConfig, support: Support, machine: Machine) -> Self {
        Self {
            config,
            support,
            present: machine.clone(),
            machine,
            roster: Roster::default(),
            window: Window::default(),
            sampled_at: None,
            has_changed: false,
            facts_at: BootTime::default(),
            unknown: Vec::new(),
            held: None,
            group_weights: None,
            leased: LeaseSet::default(),
            inherited: InheritedAttributes::default(),
            temporary_masks: LeaseSet::default(),
            task_groups: TaskGroups::default(),
            may_be_moved_until: None,
            quick_samples: 0,
            without_groups: false,
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
            unclear_step: None,
            opening: None,
            settled_since: None,
            is_start: true,
            unconfined_light: BTreeSet::new(),
            contention: Contention::default(),
            deference: Deference::new(Job::Priorities),
            questions: Vec::new(),
            probe_requested: false,
            observations: Observations::default(),
            reason: "no sample was taken yet".to_owned(),
        }
    }

    /// Takes a new configuration or machine; the tracked threads and the foreground stay known while placement is on.
    pub fn replace(
        &mut self,
        config: PlacementConfig,
        support: Support,
        machine: Machine,
        decisions: &mut Vec<Decision>,
    ) {
        self.release_all(CHANGED, decisions);
        self.config = config;
        self.support = support;
        self.present = machine.clone();
        self.machine = machine;
        self.opening = None;
        self.back_off.clear();
        self.without_groups = false;
        self.leased.forget_refusals(|_| true);
        self.task_groups.clear();
        if !self.is_on() {
            self.forget_threads();
        }
    }

    fn forget_threads(&mut self) {
        self.roster = Roster::default();
        (self.sampled_at, self.opening) = (None, None);
    }

    fn is_on(&self) -> bool {
        self.support.state == SupportState::Active
    }

    fn maximum(&self) -> usize {
        usize::try_from(self.config.maximum_threads).unwrap_or(usize::MAX)
    }

    fn put_in_foreground(&mut self, now: BootTime, pids: BTreeSet<u32>, decisions: &mut Vec<Decision>) {
        let is_some = !pids.is_empty();
        if self.roster.put_in_foreground(pids) {
            self.release_temporary_masks(decisions);
            self.may_be_moved_until = Some(now + MAY_BE_MOVED_FOR);
            self.quick_samples = sampling::QUICK_SAMPLES;
            self.update_unknown(now);
            self.update_task_groups(now);
            if !self.is_uncontended() {
                // Its groups are wanted with the next sample, in which a new process is met.
                let roots = self.roster.roots().iter().filter(|pid| !self.unknown.contains(pid)).copied();
                let roots: Vec<u32> = roots.take(self.maximum()).collect();
                self.unknown.extend(roots);
            }
            self.on_foreground_changed(now, is_some, decisions);
            self.back_off.clear();
            (self.unclear_step, self.settled_since) = (None, None);
            self.is_start = true;
            self.unconfined_light.clear();
            self.window.clear();
            self.has_changed = true;
        }
    }

    fn on_sample(
        &mut self,
        now: BootTime,
        (sample, facts): (&Sample, &[ThreadFacts]),
        online: &[u32],
        decisions: &mut Vec<Decision>,
    ) {
        self.release_temporary_masks(decisions);
        let wall_ns = self.sampled_at.replace(now).map_or(0, |before| now.since(before).as_nanos() as u64);
        self.roster.take_fork_parents(now, facts, self.machine.cores().len());
        let is_deprioritised = demands::is_deprioritised(&self.leased, &self.task_groups);
        let totals = self.roster.take(now, wall_ns, sample, is_deprioritised);
        self.release_where("it has ended", decisions, |tid| sample.ended.contains(&tid));
        self.unconfined_light.retain(|tid| !sample.ended.contains(tid));
        self.task_groups.forget(&sample.ended);
        self.task_groups.take(facts, &self.roster, &self.leased);
        self.inherited.note(sample, &self.leased, &self.roster);
        // Facts with leased or inherited values do not show a thread's own values.
        let mut changed = self.inherited.disinherit(facts, &self.leased, decisions);
        changed.extend(self.leased_threads());
        let shows_own_values =
            |facts: &&ThreadFacts| !changed.contains(&facts.tid) && !self.task_groups.is_requested_for_group(facts.tid);
        self.roster.take_facts(facts.iter().filter(shows_own_values));
        if now.since(self.facts_at) >= FACTS_AGE {
            self.facts_at = now;
            self.invalidate_facts();
            self.task_groups.invalidate();
        }
        self.update_online_cpus(online, decisions);
        self.update_unknown(now);
        if !self.roster.has_foreground() {
            self.window.clear();
            return self.release_all("there is no foreground", decisions);
        }
        self.may_be_moved_until = self.may_be_moved_until.filter(|until| now < *until);
        self.update_task_groups(now);
        self.quick_samples = self.quick_samples.saturating_sub(1);
        if !std::mem::take(&mut self.has_changed) && wall_ns > 0 {
            self.window.add(totals, WINDOW);
        }
        if self.update_opening(now, decisions) {
            return self.deprioritise_for_opening(now, decisions);
        }
        match self.config.rule {
            Rule::Brisk => self.run_ladder(now, totals, sample, decisions),
            Rule::Weight => self.apply_weight_rule(now, decisions),
            Rule::Thesis => self.apply_thesis_rule(now, decisions),
        }
    }

    /// Finds the threads whose facts are read with the next sample. Without a competitor nothing follows from those of the
    /// foreground.
    fn update_unknown(&mut self, now: BootTime) {
        self.unknown.clear();
        if !self.is_uncontended() {
            self.unknown = self.roster.unknown(&self.config.excluded_commands, self.maximum());
            let light: Vec<u32> = self.unknown_light().collect();
            self.unknown.extend(light);
        }
        self.unknown.extend(self.inherited.tids());
        self.unknown.extend(self.roster.unknown_fork_parents(now));
    }

    /// Takes the lowest I/O priority that a thread can get, `None` where nothing is done about storage; and whether packets of
    /// background groups may get a lower priority.
    pub(super) fn configure(&mut self, lowest: Option<IoPriority>, acts_on_network: bool, config: &PlacementConfig) {
        self.contention.replace(lowest, acts_on_network, config);
    }

    /// Releases all leases before the device is probed.
    pub(super) fn let_go_for_probe(&mut self, decisions: &mut Vec<Decision>) {
        self.release_all(CHANGED, decisions);
        self.contention.stop(CHANGED, decisions);
    }

    /// CPUs may go online or offline with or without an event.
    fn update_online_cpus(&mut self, online: &[u32], decisions: &mut Vec<Decision>) {
        if online.is_empty() {
            return;
        }
        let machine = self.present.only(online);
        if machine != self.machine {
            self.release_all("CPUs went online or offline", decisions);
            self.back_off.clear();
            self.machine = machine;
        }
    }

    /// Lowers weights whenever there are a foreground and bulk threads.
    fn apply_weight_rule(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.held.is_none() && !self.busy(&Step::Weight).is_empty() {
            let periodic_threads = PeriodicThreads::default();
            self.held = Some(Held::new(Step::Weight, now, None, periodic_threads, None));
            self.reason = format!("{}, by the weight rule", self.describe(&Step::Weight));
        }
        if self.held.as_ref().is_some_and(|held| now >= held.until) {
            return self.release_all("expired: to be chosen again", decisions);
        }
        self.apply(now, decisions);
    }

    fn apply_thesis_rule(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let wanted = thesis::assign(&self.roster, &self.machine, &self.config.excluded_commands, self.maximum());
        let unknown = thesis::unknown(&self.roster, self.maximum());
        self.task_groups.note_other_requests(&unknown);
        self.unknown.extend(unknown);
        self.reason = "by the thesis's classes".to_owned();
        self.reconcile_leases(now, &wanted, "the thesis's classes", decisions);
    }
}

impl Policy for PlacementPolicy {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        self.release_all("the daemon stops", decisions);
        self.contention.stop("the daemon stops", decisions);
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        self.query_managers(now);
        if let Event::Facts(Facts::OtherManagers { found }) = event {
            return self.hear_of_managers(now, found, decisions);
        }
        if !self.is_on() {
            return;
        }
        match event {
            Event::Facts(facts) => self.take_facts(now, facts, decisions),
            Event::Deadline => {
                self.contention.on_deadline(now, self.roster.foreground());
                self.update_opening(now, decisions);
            }
            Event::Threads { sample, facts, online } => {
                self.check_new_processes(now, sample);
                self.on_sample(now, (sample, facts), online, decisions);
            }
            Event::Foreground { processes } => {
                self.put_in_foreground(now, processes.iter().map(|process| process.pid).collect(), decisions);
            }
            Event::Session { pids } => self.put_in_foreground(now, pids.iter().copied().collect(), decisions),
            Event::LaunchAnnounced { process: Some(process), .. } => {
                self.put_in_foreground(now, BTreeSet::from([process.pid]), decisions);
            }
            _ => {}
        }
        self.contention.update_foreground(now, &self.roster, decisions);
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        let (mut needs_fallback, mut refusal) = (false, None);
        for outcome in self.contention.on_outcomes(now, outcomes) {
            self.leased.take(now, outcome);
            self.temporary_masks.take(now, outcome);
            let Some(error) = outcome.error().filter(|_| outcome.held.is_none()) else { continue };
            let is_gone = matches!(outcome.effect, Effect::Missing(_));
            match &outcome.target {
                // A thread may exit at any time.
                target if is_gone && target.thread().is_some() => continue,
                Target::Group(_) | Target::GroupMember { .. } => {
                    self.without_groups = true;
                    needs_fallback = true;
                }
                Target::Autogroup(_) if is_gone => continue,
                Target::Autogroup(_) | Target::GroupWeight(_) => needs_fallback = true,
                _ => {}
            }
            refusal = Some(error);
        }
        if needs_fallback {
            return self.apply(now, decisions);
        }
        if let Some(error) = refusal.filter(|_| self.leased.is_empty()) {
            self.give_up(now, error);
        }
    }

    fn interest(&self) -> Interest {
        if !self.is_on() {
            return Interest::default();
        }
        let is_uncontended = self.is_uncontended();
        Interest {
            foreground: true,
            session: true,
            sampling_period: Some(Duration::from_millis(self.sampling_ms(is_uncontended))),
            samples_new_foreground: !is_uncontended,
            ..Interest::default()
        }
    }

    fn demand_threads(&self, demand: &mut ThreadDemand) {
        demand.facts.extend(&self.unknown);
    }

    fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        Some(ThreadSampling { sensing: self.config.sensing, groups: &self.config.groups })
    }

    fn take_observations(&mut self, observations: &mut Vec<Observation>) {
        self.observations.take(observations);
    }

    fn take_probe_request(&mut self) -> bool {
        std::mem::take(&mut self.probe_requested)
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
        self.contention.take_questions(questions);
    }

    fn unreserved_cpus(&self) -> Option<&[u32]> {
        self.split().map(|split| split.rest.as_slice())
    }

    fn details(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.snapshot()).ok()
    }

    fn deadline(&self) -> Option<BootTime> {
        let deadlines = [self.contention.deadline(), self.deference.deadline(), self.opening];
        deadlines.into_iter().flatten().min()
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        let of_groups = || self.group_weights.as_ref().and_then(GroupWeights::since);
        match self.held.as_ref().map(|held| held.since).or_else(of_groups) {
            Some(since) => Some((since, format!("{} ({} changed)", self.reason, self.leased.held().count()))),
            None => self.contention.activity(),
        }
    }
}

mod demands;
mod foreground_masks;
mod group_weights;
mod ladder;
mod light;
mod managers;
mod observed;
mod opening;
mod sampling;
#[cfg(test)]
mod tests;
mod view;
