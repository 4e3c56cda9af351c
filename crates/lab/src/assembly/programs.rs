//! Third-party programs for guests, from their own registry or from the kernel's sources, built without a dynamic loader.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::Cache;
use crate::architecture::Architecture;
use crate::error::LabError;
use crate::scenario::Scenario;
use brisk_base::notes::note;

/// A program of a crate.
struct Program {
    name: &'static str,
    package: &'static str,
    version: &'static str,
}

/// The known programs.
const PROGRAMS: &[Program] = &[
    // The context manager of rsbinder, a binder library for Linux, as hosts of Android containers run it.
    Program { name: "rsb_hub", package: "rsbinder-tools", version: "0.12.0" },
];

/// Builds the program `name` for the guest of `scenario`, once, and returns its file.
///
/// # Errors
/// [`LabError::Package`] when it is not known, or cannot be fetched or built.
pub fn build(cache: &Cache, name: &str, scenario: &Scenario) -> Result<PathBuf, LabError> {
    let fault = |reason: String| LabError::Package { package: name.into(), reason };
    let program = PROGRAMS.iter().find(|program| program.name == name).ok_or_else(|| {
        let known = PROGRAMS.iter().map(|program| program.name).collect::<Vec<_>>().join(", ");
        fault(format!("known programs are {known}"))
    })?;
    let architecture = scenario.architecture();
    let Program { package, version, .. } = program;
    let entry = format!("programs/{package}-{version}-{}", architecture.machine);
    let folder = cache.entry(&entry, |draft, _| {
        note!("brisk: building {name} of {package} {version}");
        let target = target_of(architecture);
        // The target is named so that the flags do not reach procedural macros, which cannot be static.
        let output = Command::new("cargo")
            .args(["install", "--quiet", "--locked", package, "--version", version, "--bin", name])
            .args(["--target", &target])
            .arg("--root")
            .arg(draft)
            .env("CARGO_TARGET_DIR", draft.join("target"))
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .envs(linker_of(architecture))
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

/// Rust's name of what a program for `architecture` is built for. For another processor than the host's, rustup has the library
/// with musl, which needs no C library of that processor.
fn target_of(architecture: &Architecture) -> String {
    let is_host = Architecture::of_host() == Some(architecture);
    format!("{}-unknown-linux-{}", architecture.machine, if is_host { "gnu" } else { "musl" })
}

/// The variable that names the linker for another processor than the host's.
fn linker_of(architecture: &Architecture) -> Option<(String, String)> {
    let target = target_of(architecture).to_uppercase().replace('-', "_");
    let linker = (format!("CARGO_TARGET_{target}_LINKER"), format!("{}gcc", architecture.cross_prefix));
    (Architecture::of_host() != Some(architecture)).then_some(linker)
}

/// The kernel's tests time out after thirty seconds, which is too short for an emulated machine with checks.
const ALARM_WRAPPER: &str = "\
unsigned int __real_alarm(unsigned int seconds);
unsigned int __wrap_alarm(unsigned int seconds) { return __real_alarm(20 * seconds); }
";

/// Builds a test of the kernel's own: `name` (`filesystems/binderfs/binderfs_test`) below `tools/testing/selftests` of `tree`;
/// `revision` identifies the tree.
///
/// # Errors
/// [`LabError::Package`] when there is none or it cannot be built.
pub fn build_selftest(cache: &Cache, name: &str, tree: &Path, revision: &str) -> Result<PathBuf, LabError> {
    let fault = |reason: String| LabError::Package { package: name.into(), reason };
    let program = name.rsplit('/').next().unwrap_or(name);
    let folder = cache.entry(&format!("programs/{revision}-{program}"), |draft, _| {
        let source = tree.join("tools/testing/selftests").join(format!("{name}.c"));
        let patience = draft.join("patience.c");
        std::fs::write(&patience, ALARM_WRAPPER).map_err(super::cache::fault("write", &patience))?;
        let output = Command::new("gcc")
            .args(["-O2", "-static", "-pthread", "-Wl,--wrap=alarm", "-o"])
            .args([&draft.join(program), &source, &patience])
            .output()
            .map_err(|error| fault(format!("cannot run gcc: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        Err(fault(format!("gcc failed:\n{}", String::from_utf8_lossy(&output.stderr).trim())))
    })?;
    Ok(folder.join(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_processors_program_is_linked_by_its_own_compiler() {
        let host = Architecture::of_host().unwrap();
        assert_eq!(target_of(host), format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
        assert_eq!(linker_of(host), None);
        let other = Architecture::all().iter().find(|architecture| *architecture != host).unwrap();
        let (variable, linker) = linker_of(other).unwrap();
        assert_eq!(variable, format!("CARGO_TARGET_{}_UNKNOWN_LINUX_MUSL_LINKER", other.machine.to_uppercase()));
        assert_eq!(linker, format!("{}-linux-gnu-gcc", other.machine));
    }
}
