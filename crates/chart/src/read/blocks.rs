//! Timed blocks: a line with the time in hundredths of a second, then lines of data, then an empty line.

use std::io::Read;

use super::lines::{Lines, number, saturate};
use super::{Notes, ReadError};

/// The next item of a timed log.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A block begins, at this many milliseconds since the kernel started.
    Time(u32),
    /// A line of data of the block.
    Line(&'a [u8]),
}

/// A block whose clock is this far ahead of the previous block is from another boot, or garbage.
const CLOCK_LIMIT_MS: u32 = 30 * 24 * 3600 * 1000;

/// Passes every line of data to `take`, with the time of its block in milliseconds; otherwise as [`each`].
///
/// # Errors
/// Read errors.
pub fn each_line(
    input: impl Read,
    notes: &mut Notes<'_>,
    mut take: impl FnMut(u32, &[u8]) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let mut now_ms = 0;
    each(input, notes, &mut |item| match item {
        Item::Time(time_ms) => {
            now_ms = time_ms;
            Ok(true)
        }
        Item::Line(line) => take(now_ms, line),
    })
}

/// Passes every time and line of `input` to `take`, in order; data of blocks whose time cannot be used is left out. `take`
/// returns `false` for a line that it cannot use.
///
/// # Errors
/// Read errors.
pub fn each(
    input: impl Read,
    notes: &mut Notes<'_>,
    take: &mut dyn FnMut(Item<'_>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let mut lines = Lines::new(input);
    let mut last_ms = None;
    let mut expects_time = true;
    let mut usable = false;
    while let Some((line_number, line)) = lines.next().map_err(|cause| notes.read_failed(cause))? {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            expects_time = true;
            continue;
        }
        // A data line is never a single number, so a time is recognised even where a torn write lost the empty line.
        let time = number(line.trim_ascii()).filter(|_| line.len() < 20);
        if let Some(hundredths) = time {
            let time_ms = saturate(hundredths.saturating_mul(10));
            expects_time = false;
            usable = match last_ms {
                Some(last_ms) if time_ms < last_ms => {
                    notes.add_omission("the clock goes backwards: the block is left out", line_number);
                    false
                }
                Some(last_ms) if time_ms == last_ms => {
                    notes.add_omission("two blocks have the same time: the second is left out", line_number);
                    false
                }
                Some(last_ms) if time_ms - last_ms > CLOCK_LIMIT_MS => {
                    notes.add_omission("the clock jumps by more than a month: the block is left out", line_number);
                    false
                }
                _ => true,
            };
            if usable {
                last_ms = Some(time_ms);
                take(Item::Time(time_ms))?;
            }
            continue;
        }
        if expects_time {
            // Some lists of processes or disks contain an empty line; the block continues.
            expects_time = false;
            if last_ms.is_none() {
                notes.add_omission("data before the first time is left out", line_number);
            }
        }
        if usable && !take(Item::Line(line))? {
            notes.add_omission("a torn or unknown line is left out", line_number);
        }
    }
    if lines.skipped() > 0 {
        notes.add_omission("a line of more than 2 MiB is left out", 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    fn items(text: &str) -> (Vec<String>, Vec<String>) {
        let (mut found, mut omissions) = (Vec::new(), Vec::new());
        let limits = Limits::default();
        each(text.as_bytes(), &mut Notes::new("log", &mut omissions, &limits), &mut |item| {
            let line = match item {
                Item::Time(ms) => ms.to_string(),
                Item::Line(line) => String::from_utf8_lossy(line).into_owned(),
            };
            let usable = !line.contains("torn");
            found.push(line);
            Ok(usable)
        })
        .unwrap();
        (found, omissions.iter().map(ToString::to_string).collect())
    }

    // Verifies CHART-1.
    #[test]
    fn blocks_are_separated_even_if_damaged() {
        let table: [(&str, &[&str], &[&str]); 7] = [
            ("10\na 1\nb 2\n\n20\na 3\n\n", &["100", "a 1", "b 2", "200", "a 3"], &[]),
            ("10\r\na 1\r\n\r\n20\r\na 3", &["100", "a 1", "200", "a 3"], &[]),
            ("10\na 1\n20\na 3", &["100", "a 1", "200", "a 3"], &[]),
            ("x y\n10\na 1", &["100", "a 1"], &["log:1: data before the first time is left out"]),
            (
                "20\na 1\n\n10\nb 1\n\n30\nc 1\n",
                &["200", "a 1", "300", "c 1"],
                &["log:4: the clock goes backwards: the block is left out"],
            ),
            (
                "1\na torn\n\n2\nb torn",
                &["10", "a torn", "20", "b torn"],
                &["log:2: a torn or unknown line is left out (2 times)"],
            ),
            ("", &[], &[]),
        ];
        for (text, expected, omissions) in table {
            let (found, left_out) = items(text);
            assert_eq!(found, expected, "{text:?}");
            assert_eq!(left_out, omissions, "{text:?}");
        }
    }
}
