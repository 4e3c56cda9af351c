//! A repository of small packages on this machine, for tests: apt itself reads it, and no network is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// Content that distinguishes a package from a meta package, which has no files of its own.
const FILLING_BYTES: usize = 20_000;

/// A package to offer.
#[derive(Debug, Clone, Copy)]
pub struct Offered<'a> {
    pub name: &'a str,
    /// Its version, which is also the content of its file `usr/share/NAME`.
    pub version: &'a str,
    /// What it depends on.
    pub depends: &'a str,
    /// More files: path and content.
    pub files: &'a [(&'a str, &'a str)],
    /// True for a meta package: a name for its first dependency.
    pub is_meta: bool,
}

impl<'a> Offered<'a> {
    /// A package without dependencies.
    pub fn new(name: &'a str, version: &'a str) -> Self {
        Self { name, version, depends: "", files: &[], is_meta: false }
    }
}

/// A repository; it is removed when it is dropped.
#[derive(Debug)]
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// A repository with `packages`.
    pub fn with(packages: &[Offered<'_>]) -> Self {
        let repository = Self { folder: tempfile::tempdir().unwrap() };
        repository.offer(packages);
        repository
    }

    /// Replaces what it offers by `packages`, as an updated mirror does.
    pub fn offer(&self, packages: &[Offered<'_>]) {
        for file in fs::read_dir(self.folder.path()).unwrap() {
            fs::remove_file(file.unwrap().path()).unwrap();
        }
        let index: Vec<String> = packages.iter().map(|package| self.add(package)).collect();
        fs::write(self.folder.path().join("Packages"), index.join("\n")).unwrap();
    }

    /// Its line for `sources.list`. Files are copied, as from a mirror: with `file:` apt would use them where they are.
    pub fn source(&self) -> String {
        format!("deb [trusted=yes] copy://{} ./", self.folder.path().display())
    }

    /// Builds a package, and returns its paragraph of the index.
    fn add(&self, package: &Offered<'_>) -> String {
        let Offered { name, version, depends, files, is_meta } = *package;
        let tree = tempfile::tempdir().unwrap();
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        let control = format!(
            "Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: a test <test@localhost>\n\
             {depends}Description: a test\n"
        );
        let filling = " ".repeat(if is_meta { 0 } else { FILLING_BYTES });
        let (own, doc) = (format!("usr/share/{name}"), format!("usr/share/doc/{name}/filling"));
        let version_line = format!("{version}\n");
        let places = [("DEBIAN/control", control.as_str()), (&own, &version_line), (&doc, &filling)];
        for (place, text) in places.iter().chain(files) {
            let path = tree.path().join(place);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let file = format!("{name}_{version}_all.deb");
        let path = self.folder.path().join(&file);
        said(Command::new("dpkg-deb").args(["-Znone", "--root-owner-group", "--build"]).arg(tree.path()).arg(&path));
        let sum = said(Command::new("sha256sum").arg(&path));
        let sum = sum.split_whitespace().next().unwrap();
        let size_bytes = size_bytes(&path);
        format!("{control}Filename: ./{file}\nSize: {size_bytes}\nSHA256: {sum}\n")
    }
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn size_bytes(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}
