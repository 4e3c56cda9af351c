//! The killer's actions in a dry run: what the killer would do on this device. Nothing is written, set or killed.

use super::learned::Learned;
use super::sampler::{Sampler, page_kib};
use crate::state_file::load_state;
use brisk_mechanism::Preview;
use brisk_mechanism::memory::candidates;
use brisk_mechanism::memory::config::{KillerConfig, PageoutConfig, WritebackConfig};
use brisk_mechanism::memory::killer::lmkd::Lmkd;
use brisk_mechanism::memory::killer::{self, KillReason};
use brisk_mechanism::memory::policy::FOREGROUND_PREFIX;
use brisk_mechanism::memory::victim::VictimMode;
use brisk_mechanism::memory::writeback_budget::{self, Clock, WritebackBudget};
use brisk_sys::kernel;
use brisk_sys::memory::{meminfo, process_memory, zram_writeback};
use brisk_sys::time::wall_s;
use brisk_sys::{BootTime, DeviceError, Root, process};

/// The actions that a killer with `arguments` would take now.
pub fn preview(root: &Root, arguments: &[String]) -> Vec<Preview> {
    let config = arguments.iter().find_map(|argument| serde_json::from_str(argument).ok());
    config.map_or_else(Vec::new, |config| preview_config(root, &config))
}

/// The action that it would take on the daemon's `line`.
pub fn preview_line(root: &Root, line: &str) -> Option<Preview> {
    swap_in(root, line.strip_prefix(FOREGROUND_PREFIX)?.parse().ok()?)
}

fn preview_config(root: &Root, config: &KillerConfig) -> Vec<Preview> {
    let kill = kill(root, config).unwrap_or_else(|error| {
        Preview::new("kill", "no process", format!("memory cannot be sampled: {}", root.with_device_paths(&error)))
    });
    let mut foreseen = vec![kill];
    foreseen.extend(swap_out(root, &config.pageout));
    foreseen.extend(write_back(root, &config.writeback));
    foreseen
}

fn named(name: &str, pid: u32) -> String {
    format!("{name} (process {pid})")
}

fn kill(root: &Root, config: &KillerConfig) -> Result<Preview, DeviceError> {
    let mut sampler = Sampler::of(config);
    sampler.prepare(root)?;
    let sample = sampler.take(root, BootTime::now())?;
    let need = match config.mode {
        VictimMode::Lmkd if !config.by_headroom => {
            let order = Lmkd::default().evaluate(&sample.reading, page_kib());
            order.map(|order| KillReason { cause: order.cause, threshold: order.threshold })
        }
        _ => killer::kill_reason(config, &sample),
    };
    let threshold = need.as_ref().map_or(i16::MIN, |need| need.threshold);
    let known = |pid| sampler.is_kernel_thread(pid);
    let with_pss = config.mode.is_proportional();
    let mut found = candidates(root, config.lowest_adj, with_pss, &known, &mut Vec::new())?;
    Learned::read(root).annotate(&mut found, sample.memory_pressure.swap_ratio);
    let protection = killer::protection(config, root.has_android_system());
    let group_of = |pid| process::group(root, pid);
    let Some(victim) = killer::choose(config, &sample, threshold, &mut found, (&protection, &group_of)) else {
        let reason = format!("no process with an oom_score_adj of {} or more may be killed", config.lowest_adj);
        return Ok(Preview::new("kill", "no process", reason));
    };
    let when = match need {
        Some(need) => format!("now, because {}", need.cause),
        None => {
            format!("not yet: headroom is {} KiB, and the reserve {} KiB", sample.headroom_kib, config.reserve_kib)
        }
    };
    let reason = format!("{when}; {}; a kill returns {} KiB", victim.reason, victim.predicted_kib);
    Ok(Preview::new("kill", named(&victim.name, victim.pid), reason))
}

fn swap_out(root: &Root, config: &PageoutConfig) -> Option<Preview> {
    if config.target_kib == 0 {
        return None;
    }
    let memory = match meminfo::read(root) {
        Ok(memory) => memory,
        Err(error) => return Some(Preview::new("swap out", "nothing", root.with_device_paths(&error))),
    };
    let found = candidates(root, config.lowest_adj, false, &|_| false, &mut Vec::new()).unwrap_or_default();
    let first = found.iter().max_by_key(|candidate| (candidate.oom_score_adj, candidate.rss_anonymous_kib));
    let subject = first.map_or("nothing".to_owned(), |first| named(&first.name, first.pid));
    let is_short = memory.free_kib < config.target_kib;
    let when = match (is_short, memory.swap_free_kib > config.step_kib()) {
        (false, _) => "not yet",
        (true, false) => "not without free swap",
        (true, true) => "now, until the target is free",
    };
    let reason = format!("{when}: {} KiB are free, the target is {} KiB", memory.free_kib, config.target_kib);
    Some(Preview::new("swap out", subject, reason))
}

fn write_back(root: &Root, config: &WritebackConfig) -> Option<Preview> {
    if config.daily_kib == 0 {
        return None;
    }
    let boot = kernel::boot_id(root).unwrap_or_default();
    let clock = Clock { boot: &boot, now: BootTime::now(), wall_s: wall_s() };
    let left_kib = load_state(root, writeback_budget::FILE, WritebackBudget::parse)
        .unwrap_or_default()
        .left_kib(clock, config.daily_kib);
    let device = zram_writeback::device(root).map(|zram| zram.name);
    let (subject, why) = match device {
        Ok(name) => (name, String::new()),
        Err(why) => ("nothing".to_owned(), format!("; not possible now: {why}")),
    };
    let reason = format!(
        "pages unused for two cached periods of their application, at most {left_kib} KiB today of {}{why}",
        config.daily_kib
    );
    Some(Preview::new("write back", subject, reason))
}

fn swap_in(root: &Root, pid: u32) -> Option<Preview> {
    let swapped_kib = process_memory::read(root, pid).ok().flatten()?.swap_kib;
    let name = process::command(root, pid).unwrap_or_default();
    let reason = format!("it came to the foreground with {swapped_kib} KiB on swap");
    (swapped_kib > 0).then(|| Preview::new("fetch back", named(&name, pid), reason))
}
