//! Output of the commands: transcripts of `tests/cli/`. `TRYCMD=overwrite cargo test --test integration cli::` rewrites them.

use std::process::{Command, Stdio};

use unicode_width::UnicodeWidthStr as _;

#[test]
fn transcripts() {
    trycmd::TestCases::new().case("tests/cli/*.trycmd").env("NO_COLOR", "1");
}

#[test]
fn a_reader_that_closes_the_pipe_early_is_no_error() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/04-debian-pc");
    for arguments in [
        &["--root", root, "doctor"][..],
        &["--root", root, "doctor", "--json"],
        &["config", "show"],
        &["lab", "list"],
        &["lookup", "simulate", "--json"],
        &["load", "--work-ms", "1"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        let output = command.args(arguments).stdout(writer).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(output.status.code().is_some(), "{arguments:?} ended by a signal: {said}");
        assert!(!said.contains("ipe"), "{arguments:?}: {said}");
    }
}

/// script(1) makes the terminal.
#[test]
fn no_line_is_wider_than_the_terminal() {
    let brisk = env!("CARGO_BIN_EXE_brisk");
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    for columns in [60, 80, 120] {
        for arguments in [
            format!("--root {tests}/golden/04-debian-pc doctor"),
            format!("--root {tests}/golden/04-debian-pc why"),
            format!("--root {tests}/golden/04-debian-pc memory plan"),
            format!("--root {tests}/golden/04-debian-pc memory status"),
            format!("boot diagnose {tests}/cli/boot.in/tiny"),
            format!("trace explain {tests}/cli/trace.in/launch.txt --process browser"),
            "lab list".to_owned(),
            "lookup simulate --trace boot --replicates 2".to_owned(),
        ] {
            let command = format!("stty cols {columns}; {brisk} --color never {arguments} 2>/dev/null");
            let mut script = Command::new("script");
            script.args(["--quiet", "--command", &command, "/dev/null"]).env("SHELL", "/bin/sh");
            let output = script.stdin(Stdio::null()).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.lines().count() > 3, "{command}: {text}");
            for line in text.lines() {
                assert!(line.trim_end().width() <= columns, "{command}: {line}");
            }
        }
    }
}
