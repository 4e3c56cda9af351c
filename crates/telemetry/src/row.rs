//! The rows of telemetry as they are stored and exported (docs/telemetry.md).

use serde::Serialize;

use brisk_mechanism::{Glob, HourFigures, Observation, TrialOutcome};

use crate::device::SystemFacts;
use crate::salt::Salt;

/// The longest name that is stored.
const MAXIMUM_NAME_BYTES: usize = 256;

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
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
}

/// A row, beside what every row has.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Fields {
    Start(SystemFacts),
    Launch {
        application: String,
        name: Option<String>,
        length_ms: Option<u64>,
        loss_ms: Option<f64>,
        boosted: bool,
        governor: String,
    },
    Boot {
        length_ms: u64,
        kernel_ms: Option<u64>,
        performance_held: Option<bool>,
    },
    Kill {
        application: String,
        name: Option<String>,
        freed_kib: Option<i64>,
        oom_score_adj: i16,
        headroom_kib: i64,
    },
    Hour(Hour),
    Trial {
        step: &'static str,
        outcome: &'static str,
        effect_percent: Option<f64>,
    },
    Switch {
        mechanism: String,
        active: bool,
        reason: &'static str,
    },
}

#[derive(Serialize)]
struct Row<'a> {
    row: u64,
    at_s: u64,
    boot: &'a str,
    #[serde(flatten)]
    fields: &'a Fields,
}

impl Fields {
    /// `record` with hashes under `salt` in place of names, except those that `names` allows.
    pub(crate) fn of(record: Record, salt: &Salt, names: &[Glob]) -> Self {
        let hashed = |application: String| {
            let hash = salt.hash("application", &application);
            let is_allowed = application.len() <= MAXIMUM_NAME_BYTES && names.iter().any(|it| it.matches(&application));
            (hash, Some(application).filter(|_| is_allowed))
        };
        match record {
            Record::Hour(hour) => Self::Hour(hour),
            Record::Switch { mechanism, active, reason } => Self::Switch { mechanism, active, reason },
            Record::Observation(Observation::Launch { application, length_ms, loss_ms, boosted, governor }) => {
                let (application, name) = hashed(application);
                let loss_ms = loss_ms.map(|loss_ms| rounded(loss_ms, 1_000.0));
                Self::Launch { application, name, length_ms, loss_ms, boosted, governor }
            }
            Record::Observation(Observation::Boot { length_ms, kernel_ms, performance_held }) => {
                Self::Boot { length_ms, kernel_ms, performance_held }
            }
            Record::Observation(Observation::Kill { application, freed_kib, oom_score_adj, headroom_kib }) => {
                let (application, name) = hashed(application);
                Self::Kill { application, name, freed_kib, oom_score_adj, headroom_kib }
            }
            Record::Observation(Observation::Trial { step, outcome, effect_percent }) => {
                let outcome = match outcome {
                    TrialOutcome::Kept => "kept",
                    TrialOutcome::Dropped => "dropped",
                    TrialOutcome::Unclear => "unclear",
                };
                Self::Trial { step, outcome, effect_percent: effect_percent.map(|effect| rounded(effect, 10.0)) }
            }
        }
    }

    /// The row as JSON.
    pub(crate) fn to_json(&self, row: u64, at_s: u64, boot: &str) -> String {
        serde_json::to_string(&Row { row, at_s, boot, fields: self }).unwrap_or_default()
    }
}

fn rounded(number: f64, per_unit: f64) -> f64 {
    (number * per_unit).round() / per_unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
