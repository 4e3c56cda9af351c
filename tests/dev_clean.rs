//! `./dev clean`: what it removes, and what it keeps.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A repository with `dev` and the files that it includes, build output, and a cache beside the repository.
fn repository() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("packaging")).unwrap();
    for script in ["dev", "packaging/needs.sh"] {
        fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join(script), folder.path().join(script)).unwrap();
    }
    for file in ["target/debug/brisk", "fuzz/target/x", "android/preload/tools/target/x.jar", "src/main.rs"] {
        write(folder.path(), file);
    }
    for file in ["packages/linux-image/boot/vmlinuz", "kernels/one/bzImage", "apt/host/lists/x", "drafts/x.lock"] {
        write(&folder.path().join("cache/brisk"), file);
    }
    folder
}

fn write(folder: &Path, file: &str) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "").unwrap();
}

fn clean(repository: &Path, arguments: &[&str]) -> Output {
    Command::new(repository.join("dev"))
        .arg("clean")
        .args(arguments)
        .env("XDG_CACHE_HOME", repository.join("cache"))
        .output()
        .unwrap()
}

fn remaining(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

// Verifies HOUSE-1.
#[test]
fn clean_removes_the_build_and_the_cache_only_on_request() {
    let folder = repository();
    let path = folder.path();
    let output = clean(path, &[]);
    assert!(output.status.success(), "{output:?}");
    assert!(!path.join("target").exists() && !path.join("fuzz/target").exists());
    assert!(!path.join("android/preload/tools/target").exists() && path.join("src/main.rs").exists());
    assert_eq!(remaining(&path.join("cache/brisk")), ["apt", "drafts", "kernels", "packages"]);
    let output = clean(path, &["--cache"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(remaining(&path.join("cache")), Vec::<String>::new());
    assert!(clean(path, &["--cache"]).status.success(), "there is nothing to remove any more");
}

// Verifies HOUSE-1.
#[test]
fn measurement_results_are_kept() {
    let folder = repository();
    write(folder.path(), "cache/brisk/results/partial/launch-quick/lines");
    let output = clean(folder.path(), &["--cache"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(remaining(&folder.path().join("cache/brisk")), ["results"]);
    assert!(folder.path().join("cache/brisk/results/partial/launch-quick/lines").exists());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cache/brisk/results"), "{output:?}");
}

// Verifies HOUSE-1.
#[test]
fn a_cache_folder_with_foreign_files_is_kept() {
    let folder = repository();
    let path = folder.path();
    write(path, "cache/brisk/photographs/one.jpg");
    let output = clean(path, &["--cache"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("photographs"), "{output:?}");
    assert_eq!(remaining(&path.join("cache/brisk")), ["apt", "drafts", "kernels", "packages", "photographs"]);

    // The cache's folder may not be a symbolic link.
    fs::rename(path.join("cache/brisk"), path.join("elsewhere")).unwrap();
    fs::remove_dir_all(path.join("elsewhere/photographs")).unwrap();
    std::os::unix::fs::symlink(path.join("elsewhere"), path.join("cache/brisk")).unwrap();
    assert_eq!(clean(path, &["--cache"]).status.code(), Some(2));
    assert_eq!(remaining(&path.join("elsewhere")), ["apt", "drafts", "kernels", "packages"]);
    assert_eq!(clean(path, &["everything"]).status.code(), Some(2));
}
