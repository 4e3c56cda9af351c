//! The foreground as logind reports it.

use std::fs;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use super::device::{Daemon, Device, eventually};

/// The daemon samples threads and never deprioritises one.
const CONFIG: &str = "[launch]\nenabled = false\n[placement]\nenabled = true\nexcluded_commands = [\"*\"]\n";

/// A waiting process; dropping it ends it.
struct Waiting(Child);

impl Waiting {
    fn start() -> Self {
        // It ends at the end of its input, and so with this program.
        Self(Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn is_in_foreground(daemon: &Daemon<'_>, process: &Waiting) -> bool {
    daemon.ask(&json!({"version": 1, "request": "placement"}))["foreground"] == json!([process.0.id()])
}

// Verifies DAEMON-2.
#[test]
fn placement_treats_the_active_session_as_foreground() {
    let processes = [Waiting::start(), Waiting::start(), Waiting::start()];
    let device = Device::with(CONFIG);
    for (session, process) in processes.iter().take(2).enumerate() {
        let (scope, pid) = (format!("session-{session}.scope"), process.0.id());
        device.write(&format!("run/systemd/sessions/{session}"), &format!("UID=1000\nSCOPE={scope}\n"));
        let group = format!("sys/fs/cgroup/systemd/user.slice/user-1000.slice/{scope}");
        device.write(&format!("{group}/cgroup.procs"), &format!("{pid}\n"));
    }
    device.write("run/systemd/seats/seat0", "ACTIVE=0\n");
    let daemon = device.daemon();
    eventually("the active session is in the foreground from the start", || is_in_foreground(&daemon, &processes[0]));
    assert!(daemon.status()["sensors"]["foreground"].as_str().unwrap().contains("active session"));

    device.write("run/systemd/other", "ACTIVE=1\n");
    fs::rename(device.path("run/systemd/other"), device.path("run/systemd/seats/seat0")).unwrap();
    eventually("another session is active", || is_in_foreground(&daemon, &processes[1]));

    daemon.ask(&json!({"version": 1, "request": "foreground", "pids": [processes[2].0.id()]}));
    eventually("a program reports a process", || is_in_foreground(&daemon, &processes[2]));
}
