//! A running application: `brisk application`, tapped through its standard input.

use std::io::{Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use brisk_sys::{BootTime, Root};

/// This program, whatever its file is called. As an application it takes the application's name.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// How a tap ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TapOutcome {
    /// The screen that answers the tap.
    Screen(Screen),
    /// The application has exited before its screen.
    Ended,
    /// There was no screen within the limit.
    Late,
}

/// A screen that an application showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) at: BootTime,
    /// The total time of its lookups.
    pub(super) lookup_time: Duration,
    /// Their median.
    pub(super) median_lookup: Duration,
}

/// A running application; dropping it kills it.
#[derive(Debug)]
pub(super) struct ApplicationProcess {
    child: Child,
    stdout: ChildStdout,
    output: String,
    /// The number of the expected screen.
    expected: u32,
}

/// An application that can be started.
pub(super) enum PreparedApplication {
    /// The runner starts it itself.
    Own(Command),
    /// Its launcher has finished and left a process that waits for a command: the launcher's time is not the application's.
    Held(ApplicationProcess),
}

impl PreparedApplication {
    /// Prepares the application with `arguments`, through `launcher` where that has words.
    pub(super) fn prepare(launcher: &[String], arguments: &[String]) -> anyhow::Result<Self> {
        let Some((program, words)) = launcher.split_first() else {
            let mut command = Command::new(OWN_PROGRAM);
            command.arg("application").args(arguments);
            return Ok(Self::Own(command));
        };
        // By its path: in the launcher, /proc/self/exe is the launcher.
        let own = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        command.args(words).arg(own).args(["application", "--held"]).args(arguments);
        let mut actor = ApplicationProcess::spawn(&mut command)?;
        while !actor.output.ends_with('\n') {
            if !actor.read_output()? {
                bail!("{program} started no application; see its message on stderr");
            }
        }
        actor.output.clear();
        Ok(Self::Held(actor))
    }

    /// Starts it.
    pub(super) fn open(self) -> anyhow::Result<ApplicationProcess> {
        match self {
            Self::Own(mut command) => ApplicationProcess::spawn(&mut command),
            Self::Held(mut actor) => {
                // If it was killed meanwhile, waiting for its screen shows that.
                if let Some(taps) = &mut actor.child.stdin {
                    let _ = taps.write_all(b"open\n");
                }
                Ok(actor)
            }
        }
    }
}

impl ApplicationProcess {
    fn spawn(command: &mut Command) -> anyhow::Result<Self> {
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.context("cannot start an application")?;
        let stdout = child.stdout.take().context("the application has no stdout")?;
        Ok(Self { child, stdout, output: String::new(), expected: 0 })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn set_oom_score_adj(&self, root: &Root, adj: i16) -> anyhow::Result<()> {
        match root.write(format!("/proc/{}/oom_score_adj", self.child.id()), &adj.to_string()) {
            // It has just been killed.
            Err(error) if error.is_missing() => Ok(()),
            other => Ok(other?),
        }
    }

    /// The user taps it.
    pub(super) fn resume(&mut self) {
        self.expected += 1;
        // If it was killed meanwhile, waiting for its screen shows that.
        if let Some(taps) = &mut self.child.stdin {
            let _ = taps.write_all(b"resume\n");
        }
    }

    /// Waits for the screen that answers the last tap, until `limit`.
    pub(super) fn screen(&mut self, limit: BootTime) -> anyhow::Result<TapOutcome> {
        loop {
            while let Some((line, rest)) = self.output.split_once('\n') {
                let screen = parse(line);
                self.output = rest.to_owned();
                match screen {
                    Some((number, at)) if number == self.expected => return Ok(TapOutcome::Screen(at)),
                    // A late screen of an earlier tap.
                    Some(_) => {}
                    None => bail!("an application printed something other than a screen"),
                }
            }
            let mut wanted = [PollFd::new(&self.stdout, PollFlags::IN)];
            let left = Timespec::try_from(limit.since(BootTime::now())).ok();
            match poll(&mut wanted, left.as_ref()) {
                Ok(0) => return Ok(TapOutcome::Late),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !self.read_output()? {
                return Ok(TapOutcome::Ended);
            }
        }
    }

    /// Waits for output; false when it has exited.
    fn read_output(&mut self) -> anyhow::Result<bool> {
        let mut bytes = [0; 256];
        let count = self.stdout.read(&mut bytes)?;
        self.output.push_str(&String::from_utf8_lossy(&bytes[..count]));
        Ok(count > 0)
    }

    /// Waits until it has exited, and returns how much memory it had got.
    pub(super) fn grown_kib(mut self) -> anyhow::Result<u64> {
        let mut said = String::new();
        self.stdout.read_to_string(&mut said)?;
        self.child.wait()?;
        let last = said.lines().rev().find_map(|line| line.strip_prefix("grown ")?.parse().ok());
        last.context("the application did not report how much it got")
    }

    pub(super) fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }
}

/// `screen N AT LOOKED_UP MEDIAN`
fn parse(line: &str) -> Option<(u32, Screen)> {
    let mut words = line.strip_prefix("screen ")?.split(' ');
    let mut number = || words.next()?.parse::<u64>().ok();
    let (screen, at) = (u32::try_from(number()?).ok()?, BootTime::from_nanoseconds(number()?));
    let [lookup_time, median_lookup] = [number()?, number()?].map(Duration::from_nanos);
    words.next().is_none().then_some((screen, Screen { at, lookup_time, median_lookup }))
}

impl Drop for ApplicationProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_lines_are_parsed() {
        let [lookup_time, median_lookup] = [70, 9].map(Duration::from_nanos);
        let screen = Screen { at: BootTime::from_nanoseconds(5000), lookup_time, median_lookup };
        assert_eq!(parse("screen 3 5000 70 9"), Some((3, screen)));
        for line in ["", "screen", "screen 3", "screen 3 5 7", "screen x 5 7 9", "scream 3 5 7 9", "screen 3 5 7 9 9"] {
            assert_eq!(parse(line), None, "{line:?}");
        }
    }
}
