//! Unpacks a kernel image on the host: under emulation a guest takes seconds to unpack it at every boot.
//!
//! An x86 kernel with a PVH entry (CONFIG_PVH) boots from the ELF file inside its bzImage. The code that runs is the
//! same; other images are booted as they are.

use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::cache::{Cache, fault};
use super::packages::KernelFiles;
use crate::error::LabError;

/// What QEMU should boot: the ELF file inside the kernel image where there is one, or else the image itself.
///
/// # Errors
/// [`LabError::Cache`] when a file cannot be read or written.
pub fn bootable(cache: &Cache, kernel: &KernelFiles) -> Result<PathBuf, LabError> {
    // A kernel that brisk built only boots from its bzImage.
    if kernel.tree.is_some() {
        return Ok(kernel.image.clone());
    }
    let folder = cache.entry(&format!("images/{}", kernel.revision), |draft, _| {
        let image = fs::read(&kernel.image).map_err(fault("read", &kernel.image))?;
        let path = draft.join("vmlinux");
        let is_whole = match payload(&image).and_then(Payload::of) {
            Some(payload) => payload.unpack_into(&File::create(&path).map_err(fault("write", &path))?),
            None => false,
        };
        if !is_whole {
            fs::write(&path, image).map_err(fault("write", &path))?;
        }
        Ok(())
    })?;
    Ok(folder.join("vmlinux"))
}

/// The packed kernel in a bzImage (Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length).
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |offset: usize| {
        let bytes = image.get(offset..offset + 4)?.try_into().ok()?;
        usize::try_from(u32::from_le_bytes(bytes)).ok()
    };
    let version = u16::from_le_bytes(image.get(0x206..0x208)?.try_into().ok()?);
    if image.get(0x202..0x206)? != b"HdrS" || version < 0x208 {
        return None;
    }
    let setup_sectors = match image.get(0x1f1)? {
        0 => 4,
        &sectors => usize::from(sectors),
    };
    let start = (setup_sectors + 1) * 512 + number(0x248)?;
    image.get(start..start.checked_add(number(0x24c)?)?)
}

/// A packed kernel and the program that unpacks it.
struct Payload<'a> {
    program: &'static str,
    packed: &'a [u8],
    unpacked_size: u64,
}

impl<'a> Payload<'a> {
    /// Detects the compression by its first bytes; the kernel's build puts the size behind the packed data.
    fn of(payload: &'a [u8]) -> Option<Self> {
        const PROGRAMS: &[(&[u8], &str)] = &[
            (b"\xfd7zXZ\0", "xz"),
            (b"\x28\xb5\x2f\xfd", "zstd"),
            (b"\x1f\x8b", "gzip"),
            (b"\x02\x21\x4c\x18", "lz4"),
        ];
        let (packed, size) = payload.split_at_checked(payload.len().checked_sub(4)?)?;
        let (_, program) = PROGRAMS.iter().find(|(magic, _)| packed.starts_with(magic))?;
        let unpacked_size = u32::from_le_bytes(size.try_into().ok()?).into();
        Some(Self { program, packed, unpacked_size })
    }

    /// True when the whole kernel is in `file`; false when the program is missing or fails.
    fn unpack_into(&self, file: &File) -> bool {
        let Ok(output) = file.try_clone() else { return false };
        let child =
            Command::new(self.program).arg("-dc").stdin(Stdio::piped()).stdout(output).stderr(Stdio::null()).spawn();
        let Ok(mut child) = child else { return false };
        let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(self.packed).is_ok());
        let ended = child.wait().is_ok_and(|status| status.success());
        written && ended && file.metadata().is_ok_and(|file| file.len() == self.unpacked_size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A bzImage with one setup sector and `payload` 16 bytes into the protected-mode part.
    fn image(payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 1024 + 16];
        image[0x1f1] = 1;
        image[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
        image[0x248] = 16;
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_is_found_and_nonsense_is_not() {
        assert_eq!(payload(&image(b"packed")), Some(&b"packed"[..]));
        for nonsense in [&b""[..], &[0; 4096], &image(b"packed")[..1043]] {
            assert_eq!(payload(nonsense), None);
        }
    }

    #[test]
    fn a_packed_kernel_is_unpacked_and_checked_by_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let packed = Command::new("sh").args(["-c", "printf 'kernel code' | gzip -c"]).output().unwrap().stdout;
        for (size, expected) in [(11_u32, true), (12, false)] {
            let whole = [packed.as_slice(), &size.to_le_bytes()].concat();
            let path = folder.path().join(size.to_string());
            let unpacked = Payload::of(&whole).unwrap().unpack_into(&File::create(&path).unwrap());
            assert_eq!(unpacked, expected, "size {size}");
        }
        assert_eq!(fs::read(folder.path().join("11")).unwrap(), b"kernel code");
        assert!(Payload::of(b"\x7fELFnot packed").is_none());
    }

    proptest! {
        #[test]
        fn arbitrary_images_do_not_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0x208..2048)) {
            bytes[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
            payload(&bytes).and_then(Payload::of);
        }
    }
}
