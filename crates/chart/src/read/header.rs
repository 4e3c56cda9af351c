//! `header`: lines of `key = value`; a line without an equals sign continues the value.

use std::io::Read;

use super::lines::{Lines, text};
use super::{Notes, ReadError};

/// More lines than any recorder writes.
const LINE_LIMIT: usize = 1000;
/// A value is a line or two.
const VALUE_LIMIT_BYTES: usize = 16 * 1024;

/// The keys and values in their order.
///
/// # Errors
/// Read errors.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<Vec<(String, String)>, ReadError> {
    let mut lines = Lines::new(input);
    let mut header: Vec<(String, String)> = Vec::new();
    while let Some((line_number, line)) = lines.next().map_err(|cause| notes.read_failed(cause))? {
        let line = text(line);
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let key = line.split_once('=').filter(|(key, _)| is_key(key.trim()));
        let count = header.len();
        match (key, header.last_mut()) {
            (Some((key, value)), _) if count < LINE_LIMIT => {
                header.push((key.trim().to_owned(), value.trim().chars().take(VALUE_LIMIT_BYTES / 4).collect()));
            }
            // system.cpu repeats "model name : ..." for every CPU; the last one has their number.
            (None, Some((_, value))) if value.len() + line.len() < VALUE_LIMIT_BYTES => {
                value.push('\n');
                value.push_str(line);
            }
            _ => notes.add_omission("a line without a key is left out", line_number),
        }
    }
    Ok(header)
}

/// True for `system.kernel.options`, false for the middle of a kernel's command line.
fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    #[test]
    fn values_may_have_equals_signs_and_continue() {
        let text = "version = 0.8\n\nsystem.cpu = model name\t: X\nmodel name : X (2)\nsystem.kernel.options = root=/dev/sda quiet\n";
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let header = parse(text.as_bytes(), &mut Notes::new("header", &mut omissions, &limits)).unwrap();
        let expected = [
            ("version", "0.8"),
            ("system.cpu", "model name\t: X\nmodel name : X (2)"),
            ("system.kernel.options", "root=/dev/sda quiet"),
        ];
        assert_eq!(header, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert!(omissions.is_empty());
    }
}
