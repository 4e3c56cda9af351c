//! Output of the commands: transcripts of `tests/cli/`. `TRYCMD=overwrite cargo test --test integration cli::` rewrites them.

use std::process::Command;

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
