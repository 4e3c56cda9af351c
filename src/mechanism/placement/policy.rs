//! What is done for the foreground, when it is judged, and when it ends: pure decisions from looks and the time.
//!
//! A ladder: nothing, bulk work weighs less, bulk work runs on what nobody else wants, whoever else is busy leaves cores
//! free. The gain bound chooses the rung, a trial keeps it or takes it back, and after a minute everything is chosen anew,
//! so that nothing stays that no longer helps.

use std::collections::BTreeSet;
use std::time::Duration;

use super::back_off::BackOff;
use super::config::{PlacementConfig, Rule};
use super::cores::{Machine, Split};
use super::gain::{Advice, CORE_SLACK, Totals, Window, advise};
use super::heirs::Heirs;
use super::neighbours::Neighbours;
use super::roster::Roster;
use super::step::{Demands, Rung, Step};
use super::thesis;
use super::trial::{Rhythms, Trial, Verdict};
use crate::device::BootTime;
use crate::device::cgroup::membership::Choice;
use crate::device::cgroup::weight::WeighedGroup;
use crate::device::thread_facts::ThreadFacts;
use crate::device::threads::Look;
use crate::mechanism::{Action, Decision, Event, Interest, Mechanism, Support, SupportState, Target};

/// Nothing is decided before so much was seen of a foreground.
const EVIDENCE: Duration = Duration::from_millis(100);
/// What parallelism and gain are measured over.
const WINDOW: Duration = Duration::from_secs(1);
/// A step is given back and chosen anew after this long.
const CHOSEN_FOR: Duration = Duration::from_secs(60);
/// What a foreground runs at its start says little of what it runs afterwards: a step under which it waits less and runs
/// less is looked at without it after this long.
const START: Duration = Duration::from_secs(5);
/// Leases last longer than that: they end by themselves only where the daemon hangs.
const LEASE: Duration = Duration::from_secs(90);
/// Facts of bulk threads are asked for again after this long, so that a person's change is noticed.
const FACTS_AGE: Duration = Duration::from_secs(5);
/// A step that was taken back is tried again after this long, then after twice as long each time up to the longest.
const BACK_OFF: Duration = Duration::from_secs(2);
const BACK_OFF_LONGEST: Duration = Duration::from_secs(300);
/// Why cores are not kept free any more.
const OUTGROWS: &str = "the foreground needs more cores than are kept free";
/// A foreground outgrows the cores that are kept free for it when it needs this much more than all of them, and what it lacks
/// is as much of what it needs as anything is done for.
const MORE_THAN_RESERVED: f64 = 0.25;
/// While cores are being kept free on trial, this much more says so.
const OUTGROWN: f64 = 0.15;
/// A foreground that asks for less than this share of a CPU is light itself: the scheduler serves it at once.
const LIGHT_FRONT: f64 = 0.1;
/// One that asks for less than this is at rest.
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
    looked_at: Option<BootTime>,
    /// What is in front has changed since the last look, which will tell more of what was before.
    has_changed: bool,
    facts_at: BootTime,
    unknown: Vec<u32>,
    held: Option<Held>,
    /// What threads have been made to give up.
    leased: Demands,
    heirs: Heirs,
    /// Masks of threads in front, until the next look.
    parted: Vec<Target>,
    neighbours: Neighbours,
    /// A group could not be made or entered: masks and nice values say the same of each thread.
    without_groups: bool,
    back_off: BackOff<Rung>,
    /// A step under which the foreground ran less, and that was given back to see whether it was why.
    doubted: Option<Rung>,
    /// What is in front may still be starting.
    is_start: bool,
    /// A light task missed its rhythm away from the cores that are kept free: they all go where they like.
    light_stays: bool,
    /// Why it does what it does.
    reason: String,
}

/// The step in force.
#[derive(Debug)]
struct Held {
    step: Step,
    since: BootTime,
    /// When everything is chosen anew.
    until: BootTime,
    trial: Option<Trial>,
    rhythms: Rhythms,
    /// What was in force before it and is again when it fails.
    before: Option<Step>,
    /// What is in front was put apart for it, or need not be.
    is_parted: bool,
}

impl Held {
    fn new(step: Step, now: BootTime, trial: Option<Trial>, rhythms: Rhythms, before: Option<Step>) -> Self {
        Self { step, since: now, until: now + CHOSEN_FOR, trial, rhythms, before, is_parted: false }
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
            looked_at: None,
            has_changed: false,
            facts_at: BootTime::default(),
            unknown: Vec::new(),
            held: None,
            leased: Demands::new(),
            heirs: Heirs::default(),
            parted: Vec::new(),
            neighbours: Neighbours::default(),
            without_groups: false,
            back_off: BackOff::new(BACK_OFF, BACK_OFF_LONGEST),
            doubted: None,
            is_start: true,
            light_stays: false,
            reason: "nothing was looked at yet".to_owned(),
        }
    }

    /// Gives back what is held.
    pub fn let_go(&mut self, decisions: &mut Vec<Decision>) {
        self.release_all("the device or the configuration changed", decisions);
    }

    /// Takes another configuration or machine; who is there and who is in front stays known.
    pub fn replace(
        &mut self,
        config: PlacementConfig,
        support: Support,
        machine: Machine,
        decisions: &mut Vec<Decision>,
    ) {
        self.let_go(decisions);
        self.config = config;
        self.support = support;
        self.present = machine.clone();
        self.machine = machine;
        self.back_off.clear();
        self.without_groups = false;
        self.neighbours.clear();
        if !self.is_on() {
            self.roster = Roster::default();
            self.looked_at = None;
        }
    }

    /// Ends everything: the daemon stops.
    pub fn stop(&mut self, decisions: &mut Vec<Decision>) {
        self.release_all("the daemon stops", decisions);
    }

    /// Bulk threads whose facts are wanted with the next look.
    pub fn unknown(&self) -> &[u32] {
        &self.unknown
    }

    /// True when the groups of the delegated sub-tree are wanted with the next look.
    pub fn wants_groups(&self, now: BootTime) -> bool {
        let has_tree = matches!(self.config.groups, Choice::Tree(_));
        has_tree && self.roster.has_front() && self.neighbours.are_due(now)
    }

    /// The processes in front, descendants included; nobody while the mechanism is off.
    pub fn front(&self) -> &BTreeSet<u32> {
        self.roster.front()
    }

    fn is_on(&self) -> bool {
        self.support.state == SupportState::Active
    }

    fn maximum(&self) -> usize {
        usize::try_from(self.config.maximum_threads).unwrap_or(usize::MAX)
    }

    fn put_in_front(&mut self, pids: BTreeSet<u32>, decisions: &mut Vec<Decision>) {
        if self.roster.put_in_front(pids) {
            self.release_all("something else came to the front", decisions);
            self.back_off.clear();
            self.neighbours.clear();
            self.doubted = None;
            self.is_start = true;
            self.light_stays = false;
            self.window.clear();
            self.has_changed = true;
        }
    }

    fn on_look(
        &mut self,
        now: BootTime,
        (look, facts, groups): (&Look, &[ThreadFacts], Option<&[WeighedGroup]>),
        online: &[u32],
        decisions: &mut Vec<Decision>,
    ) {
        self.rejoin_front(decisions);
        let wall_ns = self.looked_at.replace(now).map_or(0, |before| now.since(before).as_nanos() as u64);
        self.roster.take_broods(now, facts, self.machine.cores().len());
        let totals = self.roster.take(now, wall_ns, look);
        self.release_where("it has ended", decisions, |tid| look.ended.contains(&tid));
        self.heirs.note(look, &self.leased, &self.roster);
        // Whoever shows what was made of it, or what it was born with, does not show what is its own.
        let mut changed = self.heirs.disinherit(facts, decisions);
        changed.extend(self.leased.keys().filter_map(Target::thread));
        self.roster.take_facts(facts.iter().filter(|facts| !changed.contains(&facts.tid)));
        if now.since(self.facts_at) >= FACTS_AGE {
            self.facts_at = now;
            self.doubt_facts();
        }
        self.follow_online(online, decisions);
        self.unknown = self.roster.unknown(&self.config.excluded_commands, self.maximum());
        self.unknown.extend(self.heirs.tids());
        self.unknown.extend(self.roster.unknown_broods(now));
        let light: Vec<u32> = self.unknown_light().collect();
        self.unknown.extend(light);
        if !self.roster.has_front() {
            self.window.clear();
            return self.release_all("nothing is in front", decisions);
        }
        if let Some(groups) = groups {
            self.neighbours.take(now, groups, self.roster.front(), &self.leased);
        }
        self.neighbours.spare(&self.roster, &self.config.excluded_commands);
        if !std::mem::take(&mut self.has_changed) && wall_ns > 0 {
            self.window.add(totals, WINDOW);
        }
        match self.config.rule {
            Rule::Brisk => self.climb(now, totals, look, decisions),
            Rule::Weight => self.always_weigh(now, decisions),
            Rule::Thesis => self.follow_thesis(now, decisions),
        }
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

    /// The ladder.
    fn climb(&mut self, now: BootTime, totals: Totals, look: &Look, decisions: &mut Vec<Decision>) {
        if self.held.is_some() {
            self.watch(now, totals, look, decisions);
        }
        match &self.held {
            None => self.choose(now, decisions),
            Some(_) => {
                let parted = self.part_front(now);
                decisions.extend(parted);
                self.apply(now, decisions);
            }
        }
    }

    /// Judges what is held.
    fn watch(&mut self, now: BootTime, totals: Totals, look: &Look, decisions: &mut Vec<Decision>) {
        let least = self.least_gain();
        let Some(held) = &mut self.held else { return };
        if let Some(missed) = held.rhythms.take(now, look, &self.roster) {
            if !self.free_light(&missed) {
                self.take_back(now, &format!("a light task misses its rhythm: {missed}"), decisions);
            }
            return;
        }
        if let Some(trial) = &mut held.trial {
            match trial.take(now, totals) {
                Verdict::Open => {
                    if lacking(&held.step, trial.after().runnable(), least) > OUTGROWN {
                        self.take_back(now, OUTGROWS, decisions);
                    }
                    return;
                }
                Verdict::Useless(why) => return self.take_back(now, &format!("it did not help: {why}"), decisions),
                Verdict::Unclear(why) => return self.doubt(now, &why, decisions),
                Verdict::Helps => {
                    let after = trial.after();
                    held.trial = trial.again(now);
                    if let Some(missed) = held.rhythms.judge(now, &self.roster)
                        && !self.free_light(&missed)
                    {
                        return self.take_back(now, &format!("a light task misses its rhythm: {missed}"), decisions);
                    }
                    return self.confirm(now, after, decisions);
                }
            }
        }
        if self.window.span() >= WINDOW.mul_f64(0.9) && self.window.totals().runnable() < AT_REST {
            return self.release_all("the foreground has come to rest", decisions);
        }
        if now >= held.until {
            return self.release_all("chosen anew after a while", decisions);
        }
        if lacking(&held.step, self.window.parallelism(), least) > MORE_THAN_RESERVED {
            self.release_all(OUTGROWS, decisions);
        }
    }

    /// The trial has shown that the step helps.
    fn confirm(&mut self, now: BootTime, after: Totals, decisions: &mut Vec<Decision>) {
        let Some(held) = &self.held else { return };
        let step = held.step.clone();
        if held.trial.is_none() {
            self.back_off.forgive(step.rung());
            self.doubted = None;
        }
        self.reason =
            format!("{}: the foreground waits {:.0} % of its busy time", self.words(&step), after.wait_share() * 100.0);
        let next = match &step {
            Step::Weight => Some(Step::Idle),
            // On the cores that are free for it, it waits for itself.
            Step::Isolate(split) if after.runnable() > split.reserved.len() as f64 + CORE_SLACK => Some(Step::Weight),
            _ => None,
        };
        let next = next.filter(|next| self.back_off.allows(now, next.rung()));
        if let Some(next) = next.filter(|_| after.gain_bound() >= self.least_gain()) {
            let reason = format!("{:.0} % could still be gained", after.gain_bound() * 100.0);
            self.begin(now, next, after, Some(step), &reason, decisions);
        }
    }

    fn least_gain(&self) -> f64 {
        self.config.minimum_gain_percent / 100.0
    }

    /// Chooses a rung when there is evidence enough.
    fn choose(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        if self.window.span() < EVIDENCE {
            return;
        }
        let (totals, parallelism) = (self.window.totals(), self.window.parallelism());
        let advice = advise(totals.gain_bound(), parallelism, self.least_gain(), &self.machine);
        let seen = format!(
            "the foreground waits {:.0} % of its busy time on {parallelism:.2} CPUs while bulk work takes {:.2}: {:.0} % \
             to gain at most",
            totals.wait_share() * 100.0,
            totals.bulk_rate(),
            totals.gain_bound() * 100.0
        );
        let isolate = match advice {
            _ if totals.runnable() < LIGHT_FRONT => {
                return self.reason = "nothing is done: what is in front asks for little".to_owned();
            }
            Advice::Nothing => return self.reason = format!("nothing is done: {seen}"),
            Advice::Isolate { cores } => self.machine.reserve(cores).map(Step::Isolate),
            Advice::Weight => None,
        };
        let step = isolate.into_iter().chain([Step::Weight]).find(|step| self.back_off.allows(now, step.rung()));
        match step {
            Some(step) => self.begin(now, step, totals, None, &seen, decisions),
            None => self.reason = format!("nothing is done, because it did not help a moment ago: {seen}"),
        }
    }

    /// Tries `step`, where there is anybody who can make room by it.
    fn begin(
        &mut self,
        now: BootTime,
        step: Step,
        before: Totals,
        in_force: Option<Step>,
        seen: &str,
        decisions: &mut Vec<Decision>,
    ) {
        let trial = Trial::new(now, Duration::from_millis(self.config.trial_ms), before);
        let rhythms = Rhythms::of(&self.roster, trial.settles());
        self.reason = format!("{}, on trial: {seen}", self.words(&step));
        self.held = Some(Held::new(step, now, Some(trial), rhythms, in_force));
        let begun = decisions.len();
        self.apply(now, decisions);
        if self.leased.is_empty() {
            self.held = None;
            return self.reason =
                format!("nothing is done, because all bulk work is bound or known too little: {seen}");
        }
        // Masks move threads at once, and groups take their time.
        let is_mask = |decision: &Decision| {
            matches!(decision.action, Action::Lease { target: Target::CpuAffinity { .. }, .. } | Action::Release { .. })
        };
        let masks = decisions[begun..].iter().take_while(|decision| is_mask(decision)).count();
        let moved = [self.fetch_front(now), self.part_front(now)].concat();
        decisions.splice(begun + masks..begun + masks, moved);
    }

    /// The cores that are kept free now, and the others.
    pub fn split(&self) -> Option<&Split> {
        match &self.held.as_ref()?.step {
            Step::Isolate(split) => Some(split),
            _ => None,
        }
    }

    /// The foreground waits less, and runs less. Once, at its start, that is most likely its own doing; later it is looked
    /// at without the step: where it runs no more then, the next trial compares with that.
    fn doubt(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = &mut self.held else { return };
        let rung = held.step.rung();
        let is_known = held.before.is_some() || self.doubted == Some(rung) || self.back_off.knows(rung);
        if is_known {
            self.doubted = None;
            return self.take_back(now, &format!("it did not help: {why}"), decisions);
        }
        self.doubted = Some(rung);
        if std::mem::take(&mut self.is_start) {
            held.trial = None;
            held.until = now + START;
            let step = held.step.clone();
            return self.reason = format!("{}, for now: {why}", self.words(&step));
        }
        self.release_all(&format!("looked at without it: {why}"), decisions);
    }

    /// Undoes the step in force, and does not try it again for a while.
    fn take_back(&mut self, now: BootTime, why: &str, decisions: &mut Vec<Decision>) {
        let Some(held) = self.held.take() else { return };
        let rung = held.step.rung();
        self.back_off.add(now, rung);
        self.window.clear();
        match held.before {
            Some(step) => {
                self.reason = format!("{} again: {why}", self.words(&step));
                let rhythms = Rhythms::of(&self.roster, now);
                self.held = Some(Held::new(step, now, None, rhythms, None));
                self.apply(now, decisions);
            }
            None => self.release_all(why, decisions),
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
            return self.release_all("chosen anew after a while", decisions);
        }
        self.apply(now, decisions);
    }

    fn follow_thesis(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let wanted = thesis::assign(&self.roster, &self.machine, &self.config.excluded_commands, self.maximum());
        self.unknown = thesis::unknown(&self.roster, self.maximum());
        self.reason = "by the thesis's classes".to_owned();
        self.make(now, wanted, "the thesis's classes", decisions);
    }
}

/// The cores that a foreground of this parallelism lacks where some are kept free for it, if it could gain as much by more.
/// Waits are told of when they are over: what is chosen soon is a few in a hundred too few, and to choose anew would find
/// the same.
fn lacking(step: &Step, parallelism: f64, least_gain: f64) -> f64 {
    let Step::Isolate(split) = step else { return 0.0 };
    Some(parallelism - split.reserved.len() as f64).filter(|lacking| *lacking > parallelism * least_gain).unwrap_or(0.0)
}

impl Mechanism for PlacementPolicy {
    fn name(&self) -> &'static str {
        "placement"
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        if !self.is_on() {
            return;
        }
        match event {
            Event::Threads { look, facts, online, groups } => {
                self.on_look(now, (look, facts, groups.as_deref()), online, decisions);
            }
            Event::Foreground { processes } => {
                self.put_in_front(processes.iter().map(|process| process.pid).collect(), decisions);
            }
            Event::Session { pids } => self.put_in_front(pids.iter().copied().collect(), decisions),
            Event::Refused { target: Target::Group(_) | Target::GroupMember { .. } } => {
                self.without_groups = true;
                self.apply(now, decisions);
            }
            Event::Refused { target: target @ Target::GroupWeight(folder) } => {
                self.neighbours.forget(folder);
                self.leased.remove(target);
                self.apply(now, decisions);
            }
            Event::LaunchAnnounced { process: Some(process), .. } => {
                self.put_in_front(BTreeSet::from([process.pid]), decisions);
            }
            _ => {}
        }
    }

    fn interest(&self) -> Interest {
        if !self.is_on() {
            return Interest::default();
        }
        let is_new = self.config.rule == Rule::Brisk && self.window.span() < EVIDENCE * 2;
        let look_ms = match (self.roster.has_front(), is_new) {
            (false, _) => self.config.idle_look_ms,
            // Twice as often at first: what is new in front should not have to wait for evidence.
            (true, true) => self.config.look_ms.div_ceil(2),
            (true, false) => self.config.look_ms,
        };
        Interest {
            foreground: true,
            session: true,
            look_period: Some(Duration::from_millis(look_ms)),
            ..Interest::default()
        }
    }

    fn deadline(&self) -> Option<BootTime> {
        None
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        let held = self.held.as_ref()?;
        Some((held.since, format!("{} ({} changed)", self.reason, self.leased.len())))
    }
}

mod demands;
mod front;
mod light;
#[cfg(test)]
mod tests;
mod view;
