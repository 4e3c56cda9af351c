//! Programs of Debian packages that are not installed, because that would start a service on this machine: they are unpacked
//! below `target`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder `name` below `target` with the files of these packages, fetched the first time. `None`, with the reason printed,
/// where one that is `required` cannot be fetched.
pub fn unpacked(name: &str, required: &[&str], optional: &[&str]) -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_brisk")).parent().and_then(Path::parent).expect("target/PROFILE/brisk");
    let root = target.join(name);
    if root.exists() {
        return Some(root);
    }
    let draft = tempfile::tempdir_in(target).unwrap();
    let fetch = |package: &str| {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "download", package]).current_dir(draft.path()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if let Some(package) = required.iter().find(|package| !fetch(package)) {
        eprintln!("skipped: {package} cannot be fetched; run apt-get update");
        return None;
    }
    for package in optional {
        let _ = fetch(package);
    }
    let tree = draft.path().join("tree");
    for archive in fs::read_dir(draft.path()).unwrap().map(|entry| entry.unwrap().path()) {
        let status = Command::new("dpkg-deb").arg("--extract").arg(archive).arg(&tree).status().unwrap();
        assert!(status.success());
    }
    // Another test run may have been faster.
    let _ = fs::rename(&tree, &root);
    Some(root)
}
