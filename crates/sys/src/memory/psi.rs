//! How long tasks stall on memory: pressure stall information, /proc/pressure/memory (Documentation/accounting/psi.rst).

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};

use serde::Serialize;

use crate::fields::{Fields, number};
use crate::{DeviceError, Operation, Root};

/// The file, as named on the device.
pub const MEMORY_FILE: &str = "/proc/pressure/memory";

/// The shares of time in which tasks stalled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stall {
    /// Share of the last ten seconds, in percent.
    pub average_10s_percent: f64,
    /// Of the last minute.
    pub average_60s_percent: f64,
    /// Of the last five minutes.
    pub average_300s_percent: f64,
    /// Total stall time since boot.
    pub total_us: u64,
}

/// The two lines of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pressure {
    /// At least one task stalled.
    pub some: Stall,
    /// All tasks that could have run stalled.
    pub full: Stall,
}

/// The current memory pressure.
///
/// # Errors
/// [`DeviceError::is_missing`] without CONFIG_PSI; some kernels have the file and refuse to open it unless booted with
/// psi=1; [`DeviceError::is_malformed`] when it is not as documented.
pub fn memory(root: &Root) -> Result<Pressure, DeviceError> {
    let text = root.read(MEMORY_FILE)?;
    parse(&text).ok_or_else(|| {
        DeviceError::malformed(&root.path(MEMORY_FILE), "`some` and `full` with avg10, avg60, avg300 and total", &text)
    })
}

/// Microseconds since boot in which some task, and in which all tasks, stalled: the totals of both lines of a pressure file.
/// The CPU's file had no `full` before Linux 5.13.
pub fn totals_us(text: &[u8]) -> Option<(u64, u64)> {
    let total = |kind: &[u8]| {
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(kind))?;
        Fields::of(line).find_map(|field| number(field.strip_prefix(b"total=")?))
    };
    Some((total(b"some ")?, total(b"full ").unwrap_or(0)))
}

/// Without CAP_SYS_RESOURCE the kernel accepts only windows that are a multiple of this, since Linux 6.5. Before, it accepts
/// none.
const UNPRIVILEGED_WINDOW_US: u32 = 2_000_000;
/// What a process needs for other windows.
const PRIVILEGE_ADVICE: &str =
    "give it CAP_SYS_RESOURCE: without it the kernel accepts only windows of 2 s, and none before Linux 6.5";

/// Wakes the process that polls it for POLLPRI, once per window, when tasks have stalled on memory for too long in it.
#[derive(Debug)]
pub struct Trigger {
    file: File,
    is_coarse: bool,
}

impl Trigger {
    /// A trigger for `stall_us` of stall time of some task within `window_us`, which is from 500 ms to 10 s. Where the kernel
    /// requires CAP_SYS_RESOURCE for such a window, its window is the next multiple of 2 s.
    ///
    /// # Errors
    /// [`DeviceError::is_missing`] without CONFIG_PSI; [`DeviceError::is_denied`] without CAP_SYS_RESOURCE before Linux 6.5;
    /// EINVAL for other windows.
    pub fn open(root: &Root, stall_us: u32, window_us: u32) -> Result<Self, DeviceError> {
        let asked = Self::of_window(root, stall_us, window_us);
        match asked {
            Err(error) if error.is_invalid() && !window_us.is_multiple_of(UNPRIVILEGED_WINDOW_US) => {
                let window_us = window_us.next_multiple_of(UNPRIVILEGED_WINDOW_US);
                // The first answer also names what is wrong with the window for root.
                let coarse = Self::of_window(root, stall_us, window_us).map_err(|_| error)?;
                Ok(Self { is_coarse: true, ..coarse })
            }
            asked => asked,
        }
    }

    fn of_window(root: &Root, stall_us: u32, window_us: u32) -> Result<Self, DeviceError> {
        let path = root.path(MEMORY_FILE);
        let fault = |source| DeviceError::io(&path, Operation::Watch, source);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(fault)?;
        file.write_all(format!("some {stall_us} {window_us}\0").as_bytes()).map_err(fault)?;
        Ok(Self { file, is_coarse: false })
    }

    /// A message for a window that is longer than requested: the consequence, and what this process lacks.
    pub fn limitation(&self) -> Option<String> {
        self.is_coarse
            .then(|| format!("{MEMORY_FILE} reports stalls to this process up to 2 s late: {PRIVILEGE_ADVICE}"))
    }
}

/// Why there is no trigger, with advice for the user.
pub fn with_advice(error: &DeviceError) -> String {
    if error.is_denied() { format!("{error}; {PRIVILEGE_ADVICE}") } else { error.with_advice() }
}

impl AsFd for Trigger {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Parses both lines.
pub fn parse(text: &str) -> Option<Pressure> {
    let stall = |kind: &str| text.lines().find_map(|line| parse_stall(line.strip_prefix(kind)?));
    Some(Pressure { some: stall("some ")?, full: stall("full ")? })
}

fn parse_stall(fields: &str) -> Option<Stall> {
    let field = |name: &str| {
        let named = |word: &str| Some(word.strip_prefix(name)?.strip_prefix('=')?.to_owned());
        fields.split_ascii_whitespace().find_map(named)
    };
    let percent = |name| field(name)?.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    Some(Stall {
        average_10s_percent: percent("avg10")?,
        average_60s_percent: percent("avg60")?,
        average_300s_percent: percent("avg300")?,
        total_us: field("total")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lines_are_read() {
        let text =
            "some avg10=1.50 avg60=0.02 avg300=0.00 total=4420193\nfull avg10=0.00 avg60=0.01 avg300=100.00 total=7\n";
        let pressure = parse(text).unwrap();
        assert_eq!((pressure.some.average_10s_percent, pressure.some.total_us), (1.5, 4_420_193));
        assert_eq!((pressure.full.average_300s_percent, pressure.full.total_us), (100.0, 7));
    }

    /// On the kernel that the test runs on, in a thread that drops the capability.
    // Verifies MEMORY-4.
    #[test]
    fn an_unprivileged_process_gets_long_psi_windows_or_the_reason() {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let root = Root::system();
        if !root.exists(MEMORY_FILE) {
            return;
        }
        let opened = |stall_us, window_us| {
            let root = root.clone();
            let without = move || {
                let mut held = capabilities(None).unwrap();
                held.effective -= CapabilitySet::SYS_RESOURCE;
                set_capabilities(None, held).unwrap();
                Trigger::open(&root, stall_us, window_us)
            };
            std::thread::spawn(without).join().unwrap()
        };
        match opened(5000, 500_000) {
            Ok(trigger) => {
                let limitation = trigger.limitation().expect("the window is longer than was asked for");
                assert!(limitation.contains("up to 2 s late: give it CAP_SYS_RESOURCE"), "{limitation}");
                assert!(opened(5000, 4_000_000).unwrap().limitation().is_none(), "as requested");
                let error = opened(5000, 10_500_000).unwrap_err();
                assert!(with_advice(&error).contains("choose another"), "too long for any user: {error}");
            }
            // Some kernels have the file and no PSI.
            Err(error) if !error.is_denied() => assert!(memory(&root).is_err(), "{error}"),
            Err(error) => assert!(with_advice(&error).contains("give it CAP_SYS_RESOURCE"), "{error}"),
        }
    }

    #[test]
    fn totals_are_read_with_one_line_or_two() {
        let some = "some avg10=1.50 avg60=0.02 avg300=0.00 total=44\n";
        let both = format!("{some}full avg10=0.00 avg60=0.01 avg300=0.00 total=7\n");
        assert_eq!(totals_us(both.as_bytes()), Some((44, 7)));
        assert_eq!(totals_us(some.as_bytes()), Some((44, 0)));
        assert_eq!(totals_us(b"some avg10=1.50 avg60=0.02\n"), None);
    }

    #[test]
    fn malformed_pressure_is_refused() {
        let whole = "avg10=0.00 avg60=0.00 avg300=0.00 total=0";
        for text in [
            String::new(),
            format!("some {whole}"),
            format!("some {whole}\nfull avg10=nan avg60=0.00 avg300=0.00 total=0"),
            format!("some {whole}\nfull avg10=-1.0 avg60=0.00 avg300=0.00 total=0"),
            format!("some {whole}\nfull avg10=0.00 avg60=0.00 total=0"),
            format!("some {whole}\nfull {}", whole.replace("total=0", "total=-1")),
        ] {
            assert_eq!(parse(&text), None, "{text:?}");
        }
    }
}
