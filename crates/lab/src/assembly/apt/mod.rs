//! Gets packages from apt and dpkg as an ordinary user, without installing them.

mod own_lists;
#[cfg(test)]
pub mod repository;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::cache::{Cache, fault};
use crate::architecture::Architecture;
use crate::error::LabError;
use own_lists::OwnLists;

use brisk_base::notes::note;

/// Lists of a scenario's own source are fetched again after this time.
const DAY: Duration = Duration::from_secs(86_400);

/// apt with the host's sources, or with one source alone.
#[derive(Debug, Clone)]
pub struct Apt {
    /// Identifies the source in file names.
    label: String,
    /// When this value was made: lists that were fetched later are newer than its answers.
    since: SystemTime,
    /// brisk's own lists, in place of the host's.
    own_lists: Option<OwnLists>,
}

/// apt's record of the newest revision of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    pub name: String,
    /// Its revision.
    pub version: String,
    /// Its architecture (`amd64`, `all`).
    pub architecture: String,
    /// What it depends on, without versions and alternatives.
    pub dependencies: Vec<String>,
    /// Size of the download.
    pub size_bytes: u64,
}

impl Apt {
    /// apt with the host's sources, and with brisk's own lists where those are newer or the host, a container, has none.
    pub fn of_host(cache: &Cache) -> Self {
        let (own, host) = (OwnLists::of_host(cache), host_lists());
        let is_newer = own.fetched().is_some_and(|own| changed(&host).is_none_or(|host| own > host));
        let apt = Self { label: "host".into(), since: SystemTime::now(), own_lists: is_newer.then_some(own) };
        if is_newer || has_package_lists(&host) {
            return apt;
        }
        apt.with_new_lists(cache).unwrap_or_else(|error| {
            eprintln!("brisk: {error}");
            apt
        })
    }

    /// Identifies the source and the architecture in file names.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// apt with `source` alone and lists of its own: this needs neither root nor a change of the host's sources.
    ///
    /// # Errors
    /// [`LabError`] when the lists cannot be fetched.
    pub fn of_source(cache: &Cache, source: &str, architecture: &Architecture) -> Result<Self, LabError> {
        let plain = |character: char| if character.is_ascii_alphanumeric() { character } else { '-' };
        let place: String = source.rsplit("://").next().unwrap_or(source).chars().map(plain).collect();
        let label = format!("{}-{place}", architecture.name);
        let since = SystemTime::now();
        let lists = OwnLists::of_source(cache, &label, source, architecture);
        lists.fetch_unless_after(since - DAY)?;
        Ok(Self { label, since, own_lists: Some(lists) })
    }

    /// The same with lists that were fetched after this value was made: brisk's own, because only root can fetch the host's.
    ///
    /// # Errors
    /// [`LabError`] when they cannot be fetched.
    pub fn with_new_lists(&self, cache: &Cache) -> Result<Self, LabError> {
        let lists = self.own_lists.clone().unwrap_or_else(|| OwnLists::of_host(cache));
        lists.fetch_unless_after(self.since)?;
        Ok(Self { own_lists: Some(lists), ..self.clone() })
    }

    /// When the package lists were last changed, where that is known.
    pub fn updated(&self) -> Option<SystemTime> {
        changed(&self.own_lists.as_ref().map_or_else(host_lists, OwnLists::folder))
    }

    /// The newest revision of `name`.
    ///
    /// # Errors
    /// [`LabError::Apt`] when apt does not know it.
    pub fn show(&self, name: &str) -> Result<Package, LabError> {
        self.show_all(&[name]).map(|mut packages| packages.remove(0))
    }

    /// True when apt has a package of that name.
    pub fn offers(&self, name: &str) -> bool {
        self.show(name).is_ok()
    }

    /// The newest revision of each of `names`, in their order, by one call of apt, which reads its lists at each call.
    ///
    /// # Errors
    /// [`LabError::Apt`] when apt does not know one.
    pub fn show_all(&self, names: &[&str]) -> Result<Vec<Package>, LabError> {
        let Some(first) = names.first() else { return Ok(Vec::new()) };
        let arguments = [&["show", "--no-all-versions"], names].concat();
        let text = self.run("apt-cache", &arguments, Path::new("/"), first)?;
        let known: Vec<Package> = text.split("\n\n").filter_map(Package::parse).collect();
        let named = |name: &&str| {
            known.iter().find(|package| package.name == **name).cloned().ok_or_else(|| LabError::Apt {
                package: (*name).to_owned(),
                reason: "apt-cache show reports no version and architecture".into(),
            })
        };
        names.iter().map(named).collect()
    }

    /// Downloads `packages` into `folder` and returns the file of each.
    ///
    /// # Errors
    /// [`LabError`] when one cannot be fetched.
    pub fn download(&self, packages: &[Package], folder: &Path) -> Result<Vec<PathBuf>, LabError> {
        let Some(first) = packages.first() else { return Ok(Vec::new()) };
        let bytes: u64 = packages.iter().map(|package| package.size_bytes).sum();
        let others = if packages.len() > 1 {
            format!(" with {} packages that it needs", packages.len() - 1)
        } else {
            String::new()
        };
        note!("brisk: fetching {}{others} ({:.1} MB)", first.name, bytes as f64 / 1e6);
        let wanted: Vec<String> = packages.iter().map(|it| format!("{}={}", it.name, it.version)).collect();
        let arguments: Vec<&str> = ["download"].into_iter().chain(wanted.iter().map(String::as_str)).collect();
        self.run("apt-get", &arguments, folder, &first.name)?;
        // apt escapes an epoch's colon in the file's name, so the file is searched for.
        let files = fs::read_dir(folder).map_err(fault("list", folder))?.filter_map(Result::ok);
        let files: Vec<PathBuf> = files.map(|file| file.path()).collect();
        let file = |package: &Package| {
            let start = format!("{}_", package.name);
            let file = files.iter().find(|path| file_name(path).starts_with(&start)).cloned();
            file.ok_or_else(|| LabError::Package {
                package: package.name.clone(),
                reason: format!("apt-get download left no file in {}", folder.display()),
            })
        };
        packages.iter().map(file).collect()
    }

    fn run(&self, program: &str, arguments: &[&str], folder: &Path, package: &str) -> Result<String, LabError> {
        // No other job fetches the lists meanwhile.
        let _lock = self.own_lists.as_ref().map(OwnLists::lock_to_read).transpose()?;
        let options = self.own_lists.as_ref().map(OwnLists::options).unwrap_or_default();
        run(program, &options, arguments, folder, package)
    }
}

/// The folder of the host's package lists.
fn host_lists() -> PathBuf {
    // The suffix `/d` asks for the path of a folder.
    let output = Command::new("apt-config").args(["shell", "folder", "Dir::State::lists/d"]).output();
    let output_text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let folder = output_text.trim().strip_prefix("folder='").and_then(|rest| rest.strip_suffix('\''));
    folder.unwrap_or("/var/lib/apt/lists").into()
}

/// True when there are package lists in `folder`.
fn has_package_lists(folder: &Path) -> bool {
    let mut files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.any(|file| file.file_name().to_string_lossy().contains("_Packages"))
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Runs `program`, which is one of apt's, and returns its output.
fn run(
    program: &str,
    options: &[OsString],
    arguments: &[&str],
    folder: &Path,
    package: &str,
) -> Result<String, LabError> {
    let fault = |reason: String| LabError::Package { package: package.into(), reason };
    let output = Command::new(program)
        .args(options)
        .args(arguments)
        .current_dir(folder)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .map_err(|error| fault(format!("cannot run {program}: {error}; the lab needs a Debian or Ubuntu host")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let output_text = String::from_utf8_lossy(&output.stderr);
    let output_text = output_text.lines().filter(|line| line.starts_with("E:")).collect::<Vec<_>>().join(" ");
    let reason = format!("{program} {} failed: {output_text}", arguments.join(" "));
    Err(LabError::Apt { package: package.into(), reason })
}

/// Unpacks a package's files into `folder`, without its scripts.
///
/// # Errors
/// [`LabError::Package`] when dpkg-deb fails.
pub fn unpack(package: &str, archive: &Path, folder: &Path) -> Result<(), LabError> {
    let fault = |reason: String| LabError::Package { package: package.into(), reason };
    let output = Command::new("dpkg-deb")
        .arg("-x")
        .args([archive, folder])
        .output()
        .map_err(|error| fault(format!("cannot run dpkg-deb: {error}; install the package dpkg")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(fault(format!("dpkg-deb -x failed: {}", String::from_utf8_lossy(&output.stderr).trim())))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Package {
    /// Reads the first paragraph of `apt-cache show`.
    pub fn parse(text: &str) -> Option<Self> {
        let paragraph = text.split("\n\n").next()?;
        let field = |name: &str| {
            paragraph.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
        };
        let list = |name| field(name).unwrap_or_default();
        let dependencies = format!("{},{}", list("Pre-Depends"), list("Depends"));
        let first_word = |dependency: &str| {
            let name = dependency.split(['|', '(']).next()?.trim();
            (!name.is_empty()).then(|| name.split(':').next().unwrap_or(name).to_owned())
        };
        Some(Self {
            name: field("Package")?,
            version: field("Version")?,
            architecture: field("Architecture")?,
            dependencies: dependencies.split(',').filter_map(first_word).collect(),
            size_bytes: field("Size").and_then(|size| size.parse().ok()).unwrap_or(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_read_as_apt_cache_shows_them() {
        let meta = "Package: linux-image-amd64\nVersion: 6.1.192-2\nArchitecture: amd64\n\
                    Depends: linux-image-6.1.0-56-amd64 (= 6.1.192-2)\nSize: 1480\n\nPackage: older\n";
        let headers = "Package: linux-headers-6.1.0-56-amd64\nVersion: 6.1.192-2\nArchitecture: amd64\n\
                       Pre-Depends: dpkg (>= 1)\nDepends: linux-headers-6.1.0-56-common (= 6.1.192-2), \
                       linux-kbuild-6.1, linux-compiler-gcc-12-x86 | gcc-12:any\n";
        for (text, expected) in [
            (
                meta,
                Some(Package {
                    name: "linux-image-amd64".into(),
                    version: "6.1.192-2".into(),
                    architecture: "amd64".into(),
                    dependencies: vec!["linux-image-6.1.0-56-amd64".into()],
                    size_bytes: 1480,
                }),
            ),
            (
                headers,
                Some(Package {
                    name: "linux-headers-6.1.0-56-amd64".into(),
                    version: "6.1.192-2".into(),
                    architecture: "amd64".into(),
                    dependencies: [
                        "dpkg",
                        "linux-headers-6.1.0-56-common",
                        "linux-kbuild-6.1",
                        "linux-compiler-gcc-12-x86",
                    ]
                    .map(String::from)
                    .to_vec(),
                    size_bytes: 0,
                }),
            ),
            ("Package: x\nArchitecture: all\n", None),
            ("", None),
        ] {
            assert_eq!(Package::parse(text), expected);
        }
    }
}
