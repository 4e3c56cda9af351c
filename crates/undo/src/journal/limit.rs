//! Frequency limits (`scaling_min_freq`, `scaling_max_freq`) may read back differently from what was written. Since Linux 5.3
//! a write is a request (freq_qos) that a kernel worker applies asynchronously and rounds to a frequency of the table. While
//! another request, such as a thermal cap, is stricter, the limit shows that one.

use std::thread::sleep;
use std::time::Duration;

use brisk_sys::{Root, Target};

/// How long a limit is polled until it shows the requested value. The worker needs far less unless the CPU is busy.
pub(super) const READ_BACK_TIMEOUT: Duration = Duration::from_millis(20);
/// The polling period.
pub(super) const POLL_PERIOD: Duration = Duration::from_micros(200);

/// Polls `condition` every `pause`, for `timeout` in total. False when it is still false at the end.
pub(super) fn poll_until<E>(
    timeout: Duration,
    pause: Duration,
    mut condition: impl FnMut() -> Result<bool, E>,
) -> Result<bool, E> {
    for _ in 0..timeout.as_micros() / pause.as_micros() {
        if condition()? {
            return Ok(true);
        }
        sleep(pause);
    }
    condition()
}

/// True for a frequency limit.
pub(super) fn is_limit(target: &Target) -> bool {
    is_minimum(target).is_some()
}

/// `Some(true)` for a lower limit, `Some(false)` for an upper one, `None` for anything else.
fn is_minimum(target: &Target) -> Option<bool> {
    let Target::Tunable(file) = target else { return None };
    match file.file_name()?.to_str()? {
        "scaling_min_freq" => Some(true),
        "scaling_max_freq" => Some(false),
        _ => None,
    }
}

/// The frequency of the driver's table to which the kernel rounds the request `value`: up for a lower limit, down for an
/// upper one. `None` without a table.
pub(super) fn rounded(root: &Root, target: &Target, value: &str) -> Option<String> {
    let is_minimum = is_minimum(target)?;
    let Target::Tunable(file) = target else { return None };
    let table = root.read(file.with_file_name("scaling_available_frequencies")).ok()?;
    let value: u64 = value.parse().ok()?;
    let frequencies = table.split_ascii_whitespace().filter_map(|word| word.parse().ok());
    let frequency: Option<u64> = if is_minimum {
        frequencies.filter(|&khz| khz >= value).min()
    } else {
        frequencies.filter(|&khz| khz <= value).max()
    };
    frequency.map(|khz| khz.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn lower_limits_are_rounded_up_and_upper_limits_down() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let limit = |name: &str| Target::Tunable(format!("/{name}").into());
        assert_eq!(rounded(&root, &limit("scaling_min_freq"), "900000"), None);
        fs::write(folder.path().join("scaling_available_frequencies"), "1200000 1000000 500000 200000 \n").unwrap();
        let cases = [
            ("scaling_min_freq", "900000", Some("1000000")),
            ("scaling_min_freq", "500000", Some("500000")),
            ("scaling_min_freq", "1300000", None),
            ("scaling_max_freq", "900000", Some("500000")),
            ("scaling_max_freq", "100000", None),
            ("scaling_max_freq", "much", None),
            ("scaling_governor", "900000", None),
        ];
        for (name, value, expected) in cases {
            assert_eq!(rounded(&root, &limit(name), value).as_deref(), expected, "{name} {value}");
        }
    }
}
