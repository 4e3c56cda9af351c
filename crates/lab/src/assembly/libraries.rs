//! The shared libraries that programs of unpacked packages need, and their loader.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::cache::fault;
use crate::error::LabError;

/// Where Debian keeps libraries for the processor that `uname -m` calls `machine`, below an unpacked package.
fn folders_of(machine: &str) -> Vec<String> {
    let own = ["lib", "usr/lib"].map(|folder| format!("{folder}/{machine}-linux-gnu"));
    own.into_iter().chain(["lib", "usr/lib"].map(str::to_owned)).collect()
}

/// The libraries that `programs` need, those that these need, and their loader, by their path in the guest. They are searched
/// for below `roots`, which are unpacked packages for `machine` (`uname -m`). A file that is no program needs nothing.
///
/// # Errors
/// [`LabError`] when a file cannot be read or understood, or a library is missing.
pub fn needed_by(programs: &[PathBuf], roots: &[&Path], machine: &str) -> Result<BTreeMap<String, PathBuf>, LabError> {
    let mut found = BTreeMap::new();
    // A program's own folders come first, and also apply to its libraries.
    let mut folders = folders_of(machine);
    let mut unread = programs.to_vec();
    while let Some(program) = unread.pop() {
        let elf = fs::read(&program).map_err(fault("read", &program))?;
        let wrong = |reason: String| LabError::Package { package: program.display().to_string(), reason };
        let needs = Needs::of(&elf).map_err(|error| wrong(error.to_string()))?;
        let missing = |name: &str| wrong(format!("it needs {name}, which is in none of the packages"));
        if let Some(loader) = needs.loader {
            let name = loader.rsplit('/').next().unwrap_or(&loader);
            let (_, file) = search(name, &folders, roots).ok_or_else(|| missing(name))?;
            found.insert(loader, file);
        }
        folders.splice(..0, needs.folders);
        for name in needs.libraries {
            let (place, file) = search(&name, &folders, roots).ok_or_else(|| missing(&name))?;
            if found.insert(place, file.clone()).is_none() {
                unread.push(file);
            }
        }
    }
    Ok(found)
}

/// The library `name`: its path in the guest, and its file.
fn search(name: &str, folders: &[String], roots: &[&Path]) -> Option<(String, PathBuf)> {
    let places: Vec<String> =
        folders.iter().map(|folder| format!("{}/{name}", folder.trim_start_matches('/'))).collect();
    let candidates = roots.iter().flat_map(|root| places.iter().map(|place| (place, root.join(place))));
    candidates.into_iter().find(|(_, file)| file.is_file()).map(|(place, file)| (format!("/{place}"), file))
}

/// What an ELF file needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// PT_INTERP.
    loader: Option<String>,
    /// DT_NEEDED.
    libraries: Vec<String>,
    /// DT_RUNPATH and DT_RPATH: the folders that are searched first.
    folders: Vec<String>,
}

impl Needs {
    fn of(elf: &[u8]) -> object::Result<Self> {
        let mut needs = Self::default();
        if !elf.starts_with(b"\x7fELF") {
            return Ok(needs);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let header = FileHeader64::<Endianness>::parse(elf)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, elf)? {
            needs.loader = needs.loader.or(segment.interpreter(endian, elf)?.map(text));
        }
        let sections = header.sections(endian, elf)?;
        let Some((entries, names)) = sections.dynamic(endian, elf)? else { return Ok(needs) };
        let names = sections.strings(endian, elf, names)?;
        for entry in entries {
            match entry.tag32(endian) {
                Some(DT_NEEDED) => needs.libraries.push(text(entry.string(endian, names)?)),
                Some(DT_RUNPATH | DT_RPATH) => {
                    needs.folders.extend(text(entry.string(endian, names)?).split(':').map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(needs)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_program_needs_libc_and_a_loader_a_script_nothing() {
        let own = fs::read("/proc/self/exe").unwrap();
        let needs = Needs::of(&own).unwrap();
        if let Some(loader) = &needs.loader {
            assert!(loader.contains("ld-"), "{needs:?}");
            assert!(needs.libraries.iter().any(|name| name.starts_with("libc.")), "{needs:?}");
        }
        assert_eq!(Needs::of(b"#!/bin/sh\n").unwrap(), Needs::default());
    }

    #[test]
    fn a_library_is_taken_from_the_programs_own_folder_first() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        for file in ["one/usr/lib/own/a.so", "one/usr/lib/a.so", "other/lib/x86_64-linux-gnu/b.so"] {
            let file = folder.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        let roots = [one.as_path(), other.as_path()];
        for (name, own, machine, expected) in [
            ("a.so", Some("/usr/lib/own"), "x86_64", Some("/usr/lib/own/a.so")),
            ("a.so", None, "x86_64", Some("/usr/lib/a.so")),
            ("b.so", None, "x86_64", Some("/lib/x86_64-linux-gnu/b.so")),
            ("b.so", None, "aarch64", None),
            ("c.so", None, "x86_64", None),
        ] {
            let folders: Vec<_> = own.map(str::to_owned).into_iter().chain(folders_of(machine)).collect();
            assert_eq!(search(name, &folders, &roots).map(|(place, _)| place).as_deref(), expected, "{name} {machine}");
        }
        let program = one.join("usr/lib/a.so");
        assert!(needed_by(&[program], &roots, "x86_64").unwrap().is_empty());
    }

    proptest! {
        #[test]
        fn arbitrary_programs_do_not_panic(bytes in any::<Vec<u8>>()) {
            let _ = Needs::of(&[b"\x7fELF\x02\x01\x01".as_slice(), &bytes].concat());
        }
    }
}
