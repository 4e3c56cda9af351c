//! The folder on the host that keeps what is slow to get: unpacked packages and built modules.
//!
//! An entry is made in a draft folder and renamed when it is complete, under a lock: neither two brisks at a time nor
//! one that is killed in between leaves half an entry.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::error::LabError;

/// `$XDG_CACHE_HOME/brisk` or `~/.cache/brisk`.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The user's cache; its folder is made.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be made.
    pub fn open() -> Result<Self, LabError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let Some(base) = base else {
            let source = io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME is set");
            return Err(fault("find", Path::new("the cache folder"))(source));
        };
        Self::at(&base.join("brisk"))
    }

    /// The cache in `folder`, which is made.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be made.
    pub fn at(folder: &Path) -> Result<Self, LabError> {
        fs::create_dir_all(folder).map_err(fault("make", folder))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Where the entry `name` is or will be.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder of the entry `name`. When there is none, `fill` gets an empty draft folder to fill, which then becomes
    /// the entry; its second argument is the path that the entry will have.
    ///
    /// # Errors
    /// Those of `fill`, and [`LabError::Cache`]; nothing is left of an entry that failed.
    pub fn entry(
        &self,
        name: &str,
        fill: impl FnOnce(&Path, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        if path.is_dir() {
            return Ok(path);
        }
        let _lock = self.lock()?;
        if path.is_dir() {
            return Ok(path);
        }
        // Only the holder of the lock has drafts: one that is there already was left by a brisk that was killed.
        let draft = self.folder.join("draft");
        remove(&draft)?;
        fs::create_dir_all(&draft).map_err(fault("make", &draft))?;
        let filled = fill(&draft, &path).and_then(|()| {
            let parent = path.parent().unwrap_or(&self.folder);
            fs::create_dir_all(parent).map_err(fault("make", parent))?;
            fs::rename(&draft, &path).map_err(fault("rename a draft to", &path))
        });
        match filled {
            Ok(()) => Ok(path),
            Err(error) => {
                remove(&draft)?;
                Err(error)
            }
        }
    }

    fn lock(&self) -> Result<File, LabError> {
        let path = self.folder.join("lock");
        let file = File::options().create(true).append(true).open(&path).map_err(fault("open", &path))?;
        let mut locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            eprintln!("brisk: waiting for another brisk that fills {}", self.folder.display());
        }
        while matches!(locked, Err(Errno::WOULDBLOCK | Errno::INTR)) {
            locked = flock(&file, FlockOperation::LockExclusive);
        }
        locked.map_err(|errno| fault("lock", &path)(errno.into()))?;
        Ok(file)
    }
}

fn remove(folder: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Makes the cache's error from the system's.
pub(super) fn fault(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
    let path = path.to_owned();
    move |source| LabError::Cache { operation, path, source }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn failure() -> LabError {
        LabError::Package { package: "p".into(), reason: "none".into() }
    }

    #[test]
    fn an_entry_is_filled_once_by_however_many_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let fills = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = Cache::at(folder.path()).unwrap();
                    let entry = cache.entry("a/b", |draft, path| {
                        assert_eq!(path, folder.path().join("a/b"));
                        fills.fetch_add(1, Ordering::Relaxed);
                        fs::write(draft.join("file"), "whole").map_err(fault("write", draft))
                    });
                    assert_eq!(fs::read_to_string(entry.unwrap().join("file")).unwrap(), "whole");
                });
            }
        });
        assert_eq!(fills.into_inner(), 1);
    }

    #[test]
    fn a_failed_or_interrupted_fill_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        fs::create_dir_all(folder.path().join("draft/left/over")).unwrap();
        cache.entry("e", |_, _| Err(failure())).unwrap_err();
        assert!(!cache.path("e").exists() && !folder.path().join("draft").exists());
        let entry = cache.entry("e", |_, _| Ok(())).unwrap();
        assert_eq!(fs::read_dir(entry).unwrap().count(), 0);
    }
}
