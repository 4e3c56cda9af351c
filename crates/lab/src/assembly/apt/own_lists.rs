//! brisk's own package lists, in the cache: an ordinary user cannot fetch the host's.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::super::cache::{Cache, Lock, fault};
use crate::architecture::Architecture;
use crate::error::LabError;
use brisk_base::notes::note;

/// A state folder for apt. Writers and readers hold its lock.
#[derive(Debug, Clone)]
pub struct OwnLists {
    cache: Cache,
    /// The folder in the cache.
    name: String,
    /// apt's configuration.
    configuration: String,
    /// `sources.list`; `None` for the host's sources.
    sources: Option<String>,
}

impl OwnLists {
    /// Lists of the host's sources.
    pub fn of_host(cache: &Cache) -> Self {
        Self::at(cache, "apt/host".into(), None, "")
    }

    /// Lists of `source` alone.
    pub fn of_source(cache: &Cache, label: &str, source: &str, architecture: &Architecture) -> Self {
        let name = format!("apt/{label}");
        let architecture = architecture.name;
        // One of several sources may fail, but not the only one.
        let settings = format!(
            "Dir::Etc::sourcelist \"{}/sources.list\";\n\
             Dir::Etc::sourceparts \"/dev/null\";\n\
             APT::Architecture \"{architecture}\";\n\
             #clear APT::Architectures;\n\
             APT::Architectures {{ \"{architecture}\"; }};\n\
             APT::Update::Error-Mode \"any\";\n",
            cache.path(&name).display()
        );
        Self::at(cache, name, Some(format!("{source}\n")), &settings)
    }

    fn at(cache: &Cache, name: String, sources: Option<String>, settings: &str) -> Self {
        let folder = cache.path(&name);
        let folder = folder.display();
        let configuration = format!(
            "Dir::State \"{folder}\";\n\
             Dir::State::status \"{folder}/status\";\n\
             Dir::State::lists \"{folder}/lists\";\n\
             Dir::Cache \"{folder}/cache\";\n\
             Acquire::Languages \"none\";\n\
             // What the host does after an update is for its own lists.\n\
             #clear APT::Update::Post-Invoke;\n\
             #clear APT::Update::Post-Invoke-Success;\n\
             {settings}"
        );
        Self { cache: cache.clone(), name, configuration, sources }
    }

    /// The folder of the lists alone.
    pub fn folder(&self) -> PathBuf {
        self.path("lists")
    }

    /// Options for apt's programs.
    pub fn options(&self) -> Vec<OsString> {
        vec!["-c".into(), self.path("apt.conf").into()]
    }

    /// While the lock is held, no job fetches the lists.
    ///
    /// # Errors
    /// [`LabError::Cache`] when it cannot be locked.
    pub fn lock_to_read(&self) -> Result<Lock, LabError> {
        self.cache.lock_to_read(&self.name)
    }

    /// When the lists were fetched; `None` if they were not.
    pub fn fetched(&self) -> Option<SystemTime> {
        let is = |file: &str, text: &str| fs::read_to_string(self.path(file)).is_ok_and(|found| found == text);
        let fits = is("apt.conf", &self.configuration)
            && self.sources.as_ref().is_none_or(|sources| is("sources.list", sources));
        fs::metadata(self.path("updated")).and_then(|file| file.modified()).ok().filter(|_| fits)
    }

    /// Fetches the lists, unless they were fetched after `time`. Of several jobs at the same time, one fetches them.
    ///
    /// # Errors
    /// [`LabError`] when it fails and no older lists exist. Some of a host's sources may fail.
    pub fn fetch_unless_after(&self, time: SystemTime) -> Result<(), LabError> {
        let is_current = || self.fetched().is_some_and(|fetched| fetched > time);
        if is_current() {
            return Ok(());
        }
        let _lock = self.cache.lock_to_change(&self.name)?;
        if is_current() {
            return Ok(());
        }
        let source = self.sources.as_deref().unwrap_or("this host").trim_end();
        note!("brisk: fetching the package lists of {source}");
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
        let files =
            [("status", Some("")), ("sources.list", self.sources.as_deref()), ("apt.conf", Some(&self.configuration))];
        for (file, text) in files {
            text.map_or(Ok(()), |text| self.cache.publish(&self.file(file), text))?;
        }
        match super::run("apt-get", &self.options(), &["update"], Path::new("/"), source) {
            Ok(_) => self.cache.publish(&self.file("updated"), ""),
            Err(error) if super::has_package_lists(&self.folder()) => {
                eprintln!("brisk: using the existing package lists: {error}");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.cache.path(&self.file(name))
    }
}
