//! Programs of others that guests run, got from their own registry and built without a dynamic loader.

use std::path::PathBuf;
use std::process::Command;

use super::architecture::Architecture;
use super::cache::Cache;
use super::error::LabError;
use super::scenario::Scenario;

/// A program of a crate.
struct Program {
    name: &'static str,
    package: &'static str,
    version: &'static str,
}

/// Those that are known.
const PROGRAMS: &[Program] = &[
    // The context manager of rsbinder, a binder library for Linux: what hosts of Android containers run.
    Program { name: "rsb_hub", package: "rsbinder-tools", version: "0.12.0" },
];

/// Builds the program `name` for the guest of `scenario`, once, and returns its file.
///
/// # Errors
/// [`LabError::Package`] when it is not known, cannot be fetched or built, or is for another processor than the host's.
pub fn build(cache: &Cache, name: &str, scenario: &Scenario) -> Result<PathBuf, LabError> {
    let fault = |reason: String| LabError::Package { package: name.into(), reason };
    let program = PROGRAMS.iter().find(|program| program.name == name).ok_or_else(|| {
        let known = PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
        fault(format!("guests can be given {known}"))
    })?;
    if Architecture::of_host() != Some(scenario.architecture()) {
        return Err(fault("it is built for this host's processor alone".into()));
    }
    let Program { package, version, .. } = program;
    let entry = format!("programs/{package}-{version}-{}", scenario.architecture().machine);
    let folder = cache.entry(&entry, |draft, _| {
        eprintln!("brisk: building {name} of {package} {version}");
        let target = format!("{}-unknown-linux-gnu", scenario.architecture().machine);
        // The target is named so that the flags do not reach procedural macros, which cannot be static.
        let output = Command::new("cargo")
            .args(["install", "--quiet", "--locked", package, "--version", version, "--bin", name])
            .args(["--target", &target])
            .arg("--root")
            .arg(draft)
            .env("CARGO_TARGET_DIR", draft.join("target"))
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .output()
            .map_err(|error| fault(format!("cannot run cargo: {error}")))?;
        if !output.status.success() {
            return Err(fault(format!("cargo install failed:\n{}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let target = draft.join("target");
        std::fs::remove_dir_all(&target).map_err(super::cache::fault("remove", &target))
    })?;
    Ok(folder.join("bin").join(name))
}
