//! The daemon's memory policy: it holds the plan's settings, has the kernel limit write-back to its budget, runs the killer,
//! and limits background groups.

use std::collections::BTreeSet;
use std::time::Duration;

use super::apply::{Change, changes};
use super::config::MemoryConfig;
use super::parts::{self, KillerState, ZramState};
use super::restraint::restrain;
use super::{MemoryDevice, MemoryPlan, NAME};
use crate::sequence::Sequence;
use crate::{
    Action, Child, Decision, Effect, Enabled, Event, Facts, Interest, Job, Outcome, Part, Policy, Process, Question,
    Stall, Support, SupportState, Target,
};
use brisk_sys::BootTime;
use brisk_sys::cgroup::memory::GroupSample;
use brisk_sys::system::other_managers::Found;

/// The subcommand of the killer, a separate process.
pub const KILLER: &str = "killer";
/// Starts a line that tells the killer the new foreground process.
pub const FRONT: &str = "front ";
/// The name of the killer's thread that swaps out ahead of need.
pub const PAGEOUT: &str = "pageout";
/// Why settings of the previous configuration are released.
const CHANGED: &str = "the configuration has changed";
/// Other managers are read again after this time when a client asks: it requires reading all of /proc.
const COMPANY_LASTS: Duration = Duration::from_secs(5);
/// The kernel wakes the daemon, at most once per window, when tasks have stalled on memory this long in it.
const STALL: Stall = Stall { stall_us: 25_000, window_us: 500_000 };

/// The memory mechanism's state and its decisions.
#[derive(Debug, Default)]
pub struct MemoryPolicy {
    config: MemoryConfig,
    /// What the device offered when the configuration was last read.
    offered: Support,
    support: Support,
    /// The plan as applied: all of it or nothing.
    plan: Sequence,
    /// The switch of the kernel's write-back limit, while it is leased.
    limit: Option<Target>,
    /// The killer is to be started once the settings that it depends on are held.
    is_killer_due: bool,
    killer: Option<Child>,
    killer_pid: Option<u32>,
    /// Counts killers: a new configuration needs a new process.
    edition: u64,
    restraint: Restraint,
    company: Company,
    parts: Vec<Part>,
    since: Option<BootTime>,
    questions: Vec<Question>,
    lines: Vec<String>,
}

/// What switches the parts off, or would, as last read.
#[derive(Debug, Default)]
struct Company {
    read_at: Option<BootTime>,
    zram_doers: Option<String>,
    killing_doers: Option<String>,
    zram_obstacle: Option<String>,
}

#[derive(Debug, Default)]
struct Restraint {
    is_watched: bool,
    seen: Vec<GroupSample>,
    at: BootTime,
    limited: BTreeSet<Target>,
}

impl MemoryPolicy {
    /// Releases what it holds where `config` differs from the present configuration.
    pub(super) fn let_go_of_other(&mut self, config: &MemoryConfig, decisions: &mut Vec<Decision>) {
        if config.zram != self.config.zram {
            self.plan.release(CHANGED, decisions);
        }
        if *config != self.config {
            self.killer = None;
            self.is_killer_due = false;
            decisions.extend(self.limit.take().map(release));
        }
    }

    /// Applies `config` to a device that `facts` describe and `offered` sums up.
    pub(super) fn take_device(
        &mut self,
        now: BootTime,
        config: MemoryConfig,
        (facts, offered): (&MemoryDevice, Support),
        decisions: &mut Vec<Decision>,
    ) {
        self.offered = offered;
        // The killer writes back from the zram device that existed when it was started.
        self.is_killer_due |= config != self.config && config.killer.enabled.is_on();
        self.config = config;
        let zram_obstacle = parts::obstacle(facts, &self.config.zram);
        self.company = Company { zram_obstacle, ..Company::default() };
        if self.config.zram.enabled.is_on() && self.plan.is_idle() {
            let plan = MemoryPlan::wished(facts, &self.config.zram);
            match changes(&plan) {
                Ok(changes) => self.plan.begin(changes),
                Err(reason) => tracing::warn!("{NAME}: {reason}"),
            }
        }
        self.go_on(decisions);
        self.describe(now);
    }

    /// True when the reported state needs a fresh list of other managers. They affect only the report: a part that is `"auto"`
    /// stays off without them as well.
    pub(super) fn wants_company(&self, now: BootTime) -> bool {
        let is_fresh = |read_at: BootTime| now.since(read_at) < COMPANY_LASTS;
        let is_auto = [self.config.zram.enabled, self.config.killer.enabled].contains(&Enabled::Auto);
        is_auto && !self.company.read_at.is_some_and(is_fresh)
    }

    /// Takes the other managers that were found.
    pub(super) fn take_company(&mut self, now: BootTime, found: &[Found]) {
        self.company.read_at = Some(now);
        self.company.zram_doers = Job::Zram.doers(found);
        self.company.killing_doers = Job::Killing.doers(found);
        self.describe_parts();
    }

    /// For how long a background group that grows is limited; `None` where none ever is.
    pub(super) fn restrains_for(&self) -> Option<Duration> {
        (self.config.restraint_s > 0).then(|| Duration::from_secs(self.config.restraint_s))
    }

    /// Requests the next change of the plan, and after the last one what the killer needs.
    fn go_on(&mut self, decisions: &mut Vec<Decision>) {
        if self.plan.go_on(decisions) && std::mem::take(&mut self.is_killer_due) {
            match self.config.killer.writeback.daily_kib {
                0 => self.want_killer(),
                _ => self.questions.push(Question::WritebackLimit),
            }
        }
    }

    fn want_killer(&mut self) {
        let settings = serde_json::to_string(&self.config.killer).unwrap_or_default();
        let mut arguments = vec!["--settings".to_owned(), settings];
        arguments.extend(self.limit.is_some().then(|| "--limits".to_owned()));
        let names_backing = !self.config.zram.backing_device.is_empty();
        arguments.extend(names_backing.then(|| "--names-backing".to_owned()));
        self.edition += 1;
        self.killer = Some(Child { edition: self.edition, subcommand: KILLER, arguments });
    }

    /// Has the kernel enforce the write-back budget, unless another program has set a limit: `switch` is `None` then.
    fn hold_limit(&mut self, switch: Option<&Target>, decisions: &mut Vec<Decision>) {
        match switch {
            Some(target) => {
                let action = Action::Lease { target: target.clone(), value: "1".to_owned(), until: BootTime::FOR_EVER };
                let reason = "the kernel enforces the write-back budget".to_owned();
                self.limit = Some(target.clone());
                decisions.push(Decision { action, reason });
            }
            None => self.want_killer(),
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
                self.want_killer();
            }
            return;
        }
        match held {
            Some(_) => drop(self.restraint.limited.insert(target.clone())),
            None => drop(self.restraint.limited.remove(target)),
        }
    }

    /// Tasks stall on memory: limits background groups that have grown since the previous sample.
    fn hold_groups_back(&mut self, now: BootTime, groups: &[GroupSample], decisions: &mut Vec<Decision>) {
        let before = std::mem::replace(&mut self.restraint.seen, groups.to_vec());
        let since = now.since(std::mem::replace(&mut self.restraint.at, now));
        let until = now + Duration::from_secs(self.config.restraint_s);
        let mut restraints = restrain(&before, groups, since, until);
        restraints.retain(|decision| match &decision.action {
            Action::Lease { target, .. } => !self.restraint.limited.contains(target),
            _ => true,
        });
        decisions.append(&mut restraints);
    }

    fn fetches_back(&self) -> bool {
        self.killer.is_some() && self.config.killer.prefetch
    }

    /// Updates which parts are on.
    fn describe_parts(&mut self) {
        let Company { zram_doers, killing_doers, zram_obstacle, .. } = &self.company;
        let state = ZramState {
            doers: zram_doers.as_deref(),
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
            parts::killer(&self.config.killer, killing_doers.as_deref(), killer),
        ];
    }

    /// Updates the reported state.
    fn describe(&mut self, now: BootTime) {
        self.describe_parts();
        let mut work = Vec::new();
        if !self.plan.held().is_empty() {
            let held: Vec<String> =
                self.plan.held().iter().map(|change| format!("{} is {}", change.target, change.value)).collect();
            work.push(held.join(", "));
        }
        work.extend(
            self.plan
                .stuck()
                .iter()
                .map(|Change { target, value, .. }| format!("{target} is still {value}: restore failed; will retry")),
        );
        work.extend(self.killer_pid.map(|pid| format!("the killer is process {pid}")));
        if self.restraint.is_watched {
            work.push("background groups that grow while foreground groups wait for memory are held back".to_owned());
        }
        self.since = self.since.filter(|_| !work.is_empty()).or((!work.is_empty()).then_some(now));
        self.support = match work.is_empty() {
            true => self.offered.clone(),
            false => Support { state: SupportState::Active, reason: work.join("; "), advice: String::new() },
        };
    }
}

fn release(target: Target) -> Decision {
    Decision { action: Action::Release { target }, reason: CHANGED.to_owned() }
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
            Event::Foreground { processes } if self.fetches_back() => {
                let line = |process: &Process| format!("{FRONT}{}", process.pid);
                self.lines.extend(processes.iter().map(line));
            }
            Event::MemoryStall => self.questions.push(Question::MemoryGroups),
            Event::StallsWatched { is_on } => self.restraint.is_watched = *is_on,
            Event::Child { pid } => self.killer_pid = *pid,
            Event::Facts(Facts::MemoryGroups { groups }) => return self.hold_groups_back(now, groups, decisions),
            Event::Facts(Facts::WritebackLimit { switch }) => self.hold_limit(switch.as_ref(), decisions),
            _ => return,
        }
        self.describe(now);
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        outcomes.iter().for_each(|outcome| self.take_outcome(outcome, decisions));
        self.go_on(decisions);
        self.describe(now);
    }

    fn stop(&mut self, _decisions: &mut Vec<Decision>) {
        self.killer = None;
    }

    fn interest(&self) -> Interest {
        let stall = (self.config.restraint_s > 0).then_some(STALL);
        Interest { foreground: self.fetches_back(), stall, ..Interest::default() }
    }

    fn deadline(&self) -> Option<BootTime> {
        None
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        self.since.map(|since| (since, "memory is managed".to_owned()))
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    fn child(&self) -> Option<&Child> {
        self.killer.as_ref()
    }

    fn take_lines(&mut self, lines: &mut Vec<String>) {
        lines.append(&mut self.lines);
    }
}

#[cfg(test)]
mod tests;
