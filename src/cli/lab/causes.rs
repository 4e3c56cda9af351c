//! `brisk lab causes`: a program whose time goes into known causes. It measures each by the clock and the kernel's accounts, so
//! that an explanation of its trace can be checked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anstream::println;
use anyhow::Context;
use clap::{Args, ValueEnum};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::cli::lookup::context::ContextArguments;
use brisk_base::work::Work;
use brisk_experiment::lookup::Client;
use brisk_sys::memory::meminfo;
use brisk_sys::process::schedstat;
use brisk_sys::{Root, binder::CallError};

/// Some 80 ms at the highest frequency of the lab's devices.
const WORK: Work = Work::of_turns(5_000_000);
const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";
const READS: u64 = 40;
const READ_BYTES: usize = 65_536;
const PAGE_BYTES: usize = 4096;
const LOOKUPS: u32 = 4;
/// Memory that is free, and memory beyond what is.
const FREE_KIB: u64 = 8 * 1024;
const EXCESS_KIB: u64 = 8 * 1024;

/// Arguments of `brisk lab causes`.
#[derive(Debug, Args)]
#[command(after_help = "Prints one JSON object: the nanoseconds that each cause took.")]
pub struct Arguments {
    /// What takes the program's time
    causes: Vec<Cause>,
    /// The slow disk
    #[arg(long, value_name = "DEVICE", default_value = "/dev/nullb0")]
    storage: PathBuf,
    #[command(flatten)]
    context: ContextArguments,
    /// The process of the slow context manager
    #[arg(long, value_name = "PID")]
    manager: Option<u32>,
}

/// What takes the program's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Cause {
    /// Work at a low frequency, under the governor `userspace`.
    Frequency,
    /// Reads past the page cache.
    Storage,
    /// A mutex that another thread holds while it works.
    Lock,
    /// Lookups in a slow context manager.
    Service,
    /// More memory than is free.
    Reclaim,
    /// Run-queue delay: the program's, and that of the threads that it waits for.
    Runnable,
}

/// Makes the causes and prints how long each took.
///
/// # Errors
/// When one cannot be made.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    WORK.run();
    let (mut truths, mut runnable_ns) = (BTreeMap::new(), 0);
    for &cause in &arguments.causes {
        let ns = match cause {
            Cause::Frequency => slowed_ns()?,
            Cause::Storage => blocked_ns(|| read_past_cache(&arguments.storage))?,
            Cause::Lock => wait_for_holder(&mut runnable_ns)?,
            Cause::Service => wait_for_manager(arguments, &mut runnable_ns)?,
            Cause::Reclaim => reclaim_ns(root)?,
            Cause::Runnable => continue,
        };
        truths.insert(cause, ns);
    }
    truths.insert(Cause::Runnable, runnable_ns + waited_ns("self")?);
    println!("{}", serde_json::to_string(&truths)?);
    Ok(ExitCode::SUCCESS)
}

/// What the low frequency adds to the time of the same work.
fn slowed_ns() -> anyhow::Result<u64> {
    let policy = Path::new(POLICY);
    let frequency = |file: &str| fs::read_to_string(policy.join(file)).with_context(|| format!("{POLICY}/{file}"));
    let set = |khz: &str| fs::write(policy.join("scaling_setspeed"), khz).context("the governor is not userspace");
    let (lowest, highest) = (frequency("cpuinfo_min_freq")?, frequency("cpuinfo_max_freq")?);
    let fast_ns = own_ns(|| WORK.run())?;
    set(lowest.trim())?;
    let slow_ns = own_ns(|| WORK.run());
    set(highest.trim())?;
    Ok(slow_ns?.saturating_sub(fast_ns))
}

fn read_past_cache(device: &Path) -> anyhow::Result<()> {
    let open = File::options().read(true).custom_flags(OFlags::DIRECT.bits() as i32).open(device);
    let file = open.with_context(|| format!("cannot open {}", device.display()))?;
    let mut buffer = vec![0; READ_BYTES + PAGE_BYTES];
    // Direct reads want aligned memory.
    let aligned = buffer.as_ptr().align_offset(PAGE_BYTES);
    for number in 0..READS {
        file.read_exact_at(&mut buffer[aligned..aligned + READ_BYTES], number * READ_BYTES as u64)?;
    }
    Ok(())
}

/// Adds the holder's run-queue delay to `runnable_ns`.
fn wait_for_holder(runnable_ns: &mut u64) -> anyhow::Result<u64> {
    let lock = Mutex::new(());
    let (held, is_held) = mpsc::channel();
    let holder = || -> anyhow::Result<u64> {
        let guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waited_ns("thread-self")?;
        held.send(())?;
        WORK.run();
        let waited_ns = waited_ns("thread-self")? - before;
        drop(guard);
        Ok(waited_ns)
    };
    thread::scope(|scope| {
        let holder = thread::Builder::new().name("holder".to_owned()).spawn_scoped(scope, holder)?;
        is_held.recv()?;
        let blocked_ns = blocked_ns(|| {
            drop(lock.lock());
            Ok(())
        })?;
        let waited_ns = holder.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the holder has panicked")))?;
        *runnable_ns += waited_ns;
        Ok(blocked_ns.saturating_sub(waited_ns))
    })
}

/// Adds the manager's run-queue delay to `runnable_ns`.
fn wait_for_manager(arguments: &Arguments, runnable_ns: &mut u64) -> anyhow::Result<u64> {
    let ContextArguments { device, format } = &arguments.context;
    let manager = arguments.manager.context("--manager is missing")?.to_string();
    let mut client = Client::open(device, format)?;
    let before = waited_ns(&manager)?;
    let blocked_ns = blocked_ns(|| {
        (0..LOOKUPS).try_for_each(|_| client.lookup(format.check_code(), "absent").map(drop)).map_err(CallError::into)
    })?;
    let waited_ns = waited_ns(&manager)? - before;
    *runnable_ns += waited_ns;
    Ok(blocked_ns.saturating_sub(waited_ns))
}

/// What memory beyond the free one takes longer than free memory.
fn reclaim_ns(root: &Root) -> anyhow::Result<u64> {
    let allocate = |kib: u64| {
        let mut memory = vec![0_u8; kib as usize * 1024];
        memory.chunks_mut(PAGE_BYTES).for_each(|page| page[0] = 1);
        std::hint::black_box(&memory);
    };
    let free_ns = own_ns(|| allocate(FREE_KIB))?;
    let kib = meminfo::read(root)?.free_kib + EXCESS_KIB;
    Ok(own_ns(|| allocate(kib))?.saturating_sub(free_ns * kib / FREE_KIB))
}

/// How long `step` takes without the time in which this thread is runnable.
fn own_ns(step: impl FnOnce()) -> anyhow::Result<u64> {
    let (before, start) = (waited_ns("thread-self")?, Instant::now());
    step();
    let took_ns = start.elapsed().as_nanos() as u64;
    Ok(took_ns.saturating_sub(waited_ns("thread-self")? - before))
}

/// How long `step` takes without the time in which this thread runs or is runnable.
fn blocked_ns(step: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let account = || -> anyhow::Result<Duration> {
        let run = clock_gettime(ClockId::ThreadCPUTime);
        let run = Duration::new(run.tv_sec as u64, run.tv_nsec as u32);
        Ok(run + Duration::from_nanos(waited_ns("thread-self")?))
    };
    let (before, start) = (account()?, Instant::now());
    step()?;
    let took = start.elapsed();
    Ok(took.saturating_sub(account()? - before).as_nanos() as u64)
}

/// The run-queue delay of `process`, a folder of /proc.
fn waited_ns(process: &str) -> anyhow::Result<u64> {
    let path = format!("/proc/{process}/schedstat");
    let text = fs::read(&path).with_context(|| format!("cannot read {path}"))?;
    Ok(schedstat::parse(&text).with_context(|| format!("{path} is not as documented"))?.wait_ns)
}
