//! Package lists of brisk's own, in the cache: an ordinary user cannot fetch the host's.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::architecture::Architecture;
use super::super::cache::{Cache, Lock, fault};
use super::super::error::LabError;

/// A state folder for apt. What changes it holds its lock, and so does who reads it.
#[derive(Debug, Clone)]
pub struct OwnLists {
    cache: Cache,
    /// The folder in the cache.
    name: String,
    /// apt's configuration.
    configuration: String,
    /// `sources.list`.
    sources: String,
}

impl OwnLists {
    /// Those of `source` alone.
    pub fn of_source(cache: &Cache, label: &str, source: &str, architecture: &Architecture) -> Self {
        let name = format!("apt/{label}");
        let folder = cache.path(&name);
        let folder = folder.display();
        let architecture = architecture.name;
        let configuration = format!(
            "Dir::State \"{folder}\";\n\
             Dir::State::status \"{folder}/status\";\n\
             Dir::State::lists \"{folder}/lists\";\n\
             Dir::Cache \"{folder}/cache\";\n\
             Dir::Etc::sourcelist \"{folder}/sources.list\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             APT::Architecture \"{architecture}\";\n\
             #clear APT::Architectures;\n\
             APT::Architectures {{ \"{architecture}\"; }};\n\
             Acquire::Languages \"none\";\n\
             // The host's are for the host's lists.\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n"
        );
        Self { cache: cache.clone(), name, configuration, sources: format!("{source}\n") }
    }

    /// The folder of the lists alone.
    pub fn folder(&self) -> PathBuf {
        self.path("lists")
    }

    /// What apt's programs are started with.
    pub fn options(&self) -> Vec<OsString> {
        vec!["-c".into(), self.path("apt.conf").into()]
    }

    /// While it is held, no job fetches the lists.
    ///
    /// # Errors
    /// [`LabError::Cache`] when there is no lock to be had.
    pub fn lock_to_read(&self) -> Result<Lock, LabError> {
        self.cache.lock_to_read(&self.name)
    }

    /// Fetches the lists where they are missing or older than a day. Of several jobs at the same time one does it.
    ///
    /// # Errors
    /// [`LabError`] when it fails.
    pub fn fetch_unless_younger_than_a_day(&self) -> Result<(), LabError> {
        if self.is_current() {
            return Ok(());
        }
        let _lock = self.cache.lock_to_change(&self.name)?;
        if self.is_current() {
            return Ok(());
        }
        let source = self.sources.trim_end();
        eprintln!("brisk: fetching the package lists of {source}");
        for folder in ["lists/partial", "cache/archives/partial"] {
            let folder = self.path(folder);
            fs::create_dir_all(&folder).map_err(fault("make", &folder))?;
        }
        match fs::remove_file(self.path("updated")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(fault("remove", &self.path("updated"))(error));
            }
            _ => {}
        }
        for (file, text) in [("status", ""), ("sources.list", &self.sources), ("apt.conf", &self.configuration)] {
            self.cache.publish(&self.file(file), text)?;
        }
        super::run("apt-get", &self.options(), &["update"], Path::new("/"), source)?;
        self.cache.publish(&self.file("updated"), "")
    }

    /// True when the lists are those of this configuration, and less than a day old.
    fn is_current(&self) -> bool {
        let modified = fs::metadata(self.path("updated")).and_then(|file| file.modified()).ok();
        let age = modified.and_then(|time| time.elapsed().ok());
        let is = |file: &str, text: &str| fs::read_to_string(self.path(file)).is_ok_and(|found| found == text);
        age.is_some_and(|age| age < Duration::from_secs(86_400))
            && is("apt.conf", &self.configuration)
            && is("sources.list", &self.sources)
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cache.path(&self.file(name))
    }
}
