//! The brisk binary that becomes the guest's first process: it must be static, and for the guest's architecture.

use std::fs;
use std::path::{Path, PathBuf};

use crate::architecture::Architecture;
use crate::error::LabError;

/// The variable with the path of a static binary, for use where the running one is not static.
pub const BINARY_VARIABLE: &str = "BRISK_BINARY";

/// Reads `explicit`, or else `$BRISK_BINARY`, or else the running program, and checks that a guest of this
/// architecture can run it. For a guest of another architecture than the host's, the two latter name `brisk-ARCHITECTURE`
/// beside them (`brisk-aarch64`).
///
/// # Errors
/// [`LabError::Binary`] when it cannot be read, needs a dynamic loader, or is for another architecture.
pub fn read_static(explicit: Option<&Path>, architecture: &Architecture) -> Result<Vec<u8>, LabError> {
    let path = match explicit {
        Some(path) => path.to_owned(),
        None => {
            let own = std::env::var_os(BINARY_VARIABLE).map_or_else(|| PathBuf::from("/proc/self/exe"), PathBuf::from);
            own_for(architecture, &own)
        }
    };
    let shown = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
    let fault = |reason: String| LabError::Binary { path: shown.clone(), reason };
    let advice = if Architecture::of_host() == Some(architecture) {
        format!("build one with ./dev build, and run that one or name it in {BINARY_VARIABLE}")
    } else {
        let machine = architecture.machine;
        format!("the guest needs a static brisk for {machine}; ./dev lab run debian-arm64-6.1 builds that for aarch64")
    };
    let elf = fs::read(&path).map_err(|error| fault(format!("{error}; {advice}")))?;
    match Needs::of(&elf) {
        None => Err(fault(format!("it is not a 64-bit little-endian ELF program; {advice}"))),
        Some(Needs { interpreter: true, .. }) => Err(fault(format!("it is linked dynamically; {advice}"))),
        Some(Needs { machine, .. }) if machine != architecture.elf_machine => {
            Err(fault(format!("it is not for {}; {advice}", architecture.machine)))
        }
        Some(_) => Ok(elf),
    }
}

/// `own`, this host's program, or the one beside it where `architecture` is not the host's.
fn own_for(architecture: &Architecture, own: &Path) -> PathBuf {
    if Architecture::of_host() == Some(architecture) {
        return own.to_owned();
    }
    // The running program is behind a link.
    let own = fs::canonicalize(own).unwrap_or_else(|_| own.to_owned());
    own.with_file_name(format!("brisk-{}", architecture.machine))
}

/// What an ELF program needs to run.
#[derive(Debug, PartialEq, Eq)]
struct Needs {
    /// `e_machine`.
    machine: u16,
    /// It names a program interpreter (PT_INTERP): the dynamic loader.
    interpreter: bool,
}

impl Needs {
    /// Reads the header and the program headers of elf(5); `None` when it is no little-endian ELF64.
    fn of(elf: &[u8]) -> Option<Self> {
        const PT_INTERP: u32 = 3;
        if elf.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let u16_at =
            |offset: usize| Some(u16::from_le_bytes(elf.get(offset..offset.checked_add(2)?)?.try_into().ok()?));
        let u32_at =
            |offset: usize| Some(u32::from_le_bytes(elf.get(offset..offset.checked_add(4)?)?.try_into().ok()?));
        let table = usize::try_from(u64::from_le_bytes(elf.get(32..40)?.try_into().ok()?)).ok()?;
        let (size, count) = (usize::from(u16_at(54)?), usize::from(u16_at(56)?));
        let mut interpreter = false;
        for index in 0..count {
            interpreter |= u32_at(table.checked_add(index * size)?)? == PT_INTERP;
        }
        Some(Self { machine: u16_at(18)?, interpreter })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn elf(machine: u16, segment_types: &[u32]) -> Vec<u8> {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[18..20].copy_from_slice(&machine.to_le_bytes());
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = segment_types.len() as u8;
        for kind in segment_types {
            elf.extend(kind.to_le_bytes());
            elf.resize(elf.len() + 52, 0);
        }
        elf
    }

    #[test]
    fn interpreters_and_machines_are_found() {
        let needs = |machine, interpreter| Some(Needs { machine, interpreter });
        for (elf, expected) in [
            (elf(62, &[1, 2, 1]), needs(62, false)),
            (elf(62, &[6, 3, 1]), needs(62, true)),
            (elf(183, &[]), needs(183, false)),
            (elf(62, &[1, 3])[..100].to_vec(), None),
            (b"\x7fELF\x01\x01 a 32-bit one".to_vec(), None),
            (b"#!/bin/sh\n".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Needs::of(&elf), expected);
        }
    }

    #[test]
    fn a_dynamic_binary_is_refused_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brisk");
        let amd64 = Architecture::named("amd64").unwrap();
        for (segment_types, machine, expected) in
            [(&[3][..], 62, "linked dynamically; build one with ./dev build"), (&[1][..], 183, "it is not for x86_64")]
        {
            fs::write(&path, elf(machine, segment_types)).unwrap();
            let error = read_static(Some(&path), amd64).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        fs::write(&path, elf(62, &[1])).unwrap();
        assert_eq!(read_static(Some(&path), amd64).unwrap().len(), 64 + 56);
    }

    #[test]
    fn a_foreign_guests_program_is_beside_this_one() {
        let own = std::env::current_exe().unwrap();
        for architecture in Architecture::all() {
            let is_host = Architecture::of_host() == Some(architecture);
            let expected = own.with_file_name(format!("brisk-{}", architecture.machine));
            assert_eq!(own_for(architecture, Path::new("/proc/self/exe")) == expected, !is_host, "{architecture:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_programs_do_not_panic(bytes in any::<Vec<u8>>()) {
            Needs::of(&[b"\x7fELF\x02\x01".as_slice(), &bytes].concat());
        }
    }
}
