//! What identifies the kind of a device in an export: its model, build, kernel and processor, and no more.

use serde::Serialize;

use brisk_sys::cpu::cpufreq::Policies;
use brisk_sys::cpu::hotplug;
use brisk_sys::memory::meminfo;
use brisk_sys::system::android_properties;
use brisk_sys::{Root, kernel};

use crate::salt::Salt;

/// The version of the format.
const VERSION: u32 = 1;
/// No text of a header is longer.
const MAXIMUM_TEXT_BYTES: usize = 256;

/// The system that a row was written on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemFacts {
    /// brisk's version.
    pub brisk: String,
    /// Android's fingerprint, or the release of the distribution; empty if unknown.
    pub build: String,
    /// The kernel's release.
    pub kernel: String,
}

impl SystemFacts {
    /// Those of the running system.
    pub fn read(root: &Root) -> Self {
        let kernel = kernel::release(root).unwrap_or_default();
        Self { brisk: env!("CARGO_PKG_VERSION").to_owned(), build: build(root), kernel }
    }
}

/// The first line of an export.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Header {
    brisk_telemetry: u32,
    device: String,
    model: String,
    build: String,
    kernel: String,
    architecture: &'static str,
    memory_kib: u64,
    cpus: usize,
    governor: String,
    brisk: String,
    exported_at_s: u64,
}

impl Header {
    /// Of the device below `root`, whose store has this `salt`.
    pub(crate) fn read(root: &Root, salt: &Salt, exported_at_s: u64) -> Self {
        let SystemFacts { brisk, build, kernel } = SystemFacts::read(root);
        Self {
            brisk_telemetry: VERSION,
            device: device(salt),
            model: model(root),
            build,
            kernel,
            architecture: std::env::consts::ARCH,
            memory_kib: meminfo::read(root).map_or(0, |memory| memory.total_kib),
            cpus: hotplug::online(root).map_or(1, |cpus| cpus.len()),
            governor: governor(root),
            brisk,
            exported_at_s,
        }
    }
}

/// What identifies the store.
pub(crate) fn device(salt: &Salt) -> String {
    salt.hash("device", "")
}

fn model(root: &Root) -> String {
    let property = android_properties::value(root, "ro.product.model");
    let file = |path: &str| root.read(path).ok().map(|text| text.trim_matches('\0').to_owned());
    let known = |text: &String| !text.is_empty();
    let dmi = || file("/sys/class/dmi/id/product_name").filter(known);
    bounded(property.filter(known).or_else(dmi).or_else(|| file("/proc/device-tree/model")).unwrap_or_default())
}

fn build(root: &Root) -> String {
    let fingerprint = android_properties::value(root, "ro.build.fingerprint").filter(|text| !text.is_empty());
    bounded(fingerprint.unwrap_or_else(|| {
        let text = ["/etc/os-release", "/usr/lib/os-release"].iter().find_map(|file| root.read(file).ok());
        release(&text.unwrap_or_default())
    }))
}

/// `ID-VERSION_ID/BUILD_ID` of os-release(5), without what is missing.
fn release(text: &str) -> String {
    let value = |key: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(value.trim_matches(['"', '\'']).to_owned()).filter(|value| !value.is_empty())
    };
    let with = |separator: char, value: Option<String>| value.map(|value| format!("{separator}{value}"));
    [value("ID"), with('-', value("VERSION_ID")), with('/', value("BUILD_ID"))].into_iter().flatten().collect()
}

/// The governor of the policy with the highest frequency.
fn governor(root: &Root) -> String {
    let policies = Policies::read(root).list;
    let fastest = policies.into_iter().max_by_key(|policy| policy.hardware_maximum_khz.or(policy.maximum_khz));
    fastest.map(|policy| policy.governor).unwrap_or_default()
}

fn bounded(mut text: String) -> String {
    let mut length = text.len().min(MAXIMUM_TEXT_BYTES);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::{area, root_of};

    #[test]
    fn a_build_is_read_from_what_the_system_has() {
        for (text, expected) in [
            ("NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n", "debian-12"),
            ("ID=arch\nBUILD_ID=rolling\n", "arch/rolling"),
            ("ID=board\nVERSION_ID='3.1'\nBUILD_ID=20261101\n", "board-3.1/20261101"),
            ("VERSION_ID=7\nID_LIKE=debian\n", "-7"),
            ("", ""),
        ] {
            assert_eq!(release(text), expected, "{text}");
        }
    }

    #[test]
    fn model_and_build_come_from_android_dmi_or_the_device_tree() {
        let properties = area(&[("ro.product.model", "Pixel 9"), ("ro.build.fingerprint", "google/x:16/AB1/2:user")]);
        let android = [("dev/__properties__/", "")];
        let dmi = ("sys/class/dmi/id/product_name", "Laptop 5\n");
        let tree = ("proc/device-tree/model", "Board X\0");
        let release = ("usr/lib/os-release", "ID=debian\n");
        for (files, is_android, expected) in [
            (&android[..], true, ("Pixel 9", "google/x:16/AB1/2:user")),
            (&[dmi, tree, release], false, ("Laptop 5", "debian")),
            (&[tree, release], false, ("Board X", "debian")),
            (&[], false, ("", "")),
        ] {
            let (_folder, root) = root_of(files);
            if is_android {
                std::fs::write(root.path("/dev/__properties__/u:object_r:build_prop:s0"), &properties).unwrap();
            }
            assert_eq!((model(&root).as_str(), build(&root).as_str()), expected);
        }
        assert_eq!(bounded("\u{e9}".repeat(200)).len(), MAXIMUM_TEXT_BYTES);
    }
}
