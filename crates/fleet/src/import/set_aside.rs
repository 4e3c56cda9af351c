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
    /// Names without their endings.
    names: HashSet<String>,
}

impl SetAside {
    /// Reads which files are there.
    pub fn open(dataset: &Path) -> Result<Self, DatasetError> {
        let folder = dataset.join(SET_ASIDE);
        let names = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HashSet::new(),
            entries => entries
                .map_err(DatasetError::io("read", &folder))?
                .filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned()))
                .collect(),
        };
        Ok(Self { folder, names })
    }

    /// Keeps a refused file and its reason. One that cannot be read leaves only a reason, named by its path.
    pub fn file(&mut self, bytes: Option<&[u8]>, name: &str, fault: &Fault) -> Result<(), DatasetError> {
        let stem = format!("{:032x}", XxHash3_128::oneshot(bytes.unwrap_or(name.as_bytes())));
        self.put(&stem, bytes, &Reason { file: name, kind: fault.kind(), reason: &fault.to_string() })
    }

    /// Keeps the undated rows of the imported file with this hash.
    pub fn rows(&mut self, hash: ContentHash, name: &str, lines: &[&str]) -> Result<(), DatasetError> {
        let reason = "rows from before 2020: the device's clock was not set, so their day is not known";
        let text = lines.join("\n") + "\n";
        self.put(
            &format!("{hash:032x}-rows"),
            Some(text.as_bytes()),
            &Reason { file: name, kind: "undated rows", reason },
        )
    }

    /// Removes a file that was refused before and is imported now, for example because its time has come.
    pub fn forget(&mut self, hash: ContentHash) -> Result<(), DatasetError> {
        let stem = format!("{hash:032x}");
        if self.names.remove(&stem) {
            for ending in ["reason", "export"] {
                let path = self.folder.join(format!("{stem}.{ending}"));
                durable_file::remove(&path).map_err(DatasetError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    fn put(&mut self, stem: &str, bytes: Option<&[u8]>, reason: &Reason<'_>) -> Result<(), DatasetError> {
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
        durable_file::replace(&path, &text, 0o644).map_err(DatasetError::io("write", &path))?;
        self.names.insert(stem.to_owned());
        Ok(())
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
