//! How soon the daemon acts on a launch.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use brisk::daemon::status::metrics::Histogram;
use brisk::sys::process::process_events::{Notice, ProcessEvents, monotonic_ns};
use brisk::sys::process::process_filter::{self, EventMask};
use brisk::sys::sched::own_policy;
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};

use super::Extent;
use super::device::{Daemon, Tree};
use super::program::launch;

/// Launches whose latency is measured, with pauses as between a user's: the daemon sleeps in between. In blocks, each followed
/// by one with a receiver that does nothing, so that both run under the same host load.
pub(super) const LAUNCHES: u32 = 100;
/// Launches before those: the first ones after the daemon's start run code that is not mapped yet, and are counted separately.
const FIRST_LAUNCHES: u32 = 3;
const LAUNCH_SPACING: Duration = Duration::from_millis(20);
/// The daemon acts on every launch, whatever their rate and gain; otherwise the defaults.
const EVERY_LAUNCH: &str = "[launch]\nforce = true\nmaximum_launches_per_minute = 60000\nburst_launches = 1000\n\
                            [launch.end]\ndeadline_ms = 10\n";

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Latency {
    /// From event to write, like the next, but of the first launches after a start.
    pub(super) first: Histogram,
    pub(super) event_to_write: Histogram,
    pub(super) wake_to_write: Histogram,
    pub(super) floor: Histogram,
}

/// The daemon's own histograms, and that of the receiver which does nothing.
// Verifies COST-1.
pub(super) fn latency(brisk: &Path, tree: &Tree, extent: &Extent) -> anyhow::Result<Latency> {
    let launches = |count| -> anyhow::Result<()> {
        for _ in 0..count {
            launch()?;
            sleep(LAUNCH_SPACING);
        }
        Ok(())
    };
    let mut latency = Latency::default();
    for _ in 0..extent.blocks {
        let daemon = Daemon::start(brisk, tree, EVERY_LAUNCH)?;
        launches(FIRST_LAUNCHES)?;
        let [first, first_woken] = daemon.latencies()?;
        launches(LAUNCHES)?;
        let [all, all_woken] = daemon.latencies()?;
        drop(daemon);
        add(&mut latency.event_to_write, &without(all, &first));
        add(&mut latency.wake_to_write, &without(all_woken, &first_woken));
        add(&mut latency.first, &first);

        let mut receiver = Command::new(std::env::current_exe()?)
            .arg("receiver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(receiver.stdout.take().context("a piped output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        launches(LAUNCHES)?;
        drop(receiver.stdin.take());
        line.clear();
        output.read_line(&mut line)?;
        receiver.wait()?;
        add(&mut latency.floor, &serde_json::from_str(&line).with_context(|| format!("the receiver said {line:?}"))?);
    }
    Ok(latency)
}

fn add(sum: &mut Histogram, part: &Histogram) {
    sum.counts.iter_mut().zip(&part.counts).for_each(|(sum, part)| *sum += part);
    sum.sum_us += part.sum_us;
    sum.maximum_us = sum.maximum_us.max(part.maximum_us);
}

/// The difference to `earlier`.
fn without(mut histogram: Histogram, earlier: &Histogram) -> Histogram {
    histogram.counts.iter_mut().zip(&earlier.counts).for_each(|(all, earlier)| *all -= earlier);
    histogram.sum_us -= earlier.sum_us;
    histogram
}

/// Receives process events as the daemon does, without acting on them, until standard input ends; then prints the delays of
/// their arrival.
pub fn run_receiver() -> anyhow::Result<()> {
    let mut events = ProcessEvents::open()?;
    process_filter::attach(&events, EventMask { fork: true, ..EventMask::default() })?;
    own_policy::become_real_time()?;
    println!();
    let mut delay = Histogram::default();
    let mut notices = Vec::new();
    loop {
        let stdin = std::io::stdin();
        let mut wanted = [PollFd::new(&events, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        poll(&mut wanted, None)?;
        if !wanted[1].revents().is_empty() {
            break;
        }
        events.receive(&mut notices)?;
        let now_ns = monotonic_ns();
        for timed in notices.drain(..).filter(|timed| matches!(timed.notice, Notice::Fork { .. })) {
            delay.observe(Duration::from_nanos(now_ns.saturating_sub(timed.monotonic_ns)));
        }
    }
    println!("{}", serde_json::to_string(&delay)?);
    Ok(())
}
