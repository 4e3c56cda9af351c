//! Android's userspace as data: what a device adds to what Android's init makes on every device (`guest/android.rs`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::property_area::VALUE_BYTES;

/// A guest whose first process prepares it as Android's init does, with Android's paths, groups and properties.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Android {
    /// System properties, by the SELinux label that each file of the property area is named after.
    #[serde(default)]
    pub properties: BTreeMap<String, BTreeMap<String, String>>,
    /// What the device's own init script writes, by file: the CPUs of cpusets, the clamps of groups.
    #[serde(default)]
    pub writes: BTreeMap<String, String>,
}

impl Android {
    /// Why a guest cannot be prepared in this way.
    pub fn contradiction(&self) -> Option<String> {
        if let Some(path) = self.writes.keys().find(|path| !path.starts_with('/')) {
            return Some(format!("guest.android.writes has {path:?}, which is not absolute"));
        }
        if let Some(label) = self.properties.keys().find(|label| label.is_empty() || label.contains('/')) {
            return Some(format!("guest.android.properties has {label:?}, which is no name of a file"));
        }
        let is_wrong = |(name, value): &(&String, &String)| name.is_empty() || value.len() >= VALUE_BYTES;
        let (name, _) = self.properties.values().flatten().find(is_wrong)?;
        Some(format!(
            "guest.android.properties has {name:?}: a name is not empty, a value shorter than {VALUE_BYTES} bytes"
        ))
    }

    /// The text of /system/build.prop: the properties that never change.
    pub fn build_properties(&self) -> String {
        let lasting = self.properties.values().flatten().filter(|(name, _)| name.starts_with("ro."));
        lasting.map(|(name, value)| format!("{name}={value}\n")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LAB-3.
    #[test]
    fn what_no_device_can_have_is_refused() {
        for (text, expected) in [
            ("[properties.\"u:object_r:build_prop:s0\"]\n\"ro.x\" = \"1\"\n[writes]\n\"/dev/x\" = \"1\"\n", None),
            ("", None),
            ("[writes]\n\"dev/x\" = \"1\"\n", Some("writes has \"dev/x\", which is not absolute")),
            ("[properties.\"a/b\"]\n\"ro.x\" = \"1\"\n", Some("properties has \"a/b\", which is no name of a file")),
            ("[properties.a]\n\"\" = \"1\"\n", Some("has \"\": a name is not empty")),
            (&format!("[properties.a]\n\"ro.x\" = \"{}\"\n", "v".repeat(92)), Some("has \"ro.x\"")),
        ] {
            let found = toml::from_str::<Android>(text).unwrap().contradiction();
            assert_eq!(found.is_some(), expected.is_some(), "{text}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()), "{text}");
        }
    }

    #[test]
    fn only_properties_that_never_change_are_in_the_image() {
        let text =
            "[properties.a]\n\"ro.build.version.release\" = \"16\"\n[properties.b]\n\"sys.boot_completed\" = \"1\"\n";
        let android: Android = toml::from_str(text).unwrap();
        assert_eq!(android.build_properties(), "ro.build.version.release=16\n");
    }
}
