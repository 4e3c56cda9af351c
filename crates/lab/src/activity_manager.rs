//! A small activity manager: opens applications in the order of steps of Android's zygote (`SpecializeCommon` of
//! com_android_internal_os_Zygote.cpp) and ActivityManager (`OomAdjuster`). It is both: applications are its forks, and execute
//! no program.

use std::ffi::CString;
use std::fs;
use std::io::{BufRead, PipeWriter, Read, Write, pipe};
use std::str::FromStr;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Gid, Signal, Uid, getpid, set_parent_process_death_signal};
use rustix::thread::{set_name, set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use brisk_base::work::Work;
use brisk_sys::BootTime;
use brisk_sys::process::fork::{Forked, fork};

/// The hierarchies of version 1 in which an application's place depends on what it is to the user.
pub const HIERARCHIES: [&str; 2] = ["/dev/cpuset", "/dev/cpuctl"];
const UNIFIED: &str = "/sys/fs/cgroup";
/// `FOREGROUND_APP_ADJ` and `PREVIOUS_APP_ADJ` of ProcessList.java: what lmkd is told.
const FOREGROUND_ADJ: i32 = 0;
const PREVIOUS_ADJ: i32 = 700;

/// What the user does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Request {
    /// Starts an application.
    Open(Application),
    /// Returns to one that runs.
    Resume { pid: u32 },
}

/// An application to open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Application {
    /// Its user: each application has its own, from 10000.
    uid: u32,
    name: String,
    /// Its work until it is open, at the highest frequency.
    work_ms: u64,
}

impl FromStr for Request {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let wrong = || format!("{line:?} is neither `open UID NAME WORK_MS` nor `resume PID`");
        match words[..] {
            ["open", uid, name, work_ms] => Ok(Self::Open(Application {
                uid: uid.parse().with_context(wrong)?,
                name: name.to_owned(),
                work_ms: work_ms.parse().with_context(wrong)?,
            })),
            ["resume", pid] => Ok(Self::Resume { pid: pid.parse().with_context(wrong)? }),
            _ => anyhow::bail!(wrong()),
        }
    }
}

/// Does what each line of `requests` says, until they end; all applications then end, too. Answers `opened NAME PID` and
/// `resumed PID` on `answers`, where an application writes `launched NAME MOMENT LENGTH` when its work is done: the moment on
/// CLOCK_BOOTTIME and how long the work took, in nanoseconds.
///
/// # Errors
/// When a line is no request, or the device has not the groups of Android's.
pub fn run(requests: impl BufRead, answers: &mut impl Write, turns_per_ms: u64) -> anyhow::Result<()> {
    // An application has this name until it gets its own, which is after it came to the foreground.
    set_name(c"main")?;
    let mut front = None;
    for line in requests.lines() {
        let answer = match line?.parse()? {
            Request::Open(application) => {
                let pid = start(&application, answers, turns_per_ms)?;
                come_to_front(pid, &mut front)?;
                format!("opened {} {pid}", application.name)
            }
            Request::Resume { pid } => {
                come_to_front(pid, &mut front)?;
                format!("resumed {pid}")
            }
        };
        writeln!(answers, "{answer}").and_then(|()| answers.flush()).context("cannot answer")?;
    }
    Ok(())
}

/// Forks an application, and returns its PID when it is attached to ActivityManager.
fn start(application: &Application, answers: &mut impl Write, turns_per_ms: u64) -> anyhow::Result<u32> {
    let (mut attached, attach) = pipe().context("cannot make a pipe")?;
    match fork().context("cannot fork an application")? {
        Forked::Parent(pid) => {
            drop(attach);
            attached.read_exact(&mut [0]).with_context(|| format!("{} did not attach", application.name))?;
            Ok(pid.as_raw_nonzero().get().unsigned_abs())
        }
        Forked::Child => {
            drop(attached);
            let Err(error) = live(application, attach, answers, turns_per_ms);
            eprintln!("brisk: {}: {error:#}", application.name);
            std::process::exit(1);
        }
    }
}

/// The life of an application: it becomes what the zygote makes of its fork, launches, and waits.
fn live(
    application: &Application,
    mut attach: PipeWriter,
    answers: &mut impl Write,
    turns_per_ms: u64,
) -> anyhow::Result<std::convert::Infallible> {
    let Application { uid, name, work_ms } = application;
    let pid = getpid().as_raw_nonzero();
    let group = format!("{UNIFIED}/uid_{uid}/pid_{pid}");
    fs::create_dir_all(&group).with_context(|| format!("cannot make {group}"))?;
    write(&format!("{group}/cgroup.procs"), &pid.to_string())?;
    // As a thread, and before it is another user: the zygote knows that this will be the foreground.
    move_to("top-app", "tasks", &pid.to_string())?;
    set_thread_groups(&[])?;
    let (user, own_group) = (Uid::from_raw(*uid), Gid::from_raw(*uid));
    set_thread_res_gid(own_group, own_group, own_group)?;
    set_thread_res_uid(user, user, user)?;
    // A change of user clears it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_name(&CString::new(name.as_str())?)?;
    attach.write_all(&[0]).context("cannot attach")?;
    let took = Work::of_turns(work_ms * turns_per_ms).time();
    let moment_ns = BootTime::now().nanoseconds();
    writeln!(answers, "launched {name} {moment_ns} {}", took.as_nanos()).and_then(|()| answers.flush())?;
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Moves process `pid` to the foreground, and the one that was there to the background.
fn come_to_front(pid: u32, front: &mut Option<u32>) -> anyhow::Result<()> {
    let place = |pid: u32, group: &str, adj: i32| {
        write(&format!("/proc/{pid}/oom_score_adj"), &adj.to_string())?;
        move_to(group, "cgroup.procs", &pid.to_string())
    };
    if let Some(previous) = front.replace(pid).filter(|&previous| previous != pid) {
        place(previous, "background", PREVIOUS_ADJ)?;
    }
    place(pid, "top-app", FOREGROUND_ADJ)
}

fn move_to(group: &str, file: &str, id: &str) -> anyhow::Result<()> {
    HIERARCHIES.iter().try_for_each(|hierarchy| write(&format!("{hierarchy}/{group}/{file}"), id))
}

fn write(file: &str, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {text} to {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies LAB-3.
    #[test]
    fn a_line_is_a_request_or_refused() {
        let mail = Application { uid: 10_061, name: "mail".into(), work_ms: 200 };
        for (line, expected) in [
            ("open 10061 mail 200", Some(Request::Open(mail))),
            (" resume  7 ", Some(Request::Resume { pid: 7 })),
            ("open 10061 mail", None),
            ("open -1 mail 200", None),
            ("open 10061 mail 200 more", None),
            ("resume", None),
            ("resume mail", None),
            ("", None),
        ] {
            assert_eq!(line.parse::<Request>().ok(), expected, "{line}");
        }
        let mut answers = Vec::new();
        let error = run("close 7\n".as_bytes(), &mut answers, 1).unwrap_err().to_string();
        assert!(error.starts_with("\"close 7\" is neither") && answers.is_empty(), "{error}");
    }
}
