//! A disk that survives the guest's reboots: host memory that the guest sees as an NVDIMM with a file system. Its accesses take
//! no host time, which would make the clock of an instruction-counting guest jump.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::Command;

use rustix::fs::{MemfdFlags, memfd_create};

use super::error::LabError;

/// What QEMU may add to the machine's own memory.
const ROOM: &str = "slots=1,maxmem=8G";

/// Such a disk, with an empty ext4; it is freed when its descriptor is closed.
///
/// # Errors
/// [`LabError::Machine`] when it cannot be created or formatted.
pub fn formatted(size_mib: u32) -> Result<OwnedFd, LabError> {
    let fault = |reason: String| LabError::Machine { operation: "create its disk".into(), reason };
    let disk = memfd_create("disk", MemfdFlags::CLOEXEC).map_err(|error| fault(error.to_string()))?;
    let disk = File::from(disk);
    disk.set_len(u64::from(size_mib) << 20).map_err(|error| fault(error.to_string()))?;
    // An ordinary user's PATH has no sbin.
    let program = ["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"].into_iter().find(|path| Path::new(path).exists());
    let place = format!("/proc/{}/fd/{}", std::process::id(), disk.as_raw_fd());
    match Command::new(program.unwrap_or("mkfs.ext4")).args(["-q", "-F", "-m", "0", &place]).output() {
        Ok(output) if output.status.success() => Ok(disk.into()),
        Ok(output) => Err(fault(format!("mkfs.ext4 failed: {}", String::from_utf8_lossy(&output.stderr).trim()))),
        Err(error) => Err(fault(format!("cannot run mkfs.ext4: {error}; install the package e2fsprogs"))),
    }
}

/// QEMU's arguments for `disk`, after those for the machine and its memory; the guest has it as /dev/pmem0.
pub fn arguments(disk: &OwnedFd, size_mib: u32) -> Vec<String> {
    let place = format!("/proc/self/fd/{}", disk.as_raw_fd());
    let memory = format!("memory-backend-file,id=disk,share=on,mem-path={place},size={size_mib}M");
    ["-machine", "nvdimm=on", "-m", ROOM, "-object", &memory, "-device", "nvdimm,memdev=disk"]
        .map(String::from)
        .to_vec()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::*;

    // Verifies LAB-1.
    #[test]
    fn a_disk_has_a_file_system_and_no_place_on_the_host() {
        let disk = formatted(8).unwrap();
        let line = arguments(&disk, 8).join(" ");
        assert!(line.contains(",size=8M"), "{line}");
        let mut magic = [0; 2];
        // The magic number of ext2, ext3 and ext4.
        File::from(disk).read_exact_at(&mut magic, 1024 + 56).unwrap();
        assert_eq!(magic, [0x53, 0xef]);
    }
}
