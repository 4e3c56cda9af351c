//! A boot in a few sentences, for the tops of charts and as their text alternative.

use super::diagnose::{Contributor, Diagnosis, Finding, Limit, Opportunity};
use super::model::{Boot, Kind};

/// The recorder's title, or a default.
pub fn title(boot: &Boot) -> String {
    boot.header_value("title").map_or_else(|| "Boot chart".to_owned(), ToOwned::to_owned)
}

/// Length, load and counts.
pub fn facts(boot: &Boot, diagnosis: &Diagnosis) -> Vec<String> {
    let mut facts = vec![format!("{} recorded", seconds(boot.span.length_ms()))];
    let idle_ms = boot.span.end_ms.saturating_sub(diagnosis.done_ms);
    if idle_ms > boot.span.length_ms() / 50 && !diagnosis.phases.is_empty() {
        facts.push(format!("idle from {} on", seconds(diagnosis.done_ms)));
    }
    let cpus = boot.cpu_count();
    facts.push(if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") });
    if !boot.cpu.is_empty() {
        let share = |value: &dyn Fn(usize) -> f32| {
            let weighted = (0..boot.cpu.len()).map(|index| value(index) * boot.cpu[index].span.length_ms() as f32);
            let length: f32 = boot.cpu.iter().map(|sample| sample.span.length_ms() as f32).sum();
            weighted.sum::<f32>() / length.max(1.0) * 100.0
        };
        facts.push(format!("CPU {:.0} %", share(&|index| boot.cpu[index].busy())));
        facts.push(format!("I/O wait {:.0} %", share(&|index| boot.cpu[index].io_wait)));
    }
    if !boot.disks.is_empty() {
        facts.push(format!("{:.0} MiB read", read_mib(boot)));
    }
    let count = |kind| boot.processes.iter().filter(|process| process.kind == kind).count();
    facts.push(format!("{} processes", count(Kind::Process)));
    facts.extend(Some(count(Kind::Initcall)).filter(|count| *count > 0).map(|count| format!("{count} initcalls")));
    facts
}

/// What was read from disks, in MiB.
pub fn read_mib(boot: &Boot) -> f64 {
    boot.disks.iter().flat_map(|disk| &disk.samples).map(|s| f64::from(s.read_kib)).sum::<f64>() / 1024.0
}

/// Formats a time.
pub fn seconds(ms: u32) -> String {
    match ms {
        0..=9_999 => format!("{:.2} s", f64::from(ms) / 1000.0),
        10_000..=119_999 => format!("{:.1} s", f64::from(ms) / 1000.0),
        _ => format!("{} min {:02} s", ms / 60_000, ms / 1000 % 60),
    }
}

/// The subject of a finding, in a word or two.
pub fn opportunity(opportunity: Opportunity) -> &'static str {
    match opportunity {
        Opportunity::Parallel => "parallel work",
        Opportunity::Work => "less work",
        Opportunity::Kernel => "the kernel's work",
        Opportunity::Disk => "reading",
        Opportunity::Waiting => "waiting",
        Opportunity::Frequency => "frequency",
        Opportunity::Memory => "memory",
    }
}

/// The processes of a finding, each with its time and its share: `zygote64 1.40 s (97 %)`.
pub fn who(boot: &Boot, finding: &Finding) -> String {
    let one = |part: &Contributor| {
        let share = part.share.map_or_else(String::new, |share| format!(" ({:.0} %)", share * 100.0));
        format!("{} {}{share}", boot.processes[part.process].label(), seconds(part.ms))
    };
    finding.who.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The text where there is no finding, by the limits of the phases.
pub fn no_gain_text(diagnosis: &Diagnosis) -> &'static str {
    let working: Vec<Limit> =
        diagnosis.phases.iter().map(|phase| phase.limit).filter(|limit| *limit != Limit::Idle).collect();
    match working.iter().all(|limit| *limit == Limit::EveryCpu) {
        true if working.is_empty() => "nothing: the recording shows no work",
        true => "nothing except by less work: every CPU is busy all the time",
        false => "nothing that samples of CPUs and disks can show",
    }
}

/// Amdahl's bounds of a finding: `2 CPUs 4.00 s, 4 CPUs 6.00 s`; empty for other findings.
pub fn bounds(finding: &Finding) -> String {
    let bound = |&(cpus, gain_ms): &(u32, u32)| format!("{cpus} CPUs {}", seconds(gain_ms));
    finding.bounds.iter().map(bound).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (ms, expected) in [(0, "0.00 s"), (9_994, "9.99 s"), (29_800, "29.8 s"), (600_400, "10 min 00 s")] {
            assert_eq!(seconds(ms), expected);
        }
    }
}
