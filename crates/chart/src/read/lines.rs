//! Reads the lines of a log of any length in bounded memory.

use std::borrow::Cow;
use std::io::{self, Read};

use memchr::memchr;

pub use brisk_sys::fields::{Fields, number};

/// The size of one read.
const CHUNK_BYTES: usize = 256 * 1024;
/// A line longer than this is skipped: `intr` of a machine with thousands of interrupts is some 100 KB.
const LINE_LIMIT_BYTES: usize = 2 * 1024 * 1024;

/// Text of a log, safe to print: characters that could move a terminal's cursor or change its colours become `\u{1b}`.
pub fn text(bytes: &[u8]) -> String {
    readable(&String::from_utf8_lossy(bytes)).into_owned()
}

/// The same for text: control characters, except tabs, are escaped.
pub fn readable(text: &str) -> Cow<'_, str> {
    let is_control = |letter: char| letter.is_control() && letter != '\t';
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for letter in text.chars() {
        if is_control(letter) { shown.extend(letter.escape_unicode()) } else { shown.push(letter) }
    }
    Cow::Owned(shown)
}

/// The lines of `input`, without line ends.
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    number: u64,
    skipped: u64,
}

impl<R: Read> Lines<R> {
    /// Starts at the first line.
    pub fn new(input: R) -> Self {
        Self { input, buffer: vec![0; CHUNK_BYTES], start: 0, end: 0, number: 0, skipped: 0 }
    }

    /// The number of lines that were too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next line with its number, from 1; the last line may lack its end.
    ///
    /// # Errors
    /// Read errors.
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let mut searched = self.start;
        let mut too_long = false;
        loop {
            if let Some(length) = memchr(b'\n', &self.buffer[searched..self.end]) {
                let line = self.start..searched + length;
                self.start = line.end + 1;
                self.number += 1;
                if too_long {
                    (searched, too_long) = (self.start, false);
                    continue;
                }
                return Ok(Some((self.number, &self.buffer[line])));
            }
            if self.end - self.start > LINE_LIMIT_BYTES {
                self.end = self.start;
                self.skipped += u64::from(!too_long);
                too_long = true;
            }
            searched = self.fill()?;
            if searched == self.end {
                let line = self.start..self.end;
                self.start = self.end;
                self.number += u64::from(!line.is_empty());
                return Ok((!line.is_empty() && !too_long).then(|| (self.number, &self.buffer[line])));
            }
        }
    }

    /// Reads more data behind the buffered bytes and returns its offset.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end * 2, 0);
        }
        let before = self.end;
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(length) => {
                    self.end += length;
                    return Ok(before);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Converts with saturation.
pub fn saturate(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns a few bytes at a time, as pipes do.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = self.1.min(self.0.len()).min(buffer.len());
            buffer[..length].copy_from_slice(&self.0[..length]);
            self.0 = &self.0[length..];
            Ok(length)
        }
    }

    fn all(input: impl Read) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(input);
        let mut found = Vec::new();
        while let Some((number, line)) = lines.next().unwrap() {
            found.push(line.to_vec());
            assert_eq!(number, found.len() as u64);
        }
        found
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_library(text in "[ab\n]{0,200}", step in 1usize..9) {
            let expected: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            prop_assert_eq!(all(Dribble(text.as_bytes(), step)), expected);
        }
    }

    #[test]
    fn a_line_beyond_the_limit_is_skipped_and_counted() {
        let mut text = b"one\n".to_vec();
        text.extend(std::iter::repeat_n(b'x', 3 * LINE_LIMIT_BYTES));
        text.extend(b"\ntwo\n");
        let mut lines = Lines::new(text.as_slice());
        assert_eq!(lines.next().unwrap(), Some((1, &b"one"[..])));
        assert_eq!(lines.next().unwrap(), Some((3, &b"two"[..])));
        assert_eq!(lines.next().unwrap(), None);
        assert_eq!(lines.skipped(), 1);
        assert!(lines.buffer.len() <= 2 * (LINE_LIMIT_BYTES + CHUNK_BYTES), "{}", lines.buffer.len());
    }
}
