//! `kernel_pacct` of bootchart 0.8: the kernel's process accounting, version 3 (acct(5)). It has one record for each process
//! that ended, including those that are in no sample.

use std::io::{self, Read};

use crate::read::{Notes, ReadError};

const RECORD_BYTES: usize = 64;

/// A process that ended.
#[derive(Debug, Clone, PartialEq)]
pub struct AccountingRecord {
    /// Its PID.
    pub pid: u32,
    /// The PID of its parent at the end.
    pub parent_pid: u32,
    /// The first 15 bytes of its name.
    pub name: String,
    /// When it began, in seconds since 1970.
    pub start_s: u64,
    /// How long it lived.
    pub elapsed_ms: u32,
    /// CPU time.
    pub cpu_ms: u32,
}

/// Reads the records, in the order in which the processes ended.
///
/// # Errors
/// Read errors, and too many records.
pub fn parse(mut input: impl Read, notes: &mut Notes<'_>) -> Result<Vec<AccountingRecord>, ReadError> {
    let mut ended = Vec::new();
    let mut record = [0; RECORD_BYTES];
    let mut number = 0u64;
    loop {
        match fill(&mut input, &mut record).map_err(|cause| notes.read_failed(cause))? {
            0 => return Ok(ended),
            RECORD_BYTES => {}
            _ => {
                notes.add_omission("the last record is cut off", 0);
                return Ok(ended);
            }
        }
        number += 1;
        match process(&record) {
            Some(process) => ended.push(process),
            None => notes.add_omission("a record that is not of accounting version 3 is left out", 0),
        }
        if ended.len() > notes.limits.processes || number > 100 * notes.limits.processes as u64 {
            return Err(notes.too_many("processes", notes.limits.processes));
        }
    }
}

fn fill(input: &mut impl Read, record: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < record.len() {
        match input.read(&mut record[filled..]) {
            Ok(0) => break,
            Ok(length) => filled += length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// flags, version, tty, exit status, user, group, PID, parent, start (s), elapsed (a float of ticks), user and system
/// time (ticks in 13 bits with an exponent of 3), six counters, name.
fn process(record: &[u8; RECORD_BYTES]) -> Option<AccountingRecord> {
    const TICK_MS: f64 = 10.0;
    // ACCT_BYTEORDER: written by a big-endian kernel.
    let is_big = record[1] & 0x80 != 0;
    if record[1] & 0x7f != 3 {
        return None;
    }
    let word = |at: usize| {
        let bytes: [u8; 4] = record[at..at + 4].try_into().expect("four bytes of a fixed range");
        if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    };
    let compressed_ticks = |at: usize| {
        let bytes = [record[at], record[at + 1]];
        let value = if is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
        u64::from(value & 0x1fff) << (3 * (value >> 13))
    };
    let name = &record[48..];
    let name = &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())];
    let elapsed_ticks = f64::from(f32::from_bits(word(28)));
    // Casts from floats saturate, and NaN is 0.
    Some(AccountingRecord {
        pid: word(16),
        parent_pid: word(20),
        name: crate::read::lines::text(name),
        start_s: u64::from(word(24)),
        elapsed_ms: (elapsed_ticks * TICK_MS) as u32,
        cpu_ms: crate::read::lines::saturate((compressed_ticks(32) + compressed_ticks(34)).saturating_mul(10)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    /// What Fedora Core 3 wrote for a `uname` of its rc.sysinit, byte order as given.
    fn record(is_big: bool) -> Vec<u8> {
        let mut bytes = vec![2, if is_big { 0x83 } else { 3 }];
        let mut put = |value: u32, size: usize| {
            let all = if is_big { value.to_be_bytes() } else { value.to_le_bytes() };
            bytes.extend(if is_big { &all[4 - size..] } else { &all[..size] });
        };
        put(0x0401, 2);
        [0, 0, 0, 521, 515, 1_107_040_000].into_iter().for_each(|word| put(word, 4));
        put(12f32.to_bits(), 4);
        put(3, 2);
        put(0x2001, 2);
        [0u32; 6].into_iter().for_each(|count| put(count, 2));
        bytes.extend(b"uname\0\0\0\0\0\0\0\0\0\0\0");
        bytes
    }

    #[test]
    fn records_of_either_byte_order_read_the_same() {
        let expected = AccountingRecord {
            pid: 521,
            parent_pid: 515,
            name: "uname".to_owned(),
            start_s: 1_107_040_000,
            elapsed_ms: 120,
            cpu_ms: 110,
        };
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let mut bytes = [record(false), record(true), vec![2; RECORD_BYTES], record(false)].concat();
        bytes.truncate(bytes.len() - 1);
        let notes = &mut Notes::new("kernel_pacct", &mut omissions, &limits);
        assert_eq!(parse(bytes.as_slice(), notes).unwrap(), [expected.clone(), expected]);
        assert_eq!(omissions.len(), 2, "{omissions:?}");
    }
}
