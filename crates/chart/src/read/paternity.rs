//! `paternity.log` of bootchart2: a line per fork, with the child and its parent.

use std::collections::HashMap;
use std::io::Read;

use super::lines::{Fields, Lines};
use super::{Notes, ReadError};

/// The last parent of each PID.
///
/// # Errors
/// Read errors, and too many of them.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<HashMap<u32, u32>, ReadError> {
    let mut lines = Lines::new(input);
    let mut parents = HashMap::new();
    while let Some((line_number, line)) = lines.next().map_err(|cause| notes.read_failed(cause))? {
        let mut fields = Fields::of(line);
        let mut pid = || fields.number().and_then(|pid| u32::try_from(pid).ok());
        match (pid(), pid()) {
            (Some(child), Some(parent)) => {
                parents.insert(child, parent);
                if parents.len() > notes.limits.processes {
                    return Err(notes.too_many("parents", notes.limits.processes));
                }
            }
            _ if line.is_empty() => {}
            _ => notes.add_omission("a torn or unknown line is left out", line_number),
        }
    }
    Ok(parents)
}

#[cfg(test)]
mod tests {
    use super::super::Limits;
    use super::*;

    #[test]
    fn the_last_parent_of_a_pid_is_kept() {
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let notes = &mut Notes::new("paternity.log", &mut omissions, &limits);
        let parents = parse("2 1\n3 2\n2 3\n9\n".as_bytes(), notes).unwrap();
        assert_eq!((parents[&2], parents[&3], parents.len()), (3, 2, 2));
        assert_eq!(omissions[0].to_string(), "paternity.log:4: a torn or unknown line is left out");
    }
}
