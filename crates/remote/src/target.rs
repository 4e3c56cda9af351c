//! A device's name on the command line, and the command lines that reach it.

use std::fmt;
use std::str::FromStr;

use super::quote::quoted;

/// Seconds until an unreachable host is given up, between two signs of life, and how many may be missed: a lost connection
/// is noticed after 20 s.
const SSH_OPTIONS: [&str; 4] = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=4"];

/// A device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// A machine with an ssh server.
    Ssh {
        /// The user; without, that of ssh's configuration.
        user: Option<String>,
        /// A name, an address, or a `Host` of ssh's configuration.
        host: String,
        /// The port; without, that of ssh's configuration.
        port: Option<u16>,
    },
    /// A device with debugging allowed, Android 7 or later.
    Adb {
        /// The serial number that `adb devices` prints.
        serial: String,
    },
}

/// Why a text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write ssh:[USER@]HOST[:PORT] or adb:SERIAL")]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        match text.split_once(':') {
            Some(("ssh", place)) => ssh(place),
            Some(("adb", serial)) => {
                Ok(Self::Adb { serial: checked("serial number", serial, |it| ".:_-".contains(it))? })
            }
            _ => Err(TargetError(format!("{text:?} begins neither with ssh: nor with adb:"))),
        }
    }
}

fn ssh(place: &str) -> Result<Target, TargetError> {
    let (user, rest) = match place.rsplit_once('@') {
        Some((user, rest)) => (Some(checked("user", user, |it| "._-+".contains(it))?), rest),
        None => (None, place),
    };
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, after) =
                rest.split_once(']').ok_or_else(|| TargetError(format!("{place:?} lacks a bracket")))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(TargetError(format!("{after:?} follows the bracket"))),
            }
        }
        None => match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err(TargetError(format!("the address {rest:?} needs brackets")));
            }
            Some((host, port)) => (host, Some(port)),
            None => (rest, None),
        },
    };
    let port = match port.map(|port| (port, port.parse::<u16>())) {
        None => None,
        Some((_, Ok(port))) if port > 0 => Some(port),
        Some((port, _)) => return Err(TargetError(format!("{port:?} is no port"))),
    };
    Ok(Target::Ssh { user, host: checked("host", host, |it| "._-:%".contains(it))?, port })
}

/// `word`, if it has only letters, digits and what `allows`, and no program takes it for an option.
fn checked(what: &str, word: &str, allows: impl Fn(char) -> bool) -> Result<String, TargetError> {
    match word {
        "" => Err(TargetError(format!("the {what} is missing"))),
        _ if word.starts_with('-') || !word.chars().all(|it| it.is_ascii_alphanumeric() || allows(it)) => {
            Err(TargetError(format!("{word:?} is no {what}")))
        }
        _ => Ok(word.to_owned()),
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ssh { user, host, port } => {
                let user = user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
                let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
                let port = port.map(|port| format!(":{port}")).unwrap_or_default();
                write!(formatter, "ssh:{user}{host}{port}")
            }
            Self::Adb { serial } => write!(formatter, "adb:{serial}"),
        }
    }
}

impl Target {
    /// The name of the folder of its results: `ssh-root@board-1`. Different targets may have equal ones.
    pub fn folder_name(&self) -> String {
        let text = self.to_string();
        text.chars().map(|it| if it.is_ascii_alphanumeric() || "._-@".contains(it) { it } else { '-' }).collect()
    }

    /// The program that reaches it, and the package that has the program.
    pub fn client(&self) -> (&'static str, &'static str) {
        match self {
            Self::Ssh { .. } => ("ssh", "openssh-client"),
            Self::Adb { .. } => ("adb", "adb"),
        }
    }

    /// The arguments with which [`Target::client`] runs `script` by the device's `sh`. Standard streams are passed as they are:
    /// no terminal is made.
    pub fn arguments(&self, script: &str) -> Vec<String> {
        let script = format!("exec sh -c {}", quoted(script));
        match self {
            Self::Ssh { user, host, port } => {
                let mut words = vec!["-T".to_owned()];
                words.extend(SSH_OPTIONS.iter().flat_map(|option| ["-o".to_owned(), (*option).to_owned()]));
                words.extend(port.iter().flat_map(|port| ["-p".to_owned(), port.to_string()]));
                let destination = user.iter().fold(host.clone(), |host, user| format!("{user}@{host}"));
                words.extend(["--".to_owned(), destination, script]);
                words
            }
            Self::Adb { serial } => ["-s", serial, "shell", "-T", &script].into_iter().map(str::to_owned).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> Result<Target, TargetError> {
        text.parse()
    }

    #[test]
    fn a_target_names_a_machine_or_a_serial_number() {
        let ssh =
            |user: Option<&str>, host: &str, port| Target::Ssh { user: user.map(Into::into), host: host.into(), port };
        let adb = |serial: &str| Target::Adb { serial: serial.into() };
        for (text, expected, folder) in [
            ("ssh:board", ssh(None, "board", None), "ssh-board"),
            ("ssh:root@board-1:2222", ssh(Some("root"), "board-1", Some(2222)), "ssh-root@board-1-2222"),
            ("ssh:192.168.1.5", ssh(None, "192.168.1.5", None), "ssh-192.168.1.5"),
            ("ssh:[::1]", ssh(None, "::1", None), "ssh----1-"),
            ("ssh:a@[fe80::1%eth0]:22", ssh(Some("a"), "fe80::1%eth0", Some(22)), "ssh-a@-fe80--1-eth0--22"),
            ("adb:emulator-5554", adb("emulator-5554"), "adb-emulator-5554"),
            ("adb:192.168.1.5:5555", adb("192.168.1.5:5555"), "adb-192.168.1.5-5555"),
        ] {
            let target = parsed(text).unwrap();
            assert_eq!((&target, target.to_string(), target.folder_name()), (&expected, text.into(), folder.into()));
        }
        for (text, reason) in [
            ("", "begins neither"),
            ("board", "begins neither"),
            ("telnet:board", "begins neither"),
            ("ssh:", "the host is missing"),
            ("ssh:@board", "the user is missing"),
            ("ssh:-oProxyCommand=id", "is no host"),
            ("ssh:-l@board", "is no user"),
            ("ssh:a b", "is no host"),
            ("ssh:board;reboot", "is no host"),
            ("ssh:$(id)@board", "is no user"),
            ("ssh:board:0", "is no port"),
            ("ssh:board:65536", "is no port"),
            ("ssh:board:", "is no port"),
            ("ssh:::1", "needs brackets"),
            ("ssh:[::1", "lacks a bracket"),
            ("ssh:[::1]22", "follows the bracket"),
            ("adb:", "the serial number is missing"),
            ("adb:-d", "is no serial number"),
            ("adb:a\nb", "is no serial number"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("; write ssh:[USER@]HOST"), "{text}: {error}");
        }
    }

    #[test]
    fn each_client_gets_one_script_and_no_terminal() {
        let script = r#"exec sh -c 'echo '\''a b'\'' "$x"'"#;
        for (target, program, expected) in [
            (
                "ssh:root@board:2222",
                "ssh",
                vec![
                    "-T",
                    "-o",
                    "BatchMode=yes",
                    "-o",
                    "ConnectTimeout=10",
                    "-o",
                    "ServerAliveInterval=5",
                    "-o",
                    "ServerAliveCountMax=4",
                    "-p",
                    "2222",
                    "--",
                    "root@board",
                    script,
                ],
            ),
            ("adb:emulator-5554", "adb", vec!["-s", "emulator-5554", "shell", "-T", script]),
        ] {
            let target = parsed(target).unwrap();
            assert_eq!(
                (target.client().0, target.arguments(r#"echo 'a b' "$x""#)),
                (program, expected.into_iter().map(Into::into).collect())
            );
        }
        let words = parsed("ssh:[::1]").unwrap().arguments("true");
        assert_eq!(words[words.len() - 3..], ["--", "::1", "exec sh -c true"]);
    }

    proptest! {
        /// Whatever is accepted is printed as it was written, and is no option of a client.
        #[test]
        fn accepted_targets_print_as_they_were_written(text in "(ssh|adb):[-a-z0-9@:.\\[\\]% ;]{0,12}") {
            if let Ok(target) = parsed(&text) {
                prop_assert_eq!(parsed(&target.to_string()), Ok(target.clone()));
                let words = target.arguments("true");
                let name = if text.starts_with("ssh") { &words[words.len() - 2] } else { &words[1] };
                prop_assert!(!name.starts_with('-'));
            }
        }
    }
}
