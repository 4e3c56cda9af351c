//! Errors of the lab; each message says what to do about it.

use std::path::PathBuf;
use std::time::Duration;

use super::self_check::SelfCheck;

/// The lab failed: nothing is known about what was to be measured.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A kernel package could not be found, fetched or unpacked.
    #[error("cannot get the package {package}: {reason}")]
    Package {
        /// The Debian package.
        package: String,
        /// What happened and what to do.
        reason: String,
    },
    /// apt did not find or get a package: its lists may be older than what the mirror offers.
    #[error("cannot get the package {package}: {reason}")]
    Apt {
        /// The Debian package.
        package: String,
        /// apt's message, and what to do.
        reason: String,
    },
    /// The headers are for a different kernel than the one to boot: a newer kernel appeared in between.
    #[error("cannot get the package {package}: it has no headers for the kernel {release}; run sudo apt-get update")]
    Headers {
        /// The Debian package.
        package: String,
        /// The kernel, as uname(2) reports it.
        release: String,
    },
    /// A kernel module could not be found or built.
    #[error("cannot provide the kernel module {module}: {reason}")]
    Module {
        /// The module's name.
        module: String,
        /// What happened and what to do.
        reason: String,
    },
    /// The brisk binary cannot run in the guest.
    #[error("{} cannot run in the guest: {reason}", path.display())]
    Binary {
        /// The binary.
        path: PathBuf,
        /// Why not, and how to get one that can.
        reason: String,
    },
    /// A file of the host's cache could not be used.
    #[error("cannot {operation} {}: {source}", path.display())]
    Cache {
        /// The operation.
        operation: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// QEMU could not be started or failed.
    #[error("the virtual device failed to {operation}: {reason}")]
    Machine {
        /// What it should have done.
        operation: String,
        /// What happened and what to do.
        reason: String,
    },
    /// The guest's kernel panicked, oopsed or locked up.
    #[error("the guest's kernel failed: {line}\nthe guest's last lines:\n{}", indent(last_lines))]
    Kernel {
        /// The line that reports it.
        line: String,
        /// The lines around it.
        last_lines: Vec<String>,
    },
    /// The guest ended without the final line of its first process.
    #[error("the guest ended before its command did: {reason}\nthe guest's last lines:\n{}", indent(last_lines))]
    Ended {
        /// The last message of the guest's first process, or how QEMU ended.
        reason: String,
        /// The guest's last lines.
        last_lines: Vec<String>,
    },
    /// The kernel did not start the guest's first process in time.
    #[error("the guest's kernel hangs: no first process after {} s\nthe guest's last lines:\n{}", limit.as_secs(), indent(last_lines))]
    BootTimedOut {
        /// The limit.
        limit: Duration,
        /// The guest's last lines.
        last_lines: Vec<String>,
    },
    /// The job took longer than it may.
    #[error("no end after {} s\nthe guest's last lines:\n{}", limit.as_secs(), indent(last_lines))]
    TimedOut {
        /// The job's limit.
        limit: Duration,
        /// The guest's last lines.
        last_lines: Vec<String>,
    },
    /// The machine is not as its scenario says, so timings on it are not valid.
    #[error("self-check failed: work must take time proportional to 1/f within 2 %: {}", check.figures())]
    SelfCheck {
        /// What was measured.
        check: SelfCheck,
    },
}

fn indent(lines: &[String]) -> String {
    if lines.is_empty() {
        return "  (none)".into();
    }
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
