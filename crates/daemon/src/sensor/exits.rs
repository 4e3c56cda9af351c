//! Waits for the exits of single processes, so that the daemon need not receive every exit of the system.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{PidfdFlags, pidfd_open};

use crate::poller::{Poller, Token};
use brisk_sys::{Root, process};

/// The processes whose exit is awaited.
#[derive(Debug, Default)]
pub struct Exits {
    /// A pidfd each; `None` on kernels before 5.3, where process events must report the exit.
    processes: BTreeMap<u32, Option<OwnedFd>>,
}

impl Exits {
    /// Waits for exactly `wanted` from now on, and appends to `ended` those that have exited already.
    pub fn reconfigure(&mut self, wanted: &[u32], root: &Root, poller: &Poller, ended: &mut Vec<u32>) {
        self.processes.retain(|pid, descriptor| {
            let keep = wanted.contains(pid);
            if let (false, Some(descriptor)) = (keep, descriptor) {
                poller.unwatch(descriptor);
            }
            keep
        });
        for &pid in wanted {
            if self.processes.contains_key(&pid) {
                continue;
            }
            // Below another root, pids are not those of this system.
            let process = process::id(pid).filter(|_| root.is_system());
            match process.map(|process| pidfd_open(process, PidfdFlags::NONBLOCK)) {
                Some(Ok(descriptor)) if poller.watch(&descriptor, Token::Exit(pid)).is_ok() => {
                    self.processes.insert(pid, Some(descriptor));
                }
                Some(Err(Errno::SRCH)) => ended.push(pid),
                _ => {
                    self.processes.insert(pid, None);
                }
            }
        }
    }

    /// True when process events must report some of the exits.
    pub fn needs_exit_events(&self) -> bool {
        self.processes.values().any(Option::is_none)
    }

    /// After lost events: the processes without a pidfd that have exited.
    pub fn exited(&self, root: &Root) -> Vec<u32> {
        let without = self.processes.iter().filter(|(_, descriptor)| descriptor.is_none());
        without.map(|(&pid, _)| pid).filter(|pid| !root.exists(format!("/proc/{pid}"))).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_pidfd_becomes_ready_when_its_process_exits() {
        let (poller, root) = (Poller::new().unwrap(), Root::system());
        let mut exits = Exits::default();
        let mut child = Command::new("true").spawn().unwrap();
        let mut ended = Vec::new();
        exits.reconfigure(&[child.id()], &root, &poller, &mut ended);
        let mut ready = Vec::new();
        if !exits.needs_exit_events() {
            poller.wait(&mut ready, None).unwrap();
        }
        child.wait().unwrap();
        if exits.needs_exit_events() {
            return eprintln!("skipped: this kernel has no pidfd_open");
        }
        assert_eq!(ready, [Token::Exit(child.id())]);
        exits.reconfigure(&[], &root, &poller, &mut ended);
        exits.reconfigure(&[child.id()], &root, &poller, &mut ended);
        assert_eq!(ended, [child.id()], "it had exited before");
    }
}
