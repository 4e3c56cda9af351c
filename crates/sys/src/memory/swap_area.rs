//! Making and using a swap area: the header that mkswap(8) writes, and swapon(2).

use std::ffi::CString;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::memory::meminfo::{self, MemoryInfo};
use crate::memory::swaps::{self, Swap};
use crate::memory::{swap_off, zram};
use crate::open_file::OpenFiles;
use crate::{DeviceError, Operation, Root};

/// The folders of block devices: Linux's, and Android's.
const FOLDERS: [&str; 2] = ["/dev", "/dev/block"];
/// Where the header begins in the first page (`union swap_header` of linux/swap.h).
const HEADER_OFFSET: usize = 1024;
const HEADER_VERSION: u32 = 1;
/// The label follows version, last page, number of bad pages and UUID.
const LABEL_OFFSET: usize = HEADER_OFFSET + 12 + 16;
const LABEL: &[u8] = b"brisk";
/// At the page's end.
const MAGIC: &[u8] = b"SWAPSPACE2";
/// The kernel refuses smaller areas (a header and something after it).
const MIN_PAGES: u64 = 10;
/// SWAP_FLAG_PREFER of linux/swap.h: the low bits are a priority.
const FLAG_PREFER: i32 = 0x8000;
/// Memory that must remain available after a swap area was emptied into memory: this much, or a part of a small device's.
const RESERVE_KIB: u64 = 16 << 10;
const RESERVE_DIVISOR: u64 = 16;

/// The first page of a swap area of `pages` pages of `page_bytes`.
pub fn header(pages: u64, page_bytes: usize) -> Option<Vec<u8>> {
    let last_page = u32::try_from(pages.checked_sub(1)?).ok().filter(|_| pages >= MIN_PAGES)?;
    let mut page = vec![0; page_bytes];
    page[HEADER_OFFSET..HEADER_OFFSET + 4].copy_from_slice(&HEADER_VERSION.to_ne_bytes());
    page[HEADER_OFFSET + 4..HEADER_OFFSET + 8].copy_from_slice(&last_page.to_ne_bytes());
    page[LABEL_OFFSET..LABEL_OFFSET + LABEL.len()].copy_from_slice(LABEL);
    page[page_bytes - MAGIC.len()..].copy_from_slice(MAGIC);
    Some(page)
}

/// The path of block device `name` (`zram0`), as named on the device.
pub fn path(root: &Root, name: &str) -> PathBuf {
    let paths = FOLDERS.map(|folder| Path::new(folder).join(name));
    paths.iter().find(|path| root.exists(path)).unwrap_or(&paths[0]).clone()
}

/// The swap state of block device `name`: `off`, or `on PRIORITY`.
///
/// # Errors
/// As [`swaps::read`].
pub fn state(root: &Root, name: &str) -> Result<String, DeviceError> {
    let mut areas = swaps::read(root)?.into_iter();
    let ours = areas.find(|swap| FOLDERS.iter().chain(&["/"]).any(|folder| swap.path == Path::new(folder).join(name)));
    Ok(ours.map_or_else(|| "off".to_owned(), |swap| format!("on {}", swap.priority)))
}

/// Enables swap on block device `name` with a priority (`on 100`), or disables it (`off`).
///
/// # Errors
/// The kernel's answer; also when the area's content does not fit into memory.
pub fn set_state(root: &Root, name: &str, state: &str) -> Result<(), DeviceError> {
    let file = root.path(path(root, name));
    let fault = |cause: io::Error| DeviceError::io(&file, Operation::Swap, cause);
    if !root.is_system() {
        return Err(fault(io::Error::new(io::ErrorKind::Unsupported, "a recorded device cannot swap")));
    }
    match state.strip_prefix("on ").map(str::parse) {
        Some(Ok(priority)) => make(&file).and_then(|()| switch_on(&file, priority)).map_err(fault),
        Some(Err(_)) => Err(fault(io::ErrorKind::InvalidInput.into())),
        None => switch_off(root, name, &file)?.map_err(fault),
    }
}

/// Disables swap on block device `name`, whose file is `file`, unless its content does not fit into memory.
fn switch_off(root: &Root, name: &str, file: &Path) -> Result<io::Result<()>, DeviceError> {
    let mut texts = OpenFiles::default();
    let content = Content::read(root, name, &mut texts)?;
    if !content.fits() {
        return Ok(Err(content.stays()));
    }
    // Other processes may allocate while it is emptied.
    let is_scarce =
        || Room::read(root, name, &mut texts).is_ok_and(|room| room.headroom_kib() < content.reserve_kib / 2);
    match swap_off::switch_off(file, is_scarce) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            Ok(Err(Content::read(root, name, &mut texts)?.stays()))
        }
        answer => Ok(answer),
    }
}

/// Writes a swap header over the start of `file`.
fn make(file: &Path) -> io::Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(file)?;
    let bytes = rustix::fs::seek(&device, rustix::fs::SeekFrom::End(0))?;
    let page_bytes = rustix::param::page_size();
    let small = || io::Error::new(io::ErrorKind::InvalidInput, "too small for swap, or too large");
    let page = header(bytes / page_bytes as u64, page_bytes).ok_or_else(small)?;
    device.write_all_at(&page, 0)?;
    device.sync_all()
}

fn switch_on(file: &Path, priority: u16) -> io::Result<()> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the kernel reads a string that ends with a zero byte and outlives the call.
    let result = unsafe { libc::syscall(libc::SYS_swapon, path.as_ptr(), FLAG_PREFER | i32::from(priority & 0x7fff)) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Memory and the swap areas at one moment.
struct Room {
    memory: MemoryInfo,
    /// The area in question, where it is in use.
    ours: Option<Swap>,
    others: Vec<Swap>,
}

impl Room {
    /// The files stay open among `texts`.
    fn read(root: &Root, name: &str, texts: &mut OpenFiles) -> Result<Self, DeviceError> {
        let (area, memory) = (path(root, name), meminfo::read_open(root, texts)?);
        let mut others = swaps::read_open(root, texts)?;
        let ours = others.iter().position(|swap| swap.path == area).map(|index| others.remove(index));
        Ok(Self { memory, ours, others })
    }

    /// Available memory and free space in the other areas.
    fn headroom_kib(&self) -> u64 {
        let free_kib: u64 = self.others.iter().map(Swap::free_kib).sum();
        self.memory.available_kib.unwrap_or(self.memory.free_kib) + free_kib
    }
}

/// A swap area's content, and the room for it elsewhere.
#[derive(Debug, Clone, Copy)]
struct Content {
    used_kib: u64,
    /// Memory that zram frees when its content is gone.
    freed_kib: u64,
    headroom_kib: u64,
    /// What must remain of the room.
    reserve_kib: u64,
}

impl Content {
    fn read(root: &Root, name: &str, texts: &mut OpenFiles) -> Result<Self, DeviceError> {
        let room = Room::read(root, name, texts)?;
        let used_kib = room.ours.as_ref().map_or(0, |swap| swap.used_kib);
        let held = zram::devices(root).unwrap_or_default().into_iter().find(|zram| zram.name == name);
        // Pages in the swap cache, as after the death of a large process whose pages were being written to a slow device. The
        // kernel does not report which area they belong to.
        let elsewhere_kib: u64 = room.others.iter().map(|swap| swap.used_kib).sum();
        let in_memory_kib = room.memory.swap_cached_kib.saturating_sub(elsewhere_kib);
        Ok(Self {
            used_kib: used_kib.saturating_sub(in_memory_kib),
            freed_kib: held.and_then(|zram| zram.usage).map_or(0, |usage| usage.memory_bytes >> 10),
            headroom_kib: room.headroom_kib(),
            reserve_kib: RESERVE_KIB.min(room.memory.total_kib / RESERVE_DIVISOR),
        })
    }

    fn fits(self) -> bool {
        let needed_kib = self.used_kib.saturating_sub(self.freed_kib).saturating_add(self.reserve_kib);
        self.used_kib == 0 || needed_kib <= self.headroom_kib
    }

    /// The error of an area that stays in use.
    fn stays(self) -> io::Error {
        let Self { used_kib, headroom_kib, .. } = self;
        let message = format!(
            "{used_kib} KiB are in it, and only {headroom_kib} KiB of memory are available: it stays in use; close applications, \
             then run `brisk restore`"
        );
        io::Error::new(io::ErrorKind::OutOfMemory, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-2.
    #[test]
    fn a_header_is_what_mkswap_writes() {
        let page = header(2560, 4096).unwrap();
        assert_eq!(page.len(), 4096);
        assert_eq!((&page[1024..1032], &page[4086..]), (&[1, 0, 0, 0, 0xff, 9, 0, 0][..], &b"SWAPSPACE2"[..]));
        assert_eq!(&page[1052..1058], b"brisk\0");
        assert!(page[..1024].iter().all(|&byte| byte == 0));
        for (pages, page_bytes) in [(0, 4096), (9, 4096), (1 << 33, 4096)] {
            assert_eq!(header(pages, page_bytes), None);
        }
        assert_eq!(&header(10, 65_536).unwrap()[65_526..], b"SWAPSPACE2");
    }

    // Verifies MEMORY-2.
    #[test]
    fn an_area_that_does_not_fit_into_memory_stays() {
        let content =
            |used_kib, freed_kib, headroom_kib| Content { used_kib, freed_kib, headroom_kib, reserve_kib: 8192 };
        for (used, freed, room, is_fine) in [
            (0, 0, 0, true),
            (100_000, 40_000, 68_192, true),
            (100_000, 40_000, 68_191, false),
            (100_000, 0, 90_000, false),
        ] {
            assert_eq!(content(used, freed, room).fits(), is_fine, "{used} {freed} {room}");
        }
        let error = DeviceError::io(Path::new("/dev/zram0"), Operation::Swap, content(9000, 0, 1).stays());
        assert!(
            error.with_advice().ends_with("close applications, then run `brisk restore`"),
            "{}",
            error.with_advice()
        );
    }

    #[test]
    fn the_state_is_that_of_the_devices_own_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("proc")).unwrap();
        let text = "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 100 0 -2\n/dev/zram10 partition 1 0 5\n";
        std::fs::write(folder.path().join("proc/swaps"), text).unwrap();
        let root = Root::at(folder.path());
        assert_eq!(["zram0", "zram1", "zram10"].map(|name| state(&root, name).unwrap()), ["on -2", "off", "on 5"]);
        let refused = set_state(&root, "zram0", "off").unwrap_err();
        assert!(refused.to_string().starts_with("cannot swap with "), "{refused}");
    }
}
