//! A zygote for guests: a JVM, Android's classes and a plan, built once by the laboratory of `android/preload`.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::assembly::cache::{Cache, fault};
use super::error::LabError;
use super::job::GuestFile;
use brisk_base::notes::note;

/// Where Maven puts the laboratory's jars, below the repository.
const JARS: &str = "android/preload/tools/target/planner";
/// The main jar, which names the others.
const JAR: &str = "brisk-planner.jar";
const MAIN: &str = "brisk.preload.lab.BootKit";

/// Every file of the zygote that preloads `classes`, with its place in the guest.
///
/// # Errors
/// [`LabError::Package`] when it cannot be built, [`LabError::Cache`] when it cannot be read.
pub fn files(cache: &Cache, classes: u32) -> Result<Vec<GuestFile>, LabError> {
    let jars = jars()?;
    let entry = format!("zygote/{classes}-{:016x}", digest(&jars)?);
    let folder = cache.entry(&entry, |draft, _| make(cache, &jars, classes, draft))?;
    let mut files = Vec::new();
    collect(&folder, &folder, &mut files)?;
    Ok(files)
}

fn package(reason: String) -> LabError {
    LabError::Package { package: "android/preload".into(), reason }
}

/// The laboratory's jars, from the repository that this program was built in.
fn jars() -> Result<Vec<PathBuf>, LabError> {
    let program = std::env::current_exe().map_err(|error| package(error.to_string()))?;
    let mut folders = program.ancestors().skip(1).map(|folder| folder.join(JARS));
    let folder = folders.find(|folder| folder.join(JAR).is_file()).ok_or_else(|| {
        package(format!("there is no {JARS}/{JAR} above {}: ./dev prove builds it", program.display()))
    })?;
    let mut jars = listed(&folder)?;
    // `BootKit` takes the first jar of its class path for its own.
    jars.sort_by_key(|jar| (!jar.ends_with(JAR), jar.clone()));
    Ok(jars)
}

/// A zygote that is made of other jars has another digest.
fn digest(jars: &[PathBuf]) -> Result<u64, LabError> {
    let mut hasher = DefaultHasher::new();
    for jar in jars {
        fs::read(jar).map_err(fault("read", jar))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn make(cache: &Cache, jars: &[PathBuf], classes: u32, draft: &Path) -> Result<(), LabError> {
    note!("brisk: building a zygote of {classes} classes");
    let class_path = std::env::join_paths(jars).map_err(|error| package(error.to_string()))?;
    let scratch = draft.join("scratch");
    let output = Command::new("java")
        .arg("-cp")
        .arg(class_path)
        .args([MAIN, "--classes", &classes.to_string(), "--frameworks"])
        .arg(cache.path("android-all"))
        .arg("--scratch")
        .arg(&scratch)
        .arg("--output")
        .arg(draft)
        .output()
        .map_err(|error| package(format!("cannot run java: {error}; install default-jdk-headless")))?;
    if !output.status.success() {
        return Err(package(format!("{MAIN} failed:\n{}", String::from_utf8_lossy(&output.stderr).trim())));
    }
    fs::remove_dir_all(&scratch).map_err(fault("remove", &scratch))
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<GuestFile>) -> Result<(), LabError> {
    for path in listed(folder)? {
        if path.is_dir() {
            collect(root, &path, files)?;
            continue;
        }
        let contents = fs::read(&path).map_err(fault("read", &path))?;
        let place = path.strip_prefix(root).unwrap_or(&path);
        files.push(GuestFile { path: format!("/{}", place.display()), contents, mode: 0o755 });
    }
    Ok(())
}

fn listed(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let entries = fs::read_dir(folder).map_err(fault("list", folder))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>();
    if let Ok(paths) = &mut paths {
        paths.sort();
    }
    paths.map_err(fault("list", folder))
}
