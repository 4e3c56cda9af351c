//! A device made of files, with this system's /proc, and a real daemon on it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use brisk::sys::Root;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::golden;
use crate::patience::{LONG_PATIENCE, OutputWithin, PATIENCE, end_of};

/// A tree with one cpufreq policy under ondemand at 100 ms.
pub struct Device {
    folder: tempfile::TempDir,
}

impl Device {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let device = Self { folder };
        symlink("/proc", device.path("proc")).unwrap();
        fs::create_dir_all(device.path("run")).unwrap();
        for (name, text) in [
            ("online", "0-1"),
            ("cpufreq/policy0/affected_cpus", "0 1"),
            ("cpufreq/policy0/scaling_governor", "ondemand"),
            ("cpufreq/policy0/scaling_min_freq", "200000"),
            ("cpufreq/policy0/scaling_max_freq", "1200000"),
            ("cpufreq/policy0/ondemand/sampling_rate", "100000"),
            ("cpufreq/policy0/ondemand/io_is_busy", "0"),
        ] {
            device.write(&format!("sys/devices/system/cpu/{name}"), &format!("{text}\n"));
        }
        // Enables launch, whatever manages frequencies on the machine that the test runs on.
        device.write("usr/lib/brisk/brisk.toml.d/00-device.toml", "[launch]\nenabled = true\n");
        device
    }

    /// The recorded tree `name`, without this system's /proc.
    pub fn of_tree(name: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        golden::copy(&golden::trees().join(name), folder.path());
        Self { folder }
    }

    /// With a configuration in /etc.
    pub fn with(config: &str) -> Self {
        let device = Self::new();
        device.configure(config);
        device
    }

    pub fn configure(&self, config: &str) {
        self.write("etc/brisk/brisk.toml", config);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    pub fn tunable(name: &str) -> String {
        format!("sys/devices/system/cpu/cpufreq/policy0/{name}")
    }

    pub fn sampling_rate(&self) -> String {
        fs::read_to_string(self.path(&Self::tunable("ondemand/sampling_rate"))).unwrap().trim().to_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        command.arg("--root").arg(self.folder.path()).args(arguments).env("NO_COLOR", "1");
        command
    }

    pub fn brisk(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output_within(LONG_PATIENCE)
    }

    /// A daemon that is ready.
    pub fn daemon(&self) -> Daemon<'_> {
        self.daemon_with(&[])
    }

    /// The same with more arguments.
    pub fn daemon_with(&self, arguments: &[&str]) -> Daemon<'_> {
        let child =
            self.command(&["daemon"]).args(arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        Daemon::ready(self, child)
    }

    pub fn connect(&self) -> UnixStream {
        let folder = Root::at(self.folder.path()).runtime_folder();
        let stream = UnixStream::connect(folder.join("control")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }
}

/// A process of this machine; dropping it kills it.
pub struct Running(pub Child);

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A daemon; dropping it sends SIGTERM.
pub struct Daemon<'device> {
    device: &'device Device,
    pub child: Child,
    messages: Messages,
}

impl<'device> Daemon<'device> {
    fn ready(device: &'device Device, mut child: Child) -> Self {
        let messages = Messages::of(child.stderr.take().unwrap());
        let mut daemon = Self { device, child, messages };
        daemon.says("brisk: ready");
        daemon
    }

    /// Waits for a message that holds `text`, and returns it once.
    pub fn says(&mut self, text: &str) -> String {
        self.messages.await_line(text)
    }

    /// The messages that [`Self::says`] has not returned, once the daemon has ended.
    pub fn other_messages(&mut self) -> Vec<String> {
        self.messages.await_end()
    }

    pub fn ask(&self, request: &Value) -> Value {
        let answer = ask(&mut self.device.connect(), request);
        assert_eq!(answer["ok"], true, "{request}: {answer}");
        answer["result"].clone()
    }

    pub fn status(&self) -> Value {
        self.ask(&json!({"version": 1, "request": "status"}))
    }

    pub fn announce(&self, application: &str) {
        self.ask(&json!({"version": 1, "request": "launch", "application": application}));
    }

    pub fn finish(&self, application: &str) {
        self.ask(&json!({"version": 1, "request": "launch-finished", "application": application}));
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end, which a signal has begun.
    pub fn end(&mut self) -> ExitStatus {
        end_of(&mut self.child, PATIENCE)
    }

    /// True when this kernel reports process events to the daemon; prints why not.
    pub fn hears_processes(&self) -> bool {
        let status = self.status();
        let heard = status["sensors"]["process_events"] == "subscribed";
        if !heard {
            eprintln!("skipped: {}", status["sensors"]["process_events"]);
        }
        heard
    }
}

/// The lines of a process's standard error. A thread reads them, so that a test can stop waiting.
pub struct Messages {
    lines: Receiver<String>,
    /// Received while the test waited for another line.
    other: Vec<String>,
}

impl Messages {
    pub fn of(stream: ChildStderr) -> Self {
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(stream).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        Self { lines, other: Vec::new() }
    }

    /// Waits for a line that holds `text`, and returns it once.
    pub fn await_line(&mut self, text: &str) -> String {
        if let Some(at) = self.other.iter().position(|line| line.contains(text)) {
            return self.other.remove(at);
        }
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|error| panic!("the daemon never said {text:?} ({error}), but: {:?}", self.other));
            if line.contains(text) {
                return line;
            }
            self.other.push(line);
        }
    }

    fn await_end(&mut self) -> Vec<String> {
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) => self.other.push(line),
                Err(mpsc::RecvTimeoutError::Disconnected) => return std::mem::take(&mut self.other),
                Err(error) => panic!("standard error stays open ({error}) after: {:?}", self.other),
            }
        }
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        self.end();
    }
}

/// Sends `request` and reads one line.
pub fn ask(stream: &mut UnixStream, request: &Value) -> Value {
    writeln!(stream, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{request}: {line:?}: {error}"))
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
