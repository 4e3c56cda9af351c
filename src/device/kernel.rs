//! Which kernel this is, from /proc/sys/kernel/osrelease, and which boot, from /proc/sys/kernel/random/boot_id.

use super::Root;

/// The release, as vendors write it; `None` where it cannot be read.
pub fn release(root: &Root) -> Option<String> {
    root.read("/proc/sys/kernel/osrelease").ok().filter(|release| !release.is_empty())
}

/// What no other boot of any device has; `None` where it cannot be read.
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

    #[test]
    fn releases_are_read_as_vendors_write_them() {
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
