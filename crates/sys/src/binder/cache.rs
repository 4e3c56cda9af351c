//! The lookup cache inside the binder driver (kernel/binder-cache): its requests, settings, counters and entries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Root;
use crate::error::DeviceError;

/// `_IOW('b', 0xC0, struct binder_cache_profile)`.
pub const OPT_IN: u32 = 0x40a0_62c0;
/// `_IOW('b', 0xC1, struct binder_cache_flush)`.
pub const FLUSH: u32 = 0x4010_62c1;

/// In a reply's flags: it may be returned to every caller whose uid is not isolated.
pub const MARK_ANY: u32 = 0x3000_0000;

/// Where the driver exposes its caches, one folder per context.
const FOLDER: &str = "/sys/kernel/binder_cache";
/// Where it lists their entries.
const DEBUG_FOLDER: &str = "/sys/kernel/debug/binder_cache";

/// Bytes of [`CacheProfile::header`].
pub const HEADER_BYTES: usize = 128;

/// `struct binder_cache_profile`: which calls are lookups, and their layout.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CacheProfile {
    /// Bit n: code n is a lookup.
    pub lookup_codes: u64,
    /// Bytes at the start that are not part of the question.
    pub volatile_size: u32,
    /// Bytes of the header.
    pub header_size: u32,
    /// User identifiers per Android user; 0: no isolated callers.
    pub uid_span: u32,
    /// First isolated identifier within a user.
    pub isolated_first: u32,
    /// Last one.
    pub isolated_last: u32,
    /// 0.
    pub reserved: u32,
    /// Marker and interface descriptor.
    pub header: [u8; HEADER_BYTES],
}

/// `struct binder_cache_flush`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheFlush {
    pub(super) key: u64,
    pub(super) key_size: u32,
    pub(super) reserved: u32,
}

/// The state of one context's cache.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CacheStatus {
    /// The binder device.
    pub context: String,
    /// `off`, `cooperative` or `transparent`.
    pub mode: String,
    /// `off`, `waiting`, `active` or `refused`.
    pub state: String,
    /// The replacement policy.
    pub policy: String,
    /// Maximum number of entries.
    pub capacity: u64,
    /// The counters, by the driver's names; none where only root may read them.
    pub counters: BTreeMap<String, u64>,
}

impl CacheStatus {
    /// Hits divided by hits and misses; `None` without any, or where only root may read the counters.
    pub fn hit_ratio(&self) -> Option<f64> {
        let count = |name: &str| self.counters.get(name).copied().unwrap_or(0);
        let lookups = count("hits") + count("misses");
        (lookups > 0).then(|| count("hits") as f64 / lookups as f64)
    }
}

/// One cached answer.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CacheEntry {
    /// How often it was returned.
    pub hits: u64,
    /// Its scope: `exact`, `security` or `any`.
    pub scope: String,
    /// The effective user that received it first.
    pub uid: u32,
    /// The code of the call.
    pub code: u32,
    /// The service's name.
    pub name: String,
}

/// True when this kernel's driver has the cache.
pub fn is_present(root: &Root) -> bool {
    root.exists(FOLDER)
}

/// The folder of the caches, as named on the device.
pub fn folder() -> &'static str {
    FOLDER
}

/// The files that the daemon writes in the folder of a context.
const CONTROL_FILES: [&str; 3] = ["mode", "policy", "capacity"];
const NO_PROFILE: &str = "none";

/// The file `name` in the folder of `context`, as named on the device.
pub fn control_file(context: &str, name: &str) -> PathBuf {
    Path::new(FOLDER).join(context).join(name)
}

/// True for the name of a context: a binder device, or `NAME.MINOR` of one in binderfs.
pub fn is_context(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    !name.is_empty() && name.len() <= 255 && name.bytes().all(is_plain) && !name.starts_with('.')
}

/// True for a file that the daemon writes.
pub fn is_control_file(file: &Path) -> bool {
    let Some(parts) = file.strip_prefix(FOLDER).ok().and_then(Path::to_str) else { return false };
    let is_ours = |(context, name): (&str, &str)| is_context(context) && CONTROL_FILES.contains(&name);
    parts.split_once('/').is_some_and(is_ours)
}

/// The profile by which the driver understands the context manager of `context` without its help, or `none`.
///
/// # Errors
/// [`DeviceError`] when the driver has no cache there, or this process may not read it.
pub fn profile(root: &Root, context: &str) -> Result<String, DeviceError> {
    let text = root.read(control_file(context, "profile"))?;
    Ok(if text.is_empty() { NO_PROFILE.to_owned() } else { text })
}

/// Sets that profile; `none` removes it.
///
/// # Errors
/// [`DeviceError`] with the driver's answer: EINVAL refuses the profile.
pub fn set_profile(root: &Root, context: &str, profile: &str) -> Result<(), DeviceError> {
    // A write of zero bytes does not reach the driver.
    root.write(control_file(context, "profile"), if profile == NO_PROFILE { "\n" } else { profile })
}

/// The caches of all contexts.
///
/// # Errors
/// [`DeviceError`] when the driver has none, or a file cannot be read.
pub fn status(root: &Root) -> Result<Vec<CacheStatus>, DeviceError> {
    root.list(FOLDER)?.iter().map(|context| status_of(root, context)).collect()
}

/// The context of the binder device `device`: its name, which in a binderfs the minor number follows.
pub fn context_of(root: &Root, device: &str) -> String {
    let is_minor = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_device = |context: &String| match context.strip_prefix(device) {
        Some("") => true,
        Some(rest) => rest.strip_prefix('.').is_some_and(is_minor),
        None => false,
    };
    let contexts = root.list(FOLDER).unwrap_or_default();
    contexts.into_iter().find(is_of_device).unwrap_or_else(|| device.to_owned())
}

/// The cache of `context`.
///
/// # Errors
/// [`DeviceError`] when the driver has none, or a file cannot be read.
pub fn status_of(root: &Root, context: &str) -> Result<CacheStatus, DeviceError> {
    let folder = format!("{FOLDER}/{context}");
    let read = |file: &str| root.read(format!("{folder}/{file}"));
    let file = format!("{folder}/stats");
    let text = root.read(&file).or_else(|error| if error.is_denied() { Ok(String::new()) } else { Err(error) })?;
    let counters = parse_counters(&text)
        .ok_or_else(|| DeviceError::malformed(&root.path(&file), "a name and a number a line", &text))?;
    Ok(CacheStatus {
        mode: read("mode")?,
        state: read("state")?,
        policy: read("policy")?,
        capacity: root.read_number(format!("{folder}/capacity"))?,
        counters,
        context: context.to_owned(),
    })
}

/// An experiment's settings for the cache of a context.
#[derive(Debug, Clone)]
pub struct CacheSettings<'a> {
    /// The device's files.
    pub root: &'a Root,
    pub context: &'a str,
    /// Files and values; none: nothing is written.
    pub files: &'a BTreeMap<String, String>,
    /// Written to `profile` when the mode is to be transparent.
    pub profile: String,
}

impl CacheSettings<'_> {
    /// Writes the files, `mode` last.
    ///
    /// # Errors
    /// [`DeviceError`] when the driver has no cache or refuses a value.
    pub fn apply(&self) -> Result<(), DeviceError> {
        let Some(mode) = self.files.get("mode") else { return Ok(()) };
        self.write("mode", "off")?;
        for (file, value) in self.files.iter().filter(|(file, _)| *file != "mode") {
            self.write(file, value)?;
        }
        if mode == "transparent" {
            self.write("profile", &self.profile)?;
        }
        self.write("mode", mode)
    }

    /// Flushes the cache, if there are settings for it.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn flush(&self) -> Result<(), DeviceError> {
        if self.files.is_empty() { Ok(()) } else { self.write("flush", "1") }
    }

    fn write(&self, file: &str, value: &str) -> Result<(), DeviceError> {
        self.root.write(format!("{FOLDER}/{}/{file}", self.context), value)
    }
}

/// The entries in the cache of `context`.
///
/// # Errors
/// [`DeviceError`] when debugfs is not mounted or may not be read.
pub fn entries(root: &Root, context: &str) -> Result<Vec<CacheEntry>, DeviceError> {
    let file = format!("{DEBUG_FOLDER}/{context}/entries");
    let text = root.read(&file)?;
    parse_entries(&text)
        .ok_or_else(|| DeviceError::malformed(&root.path(&file), "hits scope uid secid code name", &text))
}

/// `stats`: a name and a number per line.
pub fn parse_counters(text: &str) -> Option<BTreeMap<String, u64>> {
    let line = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().map(line).collect()
}

/// `entries`: `hits scope uid secid code name` per line.
pub fn parse_entries(text: &str) -> Option<Vec<CacheEntry>> {
    let line = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let hits = words.next()?.parse().ok()?;
        let scope = words.next()?.to_owned();
        let uid = words.next()?.parse().ok()?;
        let _security_id = words.next()?;
        let code = words.next()?.parse().ok()?;
        Some(CacheEntry { hits, scope, uid, code, name: words.next().unwrap_or_default().to_owned() })
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_size_in_their_requests() {
        use super::super::abi::payload_bytes;
        assert_eq!(payload_bytes(OPT_IN), size_of::<CacheProfile>());
        assert_eq!(payload_bytes(FLUSH), size_of::<CacheFlush>());
    }

    #[test]
    fn a_device_of_binderfs_has_its_minor_number_in_its_context() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (contexts, expected) in [
            (&[][..], "binder"),
            (&["hwbinder", "binder"], "binder"),
            (&["binder.17", "hwbinder.18"], "binder.17"),
            (&["binder.x", "binder.", "binder1", "vndbinder.3"], "binder"),
        ] {
            let _ = std::fs::remove_dir_all(root.path(FOLDER));
            for context in contexts {
                std::fs::create_dir_all(root.path(FOLDER).join(context)).unwrap();
            }
            assert_eq!(context_of(&root, "binder"), expected, "{contexts:?}");
        }
    }

    #[test]
    fn counters_and_entries_are_read_as_documented() {
        let counters = parse_counters("hits 12\nmisses 3\nrefused_lsm 0").unwrap();
        assert_eq!((counters["hits"], counters["refused_lsm"], counters.len()), (12, 0, 3));
        assert_eq!(parse_counters("hits\n"), None);
        assert_eq!(parse_counters("hits many\n"), None);
        let entries = parse_entries("7 any 0 12 1 activity\n1 exact 10042 0 2 a b\n").unwrap();
        assert_eq!((entries[0].hits, entries[0].name.as_str()), (7, "activity"));
        assert_eq!((entries[1].uid, entries[1].code, entries[1].name.as_str()), (10042, 2, "a b"));
        assert_eq!(parse_entries("7 any 0\n"), None);
        assert_eq!(parse_entries(""), Some(Vec::new()));
    }
}
