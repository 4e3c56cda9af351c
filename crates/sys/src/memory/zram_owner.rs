//! Other programs that set zram up on this device: zram-generator (zram-generator.conf(5)), zramswap of Debian's zram-tools,
//! Armbian, and Android's fstab.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Root;

/// A program that sets zram up, and how it is configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ZramOwner {
    /// The program: `zram-generator`.
    pub name: &'static str,
    /// The files that configure it, as named on the device.
    pub files: Vec<String>,
    /// The devices by name, each with its settings as written there.
    pub devices: BTreeMap<String, BTreeMap<String, String>>,
}

/// zram-generator's folders, lowest precedence first.
const GENERATOR_FOLDERS: [&str; 4] = ["/usr/lib/systemd", "/usr/local/lib/systemd", "/run/systemd", "/etc/systemd"];
const GENERATOR_FILE: &str = "zram-generator.conf";
/// Shell settings: program, file.
const SHELL_SETTINGS: [(&str, &str); 2] =
    [("zramswap", "/etc/default/zramswap"), ("armbian-zram-config", "/etc/default/armbian-zram-config")];
/// Where Android's fstab.DEVICE is.
const FSTAB_FOLDERS: [&str; 3] = ["/vendor/etc", "/odm/etc", "/"];

/// All programs that set zram up on the device below `root`. An unreadable file counts as none.
pub fn owners(root: &Root) -> Vec<ZramOwner> {
    let shell = SHELL_SETTINGS.into_iter().filter_map(|(name, file)| shell_settings(root, name, file));
    generator(root).into_iter().chain(shell).chain(android(root)).collect()
}

fn generator(root: &Root) -> Option<ZramOwner> {
    let (mut files, mut devices) = (Vec::new(), BTreeMap::new());
    let mut take = |file: &str| {
        if let Ok(text) = root.read(file) {
            merge(&mut devices, parse_generator(&text));
            files.push(file.to_owned());
        }
    };
    // Only the main file with the highest precedence is used; then the drop-ins of all folders, by name.
    let main = GENERATOR_FOLDERS.iter().rev().map(|folder| format!("{folder}/{GENERATOR_FILE}"));
    main.filter(|file| root.exists(file)).take(1).for_each(|file| take(&file));
    let mut drop_ins: BTreeMap<String, String> = BTreeMap::new();
    for folder in GENERATOR_FOLDERS.iter().map(|folder| format!("{folder}/{GENERATOR_FILE}.d")) {
        let names = root.list(&folder).unwrap_or_default();
        let settings = names.into_iter().filter(|name| name.ends_with(".conf"));
        // A file hides one of the same name in a folder of lower precedence.
        drop_ins.extend(settings.map(|name| (name.clone(), format!("{folder}/{name}"))));
    }
    drop_ins.values().for_each(|file| take(file));
    devices.retain(|_, settings: &mut BTreeMap<_, _>| settings.get("zram-size").is_none_or(|size| size != "0"));
    (!devices.is_empty()).then_some(ZramOwner { name: "zram-generator", files, devices })
}

fn merge(devices: &mut BTreeMap<String, BTreeMap<String, String>>, more: BTreeMap<String, BTreeMap<String, String>>) {
    for (name, settings) in more {
        devices.entry(name).or_default().extend(settings);
    }
}

/// Parses zram-generator's file: a section per device, `KEY = VALUE` within. An empty value unsets a setting.
pub fn parse_generator(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let mut devices: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    let mut section = None;
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = is_zram(name).then(|| name.to_owned());
            if let Some(name) = &section {
                devices.entry(name.clone()).or_default();
            }
        } else if let (Some(name), Some((key, value))) = (&section, line.split_once('=')) {
            devices.entry(name.clone()).or_default().insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    devices
}

fn is_zram(name: &str) -> bool {
    name.strip_prefix("zram")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn shell_settings(root: &Root, name: &'static str, file: &str) -> Option<ZramOwner> {
    let settings = parse_shell(&root.read(file).ok()?);
    // Armbian's file can disable all of it.
    if settings.get("ENABLED").is_some_and(|value| value == "false")
        || settings.get("SWAP").is_some_and(|value| value == "false")
    {
        return None;
    }
    // Both programs number their devices from zero.
    let devices = BTreeMap::from([("zram0".to_owned(), settings)]);
    Some(ZramOwner { name, files: vec![file.to_owned()], devices })
}

/// Parses assignments of a shell: `KEY=VALUE`, quoted or not.
pub fn parse_shell(text: &str) -> BTreeMap<String, String> {
    let assignment = |line: &str| {
        let (key, value) = line.trim().split_once('=')?;
        let is_name = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| (key.to_owned(), value.trim().trim_matches(['"', '\'']).to_owned()))
    };
    text.lines().filter_map(assignment).collect()
}

fn android(root: &Root) -> Option<ZramOwner> {
    let (mut files, mut devices) = (Vec::new(), BTreeMap::new());
    for folder in FSTAB_FOLDERS {
        for name in root.list(folder).unwrap_or_default().iter().filter(|name| name.starts_with("fstab.")) {
            let file = format!("{}/{name}", folder.trim_end_matches('/'));
            let found = parse_fstab(&root.read(&file).unwrap_or_default());
            if !found.is_empty() {
                files.push(file);
                merge(&mut devices, found);
            }
        }
    }
    (!devices.is_empty()).then_some(ZramOwner { name: "Android's init", files, devices })
}

/// The zram swaps of an fstab, each with the options of its fifth column: `zramsize`, `max_comp_streams`, ...
pub fn parse_fstab(text: &str) -> BTreeMap<String, BTreeMap<String, String>> {
    let swap = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (device, _point, kind) = (words.next()?, words.next()?, words.next()?);
        let name = device.rsplit('/').next().filter(|name| is_zram(name) && kind == "swap")?;
        let options = words.flat_map(|word| word.split(','));
        let settings = options.filter_map(|option| option.split_once('='));
        Some((name.to_owned(), settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()))
    };
    text.lines().filter(|line| !line.trim_start().starts_with('#')).filter_map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    fn owners_of(files: &[(&str, &str)]) -> Vec<ZramOwner> {
        let (_folder, root) = root_of(files);
        owners(&root)
    }

    // Verifies MEMORY-1.
    #[test]
    fn drop_ins_of_zram_generator_are_merged_by_precedence() {
        let found = owners_of(&[
            ("usr/lib/systemd/zram-generator.conf", "[zram0]\nzram-size = min(ram, 8192)\nswap-priority=100\n"),
            ("etc/systemd/zram-generator.conf", "# ours\n[zram0]\nzram-size = ram / 2\n"),
            ("usr/lib/systemd/zram-generator.conf.d/10-size.conf", "[zram0]\nzram-size = 1\n"),
            ("etc/systemd/zram-generator.conf.d/10-size.conf", "[zram0]\nzram-size = ram / 4\n[other]\nx = y\n"),
            ("etc/systemd/zram-generator.conf.d/20-more.conf", "[zram0]\ncompression-algorithm = zstd\n"),
            ("etc/systemd/zram-generator.conf.d/notes", "[zram9]\n"),
        ]);
        assert_eq!(found.len(), 1);
        let settings = &found[0].devices["zram0"];
        assert_eq!((settings["zram-size"].as_str(), settings["compression-algorithm"].as_str()), ("ram / 4", "zstd"));
        assert!(!settings.contains_key("swap-priority") && found[0].devices.len() == 1, "{found:?}");
        assert_eq!(found[0].files.len(), 3, "{found:?}");
        assert!(owners_of(&[("etc/systemd/zram-generator.conf", "[zram0]\nzram-size = 0\n")]).is_empty());
        assert!(owners_of(&[("etc/systemd/zram-generator.conf", "")]).is_empty(), "an empty file asks for no device");
    }

    // Verifies MEMORY-1.
    #[test]
    fn every_kind_of_owner_is_recognised() {
        for (file, text, name, key, value) in [
            ("etc/default/zramswap", "# x\nALGO=lz4\nPERCENT=\"50\"\n", "zramswap", "PERCENT", "50"),
            ("etc/default/armbian-zram-config", "ENABLED=true\n", "armbian-zram-config", "ENABLED", "true"),
            (
                "vendor/etc/fstab.phone",
                "/dev/block/zram0 none swap defaults zramsize=75%,x\n",
                "Android's init",
                "zramsize",
                "75%",
            ),
            ("fstab.old", "/dev/block/zram0 none swap defaults zramsize=1\n", "Android's init", "zramsize", "1"),
        ] {
            let found = owners_of(&[(file, text)]);
            assert_eq!(found.len(), 1, "{file}");
            assert_eq!((found[0].name, found[0].devices["zram0"][key].as_str()), (name, value), "{file}");
            assert_eq!(found[0].files, [format!("/{file}")]);
        }
        for (file, text) in [
            ("etc/default/armbian-zram-config", "ENABLED=false\n"),
            ("fstab.phone", "#/dev/block/zram0 none swap defaults zramsize=1\n/dev/block/sda1 /data ext4 x y\n"),
        ] {
            assert!(owners_of(&[(file, text)]).is_empty(), "{file}");
        }
    }
}
