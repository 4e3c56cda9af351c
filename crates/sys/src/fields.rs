//! The fields of a line of /proc, as bytes: names in it need not be UTF-8, and thousands of lines are parsed per second.

/// The fields of a line, separated by blanks.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The fields of `line`.
    pub fn of(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// The next field as a number; `None` when there is none or it is not a number. A negative number becomes 0: the kernel's
    /// counters are not negative, and fields that can be (priorities) are not read.
    pub fn number(&mut self) -> Option<u64> {
        let field = self.next()?;
        if field[0] == b'-' { number(&field[1..]).map(|_| 0) } else { number(field) }
    }

    /// Skips `count` fields.
    pub fn skip_fields(&mut self, count: usize) -> Option<()> {
        for _ in 0..count {
            self.next()?;
        }
        Some(())
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
        let start = self.rest.iter().position(|byte| !is_blank(byte))?;
        let rest = &self.rest[start..];
        let length = rest.iter().position(is_blank).unwrap_or(rest.len());
        let (field, rest) = rest.split_at(length);
        self.rest = rest;
        Some(field)
    }
}

/// A decimal number that consists of digits only; one that does not fit saturates.
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(u64::from(digit));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_split_as_in_the_standard_library(text in "[0-9 \t-]{0,60}") {
            let fields: Vec<&[u8]> = Fields::of(text.as_bytes()).collect();
            let expected: Vec<&[u8]> = text.split_ascii_whitespace().map(str::as_bytes).collect();
            prop_assert_eq!(fields, expected);
        }
    }

    #[test]
    fn numbers_have_digits_only_and_never_overflow() {
        for (text, expected) in [
            ("0", Some(0)),
            ("18446744073709551616", Some(u64::MAX)),
            ("-1", None),
            ("", None),
            ("1x", None),
            ("007", Some(7)),
        ] {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(Fields::of(b" 3 -4 x").number(), Some(3));
        assert_eq!(Fields::of(b"-4 x").number(), Some(0));
        assert_eq!(Fields::of(b"x").number(), None);
    }
}
