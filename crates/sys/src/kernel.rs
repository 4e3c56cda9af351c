//! The kernel's release (/proc/sys/kernel/osrelease or /proc/version), and the boot's ID (/proc/sys/kernel/random/boot_id).

use crate::Root;

/// The release, as the vendor writes it; `None` where it cannot be read.
pub fn release(root: &Root) -> Option<String> {
    let release = root.read("/proc/sys/kernel/osrelease").ok().filter(|release| !release.is_empty());
    // Android's SELinux policy lets no service read osrelease.
    release.or_else(|| {
        Some(root.read("/proc/version").ok()?.strip_prefix("Linux version ")?.split(' ').next()?.to_owned())
    })
}

/// An identifier that no other boot of any device has; `None` where it cannot be read.
pub fn boot_id(root: &Root) -> Option<String> {
    root.read("/proc/sys/kernel/random/boot_id").ok().filter(|boot| !boot.is_empty())
}

/// Major and minor of `6.1.0-56-amd64`.
pub fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    // Verifies ANDROID-2.
    #[test]
    fn the_release_is_read_from_either_file() {
        let version = ("proc/version", "Linux version 5.10.157-android13-4 (build@host) (clang) #1 SMP\n");
        let first = ("proc/sys/kernel/osrelease", "6.1.0-56-amd64\n");
        for (files, expected) in [
            (&[version][..], Some("5.10.157-android13-4")),
            (&[version, first], Some("6.1.0-56-amd64")),
            (&[("proc/version", "something else")], None),
            (&[], None),
        ] {
            let (_folder, root) = root_of(files);
            assert_eq!(release(&root).as_deref(), expected, "{files:?}");
        }
    }

    #[test]
    fn versions_are_parsed_from_vendors_releases() {
        for (release, expected) in [
            ("6.1.0-56-amd64", Some((6, 1))),
            ("3.0.64-CM-g9d16c8a", Some((3, 0))),
            ("5.10-rc1", Some((5, 10))),
            ("", None),
            ("six", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }
}
