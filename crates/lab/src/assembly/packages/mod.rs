//! Stock kernels from Debian's packages, unpacked into the cache.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::apt::{Apt, Package, unpack};
use super::cache::{Cache, fault};
use super::kernels::{self, Configuration};
use super::libraries;
use crate::architecture::Architecture;
use crate::error::LabError;
use crate::scenario::Scenario;

/// A kernel that can be booted, and its modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelFiles {
    /// As uname(2) reports it (`6.1.0-56-amd64`).
    pub release: String,
    /// The package's name and revision, which names the cache's entries.
    pub revision: String,
    /// The image that QEMU boots.
    pub image: PathBuf,
    /// The folder that holds `modules.dep`; empty for a kernel that brisk built, which has none.
    pub modules: PathBuf,
    /// The build tree, if brisk built it.
    pub tree: Option<PathBuf>,
}

/// Where entries of unpacked packages are made and kept.
#[derive(Debug, Clone, Copy)]
struct CacheLocation<'a> {
    folder: &'a str,
    /// The workplace of [`Cache::entry_built_at`]; `None` where the build path does not matter.
    workplace: Option<&'a str>,
}

/// Packages that are used without a build.
const PACKAGES: CacheLocation<'_> = CacheLocation { folder: "packages", workplace: None };

/// Where a kernel's packages come from.
#[derive(Debug)]
pub struct Packages<'a> {
    cache: &'a Cache,
    /// The scenario's source.
    kernels: Apt,
    /// Where everything else comes from: a source of kernels alone may not have it.
    tools: Apt,
    /// The scenario's source, if its kernel is for another processor than this host's.
    foreign: Option<String>,
}

impl<'a> Packages<'a> {
    /// The packages of a scenario's kernel.
    ///
    /// # Errors
    /// [`LabError`] when apt cannot be prepared.
    pub fn of(cache: &'a Cache, scenario: &Scenario) -> Result<Self, LabError> {
        let architecture = scenario.architecture();
        let is_host = Architecture::of_host() == Some(architecture);
        let package = &scenario.kernel.package;
        let kernels = match &scenario.kernel.source {
            _ if is_host && host_has(cache, scenario) => Apt::of_host(cache),
            Some(source) => Apt::of_source(cache, source, architecture)?,
            None => {
                let wanted = format!("{} for {}", scenario.kernel.version, architecture.name);
                let reason = format!("the host's packages have no kernel {wanted}; give the scenario a kernel.source");
                return Err(LabError::Package { package: package.clone(), reason });
            }
        };
        // A source of kernels alone has no C library, so programs then come from the host's release.
        let tools = if is_host && !kernels.offers("libc6") { Apt::of_host(cache) } else { kernels.clone() };
        let foreign = scenario.kernel.source.clone().filter(|_| !is_host);
        Ok(Self { cache, kernels, tools, foreign })
    }

    /// The kernel of a scenario: its package's, or one built from it.
    ///
    /// # Errors
    /// [`LabError`] when it cannot be fetched, unpacked, indexed or built.
    pub fn kernel(&self, scenario: &Scenario) -> Result<KernelFiles, LabError> {
        let name = &scenario.kernel.package;
        match &scenario.kernel.configuration {
            Some(configuration) => {
                self.built_kernel(name, Configuration::named(configuration, name, scenario.architecture())?)
            }
            None => self.packed_kernel(name),
        }
    }

    /// The kernel behind a package such as `linux-image-amd64`.
    fn packed_kernel(&self, name: &str) -> Result<KernelFiles, LabError> {
        let parts = ["linux-image-", "linux-modules-", "linux-binary-"];
        let folder = self.unpacked(PACKAGES, &self.kernels, name, &parts, |draft, _| {
            let modules = modules_folder(draft, name)?;
            run_depmod(draft, &file_name(&modules))
        })?;
        let modules = modules_folder(&folder, name)?;
        let release = file_name(&modules);
        let image = folder.join(format!("boot/vmlinuz-{release}"));
        if !image.is_file() {
            return Err(LabError::Package { package: name.into(), reason: format!("it has no {}", image.display()) });
        }
        Ok(KernelFiles { revision: file_name(&folder), release, image, modules, tree: None })
    }

    /// The kernel built from a package such as `linux-source-6.1`.
    fn built_kernel(&self, name: &str, configuration: Configuration) -> Result<KernelFiles, LabError> {
        let key = configuration.key();
        let folder = format!("kernels/{key}");
        let place = CacheLocation { folder: &folder, workplace: Some(kernels::WORKPLACE) };
        let tree =
            self.unpacked(place, &self.kernels, name, &[], |draft, _| kernels::build(draft, name, configuration))?;
        Ok(KernelFiles {
            revision: format!("{key}-{}", file_name(&tree)),
            release: kernels::release(&tree)?,
            image: kernels::image_in(&tree, configuration.architecture()),
            modules: PathBuf::new(),
            tree: Some(tree),
        })
    }

    /// The folder to build modules in for the kernel behind `name` (`linux-headers-amd64`).
    ///
    /// # Errors
    /// [`LabError`] when it cannot be fetched or unpacked, or when it is not for the kernel `release`.
    pub fn headers(&self, name: &str, release: &str) -> Result<PathBuf, LabError> {
        let parts = ["linux-headers-", "linux-kbuild-"];
        let folder = self.unpacked(PACKAGES, &self.kernels, name, &parts, |draft, path| {
            relocate_headers(&draft.join("usr/src"), path)
        })?;
        let headers = folder.join("usr/src").join(format!("linux-headers-{release}"));
        if headers.join("Makefile").is_file() {
            return Ok(headers);
        }
        Err(LabError::Headers { package: name.into(), release: release.into() })
    }

    /// The kernel's own sources of `series` (`6.1`): a tree that holds nothing but `folder`.
    ///
    /// # Errors
    /// [`LabError`] when they cannot be fetched or unpacked, or when they have no such folder.
    pub fn sources(&self, series: &str, folder: &Path) -> Result<PathBuf, LabError> {
        let name = format!("linux-source-{series}");
        let entry =
            self.unpacked(PACKAGES, &self.kernels, &name, &[], |draft, _| extract_folder(draft, &name, folder))?;
        let tree = entry.join(&name);
        if tree.join(folder).is_dir() {
            return Ok(tree);
        }
        Err(LabError::Package { package: name, reason: format!("it has no folder {}", folder.display()) })
    }

    /// A statically linked BusyBox.
    ///
    /// # Errors
    /// [`LabError`] when it cannot be fetched or unpacked.
    pub fn busybox(&self) -> Result<PathBuf, LabError> {
        let folder = self.unpacked(PACKAGES, &self.tools, "busybox-static", &["busybox-static"], |_, _| Ok(()))?;
        let places = ["bin/busybox", "usr/bin/busybox"];
        places.iter().map(|place| folder.join(place)).find(|path| path.is_file()).ok_or_else(|| LabError::Package {
            package: "busybox-static".into(),
            reason: format!("it has none of {}", places.join(", ")),
        })
    }

    /// The program `name` of the package of this name for `architecture`, its libraries and its loader: each file by its path
    /// in the guest.
    ///
    /// # Errors
    /// [`LabError`] when it cannot be fetched or unpacked, or when a part of it is missing.
    pub fn program(&self, name: &str, architecture: &Architecture) -> Result<BTreeMap<String, PathBuf>, LabError> {
        let folder = self.with_libraries(name)?;
        let places = ["usr/bin", "usr/sbin", "bin"].map(|place| folder.join(place).join(name));
        let program = places.into_iter().find(|path| path.is_file()).ok_or_else(|| LabError::Package {
            package: name.into(),
            reason: "it has no program of its name".into(),
        })?;
        let mut files = libraries::needed_by(std::slice::from_ref(&program), &[&folder], architecture.machine)?;
        files.insert(format!("/bin/{name}"), program);
        Ok(files)
    }

    /// The package `name`, unpacked together with the libraries that it depends on.
    ///
    /// # Errors
    /// [`LabError`] when one cannot be fetched or unpacked.
    pub fn with_libraries(&self, name: &str) -> Result<PathBuf, LabError> {
        self.unpacked(PACKAGES, &self.tools, name, &["lib"], |_, _| Ok(()))
    }

    /// The package `name`, unpacked.
    ///
    /// # Errors
    /// [`LabError`] when it cannot be fetched or unpacked.
    pub fn alone(&self, name: &str) -> Result<PathBuf, LabError> {
        self.unpacked(PACKAGES, &self.tools, name, &[], |_, _| Ok(()))
    }

    /// The cache's entry of `name`, or of the package behind the meta package `name`, together with those of its dependencies
    /// whose names start with one of `parts`; `finish` completes the draft before it becomes the entry.
    fn unpacked(
        &self,
        place: CacheLocation<'_>,
        apt: &Apt,
        name: &str,
        parts: &[&str],
        finish: impl Fn(&Path, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let newest = newest(place.folder, name, apt);
        let pointer = self.cache.path(&newest);
        let remembered = fs::read_to_string(&pointer).ok().map(|entry| self.cache.path(entry.trim()));
        let remembered = remembered.filter(|entry| entry.is_dir());
        if let Some(entry) = &remembered
            && is_current(&pointer, apt)
        {
            return Ok(entry.clone());
        }
        let fetched = match self.fetch(place, apt, name, parts, &finish) {
            // A mirror deletes a package that it has replaced.
            Err(error @ LabError::Apt { .. }) => {
                eprintln!("brisk: {error}; trying once more with new package lists");
                let apt = apt.with_new_lists(self.cache);
                apt.and_then(|apt| self.fetch(place, &apt, name, parts, &finish))
            }
            fetched => fetched,
        };
        match fetched {
            Ok(entry) => {
                self.cache.publish(&newest, &entry)?;
                Ok(self.cache.path(&entry))
            }
            Err(error) => match remembered {
                Some(entry) => {
                    eprintln!("brisk: using {} from the cache: {error}", file_name(&entry));
                    Ok(entry)
                }
                None => Err(error),
            },
        }
    }

    fn fetch(
        &self,
        place: CacheLocation<'_>,
        apt: &Apt,
        name: &str,
        parts: &[&str],
        finish: &impl Fn(&Path, &Path) -> Result<(), LabError>,
    ) -> Result<String, LabError> {
        let packages = resolve(apt, name, parts)?;
        let main = &packages[0];
        let plain = main.version.replace(':', "%3a");
        let entry = format!("{}/{}_{plain}_{}", place.folder, main.name, main.architecture);
        self.cache.entry_built_at(place.workplace.unwrap_or(&entry), &entry, |draft, path| {
            let download = draft.join("download");
            fs::create_dir_all(&download).map_err(fault("make", &download))?;
            let (on_host, in_guest): (Vec<_>, Vec<_>) =
                packages.iter().cloned().partition(|package| self.foreign.is_some() && runs_on_host(&package.name));
            for package in on_host {
                let apt = self.apt_of_host_with(&package)?;
                unpack_all(&apt, &[package], &download, draft)?;
            }
            unpack_all(apt, &in_guest, &download, draft)?;
            fs::remove_dir_all(&download).map_err(fault("remove", &download))?;
            finish(draft, path)
        })?;
        Ok(entry)
    }

    /// apt for this host's processor, with the revision of `package` that a kernel for another processor needs.
    fn apt_of_host_with(&self, package: &Package) -> Result<Apt, LabError> {
        let has_it = |apt: &Apt| apt.show(&package.name).is_ok_and(|found| found.version == package.version);
        let own = Apt::of_host(self.cache);
        let (Some(source), Some(host)) = (&self.foreign, Architecture::of_host()) else { return Ok(own) };
        if has_it(&own) {
            return Ok(own);
        }
        let apt = Apt::of_source(self.cache, source, host)?;
        if has_it(&apt) { Ok(apt) } else { apt.with_new_lists(self.cache) }
    }
}

/// True for the programs that build modules: they run on the host, whichever processor the kernel is for.
fn runs_on_host(package: &str) -> bool {
    package.starts_with("linux-kbuild-")
}

/// Downloads `packages` to `download` and unpacks them into `root`.
fn unpack_all(apt: &Apt, packages: &[Package], download: &Path, root: &Path) -> Result<(), LabError> {
    for (package, archive) in packages.iter().zip(apt.download(packages, download)?) {
        unpack(&package.name, &archive, root)?;
    }
    Ok(())
}

/// True when the host's newest kernel of this name is of the scenario's series.
fn host_has(cache: &Cache, scenario: &Scenario) -> bool {
    let (apt, name) = (Apt::of_host(cache), &scenario.kernel.package);
    let pointer = cache.path(&newest(PACKAGES.folder, name, &apt));
    let remembered = fs::read_to_string(&pointer).ok().filter(|_| is_current(&pointer, &apt));
    // An entry is named PACKAGE_VERSION_ARCHITECTURE.
    let remembered = remembered.and_then(|entry| Some(entry.split('_').nth(1)?.to_owned()));
    let version = remembered.or_else(|| apt.show(name).ok().map(|package| package.version));
    version.is_some_and(|version| scenario.is_of_series(&version))
}

/// The file in which the cache records the newest entry of `name` in `folder`.
fn newest(folder: &str, name: &str, apt: &Apt) -> String {
    format!("{folder}/{name}.{}.newest", apt.label())
}

/// True when the package lists have not changed since `pointer` was written.
fn is_current(pointer: &Path, apt: &Apt) -> bool {
    let written = fs::metadata(pointer).and_then(|pointer| pointer.modified()).ok();
    written.zip(apt.updated()).is_none_or(|(written, updated)| written > updated)
}

/// The packages to unpack, the one that names the entry first.
fn resolve(apt: &Apt, name: &str, parts: &[&str]) -> Result<Vec<Package>, LabError> {
    let is_part = |name: &str| parts.iter().any(|part| name.starts_with(part));
    let mut found = vec![apt.show(name)?];
    let mut seen = 0;
    while seen < found.len() {
        let mut wanted: Vec<&str> = Vec::new();
        for name in found[seen..].iter().flat_map(|package| &package.dependencies).filter(|name| is_part(name)) {
            if found.iter().all(|package| package.name != *name) && !wanted.contains(&name.as_str()) {
                wanted.push(name);
            }
        }
        let packages = apt.show_all(&wanted)?;
        seen = found.len();
        found.extend(packages);
    }
    // A meta package is a name for its first dependency and has no files of its own.
    if found.len() > 1 && found[0].size_bytes < 10_000 {
        found.remove(0);
    }
    Ok(found)
}

fn modules_folder(root: &Path, package: &str) -> Result<PathBuf, LabError> {
    for place in ["usr/lib/modules", "lib/modules"] {
        let Ok(mut releases) = fs::read_dir(root.join(place)) else { continue };
        if let Some(Ok(release)) = releases.next() {
            return Ok(release.path());
        }
    }
    let reason = format!("it has no modules in {}", root.display());
    Err(LabError::Package { package: package.into(), reason })
}

/// Creates `modules.dep`, which a package creates only at its installation.
fn run_depmod(root: &Path, release: &str) -> Result<(), LabError> {
    let fault = |reason: String| LabError::Package { package: format!("linux-image-{release}"), reason };
    // An ordinary user's PATH has no sbin.
    let program = ["/usr/sbin/depmod", "/sbin/depmod"].into_iter().find(|path| Path::new(path).exists());
    let output = Command::new(program.unwrap_or("depmod")).arg("-b").arg(root).arg(release).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(fault(format!("depmod failed: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        Err(error) => Err(fault(format!("cannot run depmod: {error}; install the package kmod"))),
    }
}

/// Extracts `folder` from the archive of the kernel's sources, which is twenty times as large as all else here.
fn extract_folder(root: &Path, package: &str, folder: &Path) -> Result<(), LabError> {
    let fault = |reason: String| LabError::Package { package: package.into(), reason };
    let archive = root.join("usr/src").join(format!("{package}.tar.xz"));
    let member = Path::new(package).join(folder);
    let output = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(root).arg(&member).output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(fault(format!("tar failed: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        Err(error) => return Err(fault(format!("cannot run tar: {error}; install the packages tar and xz-utils"))),
    }
    fs::remove_dir_all(root.join("usr")).map_err(super::cache::fault("remove", root))
}

/// Rewrites the absolute path by which the headers of one flavour include the common ones.
fn relocate_headers(sources: &Path, entry: &Path) -> Result<(), LabError> {
    let here = format!("{}/usr/src/", entry.display());
    for folder in fs::read_dir(sources).map_err(fault("list", sources))?.filter_map(Result::ok) {
        let makefile = folder.path().join("Makefile");
        let text = match fs::read_to_string(&makefile) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(fault("read", &makefile)(error)),
        };
        if text.contains("include /usr/src/") {
            let text = text.replace("include /usr/src/", &format!("include {here}"));
            fs::write(&makefile, text).map_err(fault("write", &makefile))?;
        }
    }
    Ok(())
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
