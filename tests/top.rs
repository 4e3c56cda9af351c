//! `brisk top` on a real terminal (script(1) creates one): it draws, ends on request, and restores the terminal's settings.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use crate::patience::{Limit, PATIENCE};

/// What a terminal shows when `key` is typed after the screen is drawn, between the terminal's settings before and after.
fn shown(key: &[u8]) -> String {
    let brisk = env!("CARGO_BIN_EXE_brisk");
    let command = format!("trap : INT; stty -a; {brisk} top --period-ms 60000; echo \"ended with $?\"; stty -a");
    let mut script = Command::new("script")
        .args(["--quiet", "--flush", "--command", &command, "/dev/null"])
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _limit = Limit::of(&script, PATIENCE);
    let (mut keys, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    let is_drawn = |seen: &[u8]| String::from_utf8_lossy(seen).contains("\x1b[J");
    while !is_drawn(&seen) {
        let count = screen.read(&mut buffer).unwrap();
        assert_ne!(count, 0, "no screen: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    keys.write_all(key).unwrap();
    screen.read_to_end(&mut seen).unwrap();
    script.wait().unwrap();
    String::from_utf8_lossy(&seen).into_owned()
}

// Verifies ON-4.
#[test]
fn top_ends_with_a_key_and_restores_the_terminal() {
    for key in [b"q", b"\x03"] {
        let shown = shown(key);
        let (settings, rest) = shown.split_once("\x1b[?1049h\x1b[?25l").expect("the other screen is taken");
        assert!(rest.contains("Foreground") && rest.contains("Memory"), "{rest}");
        let (_, rest) = rest.split_once("\x1b[?25h\x1b[?1049l").expect("and restored");
        let (code, after) = rest.trim_start().split_once("\r\n").unwrap();
        assert_eq!((code, after), ("ended with 0", settings), "{key:?}");
    }
}

// Verifies ON-4.
#[test]
fn without_a_terminal_it_prints_one_screen() {
    let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/03-android-gki-phone");
    let top = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_brisk")).args(["--root", tree, "top"]).args(arguments).output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let screen = top(&[]);
    assert!(screen.starts_with("brisk ") && !screen.contains('\x1b'), "{screen}");
    assert!(screen.contains("CPU 7     -  500/2802 MHz 1024"), "{screen}");
    let json: serde_json::Value = serde_json::from_str(&top(&["--json"])).unwrap();
    assert_eq!((json["schema"].as_u64(), json["cpus"].as_array().unwrap().len()), (Some(1), 8), "{json}");
    assert!(json["daemon"].is_null() && json["placement"]["threads"].is_array(), "{json}");
}
