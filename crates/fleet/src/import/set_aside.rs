//! The folder of what was not used: a copy of each refused file, and its reason beside it. The names are hashes of the
//! content, so that the same file again changes nothing.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use brisk_sys::durable_file;
use serde::Serialize;
use twox_hash::XxHash3_128;

use crate::dataset::SET_ASIDE;
use crate::fault::{DatasetError, Fault};
use crate::state::ContentHash;

/// Why a file or rows of it lie here.
#[derive(Serialize)]
struct Reason<'a> {
    file: &'a str,
    kind: &'a str,
    reason: &'a str,
}

/// The folder, and which files are in it.
pub struct SetAside {
    folder: PathBuf,
    /// The hashes by which refused files are named.
    refused: HashSet<ContentHash>,
}

impl SetAside {
    /// Reads which files are there.
    pub fn open(dataset: &Path) -> Result<Self, DatasetError> {
        let folder = dataset.join(SET_ASIDE);
        let hash = |path: &Path| ContentHash::from_str_radix(path.file_stem()?.to_str()?, 16).ok();
        let refused = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            entries => entries
                .map_err(DatasetError::io("read", &folder))?
                .filter_map(|entry| hash(&entry.ok()?.path()))
                .collect(),
        };
        Ok(Self { folder, refused })
    }

    /// Keeps a refused file and its reason. One that cannot be read leaves only a reason, named by its path.
    pub fn file(&mut self, bytes: Option<&[u8]>, name: &str, fault: &Fault) -> Result<(), DatasetError> {
        let hash = XxHash3_128::oneshot(bytes.unwrap_or(name.as_bytes()));
        let reason = Reason { file: name, kind: fault.kind(), reason: &fault.to_string() };
        self.put(&format!("{hash:032x}"), bytes, &reason)?;
        self.refused.insert(hash);
        Ok(())
    }

    /// Keeps the undated rows of the imported file with this hash.
    pub fn rows(&self, hash: ContentHash, name: &str, lines: &[&str]) -> Result<(), DatasetError> {
        let reason = "rows from before 2020: the device's clock was not set, so their day is not known";
        let text = lines.join("\n") + "\n";
        self.put(
            &format!("{hash:032x}-rows"),
            Some(text.as_bytes()),
            &Reason { file: name, kind: "undated rows", reason },
        )
    }

    /// What was refused before of the good file `name` with this hash: its time has come, or it can be read again.
    pub fn outdated(&self, hash: ContentHash, name: &str) -> impl Iterator<Item = ContentHash> {
        let hashes = [hash, XxHash3_128::oneshot(name.as_bytes())];
        hashes.into_iter().filter(move |hash| self.refused.contains(hash))
    }

    /// Removes a refused file and its reason.
    pub fn forget(&mut self, hash: ContentHash) -> Result<(), DatasetError> {
        if self.refused.remove(&hash) {
            for ending in ["reason", "export"] {
                let path = self.folder.join(format!("{hash:032x}.{ending}"));
                durable_file::remove(&path).map_err(DatasetError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn put(&self, stem: &str, bytes: Option<&[u8]>, reason: &Reason<'_>) -> Result<(), DatasetError> {
        fs::create_dir_all(&self.folder).map_err(DatasetError::io("create", &self.folder))?;
        let path = self.folder.join(format!("{stem}.export"));
        if let Some(bytes) = bytes.filter(|_| !path.exists()) {
            let draft = path.with_extension("new");
            fs::write(&draft, bytes)
                .and_then(|()| fs::rename(&draft, &path))
                .map_err(DatasetError::io("write", &path))?;
        }
        let path = self.folder.join(format!("{stem}.reason"));
        // Plain data can always be printed.
        let text = serde_json::to_string_pretty(reason).unwrap_or_default() + "\n";
        if fs::read_to_string(&path).is_ok_and(|before| before == text) {
            return Ok(());
        }
        durable_file::replace(&path, &text, 0o644).map_err(DatasetError::io("write", &path))
    }
}

/// What lies in the folder of the data set `dataset`, counted by the kind of its fault.
///
/// # Errors
/// When the folder cannot be read.
pub fn kinds(dataset: &Path) -> io::Result<BTreeMap<String, u64>> {
    #[derive(serde::Deserialize)]
    struct Kind {
        kind: String,
    }
    let mut kinds = BTreeMap::new();
    let entries = match fs::read_dir(dataset.join(SET_ASIDE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(kinds),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "reason") {
            let kind = serde_json::from_str(&fs::read_to_string(&path)?)
                .map_or_else(|_| "unknown".to_owned(), |it: Kind| it.kind);
            *kinds.entry(kind).or_default() += 1;
        }
    }
    Ok(kinds)
}
