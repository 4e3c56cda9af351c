//! `cpufreq.log`: each timed block has a line per CPU, `cpuN CURRENT MAXIMUM`, in kHz, from `scaling_cur_freq` and
//! `cpuinfo_max_freq`.

use std::collections::BTreeMap;
use std::io::Read;

use crate::read::blocks;
use crate::read::lines::{Fields, number, saturate};
use crate::read::{Notes, ReadError};

/// One CPU's frequencies.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Frequencies {
    /// Changes only: time in ms, and frequency in kHz from then on.
    pub changes: Vec<(u32, u32)>,
    /// The highest, in kHz.
    pub maximum_khz: u32,
}

/// The frequencies by CPU number.
///
/// # Errors
/// Read errors, and too many changes.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<BTreeMap<u32, Frequencies>, ReadError> {
    let mut cpus: BTreeMap<u32, Frequencies> = BTreeMap::new();
    let mut changes = 0;
    let (limits, file) = (notes.limits, notes.file);
    blocks::each_line(input, notes, |now_ms, line| {
        let Some((cpu, current_khz, maximum_khz)) = frequency(line) else { return Ok(false) };
        if cpu as usize >= limits.cores {
            return Ok(false);
        }
        let known = cpus.entry(cpu).or_default();
        known.maximum_khz = known.maximum_khz.max(maximum_khz).max(current_khz);
        if known.changes.last().is_none_or(|&(_, khz)| khz != current_khz) {
            known.changes.push((now_ms, current_khz));
            changes += 1;
        }
        if changes > limits.core_samples {
            return Err(ReadError::too_many(file, "frequencies", limits.core_samples));
        }
        Ok(true)
    })?;
    Ok(cpus)
}

fn frequency(line: &[u8]) -> Option<(u32, u32, u32)> {
    let mut fields = Fields::of(line.strip_prefix(b"cpu")?);
    let cpu = u32::try_from(number(fields.next()?)?).ok()?;
    Some((cpu, saturate(fields.number()?), saturate(fields.number()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    #[test]
    fn only_changes_are_kept() {
        let text = "10\ncpu0 200000 1200000\ncpu1 200000 1200000\n\n20\ncpu0 200000 1200000\n\n\
                    30\ncpu0 1200000 1200000\ncpu x\n";
        let (mut omissions, limits) = (Vec::new(), Limits::default());
        let notes = &mut Notes::new("cpufreq.log", &mut omissions, &limits);
        let cpus = parse(text.as_bytes(), notes).unwrap();
        assert_eq!(cpus[&0].changes, [(100, 200_000), (300, 1_200_000)]);
        assert_eq!((cpus[&1].changes.len(), cpus[&1].maximum_khz, omissions.len()), (1, 1_200_000, 1));
    }
}
