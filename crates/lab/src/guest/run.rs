//! Loading modules and running the command.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Context;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use rustix::system::init_module;

use super::job::{GuestJob, GuestModule};

/// Links BusyBox's applets into /bin.
///
/// # Errors
/// When it cannot be run or fails.
pub fn install_busybox() -> anyhow::Result<()> {
    let status = Command::new("/bin/busybox").args(["--install", "-s", "/bin"]).status();
    let status = status.context("cannot run /bin/busybox")?;
    anyhow::ensure!(status.success(), "busybox --install failed: {status}");
    Ok(())
}

/// Loads the modules in order, and frees the memory that their files take.
///
/// # Errors
/// When the kernel refuses one: its name, parameters and the kernel's answer.
pub fn load_modules(modules: &[GuestModule]) -> anyhow::Result<()> {
    for module in modules {
        let object = fs::read(&module.path).with_context(|| format!("cannot read {}", module.path))?;
        let parameters = CString::new(module.parameters.as_str()).context("a module parameter holds a zero byte")?;
        match init_module(&object, &parameters) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => {
                return Err(error).with_context(|| {
                    format!(
                        "cannot load the kernel module {} {}(see the console for its reason)",
                        module.name,
                        if module.parameters.is_empty() {
                            String::new()
                        } else {
                            format!("with {} ", module.parameters)
                        }
                    )
                });
            }
        }
        fs::remove_file(&module.path).with_context(|| format!("cannot remove {}", module.path))?;
    }
    Ok(())
}

/// Runs the job's command with its stdout on `results`, reaps processes that end before it, and returns its exit status,
/// or 128 + the number of the signal that ended it.
///
/// # Errors
/// When it cannot be started.
pub fn command(job: &GuestJob, results: &File) -> anyhow::Result<u8> {
    let (program, arguments) = job.command.split_first().context("the job has no command")?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs([
        ("PATH", "/bin:/sbin:/usr/bin:/usr/sbin"),
        ("HOME", "/"),
        ("LANG", "C.UTF-8"),
    ]);
    if job.interactive {
        command.env("TERM", "linux");
        take_console(&mut command, &job.console)?;
    } else {
        command.stdin(Stdio::null()).stdout(results.try_clone().context("cannot hand on the results port")?);
    }
    let child = command.spawn().with_context(|| format!("cannot run {program} in the guest"))?;
    let main = Pid::from_child(&child);
    loop {
        let (pid, status) = match wait(WaitOptions::empty()) {
            Ok(Some(ended)) => ended,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(error) => return Err(error).with_context(|| format!("cannot wait for {program}")),
        };
        if pid == main {
            let signal = status.terminating_signal().map(|signal| 128 + signal);
            let status = status.exit_status().or(signal).unwrap_or(255);
            return Ok(u8::try_from(status).unwrap_or(255));
        }
    }
}

/// Makes the console the command's controlling terminal, so that Ctrl-C and job control work there.
fn take_console(command: &mut Command, name: &str) -> anyhow::Result<()> {
    // By its own name: /dev/console never becomes a controlling terminal.
    let path = format!("/dev/{name}");
    let open = || {
        let console =
            OpenOptions::new().read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed()).open(&path);
        console.with_context(|| format!("cannot open {path}"))
    };
    command.stdin(open()?).stdout(open()?).stderr(open()?);
    let terminal = open()?;
    let take = move || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(&terminal).map_err(io::Error::from)
    };
    // SAFETY: between fork and exec, `take` makes two system calls and nothing else.
    unsafe {
        command.pre_exec(take);
    }
    Ok(())
}
