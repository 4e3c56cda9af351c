//! The daemon's status: `brisk status`, as JSON and as OpenMetrics text.

pub mod metrics;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::executor::Executed;
use super::telemetry::TelemetryStatus;
use brisk_mechanism::{Part, Support, SupportState};
use brisk_report::open_metrics::{Exposition, MetricKind, MetricsError};
use brisk_sys::{BootTime, Target};
use brisk_undo::journal::Lease;
use metrics::{Histogram, Metrics};

/// The state of the daemon at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// brisk's version.
    pub brisk: String,
    /// The daemon's process.
    pub pid: u32,
    /// When it became ready.
    pub since: BootTime,
    /// When the status was requested.
    pub now: BootTime,
    /// The configuration files in force, lowest precedence first; empty with the built-in defaults.
    pub configuration: Vec<PathBuf>,
    /// Why the last reload was refused; the configuration before it stays in force.
    pub configuration_error: Option<String>,
    /// Whether decisions are only printed.
    pub dry_run: bool,
    /// The sources of events, and why others are not available.
    pub sensors: Sensors,
    /// The guardian's process, while one runs.
    pub guardian_pid: Option<u32>,
    /// What telemetry has stored; `None` while it is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telemetry: Option<TelemetryStatus>,
    pub mechanisms: Vec<MechanismStatus>,
    /// The leases held now.
    pub leases: Vec<HeldLease>,
    /// The last decisions, the oldest first.
    pub decisions: Vec<Executed>,
    /// The counters.
    pub metrics: Metrics,
}

/// A lease as shown to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLease {
    /// The leased target.
    pub target: Target,
    /// The value that is restored.
    pub original: String,
    /// The value written.
    pub value: String,
    /// The value read back right after the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<String>,
    /// When it began.
    pub since: BootTime,
    /// When it is restored; null if only by release, or when the daemon stops.
    #[serde(with = "brisk_sys::time::end")]
    pub until: BootTime,
    /// Why.
    pub reason: String,
}

impl HeldLease {
    /// The client's view of `lease`.
    pub fn of(lease: &Lease) -> Self {
        let Lease { target, original, value, observed, since, until, reason } = lease.clone();
        Self { target, original, value, observed, since, until, reason }
    }

    /// When it ends, as text.
    pub fn end(&self, now: BootTime) -> String {
        if self.until >= BootTime::FOR_EVER {
            return "until it is released".to_owned();
        }
        format!("until {} ms from now", self.until.since(now).as_millis())
    }
}

/// The sources of events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sensors {
    /// `subscribed`, `not wanted`, or why there are no process events.
    pub process_events: String,
    /// `watched`, `not wanted`, or why the foreground processes are not known.
    pub foreground: String,
    /// `real-time`, or why the daemon has no real-time priority.
    pub scheduling: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MechanismStatus {
    pub name: String,
    /// Its support on this device.
    #[serde(flatten)]
    pub support: Support,
    /// Its parts that can be enabled separately.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
    /// Its current activity; `None` while it does nothing.
    pub activity: Option<Activity>,
}

/// The current activity of a mechanism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// When it began.
    pub since: BootTime,
    /// A description, in one sentence.
    pub text: String,
}

impl Status {
    /// The part of a mechanism that the configuration calls `name`.
    pub fn part(&self, name: &str) -> Option<&Part> {
        self.mechanisms.iter().flat_map(|mechanism| &mechanism.parts).find(|part| part.name == name)
    }

    /// The counters as OpenMetrics text.
    ///
    /// # Errors
    /// When a name or a value breaks the format's rules.
    pub fn open_metrics(&self) -> Result<String, MetricsError> {
        let mut exposition = Exposition::new();
        exposition
            .family("brisk_build", MetricKind::Info, "", "The version of brisk.")?
            .info(&[("version", &self.brisk)])?;
        let metrics = &self.metrics;
        let counters = [
            ("brisk_process_events", "Process events that passed the filter in the kernel.", metrics.process_events),
            ("brisk_process_events_lost", "Times that the kernel dropped process events.", metrics.process_events_lost),
            ("brisk_launches", "Launches that began.", metrics.launches),
            ("brisk_decisions", "Decisions that were carried out.", metrics.decisions),
            ("brisk_failures", "Decisions that failed.", metrics.failures),
            ("brisk_requests", "Requests that the control socket answered.", metrics.requests),
            ("brisk_refused_clients", "Clients that the control socket turned away.", metrics.refused_clients),
            ("brisk_guardian_restarts", "Times that the guardian died and was replaced.", metrics.guardian_restarts),
        ];
        for (name, help, value) in counters {
            exposition.family(name, MetricKind::Counter, "", help)?.sample(&[], value as f64)?;
        }
        exposition
            .family("brisk_leases", MetricKind::Gauge, "", "Tunables that hold a leased value now.")?
            .sample(&[], self.leases.len() as f64)?;
        exposition
            .family("brisk_uptime_seconds", MetricKind::Gauge, "seconds", "Time since the daemon became ready.")?
            .sample(&[], self.now.since(self.since).as_secs_f64())?;
        let mut active =
            exposition.family("brisk_active", MetricKind::Gauge, "", "Whether a mechanism does something now.")?;
        for mechanism in &self.mechanisms {
            active.sample(&[("mechanism", &mechanism.name)], f64::from(u8::from(mechanism.activity.is_some())))?;
        }
        let mut states = exposition.family(
            "brisk_mechanism_state",
            MetricKind::Gauge,
            "",
            "1 for the state that a mechanism is in: unsupported, available or active.",
        )?;
        for mechanism in &self.mechanisms {
            let state = match mechanism.support.state {
                SupportState::Unsupported => "unsupported",
                SupportState::Available => "available",
                SupportState::Active => "active",
            };
            states.sample(&[("mechanism", &mechanism.name), ("state", state)], 1.0)?;
        }
        exposition
            .family("brisk_configuration_valid", MetricKind::Gauge, "", "0 where the last reload was refused.")?
            .sample(&[], f64::from(u8::from(self.configuration_error.is_none())))?;
        let bounds = Histogram::BOUNDS_US.map(|bound| Duration::from_micros(bound).as_secs_f64());
        let histograms = [
            (
                "brisk_event_to_write_seconds",
                "From the kernel's event to the last write that it caused.",
                &metrics.event_to_write,
            ),
            (
                "brisk_wake_to_write_seconds",
                "The daemon's own part of that: from its waking to the last write.",
                &metrics.wake_to_write,
            ),
        ];
        for (name, help, histogram) in histograms {
            exposition.family(name, MetricKind::Histogram, "seconds", help)?.histogram(
                &[],
                &bounds,
                &histogram.counts,
                Duration::from_micros(histogram.sum_us).as_secs_f64(),
            )?;
        }
        Ok(exposition.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies ON-4.
    #[test]
    fn a_lease_without_a_deadline_lasts_until_its_release() {
        let at = BootTime::from_milliseconds;
        let lease = |until| Lease {
            target: Target::Tunable("/proc/sys/vm/swappiness".into()),
            original: "60".to_owned(),
            value: "100".to_owned(),
            observed: None,
            since: at(1000),
            until,
            reason: "the plan".to_owned(),
        };
        for (until, end, written) in [
            (at(1750), "until 250 ms from now", serde_json::json!(1_750_000_000)),
            (at(1200), "until 0 ms from now", serde_json::json!(1_200_000_000)),
            (BootTime::FOR_EVER, "until it is released", serde_json::Value::Null),
        ] {
            let held = HeldLease::of(&lease(until));
            assert_eq!(held.end(at(1500)), end);
            let json = serde_json::to_value(&held).unwrap();
            assert_eq!(json["until"], written, "{json}");
            assert_eq!(serde_json::from_value::<HeldLease>(json).unwrap(), held);
        }
    }
}
