//! The binder cache's core is C that also builds in user space: its own tests, with gcc's sanitizers.

use std::path::Path;
use std::process::Command;

#[test]
fn the_core_keeps_its_promises_and_agrees_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/binder-cache/tests");
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(tests).arg("check").arg(format!("O={}", folder.path().display()));
    // A make around cargo must not steer this one.
    for variable in ["MAKEFLAGS", "MFLAGS", "O"] {
        make.env_remove(variable);
    }
    let output = make.output().expect("make runs; install the packages make and gcc");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.lines().any(|line| line == "ok"), "{said}");
}
