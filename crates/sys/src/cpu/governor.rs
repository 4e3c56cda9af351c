//! A cpufreq policy's governor together with its tunables, as one value: the kernel discards the tunables when the governor is
//! switched, so restoring a governor includes its tunables.
//!
//! The value is the governor's name, then `NAME=VALUE` for each tunable, separated by tabs; the name alone where it has none.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::cpu::cpufreq::{governor_folder, is_plain_word};
use crate::{DeviceError, Root};

/// The kernel may accept a tunable only after another one (`conservative` keeps its thresholds apart), so refused ones are
/// written again, up to this many times.
const ROUNDS: usize = 3;

/// The governor of the policy in `folder` (named as on the device), and the tunables of it that can be written.
///
/// # Errors
/// [`DeviceError`] when there is no such policy, or its CPUs are offline.
pub fn read(root: &Root, folder: &Path) -> Result<String, DeviceError> {
    let file = file(folder);
    let governor = root.read(&file)?;
    if !is_plain_word(&governor) {
        return Err(DeviceError::malformed(&root.path(&file), "the name of a governor", &governor));
    }
    let mut value = governor;
    for (name, path) in tunables(root, folder, &value) {
        // A write-only tunable (a pulse) or one with several lines need not be restored.
        if let Ok(text) = root.read(&path)
            && !text.is_empty()
            && !text.contains(['\t', '\n'])
        {
            value.push_str(&format!("\t{name}={text}"));
        }
    }
    Ok(value)
}

/// Sets the policy in `folder` to `value`.
///
/// # Errors
/// The kernel's answer to the governor, or to a tunable that it refused every time. A tunable that the governor no longer has
/// is skipped.
pub fn write(root: &Root, folder: &Path, value: &str) -> Result<(), DeviceError> {
    let mut parts = value.split('\t');
    let governor = parts.next().unwrap_or_default();
    let file = file(folder);
    if !is_plain_word(governor) {
        return Err(DeviceError::malformed(&root.path(&file), "the name of a governor to be written", value));
    }
    // Writing the current governor would restart it and discard its tunables.
    if root.read(&file)? != governor {
        root.write(&file, governor)?;
    }
    let found: Vec<(String, PathBuf)> = tunables(root, folder, governor);
    let wanted = parts.filter_map(|part| part.split_once('='));
    let mut left: Vec<(&Path, &str)> = wanted
        .filter_map(|(name, value)| {
            found.iter().find(|(known, _)| known == name).map(|(_, path)| (path.as_path(), value))
        })
        .collect();
    let mut fault = None;
    for _ in 0..ROUNDS {
        left.retain(|(path, value)| match set(root, path, value) {
            Ok(()) => false,
            Err(error) if error.is_missing() => false,
            Err(error) => {
                fault = Some(error);
                true
            }
        });
        if left.is_empty() {
            return Ok(());
        }
    }
    fault.map_or(Ok(()), Err)
}

/// True when `found` names the governor of `wanted`; tunables are not compared, since the kernel may change their values.
pub fn is_same(found: &str, wanted: &str) -> bool {
    found.split('\t').next() == wanted.split('\t').next()
}

fn set(root: &Root, path: &Path, value: &str) -> Result<(), DeviceError> {
    // Writing an unchanged value can have an effect: ondemand takes a sample at once.
    if root.read(path).is_ok_and(|found| found == value) { Ok(()) } else { root.write(path, value) }
}

fn file(folder: &Path) -> PathBuf {
    folder.join("scaling_governor")
}

/// The writable tunables of `governor`, by name.
fn tunables(root: &Root, folder: &Path, governor: &str) -> Vec<(String, PathBuf)> {
    let Some(tunables) = governor_folder(root, folder, governor) else { return Vec::new() };
    let names = root.list(&tunables).unwrap_or_default();
    let paths = names.into_iter().map(|name| (name.clone(), tunables.join(name)));
    paths
        .filter(|(_, path)| {
            let metadata = std::fs::metadata(root.path(path));
            metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o222 != 0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";

    fn device() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (file, text) in [
            ("scaling_governor", "conservative\n"),
            ("conservative/up_threshold", "80\n"),
            ("conservative/down_threshold", "20\n"),
            ("conservative/sampling_rate_min", "10000\n"),
            ("conservative/several", "1\n2\n"),
        ] {
            let path = root.path(Path::new(POLICY).join(file));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let fixed = root.path(Path::new(POLICY).join("conservative/sampling_rate_min"));
        fs::set_permissions(fixed, fs::Permissions::from_mode(0o444)).unwrap();
        (folder, root)
    }

    #[test]
    fn a_governor_is_restored_with_its_tunables() {
        let (_folder, root) = device();
        let policy = Path::new(POLICY);
        let value = read(&root, policy).unwrap();
        assert_eq!(value, "conservative\tdown_threshold=20\tup_threshold=80");
        write(&root, policy, "performance").unwrap();
        assert_eq!(read(&root, policy).unwrap(), "performance");
        for (file, text) in [("up_threshold", "95\n"), ("down_threshold", "40\n")] {
            fs::write(root.path(policy.join("conservative").join(file)), text).unwrap();
        }
        write(&root, policy, &format!("{value}\tgone=5")).unwrap();
        assert_eq!(read(&root, policy).unwrap(), value);
        assert!(is_same(&value, "conservative") && !is_same(&value, "performance"));
    }

    #[test]
    fn what_is_no_governor_is_never_written() {
        let (_folder, root) = device();
        for value in ["", "../x", "a b", "\tup_threshold=1"] {
            assert!(write(&root, Path::new(POLICY), value).is_err(), "{value:?}");
        }
        assert!(read(&root, Path::new("/sys/devices/system/cpu/cpufreq/policy9")).unwrap_err().is_missing());
        assert_eq!(root.read(format!("{POLICY}/scaling_governor")).unwrap(), "conservative");
    }
}
