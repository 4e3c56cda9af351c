//! One device, from the connection to the removal of everything that was copied.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::RemoteError;
use super::program::{Programs, architecture};
use super::target::Target;
use super::{results, script};

/// The most bytes of output that are kept.
const MAX_OUTPUT_BYTES: u64 = 16 << 20;
/// The most bytes of a message.
const MAX_LINE_BYTES: u64 = 4096;
/// How long brisk may take to revert its changes on the device, and a removal.
const REVERT_TIMEOUT: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(20);

/// What is run on a device.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The programs at hand.
    pub programs: &'a Programs,
    /// Files that are copied as well: their names there, and where they are here.
    pub files: &'a [(String, PathBuf)],
    /// brisk's arguments.
    pub words: &'a [String],
    /// The empty folder for results, if the job has any.
    pub results: Option<&'a Path>,
}

/// How a job ended.
#[derive(Debug)]
pub struct Ended {
    /// brisk's exit status: 0, 1, 2 or 69.
    pub status: u8,
    /// brisk's standard output.
    pub output: Vec<u8>,
    /// Whether results were fetched.
    pub has_results: bool,
}

/// Runs `job` on the device `target`, and removes from there whatever was copied, however the job ends. Each of brisk's
/// messages is passed to `say`, on another thread. `interrupted` ends the job early: brisk is told to revert its changes first.
///
/// # Errors
/// When the device cannot be used, or something was left there.
pub fn run(
    target: &Target,
    job: Job<'_>,
    interrupted: &AtomicBool,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Ended, RemoteError> {
    let session = Session { target, interrupted, limit: None };
    let place = session.short("make a temporary folder", &script::prepare(target), Stdio::null())?;
    let said = String::from_utf8_lossy(&place).into_owned();
    let (machine, folder) = script::prepared(&place).ok_or_else(|| {
        let said = format!("{:?} is no answer to that; its login shell must print nothing by itself", brief(&said));
        session.failed("make a temporary folder", said)
    })?;
    let ended = session.run(&job, architecture(&machine), &folder, say);
    // Even an interrupted session removes what it has copied.
    let removing =
        Session { target, interrupted: &AtomicBool::new(false), limit: Some(Instant::now() + REVERT_TIMEOUT) };
    match removing.short("remove it", &script::remove(&folder), Stdio::null()) {
        Ok(_) => ended,
        Err(error) => {
            let said = if let RemoteError::Step { said, .. } = error { said } else { error.to_string() };
            let first = ended.err().map(Box::new);
            Err(RemoteError::Left { target: target.clone(), folder, said, first })
        }
    }
}

struct Session<'a> {
    target: &'a Target,
    interrupted: &'a AtomicBool,
    /// When a step is given up.
    limit: Option<Instant>,
}

impl Session<'_> {
    fn run(
        &self,
        job: &Job<'_>,
        architecture: &str,
        folder: &str,
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<Ended, RemoteError> {
        let no_program =
            || RemoteError::NoProgram { target: self.target.clone(), architecture: architecture.to_owned() };
        self.copy(job.programs.of(architecture).ok_or_else(no_program)?, folder, "brisk")?;
        for (name, path) in job.files {
            self.copy(path, folder, name)?;
        }
        let (output, status) = self.measure(folder, job.words, say)?;
        if ![0, 1, 2, 69].contains(&status) {
            return Err(RemoteError::Ended { target: self.target.clone(), status });
        }
        let has_results = match job.results {
            Some(into) => self.exchange("fetch the results", &script::fetch(folder), Stdio::null(), |mut stdout| {
                let found = results::unpack(&mut stdout, into)?;
                // The archive's end may be followed by padding.
                io::copy(&mut stdout.take(MAX_OUTPUT_BYTES), &mut io::sink())?;
                Ok(found)
            })?,
            None => false,
        };
        Ok(Ended { status, output, has_results })
    }

    fn copy(&self, path: &Path, folder: &str, name: &str) -> Result<(), RemoteError> {
        let fault = |source| RemoteError::File { operation: "read", path: path.to_owned(), source };
        let file = File::open(path).map_err(fault)?;
        let size = file.metadata().map_err(fault)?.len();
        let step = format!("copy {} to {folder}", path.display());
        self.short(&step, &script::store(folder, name, size), file.into()).map(drop)
    }

    /// Runs brisk; returns its output and its status.
    fn measure(
        &self,
        folder: &str,
        words: &[String],
        say: &(dyn Fn(&str) + Sync),
    ) -> Result<(Vec<u8>, u8), RemoteError> {
        let mut child = self.spawn(&script::run(folder, words), Stdio::piped())?;
        let mut lifeline = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let mut output = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                // What is lost here lacks its last line, which is noticed below.
                let _ = stdout.map(|stdout| stdout.take(MAX_OUTPUT_BYTES).read_to_end(&mut output));
            });
            scope.spawn(|| stderr.map(|stderr| each_line(stderr, say)));
            let mut limit = None;
            while !has_ended(&mut child) {
                if self.interrupted.load(Ordering::Relaxed) && lifeline.take().is_some() {
                    limit = Some(Instant::now() + REVERT_TIMEOUT);
                }
                if limit.is_some_and(|limit| Instant::now() > limit) {
                    kill(&mut child);
                }
                thread::sleep(POLL);
            }
        });
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(RemoteError::Interrupted { target: self.target.clone() });
        }
        let lost = || RemoteError::Lost { target: self.target.clone() };
        let (said, status) = script::ending(&output).ok_or_else(lost)?;
        Ok((said.to_vec(), status))
    }

    /// A step whose output is short.
    fn short(&self, step: &str, script: &str, input: Stdio) -> Result<Vec<u8>, RemoteError> {
        self.exchange(step, script, input, |stdout| {
            let mut output = Vec::new();
            stdout.take(MAX_LINE_BYTES).read_to_end(&mut output)?;
            Ok(output)
        })
    }

    /// Runs `script` on the device, passes its output to `consume`, and fails with what was said if it fails.
    fn exchange<T: Send>(
        &self,
        step: &str,
        script: &str,
        input: Stdio,
        consume: impl FnOnce(ChildStdout) -> io::Result<T> + Send,
    ) -> Result<T, RemoteError> {
        let mut child = self.spawn(script, input)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut found, mut said) = (None, String::new());
        thread::scope(|scope| {
            scope.spawn(|| found = stdout.map(consume));
            scope.spawn(|| said = stderr.map(text_of).unwrap_or_default());
            while !has_ended(&mut child) {
                let is_late = self.limit.is_some_and(|limit| Instant::now() > limit);
                if is_late || self.interrupted.load(Ordering::Relaxed) {
                    kill(&mut child);
                }
                thread::sleep(POLL);
            }
        });
        if self.interrupted.load(Ordering::Relaxed) {
            return Err(RemoteError::Interrupted { target: self.target.clone() });
        }
        match (child.wait(), found) {
            (Ok(status), Some(Ok(found))) if status.success() => Ok(found),
            (Ok(_), Some(Err(error))) if said.is_empty() || error.kind() == io::ErrorKind::InvalidData => {
                Err(self.failed(step, error.to_string()))
            }
            (Ok(status), _) if said.is_empty() => Err(self.failed(step, status.to_string())),
            (Ok(_), _) => Err(self.failed(step, said)),
            (Err(error), _) => Err(self.failed(step, error.to_string())),
        }
    }

    fn failed(&self, step: &str, said: String) -> RemoteError {
        RemoteError::Step { target: self.target.clone(), step: step.to_owned(), said }
    }

    /// Starts the client in a process group of its own, so that ^C on the terminal reaches only this program, which ends the
    /// job in order.
    fn spawn(&self, script: &str, input: Stdio) -> Result<Child, RemoteError> {
        let (program, package) = self.target.client();
        let mut command = Command::new(program);
        command.args(self.target.arguments(script)).process_group(0);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|source| RemoteError::Client { program, package, source })
    }
}

/// Whether `child` has ended. An error means that there is nothing to wait for.
fn has_ended(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// Kills the client with the programs that it has started, such as a jump host's.
fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself just now.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Passes each line to `say`, in parts if it is very long.
fn each_line(stderr: ChildStderr, say: &(dyn Fn(&str) + Sync)) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    while (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
        say(&printable(&line));
        line.clear();
    }
}

/// The last lines of what a client and a device said.
fn text_of(stderr: ChildStderr) -> String {
    let mut bytes = Vec::new();
    let _ = stderr.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
    let lines: Vec<String> = bytes.split(|&byte| byte == b'\n').map(printable).filter(|it| !it.is_empty()).collect();
    brief(&lines[lines.len().saturating_sub(3)..].join("; "))
}

/// A line without what a terminal would obey.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.trim_end().chars().map(|it| if it.is_control() { '\u{fffd}' } else { it }).collect()
}

fn brief(text: &str) -> String {
    text.chars().take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_words_do_not_reach_the_terminal_as_commands() {
        for (line, expected) in [
            (&b"brisk: \x1b[2Jgone\r\n"[..], "brisk: \u{fffd}[2Jgone"),
            (b"\xff\n", "\u{fffd}"),
            ("grün\t1\n".as_bytes(), "grün\u{fffd}1"),
            (b"\n", ""),
        ] {
            assert_eq!(printable(line), expected);
        }
    }
}
