//! Which static program runs on which device.

use std::fs;
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, FileKind};

use super::error::RemoteError;

/// What a program is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The architecture, as brisk's programs are named.
    pub architecture: &'static str,
    /// Whether it runs without the libraries of its machine.
    pub is_static: bool,
}

impl Kind {
    /// What the ELF file `bytes` is built for; `None` if it is something else, or for an architecture not known here.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match FileKind::parse(bytes).ok()? {
            FileKind::Elf32 => kind::<FileHeader32<Endianness>>(bytes),
            FileKind::Elf64 => kind::<FileHeader64<Endianness>>(bytes),
            _ => None,
        }
    }
}

fn kind<Header: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<Kind> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let architecture = match (header.e_machine(endian), header.is_type_64(), header.is_little_endian()) {
        (elf::EM_X86_64, true, true) => "x86_64",
        (elf::EM_AARCH64, true, true) => "aarch64",
        (elf::EM_ARM, false, true) => "armv7",
        (elf::EM_RISCV, true, true) => "riscv64",
        (elf::EM_386, false, true) => "i686",
        _ => return None,
    };
    let headers = header.program_headers(endian, bytes).ok()?;
    Some(Kind { architecture, is_static: !headers.iter().any(|header| header.p_type(endian) == PT_INTERP) })
}

/// The architecture in brisk's names of programs of the kernel's `machine`, as `uname -m` prints it.
pub fn architecture(machine: &str) -> &str {
    match machine {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        "i386" | "i486" | "i586" => "i686",
        // A 64-bit kernel that shows 32 bits to its processes.
        "armv8l" => "armv7",
        other => other.strip_suffix('l').filter(|_| other.starts_with("armv7")).unwrap_or(other),
    }
}

/// The programs at hand.
#[derive(Debug, Clone, Default)]
pub struct Programs(Vec<(PathBuf, Kind)>);

impl Programs {
    /// The programs `given`; without any, what lies beside `own`, this program, by the name brisk-ARCHITECTURE, and `own` if it
    /// is static.
    ///
    /// # Errors
    /// When a given program cannot be read, or is no program of an architecture known here.
    pub fn at_hand(given: &[PathBuf], own: &Path) -> Result<Self, RemoteError> {
        if given.is_empty() {
            return Ok(Self::beside(own));
        }
        let programs = given.iter().map(|path| {
            let bytes = fs::read(path);
            let bytes = bytes.map_err(|source| RemoteError::File { operation: "read", path: path.clone(), source })?;
            let unknown = || RemoteError::File {
                operation: "use",
                path: path.clone(),
                source: std::io::Error::other("it is no program of an architecture known here"),
            };
            Ok((path.clone(), Kind::of(&bytes).ok_or_else(unknown)?))
        });
        programs.collect::<Result<_, _>>().map(Self)
    }

    fn beside(own: &Path) -> Self {
        let folder = own.parent().and_then(|folder| fs::read_dir(folder).ok());
        let entries = folder.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = entries
            .filter(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|it| it.starts_with("brisk-")))
            .collect();
        found.sort();
        found.push(own.to_owned());
        let kinds = found.into_iter().filter_map(|path| {
            let kind = fs::read(&path).ok().and_then(|bytes| Kind::of(&bytes))?;
            let name = path.file_name()?.to_str()?;
            (kind.is_static && (path == own || name.strip_prefix("brisk-")? == kind.architecture))
                .then_some((path, kind))
        });
        Self(kinds.collect())
    }

    /// The first program for `architecture`.
    pub fn of(&self, architecture: &str) -> Option<&Path> {
        self.0.iter().find(|(_, kind)| kind.architecture == architecture).map(|(path, _)| path.as_path())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An ELF file with one program header of the type `segment`: the layout of the System V ABI, 64 bits, little endian.
    fn elf64(machine: u16, segment: u32) -> Vec<u8> {
        let mut bytes = vec![0; 64 + 56];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
        bytes[16] = 2;
        bytes[18..20].copy_from_slice(&machine.to_le_bytes());
        bytes[20] = 1;
        bytes[32] = 64;
        for (at, size) in [(52, 64), (54, 56), (56, 1), (58, 64)] {
            bytes[at] = size;
        }
        bytes[64..68].copy_from_slice(&segment.to_le_bytes());
        bytes
    }

    #[test]
    fn a_program_is_known_by_its_header() {
        let known = |architecture, is_static| Some(Kind { architecture, is_static });
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        let cut = |bytes: &[u8], length: usize| bytes[..length].to_vec();
        for (bytes, expected) in [
            (elf64(183, 1), known("aarch64", true)),
            (elf64(183, 3), known("aarch64", false)),
            (elf64(62, 1), known("x86_64", true)),
            (elf64(243, 1), known("riscv64", true)),
            (elf64(21, 1), None),
            (cut(&elf64(183, 1), 63), None),
            (cut(&elf64(183, 1), 100), None),
            (b"#!/bin/sh\n".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(Kind::of(&bytes), expected, "{bytes:?}");
        }
        assert_eq!(Kind::of(&own).unwrap().architecture, std::env::consts::ARCH);
    }

    #[test]
    fn machines_have_the_names_of_programs() {
        for (machine, expected) in [
            ("x86_64", "x86_64"),
            ("aarch64", "aarch64"),
            ("arm64", "aarch64"),
            ("armv7l", "armv7"),
            ("armv8l", "armv7"),
            ("i686", "i686"),
            ("ppc64le", "ppc64le"),
            ("mipsl", "mipsl"),
        ] {
            assert_eq!(architecture(machine), expected);
        }
    }

    #[test]
    fn programs_are_given_or_lie_beside_this_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let own = file("brisk", &elf64(62, 1));
        let aarch64 = file("brisk-aarch64", &elf64(183, 1));
        // What it is called is not what it is.
        file("brisk-riscv64", &elf64(183, 1));
        let found = Programs::at_hand(&[], &own).unwrap();
        assert_eq!((found.of("x86_64"), found.of("aarch64")), (Some(own.as_path()), Some(aarch64.as_path())));
        assert_eq!(found.of("riscv64"), None);
        fs::write(&own, elf64(62, 3)).unwrap();
        assert_eq!(Programs::at_hand(&[], &own).unwrap().of("x86_64"), None, "it needs its machine's libraries");
        let given = Programs::at_hand(std::slice::from_ref(&own), &own).unwrap();
        assert_eq!((given.of("x86_64"), given.of("aarch64")), (Some(own.as_path()), None));
        for (path, reason) in [(file("text", b"text"), "cannot use"), (folder.path().join("none"), "cannot read")] {
            assert!(Programs::at_hand(&[path], &own).unwrap_err().to_string().contains(reason));
        }
    }

    proptest! {
        #[test]
        fn forged_headers_are_no_panic(at in 0usize..120, byte in any::<u8>(), length in 0usize..=120) {
            let mut bytes = elf64(183, 1);
            bytes[at] = byte;
            let _ = Kind::of(&bytes[..length]);
        }
    }
}
