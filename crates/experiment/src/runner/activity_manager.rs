//! Android's activity manager, which the lab plays: it opens the application as a fork of its zygote.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::Signal;

use super::super::load::FirstScreen;
use super::APPLICATION;
use brisk_sys::process::parent_death;

/// Users of applications begin at 10000 (`AID_APP_START`).
const USER: u32 = 10_061;

/// A running activity manager; dropping it ends it and its applications.
pub(super) struct ActivityManager {
    child: Child,
    /// Its requests; it ends with them.
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl ActivityManager {
    pub(super) fn start(turns_per_ms: u64) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["lab", "activity-manager", "--turns-per-ms", &turns_per_ms.to_string()]);
        parent_death::die_with_parent(&mut command, Signal::TERM);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("cannot start the activity manager")?;
        let requests = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the activity manager has no stdout")?);
        Ok(Self { child, requests, answers })
    }

    /// Opens the application, and waits for its first screen.
    pub(super) fn open(&mut self, work_ms: u32) -> anyhow::Result<FirstScreen> {
        let requests = self.requests.as_mut().context("the activity manager has no stdin")?;
        writeln!(requests, "open {USER} {APPLICATION} {work_ms}").context("cannot ask the activity manager")?;
        let mut line = String::new();
        loop {
            line.clear();
            if self.answers.read_line(&mut line)? == 0 {
                bail!("the activity manager ended; see its message on stderr");
            }
            if let Some(screen) = first_screen(&line) {
                return Ok(screen);
            }
        }
    }
}

impl Drop for ActivityManager {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

/// The first screen, if the application has it: `launched NAME MOMENT LENGTH`.
fn first_screen(answer: &str) -> Option<FirstScreen> {
    let words: Vec<&str> = answer.split_whitespace().collect();
    let ["launched", APPLICATION, moment_ns, length_ns] = words[..] else { return None };
    Some(FirstScreen { first_screen_ns: moment_ns.parse().ok()?, generated_ns: length_ns.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_screen_is_one_answer_of_several() {
        let screen = FirstScreen { first_screen_ns: 5_000_000_000, generated_ns: 200_000_000 };
        for (answer, expected) in [
            ("launched application 5000000000 200000000\n", Some(screen)),
            ("opened application 117\n", None),
            ("launched another 5000000000 200000000\n", None),
            ("launched application 5000000000\n", None),
            ("", None),
        ] {
            assert_eq!(first_screen(answer), expected, "{answer}");
        }
    }
}
