//! The daemon's end of its killer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use anyhow::Context;

use crate::device::Root;
use crate::mechanism::memory::config::KillerConfig;

/// Begins a line that says which process is in front.
pub(super) const FRONT: &str = "front ";

/// A running killer. Dropped, it lets it end. As a descriptor it is readable when the killer is ready or has died.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    lifeline: Option<ChildStdin>,
    end: ChildStdout,
}

impl Child {
    /// Starts a killer under `config`, which sets the kernel's limit of writeback if it `limits` that.
    ///
    /// # Errors
    /// When this program cannot be started a second time.
    pub fn start(root: &Root, config: &KillerConfig, limits: bool) -> anyhow::Result<Self> {
        let mut child = Command::new("/proc/self/exe")
            .arg("--root")
            .arg(std::path::absolute(root.path("/"))?)
            .args(["killer", "--settings"])
            .arg(serde_json::to_string(config)?)
            .args(limits.then_some("--limits"))
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the killer")?;
        let lifeline = child.stdin.take();
        let end = child.stdout.take().context("the killer has no stdout")?;
        rustix::io::ioctl_fionbio(&end, true)?;
        if let Some(lifeline) = &lifeline {
            rustix::io::ioctl_fionbio(lifeline, true)?;
        }
        Ok(Self { child, lifeline, end })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it which process is in front. One that is too busy to listen has something more urgent to do.
    pub fn put_in_front(&mut self, pid: u32) {
        if let Some(lifeline) = &mut self.lifeline {
            let _ = io::Write::write_all(lifeline, format!("{FRONT}{pid}\n").as_bytes());
        }
    }

    /// Hears what it says; false when it has ended.
    pub fn hear(&mut self) -> bool {
        let mut bytes = [0; 64];
        match io::Read::read(&mut self.end, &mut bytes) {
            Ok(0) => false,
            Ok(_) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock || error.kind() == io::ErrorKind::Interrupted,
        }
    }
}

impl AsFd for Child {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.child.wait();
    }
}
