//! The results of a device, unpacked. A device is not trusted: only plain files and folders are written, below one folder,
//! and not more of them than results may have.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, EntryType};

use super::script::RESULTS;

/// The most bytes of all files: a device must not fill this computer's disk.
const MAX_BYTES: u64 = 1 << 30;
/// The most entries.
const MAX_ENTRIES: usize = 100_000;

/// Unpacks the archive of [`script::fetch`](super::script::fetch) into the empty folder `into`. False if it has no results.
///
/// # Errors
/// When the archive is damaged, has something else than results may have, or a file cannot be written.
pub fn unpack(archive: impl Read, into: &Path) -> io::Result<bool> {
    let mut left = MAX_BYTES;
    let mut is_any = false;
    for (index, entry) in Archive::new(archive).entries()?.enumerate() {
        let mut entry = entry?;
        let path = below(&entry.path()?).ok_or_else(|| refused("a file outside of the results"))?;
        let path = into.join(path);
        left = left.checked_sub(entry.size()).ok_or_else(|| refused("more than 1 GiB"))?;
        if index >= MAX_ENTRIES {
            return Err(refused("more than 100000 files"));
        }
        match entry.header().entry_type() {
            EntryType::Directory => fs::create_dir_all(&path)?,
            EntryType::Regular => drop(io::copy(&mut entry, &mut File::create_new(&path)?)?),
            _ => return Err(refused("something that is neither a file nor a folder")),
        }
        is_any = true;
    }
    Ok(is_any)
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the archive has {what}"))
}

/// `path` below the folder of results.
fn below(path: &Path) -> Option<PathBuf> {
    let path = path.strip_prefix(RESULTS).ok()?;
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of entries: name, type, contents. Names are written as they are, which the crate would refuse.
    fn archive(entries: &[(&str, EntryType, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, kind, contents) in entries {
            let mut header = tar::Header::new_gnu();
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_entry_type(*kind);
            header.set_size(contents.len() as u64);
            header.set_mode(0o600);
            header.set_cksum();
            builder.append(&header, contents.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> (Result<bool, String>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let into = folder.path().join("into");
        fs::create_dir(&into).unwrap();
        (unpack(bytes, &into).map_err(|error| error.to_string()), folder)
    }

    #[test]
    fn results_are_unpacked_and_nothing_else() {
        use EntryType::{Directory, Regular, Symlink};
        let good = [
            ("results/", Directory, ""),
            ("results/proof.json", Regular, "{}"),
            ("results/samples/", Directory, ""),
            ("results/samples/run.json", Regular, "[]"),
        ];
        let (found, folder) = unpacked(&archive(&good));
        assert_eq!(found, Ok(true));
        assert_eq!(fs::read_to_string(folder.path().join("into/samples/run.json")).unwrap(), "[]");
        assert_eq!(unpacked(&[]).0, Ok(false));
        for (entries, reason) in [
            (&[("results/../../evil", Regular, "x")][..], "outside"),
            (&[("/etc/evil", Regular, "x")], "outside"),
            (&[("evil", Regular, "x")], "outside"),
            (&[("results/link", Symlink, "")], "neither a file nor a folder"),
            (&[("results/a", Regular, "x"), ("results/a", Regular, "y")], "exists"),
        ] {
            let (found, folder) = unpacked(&archive(entries));
            assert!(found.as_ref().is_err_and(|it| it.contains(reason)), "{entries:?}: {found:?}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_cut_archive_is_refused() {
        let bytes = archive(&[("results/proof.json", EntryType::Regular, &"x".repeat(2000))]);
        for length in [100, 511, 600, 2000] {
            assert!(unpacked(&bytes[..length]).0.is_err(), "{length}");
        }
        // A header that claims more than the limit.
        let mut forged = tar::Header::new_gnu();
        forged.set_path("results/a").unwrap();
        forged.set_entry_type(EntryType::Regular);
        forged.set_size(MAX_BYTES + 1);
        forged.set_cksum();
        assert!(unpacked(forged.as_bytes()).0.unwrap_err().contains("1 GiB"));
    }
}
