//! What a boot recorder keeps in memory: rows of counters, and at each sample only the counters that have changed.
//!
//! A sample of 300 processes that mostly sleep takes some ten bytes, so a boot of minutes fits into a few hundred KiB. The tape
//! is bounded: when it is full, further samples are counted and not kept.

/// A sample is the milliseconds since the previous one, then entries, then a zero. An entry is a row's number from 1, a mask of
/// the fields that have changed (none: the row has ended), the gap when its bit is set, and for each changed field the
/// difference. Numbers have seven bits per byte; differences have the sign in the lowest bit.
const GAP: u64 = 1 << 15;
/// The memory of a row besides its name.
const ROW_BYTES: usize = 160;
/// The longest sample, except in the worst fork storm.
const SAMPLE_BYTES: usize = 16 * 1024;

/// What a row is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// `cpu` or `cpuN`: the eight counters of /proc/stat.
    Cpu,
    /// A whole disk, by its number: the eleven counters of /proc/diskstats.
    Disk {
        /// The major number.
        major: u32,
        /// The minor number.
        minor: u32,
    },
    /// A CPU's present and highest frequency, in kHz.
    Frequency,
    /// `cpu`, `memory` or `io`: microseconds in which some tasks, and all tasks, waited for it.
    Pressure,
    /// A process: the letter of its state, clock ticks in user space and in the kernel.
    Process {
        /// Its PID.
        pid: u32,
        /// Its parent's PID when it was first seen.
        parent: u32,
        /// When it started, in clock ticks since boot.
        start_ticks: u64,
    },
}

/// A row's place on the tape.
pub type Row = usize;

/// A row's kind and names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// What it is about.
    pub kind: RowKind,
    /// Its names, each with the sample from which it applies.
    names: Vec<(u32, Box<str>)>,
}

impl Label {
    /// Its name at the sample `sample`.
    pub fn name(&self, sample: u32) -> &str {
        let known = self.names.partition_point(|&(from, _)| from <= sample).max(1);
        self.names.get(known - 1).map_or("", |(_, name)| name)
    }
}

/// The recording.
#[derive(Debug)]
pub struct Tape {
    limit_bytes: usize,
    bytes: Vec<u8>,
    labels: Vec<Label>,
    last: Vec<Box<[u64]>>,
    label_bytes: usize,
    samples: u32,
    dropped: u32,
    last_ms: u64,
    is_open: bool,
}

impl Tape {
    /// An empty tape that takes at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit_bytes,
            bytes: Vec::new(),
            labels: Vec::new(),
            last: Vec::new(),
            label_bytes: 0,
            samples: 0,
            dropped: 0,
            last_ms: 0,
            is_open: false,
        }
    }

    /// Moments that are kept.
    pub fn samples(&self) -> u32 {
        self.samples
    }

    /// Moments that did not fit.
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// The memory that the tape uses, in bytes.
    pub fn size_bytes(&self) -> usize {
        self.bytes.len() + self.label_bytes
    }

    /// The kind and names of `row`.
    pub fn label(&self, row: Row) -> &Label {
        &self.labels[row]
    }

    /// Begins the sample `time_ms`, which is later than the previous one. False when it does not fit; values that are put then
    /// are discarded.
    pub fn begin(&mut self, time_ms: u64) -> bool {
        self.close();
        if self.size_bytes() + SAMPLE_BYTES > self.limit_bytes {
            self.dropped += 1;
            return false;
        }
        write_number(&mut self.bytes, time_ms.saturating_sub(self.last_ms));
        self.last_ms = time_ms;
        self.samples += 1;
        self.is_open = true;
        true
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.bytes.push(0);
        }
    }

    /// A new row of `fields` counters, all zero.
    pub fn row(&mut self, kind: RowKind, name: &str, fields: usize) -> Row {
        self.label_bytes += ROW_BYTES + name.len();
        self.labels.push(Label { kind, names: vec![(self.samples, name.into())] });
        self.last.push(vec![0; fields].into());
        self.labels.len() - 1
    }

    /// Renames `row` from this sample on.
    pub fn rename(&mut self, row: Row, name: &str) {
        if self.is_open {
            self.label_bytes += name.len() + 24;
            self.labels[row].names.push((self.samples, name.into()));
        }
    }

    /// Puts the present counters of `row`, which was last sampled `gap` samples ago: 1 for the previous sample. Nothing is
    /// written for unchanged counters.
    pub fn put(&mut self, row: Row, values: &[u64], gap: u32) {
        let last = &mut self.last[row];
        let changed = values.iter().zip(last.iter()).enumerate().filter(|(_, (new, old))| new != old);
        let mask: u64 = changed.map(|(field, _)| 1 << field).sum();
        if mask == 0 || !self.is_open {
            return;
        }
        write_number(&mut self.bytes, row as u64 + 1);
        write_number(&mut self.bytes, if gap > 1 { mask | GAP } else { mask });
        if gap > 1 {
            write_number(&mut self.bytes, gap.into());
        }
        for (field, (&new, old)) in values.iter().zip(last.iter_mut()).enumerate() {
            if mask >> field & 1 == 1 {
                let difference = new.wrapping_sub(*old).cast_signed();
                write_number(&mut self.bytes, (difference << 1 ^ difference >> 63).cast_unsigned());
                *old = new;
            }
        }
    }

    /// Ends `row`: what it describes no longer exists.
    pub fn end(&mut self, row: Row) {
        if self.is_open {
            write_number(&mut self.bytes, row as u64 + 1);
            write_number(&mut self.bytes, 0);
        }
    }

    /// Plays it from the start.
    pub fn reader(&self) -> TapeReader<'_> {
        TapeReader { tape: self, at: 0, sample: 0, time_ms: 0, values: Vec::new(), changes: Vec::new() }
    }
}

/// What happened to a row in a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowChange {
    /// Its counters have changed; its last sample was `gap` samples ago.
    Put {
        /// The row.
        row: Row,
        /// 1 for the previous sample.
        gap: u32,
    },
    /// It ended.
    End {
        /// The row.
        row: Row,
    },
}

/// A tape being played.
#[derive(Debug)]
pub struct TapeReader<'a> {
    tape: &'a Tape,
    at: usize,
    sample: u32,
    time_ms: u64,
    values: Vec<Box<[u64]>>,
    changes: Vec<RowChange>,
}

impl TapeReader<'_> {
    /// Goes on to the next sample; false after the last.
    pub fn advance(&mut self) -> bool {
        if self.sample == self.tape.samples {
            return false;
        }
        self.sample += 1;
        self.time_ms += self.number();
        self.changes.clear();
        // An open sample has no end yet.
        while self.at < self.tape.bytes.len() {
            let Some(row) = self.number().checked_sub(1) else { break };
            self.change(row as usize);
        }
        true
    }

    fn change(&mut self, row: Row) {
        let mask = self.number();
        if mask == 0 {
            self.changes.push(RowChange::End { row });
            return;
        }
        let gap = if mask & GAP == 0 { 1 } else { self.number() as u32 };
        while self.values.len() <= row {
            self.values.push(vec![0; self.tape.last[self.values.len()].len()].into());
        }
        for field in 0..self.values[row].len() {
            if mask >> field & 1 == 1 {
                let difference = self.number();
                let difference = (difference >> 1) ^ (difference & 1).wrapping_neg();
                let value = &mut self.values[row][field];
                *value = value.wrapping_add(difference);
            }
        }
        self.changes.push(RowChange::Put { row, gap });
    }

    /// How many samples have been played.
    pub fn sample(&self) -> u32 {
        self.sample
    }

    /// When the present sample is, in milliseconds since boot.
    pub fn time_ms(&self) -> u64 {
        self.time_ms
    }

    /// The changes in it, in the order in which they happened.
    pub fn changes(&self) -> &[RowChange] {
        &self.changes
    }

    /// The present counters of `row`.
    pub fn values(&self, row: Row) -> &[u64] {
        self.values.get(row).map_or(&[], |values| values)
    }

    fn number(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.tape.bytes.get(self.at) else { break };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }
}

fn write_number(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // Verifies BOOT-1.
        #[test]
        fn recorded_values_are_played_back(
            samples in prop::collection::vec(
                (1u64..5000, prop::collection::vec((0usize..4, any::<[u64; 3]>(), 1u32..20, any::<bool>()), 0..5)),
                0..20,
            ),
        ) {
            let mut tape = Tape::new(1 << 20);
            for number in 0..4 {
                tape.row(RowKind::Pressure, &number.to_string(), 3);
            }
            let mut time_ms = 0;
            let mut model = [[0; 3]; 4];
            let mut expected = Vec::new();
            for (step_ms, puts) in samples {
                time_ms += step_ms;
                assert!(tape.begin(time_ms));
                for (row, values, gap, ends) in puts {
                    if ends {
                        tape.end(row);
                    } else {
                        tape.put(row, &values, gap);
                        model[row] = values;
                    }
                }
                expected.push((time_ms, model));
            }
            let mut reader = tape.reader();
            let mut played = Vec::new();
            while reader.advance() {
                let values = |row| <[u64; 3]>::try_from(reader.values(row)).unwrap_or_default();
                played.push((reader.time_ms(), [values(0), values(1), values(2), values(3)]));
            }
            prop_assert_eq!(played, expected);
        }
    }

    #[test]
    fn changes_keep_their_order_gaps_and_renames() {
        let mut tape = Tape::new(1 << 20);
        tape.begin(1000);
        let init = tape.row(RowKind::Process { pid: 1, parent: 0, start_ticks: 3 }, "init", 3);
        tape.put(init, &[83, 5, 6], 1);
        tape.begin(1040);
        tape.put(init, &[83, 5, 6], 1);
        tape.rename(init, "systemd");
        tape.begin(1080);
        tape.put(init, &[82, 5, 6], 7);
        tape.end(init);
        let mut reader = tape.reader();
        let mut found = Vec::new();
        while reader.advance() {
            found.push((reader.time_ms(), reader.changes().to_vec(), tape.label(init).name(reader.sample())));
        }
        let expected = [
            (1000, vec![RowChange::Put { row: init, gap: 1 }], "init"),
            (1040, Vec::new(), "systemd"),
            (1080, vec![RowChange::Put { row: init, gap: 7 }, RowChange::End { row: init }], "systemd"),
        ];
        assert_eq!(found, expected);
    }

    // Verifies BOOT-1.
    #[test]
    fn a_full_tape_counts_what_it_does_not_keep() {
        let limit_bytes = 64 * 1024;
        let mut tape = Tape::new(limit_bytes);
        let mut kept = 0;
        for sample in 0..100_000u64 {
            kept += u32::from(tape.begin(sample * 40));
            let row = tape.row_in(sample);
            tape.put(row, &[sample + 1, sample * 3, 7], 1);
        }
        assert_eq!((tape.samples(), tape.samples() + tape.dropped()), (kept, 100_000));
        assert!(tape.size_bytes() <= limit_bytes, "{}", tape.size_bytes());
        let mut reader = tape.reader();
        let mut played = 0;
        while reader.advance() {
            played += 1;
        }
        assert_eq!(played, kept);
    }

    impl Tape {
        /// One row, made at the first sample.
        fn row_in(&mut self, sample: u64) -> Row {
            if sample == 0 { self.row(RowKind::Pressure, "io", 3) } else { 0 }
        }
    }
}
