//! `pressure.log`: each timed block has a line per resource, `io SOME FULL`: the microseconds since boot in which some tasks,
//! or all tasks, waited for it (the totals of /proc/pressure).

use std::io::Read;

use crate::model::{Pressure, PressureSample, Span};
use crate::read::blocks;
use crate::read::lines::Fields;
use crate::read::{Notes, ReadError};

/// The kernel has cpu, memory, io, and since Linux 6.1 irq.
const MAX_RESOURCES: usize = 8;

struct ResourceLog {
    pressure: Pressure,
    before: (u32, u64, u64),
}

/// Reads the log.
///
/// # Errors
/// Read errors, and too many samples.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<Vec<Pressure>, ReadError> {
    let mut known: Vec<ResourceLog> = Vec::new();
    let (limits, file) = (notes.limits, notes.file);
    blocks::each_line(input, notes, |now_ms, line| {
        let Some((name, some_us, full_us)) = totals(line) else { return Ok(false) };
        let now = (now_ms, some_us, full_us);
        let Some(one) = known.iter_mut().find(|one| one.pressure.name.as_bytes() == name) else {
            let name = String::from_utf8_lossy(name).into_owned();
            let has_room = known.len() < MAX_RESOURCES;
            if has_room {
                known.push(ResourceLog { pressure: Pressure { name, samples: Vec::new() }, before: now });
            }
            return Ok(has_room);
        };
        if one.pressure.samples.len() >= limits.samples {
            return Err(ReadError::too_many(file, "samples", limits.samples));
        }
        one.add(now);
        Ok(true)
    })?;
    Ok(known.into_iter().map(|one| one.pressure).filter(|pressure| !pressure.samples.is_empty()).collect())
}

impl ResourceLog {
    fn add(&mut self, now: (u32, u64, u64)) {
        let before = std::mem::replace(&mut self.before, now);
        let span = Span::new(before.0, now.0);
        let share = |now: u64, before: u64| {
            (now.saturating_sub(before) as f32 / 1000.0 / span.length_ms().max(1) as f32).min(1.0)
        };
        let (some, full) = (share(now.1, before.1), share(now.2, before.2));
        self.pressure.samples.push(PressureSample { span, some, full });
    }
}

fn totals(line: &[u8]) -> Option<(&[u8], u64, u64)> {
    let mut fields = Fields::of(line);
    let name = fields.next().filter(|name| name.len() <= 16 && name.iter().all(u8::is_ascii_lowercase))?;
    Some((name, fields.number()?, fields.number()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    #[test]
    fn shares_come_from_the_differences() {
        let text = "100\nio 1000 500\ncpu 0 0\n\n104\nio 21000 4500\ncpu 80000 0\nx\n\n108\nio 21000 4000\n";
        let (mut omissions, limits) = (Vec::new(), Limits::default());
        let found = parse(text.as_bytes(), &mut Notes::new("pressure.log", &mut omissions, &limits)).unwrap();
        let sample = |start_ms, end_ms, some, full| PressureSample { span: Span::new(start_ms, end_ms), some, full };
        let expected = [
            Pressure {
                name: "io".to_owned(),
                samples: vec![sample(1000, 1040, 0.5, 0.1), sample(1040, 1080, 0.0, 0.0)],
            },
            Pressure { name: "cpu".to_owned(), samples: vec![sample(1000, 1040, 1.0, 0.0)] },
        ];
        assert_eq!(found, expected);
        assert_eq!(omissions.len(), 1);
    }
}
