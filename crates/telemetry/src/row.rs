//! The rows of telemetry as they are stored and exported (docs/telemetry.md).

use std::fmt::Write as _;

use serde_json::Value;

use brisk_mechanism::{Glob, HourFigures, Observation, TrialOutcome};

use crate::device::SystemFacts;
use crate::salt::Salt;

/// The longest name that is stored.
const MAXIMUM_NAME_BYTES: usize = 256;

/// The keys that a kind of row has of its own, with their values.
type Own = Vec<(&'static str, Value)>;

/// What the daemon stores, with real names.
#[derive(Debug, Clone, PartialEq)]
pub enum Record {
    /// An observation of a mechanism.
    Observation(Observation),
    /// The hour.
    Hour(Hour),
    /// The state of a mechanism.
    Switch {
        /// Its name, or that of a part of it.
        mechanism: String,
        /// It is on and can work.
        active: bool,
        /// Why it is not: `unsupported` or `off`; empty if it is active.
        reason: &'static str,
    },
}

impl Record {
    /// How many kinds of rows there are.
    pub const KINDS: usize = 6;

    /// Which of them its row is: a number below [`Self::KINDS`].
    pub fn kind(&self) -> usize {
        match self {
            Self::Observation(Observation::Launch { .. }) => 0,
            Self::Observation(Observation::Boot { .. }) => 1,
            Self::Observation(Observation::Kill { .. }) => 2,
            Self::Observation(Observation::Trial { .. }) => 3,
            Self::Hour(_) => 4,
            Self::Switch { .. } => 5,
        }
    }
}

/// Figures of a period of about an hour. `None` is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hour {
    pub period_s: u64,
    /// Since the start of the kernel.
    pub uptime_s: u64,
    /// How long some task stalled on memory.
    pub memory_some_ms: Option<u64>,
    /// How long all tasks did.
    pub memory_full_ms: Option<u64>,
    /// How long some task waited for a CPU.
    pub cpu_some_ms: Option<u64>,
    /// How long some task waited for storage.
    pub io_some_ms: Option<u64>,
    pub lookup_hits: Option<u64>,
    pub lookup_misses: Option<u64>,
    /// CPU time of brisk's own processes.
    pub cpu_ms: u64,
    /// Their resident memory.
    pub resident_kib: u64,
    /// Rows that were not stored.
    pub dropped_rows: u64,
}

impl Hour {
    /// Takes what mechanisms have added.
    pub fn add(&mut self, figures: HourFigures) {
        let HourFigures { lookup_hits, lookup_misses } = figures;
        (self.lookup_hits, self.lookup_misses) = (lookup_hits, lookup_misses);
    }

    /// Its keys with their values.
    fn own(&self) -> Own {
        let own = [
            ("period_s", Some(self.period_s)),
            ("uptime_s", Some(self.uptime_s)),
            ("memory_some_ms", self.memory_some_ms),
            ("memory_full_ms", self.memory_full_ms),
            ("cpu_some_ms", self.cpu_some_ms),
            ("io_some_ms", self.io_some_ms),
            ("lookup_hits", self.lookup_hits),
            ("lookup_misses", self.lookup_misses),
            ("cpu_ms", Some(self.cpu_ms)),
            ("resident_kib", Some(self.resident_kib)),
            ("dropped_rows", Some(self.dropped_rows)),
        ];
        Vec::from(own.map(|(key, figure)| (key, Value::from(figure))))
    }
}

/// A row, beside what every row has: its kind, and the keys of that kind with their values.
#[derive(Debug, PartialEq)]
pub(crate) struct Fields {
    kind: &'static str,
    own: Own,
}

impl Fields {
    /// The row that tells which `system` the next rows are of.
    pub(crate) fn start(system: &SystemFacts) -> Self {
        let SystemFacts { brisk, build, kernel } = system;
        let texts = [("brisk", brisk), ("build", build), ("kernel", kernel)];
        Self { kind: "start", own: Vec::from(texts.map(|(key, text)| (key, Value::from(text.as_str())))) }
    }

    /// `record` with hashes under `salt` in place of names, except those that `names` allows.
    pub(crate) fn of(record: Record, salt: &Salt, names: &[Glob]) -> Self {
        match record {
            Record::Observation(observation) => Self::of_observation(observation, salt, names),
            Record::Hour(hour) => Self { kind: "hour", own: hour.own() },
            Record::Switch { mechanism, active, reason } => {
                let own: Own =
                    vec![("mechanism", mechanism.into()), ("active", active.into()), ("reason", reason.into())];
                Self { kind: "switch", own }
            }
        }
    }

    fn of_observation(observation: Observation, salt: &Salt, names: &[Glob]) -> Self {
        let hash = |application: &str| Value::from(salt.hash("application", application));
        let name = |application: &str| {
            let is_allowed = application.len() <= MAXIMUM_NAME_BYTES && names.iter().any(|it| it.matches(application));
            Value::from(Some(application).filter(|_| is_allowed))
        };
        let (kind, own) = match observation {
            Observation::Launch { application, length_ms, loss_ms, boosted, governor } => {
                let own: Own = vec![
                    ("application", hash(&application)),
                    ("name", name(&application)),
                    ("length_ms", length_ms.into()),
                    ("loss_ms", loss_ms.map(|loss_ms| rounded(loss_ms, 1_000.0)).into()),
                    ("boosted", boosted.into()),
                    ("governor", governor.into()),
                ];
                ("launch", own)
            }
            Observation::Boot { length_ms, kernel_ms, performance_held } => {
                let own: Own = vec![
                    ("length_ms", length_ms.into()),
                    ("kernel_ms", kernel_ms.into()),
                    ("performance_held", performance_held.into()),
                ];
                ("boot", own)
            }
            Observation::Kill { application, freed_kib, oom_score_adj, headroom_kib } => {
                let own: Own = vec![
                    ("application", hash(&application)),
                    ("name", name(&application)),
                    ("freed_kib", freed_kib.into()),
                    ("oom_score_adj", oom_score_adj.into()),
                    ("headroom_kib", headroom_kib.into()),
                ];
                ("kill", own)
            }
            Observation::Trial { step, outcome, effect_percent } => {
                let outcome = match outcome {
                    TrialOutcome::Kept => "kept",
                    TrialOutcome::Dropped => "dropped",
                    TrialOutcome::Unclear => "unclear",
                };
                let effect_percent = effect_percent.map(|effect| rounded(effect, 10.0));
                let own: Own =
                    vec![("step", step.into()), ("outcome", outcome.into()), ("effect_percent", effect_percent.into())];
                ("trial", own)
            }
        };
        Self { kind, own }
    }

    /// The row as JSON; `boot` consists of digits. Derived serializers of each kind, nested and tagged, would be several times as
    /// large in a device's binary.
    pub(crate) fn to_json(&self, row: u64, at_s: u64, boot: &str) -> String {
        let kind = self.kind;
        let mut text = format!("{{\"row\":{row},\"at_s\":{at_s},\"boot\":\"{boot}\",\"kind\":\"{kind}\"");
        for (key, value) in &self.own {
            // Writing to a string cannot fail.
            let _ = write!(text, ",\"{key}\":{value}");
        }
        text.push('}');
        text
    }
}

fn rounded(number: f64, per_unit: f64) -> f64 {
    (number * per_unit).round() / per_unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Each kind with exactly the keys that docs/telemetry.md lists.
    // Verifies FLEET-1.
    #[test]
    fn every_kind_has_the_documented_keys_and_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let salt = Salt::make(folder.path()).unwrap();
        let hash = salt.hash("application", "mail");
        let own: [Glob; 1] = ["mai?".parse().unwrap()];
        let launch = || {
            Record::Observation(Observation::Launch {
                application: "mail".to_owned(),
                length_ms: Some(640),
                loss_ms: Some(12.345_678),
                boosted: true,
                governor: "schedutil".to_owned(),
            })
        };
        let trial = Observation::Trial { step: "idle", outcome: TrialOutcome::Unclear, effect_percent: Some(-3.21) };
        let boot = Observation::Boot { length_ms: 20_000, kernel_ms: None, performance_held: Some(true) };
        let kill =
            Observation::Kill { application: "mail".to_owned(), freed_kib: None, oom_score_adj: 900, headroom_kib: -7 };
        let switch = Record::Switch { mechanism: "launch".to_owned(), active: false, reason: "off" };
        let hour = Hour { period_s: 3_600, cpu_ms: 12, memory_some_ms: Some(5), ..Hour::default() };
        for (record, names, expected) in [
            (
                launch(),
                &[][..],
                json!({"kind": "launch", "application": hash, "name": null, "length_ms": 640, "loss_ms": 12.346,
                    "boosted": true, "governor": "schedutil"}),
            ),
            (
                launch(),
                &own[..],
                json!({"kind": "launch", "application": hash, "name": "mail", "length_ms": 640, "loss_ms": 12.346,
                    "boosted": true, "governor": "schedutil"}),
            ),
            (
                Record::Observation(kill),
                &[],
                json!({"kind": "kill", "application": hash, "name": null, "freed_kib": null, "oom_score_adj": 900,
                    "headroom_kib": -7}),
            ),
            (
                Record::Observation(boot),
                &[],
                json!({"kind": "boot", "length_ms": 20_000, "kernel_ms": null, "performance_held": true}),
            ),
            (
                Record::Observation(trial),
                &[],
                json!({"kind": "trial", "step": "idle", "outcome": "unclear", "effect_percent": -3.2}),
            ),
            (switch, &[], json!({"kind": "switch", "mechanism": "launch", "active": false, "reason": "off"})),
            (
                Record::Hour(hour),
                &[],
                json!({"kind": "hour", "period_s": 3_600, "uptime_s": 0, "memory_some_ms": 5, "memory_full_ms": null,
                    "cpu_some_ms": null, "io_some_ms": null, "lookup_hits": null, "lookup_misses": null, "cpu_ms": 12,
                    "resident_kib": 0, "dropped_rows": 0}),
            ),
        ] {
            let fields = Fields::of(record, &salt, names);
            let text = fields.to_json(7, 1_700_000_000, "b");
            assert!(text.starts_with("{\"row\":7,\"at_s\":1700000000,\"boot\":\"b\","), "{text}");
            assert!(!text.contains("mail") || !names.is_empty(), "{text}");
            let mut row: Value = serde_json::from_str(&text).unwrap();
            ["row", "at_s", "boot"].iter().for_each(|key| drop(row.as_object_mut().unwrap().remove(*key)));
            assert_eq!(row, expected);
            let documented = include_str!("../../../docs/telemetry.md");
            let keys = expected.as_object().unwrap().keys();
            let missing: Vec<_> = keys.filter(|key| !documented.contains(&format!("`{key}`"))).collect();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }
}
