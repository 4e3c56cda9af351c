//! `cmdline2.log` of bootchart2: for every exec(2) the PID, `:` and the program, `:` and its arguments, each ended by a
//! zero byte; then an empty line.

use std::collections::HashMap;
use std::io::Read;

use crate::read::lines::{Lines, number, readable};
use crate::read::{Notes, ReadError};

/// The longest part of a command line that is kept.
const COMMAND_LIMIT_BYTES: usize = 1024;

/// The last command line of each PID.
///
/// # Errors
/// Read errors, and too many of them.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<HashMap<u32, String>, ReadError> {
    let mut lines = Lines::new(input);
    let mut commands = HashMap::new();
    let (mut pid, mut program) = (None, String::new());
    while let Some((line_number, line)) = lines.next().map_err(|cause| notes.read_failed(cause))? {
        if let Some(text) = line.strip_prefix(b":") {
            match pid {
                Some(_) if program.is_empty() && !text.is_empty() => program = words(text),
                Some(pid) => {
                    let arguments = words(text);
                    let command = if arguments.is_empty() { std::mem::take(&mut program) } else { arguments };
                    commands.insert(pid, command);
                    if commands.len() > notes.limits.processes {
                        return Err(notes.too_many("command lines", notes.limits.processes));
                    }
                    program.clear();
                }
                None => notes.add_omission("a command line without a PID is left out", line_number),
            }
        } else if let Some(found) = number(line).and_then(|pid| u32::try_from(pid).ok()) {
            (pid, program) = (Some(found), String::new());
        } else if line.iter().all(|byte| *byte == 0) {
            pid = None;
        } else {
            notes.add_omission("a torn or unknown line is left out", line_number);
        }
    }
    Ok(commands)
}

fn words(text: &[u8]) -> String {
    let text = &text[..text.len().min(COMMAND_LIMIT_BYTES)];
    let words = String::from_utf8_lossy(text);
    let words = words.split('\0').filter(|word| !word.is_empty()).map(readable);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    #[test]
    fn the_last_command_line_of_a_pid_is_kept() {
        let text = "7\n:/bin/sh\n:sh\0-c\0x y\0\n\n9\n:/bin/ls\n:\n\n7\n:/bin/true\n:true\0\n\n:lost\nx\n";
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let commands = parse(text.as_bytes(), &mut Notes::new("cmdline2.log", &mut omissions, &limits)).unwrap();
        assert_eq!((commands[&7].as_str(), commands[&9].as_str(), commands.len()), ("true", "/bin/ls", 2));
        let omissions: Vec<_> = omissions.iter().map(ToString::to_string).collect();
        assert_eq!(
            omissions,
            [
                "cmdline2.log:13: a command line without a PID is left out",
                "cmdline2.log:14: a torn or unknown line is left out"
            ]
        );
    }
}
