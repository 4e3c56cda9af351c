//! What of the binder cache also builds in user space, and its tests there.

use std::path::Path;
use std::process::Command;

/// `make TARGET` among the cache's tests must end well; its last line.
fn made(target: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/binder-cache/tests");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(tests).arg(target).arg(format!("O={}", folder.path().display()));
    // A make around cargo must not steer this one.
    for variable in ["MAKEFLAGS", "MFLAGS", "O"] {
        make.env_remove(variable);
    }
    let output = make.output().expect("make runs; install the packages make and gcc");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}");
    println!("{said}");
    said.lines().last().unwrap_or_default().to_owned()
}

#[test]
fn the_core_keeps_its_promises_and_agrees_with_the_model() {
    assert_eq!(made("check"), "ok");
}

/// A service becomes lazy, dies or is let go while another thread learns or finds it: every order with two switches.
#[test]
fn two_threads_in_the_hooks_keep_the_rules_in_every_order() {
    assert_eq!(made("interleave"), "ok");
}
