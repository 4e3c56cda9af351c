//! The life of a launch: its start, further triggers, the boost, and its end.

use std::time::Duration;

use super::{LaunchPolicy, MAXIMUM_LAUNCHES};
use crate::launch::boost::{Boost, BoostRequest};
use crate::launch::config::Trigger;
use crate::launch::notification::{EndReason, LaunchNotification};
use crate::launch::running::{Launch, UNNAMED};
use crate::{Decision, Observation, Process, Target};
use brisk_sys::BootTime;

impl LaunchPolicy {
    /// Starts a launch, or takes a further trigger of a running one.
    pub(super) fn begin(
        &mut self,
        now: BootTime,
        trigger: Trigger,
        application: Option<&str>,
        process: Option<&Process>,
        decisions: &mut Vec<Decision>,
    ) {
        if !self.is_detecting() {
            return;
        }
        let known = self.launches.iter().position(|launch| process.is_some_and(|process| launch.is(process.pid)));
        let known = known.or_else(|| self.attach_process(trigger, application, process));
        if known.is_some() && trigger == Trigger::Foreground && !self.clamps() {
            // It was helped when it was announced.
            return;
        }
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
                // What was refused for earlier launches may work now. A process's clamp belongs to one launch.
                self.leases.forget_refusals(|target| !matches!(target, Target::UtilizationClampMinimum { .. }));
                let (deadline, learned) = self.deadline_of(now, application);
                let identity = process.map(|process| (process.pid, process.start_time_ticks));
                self.pids.extend(identity.map(|(pid, _)| pid));
                let application = application.to_owned();
                self.launches.push(Launch { application, process: identity, trigger, began: now, deadline, learned });
                self.launches.len() - 1
            }
        };
        self.low_load_periods = 0;
        let launch = &self.launches[index];
        let pid = launch.process.map(|(pid, _)| pid);
        let application = launch.application.clone();
        let began = LaunchNotification::Began { at: now, application, pid, trigger, first: known.is_none() };
        let reason = launch.reason(trigger);
        self.record(&began);
        self.boost(now, &reason, decisions);
    }

    /// Finds a launch that was announced before `process` existed: `process` is now announced too, or comes to the foreground.
    fn attach_process(
        &mut self,
        trigger: Trigger,
        application: Option<&str>,
        process: Option<&Process>,
    ) -> Option<usize> {
        let process = process?;
        let is_same_launch = |launch: &Launch| match trigger {
            Trigger::Announced => launch.process.is_none() && application == Some(&launch.application),
            Trigger::Foreground => launch.awaits(application),
            _ => false,
        };
        let index = self.launches.iter().position(is_same_launch)?;
        self.launches[index].process = Some((process.pid, process.start_time_ticks));
        self.pids.push(process.pid);
        Some(index)
    }

    /// A forked process has its parent's name until it executes its own program or names itself.
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

    /// Takes the names of processes in the foreground whose launch may have their parent's name. Android's zygote moves its fork
    /// to the foreground before it gives it a name; ActivityManager moves it again when the application runs.
    pub(super) fn take_names(&mut self, now: BootTime, processes: &[Process], decisions: &mut Vec<Decision>) {
        for process in processes {
            let Some(name) = process.command.as_deref() else { continue };
            let has_another_name = |launch: &Launch| {
                launch.is(process.pid) && launch.may_have_parents_name() && launch.application != name
            };
            let Some(index) = self.launches.iter().position(has_another_name) else { continue };
            if let Some(announced) = self.launches.iter().position(|launch| launch.awaits(Some(name))) {
                // It is the launch that was announced by this name.
                self.launches[announced].process = self.launches[index].process;
                self.launches.swap_remove(index);
                continue;
            }
            let Launch { trigger, deadline, .. } = self.launches[index];
            self.rename(index, name, trigger);
            let application = name.to_owned();
            let pid = Some(process.pid);
            let trigger = Trigger::Foreground;
            self.record(&LaunchNotification::Began { at: now, application, pid, trigger, first: false });
            // The leases were requested until the deadline of the other name.
            let launch = &self.launches[index];
            if launch.deadline > deadline {
                let reason = launch.reason(trigger);
                self.boost(now, &reason, decisions);
            }
        }
    }

    fn deadline_of(&self, began: BootTime, application: &str) -> (BootTime, bool) {
        let longest = Duration::from_millis(self.config.end.deadline_ms);
        // A limit bounds what is done until the end. Where nothing is, telemetry waits for the end of long launches as well:
        // those that were cut off have no length, and builds are compared by lengths.
        let is_limited = self.config.end.learn && (self.acts_until_end() || !self.observations.is_on());
        let learned = if is_limited { self.durations.limit(application) } else { None };
        match learned.map(|limit| limit.max(self.minimum())) {
            Some(limit) if limit < longest => (began + limit, true),
            _ => (began + longest, false),
        }
    }

    /// Applies the plan to a launch that was detected now.
    pub(super) fn boost(&mut self, now: BootTime, reason: &str, decisions: &mut Vec<Decision>) {
        if self.plan.choices.is_empty() {
            return;
        }
        let boost = self.boost.get_or_insert_with(|| Boost::new(now));
        let until = self.launches.iter().map(|launch| launch.deadline).max().unwrap_or(now);
        let clamps = self.launches.iter().filter_map(|launch| Some((launch.clamp()?, launch.deadline))).collect();
        let wanted = BoostRequest { until, clamps, reason };
        boost.apply(now, &wanted, (&self.plan, &self.config.kick), &mut self.leases, decisions);
    }

    /// Ends the launches that `is_over`.
    pub(super) fn end_where(&mut self, now: BootTime, reason: EndReason, mut is_over: impl FnMut(&Launch) -> bool) {
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
            if reason != EndReason::Exited {
                self.recent_launches.record(now, &launch, Duration::from_millis(self.config.end.deadline_ms));
            }
            let mut duration = now.since(launch.began);
            if reason == EndReason::LoadFell {
                // It was over when the load fell.
                let quiet = self.config.end.load_period_ms * self.low_load_periods;
                duration = duration.saturating_sub(Duration::from_millis(quiet)).max(Duration::from_millis(1));
            }
            self.observe_end(&launch, duration, reason);
            if launch.application != UNNAMED && self.config.end.learn && self.tracks_end() {
                let is_censored = reason == EndReason::Deadline && launch.learned;
                self.durations.learn(&launch.application, duration, is_censored);
            }
            let (application, pid) = (launch.application, launch.process.map(|(pid, _)| pid));
            self.record(&LaunchNotification::Ended { at: now, application, pid, duration, reason });
        }
    }

    /// A program that exits during its launch was a command, and a launch that was cut off has no length.
    fn observe_end(&mut self, launch: &Launch, duration: Duration, reason: EndReason) {
        if launch.application == UNNAMED || reason == EndReason::Exited {
            return;
        }
        let boosted = self.boost.as_ref().is_some_and(Boost::has_taken_effect);
        let length = (reason != EndReason::Deadline).then_some(duration);
        let loss = &self.plan.loss;
        self.observations.note(|| Observation::Launch {
            application: launch.application.clone(),
            length_ms: length.map(|length| u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
            loss_ms: length.and_then(|length| loss.of(length, boosted)),
            boosted,
            governor: loss.governor.clone(),
        });
    }

    /// Releases the leases that no launch needs any more.
    pub(super) fn release_unneeded(&mut self, decisions: &mut Vec<Decision>) {
        if self.launches.is_empty() {
            self.release(decisions, "the launch is over");
            return;
        }
        let clamps: Vec<Target> = self.launches.iter().filter_map(Launch::clamp).collect();
        let is_over =
            |target: &Target| matches!(target, Target::UtilizationClampMinimum { .. }) && !clamps.contains(target);
        self.leases.release_where("the launch is over", decisions, is_over);
    }

    pub(super) fn release(&mut self, decisions: &mut Vec<Decision>, reason: &str) {
        self.boost = None;
        self.leases.release_where(reason, decisions, |_| true);
    }
}
