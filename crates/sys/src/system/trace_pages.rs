//! The kernel's trace buffers as raw pages (Documentation/trace/ftrace.rst, `per_cpu/cpuN/trace_pipe_raw`), what is needed to read
//! them elsewhere, and the instances of recorders that were killed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;

use super::trace_events::tracefs;
use crate::Root;
use crate::error::{DeviceError, Operation};
use crate::process::{self, ProcessIdentity, life};

/// How the names of recorders' instances begin.
const PREFIX: &str = "brisk-trace";

/// How a page of the buffer is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLayout {
    pub page_bytes: usize,
    /// The kernel's `long`.
    pub long_bytes: usize,
}

/// The layout in the text of `events/header_page`, where the fields are `commit` of one long, and `data` up to the page's end.
pub fn page_layout(text: &str) -> Option<PageLayout> {
    let field = |name: &str| text.lines().find(|line| line.contains(name));
    let value = |line: &str, key: &str| line.split_once(key)?.1.split(';').next()?.trim().parse::<usize>().ok();
    let (commit, data) = (field(" commit;")?, field(" data;")?);
    let layout = PageLayout {
        page_bytes: value(data, "offset:")?.checked_add(value(data, "size:")?)?,
        long_bytes: value(commit, "size:")?,
    };
    (layout.page_bytes.is_power_of_two() && matches!(layout.long_bytes, 4 | 8)).then_some(layout)
}

/// The pages of one CPU; each is read once.
#[derive(Debug)]
pub struct CpuPages {
    pub cpu: u16,
    path: PathBuf,
    file: File,
}

/// Opens the pages of all possible CPUs of the instance `folder`, in their order.
///
/// # Errors
/// [`DeviceError`] when the folder cannot be listed, or a CPU's pages cannot be opened.
pub fn open(root: &Root, folder: &str) -> Result<Vec<CpuPages>, DeviceError> {
    let names = root.list(format!("{folder}/per_cpu"))?;
    let mut cpus: Vec<u16> = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    cpus.sort_unstable();
    let open = |cpu| {
        let path = root.path(format!("{folder}/per_cpu/cpu{cpu}/trace_pipe_raw"));
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        match file {
            Ok(file) => Ok(CpuPages { cpu, path, file }),
            Err(error) => Err(DeviceError::io(&path, Operation::Read, error)),
        }
    };
    cpus.into_iter().map(open).collect()
}

impl CpuPages {
    /// Fills `buffer` with whole pages of `page_bytes`, as far as there are any, and returns how many bytes these are; it does not
    /// wait. The last page may be filled in part, and the kernel then begins another one.
    ///
    /// # Errors
    /// [`DeviceError`] when the kernel's file cannot be read, or holds no whole pages.
    pub fn read(&mut self, buffer: &mut [u8], page_bytes: usize) -> Result<usize, DeviceError> {
        let mut filled = 0;
        while let Some(page) = buffer.get_mut(filled..filled + page_bytes) {
            match self.file.read(page) {
                Ok(0) => break,
                Ok(length) if length == page_bytes => filled += length,
                Ok(length) => {
                    return Err(DeviceError::malformed(&self.path, "whole pages", &format!("{length} bytes")));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DeviceError::io(&self.path, Operation::Read, error)),
            }
        }
        Ok(filled)
    }
}

/// How many events of a buffer were read, and how many were lost before that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub read: u64,
    pub lost: u64,
}

/// The tally of all CPUs of the instance `folder` (`per_cpu/cpuN/stats`); what cannot be read counts nothing.
pub fn tally(root: &Root, folder: &str, cpus: impl IntoIterator<Item = u16>) -> Tally {
    let mut all = Tally::default();
    for cpu in cpus {
        let one = root.read(format!("{folder}/per_cpu/cpu{cpu}/stats")).map(|text| parse_stats(&text));
        let Tally { read, lost } = one.unwrap_or_default();
        all = Tally { read: all.read + read, lost: all.lost + lost };
    }
    all
}

fn parse_stats(text: &str) -> Tally {
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    let lost = ["overrun", "commit overrun", "dropped events"].into_iter().map(value).fold(0, u64::saturating_add);
    Tally { read: value("read events"), lost }
}

/// The name of the instance of this process: it tells other processes when the recorder has ended.
pub fn own_instance(root: &Root) -> String {
    let pid = std::process::id();
    let start_time_ticks = process::start_time_ticks(root, pid).unwrap_or(0);
    format!("{PREFIX}-{pid}-{start_time_ticks}")
}

/// What follows the recorder's start tells its instances apart.
fn recorder(instance: &str) -> Option<ProcessIdentity> {
    let mut numbers = instance.strip_prefix(PREFIX)?.strip_prefix('-')?.split('-');
    let (pid, start_time_ticks) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    Some(ProcessIdentity { pid, start_time_ticks })
}

/// Removes the instances of recorders that have ended, and returns their folders, each with the error where it is still there.
/// The kernel refuses to remove one that any process reads.
pub fn remove_stale(root: &Root) -> Vec<(String, Option<DeviceError>)> {
    let instances = format!("{}/instances", tracefs(root));
    // Without tracefs, or without the right to list it, this user has left nothing there.
    let names = root.list(&instances).unwrap_or_default();
    let has_ended = |name: &String| recorder(name).is_some_and(|it| life(root, it.pid) != Some(it));
    let removed = names.into_iter().filter(has_ended).map(|name| {
        let folder = format!("{instances}/{name}");
        let path = root.path(&folder);
        let error = fs::remove_dir(&path).err().filter(|error| error.kind() != io::ErrorKind::NotFound);
        (folder, error.map(|error| DeviceError::io(&path, Operation::Write, error)))
    });
    removed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
                          \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
                          \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
                          \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    #[test]
    fn the_layout_of_a_page_is_read() {
        assert_eq!(page_layout(HEADER), Some(PageLayout { page_bytes: 4096, long_bytes: 8 }));
        let text = HEADER.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4");
        let text = text.replace("offset:16;\tsize:4080", "offset:12;\tsize:16372");
        assert_eq!(page_layout(&text), Some(PageLayout { page_bytes: 16384, long_bytes: 4 }));
        for damaged in ["", &HEADER.replace("4080", "4081"), &HEADER.replace(" data;", " dat;")] {
            assert_eq!(page_layout(damaged), None, "{damaged}");
        }
    }

    #[test]
    fn pages_are_read_whole_in_the_order_of_cpus() {
        let text = |letter: &str, bytes: usize| letter.repeat(bytes);
        let place = |cpu: u16| format!("i/per_cpu/cpu{cpu}/trace_pipe_raw");
        let (none, two, torn) = (String::new(), text("b", 128), text("c", 65));
        let (_folder, root) = root_of(&[(&place(10), &torn), (&place(2), &two), (&place(0), &none)]);
        let mut cpus = open(&root, "/i").unwrap();
        assert_eq!(cpus.iter().map(|pages| pages.cpu).collect::<Vec<_>>(), [0, 2, 10]);
        let mut buffer = [0; 192];
        assert_eq!(cpus[0].read(&mut buffer, 64).unwrap(), 0);
        assert_eq!(cpus[1].read(&mut buffer, 64).unwrap(), 128);
        assert!(buffer[..128].iter().all(|byte| *byte == b'b'));
        let error = cpus[2].read(&mut buffer, 64).unwrap_err().to_string();
        assert!(error.contains("cpu10/trace_pipe_raw") && error.contains("whole pages"), "{error}");
        assert!(open(&root, "/none").unwrap_err().is_missing());
    }

    #[test]
    fn lost_events_are_counted_whichever_way_they_were_lost() {
        let stats = "entries: 0\noverrun: 3\ncommit overrun: 1\nbytes: 0\noldest event ts: 1.2\nnow ts: 3.4\n\
                     dropped events: 2\nread events: 70\n";
        let (_folder, root) = root_of(&[("i/per_cpu/cpu0/stats", stats), ("i/per_cpu/cpu1/stats", "read events: 5")]);
        assert_eq!(tally(&root, "/i", [0, 1, 2]), Tally { read: 75, lost: 6 });
    }

    // Verifies TRACE-7.
    #[test]
    fn instances_of_dead_recorders_alone_are_removed() {
        let stat = format!("7 (brisk) S {}1234 0", "1 ".repeat(18));
        for place in ["sys/kernel/tracing", "sys/kernel/debug/tracing"] {
            let instance = |name: &str| format!("{place}/instances/{name}/");
            let names = [
                "brisk-trace-7-1234",
                "brisk-trace-7-1200",
                "brisk-trace-8-1",
                "brisk-trace-8-1-launches",
                "brisk-record",
                "brisk-trace-x",
                "other",
            ];
            let folders = names.map(instance);
            let files: Vec<_> = folders.iter().map(|folder| (folder.as_str(), "")).collect();
            let (_folder, root) = root_of(&[&files[..], &[("proc/7/stat", stat.as_str())]].concat());
            let removed = remove_stale(&root);
            let removed: Vec<&str> = removed
                .iter()
                .map(|(folder, error)| (error.is_none(), folder))
                .map(|(gone, folder)| {
                    assert!(gone, "{folder}");
                    folder.rsplit('/').next().unwrap()
                })
                .collect();
            assert_eq!(
                removed,
                ["brisk-trace-7-1200", "brisk-trace-8-1", "brisk-trace-8-1-launches"],
                "a number that is used again is another recorder"
            );
            let left = root.list(format!("/{place}/instances")).unwrap();
            assert_eq!(left, ["brisk-record", "brisk-trace-7-1234", "brisk-trace-x", "other"]);
        }
    }

    #[test]
    fn an_instance_in_use_is_reported() {
        let (_folder, root) = root_of(&[("sys/kernel/tracing/instances/brisk-trace-8-1/file", "")]);
        let removed = remove_stale(&root);
        assert_eq!(removed[0].0, "/sys/kernel/tracing/instances/brisk-trace-8-1");
        assert!(removed[0].1.as_ref().unwrap().to_string().starts_with("cannot write "), "{removed:?}");
        let own = own_instance(&Root::system());
        assert_eq!(recorder(&own).map(|it| it.pid), Some(std::process::id()));
        assert_eq!(life(&Root::system(), std::process::id()), recorder(&own));
    }
}
