//! `dmesg` of bootchart2: initcalls, when the kernel was booted with `initcall_debug printk.time=1`.

use std::io::Read;

use crate::model::Span;
use crate::read::lines::{Lines, readable, saturate};
use crate::read::{Notes, ReadError};

/// An initcall that returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initcall {
    /// The function, without its offset.
    pub name: String,
    /// When.
    pub span: Span,
    /// How long, as the kernel measured it.
    pub took_us: u64,
}

/// The initcalls in the order of their return.
///
/// # Errors
/// Read errors, and too many of them.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<Vec<Initcall>, ReadError> {
    let mut lines = Lines::new(input);
    let mut initcalls = Vec::new();
    while let Some((_, line)) = lines.next().map_err(|cause| notes.read_failed(cause))? {
        let Some(initcall) = std::str::from_utf8(line).ok().and_then(initcall) else { continue };
        initcalls.push(initcall);
        if initcalls.len() > notes.limits.processes {
            return Err(notes.too_many("initcalls", notes.limits.processes));
        }
    }
    Ok(initcalls)
}

/// `[    0.039993] initcall migration_init+0x0/0x6b returned 1 after 0 usecs`, with the caller's number after the time
/// (CONFIG_PRINTK_CALLER) or a level before it.
fn initcall(line: &str) -> Option<Initcall> {
    let (seconds, rest) = line.split_once('[')?.1.split_once(']')?;
    let end_us = microseconds(seconds.trim())?;
    let rest = rest.split_once("initcall ")?.1;
    let (function, rest) = rest.split_once(' ')?;
    let (_, rest) = rest.split_once(" after ").filter(|(before, _)| before.starts_with("returned"))?;
    let took_us: u64 = rest.split_once(' ').filter(|(_, unit)| unit.starts_with("usecs"))?.0.parse().ok()?;
    let name = function.split_once('+').map_or(function, |(name, _)| name);
    let start_us = end_us.saturating_sub(took_us);
    let span = Span::new(saturate(start_us / 1000), saturate(end_us / 1000));
    Some(Initcall { name: readable(name).into_owned(), span, took_us })
}

fn microseconds(seconds: &str) -> Option<u64> {
    let (whole, fraction) = seconds.split_once('.')?;
    let digits: String = fraction.chars().chain("000000".chars()).take(6).collect();
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(digits.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    #[test]
    fn initcalls_end_where_they_return() {
        let table = [
            (
                "[    0.139993] initcall pci_init+0x0/0x6b returned 0 after 40000 usecs",
                Some(("pci_init", 99, 139, 40_000)),
            ),
            (
                "<6>[    1.5][    T1] initcall acpi_init+0x0/0x1 returned -19 after 7 usecs",
                Some(("acpi_init", 1499, 1500, 7)),
            ),
            ("[    0.000001] initcall early+0x0/0x1 returned 0 after 900 usecs", Some(("early", 0, 0, 900))),
            ("[    0.039993] calling  migration_init+0x0/0x6b @ 1", None),
            ("[    0.x] initcall a returned 0 after 1 usecs", None),
            ("initcall a returned 0 after 1 usecs", None),
            ("[ 99999999999999999999.0] initcall a returned 0 after 1 usecs", None),
        ];
        for (line, expected) in table {
            let found = initcall(line);
            let found = found.as_ref().map(|i| (i.name.as_str(), i.span.start_ms, i.span.end_ms, i.took_us));
            assert_eq!(found, expected, "{line}");
        }
        let text = table.map(|(line, _)| line).join("\n");
        let (mut omissions, limits) = (Vec::new(), Limits::default());
        let notes = &mut Notes::new("dmesg", &mut omissions, &limits);
        assert_eq!(parse(text.as_bytes(), notes).unwrap().len(), 3);
    }
}
