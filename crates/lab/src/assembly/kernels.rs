//! Kernels that brisk builds from a distribution's sources, with checks that no distribution enables.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::fault;
use crate::error::LabError;
use brisk_base::notes::note;

/// The image that is built and booted. Not the ELF file: KASAN's code in the PVH entry runs before there is memory for it.
const IMAGE: &str = "bzImage";

/// Kernels are built in the cache's draft folder of this name: [`rebuild`] compiles only what was changed, which works only at
/// the path where the tree was built before.
pub const WORKPLACE: &str = "kernels";

/// A kernel's configuration: options that its text does not name are off.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    /// Its file's name without `.config`.
    pub name: &'static str,
    text: &'static str,
}

const CONFIGURATIONS: &[Configuration] = &[
    Configuration {
        name: "checked",
        text: concat!(
            include_str!("../../../../lab/kernels/base.config"),
            include_str!("../../../../lab/kernels/checked.config")
        ),
    },
    Configuration {
        name: "races",
        text: concat!(
            include_str!("../../../../lab/kernels/base.config"),
            include_str!("../../../../lab/kernels/races.config")
        ),
    },
];

impl Configuration {
    /// The configuration `name` that comes with brisk.
    ///
    /// # Errors
    /// [`LabError::Package`] when there is none.
    pub fn named(name: &str, package: &str) -> Result<Self, LabError> {
        CONFIGURATIONS.iter().find(|known| known.name == name).copied().ok_or_else(|| {
            let known = CONFIGURATIONS.iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
            unavailable(package, format!("there is no kernel configuration {name}; there are {known}"))
        })
    }

    /// Identifies what is built with it: another text has another key.
    pub fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("{}-{:016x}", self.name, hasher.finish())
    }

    /// The lines of its text that the kernel's `config` lacks: a dependency is off, or the line is misspelt.
    fn without_effect(&self, config: &str) -> Vec<&'static str> {
        let wanted = self.text.lines().filter(|line| line.starts_with("CONFIG_"));
        wanted.filter(|line| config.lines().all(|set| set != *line)).collect()
    }
}

fn unavailable(package: &str, reason: impl Into<String>) -> LabError {
    LabError::Package { package: package.into(), reason: reason.into() }
}

/// Builds a kernel in `draft`, which holds the unpacked `package` (`linux-source-6.1`).
///
/// # Errors
/// [`LabError`] when a tool is missing, the configuration has an option that this kernel lacks, or the build fails.
pub fn build(draft: &Path, package: &str, configuration: Configuration) -> Result<(), LabError> {
    note!("brisk: building the kernel {} from {package}; this takes minutes", configuration.name);
    let packed = draft.join("usr");
    let archive = packed.join("src").join(format!("{package}.tar.xz"));
    run(package, Command::new("tar").args(["--strip-components=1", "-xJf"]).arg(&archive).arg("-C").arg(draft))?;
    fs::remove_file(&archive).map_err(fault("remove", &archive))?;
    configure(draft, package, configuration)?;
    make_image(draft, package)
}

/// Rebuilds the kernel of the tree `built` with `change` applied, and leaves only the image ([`image_in`]) in `draft`.
///
/// # Errors
/// Errors of `change`, and [`LabError`] when the tree cannot be copied or the build fails.
pub fn rebuild(
    draft: &Path,
    built: &Path,
    package: &str,
    change: impl FnOnce(&Path) -> Result<(), LabError>,
) -> Result<(), LabError> {
    // `-a` keeps the modification times, which make compares.
    run(package, Command::new("cp").args(["-a", "--reflink=auto"]).arg(built.join(".")).arg(draft))?;
    change(draft)?;
    make_image(draft, package)?;
    let image = draft.join(IMAGE);
    for file in fs::read_dir(draft).map_err(fault("list", draft))?.filter_map(Result::ok) {
        let path = file.path();
        let is_folder = file.file_type().is_ok_and(|kind| kind.is_dir());
        let removed = match path == image {
            true => Ok(()),
            false if is_folder => fs::remove_dir_all(&path),
            false => fs::remove_file(&path),
        };
        removed.map_err(fault("remove", &path))?;
    }
    Ok(())
}

fn make_image(tree: &Path, package: &str) -> Result<(), LabError> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    run(package, make(tree).arg(format!("-j{jobs}")).args([IMAGE, "modules_prepare"]))?;
    let (made, image) = (tree.join("arch/x86/boot").join(IMAGE), tree.join(IMAGE));
    fs::copy(&made, &image).map_err(fault("copy", &made)).map(drop)
}

/// The kernel image that was built in `tree`.
pub fn image_in(tree: &Path) -> PathBuf {
    tree.join(IMAGE)
}

/// The release of the kernel in `tree`, as uname(2) reports it.
///
/// # Errors
/// [`LabError::Cache`] when the tree was not built.
pub fn release(tree: &Path) -> Result<String, LabError> {
    let path = tree.join("include/config/kernel.release");
    Ok(fs::read_to_string(&path).map_err(fault("read", &path))?.trim().to_owned())
}

fn configure(tree: &Path, package: &str, configuration: Configuration) -> Result<(), LabError> {
    let fragment = tree.join("brisk.config");
    fs::write(&fragment, configuration.text).map_err(fault("write", &fragment))?;
    run(package, make(tree).arg("allnoconfig").arg(format!("KCONFIG_ALLCONFIG={}", fragment.display())))?;
    let path = tree.join(".config");
    let config = fs::read_to_string(&path).map_err(fault("read", &path))?;
    let lacking = configuration.without_effect(&config);
    if lacking.is_empty() {
        return Ok(());
    }
    let reason =
        format!("its configuration {} has options that take no effect: {}", configuration.name, lacking.join(", "));
    Err(unavailable(package, reason))
}

/// A make or cargo that runs brisk must not affect the kernel's own build.
fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    for variable in ["MAKEFLAGS", "MFLAGS", "O", "M", "KBUILD_OUTPUT"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C").arg("-s").arg("-C").arg(tree);
    command
}

fn run(package: &str, command: &mut Command) -> Result<(), LabError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| unavailable(package, format!("cannot run {program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = String::from_utf8_lossy(&output.stderr);
    let tail: Vec<_> = output_text.lines().rev().take(15).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n  ");
    let needs = "building a kernel needs bc, bison, flex, gcc, libelf-dev, libssl-dev, make and xz-utils";
    Err(unavailable(package, format!("{program} failed ({needs}):\n  {tail}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LOOKUP-7.
    #[test]
    fn a_configuration_without_effect_is_noticed() {
        let configuration =
            Configuration { name: "t", text: "# why\nCONFIG_A=y\nCONFIG_B=m\nCONFIG_C=\"x\"\n\nCONFIG_NR=4\n" };
        let config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\nCONFIG_NR=48\n";
        assert_eq!(configuration.without_effect(config), ["CONFIG_B=m", "CONFIG_NR=4"]);
    }

    #[test]
    fn another_text_has_another_key() {
        let [one, two] = ["CONFIG_A=y\n", "CONFIG_A=m\n"].map(|text| Configuration { name: "t", text }.key());
        assert!(one.starts_with("t-") && two.starts_with("t-") && one != two, "{one} {two}");
        assert!(Configuration::named("none", "p").unwrap_err().to_string().contains("there are checked, races"));
    }
}
