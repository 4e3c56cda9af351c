//! Is this a launch, what is done about it, and when is it over: pure decisions from events and the time.
//!
//! Launches that overlap share one boost: the first begins it, each further one repeats its kick and extends its
//! leases, and the end of the last one ends it. Everything that lasts is asked for with a deadline.

use std::time::Duration;

use super::NAME;
use super::actuator::{Actuator, Plan};
use super::boost::{Boost, Wanted};
use super::config::{LaunchConfig, Trigger};
use super::learned::{self, LearnedDurations};
use super::limiter::RateLimiter;
use super::notice::{EndReason, Notice};
use super::triggers;
use crate::device::BootTime;
use crate::mechanism::{
    Decision, Enabled, Event, Holdings, Interest, Kept, LaunchHelp, Mechanism, News, Outcome, Process, ProcessEvent,
    ProcessEventKind, ProcessEventKinds, ProcessFacts, Support, SupportState, Surroundings, Target,
};

/// So many launches are followed at once; more are not noticed until one of them has ended.
const MAXIMUM_LAUNCHES: usize = 64;
/// The exec that follows a fork within this time is the same start: the governor has just been kicked for it.
const SAME_START: Duration = Duration::from_millis(20);
/// Why everything is released before a probe.
const CHANGED: &str = "the device or the configuration changed";
/// Name of a launch whose process was gone before it could be looked at.
const UNNAMED: &str = "?";

/// The launch mechanism's state and its decisions.
#[derive(Debug)]
pub struct LaunchPolicy {
    config: LaunchConfig,
    plan: Plan,
    cpu_count: u32,
    durations: LearnedDurations,
    launches: Vec<Launch>,
    /// The processes of `launches`.
    pids: Vec<u32>,
    boost: Option<Boost>,
    leases: Holdings,
    limiter: RateLimiter,
    in_front: Vec<u32>,
    quiet_periods: u64,
    watched: bool,
    news: Vec<News>,
}

/// A launch that goes on.
#[derive(Debug)]
struct Launch {
    application: String,
    process: Option<(u32, Option<u64>)>,
    trigger: Trigger,
    began: BootTime,
    deadline: BootTime,
    /// The deadline is that of the learned duration.
    learned: bool,
}

impl Default for LaunchPolicy {
    fn default() -> Self {
        Self::new(LaunchConfig::default(), Plan::default(), 1, LearnedDurations::default())
    }
}

impl LaunchPolicy {
    /// A policy for a device with `cpu_count` CPUs online and the actuators of `plan`.
    pub fn new(config: LaunchConfig, plan: Plan, cpu_count: u32, durations: LearnedDurations) -> Self {
        Self {
            limiter: RateLimiter::new(config.maximum_launches_per_minute, config.burst_launches),
            config,
            plan,
            cpu_count: cpu_count.max(1),
            durations,
            launches: Vec::new(),
            pids: Vec::new(),
            boost: None,
            leases: Holdings::default(),
            in_front: Vec::new(),
            quiet_periods: 0,
            watched: false,
            news: Vec::new(),
        }
    }

    /// Takes another configuration or another plan, because a person or the device changed something. Launches that are
    /// followed to their end go on with the new plan.
    pub fn replace(
        &mut self,
        now: BootTime,
        config: LaunchConfig,
        plan: Plan,
        cpu_count: u32,
        decisions: &mut Vec<Decision>,
    ) {
        self.release(decisions, CHANGED);
        self.leases.forget_refusals(|_| true);
        // A launch whose end does not matter has had its kick, and may have ended long ago.
        let goes_on = self.end_matters();
        if (config.maximum_launches_per_minute, config.burst_launches)
            != (self.config.maximum_launches_per_minute, self.config.burst_launches)
        {
            self.limiter = RateLimiter::new(config.maximum_launches_per_minute, config.burst_launches);
        }
        self.config = config;
        self.plan = plan;
        self.cpu_count = cpu_count.max(1);
        if !goes_on || !self.is_noticing() {
            self.launches.clear();
            self.pids.clear();
        }
        if !self.launches.is_empty() {
            self.boost(now, "the device or the configuration changed", decisions);
        }
    }

    fn note(&mut self, notice: &Notice) {
        let is_new_launch = matches!(notice, Notice::Began { first: true, .. });
        let text = self.watched.then(|| serde_json::to_value(notice).unwrap_or_default());
        self.news.push(News { is_new_launch, text });
    }

    fn is_noticing(&self) -> bool {
        self.plan.support.state == SupportState::Active || (self.watched && self.config.enabled != Enabled::Off)
    }

    /// A kick leaves nothing behind, so nobody need know when its launch is over: looking at the load would cost more
    /// energy than the kick itself.
    fn end_matters(&self) -> bool {
        self.watched || self.plan.choices.iter().any(|choice| !matches!(choice.actuator, Actuator::Kick { .. }))
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
        if !self.triggers_on(trigger) || !self.config.filter.passes(process) {
            return;
        }
        self.begin(now, trigger, process.command.as_deref(), Some(process), decisions);
    }

    fn on_foreground(&mut self, now: BootTime, processes: &[Process], decisions: &mut Vec<Decision>) {
        if self.triggers_on(Trigger::Foreground) {
            for process in processes.iter().filter(|process| !self.in_front.contains(&process.pid)).collect::<Vec<_>>()
            {
                if self.config.filter.passes(process) {
                    self.begin(now, Trigger::Foreground, process.command.as_deref(), Some(process), decisions);
                }
            }
        } else if self.config.end.foreground {
            let minimum = self.minimum();
            self.end_where(now, EndReason::Foreground, |launch| {
                now.since(launch.began) >= minimum && processes.iter().any(|process| launch.is(process.pid))
            });
        }
        self.in_front = processes.iter().map(|process| process.pid).collect();
    }

    fn on_load(&mut self, now: BootTime, busy_permille: u16) {
        let threshold_percent = self.config.end.load_below_cpu_percent;
        let busy_percent = u64::from(busy_permille) * u64::from(self.cpu_count) / 10;
        if busy_percent >= threshold_percent {
            self.quiet_periods = 0;
            return;
        }
        self.quiet_periods += 1;
        if self.quiet_periods >= self.config.end.load_periods {
            let minimum = self.minimum();
            self.end_where(now, EndReason::LoadFell, |launch| now.since(launch.began) >= minimum);
        }
    }

    fn minimum(&self) -> Duration {
        Duration::from_millis(self.config.end.minimum_ms)
    }

    /// Begins a launch, or takes a further trigger of one that goes on.
    fn begin(
        &mut self,
        now: BootTime,
        trigger: Trigger,
        application: Option<&str>,
        process: Option<&Process>,
        decisions: &mut Vec<Decision>,
    ) {
        if !self.is_noticing() {
            return;
        }
        let known = self.launches.iter().position(|launch| process.is_some_and(|process| launch.is(process.pid)));
        let known = known.or_else(|| self.adopt(trigger, application, process));
        let application = application.unwrap_or(UNNAMED);
        let index = match known {
            Some(index) => {
                self.rename(index, application, trigger);
                index
            }
            None => {
                if self.launches.len() >= MAXIMUM_LAUNCHES || !self.limiter.admit(now) {
                    return;
                }
                // What was refused to the launch before may be allowed by now. A process's clamp is its own launch's.
                self.leases.forget_refusals(|target| !matches!(target, Target::UtilizationClampMinimum { .. }));
                let (deadline, learned) = self.deadline_of(now, application);
                let identity = process.map(|process| (process.pid, process.start_time_ticks));
                self.pids.extend(identity.map(|(pid, _)| pid));
                let application = application.to_owned();
                self.launches.push(Launch { application, process: identity, trigger, began: now, deadline, learned });
                self.launches.len() - 1
            }
        };
        self.quiet_periods = 0;
        let launch = &self.launches[index];
        let pid = launch.process.map(|(pid, _)| pid);
        let application = launch.application.clone();
        let began = Notice::Began { at: now, application, pid, trigger, first: known.is_none() };
        let reason = match (launch.application.as_str(), pid) {
            (UNNAMED, Some(pid)) => format!("launch of process {pid}, noticed by {trigger}"),
            (name, Some(pid)) => format!("launch of {name} (process {pid}), noticed by {trigger}"),
            (name, None) => format!("launch of {name}, noticed by {trigger}"),
        };
        self.note(&began);
        self.boost(now, &reason, decisions);
    }

    /// An application that was announced before its process existed is announced again with it.
    fn adopt(&mut self, trigger: Trigger, application: Option<&str>, process: Option<&Process>) -> Option<usize> {
        let process = process.filter(|_| trigger == Trigger::Announced)?;
        let index = self
            .launches
            .iter()
            .position(|launch| launch.process.is_none() && application == Some(&launch.application))?;
        self.launches[index].process = Some((process.pid, process.start_time_ticks));
        self.pids.push(process.pid);
        Some(index)
    }

    /// A forked process has its parent's name until it runs its own program.
    fn rename(&mut self, index: usize, application: &str, trigger: Trigger) {
        let launch = &self.launches[index];
        if application == UNNAMED || launch.application == application || launch.trigger == Trigger::Announced {
            return;
        }
        let (deadline, learned) = self.deadline_of(launch.began, application);
        let launch = &mut self.launches[index];
        (launch.deadline, launch.learned) = (deadline, learned);
        launch.application = application.to_owned();
        launch.trigger = trigger;
    }

    fn deadline_of(&self, began: BootTime, application: &str) -> (BootTime, bool) {
        let longest = Duration::from_millis(self.config.end.deadline_ms);
        let learned = if self.config.end.learn { self.durations.limit(application) } else { None };
        match learned.map(|limit| limit.max(self.minimum())) {
            Some(limit) if limit < longest => (began + limit, true),
            _ => (began + longest, false),
        }
    }

    /// Does what the plan says about a launch that was noticed now.
    fn boost(&mut self, now: BootTime, reason: &str, decisions: &mut Vec<Decision>) {
        if self.plan.choices.is_empty() {
            return;
        }
        let boost = self.boost.get_or_insert_with(|| Boost::new(now));
        let until = self.launches.iter().map(|launch| launch.deadline).max().unwrap_or(now);
        let clamps = self.launches.iter().filter_map(|launch| Some((launch.clamp()?, launch.deadline))).collect();
        let wanted = Wanted { until, clamps, reason };
        boost.help(now, &wanted, (&self.plan, &self.config.kick), &mut self.leases, decisions);
    }

    /// Ends the launches that `is_over`.
    fn end_where(&mut self, now: BootTime, reason: EndReason, mut is_over: impl FnMut(&Launch) -> bool) {
        let mut index = 0;
        while index < self.launches.len() {
            if !is_over(&self.launches[index]) {
                index += 1;
                continue;
            }
            let launch = self.launches.swap_remove(index);
            if let Some(position) = self.pids.iter().position(|&pid| launch.is(pid)) {
                self.pids.swap_remove(position);
            }
            let mut duration = now.since(launch.began);
            if reason == EndReason::LoadFell {
                // It was over when the quiet began.
                let quiet = self.config.end.load_period_ms * self.quiet_periods;
                duration = duration.saturating_sub(Duration::from_millis(quiet)).max(Duration::from_millis(1));
            }
            if launch.application != UNNAMED && self.config.end.learn && self.end_matters() {
                let cut_off = reason == EndReason::Deadline && launch.learned;
                self.durations.learn(&launch.application, duration, cut_off);
            }
            let (application, pid) = (launch.application, launch.process.map(|(pid, _)| pid));
            self.note(&Notice::Ended { at: now, application, pid, duration, reason });
        }
    }

    /// Gives back what no launch needs any more.
    fn settle(&mut self, decisions: &mut Vec<Decision>) {
        if self.launches.is_empty() {
            self.release(decisions, "the launch is over");
            return;
        }
        let clamps: Vec<Target> = self.launches.iter().filter_map(Launch::clamp).collect();
        let is_over =
            |target: &Target| matches!(target, Target::UtilizationClampMinimum { .. }) && !clamps.contains(target);
        self.leases.release_where("the launch is over", decisions, is_over);
    }

    fn release(&mut self, decisions: &mut Vec<Decision>, reason: &str) {
        self.boost = None;
        self.leases.release_where(reason, decisions, |_| true);
    }
}

impl Mechanism for LaunchPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn support(&self) -> &Support {
        &self.plan.support
    }

    fn follow(&mut self, now: BootTime, surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        let (facts, config) = triggers::on(surroundings);
        let plan = Plan::of(&facts, &config);
        self.replace(now, config, plan, facts.cpu_count, decisions);
    }

    fn let_go(&mut self, _surroundings: &Surroundings<'_>, decisions: &mut Vec<Decision>) {
        self.release(decisions, CHANGED);
    }

    fn stop(&mut self, decisions: &mut Vec<Decision>) {
        self.launches.clear();
        self.pids.clear();
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
            // The foreground may have gone: whatever comes now is new. Launches keep their deadlines.
            Event::ProcessEventsLost => self.in_front.clear(),
            Event::LaunchAnnounced { .. }
            | Event::Threads { .. }
            | Event::DeviceChanged
            | Event::Session { .. }
            | Event::Facts(_)
            | Event::MemoryStall
            | Event::StallsWatched { .. }
            | Event::Child { .. }
            | Event::Deadline => {}
        }
        self.settle(decisions);
        if let Some(boost) = &mut self.boost {
            boost.on_moment(now, &self.plan, &self.config.kick, decisions);
        }
    }

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], _decisions: &mut Vec<Decision>) {
        for outcome in outcomes {
            self.leases.take(now, outcome);
            self.boost.iter_mut().for_each(|boost| boost.take(outcome));
        }
    }

    fn interest(&self) -> Interest {
        if !self.is_noticing() {
            return Interest::default();
        }
        let filter = &self.config.filter;
        let clamps = self.plan.choices.iter().any(|choice| matches!(choice.actuator, Actuator::Clamp { .. }));
        let named = !filter.commands.is_empty() || !filter.excluded_commands.is_empty();
        let fork_facts = ProcessFacts {
            stat: clamps || named,
            parent_command: !filter.parents.is_empty(),
            uid: !filter.uids.is_empty(),
            cgroup: !filter.cgroups.is_empty(),
        };
        let kind_of = |trigger: &Trigger| match trigger {
            Trigger::Fork => Some(ProcessEventKind::Fork),
            Trigger::Exec => Some(ProcessEventKind::Exec),
            Trigger::Comm => Some(ProcessEventKind::Comm),
            Trigger::Uid => Some(ProcessEventKind::Uid),
            Trigger::Foreground | Trigger::Announced => None,
        };
        let kinds = if self.limiter.muted_until().is_some() {
            ProcessEventKinds::default()
        } else {
            self.config.triggers.iter().filter_map(kind_of).fold(ProcessEventKinds::default(), ProcessEventKinds::with)
        };
        let looks_at_load =
            !self.launches.is_empty() && self.end_matters() && self.config.end.load_below_cpu_percent > 0;
        Interest {
            kinds,
            fork_facts,
            facts: ProcessFacts { stat: true, ..fork_facts },
            foreground: self.triggers_on(Trigger::Foreground) || self.config.end.foreground,
            session: false,
            stall: None,
            load_period: looks_at_load.then(|| Duration::from_millis(self.config.end.load_period_ms)),
            look_period: None,
        }
    }

    fn ignores(&self, now: BootTime, kind: ProcessEventKind, pid: u32) -> bool {
        kind == ProcessEventKind::Exec
            && !self.end_matters()
            && self.launches.iter().any(|launch| launch.is(pid) && now.since(launch.began) < SAME_START)
    }

    fn awaited_exits(&self) -> &[u32] {
        if self.end_matters() { &self.pids } else { &[] }
    }

    fn begin_in_foreground(&mut self, pids: &[u32]) {
        self.in_front = pids.to_vec();
    }

    fn append_tunables(&self, tunables: &mut Vec<Target>) {
        tunables.extend(self.plan.tunables().into_iter().cloned());
    }

    fn launch_help(&self) -> Option<LaunchHelp<'_>> {
        Some(LaunchHelp { support: &self.plan.support, is_going_on: self.activity().is_some() })
    }

    fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    fn take_news(&mut self, news: &mut Vec<News>) {
        news.append(&mut self.news);
    }

    fn kept(&self) -> Option<Kept> {
        Some(Kept { file: learned::FILE, text: self.durations.to_text() })
    }

    fn recall(&mut self, text: &str) -> bool {
        let durations = LearnedDurations::parse(text);
        let is_whole = durations.is_some();
        self.durations = durations.unwrap_or_default();
        is_whole
    }

    fn deadline(&self) -> Option<BootTime> {
        let launches = self.launches.iter().map(|launch| launch.deadline).min();
        let boost = self.boost.as_ref().and_then(Boost::next_moment);
        [launches, boost, self.limiter.muted_until()].into_iter().flatten().min()
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
        let refusal = refusal.map(|error| format!(", in vain: {error}")).unwrap_or_default();
        Some((since, format!("{verb} the launch of {}{refusal}", names.join(" and "))))
    }
}

impl Launch {
    fn is(&self, pid: u32) -> bool {
        self.process.is_some_and(|(own, _)| own == pid)
    }

    fn clamp(&self) -> Option<Target> {
        let (pid, start_time_ticks) = self.process?;
        Some(Target::UtilizationClampMinimum { pid, start_time_ticks: start_time_ticks? })
    }
}

#[cfg(test)]
mod tests;
