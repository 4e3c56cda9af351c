//! Child processes of the daemon that mechanisms want: starts them, sends them lines, restarts them when they die, ends them.

pub(super) mod preview;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::Engine;
use super::poller::{Poller, Token};
use brisk_mechanism::{Child, Event};
use brisk_sys::error::sentence;
use brisk_sys::sched::own_policy;
use brisk_sys::{BootTime, Root};

/// A child that dies is restarted after this pause.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// What a child writes without a newline beyond this is dropped.
const MAXIMUM_LINE_BYTES: usize = 4096;

/// The children, by the index of their mechanism.
#[derive(Debug, Default)]
pub(super) struct Children(BTreeMap<usize, Supervised>);

#[derive(Debug)]
struct Supervised {
    wanted: Child,
    running: Option<Running>,
    /// When it is started; `None` while it runs.
    due: Option<BootTime>,
}

impl Children {
    /// When [`Engine::start_children`] is due.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.0.values().filter_map(|child| child.due).min()
    }

    /// Their processes.
    pub(super) fn processes(&self) -> impl Iterator<Item = u32> {
        self.0.values().filter_map(|child| child.running.as_ref()).map(|running| running.child.id())
    }

    /// Ends all children.
    pub(super) fn end(&mut self, poller: &Poller) {
        let all = std::mem::take(&mut self.0);
        all.into_values().filter_map(|child| child.running).for_each(|running| poller.unwatch(&running));
    }
}

impl Engine {
    /// Starts and ends children as the mechanisms want, and passes on their lines.
    pub(super) fn update_children(&mut self, now: BootTime) {
        for index in 0..self.mechanisms.len() {
            let wanted = self.mechanisms.at(index).child();
            if self.children.0.get(&index).map(|child| &child.wanted) != wanted {
                let wanted = wanted.cloned();
                self.end_child(now, index);
                if let Some(wanted) = wanted {
                    self.children.0.insert(index, Supervised { wanted, running: None, due: Some(now) });
                    self.start_child(now, index);
                }
            }
            let mut lines = Vec::new();
            self.mechanisms.at(index).take_child_input(&mut lines);
            for line in lines {
                self.send_to_child(index, &line);
            }
        }
    }

    /// Starts the children that are due.
    pub(super) fn start_children(&mut self, now: BootTime) {
        let is_due = |(index, child): (&usize, &Supervised)| child.due.filter(|due| *due <= now).map(|_| *index);
        for index in self.children.0.iter().filter_map(is_due).collect::<Vec<_>>() {
            self.start_child(now, index);
        }
    }

    fn start_child(&mut self, now: BootTime, index: usize) {
        let name = self.mechanisms.at(index).name();
        let Some(child) = self.children.0.get_mut(&index) else { return };
        child.due = None;
        if self.executor.is_dry_run() {
            return;
        }
        // The child would inherit the daemon's narrowed CPU mask.
        self.own_mask.narrow_to(None);
        let started = Running::start(&self.options.root, &child.wanted).and_then(|running| {
            self.poller.watch(&running, Token::Child(index as u32))?;
            Ok(running)
        });
        match started {
            Ok(running) => {
                let pid = running.child.id();
                tracing::info!("{name}: brisk {} is process {pid}", child.wanted.subcommand);
                child.running = Some(running);
                self.deliver(now, index, &Event::Child { pid: Some(pid) });
            }
            Err(error) => {
                tracing::error!("{name}: {}; will retry", sentence(error.as_ref()));
                child.due = Some(now + RESTART_PAUSE);
            }
        }
    }

    /// A child has written something, or has died.
    pub(super) fn read_child_output(&mut self, now: BootTime, index: usize) {
        let name = self.mechanisms.at(index).name();
        let mut lines = Vec::new();
        let Some(child) = self.children.0.get_mut(&index) else { return };
        let dead = child.running.take_if(|running| !running.read_output(&mut lines));
        for line in lines {
            self.deliver(now, index, &Event::ChildSaid { line });
        }
        let Some(child) = self.children.0.get_mut(&index) else { return };
        if let Some(running) = dead {
            tracing::warn!("{name}: brisk {} died; restarting it", child.wanted.subcommand);
            self.poller.unwatch(&running);
            child.due = Some(now + RESTART_PAUSE);
            self.deliver(now, index, &Event::Child { pid: None });
        }
        self.serve_mechanisms(now);
    }

    fn end_child(&mut self, now: BootTime, index: usize) {
        if let Some(running) = self.children.0.remove(&index).and_then(|child| child.running) {
            self.poller.unwatch(&running);
            drop(running);
            self.deliver(now, index, &Event::Child { pid: None });
        }
    }

    fn send_to_child(&mut self, index: usize, line: &str) {
        match self.children.0.get_mut(&index) {
            Some(Supervised { running: Some(running), .. }) => running.deliver(line),
            Some(Supervised { wanted, .. }) if self.executor.is_dry_run() => {
                let foreseen = preview::preview_child_line(&self.options.root, wanted, line);
                let name = self.mechanisms.at(index).name();
                foreseen.iter().for_each(|foreseen| self.executor.announce(BootTime::now(), name, foreseen));
            }
            _ => {}
        }
    }
}

/// A running child, ended when this is dropped. As a descriptor it is readable when the child is ready or has died.
#[derive(Debug)]
struct Running {
    child: std::process::Child,
    stdin: Option<ChildStdin>,
    end: ChildStdout,
    /// Its next line, as far as it was read.
    line: Vec<u8>,
}

impl Running {
    fn start(root: &Root, wanted: &Child) -> anyhow::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("--root")
            .arg(std::path::absolute(root.path("/"))?)
            .arg(wanted.subcommand)
            .args(&wanted.arguments)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start brisk {}", wanted.subcommand))?;
        let stdin = child.stdin.take();
        let end = child.stdout.take().context("the child has no stdout")?;
        rustix::io::ioctl_fionbio(&end, true)?;
        if let Some(stdin) = &stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        Ok(Self { child, stdin, end, line: Vec::new() })
    }

    /// Sends it one line, without blocking: a busy child may miss it.
    fn deliver(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            let _ = io::Write::write_all(stdin, format!("{line}\n").as_bytes());
        }
    }

    /// Reads a part of its output and appends complete lines to `lines`; false when it has exited.
    fn read_output(&mut self, lines: &mut Vec<String>) -> bool {
        let mut bytes = [0; 512];
        match io::Read::read(&mut self.end, &mut bytes) {
            Ok(0) => false,
            Ok(length) => {
                split(&bytes[..length], &mut self.line, lines);
                true
            }
            Err(error) => error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::Interrupted,
        }
    }
}

impl AsFd for Running {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if let Err(error) = own_policy::let_idle_threads_end(&Root::system(), self.child.id()) {
            tracing::debug!("process {} may take long to end: {error}", self.child.id());
        }
        let _ = self.child.wait();
    }
}

/// Appends to `lines` those that end in `bytes`; `line` is the beginning of the next one.
fn split(bytes: &[u8], line: &mut Vec<u8>, lines: &mut Vec<String>) {
    for &byte in bytes {
        if byte == b'\n' {
            lines.push(String::from_utf8_lossy(&std::mem::take(line)).into_owned());
        } else if line.len() < MAXIMUM_LINE_BYTES {
            line.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_complete_in_whatever_parts_they_arrive() {
        let long = "x".repeat(MAXIMUM_LINE_BYTES + 9);
        let text = format!("ready\n\nkilled {{}}\n{long}\nafter");
        let expected = ["ready", "", "killed {}", &long[..MAXIMUM_LINE_BYTES]];
        for part_bytes in [1, 7, 512, text.len()] {
            let (mut line, mut lines) = (Vec::new(), Vec::new());
            text.as_bytes().chunks(part_bytes).for_each(|part| split(part, &mut line, &mut lines));
            assert!(lines == expected && line == b"after", "{part_bytes}");
        }
    }
}
