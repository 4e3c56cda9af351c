//! The static binaries that guests run.
//!
//! `$BRISK_BINARY` names this machine's; otherwise `./dev build` builds the current one.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// This machine's architecture, and the setting that links its programs statically.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const STATIC: (&str, &str) = ("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-C target-feature=+crt-static");

/// The static binary, or `None` with the reason printed, where no virtual machine can run.
pub fn static_brisk() -> Option<&'static Path> {
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        if !runs("qemu-system-x86_64") {
            eprintln!("skipped: qemu-system-x86_64 is not there; install the package qemu-system-x86");
            return None;
        }
        let built = || build(&target_folder(), TARGET, &[], STATIC);
        Some(std::env::var_os("BRISK_BINARY").map_or_else(built, PathBuf::from))
    };
    BINARY.get_or_init(make).as_deref()
}

/// The program that this machine would carry as a device: without the lab, so that no guest boots it.
pub fn static_brisk_of_a_device() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    // In a folder of its own: cargo would replace the binary with the lab.
    let folder = target_folder().join("device-program");
    BINARY.get_or_init(|| build(&folder, TARGET, &["--no-default-features"], STATIC))
}

/// The static binary for guests of arm64, or `None` with the reason printed, where it cannot be built or run.
pub fn static_brisk_for_arm64() -> Option<&'static Path> {
    const TARGET: &str = "aarch64-unknown-linux-musl";
    static BINARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        // The compiler also builds the kernel's modules.
        for (program, package) in
            [("qemu-system-aarch64", "qemu-system-arm"), ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")]
        {
            if !runs(program) {
                eprintln!("skipped: {program} is not there; install the package {package}");
                return None;
            }
        }
        if !has_library(TARGET) {
            eprintln!("skipped: there is no standard library for {TARGET}; add it by rustup target add {TARGET}");
            return None;
        }
        let linker = ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "aarch64-linux-gnu-gcc");
        Some(build(&target_folder(), TARGET, &["--no-default-features", "--features", "lab"], linker))
    };
    BINARY.get_or_init(make).as_deref()
}

fn runs(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// True if the compiler in use has the standard library for `target`.
fn has_library(target: &str) -> bool {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).args(["--print", "target-libdir", "--target", target]).output();
    let folder = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let files = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.map(|file| file.file_name()).any(|name| name.to_string_lossy().starts_with("libstd-"))
}

/// The target is named explicitly so that its setting does not apply to procedural macros, which cannot be static.
fn build(folder: &Path, target: &str, features: &[&str], (variable, value): (&str, &str)) -> PathBuf {
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--bin", "brisk", "--profile", "lab", "--target", target, "--target-dir"])
        .arg(folder)
        .args(features)
        .env(variable, value)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs this test, so it exists");
    assert!(status.success(), "the static brisk for {target} could not be built");
    folder.join(target).join("lab/brisk")
}

/// `target/`, which may be anywhere.
fn target_folder() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_brisk"));
    program.parent().and_then(Path::parent).expect("target/PROFILE/brisk").to_owned()
}
