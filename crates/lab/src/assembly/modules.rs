//! Kernel modules for the guest: the kernel package's own with their dependencies, and brisk's, built for its headers. A kernel
//! that brisk builds gets its drivers from here, too.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::{Cache, fault};
use super::kernels;
use super::packages::{KernelFiles, Packages};
use crate::architecture::Architecture;
use crate::error::LabError;
use crate::scenario::{Module, Scenario};
use brisk_base::notes::note;

/// A file below `kernel/`: its folder, its name, its contents.
type Source = (&'static str, &'static str, &'static [u8]);

/// The sources below `kernel/`.
const SOURCES: &[Source] = include!(concat!(env!("OUT_DIR"), "/module_sources.rs"));

/// A module that the guest loads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadableModule {
    /// Its name, as lsmod(8) shows it.
    pub name: String,
    /// The object file.
    pub object: Vec<u8>,
    /// Its parameters, as init_module(2) takes them.
    pub parameters: String,
}

/// The scenario's modules in the order of loading, with everything that they depend on.
///
/// # Errors
/// [`LabError`] when a module is unknown, or cannot be read or built.
pub fn collect(
    cache: &Cache,
    packages: &Packages<'_>,
    scenario: &Scenario,
    kernel: &KernelFiles,
) -> Result<Vec<LoadableModule>, LabError> {
    if scenario.modules.is_empty() {
        return Ok(Vec::new());
    }
    let index = if kernel.tree.is_some() { Index::default() } else { Index::read(&kernel.modules)? };
    let mut found: Vec<LoadableModule> = Vec::new();
    for module in &scenario.modules {
        let parameters = module.parameter_text();
        if let Some(source) = &module.source {
            let headers = match &kernel.tree {
                Some(tree) => tree.clone(),
                None => packages.headers(&scenario.kernel.headers, &kernel.release)?,
            };
            let driver = Driver::of(source, packages, scenario)?;
            let folder = build(cache, module, source, driver.as_ref(), &headers, kernel, scenario.architecture())?;
            let path = folder.join(format!("{}.ko", module.name));
            let object =
                fs::read(&path).map_err(|error| unavailable(&module.name, format!("{}: {error}", path.display())))?;
            found.push(LoadableModule { name: module.name.clone(), object, parameters });
            continue;
        }
        for path in index.in_loading_order(&module.name)? {
            let name = module_name(path);
            if found.iter().all(|known| known.name != name) {
                let own = name == plain(&module.name);
                let object = read_object(&kernel.modules.join(path), &name)?;
                found.push(LoadableModule {
                    name,
                    object,
                    parameters: if own { parameters.clone() } else { String::new() },
                });
            }
        }
    }
    Ok(found)
}

fn unavailable(module: &str, reason: impl Into<String>) -> LabError {
    LabError::Module { module: module.into(), reason: reason.into() }
}

/// The kernel with the scenario's drivers in place of its own, if brisk built the kernel.
///
/// # Errors
/// [`LabError`] when a driver is unknown, does not fit, or cannot be built.
pub fn with_drivers(
    cache: &Cache,
    packages: &Packages<'_>,
    scenario: &Scenario,
    kernel: KernelFiles,
) -> Result<KernelFiles, LabError> {
    let (Some(tree), false) = (&kernel.tree, scenario.kernel.drivers.is_empty()) else { return Ok(kernel) };
    let mut hasher = DefaultHasher::new();
    let mut drivers = Vec::new();
    for source in &scenario.kernel.drivers {
        let driver = Driver::of(source, packages, scenario)?
            .ok_or_else(|| unavailable(source, "it is no driver of the kernel's own"))?;
        sources_of(source)?.hash(&mut hasher);
        drivers.push((source, driver));
    }
    let revision = format!("{}-{:016x}", kernel.revision, hasher.finish());
    let folder = cache.entry_built_at(kernels::WORKPLACE, &format!("kernels/{revision}"), |draft, _| {
        note!("brisk: building {} into {}", scenario.kernel.drivers.join(", "), kernel.release);
        kernels::rebuild(draft, tree, &scenario.kernel.package, scenario.architecture(), |tree| {
            drivers.iter().try_for_each(|(source, driver)| place(source, Some(driver), tree).map(drop))
        })
    })?;
    Ok(KernelFiles { image: kernels::image_in(&folder, scenario.architecture()), revision, ..kernel })
}

/// The files of `kernel/<source>`.
fn sources_of(source: &str) -> Result<Vec<&'static Source>, LabError> {
    let files: Vec<_> = SOURCES.iter().filter(|(folder, ..)| *folder == source).collect();
    if !files.is_empty() {
        return Ok(files);
    }
    let mut known: Vec<_> = SOURCES.iter().map(|(folder, ..)| *folder).collect();
    known.dedup();
    Err(unavailable(source, format!("brisk has no such source; it has {}", known.join(", "))))
}

/// A module has the name that its Makefile gives it, and the kernel loads no two modules of one name.
fn rename(module: &Module, folder: &Path) -> Result<(), LabError> {
    let Some(renamed) = &module.renames else { return Ok(()) };
    let path = folder.join("Makefile");
    let text = fs::read_to_string(&path).map_err(fault("read", &path))?;
    if !text.contains(renamed.as_str()) {
        return Err(unavailable(&module.name, format!("{} makes no {renamed}", path.display())));
    }
    fs::write(&path, text.replace(renamed.as_str(), &module.name)).map_err(fault("write", &path))
}

/// Builds the modules in `kernel/<source>` and returns the folder that holds them.
fn build(
    cache: &Cache,
    module: &Module,
    source: &str,
    driver: Option<&Driver>,
    headers: &Path,
    kernel: &KernelFiles,
    architecture: &Architecture,
) -> Result<PathBuf, LabError> {
    let mut hasher = DefaultHasher::new();
    sources_of(source)?.hash(&mut hasher);
    driver.map(|driver| &driver.tree).hash(&mut hasher);
    module.renames.as_ref().map(|renamed| (renamed, &module.name)).hash(&mut hasher);
    module.defines.iter().for_each(|define| define.hash(&mut hasher));
    let entry = format!("modules/{}/{source}-{:016x}", kernel.revision, hasher.finish());
    cache.entry(&entry, |draft, _| {
        note!("brisk: building the kernel module {source} for {}", kernel.release);
        let folder = place(source, driver, draft)?;
        rename(module, &folder)?;
        make(source, &module.defines, headers, &folder, architecture)?;
        move_modules(&folder, draft)?;
        strip_modules(draft, source, architecture)
    })
}

/// Puts the files of `kernel/<source>` into `tree`, with the driver that they extend, and returns the folder to build.
fn place(source: &str, driver: Option<&Driver>, tree: &Path) -> Result<PathBuf, LabError> {
    let folder = match driver {
        Some(driver) => driver.patch(source, tree)?,
        None => tree.to_owned(),
    };
    // A patched driver expects brisk's files in a subfolder.
    let place = if driver.is_some() { folder.join(plain(source)) } else { folder.clone() };
    fs::create_dir_all(&place).map_err(fault("make", &place))?;
    for (_, file, contents) in sources_of(source)?.into_iter().filter(|(_, file, _)| !file.contains('/')) {
        let path = place.join(file);
        fs::write(&path, contents).map_err(fault("write", &path))?;
    }
    Ok(folder)
}

/// A driver of the kernel for which a folder below `kernel/` has patches, by kernel series.
struct Driver {
    /// The kernel's sources.
    tree: PathBuf,
    /// The driver's folder in them.
    folder: PathBuf,
    /// In the order of their names.
    patches: Vec<&'static [u8]>,
}

impl Driver {
    /// `None` when `source` is a separate module.
    fn of(source: &str, packages: &Packages<'_>, scenario: &Scenario) -> Result<Option<Self>, LabError> {
        let known: Vec<_> = SOURCES
            .iter()
            .filter(|(folder, ..)| *folder == source)
            .filter_map(|(_, file, contents)| Some((file.strip_prefix("patches/")?, *contents)))
            .collect();
        if known.is_empty() {
            return Ok(None);
        }
        let series = &scenario.kernel.version;
        let of_series = known.iter().filter(|(name, _)| is_of_series(name, series));
        let patches: Vec<_> = of_series.map(|(_, contents)| *contents).collect();
        let Some(first) = patches.first() else {
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            return Err(unavailable(source, format!("no patch for Linux {series}; there are {}", names.join(", "))));
        };
        let folder = patched_folder(first)
            .ok_or_else(|| unavailable(source, "its patch does not begin with the file that it changes"))?;
        let tree = packages.sources(series, &folder)?;
        Ok(Some(Self { tree, folder, patches }))
    }

    /// Copies the driver into `draft`, patches it, and returns its folder there.
    fn patch(&self, source: &str, draft: &Path) -> Result<PathBuf, LabError> {
        let folder = draft.join(&self.folder);
        fs::create_dir_all(&folder).map_err(fault("make", &folder))?;
        let original = self.tree.join(&self.folder);
        for file in fs::read_dir(&original).map_err(fault("list", &original))?.filter_map(Result::ok) {
            let path = file.path();
            if path.is_file() {
                fs::copy(&path, folder.join(file.file_name())).map_err(fault("copy", &path))?;
            }
        }
        let path = draft.join("driver.patch");
        for patch in &self.patches {
            fs::write(&path, patch).map_err(fault("write", &path))?;
            // Without fuzz: if the context has changed, a developer must check the patch.
            let output = Command::new("patch")
                .args(["--strip=1", "--fuzz=0", "--batch", "--silent", "--directory"])
                .arg(draft)
                .arg("--input")
                .arg(&path)
                .output()
                .map_err(|error| {
                    unavailable(source, format!("cannot run patch: {error}; install the package patch"))
                })?;
            if !output.status.success() {
                let output_text = String::from_utf8_lossy(&output.stdout).trim().replace('\n', "\n  ");
                return Err(unavailable(
                    source,
                    format!("a patch does not fit {}:\n  {output_text}", self.tree.display()),
                ));
            }
        }
        Ok(folder)
    }
}

/// True for `6.1.patch` and `6.1-NAME.patch` when `series` is 6.1.
fn is_of_series(patch: &str, series: &str) -> bool {
    let rest = patch.strip_prefix(series).and_then(|rest| rest.strip_suffix(".patch"));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The folder of the first file that a unified diff changes, as `patch -p1` sees it.
fn patched_folder(patch: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(patch).ok()?;
    let file = text.lines().find_map(|line| line.strip_prefix("+++ b/"))?;
    Path::new(file).parent().map(Path::to_owned)
}

/// Moves the modules from `folder` to `draft`, which is kept.
fn move_modules(folder: &Path, draft: &Path) -> Result<(), LabError> {
    for file in fs::read_dir(folder).map_err(fault("list", folder))?.filter_map(Result::ok) {
        let path = file.path();
        if path.extension().is_some_and(|extension| extension == "ko") {
            fs::rename(&path, draft.join(file.file_name())).map_err(fault("move", &path))?;
        }
    }
    Ok(())
}

fn make(
    source: &str,
    defines: &[String],
    headers: &Path,
    folder: &Path,
    architecture: &Architecture,
) -> Result<(), LabError> {
    let mut command = Command::new("make");
    command.arg("-C").arg(headers).arg(format!("M={}", folder.display())).arg("modules");
    // BTF needs pahole, and a guest that runs no BPF on these modules does not read it.
    command.arg("CONFIG_DEBUG_INFO_BTF_MODULES=");
    let defines: Vec<String> = defines.iter().map(|define| format!("-D{define}")).collect();
    if !defines.is_empty() {
        command.arg(format!("KCFLAGS={}", defines.join(" ")));
    }
    // A make or cargo that runs brisk must not affect the kernel's own build.
    for variable in ["MAKEFLAGS", "MFLAGS", "O", "M", "KBUILD_OUTPUT"] {
        command.env_remove(variable);
    }
    command.env("LC_ALL", "C");
    command.args(architecture.kbuild_variables());
    // Debian's headers name the release of gcc that built the kernel, which a newer Debian does not have.
    command.arg("CC=$(CROSS_COMPILE)gcc");
    let output = command
        .output()
        .map_err(|error| unavailable(source, format!("cannot run make: {error}; install the packages make and gcc")))?;
    if output.status.success() {
        return Ok(());
    }
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let tail: Vec<_> = output_text.lines().rev().take(15).collect();
    let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n  ");
    Err(unavailable(source, format!("make failed (it needs gcc, make and libelf1):\n  {tail}")))
}

/// Keeps only modules in `folder`, without debugging information, which would fill the guest's memory.
fn strip_modules(folder: &Path, source: &str, architecture: &Architecture) -> Result<(), LabError> {
    for file in fs::read_dir(folder).map_err(fault("list", folder))?.filter_map(Result::ok) {
        let path = file.path();
        if path.is_dir() {
            fs::remove_dir_all(&path).map_err(fault("remove", &path))?;
        } else if path.extension().is_none_or(|extension| extension != "ko") {
            fs::remove_file(&path).map_err(fault("remove", &path))?;
        } else {
            let foreign = Architecture::of_host() != Some(architecture);
            let strip = if foreign { format!("{}strip", architecture.cross_prefix) } else { "strip".into() };
            let status = Command::new(&strip).arg("--strip-debug").arg(&path).status();
            if !status.is_ok_and(|status| status.success()) {
                return Err(unavailable(source, format!("{strip} failed; install the package binutils")));
            }
        }
    }
    Ok(())
}

fn read_object(path: &Path, module: &str) -> Result<Vec<u8>, LabError> {
    if path.extension().is_none_or(|extension| extension == "ko") {
        return fs::read(path).map_err(|error| unavailable(module, format!("{}: {error}", path.display())));
    }
    let program = if path.extension().is_some_and(|extension| extension == "zst") { "zstd" } else { "xz" };
    let output = Command::new(program).arg("-dc").arg(path).output();
    match output {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(unavailable(module, String::from_utf8_lossy(&output.stderr).trim().to_owned())),
        Err(error) => Err(unavailable(module, format!("cannot run {program} to unpack it: {error}"))),
    }
}

/// The modules of a kernel package: depmod's `modules.dep` and kbuild's `modules.builtin`.
#[derive(Debug, Default)]
struct Index {
    /// Name -> file and its dependencies, in modules.dep's order.
    files: HashMap<String, Vec<String>>,
    builtin: Vec<String>,
}

impl Index {
    fn read(folder: &Path) -> Result<Self, LabError> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(fault("read", &path))
        };
        Ok(Self::parse(&read("modules.dep")?, &read("modules.builtin")?))
    }

    /// A line of `modules.dep` is a file, a colon, and the files to load before it, last one first.
    fn parse(dependencies: &str, builtin: &str) -> Self {
        let line = |line: &str| {
            let (file, needs) = line.split_once(':')?;
            let files = std::iter::once(file).chain(needs.split_whitespace()).map(str::to_owned).collect();
            Some((module_name(file), files))
        };
        Self {
            files: dependencies.lines().filter_map(line).collect(),
            builtin: builtin.lines().map(module_name).collect(),
        }
    }

    /// The files to load for the module `name`, its own last; none when it is built in.
    fn in_loading_order(&self, name: &str) -> Result<Vec<&str>, LabError> {
        let name = plain(name);
        match self.files.get(&name) {
            Some(files) => Ok(files.iter().rev().map(String::as_str).collect()),
            None if self.builtin.contains(&name) => Ok(Vec::new()),
            None => Err(unavailable(&name, "the kernel package has none of that name")),
        }
    }
}

/// The name of the module in the file `path`.
fn module_name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    plain(file.split(".ko").next().unwrap_or(file))
}

/// Kernel names have underscores where files may have hyphens.
fn plain(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LAB-2.
    #[test]
    fn headers_naming_a_missing_compiler_use_this_machines() {
        let Some(architecture) = Architecture::of_host() else { return };
        let (headers, module) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rules = "CC = gcc-0.1\nmodules:\n\techo 'int it;' | $(CC) -x c -c -o $(M)/it.ko -\n";
        fs::write(headers.path().join("Makefile"), rules).unwrap();
        make("it", &[], headers.path(), module.path(), architecture).unwrap();
        assert!(module.path().join("it.ko").is_file());
    }

    // Verifies LAB-2.
    #[test]
    fn a_module_is_built_with_the_macros_of_its_scenario() {
        let Some(architecture) = Architecture::of_host() else { return };
        let (headers, module) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let rules = "modules:\n\techo 'int it = ONE + TWO;' | $(CC) $(KCFLAGS) -x c -c -o $(M)/it.ko -\n";
        fs::write(headers.path().join("Makefile"), rules).unwrap();
        let build = |defines: &[&str]| {
            let defines: Vec<String> = defines.iter().map(|&define| define.to_owned()).collect();
            make("it", &defines, headers.path(), module.path(), architecture)
        };
        build(&["ONE", "TWO=2"]).unwrap();
        assert!(build(&["ONE"]).unwrap_err().to_string().contains("TWO"));
    }

    // Verifies LOOKUP-7.
    #[test]
    fn a_patch_tells_which_driver_it_is_for() {
        let patch = b"--- a/drivers/android/Makefile\n+++ b/drivers/android/Makefile\n@@ -1 +1 @@\n";
        assert_eq!(patched_folder(patch), Some("drivers/android".into()));
        assert_eq!(patched_folder(b"nothing\n"), None);
        for (patch, series, expected) in [
            ("6.1.patch", "6.1", true),
            ("6.1-debug.patch", "6.1", true),
            ("6.12.patch", "6.1", false),
            ("6.1.patch", "6.12", false),
            ("6.1.patch~", "6.1", false),
        ] {
            assert_eq!(is_of_series(patch, series), expected, "{patch} {series}");
        }
    }

    #[test]
    fn dependencies_come_first_and_built_in_modules_need_no_file() {
        let index = Index::parse(
            "kernel/drivers/block/zram/zram.ko: kernel/mm/zsmalloc.ko\n\
             kernel/mm/zsmalloc.ko:\n\
             kernel/crypto/twofish-avx-x86_64.ko.xz: kernel/crypto/crypto_simd.ko.xz kernel/crypto/cryptd.ko.xz\n\
             not a line\n",
            "kernel/fs/nls/nls_base.ko\nkernel/crypto/lzo-rle.ko\n",
        );
        for (name, expected) in [
            ("zram", vec!["kernel/mm/zsmalloc.ko", "kernel/drivers/block/zram/zram.ko"]),
            ("zsmalloc", vec!["kernel/mm/zsmalloc.ko"]),
            (
                "twofish_avx_x86_64",
                vec![
                    "kernel/crypto/cryptd.ko.xz",
                    "kernel/crypto/crypto_simd.ko.xz",
                    "kernel/crypto/twofish-avx-x86_64.ko.xz",
                ],
            ),
            (
                "twofish-avx-x86_64",
                vec![
                    "kernel/crypto/cryptd.ko.xz",
                    "kernel/crypto/crypto_simd.ko.xz",
                    "kernel/crypto/twofish-avx-x86_64.ko.xz",
                ],
            ),
            ("lzo_rle", vec![]),
        ] {
            assert_eq!(index.in_loading_order(name).unwrap(), expected, "{name}");
        }
        let error = index.in_loading_order("none").unwrap_err().to_string();
        assert_eq!(error, "cannot provide the kernel module none: the kernel package has none of that name");
    }
}
