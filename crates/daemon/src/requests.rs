//! Answers to the clients of the control socket.

use serde_json::{Value, json};

use super::Engine;
use super::control::protocol::{self, Request};
use super::sensor::processes::fetch_facts;
use super::status::{Activity, HeldLease, MechanismStatus, Status};
use brisk_mechanism::{Event, Policy, Process, ProcessFacts, Support};
use brisk_sys::BootTime;

impl Engine {
    /// Client `number` became ready: reads its input, and answers at most one request.
    pub(super) fn serve(&mut self, number: u32, now: BootTime) {
        if let Some(control) = &mut self.control {
            control.flush_and_rearm(number, now, &self.poller);
            control.read(number, now, &self.poller);
        }
        // One per turn: its other requests wait until pending events have been handled.
        if let Some(request) = self.control.as_mut().and_then(|control| control.next_request(number, now)) {
            let line = match request.and_then(|request| self.answer(number, now, request)) {
                Ok(result) => protocol::answer(&result),
                Err(error) => protocol::refusal(&error),
            };
            self.metrics.requests += 1;
            if let Some(control) = &mut self.control {
                control.answer(number, &line, now);
            }
        }
        if let Some(control) = &mut self.control {
            control.flush_and_rearm(number, now, &self.poller);
            let watched = control.is_watched();
            self.mechanisms.set_watched(watched);
        }
        self.update_subscriptions(now);
    }

    fn answer(&mut self, number: u32, now: BootTime, request: Request) -> Result<Value, String> {
        if matches!(request, Request::Status | Request::Metrics) {
            self.mechanisms.refresh(now, &self.options.root);
        }
        match request {
            Request::Status => serde_json::to_value(self.status(now)).map_err(|error| error.to_string()),
            Request::Metrics => self.status(now).open_metrics().map(Value::from).map_err(|error| error.to_string()),
            Request::Launch { application, pid } => {
                let process = pid.map(|pid| self.announced_process(pid));
                self.with_real_time_priority(|engine| {
                    engine.dispatch(now, &Event::LaunchAnnounced { process, application })
                });
                self.sample_new_foreground(now);
                Ok(json!({ "support": self.launch_support() }))
            }
            Request::LaunchFinished { application } => {
                self.with_real_time_priority(|engine| engine.dispatch(now, &Event::LaunchFinished { application }));
                Ok(Value::Null)
            }
            Request::Foreground { pids } => {
                self.with_real_time_priority(|engine| engine.dispatch_foreground(now, pids));
                Ok(Value::Null)
            }
            Request::Placement => {
                let mechanism = self.mechanisms.all().find(|mechanism| mechanism.name() == "placement");
                mechanism.and_then(Policy::details).ok_or_else(|| "placement has no data".to_owned())
            }
            Request::Reload => {
                self.reload(now);
                match &self.config_error {
                    None => Ok(json!({ "configuration": self.layers.files })),
                    Some(error) => Err(format!("the configuration stays as it was: {error}")),
                }
            }
            Request::Watch => {
                if let Some(control) = &mut self.control {
                    control.watch(number);
                }
                Ok(json!({ "support": self.launch_support() }))
            }
        }
    }

    pub(super) fn announced_process(&self, pid: u32) -> Process {
        let mut process = Process { pid, ..Process::default() };
        fetch_facts(&self.options.root, &mut process, ProcessFacts { stat: true, ..ProcessFacts::default() });
        process
    }

    /// The support for launches on this device; `None` when no mechanism boosts them.
    pub fn launch_support(&self) -> Option<&Support> {
        self.mechanisms.launch_boost().map(|help| help.support)
    }

    /// The daemon's status at `now`.
    pub fn status(&self, now: BootTime) -> Status {
        let driven = self.mechanisms.all().map(|mechanism| MechanismStatus {
            name: mechanism.name().to_owned(),
            support: mechanism.support().clone(),
            parts: mechanism.parts().to_vec(),
            activity: mechanism.activity().map(|(since, text)| Activity { since, text }),
        });
        let mut metrics = self.metrics.clone();
        metrics.refused_clients = self.control.as_ref().map_or(0, |control| control.refused);
        Status {
            brisk: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            since: self.since,
            now,
            configuration: self.layers.files.clone(),
            configuration_error: self.config_error.clone(),
            dry_run: self.executor.is_dry_run(),
            sensors: self.subscriptions.describe(&self.scheduling),
            guardian_pid: self.guarding.pid(),
            telemetry: self.telemetry.status(),
            mechanisms: driven.collect(),
            leases: self.executor.leases().iter().map(HeldLease::of).collect(),
            decisions: self.executor.history().cloned().collect(),
            metrics,
        }
    }
}
