//! The static binary that guests run.
//!
//! `$BRISK_BINARY` names it; otherwise `./dev build` builds the current one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The static binary, or `None` with the reason printed, where no virtual machine can run.
pub fn static_brisk() -> Option<&'static Path> {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: qemu-system-x86_64 is not there; install the package qemu-system-x86");
            return None;
        }
        Some(std::env::var_os("BRISK_BINARY").map_or_else(build, PathBuf::from))
    };
    BINARY.get_or_init(make).as_deref()
}

/// The target is named explicitly so that its flags do not apply to procedural macros, which cannot be static.
fn build() -> PathBuf {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bin", "brisk", "--profile", "lab", "--target", "x86_64-unknown-linux-gnu"])
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs this test, so it exists");
    assert!(status.success(), "the static brisk could not be built");
    // `target/`, which may be anywhere: this test runs from `target/PROFILE/deps/`.
    let target = Path::new(env!("CARGO_BIN_EXE_brisk")).parent().and_then(Path::parent).expect("target/PROFILE/brisk");
    target.join("x86_64-unknown-linux-gnu/lab/brisk")
}
