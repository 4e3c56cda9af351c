//! The daemon's memory policy: it holds the plan's settings, has the kernel limit write-back to its budget, runs the killer,
//! and limits background groups.

use std::collections::BTreeSet;
use std::time::Duration;

use super::apply::{Change, changes};
use super::config::MemoryConfig;
use super::killer::KillRecord;
use super::parts::{self, KillerState, ZramState};
use super::restraint::restrain;
use super::zram_availability::ZramAvailability;
use super::{MemoryDevice, MemoryPlan, NAME};
use crate::lease_transaction::LeaseTransaction;
use crate::{
    Action, Child, Decision, Effect, Enabled, Event, Facts, Interest, Job, Observation, Observations, Outcome, Part,
    Policy, Process, Question, Stall, Support, SupportState, Target,
};
use brisk_sys::BootTime;
use brisk_sys::cgroup::memory::GroupSample;
use brisk_sys::system::other_managers::FoundManager;

/// The subcommand of the killer, a separate process.
pub const KILLER: &str = "killer";
/// Starts a line that tells the killer the new foreground process.
pub const FOREGROUND_PREFIX: &str = "front ";
/// Starts a line of the killer about a process that it has killed; the record follows as JSON.
pub const KILLED_PREFIX: &str = "killed ";
/// The name of the killer's thread that swaps out ahead of need.
pub const PAGEOUT: &str = "pageout";
/// Why settings of the previous configuration are released.
const CHANGED: &str = "the configuration has changed";
/// Why the settings of a plan without zram are released.
const ZRAM_IS_FREE: &str = "zram, which another program had, is free now";
/// Other managers are read again after this time when a client asks: it requires reading all of /proc.
const MANAGERS_MAXIMUM_AGE: Duration = Duration::from_secs(5);
/// The kernel wakes the daemon, at most once per window, when tasks have stalled on memory this long in it.
const STALL: Stall = Stall { stall_us: 25_000, window_us: 500_000 };

/// The memory mechanism's state and its decisions.
#[derive(Debug, Default)]
pub struct MemoryPolicy {
    config: MemoryConfig,
    /// What the device offered when the configuration was last read.
    device_support: Support,
    support: Support,
    /// The plan as applied: all of it or nothing.
    plan: LeaseTransaction,
    /// The plan was made for the present configuration and device.
    is_planned: bool,
    /// Another program had the zram device when the plan was made.
    has_owned_zram: bool,
    /// The switch of the kernel's write-back limit, while it is leased.
    limit: Option<Target>,
    /// The killer is to be started once the settings that it depends on are held.
    is_killer_due: bool,
    killer: Option<Child>,
    killer_pid: Option<u32>,
    /// Counts killers: a new configuration needs a new process.
    generation: u64,
    restraint: Restraint,
    blockers: PartBlockers,
    parts: Vec<Part>,
    since: Option<BootTime>,
    questions: Vec<Question>,
    lines: Vec<String>,
    observations: Observations,
}

/// What switches the parts off, or would, as last read.
#[derive(Debug, Default)]
struct PartBlockers {
    read_at: Option<BootTime>,
    zram_managers: Option<String>,
    killing_managers: Option<String>,
    zram_obstacle: Option<String>,
}

#[derive(Debug, Default)]
struct Restraint {
    is_watched: bool,
    previous: Vec<GroupSample>,
    at: BootTime,
    limited: BTreeSet<Target>,
}

impl MemoryPolicy {
    /// Releases what it holds where `config` differs from the present configuration.
    pub(super) fn release_if_changed(&mut self, config: &MemoryConfig, decisions: &mut Vec<Decision>) {
        if config.zram != self.config.zram {
            self.plan.release(CHANGED, decisions);
        }
        if *config != self.config {
            self.is_killer_due = false;
            self.end_killer(CHANGED, decisions);
        }
    }

    /// True when zram may have become free since the plan was made.
    pub(super) fn has_owned_zram(&self) -> bool {
        self.has_owned_zram
    }

    /// True when the device has to be read for another plan.
    pub(super) fn needs_plan(&self) -> bool {
        !self.is_planned
    }

    /// Releases a plan without zram where `facts` show that zram is free now. Its owner may have been a daemon that was killed:
    /// its swap stays in use until it fits into memory.
    pub(super) fn release_if_zram_is_free(&mut self, facts: &MemoryDevice, decisions: &mut Vec<Decision>) {
        if ZramAvailability::of(facts).is_free() {
            self.is_planned = false;
            self.plan.release(ZRAM_IS_FREE, decisions);
            self.is_killer_due = self.config.killer.enabled.is_on();
            self.end_killer(ZRAM_IS_FREE, decisions);
        }
    }

    /// Ends the killer, and the write-back limit that it works under.
    fn end_killer(&mut self, reason: &str, decisions: &mut Vec<Decision>) {
        self.killer = None;
        let release = |target| Decision { action: Action::Release { target }, reason: reason.to_owned() };
        decisions.extend(self.limit.take().map(release));
    }

    /// Applies `config` to a device that `facts` describe and `device_support` sums up.
    pub(super) fn take_device(
        &mut self,
        now: BootTime,
        config: MemoryConfig,
        (facts, device_support): (&MemoryDevice, Support),
        decisions: &mut Vec<Decision>,
    ) {
        self.device_support = device_support;
        // The killer writes back from the zram device that existed when it was started.
        self.is_killer_due |= config != self.config && config.killer.enabled.is_on();
        self.config = config;
        self.is_planned = true;
        self.has_owned_zram = self.config.zram.enabled.is_on() && ZramAvailability::of(facts).is_owned();
        let zram_obstacle = parts::obstacle(facts, &self.config.zram);
        self.blockers = PartBlockers { zram_obstacle, ..PartBlockers::default() };
        if self.config.zram.enabled.is_on() && self.plan.is_idle() {
            let plan = MemoryPlan::from_config(facts, &self.config.zram);
            match changes(&plan) {
                Ok(changes) => self.plan.begin(changes),
                Err(reason) => tracing::warn!("{NAME}: {reason}"),
            }
        }
        self.advance(decisions);
        self.update_support(now);
    }

    /// True when the reported state needs a fresh list of other managers. They affect only the report: a part that is `"auto"`
    /// stays off without them as well.
    pub(super) fn needs_managers(&self, now: BootTime) -> bool {
        let is_fresh = |read_at: BootTime| now.since(read_at) < MANAGERS_MAXIMUM_AGE;
        let is_auto = [self.config.zram.enabled, self.config.killer.enabled].contains(&Enabled::Auto);
        is_auto && !self.blockers.read_at.is_some_and(is_fresh)
    }

    /// Takes the other managers that were found.
    pub(super) fn set_managers(&mut self, now: BootTime, found: &[FoundManager]) {
        self.blockers.read_at = Some(now);
        self.blockers.zram_managers = Job::Zram.managers(found);
        self.blockers.killing_managers = Job::Killing.managers(found);
        self.update_parts();
    }

    /// For how long a background group that grows is limited; `None` where none ever is.
    pub(super) fn restraint_duration(&self) -> Option<Duration> {
        (self.config.restraint_s > 0).then(|| Duration::from_secs(self.config.restraint_s))
    }

    /// Requests the next change of the plan, and after the last one what the killer needs.
    fn advance(&mut self, decisions: &mut Vec<Decision>) {
        if self.plan.advance(decisions) && std::mem::take(&mut self.is_killer_due) {
            match self.config.killer.writeback.daily_kib {
                0 => self.request_killer(),
                _ => self.questions.push(Question::WritebackLimit),
            }
        }
    }

    fn request_killer(&mut self) {
        let settings = serde_json::to_string(&self.config.killer).unwrap_or_default();
        let mut arguments = vec!["--settings".to_owned(), settings];
        arguments.extend(self.limit.is_some().then(|| "--limits".to_owned()));
        let names_backing = !self.config.zram.backing_device.is_empty();
        arguments.extend(names_backing.then(|| "--names-backing".to_owned()));
        self.generation += 1;
        self.killer = Some(Child { generation: self.generation, subcommand: KILLER, arguments });
    }

    /// Has the kernel enforce the write-back budget, unless another program has set a limit: `switch` is `None` then.
    fn lease_writeback_limit(&mut self, switch: Option<&Target>, decisions: &mut Vec<Decision>) {
        match switch {
            Some(target) => {
                let action = Action::Lease { target: target.clone(), value: "1".to_owned(), until: BootTime::FOR_EVER };
                let reason = "the kernel enforces the write-back budget".to_owned();
                self.limit = Some(target.clone());
                decisions.push(Decision { action, reason });
            }
            None => self.request_killer(),
        }
    }

    fn take_outcome(&mut self, outcome: &Outcome, decisions: &mut Vec<Decision>) {
        let Outcome { target, effect, held } = outcome;
        let was_refused = self.plan.refusal().is_some();
        if self.plan.take(outcome, decisions) {
            if !was_refused && self.plan.refusal().is_some() {
                tracing::warn!("{NAME}: the rest of the plan is not applied, and earlier changes are reverted");
            }
            return;
        }
        if self.limit.as_ref() == Some(target) {
            if *effect != Effect::Written || held.is_none() {
                self.limit = None;
            }
            if self.killer.is_none() && self.config.killer.enabled.is_on() {
                self.request_killer();
            }
            return;
        }
        match held {
            Some(_) => drop(self.restraint.limited.insert(target.clone())),
            None => drop(self.restraint.limited.remove(target)),
        }
    }

    /// Tasks stall on memory: limits background groups that have grown since the previous sample.
    fn limit_growing_groups(&mut self, now: BootTime, groups: &[GroupSample], decisions: &mut Vec<Decision>) {
        let before = std::mem::replace(&mut self.restraint.previous, groups.to_vec());
        let since = now.since(std::mem::replace(&mut self.restraint.at, now));
        let until = now + Duration::from_secs(self.config.restraint_s);
        let mut restraints = restrain(&before, groups, since, until);
        restraints.retain(|decision| match &decision.action {
            Action::Lease { target, .. } => !self.restraint.limited.contains(target),
            _ => true,
        });
        decisions.append(&mut restraints);
    }

    /// Takes a line of the killer: what it has killed.
    fn take_killer_line(&mut self, line: &str) {
        let Some(record) = line.strip_prefix(KILLED_PREFIX) else { return };
        let Ok(record) = serde_json::from_slice::<KillRecord>(record.as_bytes()) else { return };
        self.observations.note(|| Observation::Kill {
            application: record.name,
            freed_kib: record.returned_kib,
            oom_score_adj: record.oom_score_adj,
            headroom_kib: record.headroom_kib,
        });
    }

    /// Observes kills for telemetry from now on, or no longer.
    pub(super) fn observe(&mut self, is_observed: bool) {
        self.observations.switch(is_observed);
    }

    fn prefetches(&self) -> bool {
        self.killer.is_some() && self.config.killer.prefetch
    }

    /// Updates which parts are on.
    fn update_parts(&mut self) {
        let PartBlockers { zram_managers, killing_managers, zram_obstacle, .. } = &self.blockers;
        let state = ZramState {
            managers: zram_managers.as_deref(),
            obstacle: zram_obstacle.as_deref(),
            refusal: self.plan.refusal(),
            held: Some(self.plan.held().len()),
        };
        let killer = match (self.killer_pid, &self.killer) {
            (Some(pid), _) => KillerState::Runs(pid),
            (None, Some(_)) => KillerState::Starts,
            (None, None) => KillerState::AfterZram,
        };
        self.parts = vec![
            parts::zram(&self.config.zram, state),
            parts::killer(&self.config.killer, killing_managers.as_deref(), killer),
        ];
    }

    /// Updates the reported state.
    fn update_support(&mut self, now: BootTime) {
        self.update_parts();
        let mut work = Vec::new();
        if !self.plan.held().is_empty() {
            let text = |Change { target, value, .. }: &Change| format!("{target} is {}", target.with_unit(value));
            let held: Vec<String> = self.plan.held().iter().map(text).collect();
            work.push(held.join(", "));
        }
        let text = |Change { target, value, .. }: &Change| {
            format!("{target} is still {}: restore failed; will retry", target.with_unit(value))
        };
        work.extend(self.plan.stuck().iter().map(text));
        work.extend(self.killer_pid.map(|pid| format!("the killer is process {pid}")));
        if self.restraint.is_watched {
            work.push("background groups that grow while foreground groups wait for memory are held back".to_owned());
        }
        self.since = self.since.filter(|_| !work.is_empty()).or((!work.is_empty()).then_some(now));
        let is_off = !self.config.zram.enabled.is_on() && !self.config.killer.enabled.is_on();
        self.support = match work.is_empty() {
            true if is_off && self.device_support.state == SupportState::Available => {
                let reason = format!("off (zram, killer); {}", self.device_support.reason);
                Support { reason, ..self.device_support.clone() }
            }
            true => self.device_support.clone(),
            false => Support { state: SupportState::Active, reason: work.join("; "), advice: String::new() },
        };
    }
}

impl Policy for MemoryPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        match event {
            Event::Foreground { processes } if self.prefetches() => {
                let line = |process: &Process| format!("{FOREGROUND_PREFIX}{}", process.pid);
                self.lines.extend(processes.iter().map(line));
            }
            Event::MemoryStall => self.questions.push(Question::MemoryGroups),
            Event::StallsWatched { is_on } => self.restraint.is_watched = *is_on,
            Event::Child { pid } => self.killer_pid = *pid,
            Event::ChildSaid { line } => return self.take_killer_line(line),
            Event::Facts(Facts::MemoryGroups { groups }) => return self.limit_growing_groups(now, groups, decisions),
            Event::Facts(Facts::WritebackLimit { switch }) => self.lease_writeback_limit(switch.as_ref(), decisions),
            _ => return,
        }
        self.update_support(now);
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        outcomes.iter().for_each(|outcome| self.take_outcome(outcome, decisions));
        self.advance(decisions);
        self.update_support(now);
    }

    fn stop(&mut self, _decisions: &mut Vec<Decision>) {
        self.killer = None;
    }

    fn interest(&self) -> Interest {
        let stall = (self.config.restraint_s > 0).then_some(STALL);
        Interest { foreground: self.prefetches(), stall, ..Interest::default() }
    }

    fn deadline(&self) -> Option<BootTime> {
        None
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        self.since.map(|since| (since, "memory is managed".to_owned()))
    }

    fn take_observations(&mut self, observations: &mut Vec<Observation>) {
        self.observations.take(observations);
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    fn child(&self) -> Option<&Child> {
        self.killer.as_ref()
    }

    fn take_child_input(&mut self, lines: &mut Vec<String>) {
        lines.append(&mut self.lines);
    }
}

#[cfg(test)]
mod tests;
