//! Decides whether an event is a launch, what is done for it, and when it is over: pure, from events and the time.
//!
//! Overlapping launches share one boost: the first starts it, each further one repeats its kick and extends its leases, and
//! the end of the last one ends it. Every lasting change is requested with a deadline.

mod lifecycle;

use std::time::Duration;

use super::NAME;
use super::actuator::{Actuator, LaunchPlan};
use super::boost::Boost;
use super::config::{LaunchConfig, Trigger};
use super::learned::{self, LearnedDurations};
use super::limiter::RateLimiter;
use super::notification::{EndReason, LaunchNotification};
use super::probe::LaunchDevice;
use super::running::{Launch, RecentLaunches};
use super::triggers;
use crate::deference::{Deference, DeferenceChange};
use crate::{
    Decision, Enabled, Event, Facts, Interest, Job, LaunchBoost, LeaseSet, Notification, Observation, Observations,
    Outcome, Policy, Process, ProcessEvent, ProcessEventKind, ProcessEventKinds, ProcessFacts, Question, SavedState,
    Support, SupportState, Target,
};
use brisk_sys::BootTime;
use brisk_sys::system::other_managers::FoundManager;

/// The most launches that are followed at once; further launches are ignored until one of them has ended.
const MAXIMUM_LAUNCHES: usize = 64;
/// An exec within this time after a fork is the same launch: the governor has just been kicked for it.
const FORK_EXEC_WINDOW: Duration = Duration::from_millis(20);
/// Why everything is released before a probe.
const CHANGED: &str = "the device or the configuration changed";

/// The launch mechanism's state and its decisions.
#[derive(Debug)]
pub struct LaunchPolicy {
    config: LaunchConfig,
    plan: LaunchPlan,
    cpu_count: u32,
    durations: LearnedDurations,
    launches: Vec<Launch>,
    /// The processes of `launches`.
    pids: Vec<u32>,
    boost: Option<Boost>,
    leases: LeaseSet,
    limiter: RateLimiter,
    in_foreground: Vec<u32>,
    recent_launches: RecentLaunches,
    low_load_periods: u64,
    watched: bool,
    notifications: Vec<Notification>,
    /// The last probe of the device.
    facts: LaunchDevice,
    deference: Deference,
    questions: Vec<Question>,
    probe_requested: bool,
    observations: Observations,
}

impl Default for LaunchPolicy {
    fn default() -> Self {
        Self::new(LaunchConfig::default(), LaunchPlan::default(), 1, LearnedDurations::default())
    }
}

impl LaunchPolicy {
    /// A policy for a device with `cpu_count` CPUs online and the actuators of `plan`.
    pub fn new(config: LaunchConfig, plan: LaunchPlan, cpu_count: u32, durations: LearnedDurations) -> Self {
        Self {
            limiter: RateLimiter::new(config.maximum_launches_per_minute, config.burst_launches),
            config,
            plan,
            cpu_count: cpu_count.max(1),
            durations,
            launches: Vec::new(),
            pids: Vec::new(),
            boost: None,
            leases: LeaseSet::default(),
            in_foreground: Vec::new(),
            recent_launches: RecentLaunches::default(),
            low_load_periods: 0,
            watched: false,
            notifications: Vec::new(),
            facts: LaunchDevice::default(),
            deference: Deference::new(Job::Frequency),
            questions: Vec::new(),
            probe_requested: false,
            observations: Observations::default(),
        }
    }

    /// Continues with `config` and the probed `facts`, beside the managers `found`; `None` where managers are ignored.
    pub(super) fn take_device(
        &mut self,
        now: BootTime,
        (config, is_new_configuration): (LaunchConfig, bool),
        (facts, found): (LaunchDevice, Option<&[FoundManager]>),
        decisions: &mut Vec<Decision>,
    ) {
        let intervals = found.map(|found| (config.other_managers.intervals(), found));
        let managers = self.deference.reconfigure(now, intervals, is_new_configuration);
        self.facts = LaunchDevice { managers, ..facts };
        let plan = LaunchPlan::of(&self.facts, &config);
        self.replace(now, config, plan, self.facts.cpu_count, decisions);
    }

    /// Observes launches for telemetry from now on, or no longer. Even while nothing is done for them they are noticed then.
    pub(super) fn observe(&mut self, is_observed: bool) {
        self.observations.switch(is_observed);
    }

    /// Releases all leases before the device is probed.
    pub(super) fn release_for_probe(&mut self, decisions: &mut Vec<Decision>) {
        self.release(decisions, CHANGED);
    }

    /// Takes a new configuration or plan, because the user or the device changed something. Launches whose end is tracked
    /// continue with the new plan.
    pub fn replace(
        &mut self,
        now: BootTime,
        config: LaunchConfig,
        plan: LaunchPlan,
        cpu_count: u32,
        decisions: &mut Vec<Decision>,
    ) {
        self.release(decisions, CHANGED);
        self.leases.forget_refusals(|_| true);
        // A launch whose end is not tracked has had its kick, and may have ended long ago.
        let keeps_launches = self.tracks_end();
        if (config.maximum_launches_per_minute, config.burst_launches)
            != (self.config.maximum_launches_per_minute, self.config.burst_launches)
        {
            self.limiter = RateLimiter::new(config.maximum_launches_per_minute, config.burst_launches);
        }
        self.config = config;
        self.plan = plan;
        self.cpu_count = cpu_count.max(1);
        if !keeps_launches || !self.is_detecting() {
            self.forget_launches();
        }
        if !self.launches.is_empty() {
            self.boost(now, "the device or the configuration changed", decisions);
        }
    }

    fn forget_launches(&mut self) {
        self.launches.clear();
        self.pids.clear();
    }

    /// Takes which other managers run now: launches are left to one that sets frequencies.
    fn on_managers(&mut self, now: BootTime, found: &[FoundManager], decisions: &mut Vec<Decision>) {
        let change = self.deference.answer(now, found);
        if change == Some(DeferenceChange::TakenOver) {
            // The manager may have changed what the device offers.
            self.probe_requested = true;
            return;
        }
        self.facts.managers = self.deference.managers();
        self.plan = LaunchPlan::of(&self.facts, &self.config);
        if change == Some(DeferenceChange::Deferred) {
            tracing::info!("{NAME}: {}", self.plan.support.reason);
            self.release(decisions, &self.deference.reason());
            if !self.is_detecting() {
                self.forget_launches();
            }
        }
    }

    fn record(&mut self, notice: &LaunchNotification) {
        let is_new_launch = matches!(notice, LaunchNotification::Began { first: true, .. });
        let text = self.watched.then(|| serde_json::to_value(notice).unwrap_or_default());
        self.notifications.push(Notification { is_new_launch, text });
    }

    fn is_detecting(&self) -> bool {
        self.plan.support.state == SupportState::Active
            || (self.watched && self.config.enabled != Enabled::Off)
            || self.observations.is_on()
    }

    /// A kick changes no value, so the end of its launch does not matter: sampling the load would cost more energy than the
    /// kick itself.
    fn tracks_end(&self) -> bool {
        self.watched || self.observations.is_on() || self.acts_until_end()
    }

    /// The plan changes values, or repeats pulses, until a launch is over.
    fn acts_until_end(&self) -> bool {
        self.plan.choices.iter().any(|choice| !matches!(choice.actuator, Actuator::Kick { .. }))
    }

    /// The plan clamps single processes.
    fn clamps(&self) -> bool {
        self.plan.choices.iter().any(|choice| matches!(choice.actuator, Actuator::Clamp { .. }))
    }

    fn triggers_on(&self, trigger: Trigger) -> bool {
        self.config.triggers.contains(&trigger)
    }

    fn on_process(&mut self, now: BootTime, event: &ProcessEvent, decisions: &mut Vec<Decision>) {
        let process = &event.process;
        let trigger = match event.kind {
            ProcessEventKind::Exit => return self.end_where(now, EndReason::Exited, |launch| launch.is(process.pid)),
            ProcessEventKind::Fork => Trigger::Fork,
            ProcessEventKind::Exec => Trigger::Exec,
            ProcessEventKind::Comm => Trigger::Comm,
            ProcessEventKind::Uid => Trigger::Uid,
        };
        self.deference.on_process_start(now, process.command.as_deref().filter(|_| trigger != Trigger::Fork));
        if !self.triggers_on(trigger) || !self.config.filter.passes(process) {
            return;
        }
        self.begin(now, trigger, process.command.as_deref(), Some(process), decisions);
    }

    fn on_foreground(&mut self, now: BootTime, processes: &[Process], decisions: &mut Vec<Decision>) {
        self.take_names(now, processes, decisions);
        if self.config.end.foreground {
            let minimum = self.minimum();
            self.end_where(now, EndReason::Foreground, |launch| {
                launch.trigger != Trigger::Foreground
                    && now.since(launch.began) >= minimum
                    && processes.iter().any(|process| launch.is(process.pid))
            });
        }
        let resumed = |process: &&Process| {
            !self.in_foreground.contains(&process.pid)
                && !self.launches.iter().any(|launch| launch.is(process.pid))
                && !self.recent_launches.has(now, process)
                && self.config.filter.passes(process)
        };
        if self.triggers_on(Trigger::Foreground) {
            for process in processes.iter().filter(resumed).collect::<Vec<_>>() {
                self.begin(now, Trigger::Foreground, process.command.as_deref(), Some(process), decisions);
            }
        }
        // Android's zygote changes its fork's user and name after it has moved it here: it may pass the filter later.
        let passing = processes.iter().filter(|process| self.config.filter.passes(process));
        self.in_foreground = passing.map(|process| process.pid).collect();
    }

    fn on_load(&mut self, now: BootTime, busy_permille: u16) {
        let threshold_percent = self.config.end.load_below_cpu_percent;
        let busy_percent = u64::from(busy_permille) * u64::from(self.cpu_count) / 10;
        if busy_percent >= threshold_percent {
            self.low_load_periods = 0;
            return;
        }
        self.low_load_periods += 1;
        if self.low_load_periods >= self.config.end.load_periods {
            let minimum = self.minimum();
            self.end_where(now, EndReason::LoadFell, |launch| now.since(launch.began) >= minimum);
        }
    }

    fn minimum(&self) -> Duration {
        Duration::from_millis(self.config.end.minimum_ms)
    }
}

impl Policy for LaunchPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn support(&self) -> &Support {
        &self.plan.support
    }

    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        self.forget_launches();
        self.release(decisions, "the daemon stops");
    }

    fn on_event(&mut self, now: BootTime, event: &Event, decisions: &mut Vec<Decision>) {
        self.limiter.recover(now);
        self.end_where(now, EndReason::Deadline, |launch| launch.deadline <= now);
        match event {
            Event::Process(event) => self.on_process(now, event, decisions),
            Event::Foreground { processes } => self.on_foreground(now, processes, decisions),
            Event::LaunchAnnounced { process, application } if self.triggers_on(Trigger::Announced) => {
                self.begin(now, Trigger::Announced, Some(application), process.as_ref(), decisions);
            }
            Event::LaunchFinished { application } => {
                self.end_where(now, EndReason::Finished, |launch| launch.application == *application);
            }
            Event::Load { busy_permille } => self.on_load(now, *busy_permille),
            // The foreground may have changed: the next foreground processes count as new. Launches keep their deadlines.
            Event::ProcessEventsLost => {
                self.in_foreground.clear();
                self.deference.on_process_start(now, None);
            }
            Event::Facts(Facts::OtherManagers { found }) => self.on_managers(now, found, decisions),
            _ => {}
        }
        if self.deference.take_due(now) {
            self.questions.push(Question::OtherManagers);
        }
        self.release_unneeded(decisions);
        if let Some(boost) = &mut self.boost {
            boost.on_due(now, &self.plan, &self.config.kick, decisions);
        }
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {
        for outcome in outcomes {
            self.leases.take(now, outcome);
            self.boost.iter_mut().for_each(|boost| boost.take(outcome));
        }
    }

    fn interest(&self) -> Interest {
        if !self.is_detecting() {
            return Interest::default();
        }
        let fork_facts = triggers::facts_of_forks(&self.config.filter, self.clamps());
        let kinds = match self.limiter.muted_until() {
            Some(_) => ProcessEventKinds::default(),
            None => triggers::kinds(&self.config.triggers),
        };
        let samples_load = !self.launches.is_empty() && self.tracks_end() && self.config.end.load_below_cpu_percent > 0;
        Interest {
            kinds,
            fork_facts,
            facts: ProcessFacts { stat: true, ..fork_facts },
            foreground: self.triggers_on(Trigger::Foreground) || self.config.end.foreground,
            session: false,
            stall: None,
            load_period: samples_load.then(|| Duration::from_millis(self.config.end.load_period_ms)),
            sampling_period: None,
            samples_new_foreground: false,
        }
    }

    fn ignores(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        kind == ProcessEventKind::Exec
            && !self.tracks_end()
            && self.launches.iter().any(|launch| launch.is(pid) && now.since(launch.began) < FORK_EXEC_WINDOW)
    }

    fn awaited_exits(&self) -> &[u32] {
        if self.tracks_end() { &self.pids } else { &[] }
    }

    fn set_initial_foreground(&mut self, pids: &[u32]) {
        self.in_foreground = pids.to_vec();
    }

    fn take_questions(&mut self, questions: &mut Vec<Question>) {
        questions.append(&mut self.questions);
    }

    fn take_probe_request(&mut self) -> bool {
        std::mem::take(&mut self.probe_requested)
    }

    fn append_tunables(&self, tunables: &mut Vec<Target>) {
        tunables.extend(self.plan.tunables().into_iter().cloned());
    }

    fn launch_boost(&self) -> Option<LaunchBoost<'_>> {
        Some(LaunchBoost { support: &self.plan.support, is_active: self.activity().is_some() })
    }

    fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    fn take_notifications(&mut self, notifications: &mut Vec<Notification>) {
        notifications.append(&mut self.notifications);
    }

    fn take_observations(&mut self, observations: &mut Vec<Observation>) {
        self.observations.take(observations);
    }

    fn saved_state(&self) -> Option<SavedState> {
        Some(SavedState { file: learned::FILE, text: self.durations.to_text() })
    }

    fn load_state(&mut self, text: &str) -> bool {
        let durations = LearnedDurations::parse(text);
        let is_whole = durations.is_some();
        self.durations = durations.unwrap_or_default();
        is_whole
    }

    fn deadline(&self) -> Option<BootTime> {
        let launches = self.launches.iter().map(|launch| launch.deadline).min();
        let boost = self.boost.as_ref().and_then(Boost::next_due);
        [launches, boost, self.limiter.muted_until(), self.deference.deadline()].into_iter().flatten().min()
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        let since = self.boost.as_ref().map(Boost::began).or(self.launches.iter().map(|launch| launch.began).min())?;
        let names: Vec<_> = self
            .launches
            .iter()
            .map(|launch| format!("{} (noticed by {})", launch.application, launch.trigger))
            .collect();
        let verb = if self.boost.is_some() { "boosting" } else { "watching" };
        let refusal = self.boost.as_ref().and_then(Boost::refusal);
        let refusal = refusal.map(|error| format!(", without effect: {error}")).unwrap_or_default();
        Some((since, format!("{verb} the launch of {}{refusal}", names.join(" and "))))
    }
}

#[cfg(test)]
mod tests;
