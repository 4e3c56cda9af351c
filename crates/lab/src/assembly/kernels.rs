//! Kernels that brisk builds from a distribution's sources, with checks that no distribution enables.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::fault;
use crate::architecture::Architecture;
use crate::error::LabError;
use brisk_base::notes::note;

/// Kernels are built in the cache's draft folder of this name: [`rebuild`] compiles only what was changed, which works only at
/// the path where the tree was built before.
pub const WORKPLACE: &str = "kernels";

/// A kernel's configuration: options that its text does not name are off.
#[derive(Debug, Clone, Copy)]
pub struct Configuration {
    /// Its file's name without `.config`.
    pub name: &'static str,
    /// Debian's name of the architecture that it is for.
    architecture: &'static str,
    text: &'static str,
}

const CONFIGURATIONS: &[Configuration] = &[
    Configuration {
        name: "checked",
        architecture: "amd64",
        text: concat!(
            include_str!("../../../../lab/kernels/base.config"),
            include_str!("../../../../lab/kernels/checked.config")
        ),
    },
    Configuration {
        name: "races",
        architecture: "amd64",
        text: concat!(
            include_str!("../../../../lab/kernels/base.config"),
            include_str!("../../../../lab/kernels/races.config")
        ),
    },
    Configuration {
        name: "android",
        architecture: "arm64",
        text: include_str!("../../../../lab/kernels/android.config"),
    },
];

impl Configuration {
    /// The configuration `name` that comes with brisk, for `architecture`.
    ///
    /// # Errors
    /// [`LabError::Package`] when there is none.
    pub fn named(name: &str, package: &str, architecture: &Architecture) -> Result<Self, LabError> {
        let is_it = |known: &&Self| known.name == name && known.architecture == architecture.name;
        CONFIGURATIONS.iter().find(is_it).copied().ok_or_else(|| {
            let known: Vec<_> =
                CONFIGURATIONS.iter().map(|known| format!("{} for {}", known.name, known.architecture)).collect();
            let wanted = format!("{name} for {}", architecture.name);
            unavailable(package, format!("there is no kernel configuration {wanted}; there are {}", known.join(", ")))
        })
    }

    /// The architecture that it is for.
    pub fn architecture(&self) -> &'static Architecture {
        Architecture::named(self.architecture).expect("the table names known ones")
    }

    /// Identifies what is built with it: another text has another key.
    pub fn key(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("{}-{:016x}", self.name, hasher.finish())
    }

    /// The lines of its text that differ from the kernel's `config`: a dependency is off, something else selects the option, or
    /// the line is misspelt.
    fn without_effect(&self, config: &str) -> Vec<&'static str> {
        let has = |line: &str| match off(line) {
            Some(option) => {
                !config.lines().any(|set| set.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
            }
            None => !line.starts_with("CONFIG_") || config.lines().any(|set| set == line),
        };
        self.text.lines().filter(|line| !has(line)).collect()
    }
}

/// The option that a line such as `# CONFIG_RSEQ is not set` switches off.
fn off(line: &str) -> Option<&str> {
    line.strip_prefix("# ")?.strip_suffix(" is not set").filter(|option| option.starts_with("CONFIG_"))
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
    make_image(draft, package, configuration.architecture())
}

/// Rebuilds the kernel of the tree `built` with `change` applied, and leaves only the image ([`image_in`]) in `draft`.
///
/// # Errors
/// Errors of `change`, and [`LabError`] when the tree cannot be copied or the build fails.
pub fn rebuild(
    draft: &Path,
    built: &Path,
    package: &str,
    architecture: &Architecture,
    change: impl FnOnce(&Path) -> Result<(), LabError>,
) -> Result<(), LabError> {
    // `-a` keeps the modification times, which make compares.
    run(package, Command::new("cp").args(["-a", "--reflink=auto"]).arg(built.join(".")).arg(draft))?;
    change(draft)?;
    make_image(draft, package, architecture)?;
    let image = image_in(draft, architecture);
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

fn make_image(tree: &Path, package: &str, architecture: &Architecture) -> Result<(), LabError> {
    let jobs = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let targets = [architecture.kernel_image, "modules_prepare"];
    run(package, make(tree, architecture).arg(format!("-j{jobs}")).args(targets))?;
    // Without modules of its own a kernel's build does not name the symbols that brisk's modules use.
    let (symbols, named) = (tree.join("vmlinux.symvers"), tree.join("Module.symvers"));
    if symbols.is_file() {
        fs::copy(&symbols, &named).map_err(fault("copy", &symbols))?;
    }
    let made = tree.join("arch").join(architecture.kbuild).join("boot").join(architecture.kernel_image);
    fs::copy(&made, image_in(tree, architecture)).map_err(fault("copy", &made)).map(drop)
}

/// The kernel image that was built in `tree`.
pub fn image_in(tree: &Path, architecture: &Architecture) -> PathBuf {
    tree.join(architecture.kernel_image)
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
    run(
        package,
        make(tree, configuration.architecture())
            .arg("allnoconfig")
            .arg(format!("KCONFIG_ALLCONFIG={}", fragment.display())),
    )?;
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
fn make(tree: &Path, architecture: &Architecture) -> Command {
    let mut command = Command::new("make");
    for variable in ["MAKEFLAGS", "MFLAGS", "O", "M", "KBUILD_OUTPUT"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C").arg("-s").arg("-C").arg(tree).args(architecture.kbuild_variables());
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
    let needs = "building a kernel needs bc, bison, flex, gcc, libelf-dev, libssl-dev, make and xz-utils, and for arm64 \
                 gcc-aarch64-linux-gnu";
    Err(unavailable(package, format!("{program} failed ({needs}):\n  {tail}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configuration(text: &'static str) -> Configuration {
        Configuration { name: "t", architecture: "amd64", text }
    }

    // Verifies LOOKUP-7.
    #[test]
    fn a_configuration_without_effect_is_noticed() {
        let wanted = "# why\nCONFIG_A=y\nCONFIG_B=m\nCONFIG_C=\"x\"\n\nCONFIG_NR=4\n\
                      # CONFIG_D is not set\n# CONFIG_E is not set\n# CONFIG_F is not set\n";
        let config = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"x\"\nCONFIG_NR=48\n\
                      # CONFIG_D is not set\nCONFIG_E=y\nCONFIG_FF=y\n";
        assert_eq!(
            configuration(wanted).without_effect(config),
            ["CONFIG_B=m", "CONFIG_NR=4", "# CONFIG_E is not set"],
            "what a kernel does not know at all is off"
        );
    }

    #[test]
    fn another_text_has_another_key() {
        let [one, two] = ["CONFIG_A=y\n", "CONFIG_A=m\n"].map(|text| configuration(text).key());
        assert!(one.starts_with("t-") && two.starts_with("t-") && one != two, "{one} {two}");
    }

    // Verifies LAB-3.
    #[test]
    fn a_configuration_is_for_one_architecture() {
        for (name, architecture, exists) in [
            ("checked", "amd64", true),
            ("android", "arm64", true),
            ("android", "amd64", false),
            ("checked", "arm64", false),
            ("none", "amd64", false),
        ] {
            let found = Configuration::named(name, "p", Architecture::named(architecture).unwrap());
            assert_eq!(found.is_ok(), exists, "{name} {architecture}");
            let Err(error) = found else { continue };
            let expected = format!("no kernel configuration {name} for {architecture}; there are checked for amd64");
            assert!(error.to_string().contains(&expected), "{error}");
        }
    }
}
