//! An explanation in words: what cost most, behind whom, by how much.

use std::collections::BTreeMap;

use crate::explain::{Cause, Explanation, OnBehalf, Part};
use crate::launches::Launch;
use crate::model::Trace;

/// How many groups the first sentence names.
const IN_SENTENCE: usize = 4;
/// How many members a group names.
const MEMBERS: usize = 4;

/// Parts that one phrase names together: a cause of the thread's own, or all waits for one other thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Short, for a row.
    pub title: String,
    /// For a sentence.
    pub name: String,
    /// With the members that took longest.
    pub text: String,
    pub ns: u64,
    /// Indices of [`Explanation::parts`].
    pub parts: Vec<usize>,
}

/// The groups, the longest first.
pub fn groups(explanation: &Explanation) -> Vec<Group> {
    let mut by_key: BTreeMap<(Option<&OnBehalf>, Option<Cause>), Vec<usize>> = BTreeMap::new();
    for (number, part) in explanation.parts.iter().enumerate() {
        let key = match &part.on_behalf {
            Some(on_behalf) => (Some(on_behalf), None),
            None => (None, Some(part.cause)),
        };
        by_key.entry(key).or_default().push(number);
    }
    let mut groups: Vec<Group> = by_key.into_values().map(|parts| group(explanation, parts)).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.ns));
    groups
}

fn group(explanation: &Explanation, numbers: Vec<usize>) -> Group {
    let parts: Vec<&Part> = numbers.iter().map(|&number| &explanation.parts[number]).collect();
    let ns = parts.iter().map(|part| part.ns).sum();
    let first = parts[0];
    let (title, name, text) = match &first.on_behalf {
        Some(on_behalf) => {
            let name = waited(on_behalf, explanation.waits.get(on_behalf).copied().unwrap_or(0));
            let members = members(&parts, |part| phrase(part.cause, part.full_subject().as_deref()));
            (format!("{}: {}", on_behalf.wait, on_behalf.of), name.clone(), format!("{name}: {members}"))
        }
        None if parts.len() == 1 => {
            let text = phrase(first.cause, first.full_subject().as_deref());
            (of_any(first.cause).to_owned(), text.clone(), text)
        }
        None => {
            let title = of_any(first.cause);
            let members = members(&parts, |part| part.full_subject().unwrap_or_else(|| "unknown".to_owned()));
            (title.to_owned(), title.to_owned(), format!("{title}: {members}"))
        }
    };
    Group { title, name, text, ns, parts: numbers }
}

/// The longest members with their times, and how many more there are.
fn members(parts: &[&Part], name: impl Fn(&Part) -> String) -> String {
    let mut named: Vec<String> =
        parts.iter().take(MEMBERS).map(|part| format!("{} {}", ms(part.ns), name(part))).collect();
    if parts.len() > MEMBERS {
        let rest: u64 = parts[MEMBERS..].iter().map(|part| part.ns).sum();
        named.push(format!("{} of {} others", ms(rest), parts.len() - MEMBERS));
    }
    named.join(", ")
}

fn waited(on_behalf: &OnBehalf, times: u64) -> String {
    let of = &on_behalf.of;
    let s = if times == 1 { "" } else { "s" };
    match on_behalf.wait {
        "binder" => format!("in {times} binder call{s} to {of}"),
        "service-lookup" => format!("in {times} service lookup{s} by {of}"),
        "lock" => format!("in {times} wait{s} for a lock held by {of}"),
        "fork" => format!("until forked by {of}"),
        _ => format!("in {times} wait{s} until woken by {of}"),
    }
}

/// A cause of any subject.
fn of_any(cause: Cause) -> &'static str {
    match cause {
        Cause::FullSpeed => "running at full speed",
        Cause::Frequency => "running slowed by frequency",
        Cause::SmallerCore => "running slowed by a smaller core",
        Cause::Running => "running, frequency unknown",
        Cause::Runnable => "runnable behind other threads",
        Cause::IdleExit => "runnable, leaving an idle state",
        Cause::Storage => "waiting for storage",
        Cause::PageFault => "in page faults",
        Cause::SwapIn => "in swap-in",
        Cause::Reclaim => "in direct reclaim",
        Cause::Binder => "in binder calls",
        Cause::Lock => "waiting for a lock",
        Cause::Uninterruptible => "in uninterruptible waits",
        Cause::Sleeping => "sleeping",
        Cause::Stopped => "stopped",
        Cause::Absent => "not existing",
        Cause::Unknown => "unknown",
    }
}

/// A cause with its subject.
pub fn phrase(cause: Cause, subject: Option<&str>) -> String {
    let text = of_any(cause);
    match (cause, subject) {
        (Cause::Frequency, Some(cpu)) => format!("running slowed by the frequency of {cpu}"),
        (Cause::SmallerCore, Some(cpu)) => format!("{text}, {cpu}"),
        (Cause::Runnable, subject) => format!("runnable behind {}", subject.unwrap_or("an unknown thread")),
        (Cause::Storage | Cause::PageFault | Cause::SwapIn, Some(device)) => format!("{text} (device {device})"),
        (Cause::Binder, Some(process)) => format!("{text} to {process}"),
        (Cause::Uninterruptible, Some(function)) => format!("{text} in {function}"),
        (Cause::Running, _) => "running, at a frequency that the trace does not tell".to_owned(),
        (Cause::IdleExit, _) => "runnable while its CPU left an idle state".to_owned(),
        (Cause::Lock, _) => "waiting for a lock whose holder is unknown".to_owned(),
        (Cause::Sleeping, _) => "sleeping, for a timer, a device or an unknown waker".to_owned(),
        (Cause::Unknown, _) => "unknown, as events are missing".to_owned(),
        _ => text.to_owned(),
    }
}

/// One sentence: the window, and what took most of it. `remark` says more about a group, or nothing.
pub fn sentence(explanation: &Explanation, remark: impl Fn(&Group) -> String) -> String {
    let groups = groups(explanation);
    let named = groups.iter().take(IN_SENTENCE);
    let named = named.map(|group| format!("{} {}{}", ms(group.ns), group.name, remark(group)));
    let named: Vec<String> = named.collect();
    format!("{}: {}", ms(explanation.to_ns - explanation.from_ns), named.join(", "))
}

/// What is explained, of a launch or of a thread.
pub fn title(explanation: &Explanation, launch: Option<&Launch>) -> String {
    let what = launch.map_or_else(|| explanation.thread.clone(), |launch| format!("Launch of {}", launch.name));
    format!("{what}: where {} went", ms(explanation.to_ns - explanation.from_ns))
}

/// The thread, the window and the trace.
pub fn facts(explanation: &Explanation, trace: &Trace) -> String {
    let Explanation { thread, tid, process, from_ns, to_ns, .. } = explanation;
    let seconds = |ns: &u64| format!("{:.6} s", *ns as f64 / 1e9);
    let facts = [
        format!("thread {thread} ({tid}) of process {process}"),
        format!("{} to {}", seconds(from_ns), seconds(to_ns)),
        format!("{} events of {}", trace.events.len(), trace.format),
    ];
    facts.join(" \u{b7} ")
}

/// Milliseconds with microseconds; longer times have fewer decimals.
pub fn ms(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    match ns {
        0..1_000_000 => format!("{ms:.3} ms"),
        1_000_000..100_000_000 => format!("{ms:.2} ms"),
        _ => format!("{ms:.1} ms"),
    }
}

/// The share of the window in percent.
pub fn percent(ns: u64, explanation: &Explanation) -> f64 {
    ns as f64 / (explanation.to_ns - explanation.from_ns).max(1) as f64 * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(cause: Cause, subject: Option<&str>, on_behalf: Option<&OnBehalf>, ms: u64) -> Part {
        let (subject, on_behalf) = (subject.map(str::to_owned), on_behalf.cloned());
        Part { cause, subject, class: None, on_behalf, ns: ms * 1_000_000, times: 1 }
    }

    #[test]
    fn the_longest_group_comes_first_with_its_members() {
        let server = OnBehalf { wait: "binder", of: "server".to_owned() };
        let explanation = Explanation {
            thread: "a".to_owned(),
            tid: 7,
            process: 7,
            from_ns: 0,
            to_ns: 100_000_000,
            parts: vec![
                part(Cause::Runnable, Some("hog"), None, 40),
                part(Cause::FullSpeed, None, Some(&server), 30),
                part(Cause::Runnable, Some("other"), None, 15),
                part(Cause::Runnable, None, Some(&server), 10),
                part(Cause::Storage, Some("179,0"), None, 5),
            ],
            path: Vec::new(),
            waits: BTreeMap::from([(server.clone(), 2)]),
        };
        let texts: Vec<String> = groups(&explanation).into_iter().map(|group| group.text).collect();
        assert_eq!(
            texts,
            [
                "runnable behind other threads: 40.00 ms hog, 15.00 ms other",
                "in 2 binder calls to server: 30.00 ms running at full speed, 10.00 ms runnable behind an unknown thread",
                "waiting for storage (device 179,0)",
            ]
        );
        assert_eq!(
            sentence(&explanation, |_| String::new()),
            "100.0 ms: 55.00 ms runnable behind other threads, 40.00 ms in 2 binder calls to server, \
             5.00 ms waiting for storage (device 179,0)"
        );
    }

    #[test]
    fn times_have_microseconds_where_they_matter() {
        for (ns, expected) in [(1_000, "0.001 ms"), (1_234_567, "1.23 ms"), (412_345_678, "412.3 ms")] {
            assert_eq!(ms(ns), expected);
        }
    }
}
