//! Which CPUs exist and which are online (Documentation/ABI/testing/sysfs-devices-system-cpu).

use crate::{DeviceError, Root};

/// The folder of the CPU lists.
pub const CPU_FOLDER: &str = "/sys/devices/system/cpu";

/// More CPUs than any kernel supports: a list that names more is malformed.
const CPU_LIMIT: u32 = 8192;

/// The numbers of the CPUs that are online, ascending.
///
/// # Errors
/// [`DeviceError`] when the list cannot be read or is not in the kernel's list format.
pub fn online(root: &Root) -> Result<Vec<u32>, DeviceError> {
    read_list(root, "online")
}

/// The numbers of the present CPUs, online or not, ascending.
///
/// # Errors
/// As [`online`].
pub fn present(root: &Root) -> Result<Vec<u32>, DeviceError> {
    read_list(root, "present")
}

fn read_list(root: &Root, name: &str) -> Result<Vec<u32>, DeviceError> {
    let file = format!("{CPU_FOLDER}/{name}");
    let text = root.read(&file)?;
    // This code runs on a CPU, so neither list can be empty.
    parse_list(&text)
        .filter(|cpus| !cpus.is_empty())
        .ok_or_else(|| DeviceError::malformed(&root.path(&file), "a CPU list such as 0-3,5", &text))
}

/// Parses the kernel's list format (`0-3,5`, bitmap_parselist); the empty list is valid.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.trim().parse::<u32>().ok()?, last.trim().parse::<u32>().ok()?);
        if first > last || last >= CPU_LIMIT {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Parses cpufreq's own format, numbers separated by blanks (`0 1 2 3`, `affected_cpus`); old kernels end it with a blank.
pub fn parse_words(text: &str) -> Option<Vec<u32>> {
    text.split_ascii_whitespace().map(|word| word.parse().ok().filter(|&cpu| cpu < CPU_LIMIT)).collect()
}

/// The list format of `cpus`, which must ascend: `0-3,5`.
pub fn format_list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let text = |&(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse_as_the_kernel_writes_them() {
        let cases: [(&str, Option<&[u32]>); 9] = [
            ("0", Some(&[0])),
            ("0-3", Some(&[0, 1, 2, 3])),
            ("0-1,4,6-7\n", Some(&[0, 1, 4, 6, 7])),
            ("", Some(&[])),
            ("\n", Some(&[])),
            ("3-1", None),
            ("0-4294967295", None),
            ("0-", None),
            ("zero", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(parse_words("0 1 2 3 \n"), Some(vec![0, 1, 2, 3]));
        assert_eq!(parse_words("0,1"), None);
    }

    #[test]
    fn a_list_survives_formatting() {
        for text in ["", "0", "0-3", "0-1,4,6-7"] {
            assert_eq!(format_list(&parse_list(text).unwrap()), text);
        }
    }
}
