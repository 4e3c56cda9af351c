//! The memory of one process: cheap figures from /proc/PID/statm and status (proc(5)), exact and expensive ones from
//! smaps_rollup.

use serde::Serialize;

use crate::memory::meminfo::kib_of;
use crate::process::parse_real_uid;
use crate::{DeviceError, Root};

/// Figures that the kernel maintains anyway, so that reading them is cheap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ProcessMemory {
    /// Resident pages, shared ones included.
    pub rss_kib: u64,
    /// Resident anonymous pages: those shared with a parent count in full.
    pub rss_anonymous_kib: u64,
    /// Pages on swap (`VmSwap`), before compression.
    pub swap_kib: u64,
}

/// Figures of smaps_rollup: each page shared by n processes counts one n-th.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ProportionalMemory {
    /// Proportional resident set (`Pss`).
    pub pss_kib: u64,
    /// Proportional share of swap (`SwapPss`).
    pub swap_pss_kib: u64,
}

/// The memory of process `pid`; `None` for kernel threads and zombies, which have none.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended, [`DeviceError::is_malformed`] when a file is not as documented.
pub fn read(root: &Root, pid: u32) -> Result<Option<ProcessMemory>, DeviceError> {
    Ok(read_with_owner(root, pid)?.map(|(_, memory)| memory))
}

/// The owner of the memory, from the same file; `None` for what the file lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The process's name (`comm`).
    pub name: Option<String>,
    /// Its real user.
    pub uid: Option<u32>,
}

/// The same, with the owner.
///
/// # Errors
/// As [`read`].
pub fn read_with_owner(root: &Root, pid: u32) -> Result<Option<(Owner, ProcessMemory)>, DeviceError> {
    let file = format!("/proc/{pid}/status");
    let text = root.read(&file)?;
    if !text.lines().any(|line| line.starts_with("VmRSS:")) {
        return Ok(None);
    }
    let owner = Owner { name: parse_name(&text), uid: parse_real_uid(&text) };
    if let Some(memory) = parse_status(&text) {
        return Ok(Some((owner, memory)));
    }
    // Before Linux 4.5 status did not distinguish anonymous pages; statm's third number is file pages.
    let statm_file = format!("/proc/{pid}/statm");
    let statm = root.read(&statm_file)?;
    let page_kib = rustix::param::page_size() as u64 / 1024;
    let (rss_kib, shared_kib) = parse_statm(&statm, page_kib)
        .ok_or_else(|| DeviceError::malformed(&root.path(&statm_file), "seven numbers of pages", &statm))?;
    let swap_kib = kib_of(&text, "VmSwap").unwrap_or(0);
    let rss_anonymous_kib = rss_kib.saturating_sub(shared_kib);
    Ok(Some((owner, ProcessMemory { rss_kib, rss_anonymous_kib, swap_kib })))
}

/// The exact figures of process `pid`. The kernel walks all its page tables for them: too expensive for the hot path.
///
/// # Errors
/// [`DeviceError::is_missing`] when it has ended and before Linux 4.14, [`DeviceError::is_denied`] for another user's.
pub fn proportional(root: &Root, pid: u32) -> Result<ProportionalMemory, DeviceError> {
    let file = format!("/proc/{pid}/smaps_rollup");
    let text = root.read(&file)?;
    parse_rollup(&text).ok_or_else(|| DeviceError::malformed(&root.path(&file), "Pss and SwapPss in kB", &text))
}

/// The OOM adjustment of process `pid`: -1000 (never killed) to 1000; Android writes the class of an application there.
///
/// # Errors
/// As [`Root::read_number`].
pub fn oom_score_adj(root: &Root, pid: u32) -> Result<i16, DeviceError> {
    root.read_number(format!("/proc/{pid}/oom_score_adj"))
}

/// The processes below `root`, ascending.
///
/// # Errors
/// [`DeviceError`] when /proc cannot be listed.
pub fn pids(root: &Root) -> Result<Vec<u32>, DeviceError> {
    let mut pids: Vec<u32> = root.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// Parses /proc/PID/status of a kernel that distinguishes anonymous pages (since Linux 4.5).
pub fn parse_status(text: &str) -> Option<ProcessMemory> {
    Some(ProcessMemory {
        rss_kib: kib_of(text, "VmRSS")?,
        rss_anonymous_kib: kib_of(text, "RssAnon")?,
        swap_kib: kib_of(text, "VmSwap").unwrap_or(0),
    })
}

/// The name in /proc/PID/status, where line feeds and backslashes are escaped as in C; without trailing white space.
pub fn parse_name(text: &str) -> Option<String> {
    let written = text.lines().find_map(|line| line.strip_prefix("Name:\t"))?;
    let mut name = String::with_capacity(written.len());
    let mut letters = written.trim_end().chars();
    while let Some(letter) = letters.next() {
        name.push(match letter {
            '\\' => match letters.next()? {
                'n' => '\n',
                escaped => escaped,
            },
            plain => plain,
        });
    }
    Some(name)
}

/// Parses /proc/PID/statm: resident pages, and the file pages among them, in KiB.
pub fn parse_statm(text: &str, page_kib: u64) -> Option<(u64, u64)> {
    let mut words = text.split_ascii_whitespace().skip(1);
    let mut kib = || words.next()?.parse::<u64>().ok()?.checked_mul(page_kib);
    Some((kib()?, kib()?))
}

/// Parses /proc/PID/smaps_rollup.
pub fn parse_rollup(text: &str) -> Option<ProportionalMemory> {
    Some(ProportionalMemory { pss_kib: kib_of(text, "Pss")?, swap_pss_kib: kib_of(text, "SwapPss").unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn this_process_is_read() {
        let (root, pid) = (Root::system(), std::process::id());
        let ballast = std::hint::black_box(vec![7u8; 8 << 20]);
        let memory = read(&root, pid).unwrap().unwrap();
        assert!(memory.rss_anonymous_kib >= 8 << 10 && memory.rss_kib > memory.rss_anonymous_kib, "{memory:?}");
        assert!(oom_score_adj(&root, pid).is_ok() && pids(&root).unwrap().contains(&pid));
        match proportional(&root, pid) {
            Ok(exact) => assert!(exact.pss_kib >= 8 << 10, "{exact:?}"),
            Err(error) => assert!(error.is_missing() || error.is_denied(), "{error}"),
        }
        drop(ballast);
        assert!(read(&root, u32::MAX).unwrap_err().is_missing());
    }

    #[test]
    fn old_and_new_kernels_give_the_same_figures() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let process = folder.path().join("proc/7");
        fs::create_dir_all(&process).unwrap();
        let page_kib = rustix::param::page_size() as u64 / 1024;
        fs::write(process.join("statm"), "1000 300 100 5 0 123 0\n").unwrap();
        for status in [
            format!("VmRSS:\t{} kB\nRssAnon:\t{} kB\nVmSwap:\t 40 kB\n", 300 * page_kib, 200 * page_kib),
            format!("VmRSS:\t{} kB\nVmSwap:\t 40 kB\n", 300 * page_kib),
        ] {
            fs::write(process.join("status"), &status).unwrap();
            let expected = ProcessMemory { rss_kib: 300 * page_kib, rss_anonymous_kib: 200 * page_kib, swap_kib: 40 };
            assert_eq!(read(&root, 7).unwrap(), Some(expected), "{status}");
        }
        fs::write(process.join("status"), "Name:\tkthreadd\n").unwrap();
        assert_eq!(read(&root, 7).unwrap(), None);
        fs::write(process.join("status"), "VmRSS:\t1 kB\n").unwrap();
        fs::write(process.join("statm"), "1000 300\n").unwrap();
        assert!(read(&root, 7).is_err());
    }

    #[test]
    fn a_name_is_unescaped() {
        for (text, name) in [
            ("Name:\tcat\nUmask:\t0022\n", Some("cat")),
            ("Name:\ta b) \\\\x\\ny \n", Some("a b) \\x\ny")),
            ("Name:\t\n", Some("")),
            ("Umask:\t0022\n", None),
            ("Name:\tx\\\n", None),
        ] {
            assert_eq!(parse_name(text).as_deref(), name, "{text:?}");
        }
        let (owned, pid) = (read_with_owner(&Root::system(), std::process::id()), std::process::id());
        let (Owner { name, uid }, memory) = owned.unwrap().unwrap();
        assert_eq!(uid, Some(rustix::process::getuid().as_raw()));
        assert_eq!(name, crate::process::command(&Root::system(), pid).ok());
        assert!(memory.rss_kib > 0);
    }

    #[test]
    fn pss_is_not_mistaken_for_its_parts() {
        let text = "55d2 ---p 00000000 00:00 0 [rollup]\nRss: 1612 kB\nPss: 227 kB\nPss_Anon: 116 kB\nSwap: 9 kB\nSwapPss: 3 kB\n";
        assert_eq!(parse_rollup(text), Some(ProportionalMemory { pss_kib: 227, swap_pss_kib: 3 }));
        assert_eq!(parse_rollup("Pss_Anon: 116 kB\n"), None);
    }
}
