//! What is done for the foreground, when it is judged, and when it ends: pure decisions from looks and the time.
//!
//! A ladder: nothing, bulk work weighs less, bulk work runs on what no other task wants, all else that is busy leaves cores
//! free. The gain bound chooses the rung, a trial keeps it or takes it back, and after a minute everything is chosen again,
//! so that nothing stays that no longer helps.

use std::collections::BTreeSet;
use std::time::Duration;

use self::standing::Standing;
use super::back_off::BackOff;
use super::config::{PlacementConfig, Rule};
use super::contention::Contention;
use super::cores::Machine;
use super::gain::Window;
use super::groups::neighbours::Neighbours;
use super::groups::sessions::Sessions;
use super::step::{Rung, Step};
use super::thesis;
use super::threads::heirs::Heirs;
use super::threads::roster::Roster;
use super::trial::{Rhythms, Trial};
use crate::deference::Deference;
use crate::{
    Decision, Effect, Event, Facts, Holdings, Interest, Job, Outcome, Policy, Question, Support, SupportState, Target,
    ThreadDemand, ThreadSampling,
};
use brisk_sys::BootTime;
use brisk_sys::cgroup::membership::GroupChoice;
use brisk_sys::cgroup::weight::WeighedGroup;
use brisk_sys::io::io_priority::IoPriority;
use brisk_sys::sched::thread_facts::ThreadFacts;
use brisk_sys::sched::threads::Sample;

/// Nothing is decided before so much was seen of a foreground.
const EVIDENCE: Duration = Duration::from_millis(100);
/// What parallelism and gain are measured over.
const WINDOW: Duration = Duration::from_secs(1);
/// A step is released and chosen again after this long.
const CHOSEN_FOR: Duration = Duration::from_secs(60);
/// Leases last longer than that: they end by themselves only where the daemon hangs.
const LEASE: Duration = Duration::from_secs(90);
/// Facts of bulk threads are asked for again after this long, so that a person's change is noticed.
const FACTS_AGE: Duration = Duration::from_secs(5);
/// A step that was taken back is tried again after this long, then after twice as long each time up to the longest.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(300);
/// Why everything is released before a probe.
const CHANGED: &str = "the device or the configuration changed";
/// A foreground that asks for less than this share of a CPU is at rest.
const AT_REST: f64 = 0.01;

/// The placement mechanism's state and its decisions.
#[derive(Debug)]
pub struct PlacementPolicy {
    config: PlacementConfig,
    support: Support,
    /// All CPUs of the device.
    present: Machine,
    /// Those of them that are online.
    machine: Machine,
    roster: Roster,
    window: Window,
    sampled_at: Option<BootTime>,
    /// The foreground has changed since the last sample, which will tell more of what was before.
    has_changed: bool,
    facts_at: BootTime,
    unknown: Vec<u32>,
    held: Option<Held>,
    /// What sessions and groups of bulk work give up without a trial.
    standing: Option<Standing>,
    /// What threads have been made to give up.
    leased: Holdings,
    heirs: Heirs,
    /// Masks of foreground threads, until the next sample.
    parted: Holdings,
    neighbours: Neighbours,
    /// Units of systemd compete by weights that may be changed.
    has_units: bool,
    sessions: Sessions,
    /// A group could not be made or entered: masks and nice values say the same of each thread.
    without_groups: bool,
    back_off: BackOff<Rung>,
    /// A step under which the foreground ran less, and that was given back to see whether it was why.
    doubted: Option<Rung>,
    /// The first step that a trial refused, and what share of its busy time the foreground waited under it.
    refused: Option<(Rung, f64)>,
    /// Until when something that came to the foreground is being opened.
    opening: Option<BootTime>,
    /// The foreground may still be starting.
    is_start: bool,
    /// Light tasks that missed their rhythm away from the cores that are kept free: they go where they like.
    late: BTreeSet<u32>,
    /// Who keeps the foreground waiting for storage.
    storage: Contention,
    /// Who else sets priorities, and what is asked about that.
    deference: Deference,
    questions: Vec<Question>,
    wants_probe: bool,
    /// Why it does what it does.
    reason: String,
}

/// The step in force.
#[derive(Debug)]
struct Held {
    step: Step,
    since: BootTime,
    /// When everything is chosen again.
    until: BootTime,
    trial: Option<Trial>,
    rhythms: Rhythms,
    /// What was in force before it and is again when it fails.
    before: Option<Step>,
    /// The foreground was put apart for it, or need not be.
    is_parted: bool,
}

impl Held {
    fn new(step: Step, now: BootTime, trial: Option<Trial>, rhythms: Rhythms, before: Option<Step>) -> Self {
        Self { step, since: now, until: now + CHOSEN_FOR, trial, rhythms, before, is_parted: false }
    }
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self::new(PlacementConfig::default(), Support::default(), Machine::equal(1))
    }
}

impl PlacementPolicy {
    /// A policy for `machine` under what `support` says of it.
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
            standing: None,
            leased: Holdings::default(),
            heirs: Heirs::default(),
            parted: Holdings::default(),
            has_units: false,
            neighbours: Neighbours::default(),
            sessions: Sessions::default(),
            without_groups: false,
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
            doubted: None,
            refused: None,
            opening: None,
            is_start: true,
            late: BTreeSet::new(),
            storage: Contention::default(),
            deference: Deference::new(Job::Priorities),
            questions: Vec::new(),
            wants_probe: false,
            reason: "nothing was looked at yet".to_owned(),
        }
    }

    /// Takes another configuration or machine; which tasks there are and which are the foreground stays known.
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
        self.neighbours.clear();
        self.sessions.clear();
        if !self.is_on() {
            self.forget_threads();
        }
    }

    fn forget_threads(&mut self) {
        self.roster = Roster::default();
        self.sampled_at = None;
    }

    /// True when the groups of the delegated sub-tree, or systemd's units, are wanted with the next sample.
    fn wants_groups(&self, now: BootTime) -> bool {
        let may_gain = match self.config.groups {
            GroupChoice::Off => false,
            GroupChoice::Tree(_) => true,
            // All of the system's are many.
            GroupChoice::Auto => {
                self.has_units && (!self.neighbours.is_empty() || !self.busy(&Step::Weight).is_empty())
            }
        };
        may_gain && self.roster.has_front() && self.neighbours.are_due(now)
    }

    /// True while it is not certain yet which units are beside a new foreground.
    fn has_unsettled_units(&self) -> bool {
        self.has_units && self.neighbours.are_unsettled() && !self.busy(&Step::Weight).is_empty()
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
            self.rejoin_foreground(decisions);
            self.open(now, is_some, decisions);
            self.back_off.clear();
            self.neighbours.clear();
            self.doubted = None;
            self.refused = None;
            self.is_start = true;
            self.late.clear();
            self.window.clear();
            self.has_changed = true;
        }
    }

    fn on_sample(
        &mut self,
        now: BootTime,
        (sample, facts, groups): (&Sample, &[ThreadFacts], Option<&[WeighedGroup]>),
        online: &[u32],
        decisions: &mut Vec<Decision>,
    ) {
        self.rejoin_foreground(decisions);
        let wall_ns = self.sampled_at.replace(now).map_or(0, |before| now.since(before).as_nanos() as u64);
        self.roster.take_fork_parents(now, facts, self.machine.cores().len());
        let totals = self.roster.take(now, wall_ns, sample);
        self.release_where("it has ended", decisions, |tid| sample.ended.contains(&tid));
        self.late.retain(|tid| !sample.ended.contains(tid));
        self.sessions.forget(&sample.ended);
        self.sessions.take(facts, &self.roster, &self.leased);
        self.heirs.note(sample, &self.leased, &self.roster);
        // A task that shows what was made of it, or what it was born with, does not show what is its own.
        let mut changed = self.heirs.disinherit(facts, decisions);
        changed.extend(self.leased_threads());
        let tells_own = |facts: &&ThreadFacts| !changed.contains(&facts.tid) && !self.sessions.asked_alone(facts.tid);
        self.roster.take_facts(facts.iter().filter(tells_own));
        if now.since(self.facts_at) >= FACTS_AGE {
            self.facts_at = now;
            self.doubt_facts();
            self.sessions.doubt();
        }
        self.follow_online(online, decisions);
        self.unknown = self.roster.unknown(&self.config.excluded_commands, self.maximum());
        self.unknown.extend(self.heirs.tids());
        self.unknown.extend(self.roster.unknown_fork_parents(now));
        let light: Vec<u32> = self.unknown_light().collect();
        self.unknown.extend(light);
        if !self.roster.has_front() {
            self.window.clear();
            return self.release_all("there is no foreground", decisions);
        }
        self.spare_sessions(now);
        if let Some(groups) = groups {
            self.neighbours.take(now, groups, self.roster.front(), &self.leased);
        }
        self.neighbours.spare(&self.roster, &self.config.excluded_commands);
        if !std::mem::take(&mut self.has_changed) && wall_ns > 0 {
            self.window.add(totals, WINDOW);
        }
        if self.is_opening(now, decisions) {
            return self.weigh_for_opening(now, decisions);
        }
        match self.config.rule {
            Rule::Brisk => self.climb(now, totals, sample, decisions),
            Rule::Weight => self.always_weigh(now, decisions),
            Rule::Thesis => self.follow_thesis(now, decisions),
        }
    }

    /// Takes whether units of systemd compete by weights that may be changed.
    pub(super) fn take_units(&mut self, has_units: bool) {
        self.has_units = has_units;
    }

    /// Takes the lowest I/O priority that a thread can have; `None` where nothing is done about storage.
    pub(super) fn take_storage(&mut self, lowest: Option<IoPriority>, config: &PlacementConfig) {
        self.storage.replace(lowest, config);
    }

    /// Releases what it holds before the device is probed.
    pub(super) fn let_go_for_probe(&mut self, decisions: &mut Vec<Decision>) {
        self.release_all(CHANGED, decisions);
        self.storage.leave(CHANGED, decisions);
    }

    /// CPUs come and go, with or without a word of it.
    fn follow_online(&mut self, online: &[u32], decisions: &mut Vec<Decision>) {
        if online.is_empty() {
            return;
        }
        let machine = self.present.only(online);
        if machine != self.machine {
            self.release_all("CPUs came or went", decisions);
            self.back_off.clear();
            self.machine = machine;
        }
    }

    /// Weight whenever there is a foreground and bulk work.
    fn always_weigh(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.held.is_none() && !self.busy(&Step::Weight).is_empty() {
            let rhythms = Rhythms::default();
            self.held = Some(Held::new(Step::Weight, now, None, rhythms, None));
            self.reason = format!("{}, by the rule of weight", self.words(&Step::Weight));
        }
        if self.held.as_ref().is_some_and(|held| now >= held.until) {
            return self.release_all("chosen again after a while", decisions);
        }
        self.apply(now, decisions);
    }

    fn follow_thesis(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let wanted = thesis::assign(&self.roster, &self.machine, &self.config.excluded_commands, self.maximum());
        self.unknown.extend(thesis::unknown(&self.roster, self.maximum()));
        self.reason = "by the thesis's classes".to_owned();
        self.make(now, &wanted, "the thesis's classes", decisions);
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
        self.storage.leave("the daemon stops", decisions);
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        self.ask_for_managers(now);
        if let Event::Facts(Facts::OtherManagers { found }) = event {
            return self.hear_of_managers(now, found, decisions);
        }
        if !self.is_on() {
            return;
        }
        match event {
            Event::Facts(facts) => self.storage.take(now, facts, self.roster.front(), decisions),
            Event::Deadline => {
                self.storage.on_deadline(now, self.roster.front());
                self.is_opening(now, decisions);
            }
            Event::Threads { sample, facts, online, groups } => {
                self.hear_of_processes(now, sample);
                self.on_sample(now, (sample, facts, groups.as_deref()), online, decisions);
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
        self.storage.follow_front(now, self.roster.has_front(), decisions);
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        let (mut makes_do, mut refusal) = (false, None);
        let is_of_storage = |outcome: &&Outcome| matches!(outcome.target, Target::IoPriority { .. });
        let of_storage: Vec<Outcome> = outcomes.iter().filter(is_of_storage).cloned().collect();
        self.storage.on_outcomes(now, &of_storage);
        for outcome in outcomes.iter().filter(|outcome| !is_of_storage(outcome)) {
            self.leased.take(now, outcome);
            self.parted.take(now, outcome);
            let Some(error) = outcome.error().filter(|_| outcome.held.is_none()) else { continue };
            let is_gone = matches!(outcome.effect, Effect::Missing(_));
            match &outcome.target {
                // A thread may end at any time.
                target if is_gone && target.thread().is_some() => continue,
                Target::Group(_) | Target::GroupMember { .. } => {
                    self.without_groups = true;
                    makes_do = true;
                }
                Target::Autogroup(_) if is_gone => continue,
                Target::Autogroup(_) => makes_do = true,
                Target::GroupWeight(folder) => {
                    self.neighbours.forget(folder);
                    makes_do = true;
                }
                _ => {}
            }
            refusal = Some(error);
        }
        if makes_do {
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
        let is_new = self.config.rule == Rule::Brisk && self.opening.is_none() && self.window.span() < EVIDENCE * 2;
        let sampling_ms = match self.roster.has_front() {
            false => self.config.idle_sampling_ms,
            // What an opening needs is done, and nothing is judged before it is over.
            true if self.opening.is_some() && self.held.is_some() && !self.has_unsettled_units() => {
                self.config.sampling_ms * 2
            }
            // Twice as often at first: a new foreground should not have to wait for evidence.
            true if is_new || self.has_unsettled_units() => self.config.sampling_ms.div_ceil(2),
            true => self.config.sampling_ms,
        };
        Interest {
            foreground: true,
            session: true,
            sampling_period: Some(Duration::from_millis(sampling_ms)),
            ..Interest::default()
        }
    }

    fn demand_threads(&self, now: BootTime, demand: &mut ThreadDemand) {
        demand.facts.extend(&self.unknown);
        demand.groups |= self.wants_groups(now);
    }

    fn thread_sampling(&self) -> Option<ThreadSampling<'_>> {
        Some(ThreadSampling { sensing: self.config.sensing, groups: &self.config.groups })
    }

    fn take_probe_request(&mut self) -> bool {
        std::mem::take(&mut self.wants_probe)
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
        self.storage.take_questions(questions);
    }

    fn unreserved_cpus(&self) -> Option<&[u32]> {
        self.split().map(|split| split.rest.as_slice())
    }

    fn details(&self) -> Option<serde_json::Value> {
        serde_json::to_value(self.snapshot()).ok()
    }

    fn deadline(&self) -> Option<BootTime> {
        [self.storage.deadline(), self.deference.deadline(), self.opening].into_iter().flatten().min()
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        let since = match &self.held {
            Some(held) => held.since,
            None => self.standing.as_ref()?.since()?,
        };
        Some((since, format!("{} ({} changed)", self.reason, self.leased.held().count())))
    }
}

mod demands;
mod front;
mod ladder;
mod light;
mod managers;
mod opening;
mod standing;
#[cfg(test)]
mod tests;
mod view;
