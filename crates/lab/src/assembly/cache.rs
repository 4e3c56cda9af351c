//! The folder on the host that keeps what is slow to obtain: unpacked packages, built modules and kernels.
//!
//! Nothing is written in place: an entry (a folder) is made as a draft under its own lock, a file as a draft with its own name,
//! and each is renamed when it is complete. So concurrent threads and processes, or one that is killed, never leave an
//! incomplete entry, and no process waits for an entry that it does not need.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::LabError;
use brisk_base::notes::note;

/// Holds drafts, and a lock for each draft folder.
const DRAFTS: &str = "drafts";

/// `$XDG_CACHE_HOME/brisk` or `~/.cache/brisk`.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The user's cache; its folder is created.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be created.
    pub fn open() -> Result<Self, LabError> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let Some(base) = base else {
            let source = io::Error::new(io::ErrorKind::NotFound, "neither XDG_CACHE_HOME nor HOME is set");
            return Err(fault("find", Path::new("the cache folder"))(source));
        };
        Self::at(&base.join("brisk"))
    }

    /// The cache in `folder`, which is created.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be created.
    pub fn at(folder: &Path) -> Result<Self, LabError> {
        make(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// The path of the entry or file `name`, whether it exists or not.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes the file `name` with `contents`, in place of an existing one. Of several concurrent writers the last one wins,
    /// and a reader sees a complete file.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be written.
    pub fn publish(&self, name: &str, contents: &str) -> Result<(), LabError> {
        let (path, drafts) = (self.path(name), self.path(DRAFTS));
        make(path.parent().unwrap_or(&self.folder))?;
        make(&drafts)?;
        // The user's umask applies, as to any program's files.
        let mut builder = tempfile::Builder::new();
        let draft = builder.permissions(Permissions::from_mode(0o666)).tempfile_in(drafts);
        let mut draft = draft.map_err(fault("write", &path))?;
        draft.write_all(contents.as_bytes()).map_err(fault("write", &path))?;
        draft.persist(&path).map_err(|error| fault("write", &path)(error.error)).map(drop)
    }

    /// The folder of the entry `name`. If it does not exist, `fill` gets an empty draft folder to fill, which then becomes the
    /// entry; its second argument is the path that the entry will have.
    ///
    /// # Errors
    /// Errors of `fill`, and [`LabError::Cache`]; a failed entry leaves nothing behind.
    pub fn entry(
        &self,
        name: &str,
        fill: impl FnOnce(&Path, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        self.entry_built_at(name, name, fill)
    }

    /// As [`Self::entry`], in a draft folder whose path depends on `workplace` alone: entries of one workplace are made one
    /// after the other, and a tree that records its build path is always built at that path.
    ///
    /// # Errors
    /// As [`Self::entry`].
    pub fn entry_built_at(
        &self,
        workplace: &str,
        name: &str,
        fill: impl FnOnce(&Path, &Path) -> Result<(), LabError>,
    ) -> Result<PathBuf, LabError> {
        let path = self.path(name);
        if path.is_dir() {
            return Ok(path);
        }
        let lock = match Lock::try_lock(&self.lock_path(workplace)?, FlockOperation::NonBlockingLockExclusive)? {
            Some(lock) => lock,
            None => {
                note!("brisk: waiting for another job that builds {workplace}");
                self.lock_to_change(workplace)?
            }
        };
        if path.is_dir() {
            return Ok(path);
        }
        self.remove_abandoned();
        // Only the lock's holder uses this draft: an existing one was left by a brisk that was killed.
        let draft = lock.path.with_extension("");
        remove(&draft)?;
        make(&draft)?;
        let filled = fill(&draft, &path).and_then(|()| {
            make(path.parent().unwrap_or(&self.folder))?;
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

    /// Waits until no job changes `name`; none changes it until the lock is dropped.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be locked.
    pub fn lock_to_read(&self, name: &str) -> Result<Lock, LabError> {
        Lock::wait_for(&self.lock_path(name)?, FlockOperation::LockShared)
    }

    /// Waits until no job reads or changes `name`; none does until the lock is dropped.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be locked.
    pub fn lock_to_change(&self, name: &str) -> Result<Lock, LabError> {
        Lock::wait_for(&self.lock_path(name)?, FlockOperation::LockExclusive)
    }

    fn lock_path(&self, name: &str) -> Result<PathBuf, LabError> {
        let drafts = self.path(DRAFTS);
        make(&drafts)?;
        let plain = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
        let plain: String = name.chars().map(plain).collect();
        Ok(drafts.join(plain + ".lock"))
    }

    /// Removes the drafts of killed brisk processes: no process holds their locks. A draft that cannot be removed stays.
    fn remove_abandoned(&self) {
        let files = fs::read_dir(self.path(DRAFTS)).into_iter().flatten().filter_map(Result::ok);
        for path in files.map(|file| file.path()).filter(|path| path.extension().is_some_and(|end| end == "lock")) {
            if let Ok(Some(lock)) = Lock::try_lock(&path, FlockOperation::NonBlockingLockExclusive) {
                let _ = remove(&lock.path.with_extension(""));
            }
        }
    }
}

/// A lock that the kernel releases when its holder exits, even if it is killed.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    fn wait_for(path: &Path, how: FlockOperation) -> Result<Self, LabError> {
        loop {
            if let Some(lock) = Self::try_lock(path, how)? {
                return Ok(lock);
            }
        }
    }

    /// `None` when it is held elsewhere, or when a signal interrupted the wait.
    fn try_lock(path: &Path, how: FlockOperation) -> Result<Option<Self>, LabError> {
        loop {
            let file = File::options().create(true).append(true).open(path).map_err(fault("open", path))?;
            match flock(&file, how) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK | Errno::INTR) => return Ok(None),
                Err(errno) => return Err(fault("lock", path)(errno.into())),
            }
            let lock = Self { path: path.to_owned(), file };
            if lock.is_in_place() {
                return Ok(Some(lock));
            }
        }
    }

    /// False when the file was removed between opening and locking: such a lock protects nothing.
    fn is_in_place(&self) -> bool {
        let [own, there] =
            [self.file.metadata(), fs::metadata(&self.path)].map(|file| file.ok().map(|file| (file.dev(), file.ino())));
        own.is_some() && own == there
    }
}

impl Drop for Lock {
    /// Of several readers the last one removes the file.
    fn drop(&mut self) {
        if flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() && self.is_in_place() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn make(folder: &Path) -> Result<(), LabError> {
    fs::create_dir_all(folder).map_err(fault("make", folder))
}

fn remove(folder: &Path) -> Result<(), LabError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(fault("remove", folder)(error)),
        _ => Ok(()),
    }
}

/// Makes the cache's error from a system error.
pub(crate) fn fault(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LabError {
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
    fn concurrent_callers_fill_an_entry_once() {
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

    // Verifies LAB-2.
    #[test]
    fn a_failed_or_interrupted_fill_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let drafts = folder.path().join(DRAFTS);
        // Two killed brisk processes left these: one made the entry that is wanted now, one another entry.
        for left in ["e", "another"] {
            fs::create_dir_all(drafts.join(left).join("left/over")).unwrap();
            fs::write(drafts.join(format!("{left}.lock")), "").unwrap();
        }
        let used = cache.lock_to_read("used").unwrap();
        cache.entry("e", |_, _| Err(failure())).unwrap_err();
        assert!(!cache.path("e").exists());
        let left: Vec<_> = fs::read_dir(&drafts).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["used.lock"]);
        drop(used);
        let entry = cache.entry("e", |_, _| Ok(())).unwrap();
        assert_eq!(fs::read_dir(entry).unwrap().count(), 0);
        assert_eq!(fs::read_dir(drafts).unwrap().count(), 0);
    }

    // Verifies LAB-2.
    #[test]
    fn an_entry_waits_for_no_other_and_may_need_one() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let outer = cache.entry("outer", |draft, _| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| cache.entry("other", |_, _| Ok(())));
                other.join().expect("it waits for nothing")
            })?;
            let inner = cache.entry("inner", |_, _| Ok(()))?;
            assert!(inner.is_dir() && draft.is_dir());
            Ok(())
        });
        assert!(outer.unwrap().is_dir() && cache.path("other").is_dir());
    }

    #[test]
    fn entries_of_one_workplace_are_made_in_the_same_folder() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let drafts = ["kernels/one", "kernels/two"].map(|name| {
            let mut place = PathBuf::new();
            let make = |draft: &Path, _: &Path| {
                draft.clone_into(&mut place);
                Ok(())
            };
            cache.entry_built_at("kernels", name, make).unwrap();
            place
        });
        assert_eq!(drafts[0], drafts[1]);
    }

    // Verifies LAB-2.
    #[test]
    fn concurrent_writers_publish_whole_files() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let texts = ["a".repeat(50_000), "b".repeat(90_000)];
        cache.publish("of/all", &texts[0]).unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let (cache, texts) = (&cache, &texts);
                scope.spawn(move || {
                    for _ in 0..50 {
                        cache.publish("of/all", &texts[writer % 2]).unwrap();
                        assert!(texts.contains(&fs::read_to_string(cache.path("of/all")).unwrap()));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(folder.path().join(DRAFTS)).unwrap().count(), 0);
    }

    // Verifies LAB-2.
    #[test]
    fn readers_share_a_lock_and_a_writer_excludes_them() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).unwrap();
        let changes = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (cache, changes) = (&cache, &changes);
                scope.spawn(move || {
                    for _ in 0..100 {
                        if number < 4 {
                            let _lock = cache.lock_to_change("x").unwrap();
                            assert_eq!(changes.fetch_add(1, Ordering::SeqCst) % 2, 0);
                            std::thread::yield_now();
                            assert_eq!(changes.fetch_add(1, Ordering::SeqCst) % 2, 1);
                        } else {
                            let _lock = cache.lock_to_read("x").unwrap();
                            assert_eq!(changes.load(Ordering::SeqCst) % 2, 0);
                        }
                    }
                });
            }
        });
        assert_eq!(changes.into_inner(), 800);
    }
}
