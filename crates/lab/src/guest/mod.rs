//! The guest's first process. It mounts, loads modules, checks the device, runs the command, powers off. If a scenario asks for
//! systemd, that becomes the first process before the device is checked, and brisk continues as a service.

mod android;
mod job;
mod loopback;
mod mounts;
mod run;
mod systemd;
mod wait_until_idle;

use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use anyhow::Context;
use rustix::system::{RebootCommand, reboot};
use rustix::termios::{OptionalActions, tcdrain, tcgetattr, tcsetattr};

pub use job::{GuestJob, GuestModule, JOB_FILE};
pub use systemd::GuestSystemd;

use super::record::GuestRecord;
use super::self_check::SelfCheck;
use brisk_sys::Root;

/// True when this process is the first one of a guest: the kernel starts `/init` of an initramfs as process 1.
pub fn is_first_process() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name.as_bytes() == b"/init")
}

/// Runs the guest; the host receives success or failure on the results port.
pub fn main() -> ! {
    end(live)
}

/// Continues as a service when systemd has become the first process.
pub fn main_of_service() -> ! {
    end(serve)
}

/// Runs `live`, reports the result to the host, and powers off.
fn end(live: impl FnOnce(&mut Option<File>) -> anyhow::Result<u8>) -> ! {
    let mut results = None;
    let record = match live(&mut results) {
        Ok(status) => GuestRecord::Ended { status },
        Err(error) => GuestRecord::Failed { reason: format!("{error:#}") },
    };
    if let GuestRecord::Failed { reason } = &record {
        eprintln!("brisk: the guest failed: {reason}");
    }
    if let Some(results) = &mut results {
        // A failure of the port cannot be reported: the host sees a guest that ended without its last line.
        let _ = results.write_all(record.to_line().as_bytes()).and_then(|()| Ok(tcdrain(&*results)?));
    }
    let _ = reboot(RebootCommand::PowerOff);
    // The kernel panics when its first process ends, which the host notices.
    std::process::exit(1);
}

fn live(results: &mut Option<File>) -> anyhow::Result<u8> {
    let root = Root::system();
    let job = GuestJob::read()?;
    mounts::basic(job.android.is_some())?;
    let port = results.insert(open_results(&job.results)?);
    port.write_all(GuestRecord::Begun.to_line().as_bytes()).context("cannot report that the guest runs")?;
    if job.systemd.is_none() {
        mounts::cgroup(job.cgroup)?;
    }
    if job.busybox {
        run::install_busybox()?;
    }
    run::load_modules(&job.modules)?;
    match &job.android {
        Some(android) => android::prepare(android)?,
        None => mounts::binderfs(&root)?,
    }
    if job.loopback {
        loopback::set_up()?;
    }
    mounts::kept(&job.kept)?;
    match &job.systemd {
        Some(systemd) => systemd.exec_systemd(),
        None => work(&job, port),
    }
}

/// Runs the job as a service of systemd.
fn serve(results: &mut Option<File>) -> anyhow::Result<u8> {
    let job = GuestJob::read()?;
    let port = results.insert(open_results(&job.results)?);
    let systemd = job.systemd.as_ref().context("this guest's first process is brisk")?;
    systemd.check()?;
    let status = work(&job, port)?;
    systemd.check().map(|()| status)
}

/// Checks the device and runs the command.
fn work(job: &GuestJob, port: &mut File) -> anyhow::Result<u8> {
    let root = Root::system();
    wait_until_idle::settle(&root)?;
    if job.self_check {
        let check = check(&root, &job.capacities)?;
        let passed = check.passed();
        port.write_all(GuestRecord::SelfChecked(check).to_line().as_bytes()).context("cannot write the self-check")?;
        anyhow::ensure!(passed, "the self-check has not passed");
    }
    run::command(job, port)
}

/// A correct device may be disturbed once; a wrong one fails every time.
fn check(root: &Root, capacities: &[u32]) -> anyhow::Result<SelfCheck> {
    const TRIALS: u32 = 3;
    let mut check = SelfCheck::measure(root, capacities).context("the self-check")?;
    for _ in 1..TRIALS {
        if check.passed() {
            break;
        }
        check = SelfCheck::measure(root, capacities).context("the self-check")?;
    }
    Ok(check)
}

/// Opens the results port so that what is written arrives unchanged.
fn open_results(name: &str) -> anyhow::Result<File> {
    let path = format!("/dev/{name}");
    let port = File::options().write(true).open(&path).with_context(|| format!("cannot open {path}"))?;
    let mut settings = tcgetattr(&port).with_context(|| format!("{path} is no terminal"))?;
    settings.make_raw();
    tcsetattr(&port, OptionalActions::Now, &settings).with_context(|| format!("cannot set up {path}"))?;
    Ok(port)
}
