//! The log of kills: a JSON line each, in the runtime folder, which is lost at a reboot.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::KillRecord;
use brisk_sys::{DeviceError, Operation, Root};

/// About five hundred kills; then the file is renamed to `kills.old`.
const LIMIT_BYTES: u64 = 256 << 10;

fn path(root: &Root) -> PathBuf {
    root.runtime_folder().join("kills")
}

/// Appends `record`.
///
/// # Errors
/// [`DeviceError`] when the file cannot be written.
pub fn append(root: &Root, record: &KillRecord) -> Result<(), DeviceError> {
    let path = path(root);
    let write = || -> io::Result<()> {
        if path.symlink_metadata().is_ok_and(|file| file.len() > LIMIT_BYTES) {
            fs::rename(&path, path.with_extension("old"))?;
        }
        let mut line = serde_json::to_vec(record)?;
        line.push(b'\n');
        let nofollow = OFlags::NOFOLLOW.bits() as i32;
        let mut options = OpenOptions::new();
        let mut file = options.append(true).create(true).mode(0o640).custom_flags(nofollow).open(&path)?;
        if file.metadata()?.len() == 0 {
            // The folder keeps other users out; the service's group may read the log, whatever the umask.
            file.set_permissions(fs::Permissions::from_mode(0o640))?;
        }
        file.write_all(&line)
    };
    write().map_err(|cause| DeviceError::io(&path, Operation::Write, cause))
}

/// All recorded kills, the oldest first. Malformed lines are skipped.
///
/// # Errors
/// [`DeviceError`] when the file exists but cannot be read.
pub fn read(root: &Root) -> Result<Vec<KillRecord>, DeviceError> {
    let mut records = Vec::new();
    for path in [path(root).with_extension("old"), path(root)] {
        let nofollow = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let text = OpenOptions::new().read(true).custom_flags(nofollow).open(&path).and_then(io::read_to_string);
        match text {
            Ok(text) => records.extend(text.lines().filter_map(|line| serde_json::from_slice(line.as_bytes()).ok())),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => return Err(DeviceError::io(&path, Operation::Read, cause)),
        }
    }
    Ok(records)
}

/// Deletes the log.
pub fn clear(root: &Root) {
    for path in [path(root), path(root).with_extension("old")] {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::victim::VictimMode;
    use brisk_sys::BootTime;

    // Verifies SECURITY-2, MEMORY-4.
    #[test]
    fn kills_are_remembered_and_the_oldest_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.runtime_folder()).unwrap();
        assert_eq!(read(&root).unwrap(), []);
        let record = |pid| KillRecord {
            at: BootTime::from_milliseconds(5),
            pid,
            name: "browser".into(),
            oom_score_adj: 900,
            mode: VictimMode::Brisk,
            cause: "c".repeat(200),
            reason: "r".into(),
            headroom_kib: -7,
            predicted_kib: 50,
            returned_kib: Some(40),
            rss_kib: 80,
            rss_anonymous_kib: 50,
            swap_kib: 10,
            swap_ratio: 0.25,
            pss_kib: None,
            swap_pss_kib: None,
            estimated_in_ns: Some(40_000),
            audited_in_ns: None,
            decided_after_us: 900,
            by_event: true,
            back_after_us: None,
        };
        for pid in 0..2000 {
            append(&root, &record(pid)).unwrap();
        }
        let kept = read(&root).unwrap();
        assert!((400..1600).contains(&kept.len()), "{}", kept.len());
        assert_eq!(kept.last(), Some(&record(1999)));
        assert!(kept.windows(2).all(|pair| pair[0].pid + 1 == pair[1].pid));
        fs::write(root.runtime_folder().join("kills"), "{}\nx").unwrap();
        assert!(read(&root).unwrap().iter().all(|record| record.pid < 1999));
        clear(&root);
        assert_eq!(read(&root).unwrap(), []);
        let victim = folder.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        std::os::unix::fs::symlink(&victim, root.runtime_folder().join("kills")).unwrap();
        assert!(append(&root, &record(1)).is_err() && read(&root).is_err(), "another user has put a link there");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
    }
}
