//! What a store holds, for `brisk telemetry show`.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;
use serde_json::Value;

use brisk_sys::Root;

use crate::error::TelemetryError;
use crate::export::salt_of;
use crate::read::Segments;
use crate::{device, folder};

/// What a store holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Summary {
    /// What identifies the store in exports.
    pub device: String,
    /// Its number of rows.
    pub rows: u64,
    /// What they take on disk.
    pub bytes: u64,
    /// Bytes that belong to no row.
    pub damaged_bytes: u64,
    /// The number of rows of each kind.
    pub kinds: BTreeMap<String, u64>,
    /// The last rows, the oldest first.
    pub last: VecDeque<Value>,
}

/// Reads the store of the device below `root`, and keeps the last `count` rows.
///
/// # Errors
/// [`TelemetryError`] when there is no store, or it cannot be read.
pub fn summary(root: &Root, count: usize) -> Result<Summary, TelemetryError> {
    let folder = folder(root);
    let segments = Segments::open(&folder, false)?;
    let mut summary = Summary { device: device::device(&salt_of(&folder)?), ..Summary::default() };
    let read = segments.read(|_, row| {
        let Ok(row) = serde_json::from_slice::<Value>(row.as_bytes()) else { return };
        summary.rows += 1;
        *summary.kinds.entry(row["kind"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        summary.last.push_back(row);
        if summary.last.len() > count {
            summary.last.pop_front();
        }
    })?;
    (summary.bytes, summary.damaged_bytes) = (read.bytes, read.damaged_bytes);
    Ok(summary)
}
