//! Checks for the signs that a boot has completed.

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use brisk_mechanism::boot::CompletionSign;
use brisk_mechanism::boot::completion::is_named;
use brisk_sys::process::process_watch::{ProcessChange, ProcessWatch};
use brisk_sys::system::android_properties;
use brisk_sys::{BootTime, Root};

/// How often files and processes are checked.
const PERIOD: Duration = Duration::from_millis(200);
/// How often properties are checked, which is expensive: they are in hundreds of small files.
const PROPERTY_PERIOD: Duration = Duration::from_secs(1);
/// The default sign: a program on the device creates this file, below the runtime folder's parent, when the boot has completed.
const FILE: &str = "/run/brisk-boot-completed";

/// The awaited signs.
#[derive(Debug)]
pub struct Signs {
    wanted: Vec<CompletionSign>,
    /// The root of the booting system, which may differ from this process's.
    init_root: Root,
    /// True when it differs.
    is_other_namespace: bool,
    processes: Option<ProcessWatch>,
    appeared: Vec<CompletionSign>,
    systemd: Systemd,
    next: BootTime,
    next_property: BootTime,
}

#[derive(Debug, Default)]
struct Systemd {
    child: Option<Child>,
    not_before: BootTime,
}

impl Signs {
    /// Waits for `wanted`, or if it is empty for the default signs: Android's property, systemd, a file.
    pub fn new(wanted: &[CompletionSign], root: &Root, init_root: &Root) -> Self {
        let natural = [CompletionSign::android(), CompletionSign::Systemd, CompletionSign::File(FILE.into())];
        let wanted = if wanted.is_empty() { natural.to_vec() } else { wanted.to_vec() };
        let by_process = wanted.iter().any(|sign| matches!(sign, CompletionSign::Process(_)));
        Self {
            processes: by_process.then(|| ProcessWatch::new(root).ok()).flatten(),
            wanted,
            init_root: init_root.clone(),
            is_other_namespace: init_root != root,
            appeared: Vec::new(),
            systemd: Systemd::default(),
            next: BootTime::default(),
            next_property: BootTime::default(),
        }
    }

    /// The first sign that exists at `now`. Rate-limits its checks.
    pub fn check(&mut self, now: BootTime) -> Option<CompletionSign> {
        if now < self.next {
            return None;
        }
        self.next = now + PERIOD;
        let properties = now >= self.next_property;
        if properties {
            self.next_property = now + PROPERTY_PERIOD;
        }
        self.check_processes();
        let (init_root, is_other_namespace) = (&self.init_root, self.is_other_namespace);
        let (systemd, appeared) = (&mut self.systemd, &self.appeared);
        let found = self.wanted.iter().find(|sign| match sign {
            CompletionSign::Property { name, value } => {
                properties && android_properties::value(init_root, name).as_ref() == Some(value)
            }
            CompletionSign::File(path) => init_root.exists(path),
            CompletionSign::Process(_) => appeared.contains(sign),
            CompletionSign::Systemd => systemd.has_finished(now, init_root, is_other_namespace),
        });
        found.cloned()
    }

    fn check_processes(&mut self) {
        let (Some(processes), wanted, appeared) = (&mut self.processes, &self.wanted, &mut self.appeared) else {
            return;
        };
        processes.sample(None, &mut |seen| {
            let (ProcessChange::Started { name, .. } | ProcessChange::Renamed { name, .. }) = seen else { return };
            let is_it =
                |sign: &&CompletionSign| matches!(sign, CompletionSign::Process(wanted) if is_named(name, wanted));
            appeared.extend(wanted.iter().filter(is_it).cloned());
        });
    }
}

impl Systemd {
    /// Runs `systemctl is-system-running --wait`, which sleeps until the boot has completed.
    fn has_finished(&mut self, now: BootTime, init_root: &Root, is_other_namespace: bool) -> bool {
        const RETRY: Duration = Duration::from_secs(1);
        let Some(child) = &mut self.child else {
            // The socket by which systemctl reaches systemd before the message bus runs.
            if now >= self.not_before && init_root.exists("/run/systemd/private") {
                self.not_before = now + RETRY;
                self.child = start(init_root, is_other_namespace).ok();
            }
            return false;
        };
        if matches!(child.try_wait(), Ok(None)) {
            return false;
        }
        let mut output = String::new();
        if let Some(stdout) = &mut child.stdout {
            let _ = stdout.read_to_string(&mut output);
        }
        self.child = None;
        self.not_before = now + RETRY;
        // Any other state does not end the boot: systemd may have left the initramfs, for example.
        matches!(output.trim(), "running" | "degraded" | "maintenance")
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(init_root: &Root, is_other_namespace: bool) -> std::io::Result<Child> {
    let mut command = Command::new("systemctl");
    command.args(["is-system-running", "--wait"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    if is_other_namespace {
        // Opened by its own path: the root of `init_root` is a link into that mount namespace.
        let name_space = File::open("/proc/1/ns/mnt")?;
        let enter = move || Ok(move_into_link_name_space(name_space.as_fd(), Some(LinkNameSpaceType::Mount))?);
        // SAFETY: between fork and exec, `enter` makes one system call and nothing else.
        unsafe {
            command.pre_exec(enter);
        }
        return command.spawn();
    }
    if init_root.is_system() { command.spawn() } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // Verifies BOOT-1.
    #[test]
    fn the_first_sign_ends_the_boot_and_checks_are_rate_limited() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(folder.path().join("proc/7")).unwrap();
        let stat = "7 (sh) S 1 0 0 0 -1 64 0 0 0 0 1 1 0 0 20 0 1 0 3 4096 5 0\n";
        fs::write(folder.path().join("proc/7/stat"), stat).unwrap();
        let wanted: Vec<CompletionSign> =
            ["file:/booted", "process:launcher"].map(|sign| sign.parse().unwrap()).to_vec();
        let mut signs = Signs::new(&wanted, &root, &root);
        let at = BootTime::from_milliseconds;
        assert_eq!(signs.check(at(1000)), None);
        fs::write(folder.path().join("proc/7/stat"), stat.replace("sh", "launcher")).unwrap();
        assert_eq!(signs.check(at(1100)), None, "too soon");
        assert_eq!(signs.check(at(1200)), Some(wanted[1].clone()));
        fs::write(folder.path().join("booted"), "").unwrap();
        assert_eq!(signs.check(at(1400)), Some(wanted[0].clone()));

        let mut signs = Signs::new(&[], &root, &root);
        assert_eq!(signs.check(at(1000)), None);
        fs::create_dir(folder.path().join("run")).unwrap();
        fs::write(folder.path().join("run/brisk-boot-completed"), "").unwrap();
        assert_eq!(signs.check(at(2000)), Some(CompletionSign::File(FILE.into())));
    }
}
