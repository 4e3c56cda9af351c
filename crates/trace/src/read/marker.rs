//! What atrace writes into the trace's marker: `B|pid|name`, `E|pid`, `S|pid|name|cookie`, `F|pid|name|cookie`, `I|pid|name`; and
//! what brisk's recorder notes: frequencies and memory when it begins, waits for locks, and counters of memory.

use std::str::FromStr;

use crate::collect::Collector;
use crate::model::{Kind, Marker, MarkerKind, MemoryCount, MemoryCounter, MemoryFacts, Tid};
use brisk_mechanism::memory::victim::Candidate;

/// The first slice of an application's frame; newer Androids add a number.
pub const FRAME: &str = "Choreographer#doFrame";
/// system_server has got an intent that may start an activity.
pub const INTENT: &str = "MetricsLogger:launchObserverNotifyIntentStarted";
/// Slices of launches, by their beginnings; those of system_server, then those of an application's main thread.
const OF_LAUNCHES: [&str; 9] = [
    "launching: ",
    "launchingActivity#",
    INTENT,
    "bindApplication",
    "activityStart",
    "activityResume",
    "performCreate:",
    "reportFullyDrawn",
    FRAME,
];

/// The event that a marker of thread `tid` is. The process that it names is the thread's.
pub fn kind(text: &str, time_ns: u64, tid: Tid, collector: &mut Collector) -> Option<Kind> {
    let text = text.trim_end();
    if text == "E" || text.starts_with("E|") {
        return Some(Kind::SliceEnd);
    }
    if let Some(noted) = frequency(text).or_else(|| lock_wait(text, collector)) {
        return Some(noted);
    }
    if is_of_memory(text, time_ns, collector) {
        return None;
    }
    let (letter, rest) = text.split_once('|')?;
    let (process, name) = rest.split_once('|')?;
    if letter == "C" {
        let (name, value) = name.rsplit_once('|')?;
        let counter = MemoryCounter::ALL.into_iter().find(|counter| counter.name() == name)?;
        collector.count_memory(MemoryCount { time_ns, tid, counter, value: value.parse().ok()? });
        return None;
    }
    let process = process.parse().ok()?;
    let (kind, name) = match letter {
        "B" => (MarkerKind::Begin, name),
        "S" => (MarkerKind::AsyncBegin, without_cookie(name)),
        "F" => (MarkerKind::AsyncEnd, without_cookie(name)),
        "I" => (MarkerKind::Instant, name),
        _ => return None,
    };
    if let Some(first) = OF_LAUNCHES.iter().find(|first| name.starts_with(*first)) {
        let name = collector.symbol(if *first == FRAME { FRAME } else { name });
        collector.mark(Marker { time_ns, tid, process, kind, name });
    }
    if kind != MarkerKind::Begin {
        return None;
    }
    collector.process_of(tid, process);
    // ART names the holder; the wake-up tells it as well, also where the lock is not of ART.
    let is_lock = ["Lock contention on ", "monitor contention with owner "].iter().any(|it| name.starts_with(it));
    Some(Kind::SliceBegin { is_lock })
}

/// The words are those of the kernel's events.
fn frequency(text: &str) -> Option<Kind> {
    let (event, values) = text.split_once(": ")?;
    let value = |key: &str| number::<u32>(values, key);
    let cpu = u16::try_from(value("cpu_id")?).ok()?;
    match event {
        "cpu_frequency" => Some(Kind::FrequencyAtStart { cpu, khz: value("state")? }),
        "cpu_frequency_limits" => Some(Kind::FrequencyLimit { cpu, khz: value("max")? }),
        _ => None,
    }
}

/// The words are those of Android's event.
fn lock_wait(text: &str, collector: &mut Collector) -> Option<Kind> {
    let values = text.strip_prefix("sched_blocked_reason: pid=")?;
    let (pid, function) = values.split_once(" iowait=0 caller=")?;
    let target = pid.parse().ok()?;
    Some(Kind::BlockedReason { target, is_io: false, function: Some(collector.symbol(function)) })
}

/// Notes what the recorder tells of memory; false for any other text.
fn is_of_memory(text: &str, time_ns: u64, collector: &mut Collector) -> bool {
    let Some((event, values)) = text.split_once(": ") else { return false };
    match event {
        "brisk_memory" => memory(values, time_ns).into_iter().for_each(|facts| collector.know_memory(facts)),
        "brisk_process" => process(values).into_iter().for_each(|process| collector.know_process(process)),
        _ => return false,
    }
    true
}

fn memory(values: &str, time_ns: u64) -> Option<MemoryFacts> {
    Some(MemoryFacts {
        time_ns,
        page_kib: number(values, "page_kib").filter(|kib| *kib > 0)?,
        total_kib: number(values, "total_kib")?,
        free_kib: number(values, "free_kib")?,
        swap_total_kib: number(values, "swap_total_kib")?,
        swap_free_kib: number(values, "swap_free_kib")?,
        swap_ratio: number::<u32>(values, "swap_ratio_percent").map(|percent| f64::from(percent) / 100.0),
        processes: Vec::new(),
    })
}

fn process(values: &str) -> Option<Candidate> {
    let (values, name) = values.split_once(" comm=")?;
    Some(Candidate {
        pid: number(values, "pid")?,
        name: name.to_owned(),
        oom_score_adj: number(values, "oom_score_adj")?,
        rss_anonymous_kib: number(values, "anonymous_kib")?,
        swap_kib: number(values, "swapped_kib")?,
        ..Candidate::default()
    })
}

/// The number of `key=NUMBER` among words.
fn number<N: FromStr>(values: &str, key: &str) -> Option<N> {
    values.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('=')?.parse().ok())
}

/// A name can contain bars; a cookie is a number.
fn without_cookie(name: &str) -> &str {
    match name.rsplit_once('|') {
        Some((name, cookie)) if cookie.parse::<i64>().is_ok() => name,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_are_parsed() {
        let begin = |is_lock| Some(Kind::SliceBegin { is_lock });
        for (text, expected) in [
            ("B|7|bindApplication\n", begin(false)),
            ("B|7|a|b", begin(false)),
            ("B|7|Lock contention on a monitor lock (owner tid: 12)", begin(true)),
            ("B|7|monitor contention with owner main (12) at void a.b()(c:1) waiters=0", begin(true)),
            ("E", Some(Kind::SliceEnd)),
            ("E|7", Some(Kind::SliceEnd)),
            ("S|7|launching: com.a|0", None),
            ("C|7|counter|4", None),
            ("cpu_frequency: state=600000 cpu_id=3\n", Some(Kind::FrequencyAtStart { cpu: 3, khz: 600_000 })),
            ("cpu_frequency_limits: min=1 max=9 cpu_id=0", Some(Kind::FrequencyLimit { cpu: 0, khz: 9 })),
            ("cpu_frequency: state=x cpu_id=3", None),
            ("cpu_frequency: state=5 cpu_id=65536", None),
            ("cpu_idle: state=1 cpu_id=0", None),
            ("sched_blocked_reason: pid=x iowait=0 caller=futex_wait", None),
            ("sched_blocked_reason: pid=5", None),
            ("B|x|a", None),
            ("", None),
            ("\u{e9}", None),
            ("trace_event_clock_sync: parent_ts=1", None),
        ] {
            assert_eq!(kind(text, 1, 9, &mut Collector::new("text")), expected, "{text}");
        }
        let mut collector = Collector::new("text");
        let lock = kind("sched_blocked_reason: pid=5 iowait=0 caller=futex_wait\n", 1, 9, &mut collector);
        let Some(Kind::BlockedReason { target: 5, is_io: false, function: Some(function) }) = lock else {
            panic!("{lock:?}");
        };
        assert_eq!(collector.finish().symbols.text(function), "futex_wait");
        let mut collector = Collector::new("text");
        for text in ["C|5|pages swapped in|12\n", "C|5|pages swapped in|x", "C|5|other|12", "C|5|pages swapped in"] {
            assert_eq!(kind(text, 1, 9, &mut collector), None, "{text}");
        }
        let count = MemoryCount { time_ns: 1, tid: 9, counter: MemoryCounter::SwappedIn, value: 12 };
        assert_eq!(collector.finish().memory, [count]);
        let mut collector = Collector::new("text");
        kind("B|7|a", 1, 9, &mut collector);
        assert_eq!(collector.finish().processes.get(&9), Some(&7));
    }

    #[test]
    fn what_the_recorder_tells_of_memory_is_kept() {
        let device = "brisk_memory: page_kib=4 total_kib=9000 free_kib=100 swap_total_kib=50 swap_free_kib=40 \
                      swap_ratio_percent=25\n";
        let process = "brisk_process: pid=7 oom_score_adj=-905 anonymous_kib=1024 swapped_kib=7 comm=a b=c comm=\n";
        let told = |texts: &[&str]| {
            let mut collector = Collector::new("text");
            texts.iter().for_each(|text| assert_eq!(kind(text, 1, 9, &mut collector), None, "{text}"));
            collector.finish().memory_facts
        };
        let known = Candidate {
            pid: 7,
            name: "a b=c comm=".to_owned(),
            oom_score_adj: -905,
            rss_anonymous_kib: 1024,
            swap_kib: 7,
            ..Candidate::default()
        };
        let facts = MemoryFacts {
            time_ns: 1,
            page_kib: 4,
            total_kib: 9000,
            free_kib: 100,
            swap_total_kib: 50,
            swap_free_kib: 40,
            swap_ratio: Some(0.25),
            processes: vec![known],
        };
        let unmeasured = device.replace(" swap_ratio_percent=25", "");
        let without = |facts: &MemoryFacts| MemoryFacts { swap_ratio: None, processes: Vec::new(), ..facts.clone() };
        for (texts, expected) in [
            (&[device, process][..], vec![facts.clone()]),
            (&[unmeasured.as_str(), device, process], vec![without(&facts), facts.clone()]),
            (&[process], vec![]),
            (&[&device.replace("free_kib=100", "free_kib=x")], vec![]),
            (&[&device.replace("page_kib=4", "page_kib=0")], vec![]),
            (&[&unmeasured, &process.replace("-905", "99999")], vec![without(&facts)]),
        ] {
            assert_eq!(told(texts), expected, "{texts:?}");
        }
    }

    #[test]
    fn markers_of_launches_are_kept() {
        for (text, expected) in [
            ("S|7|launching: com.a|0", Some((MarkerKind::AsyncBegin, "launching: com.a"))),
            ("F|7|launching: com.a|-1", Some((MarkerKind::AsyncEnd, "launching: com.a"))),
            ("F|7|launching: com.a", Some((MarkerKind::AsyncEnd, "launching: com.a"))),
            (
                "I|7|launchingActivity#1:completed-cold:com.a",
                Some((MarkerKind::Instant, "launchingActivity#1:completed-cold:com.a")),
            ),
            ("B|7|Choreographer#doFrame 4711", Some((MarkerKind::Begin, FRAME))),
            ("B|7|a|b", None),
            ("C|7|launching: a|4", None),
        ] {
            let mut collector = Collector::new("text");
            kind(text, 5, 9, &mut collector);
            let trace = collector.finish();
            let found = trace.markers.first().map(|it| (it.kind, trace.symbols.text(it.name)));
            assert_eq!(found, expected, "{text}");
            assert!(trace.markers.iter().all(|it| (it.time_ns, it.tid, it.process) == (5, 9, 7)));
        }
    }
}
