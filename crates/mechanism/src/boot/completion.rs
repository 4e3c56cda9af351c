//! Signs that a boot has completed. The first one decides.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A sign that a boot has completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompletionSign {
    /// An Android system property has a value.
    Property { name: String, value: String },
    /// A file exists.
    File(PathBuf),
    /// A process with this name exists.
    Process(String),
    /// systemd has no start jobs left.
    Systemd,
}

impl CompletionSign {
    /// Android's own sign.
    pub fn android() -> Self {
        Self::Property { name: "sys.boot_completed".to_owned(), value: "1".to_owned() }
    }
}

impl fmt::Display for CompletionSign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Property { name, value } => write!(f, "property:{name}={value}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Process(name) => write!(f, "process:{name}"),
            Self::Systemd => f.write_str("systemd"),
        }
    }
}

impl FromStr for CompletionSign {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sign = match text.split_once(':') {
            None if text == "systemd" => Some(Self::Systemd),
            Some(("file", path)) if path.starts_with('/') => Some(Self::File(path.into())),
            Some(("process", name)) if !name.is_empty() => Some(Self::Process(name.to_owned())),
            Some(("property", set)) => set
                .split_once('=')
                .filter(|(name, _)| !name.is_empty())
                .map(|(name, value)| Self::Property { name: name.to_owned(), value: value.to_owned() }),
            _ => None,
        };
        sign.ok_or_else(|| {
            "expected systemd, file:/PATH, process:NAME or property:NAME=VALUE (property:sys.boot_completed=1)"
                .to_owned()
        })
    }
}

/// True when a process called `name` (its program, or its comm) is the one that `wanted` names.
pub fn is_named(name: &str, wanted: &str) -> bool {
    // A name without a slash is that of a program in any folder; the kernel cuts a comm to 15 bytes.
    let base = name.rsplit('/').next().unwrap_or(name);
    name == wanted || !wanted.contains('/') && (base == wanted || base.len() == 15 && wanted.starts_with(base))
}

/// Why a recording ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordingEnd {
    /// The boot has completed, as this sign shows.
    Completed(CompletionSign),
    /// No sign appeared in time.
    TimedOut,
    /// It was stopped (SIGTERM, SIGINT).
    Stopped,
}

impl fmt::Display for RecordingEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Completed(sign) => write!(f, "{sign}"),
            Self::TimedOut => f.write_str("timeout"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_are_read_as_they_are_printed() {
        for text in
            ["systemd", "file:/run/booted", "process:surfaceflinger", "property:sys.boot_completed=1", "property:a="]
        {
            assert_eq!(text.parse::<CompletionSign>().unwrap().to_string(), text);
        }
        assert_eq!(CompletionSign::android().to_string(), "property:sys.boot_completed=1");
        for text in ["", "systemd:x", "file:relative", "process:", "property:=1", "property:x", "socket:/x"] {
            assert!(text.parse::<CompletionSign>().unwrap_err().contains("expected systemd"), "{text}");
        }
    }

    #[test]
    fn a_process_is_known_by_its_program_in_any_folder() {
        for (name, wanted, expected) in [
            ("/system/bin/surfaceflinger", "surfaceflinger", true),
            ("surfaceflinger", "surfaceflinger", true),
            ("/system/bin/surfaceflinger", "/system/bin/surfaceflinger", true),
            ("/vendor/bin/surfaceflinger", "/system/bin/surfaceflinger", false),
            ("systemd-journal", "systemd-journald", true),
            ("sh", "shell", false),
            ("com.android.systemui", "systemui", false),
        ] {
            assert_eq!(is_named(name, wanted), expected, "{name} {wanted}");
        }
    }
}
