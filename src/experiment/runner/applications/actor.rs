//! One application that runs: `brisk application`, tapped through its standard input.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::device::{BootTime, Root};

/// How a tap ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The screen that answers it was there at this moment.
    Screen(BootTime),
    /// The application has ended before.
    Ended,
    /// Nothing came in time.
    Late,
}

/// A running application; dropping it kills it.
#[derive(Debug)]
pub(super) struct Actor {
    child: Child,
    screens: ChildStdout,
    heard: String,
    /// The screen that is waited for.
    expected: u32,
}

impl Actor {
    pub(super) fn start(program: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.arg("application").args(arguments);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start an application")?;
        let screens = child.stdout.take().context("the application has no stdout")?;
        Ok(Self { child, screens, heard: String::new(), expected: 0 })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn set_adj(&self, root: &Root, adj: i16) -> anyhow::Result<()> {
        match root.write(format!("/proc/{}/oom_score_adj", self.child.id()), &adj.to_string()) {
            // It has just been killed.
            Err(error) if error.is_missing() => Ok(()),
            other => Ok(other?),
        }
    }

    /// A person taps it.
    pub(super) fn resume(&mut self) {
        self.expected += 1;
        // One that has been killed meanwhile is noticed when its screen is waited for.
        if let Some(taps) = &mut self.child.stdin {
            let _ = taps.write_all(b"resume\n");
        }
    }

    /// Waits for the screen that answers the last tap, until `limit`.
    pub(super) fn screen(&mut self, limit: BootTime) -> anyhow::Result<Answer> {
        loop {
            while let Some((line, rest)) = self.heard.split_once('\n') {
                let screen = parse(line);
                self.heard = rest.to_owned();
                match screen {
                    Some((number, at)) if number == self.expected => return Ok(Answer::Screen(at)),
                    // A screen that came too late for an earlier tap.
                    Some(_) => {}
                    None => bail!("an application said something else than a screen"),
                }
            }
            let mut wanted = [PollFd::new(&self.screens, PollFlags::IN)];
            let left = Timespec::try_from(limit.since(BootTime::now())).ok();
            match poll(&mut wanted, left.as_ref()) {
                Ok(0) => return Ok(Answer::Late),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut bytes = [0; 256];
            match self.screens.read(&mut bytes)? {
                0 => return Ok(Answer::Ended),
                count => self.heard.push_str(&String::from_utf8_lossy(&bytes[..count])),
            }
        }
    }

    /// Waits until it has ended, and says how much memory it had got by then.
    pub(super) fn grown_kib(mut self) -> anyhow::Result<u64> {
        let mut said = String::new();
        self.screens.read_to_string(&mut said)?;
        self.child.wait()?;
        let last = said.lines().rev().find_map(|line| line.strip_prefix("grown ")?.parse().ok());
        last.context("the application has not said how much it got")
    }

    pub(super) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

/// `screen N AT`
fn parse(line: &str) -> Option<(u32, BootTime)> {
    let (number, at) = line.strip_prefix("screen ")?.split_once(' ')?;
    Some((number.parse().ok()?, BootTime::from_nanoseconds(at.parse().ok()?)))
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screens_are_understood() {
        assert_eq!(parse("screen 3 5000"), Some((3, BootTime::from_nanoseconds(5000))));
        for line in ["", "screen", "screen 3", "screen x 5", "scream 3 5"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
