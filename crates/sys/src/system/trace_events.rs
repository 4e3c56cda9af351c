//! The kernel's trace events (Documentation/trace/events.rst), through an instance of brisk's own: other users of tracing are
//! not disturbed, and nothing remains when it is removed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::Root;
use crate::error::{DeviceError, Operation};

/// Where tracefs is; Android before 10 and Linux before 4.1 have it in debugfs.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Where probes are defined, for all instances; a definition is appended.
const PROBES: &str = "/sys/kernel/tracing/kprobe_events";
/// The clock of lookups' measurements: the processor's counter, which programs read as well. Only x86 has it.
pub const COUNTER: &str = "x86-tsc";

/// The folder of tracefs; the usual one where it is not mounted, or where this user may not enter it.
pub fn tracefs(root: &Root) -> &'static str {
    PLACES.into_iter().find(|place| root.is_folder(format!("{place}/instances"))).unwrap_or(PLACES[0])
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The task's name.
    pub command: String,
    /// The task.
    pub tid: u32,
    /// Ticks with [`COUNTER`], otherwise nanoseconds, which the kernel prints in whole microseconds.
    pub timestamp: u64,
    /// The event's name.
    pub name: String,
    /// `key=value` pairs and words, as the event prints them.
    pub text: String,
}

impl TraceEvent {
    /// The value of `key=value`; decimal, or hexadecimal after 0x.
    pub fn number(&self, key: &str) -> Option<u64> {
        number(self.value(key)?)
    }

    /// The values of `key={value,...}`; `None` when the kernel could not read them.
    pub fn numbers(&self, key: &str) -> Option<Vec<u64>> {
        self.value(key)?.strip_prefix('{')?.strip_suffix('}')?.split(',').map(number).collect()
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.text.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The least memory for the events of a CPU.
const LEAST_BUFFER_KIB: u32 = 64;

/// An instance; it is removed when this value is dropped, and its probe with it.
#[derive(Debug)]
pub struct TraceInstance {
    root: Root,
    folder: String,
    buffer_kib: u32,
    /// `GROUP/EVENT` of a probe that was defined for it.
    probe: Option<&'static str>,
}

impl TraceInstance {
    /// Creates the instance `name`, in place of a leftover one, with the first of `clocks` that the kernel has (none named: its
    /// default) and `buffer_kib` of memory per CPU; with half of that, and so on, where the kernel lacks memory.
    ///
    /// # Errors
    /// [`DeviceError`] without tracefs or permission, where the kernel offers no such clock, and where it lacks memory for 64 KiB.
    pub fn make(root: &Root, name: &str, clocks: &[&str], buffer_kib: u32) -> Result<Self, DeviceError> {
        let folder = format!("{}/instances/{name}", tracefs(root));
        let real = root.path(&folder);
        let _ = fs::remove_dir(&real);
        fs::create_dir(&real).map_err(|error| DeviceError::io(&real, Operation::Write, error))?;
        let mut instance = Self { root: root.clone(), folder, buffer_kib, probe: None };
        let mut set = Ok(());
        for clock in clocks {
            set = instance.write("trace_clock", clock);
            if set.is_ok() {
                break;
            }
        }
        set?;
        while let Err(error) = instance.write("buffer_size_kb", &instance.buffer_kib.to_string()) {
            if error.errno() != Some(Errno::NOMEM) || instance.buffer_kib <= LEAST_BUFFER_KIB {
                return Err(error);
            }
            instance.buffer_kib = (instance.buffer_kib / 2).max(LEAST_BUFFER_KIB);
        }
        Ok(instance)
    }

    /// Its memory for the events of each CPU, in KiB.
    pub fn buffer_kib(&self) -> u32 {
        self.buffer_kib
    }

    /// Its folder, as named on the device.
    pub fn folder(&self) -> &str {
        &self.folder
    }

    /// Begins to record what is enabled, or pauses; a new instance records.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel refuses.
    pub fn switch(&self, is_on: bool) -> Result<(), DeviceError> {
        self.write("tracing_on", if is_on { "1" } else { "0" })
    }

    /// Records `event` (`binder/binder_transaction`) where `filter` is true; always when it is empty.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel has no such event.
    pub fn enable(&self, event: &str, filter: &str) -> Result<(), DeviceError> {
        if !filter.is_empty() {
            self.write(&format!("events/{event}/filter"), filter)?;
        }
        self.write(&format!("events/{event}/enable"), "1")
    }

    /// Defines an event of brisk's own, `probe` (`GROUP/EVENT`), at the entry of a kernel function, in place of a leftover one,
    /// and records it where `filter` is true (Documentation/trace/kprobetrace.rst). `definition` is the function and what to
    /// fetch.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel has no probes (`CONFIG_KPROBE_EVENTS`), or no such function.
    pub fn enable_probe(&mut self, probe: &'static str, definition: &str, filter: &str) -> Result<(), DeviceError> {
        let _ = self.root.write(PROBES, &format!("-:{probe}"));
        self.root.write(PROBES, &format!("p:{probe} {definition}"))?;
        self.probe = Some(probe);
        self.enable(probe, filter)
    }

    /// A stream of what is recorded from now on.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be opened.
    pub fn follow(&self) -> Result<TracePipe, DeviceError> {
        let path = self.file("trace_pipe");
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let file = file.map_err(|error| DeviceError::io(&path, Operation::Read, error))?;
        Ok(TracePipe { path, file, text: Vec::new(), lost_events: 0 })
    }

    /// Stops recording and returns what was recorded, in order.
    ///
    /// # Errors
    /// [`DeviceError`] when it cannot be read.
    pub fn finish(&self) -> Result<Vec<TraceEvent>, DeviceError> {
        self.switch(false)?;
        // `Root` truncates large files, and a trace may be long.
        let path = self.file("trace");
        let bytes = fs::read(&path).map_err(|error| DeviceError::io(&path, Operation::Read, error))?;
        Ok(String::from_utf8_lossy(&bytes).lines().filter_map(parse).collect())
    }

    fn write(&self, file: &str, value: &str) -> Result<(), DeviceError> {
        self.root.write(format!("{}/{file}", self.folder), value)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.root.path(format!("{}/{name}", self.folder))
    }
}

impl Drop for TraceInstance {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(self.root.path(&self.folder))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("cannot remove the trace instance {}: {error}", self.folder);
        }
        // An event cannot be removed while an instance records it.
        if let Some(probe) = self.probe
            && let Err(error) = self.root.write(PROBES, &format!("-:{probe}"))
        {
            tracing::warn!("cannot remove the probe {probe}: {error}");
        }
    }
}

/// The events of an instance as a stream; each is read once.
#[derive(Debug)]
pub struct TracePipe {
    path: PathBuf,
    file: File,
    /// Text that is not a whole line yet.
    text: Vec<u8>,
    lost_events: u64,
}

impl TracePipe {
    /// The events since the last call; it does not wait.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel's file cannot be read.
    pub fn read(&mut self) -> Result<Vec<TraceEvent>, DeviceError> {
        let mut chunk = [0; 64 * 1024];
        loop {
            match self.file.read(&mut chunk) {
                Ok(0) => break,
                Ok(length) => self.text.extend_from_slice(&chunk[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DeviceError::io(&self.path, Operation::Read, error)),
            }
        }
        let end = self.text.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = self.text.drain(..end).collect();
        let text = String::from_utf8_lossy(&whole);
        self.lost_events += text.lines().filter_map(lost).sum::<u64>();
        Ok(text.lines().filter_map(parse).collect())
    }

    /// Events lost so far, because they were not read fast enough.
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }
}

/// The number in `CPU:0 [LOST 12 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    line.split_once("[LOST ")?.1.strip_suffix(" EVENTS]")?.parse().ok()
}

/// One line of `trace`: `COMMAND-TID [CPU] FLAGS MOMENT: NAME: TEXT`; `None` for comments and anything else.
pub fn parse(line: &str) -> Option<TraceEvent> {
    // A command may contain any character, the rest of the line's head none of these.
    let at = line.find(": ")?;
    let (head, rest) = (&line[..at], &line[at + 2..]);
    let (task, flags) = head.rsplit_once(" [")?;
    let timestamp = timestamp(flags.split_whitespace().next_back()?)?;
    let (command, tid) = task.trim().rsplit_once('-')?;
    let (name, text) = rest.split_once(": ").unwrap_or((rest.trim_end_matches(':'), ""));
    Some(TraceEvent {
        command: command.to_owned(),
        tid: tid.parse().ok()?,
        timestamp,
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

/// A number of ticks, or seconds with six decimals in nanoseconds.
fn timestamp(text: &str) -> Option<u64> {
    let Some((seconds, microseconds)) = text.split_once('.') else { return text.parse().ok() };
    let microseconds = microseconds.parse::<u64>().ok().filter(|_| microseconds.len() == 6)?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(microseconds)?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_ticks_or_seconds() {
        for (text, expected) in [
            ("4202337521", Some(4_202_337_521)),
            ("4202.337521", Some(4_202_337_521_000)),
            ("0.000001", Some(1000)),
            ("1.5", None),
            ("1.0000000", None),
            (".000001", None),
            ("99999999999999999999.000000", None),
            ("18446744073709551615.999999", None),
            ("18446744073709.551616", None),
            ("-1.000000", None),
            ("", None),
        ] {
            assert_eq!(timestamp(text), expected, "{text}");
        }
    }

    #[test]
    fn event_lines_are_parsed_and_others_skipped() {
        let line = "           brisk-88      [000] .....   4202337521: binder_transaction: transaction=7 dest_node=1 \
                    dest_proc=80 dest_thread=0 reply=0 flags=0x10 code=0x3";
        let event = parse(line).unwrap();
        assert_eq!((event.command.as_str(), event.tid, event.timestamp), ("brisk", 88, 4_202_337_521));
        assert_eq!(
            (event.name.as_str(), event.number("code"), event.number("dest_node")),
            ("binder_transaction", Some(3), Some(1))
        );
        assert_eq!(event.number("dest"), None);
        for (line, command) in [
            ("  a-b [c]-7     [001] d..1.   12: binder_command: cmd=0x40406301 BC_REPLY", Some("a-b [c]")),
            ("# tracer: nop", None),
            ("", None),
            ("CPU:0 [LOST 12 EVENTS]", None),
        ] {
            assert_eq!(parse(line).map(|event| event.command).as_deref(), command, "{line}");
        }
        assert_eq!((lost("CPU:0 [LOST 12 EVENTS]"), lost("# [LOST")), (Some(12), None));
    }

    #[test]
    fn arrays_are_read_unless_the_kernel_could_not() {
        for (text, expected) in [
            ("(binder_transaction+0x0/0x1) code=3 data={0x80000000,0x2,7}", Some(vec![0x8000_0000, 2, 7])),
            ("data={(fault),(fault)}", None),
            ("data=(fault)", None),
            ("code=3", None),
        ] {
            let line = format!("app-7 [000] ..... 10: lookup: {text}");
            assert_eq!(parse(&line).unwrap().numbers("data"), expected, "{text}");
        }
    }
}
