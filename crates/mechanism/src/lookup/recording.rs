//! A recorded sequence of service lookups: JSON lines, one for the recording and then one per call.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use brisk_base::insertion_sort::insertion_sort;

#[cfg(feature = "lab")]
use super::trace::{Lookup, TraceEvent};

/// The number of the format.
const SCHEMA: u32 = 1;

/// The calls, in order, and what the recording lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recording {
    /// Facts about the whole recording.
    pub header: RecordingHeader,
    /// The calls, oldest first.
    pub calls: Vec<Call>,
}

/// The first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordingHeader {
    schema: u32,
    /// Events that the kernel dropped because they came faster than they were read.
    pub lost_events: u64,
    /// Calls to the context manager that are not a request of this format, or whose name could not be read.
    pub unread: u64,
}

/// One call to the context manager.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Since the start of the recording.
    pub at_us: u64,
    /// The caller's process.
    pub process: u32,
    /// Its real user ID; `None` when the process exited before that could be read.
    pub uid: Option<u32>,
    /// What it asked for.
    pub request: Request,
    pub service: String,
}

/// What a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// A service.
    Lookup,
    /// The registration of a service.
    Register,
}

impl Default for RecordingHeader {
    fn default() -> Self {
        Self { schema: SCHEMA, lost_events: 0, unread: 0 }
    }
}

impl Recording {
    /// As text, for a file.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let line = |text: &mut String, json: serde_json::Result<String>| {
            // Serialising numbers and strings cannot fail, nor can writing to a string.
            let _ = writeln!(text, "{}", json.unwrap_or_default());
        };
        line(&mut text, serde_json::to_string(&self.header));
        self.calls.iter().for_each(|call| line(&mut text, serde_json::to_string(call)));
        text
    }

    /// How often each service was looked up.
    pub fn lookups(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for call in self.calls.iter().filter(|call| call.request == Request::Lookup) {
            *counts.entry(call.service.clone()).or_insert(0) += 1;
        }
        counts
    }
}

/// The share of all lookups, 0 to 1, that goes to the most frequent quarter of the services (rounded up), by how often each of them
/// was looked up; `None` when none was. The paper found 0.8 (Yeon et al. 2016, figure 4).
pub fn top_quarter_share(counts: impl IntoIterator<Item = u64>) -> Option<f64> {
    let mut counts: Vec<u64> = counts.into_iter().filter(|count| *count > 0).collect();
    insertion_sort(&mut counts, |one, next| one < next);
    let (top, all): (u64, u64) = (counts.iter().take(counts.len().div_ceil(4)).sum(), counts.iter().sum());
    (all > 0).then(|| top as f64 / all as f64)
}

/// A file that is not a recording.
#[cfg(feature = "lab")]
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}; `brisk lookup record --output FILE` writes a recording")]
pub struct RecordingError {
    line: usize,
    reason: String,
}

#[cfg(feature = "lab")]
impl Recording {
    /// Reads what [`Recording::to_text`] has written.
    ///
    /// # Errors
    /// [`RecordingError`] with the line that is wrong.
    pub fn parse(text: &str) -> Result<Self, RecordingError> {
        let fault = |line: usize, reason: String| RecordingError { line, reason };
        let mut lines = (1..).zip(text.lines());
        let (_, first) = lines.next().ok_or_else(|| fault(1, "the file is empty".into()))?;
        let header: RecordingHeader = serde_json::from_str(first).map_err(|error| fault(1, error.to_string()))?;
        if header.schema != SCHEMA {
            return Err(fault(1, format!("schema {} is not {SCHEMA}", header.schema)));
        }
        let call = |(number, line)| serde_json::from_str(line).map_err(|error| fault(number, error.to_string()));
        Ok(Self { header, calls: lines.map(call).collect::<Result<_, _>>()? })
    }

    /// The input of a simulation. Callers are distinguished by their user; a process with an unknown user is a separate caller.
    pub fn events(&self) -> Vec<TraceEvent> {
        let mut names: BTreeMap<&str, u32> = BTreeMap::new();
        let mut events = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let next = names.len() as u32;
            let name = *names.entry(&call.service).or_insert(next);
            let process = call.process;
            events.push(match (call.request, call.uid) {
                (Request::Register, _) => TraceEvent::Registered { name },
                (Request::Lookup, Some(caller)) => {
                    TraceEvent::Lookup(Lookup { name, caller, process, isolated: is_isolated(caller) })
                }
                // User IDs are small numbers, so none collides with this caller.
                (Request::Lookup, None) => {
                    TraceEvent::Lookup(Lookup { name, caller: u32::MAX - process, process, isolated: false })
                }
            });
        }
        events
    }
}

/// Android's isolated user IDs: 99000 to 99999 of each user, and 90000 to 98999 for those of application zygotes
/// (android_filesystem_config.h).
#[cfg(feature = "lab")]
fn is_isolated(uid: u32) -> bool {
    (90_000..=99_999).contains(&(uid % 100_000))
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;

    fn call(uid: Option<u32>, request: Request, service: &str) -> Call {
        Call { at_us: 5, process: 7, uid, request, service: service.into() }
    }

    fn recording() -> Recording {
        let calls = vec![
            call(Some(10_051), Request::Lookup, "activity"),
            call(Some(99_003), Request::Lookup, "activity"),
            call(None, Request::Lookup, "window"),
            call(Some(1000), Request::Register, "activity"),
        ];
        Recording { header: RecordingHeader { lost_events: 2, ..RecordingHeader::default() }, calls }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn the_top_quarter_is_of_the_services_that_were_looked_up() {
        for (counts, expected) in [
            (&[1, 80, 9, 10][..], Some(0.8)),
            // Two of five, rounded up; services that were never looked up do not count.
            (&[5, 1, 1, 0, 2, 1, 0, 0], Some(0.7)),
            (&[3], Some(1.0)),
            (&[0, 0], None),
            (&[], None),
        ] {
            assert_eq!(top_quarter_share(counts.iter().copied()), expected, "{counts:?}");
        }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn a_recording_survives_its_file() {
        let recording = recording();
        let text = recording.to_text();
        assert_eq!(text.lines().next(), Some("{\"schema\":1,\"lost_events\":2,\"unread\":0}"));
        assert_eq!(
            text.lines().nth(1),
            Some("{\"at_us\":5,\"process\":7,\"uid\":10051,\"request\":\"lookup\",\"service\":\"activity\"}")
        );
        assert_eq!(Recording::parse(&text), Ok(recording));
    }

    // Verifies LOOKUP-8.
    #[test]
    fn a_simulation_gets_the_calls_in_their_order() {
        let lookup = |name, caller, isolated| TraceEvent::Lookup(Lookup { name, caller, process: 7, isolated });
        let expected = [
            lookup(0, 10_051, false),
            lookup(0, 99_003, true),
            lookup(1, u32::MAX - 7, false),
            TraceEvent::Registered { name: 0 },
        ];
        assert_eq!(recording().events(), expected);
        assert_eq!(recording().lookups(), BTreeMap::from([("activity".into(), 2), ("window".into(), 1)]));
    }

    // Verifies LOOKUP-8.
    #[test]
    fn a_malformed_recording_is_refused_with_its_line() {
        let good = recording().to_text();
        for (text, expected) in [
            (String::new(), "line 1: the file is empty"),
            ("{}".into(), "line 1: missing field `schema`"),
            (good.replace("schema\":1", "schema\":2"), "line 1: schema 2 is not 1"),
            (good.replace("\"lookup\"", "\"call\""), "line 2: unknown variant `call`"),
            (good + "{\"at_us\"", "line 6: EOF"),
        ] {
            let error = Recording::parse(&text).unwrap_err().to_string();
            assert!(error.starts_with(expected) && error.contains("brisk lookup record"), "{error}");
        }
    }
}
