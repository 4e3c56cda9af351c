//! What could be gained in a phase, which processes are responsible, and what to do.

use super::measures::DiagnosisMeasure;
use super::sources::{self, Sources};
use super::{Contributor, Finding, Limit, Opportunity, Phase};
use crate::model::Boot;

/// A busy CPU below this share of its highest frequency counts as slow.
const FULL_SPEED: f32 = 0.97;
/// The CPU counts for which bounds are given.
const BOUNDS: [u32; 3] = [2, 4, 8];
/// A process, or the kernel, with at least this share of the CPU time is the main part of a phase.
const MAIN_SHARE: f32 = 0.5;
/// From this share on, the advice mentions CPU time that no sampled process took.
const NOTABLE_SHARE: f32 = 0.2;

/// All findings of `phase`.
pub fn of_phase(
    boot: &Boot,
    index: usize,
    phase: &Phase,
    measures: &[DiagnosisMeasure],
    sources: &Sources,
) -> Vec<Finding> {
    let finding = |(opportunity, gain_ms, bounds, who, advice): Gain| Finding {
        opportunity,
        phase: index,
        span: phase.span,
        gain_ms: gain_ms as u32,
        bounds,
        who,
        advice,
    };
    let of_limit = match phase.limit {
        Limit::OneCpu | Limit::SeveralCpus | Limit::EveryCpu if is_kernel_bound(boot, sources) => {
            kernel(boot, phase, sources)
        }
        Limit::OneCpu | Limit::SeveralCpus => parallel(boot, phase, sources),
        Limit::EveryCpu => less_work(boot, phase, sources),
        Limit::Disk => disk(boot, phase, sources),
        Limit::PartlyBusy => partly(boot, phase, sources),
        Limit::Waiting => waiting(boot, phase, measures),
        Limit::Idle => return Vec::new(),
    };
    let gains = [Some(of_limit), frequency(phase, measures, sources), memory(phase)];
    gains.into_iter().flatten().map(finding).collect()
}

/// The opportunity, the gain in milliseconds, bounds, processes and advice.
type Gain = (Opportunity, f32, Vec<(u32, u32)>, Vec<Contributor>, String);

fn percent(share: f32) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `name (40 % of the CPU time)`
fn named(boot: &Boot, part: &Contributor) -> String {
    let name = boot.processes[part.process].label();
    part.share.map_or_else(|| name.to_owned(), |share| format!("{name} ({} of the CPU time)", percent(share)))
}

/// `a 20 %, b 10 %`
fn list(boot: &Boot, who: &[Contributor]) -> String {
    let one = |part: &Contributor| {
        let share = part.share.map_or_else(String::new, |share| format!(" {}", percent(share)));
        format!("{}{share}", boot.processes[part.process].label())
    };
    who.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The share of the CPU time that no sampled process took, where it is notable.
fn unsampled_note(boot: &Boot, sources: &Sources) -> String {
    match sources.in_no_process() {
        share if boot.has_processes() && share >= NOTABLE_SHARE => {
            format!("; {} of the CPU time is in no process that was sampled", percent(share))
        }
        _ => String::new(),
    }
}

fn main_contributor(sources: &Sources) -> Option<&Contributor> {
    sources.who.first().filter(|part| part.share.is_some_and(|share| share >= MAIN_SHARE))
}

fn is_kernel_bound(boot: &Boot, sources: &Sources) -> bool {
    boot.has_processes() && sources.kernel() >= MAIN_SHARE
}

/// How many CPUs are idle, in words.
fn idle_cpus(cpus: usize, phase: &Phase) -> String {
    match (cpus as f32 - phase.busy_cpus).round().max(0.0) as usize {
        0 => "the others are partly idle".to_owned(),
        1 if cpus == 2 => "the other is idle".to_owned(),
        1 => "1 is idle".to_owned(),
        idle => format!("{} are idle", idle.min(cpus - 1)),
    }
}

/// Amdahl's bounds: the gain if all of the phase's work could run on that many CPUs at the same time.
fn parallel(boot: &Boot, phase: &Phase, sources: &Sources) -> Gain {
    let cpus = boot.cpu_count();
    let length_ms = phase.span.length_ms() as f32;
    let serial = if phase.limit == Limit::OneCpu { 1.0 } else { phase.busy_cpus };
    let work_ms = length_ms * phase.busy_cpus.min(serial);
    let bound_ms = |cpus: u32| (work_ms / serial.max(0.01) * (1.0 - serial / cpus as f32)).max(0.0);
    let idle = idle_cpus(cpus, phase);
    let on = if phase.limit == Limit::OneCpu {
        "one CPU".to_owned()
    } else {
        format!("{:.0} of {cpus} CPUs", phase.busy_cpus.min(cpus as f32 - 1.0).max(2.0))
    };
    let advice = match (main_contributor(sources), sources.who.as_slice()) {
        (Some(part), _) => format!(
            "{} works on {on} while {idle}: do it in parallel, start it earlier or later, or do less of it",
            named(boot, part)
        ),
        (None, []) => format!("the work is on {on} while {idle}: do it in parallel, or do less of it"),
        (None, who) => format!(
            "no process has most of the work, which is on {on} while {idle} ({}): run them in parallel, or do less",
            list(boot, who)
        ),
    };
    let bounds = BOUNDS.iter().map(|&cpus| (cpus, bound_ms(cpus) as u32)).filter(|(cpus, _)| *cpus as f32 > serial);
    let gain_ms = bound_ms(u32::try_from(cpus).unwrap_or(u32::MAX));
    (Opportunity::Parallel, gain_ms, bounds.collect(), sources.who.clone(), advice + &unsampled_note(boot, sources))
}

/// Where every CPU is busy, at most the share of the process that took most can be gained.
fn less_work(boot: &Boot, phase: &Phase, sources: &Sources) -> Gain {
    let share = sources.who.first().and_then(|part| part.share).unwrap_or(0.0);
    let every = if boot.cpu_count() == 1 { "the CPU works all the time" } else { "every CPU works all the time" };
    let advice = match (main_contributor(sources), sources.who.as_slice()) {
        (Some(part), _) => format!("{every}, most of it for {}: do less of it, or do it later", named(boot, part)),
        (None, []) => format!("{every}: do less, or do it later"),
        (None, who) => format!("{every}, for several processes ({}): do less, or do some of it later", list(boot, who)),
    };
    let gain_ms = phase.span.length_ms() as f32 * share;
    (Opportunity::Work, gain_ms, Vec::new(), sources.who.clone(), advice + &unsampled_note(boot, sources))
}

fn kernel(boot: &Boot, phase: &Phase, sources: &Sources) -> Gain {
    let threads: Vec<Contributor> = sources
        .who
        .iter()
        .copied()
        .filter(|part| boot.processes[part.process].kind != crate::model::Kind::Process)
        .collect();
    let mut parts = Vec::new();
    if sources.kernel_threads() >= 0.05 {
        parts.push(format!("{} in its threads ({})", percent(sources.kernel_threads()), list(boot, &threads)));
    }
    if sources.in_no_process() >= 0.05 {
        parts.push(format!("{} in no process (interrupts, initialisation)", percent(sources.in_no_process())));
    }
    let advice = format!(
        "{} of the CPU time is the kernel's, {}: find it with initcall_debug, /proc/interrupts or perf",
        percent(sources.kernel()),
        parts.join(", ")
    );
    (Opportunity::Kernel, phase.span.length_ms() as f32 * sources.kernel(), Vec::new(), threads, advice)
}

/// The shortest possible length of the phase without waiting: the work of its busiest CPU or single-threaded process, or all
/// work spread over all CPUs, whichever is longest.
fn least_work_ms(boot: &Boot, sources: &Sources) -> f32 {
    sources.busiest_cpu_ms.max(sources.serial_ms).max(sources.total_ms / boot.cpu_count() as f32)
}

fn disk(boot: &Boot, phase: &Phase, sources: &Sources) -> Gain {
    let advice = "read it earlier and in order (readahead), read less, or store it compressed".to_owned();
    let gain_ms = (phase.span.length_ms() as f32 - least_work_ms(boot, sources)).max(0.0);
    (Opportunity::Disk, gain_ms, Vec::new(), sources::waiters(boot, phase.span), advice)
}

fn partly(boot: &Boot, phase: &Phase, sources: &Sources) -> Gain {
    let who = match (main_contributor(sources), sources.who.as_slice()) {
        (Some(part), _) => format!(" {} does most of the work:", named(boot, part)),
        (None, []) => String::new(),
        (None, who) => format!(" Several processes work ({}):", list(boot, who)),
    };
    let advice = format!(
        "no CPU is busy all the time and the disk is not the limit.{who} find what they wait for: a lock, a device, \
         another process"
    );
    let gain_ms = (phase.span.length_ms() as f32 - least_work_ms(boot, sources)).max(0.0);
    (Opportunity::Waiting, gain_ms, Vec::new(), sources.who.clone(), advice + &unsampled_note(boot, sources))
}

fn waiting(boot: &Boot, phase: &Phase, measures: &[DiagnosisMeasure]) -> Gain {
    let next = sources::first_active_after(boot, phase.span.end_ms, measures);
    let advice = match next {
        Some(part) => format!(
            "neither CPU nor disk works until {} does: find the timer, device or event that it waits for",
            boot.processes[part.process].label()
        ),
        None => "neither CPU nor disk works: find the timer, device or event that is waited for".to_owned(),
    };
    let gain_ms = phase.span.length_ms() as f32 * (1.0 - phase.busy_cpus.min(1.0));
    (Opportunity::Waiting, gain_ms, Vec::new(), next.into_iter().collect(), advice)
}

/// The gain of running at the highest frequency while CPUs are busy.
fn frequency(phase: &Phase, measures: &[DiagnosisMeasure], sources: &Sources) -> Option<Gain> {
    let speed = phase.speed.filter(|speed| *speed < FULL_SPEED)?;
    if matches!(phase.limit, Limit::Disk | Limit::Waiting | Limit::Idle) {
        return None;
    }
    let inside = measures.iter().filter(|measure| phase.span.overlap_ms(measure.span) > 0);
    let gain_ms: f32 = inside
        .filter_map(|measure| {
            let slow = 1.0 - measure.speed.filter(|speed| *speed < FULL_SPEED)?;
            Some(measure.span.length_ms() as f32 * measure.busy.min(1.0) * slow)
        })
        .sum();
    let advice = format!(
        "the CPUs run at {} of their highest frequency: boot under the performance governor and restore at the end",
        percent(speed)
    );
    Some((Opportunity::Frequency, gain_ms, Vec::new(), sources.who.clone(), advice))
}

/// The gain without memory stalls: while every task waits for memory, no other work is done.
fn memory(phase: &Phase) -> Option<Gain> {
    let gain_ms = phase.span.length_ms() as f32 * phase.memory_stall?;
    let advice =
        "every task waits for memory: start fewer processes at once, or fit more in (`brisk memory plan`)".to_owned();
    Some((Opportunity::Memory, gain_ms, Vec::new(), Vec::new(), advice))
}
