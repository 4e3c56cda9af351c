//! Trees of files for tests: what a device has below /proc, /sys and /dev.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Root;
use crate::system::android_properties::{HEADER_BYTES, VALUE_BYTES};

/// A root with `files`, each a path and its text; the path of a folder ends with a slash.
pub fn root_of(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::at(folder.path());
    for (file, text) in files {
        let path = root.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match file.ends_with('/') {
            true => fs::create_dir_all(path).unwrap(),
            false => fs::write(path, text).unwrap(),
        }
    }
    (folder, root)
}

/// The files of one CPU under ondemand at 100 ms, for [`root_of`].
pub const ONDEMAND: [(&str, &str); 6] = [
    ("sys/devices/system/cpu/online", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/affected_cpus", "0\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "ondemand\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq", "200000\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq", "1200000\n"),
    ("sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate", "100000\n"),
];

/// A property, as stored in a property area.
pub(crate) fn property(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![1, 0, 0, 0];
    bytes.extend(value.as_bytes());
    bytes.resize(4 + VALUE_BYTES, 0);
    bytes.extend(name.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The bytes of a property file, as Android's init writes it.
pub fn area(properties: &[(&str, &str)]) -> Vec<u8> {
    let data: Vec<u8> = properties.iter().flat_map(|(name, value)| property(name, value)).collect();
    let mut area = (data.len() as u32).to_le_bytes().to_vec();
    area.extend(*b"\x07\0\0\0PROP\xab\xd6\x64\xfc");
    area.resize(HEADER_BYTES as usize, 0);
    area.extend(data);
    area.resize(128 * 1024, 0);
    area
}

/// A device whose property `name` is `value`, and whose setprop accepts `others`.
pub fn settable(folder: &Path, name: &str, value: &str, others: &[&str]) -> Root {
    for place in ["dev/__properties__", "system/bin", "values"] {
        fs::create_dir_all(folder.join(place)).unwrap();
    }
    for known in others.iter().chain(&[value]) {
        fs::write(folder.join(format!("values/+{known}")), area(&[(name, known)])).unwrap();
    }
    let file = folder.join("dev/__properties__/properties");
    fs::copy(folder.join(format!("values/+{value}")), &file).unwrap();
    // Another process writes the script: no child can then inherit an open descriptor of it, which would prevent its execution.
    let script = "printf '#!/bin/sh\\n[ -e %s/values/\"+$2\" ] || exit 0\\ncat %s/values/\"+$2\" >%s\\n' $0 $0 $1 >$0/system/bin/setprop";
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; chmod +x $0/system/bin/setprop")]).arg(folder).arg(&file);
    assert!(shell.status().unwrap().success());
    Root::at(folder)
}
