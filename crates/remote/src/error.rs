//! What went wrong with a device.

use std::io;
use std::path::PathBuf;

use super::target::Target;

/// A device could not be used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The client does not run.
    #[error("cannot start {program}: {source}; install the package {package}")]
    Client {
        /// `ssh` or `adb`.
        program: &'static str,
        /// The package that has it.
        package: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// A step failed on the device or on the way.
    #[error("{target}: cannot {step}: {said}")]
    Step {
        /// The device.
        target: Target,
        /// What was to be done.
        step: String,
        /// What the client or the device said.
        said: String,
    },
    /// The connection was lost while brisk ran.
    #[error(
        "{target}: the connection was lost; brisk ends there by itself and reverts its changes as soon as the device notices"
    )]
    Lost {
        /// The device.
        target: Target,
    },
    /// The user interrupted it.
    #[error("{target}: interrupted; brisk was told to end there, which reverts its changes")]
    Interrupted {
        /// The device.
        target: Target,
    },
    /// brisk ended there in another way than it does.
    #[error("{target}: brisk ended with status {status}{}", killed(*status))]
    Ended {
        /// The device.
        target: Target,
        /// The status of the device's shell.
        status: u8,
    },
    /// No program for the device.
    #[error(
        "{target} is {architecture}, and there is no program for it; build one by packaging/build-release, and give \
         --binary target/device/brisk-{architecture}"
    )]
    NoProgram {
        /// The device.
        target: Target,
        /// As brisk's programs are named.
        architecture: String,
    },
    /// A file of this computer.
    #[error("cannot {operation} {}: {source}", path.display())]
    File {
        /// What was to be done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Something was left on the device.
    #[error("{target}: cannot remove {folder}: {said}; remove it by hand{}", after(first.as_deref()))]
    Left {
        /// The device.
        target: Target,
        /// What was left.
        folder: String,
        /// What the client or the device said.
        said: String,
        /// What had gone wrong before.
        first: Option<Box<RemoteError>>,
    },
}

/// The words for a shell's status above 128: a signal.
fn killed(status: u8) -> String {
    match status {
        126 | 127 => ": the device cannot run it".into(),
        129.. => format!(": killed by signal {}", status - 128),
        _ => String::new(),
    }
}

fn after(first: Option<&RemoteError>) -> String {
    first.map(|first| format!(" (before: {first})")).unwrap_or_default()
}
