//! What the data set remembers about each device: what it is, and which of its rows are there.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use crate::export::{Header, Text};
use crate::fault::Fault;

/// The kernel reserves a little more or less memory with each build; a module of memory more is another device.
const MEMORY_TOLERANCE: f64 = 1.0 / 16.0;

/// What does not change on a device, and the numbers of its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    pub model: String,
    pub architecture: String,
    /// 0 where unknown.
    pub memory_kib: i64,
    /// Ranges with both ends, ascending, never adjacent.
    pub rows: Ranges,
}

/// All devices, by hash.
pub type Devices = HashMap<u64, Device>;

impl Device {
    /// The device of a first export, without rows.
    pub fn of(header: &Header<'_>) -> Self {
        Self {
            model: header.model.to_string(),
            architecture: header.architecture.to_string(),
            memory_kib: header.memory_kib,
            rows: Ranges::default(),
        }
    }

    /// Completes what a file beside the device's exports does not say of it.
    ///
    /// # Errors
    /// What the file or its import says otherwise.
    pub fn complete(&self, header: &mut Header<'_>) -> Result<(), Fault> {
        if header.model.is_empty() {
            header.model = Text(Cow::Owned(self.model.clone()));
        }
        header.architecture = Text(Cow::Owned(self.architecture.clone()));
        self.check(header)
    }

    /// Refuses an export that says of this device what cannot have changed.
    ///
    /// # Errors
    /// What differs.
    pub fn check(&self, header: &Header<'_>) -> Result<(), Fault> {
        let differs = |what: &str, before: &str, now: &str| format!("its {what} was {before}, and is {now} now");
        let is_known = self.memory_kib > 0 && header.memory_kib > 0;
        let difference = (self.memory_kib - header.memory_kib).abs() as f64;
        let memory = is_known && difference > self.memory_kib as f64 * MEMORY_TOLERANCE;
        let what = if self.model != *header.model {
            differs("model", &self.model, &header.model)
        } else if self.architecture != *header.architecture {
            differs("architecture", &self.architecture, &header.architecture)
        } else if memory {
            differs("memory in KiB", &self.memory_kib.to_string(), &header.memory_kib.to_string())
        } else {
            return Ok(());
        };
        Err(Fault::OtherDevice { device: header.device, what })
    }
}

/// A set of numbers of rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ranges(Vec<(u64, u64)>);

impl Ranges {
    /// True when `row` is in the set.
    pub fn has(&self, row: u64) -> bool {
        let at = self.0.partition_point(|(from, _)| *from <= row);
        at > 0 && self.0[at - 1].1 >= row
    }

    /// Adds the rows `from` to `to`, both included.
    pub fn add(&mut self, (from, to): (u64, u64)) {
        let begin = self.0.partition_point(|range| range.1.saturating_add(1) < from);
        let end = self.0.partition_point(|range| range.0 <= to.saturating_add(1));
        let joined = self.0[begin..end].iter().fold((from, to), |all, range| (all.0.min(range.0), all.1.max(range.1)));
        self.0.splice(begin..end, [joined]);
    }

    /// As it is stored: `1-100,105-105`.
    pub fn print(&self) -> String {
        let mut text = String::new();
        for (from, to) in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{}{from}-{to}", if text.is_empty() { "" } else { "," });
        }
        text
    }

    /// Reads what [`Self::print`] wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut ranges = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (from, to) = part.split_once('-')?;
            let (from, to) = (from.parse().ok()?, to.parse().ok()?);
            if from > to {
                return None;
            }
            ranges.add((from, to));
        }
        Some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_are_the_set_of_their_rows(added in proptest::collection::vec((0u64..60, 0u64..8), 0..20)) {
            let (mut ranges, mut set) = (Ranges::default(), BTreeSet::new());
            for (from, more) in added {
                ranges.add((from, from + more));
                set.extend(from..=from + more);
            }
            for row in 0..70 {
                prop_assert_eq!(ranges.has(row), set.contains(&row), "{}", row);
            }
            prop_assert!(ranges.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0), "{:?}", ranges);
            prop_assert_eq!(Ranges::parse(&ranges.print()), Some(ranges));
        }
    }

    #[test]
    fn the_last_row_of_all_is_a_row() {
        let mut ranges = Ranges::default();
        ranges.add((u64::MAX, u64::MAX));
        assert!(ranges.has(u64::MAX) && !ranges.has(0));
    }
}
