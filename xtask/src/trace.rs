//! The cost of explaining a large trace, with all estimates.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;

use crate::cost::{Cost, cost, range_and_median};

/// Runs of each file.
const RUNS: usize = 5;
/// About so many events have a trace.
const EVENTS: u64 = 2_000_000;
const CPUS: u64 = 8;
const THREADS_PER_CPU: u64 = 50;
/// A CPU switches this often, in microseconds.
const PERIOD_US: u64 = 80;
/// The application, and the service manager that it calls whenever it has run; both run on CPU 0.
const APPLICATION: u64 = 1000;
const MANAGER: u64 = 1001;

/// Explains a launch of two million events with `brisk`, as text and as Perfetto's trace, and prints one table.
pub fn run(brisk: &Path) -> anyhow::Result<()> {
    let folder = tempfile::tempdir().context("cannot make a folder for the traces")?;
    let [text, perfetto] = ["trace.txt", "trace.pftrace"].map(|name| folder.path().join(name));
    let mut file = BufWriter::new(File::create(&text)?);
    write(&mut file).and_then(|()| file.flush()).with_context(|| format!("cannot write {}", text.display()))?;
    let convert = ["trace", "convert"].map(OsStr::new);
    let files = [text.as_os_str(), OsStr::new("-o"), perfetto.as_os_str()];
    cost(&[&[brisk.as_os_str()][..], &convert, &files].concat())?;
    println!("{:<36} {:>34} {:>10}", format!("explanation, {RUNS} runs: median (range)"), "measured", "wanted");
    for file in [text, perfetto] {
        let explain = [brisk.as_os_str(), "trace".as_ref(), "explain".as_ref(), file.as_ref()];
        let costs: Vec<Cost> = (0..RUNS).map(|_| cost(&explain)).collect::<anyhow::Result<_>>()?;
        let mb = fs::metadata(&file)?.len() / 1_000_000;
        let name = file.extension().unwrap_or_default().to_string_lossy().into_owned();
        print(&format!("{mb} MB of {name}: time"), &costs, |cost| cost.wall.as_secs_f64(), "s", "<= 3 s");
        print("CPU time", &costs, |cost| cost.cpu.as_secs_f64(), "s", "");
        print("peak memory", &costs, |cost| cost.peak_kib as f64 * 1024.0 / 1e6, "MB", "<= 300 MB");
    }
    Ok(())
}

fn print(what: &str, costs: &[Cost], of: fn(&Cost) -> f64, unit: &str, wanted: &str) {
    let [low, middle, high] = range_and_median(costs.iter().map(of).collect());
    let measured = format!("{middle:.3} {unit} ({low:.3} to {high:.3})");
    println!("{what:<36} {measured:>34} {wanted:>10}");
}

/// Writes a trace in the text of ftrace: each CPU runs its threads in turn, each of which wakes the next one. The application is
/// launched at the beginning, and never waits long.
fn write(file: &mut impl Write) -> std::io::Result<()> {
    for step in 0..EVENTS / 2 {
        let (cpu, turn) = (step % CPUS, step / CPUS);
        let begins_us = turn * PERIOD_US + cpu * PERIOD_US / CPUS;
        let [now, next] = [turn, turn + 1].map(|turn| thread(cpu, turn));
        let mut say = |after_us: u64, event: String| {
            let us = begins_us + after_us;
            let (s, us) = (100 + us / 1_000_000, us % 1_000_000);
            writeln!(file, " {}-{now} [{cpu:03}] .... {s}.{us:06}: {event}", name(now))
        };
        if step == 0 {
            say(0, format!("sched_process_fork: comm=t{now} pid={now} child_comm=t{now} child_pid={APPLICATION}"))?;
        }
        if turn.is_multiple_of(1_000) {
            say(1, format!("cpu_frequency: state={} cpu_id={cpu}", 500_000 + 500_000 * (turn / 1_000 % 4)))?;
        }
        match now {
            APPLICATION => {
                match turn.checked_sub(THREADS_PER_CPU) {
                    None => say(2, format!("sched_process_exec: filename=/bin/shop pid={now} old_pid={now}"))?,
                    Some(before) => say(2, format!("binder_transaction_received: transaction={before}"))?,
                }
                say(3, call(turn + 1, MANAGER, 0))?;
            }
            MANAGER => {
                say(3, call(turn - 1, APPLICATION, 1))?;
                say(4, format!("sched_waking: comm=shop pid={APPLICATION} prio=120 target_cpu=000"))?;
            }
            _ => {}
        }
        // The manager has woken the application.
        if next != APPLICATION || turn < THREADS_PER_CPU {
            say(5, format!("sched_waking: comm={} pid={next} prio=120 target_cpu={cpu:03}", name(next)))?;
        }
        let from = format!("prev_comm={} prev_pid={now} prev_prio=120 prev_state=S", name(now));
        say(6, format!("sched_switch: {from} ==> next_comm={} next_pid={next} next_prio=120", name(next)))?;
    }
    Ok(())
}

fn call(id: u64, to: u64, reply: u64) -> String {
    format!(
        "binder_transaction: transaction={id} dest_node=1 dest_proc={to} dest_thread=0 reply={reply} flags=0x10 code=0x1"
    )
}

fn name(tid: u64) -> String {
    match tid {
        APPLICATION => "shop".to_owned(),
        MANAGER => "servicemanager".to_owned(),
        _ => format!("t{tid}"),
    }
}

/// The thread that runs on a CPU in a turn.
fn thread(cpu: u64, turn: u64) -> u64 {
    // The application is not the first: another thread forks it.
    APPLICATION + cpu * THREADS_PER_CPU + (turn + THREADS_PER_CPU - 1) % THREADS_PER_CPU
}
