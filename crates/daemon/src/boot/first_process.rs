//! brisk as the kernel's first process: it starts the recorder and executes the real init, even if the recorder fails.
//!
//! `init=/usr/bin/brisk -- boot record --init=/sbin/init`: words that begin with `--` are for brisk, all others are passed
//! on to init, as the kernel would have done.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// systemd's switch-root spares processes whose names begin with `@`.
const NAME: &str = "@brisk-boot";
/// The paths at which the kernel searches for an init, in its order.
const INITS: [&str; 4] = ["/sbin/init", "/etc/init", "/bin/init", "/bin/sh"];

/// The first process's command line.
#[derive(Debug, PartialEq, Eq)]
struct InitArguments {
    /// The recorder's arguments.
    recorder: Vec<OsString>,
    /// The init given by `--init=`.
    init: Option<PathBuf>,
    arguments: Vec<OsString>,
}

/// Starts the recorder and executes init, if this is the first process and its command line asks for that. Returns
/// otherwise, or when no init can be executed.
pub fn become_init() {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let Some(order) = (std::process::id() == 1).then(|| order(&arguments)).flatten() else { return };
    let program = arguments.first().cloned().unwrap_or_default();
    // /proc is not mounted yet, so /proc/self/exe cannot be used. The boot goes on even without a recorder.
    if let Err(error) = Command::new(&program).arg0(NAME).args(&order.recorder).spawn() {
        eprintln!("brisk: this boot is not recorded: cannot start {}: {error}", Path::new(&program).display());
    }
    let named = order.init.iter().map(PathBuf::as_path);
    for init in named.chain(INITS.iter().map(Path::new)) {
        if is_same_file(init, Path::new(&program)) {
            continue;
        }
        let error = Command::new(init).args(&order.arguments).exec();
        if order.init.as_deref() == Some(init) {
            eprintln!("brisk: cannot execute {}: {error}; another init is tried", init.display());
        }
    }
}

/// `None` when `arguments` are for another subcommand, given by a user.
fn order(arguments: &[OsString]) -> Option<InitArguments> {
    let words: Vec<&OsStr> = arguments.iter().skip(1).map(OsString::as_os_str).collect();
    let (subcommand, rest) = match words.as_slice() {
        [] => ("record", &[][..]),
        [boot, what, rest @ ..] if *boot == "boot" && *what == "record" => ("record", rest),
        [boot, what, rest @ ..] if *boot == "boot" && *what == "hold" => ("hold", rest),
        _ => return None,
    };
    let mut order = InitArguments {
        recorder: ["boot", subcommand, "--first-process"].map(OsString::from).to_vec(),
        init: None,
        arguments: Vec::new(),
    };
    for word in rest {
        match word.as_bytes() {
            bytes if bytes.starts_with(b"--init=") => order.init = Some(OsStr::from_bytes(&bytes[7..]).into()),
            bytes if bytes.starts_with(b"--") => order.recorder.push((*word).to_owned()),
            _ => order.arguments.push((*word).to_owned()),
        }
    }
    Some(order)
}

/// True when both paths are the same file: brisk would execute itself as init, and start recorders for ever.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(one).is_some_and(|it| identity(other) == Some(it))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ordered(words: &str) -> Option<(String, Option<PathBuf>, String)> {
        let arguments: Vec<OsString> = words.split_whitespace().map(OsString::from).collect();
        let text = |words: Vec<OsString>| words.join(OsStr::new(" ")).into_string().unwrap();
        order(&arguments).map(|it| (text(it.recorder), it.init, text(it.arguments)))
    }

    // Verifies BOOT-1.
    #[test]
    fn init_arguments_are_split_and_other_subcommands_left_alone() {
        for (words, recorder, init, arguments) in [
            ("/b", "boot record --first-process", None, ""),
            ("/b boot record", "boot record --first-process", None, ""),
            (
                "/b boot record --init=/lib/systemd/systemd --timeout-s=30 single -b splash",
                "boot record --first-process --timeout-s=30",
                Some("/lib/systemd/systemd"),
                "single -b splash",
            ),
            ("/b boot hold --then=ondemand 3", "boot hold --first-process --then=ondemand", None, "3"),
        ] {
            let expected = (recorder.to_owned(), init.map(PathBuf::from), arguments.to_owned());
            assert_eq!(ordered(words), Some(expected), "{words}");
        }
        for words in ["/b doctor", "/b boot", "/b boot chart x", "/b --help", "/b splash"] {
            assert_eq!(ordered(words), None, "{words}");
        }
    }

    // Verifies BOOT-1.
    #[test]
    fn brisk_never_executes_itself_as_init() {
        let folder = tempfile::tempdir().unwrap();
        let (program, link, other) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        std::fs::write(&program, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink("a", &link).unwrap();
        assert!(is_same_file(&link, &program) && !is_same_file(&other, &program));
        assert!(!is_same_file(&folder.path().join("none"), &folder.path().join("none")));
    }
}
