//! Messages of the guest's first process to the host, between the command's lines on the results port.

use serde::{Deserialize, Serialize};

use super::self_check::SelfCheck;

/// Starts a line of the first process: the ASCII record separator, which text does not contain.
const SEPARATOR: char = '\u{1e}';

/// One message of the guest's first process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum GuestRecord {
    /// The kernel has booted and started the first process.
    Begun,
    /// The fixed work was measured, whether it passed or not.
    SelfChecked(SelfCheck),
    /// The command ended; nothing follows.
    Ended {
        /// Its exit status, or 128 + the signal's number.
        status: u8,
    },
    /// The guest failed before the command ended; nothing follows.
    Failed {
        /// What failed, on what, and why.
        reason: String,
    },
}

impl GuestRecord {
    /// The record as a line, with its end.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).expect("a record has only string keys");
        format!("{SEPARATOR}{json}\n")
    }

    /// The record that `line` ends with, and what the command wrote before it; `None` for a line of the command.
    pub fn at_end_of(line: &str) -> Option<(&str, Self)> {
        let (before, json) = line.rsplit_once(SEPARATOR)?;
        Some((before, serde_json::from_slice(json.as_bytes()).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SelfCheckPoint;

    #[test]
    fn records_survive_the_wire_and_lines_are_no_records() {
        let point = SelfCheckPoint { policy: "policy0".into(), frequency_khz: 200_000, time_us: 3, deviation: 0.01 };
        for record in [
            GuestRecord::Begun,
            GuestRecord::Ended { status: 7 },
            GuestRecord::Failed { reason: "no \"x\"\n".into() },
            GuestRecord::SelfChecked(SelfCheck { points: vec![point], times_count: true, faults: vec!["no".into()] }),
        ] {
            let line = record.to_line();
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(GuestRecord::at_end_of(line.trim_end()), Some(("", record.clone())));
            assert_eq!(GuestRecord::at_end_of(&format!("half{}", line.trim_end())), Some(("half", record)));
        }
        assert_eq!(GuestRecord::at_end_of(r#"{"record":"ended","status":0}"#), None);
        assert_eq!(GuestRecord::at_end_of("\u{1e}nonsense"), None);
    }
}
