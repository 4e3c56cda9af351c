//! A row on disk is a line: the CRC-32 of its JSON in eight hexadecimal digits, a blank, the JSON. Whatever a power cut leaves
//! of a line is recognised by that.

use std::io::{self, BufRead, Read as _};

use crc::{CRC_32_ISO_HDLC, Crc};

/// The checksum of a row, and of an export.
pub(crate) static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// No line is shorter: 8 digits, a blank, `{"row":1}`, a newline.
pub(crate) const SHORTEST_LINE_BYTES: u64 = 19;
/// No row is longer; of a longer line each such part counts as damaged.
pub(crate) const LONGEST_LINE_BYTES: u64 = 4096;
/// No row has a higher number: data sets have signed numbers, and the next one must exist.
const HIGHEST_ROW: u64 = i64::MAX as u64;
/// What a row begins with.
const BEGIN: &str = "{\"row\":";

/// The line of `row`, which is JSON and begins with its number.
pub(crate) fn frame(row: &str) -> Vec<u8> {
    format!("{:08x} {row}\n", CHECKSUM.checksum(row.as_bytes())).into_bytes()
}

/// The number and the JSON of a line without its newline; `None` if it is damaged.
fn unframe(line: &[u8]) -> Option<(u64, &str)> {
    let line = std::str::from_utf8(line).ok()?;
    let (checksum, row) = line.split_once(' ')?;
    let is_whole = checksum.len() == 8 && u32::from_str_radix(checksum, 16) == Ok(CHECKSUM.checksum(row.as_bytes()));
    let number = row.strip_prefix(BEGIN)?.split([',', '}']).next()?;
    Some((number.parse().ok()?, row)).filter(|(number, _)| is_whole && *number <= HIGHEST_ROW)
}

/// What a file holds beside its rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Scan {
    /// The number of its last row.
    pub last_row: Option<u64>,
    /// Bytes that belong to no row, before the last row.
    pub damaged_bytes: u64,
    /// Bytes that belong to no row, after it: of a row that was cut off, for instance.
    pub tail_bytes: u64,
    /// All bytes.
    pub bytes: u64,
    /// The last line has no newline.
    pub is_torn: bool,
}

/// Passes the rows of `file` to `each`, with their numbers, in ascending order: rows whose number is not above `after` and above
/// that of the row before count as damaged.
pub(crate) fn scan(file: impl BufRead, after: Option<u64>, mut each: impl FnMut(u64, &str)) -> io::Result<Scan> {
    let mut file = file;
    let (mut found, mut line) = (Scan::default(), Vec::new());
    loop {
        line.clear();
        let length = file.by_ref().take(LONGEST_LINE_BYTES).read_until(b'\n', &mut line)? as u64;
        if length == 0 {
            return Ok(found);
        }
        found.bytes += length;
        let whole = line.strip_suffix(b"\n");
        found.is_torn = whole.is_none();
        match whole.and_then(unframe).filter(|(number, _)| Some(*number) > found.last_row.max(after)) {
            Some((number, row)) => {
                found.damaged_bytes += std::mem::take(&mut found.tail_bytes);
                found.last_row = Some(number);
                each(number, row);
            }
            None => found.tail_bytes += length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(bytes: &[u8], after: Option<u64>) -> (Vec<u64>, Scan) {
        let mut rows = Vec::new();
        let scan = scan(bytes, after, |number, row| {
            assert_eq!(row, format!("{{\"row\":{number},\"at_s\":0}}"));
            rows.push(number);
        });
        (rows, scan.unwrap())
    }

    fn line(number: u64) -> Vec<u8> {
        frame(&format!("{{\"row\":{number},\"at_s\":0}}"))
    }

    #[test]
    fn what_is_damaged_is_skipped_and_counted() {
        let three = [line(1), line(2), line(10)].concat();
        let length = three.len() as u64;
        let whole = Scan { last_row: Some(10), bytes: length, ..Scan::default() };
        assert_eq!(rows(&three, None), (vec![1, 2, 10], whole));
        assert_eq!(rows(&three, Some(2)).0, [10], "rows of an earlier file are not repeated");
        let cut = &three[..three.len() - 1];
        let of_last = line(10).len() as u64 - 1;
        let torn = Scan { last_row: Some(2), tail_bytes: of_last, bytes: length - 1, is_torn: true, ..Scan::default() };
        assert_eq!(rows(cut, None), (vec![1, 2], torn));
        let mended = [cut, b"\n", &line(12)].concat();
        assert_eq!(rows(&mended, None).0, [1, 2, 10, 12]);
        let mut flipped = three.clone();
        flipped[line(1).len() + 12] ^= 1;
        let (found, scan) = rows(&flipped, None);
        assert_eq!((found, scan.damaged_bytes, scan.tail_bytes), (vec![1, 10], line(2).len() as u64, 0));
        let zeros = [three.as_slice(), &[0; 10_000], b"\n", &line(11)].concat();
        assert_eq!(rows(&zeros, None).0, [1, 2, 10, 11]);
        assert_eq!(rows(&[line(2), line(2), line(1), line(3)].concat(), None).0, [2, 3]);
        assert_eq!(rows(b"", Some(7)), (vec![], Scan::default()));
        assert_eq!(rows(&[line(1), line(u64::MAX), line(2)].concat(), None).0, [1, 2]);
        for text in ["00000000 {\"row\":1}", "{\"row\":1}", "xyz", "", "\u{e9}"] {
            assert_eq!(unframe(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_shortest_line_is_as_long_as_stated() {
        assert_eq!(frame("{\"row\":1}").len() as u64, SHORTEST_LINE_BYTES);
    }
}
