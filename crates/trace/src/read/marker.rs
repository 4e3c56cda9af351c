//! What atrace writes into the trace's marker: `B|pid|name`, `E|pid`; other markers have no use here.

use crate::collect::Collector;
use crate::model::{Kind, Tid};

/// The event that a marker of thread `tid` is. The process that it names is the thread's.
pub fn kind(text: &str, tid: Tid, collector: &mut Collector) -> Option<Kind> {
    let text = text.trim_end();
    if text == "E" || text.starts_with("E|") {
        return Some(Kind::SliceEnd);
    }
    let (process, name) = text.strip_prefix("B|")?.split_once('|')?;
    collector.process_of(tid, process.parse().ok()?);
    // ART names the holder; the wake-up tells it as well, also where the lock is not of ART.
    let is_lock = ["Lock contention on ", "monitor contention with owner "].iter().any(|it| name.starts_with(it));
    Some(Kind::SliceBegin { is_lock })
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
            ("B|x|a", None),
            ("", None),
            ("\u{e9}", None),
            ("trace_event_clock_sync: parent_ts=1", None),
        ] {
            assert_eq!(kind(text, 9, &mut Collector::new("text")), expected, "{text}");
        }
        let mut collector = Collector::new("text");
        kind("B|7|a", 9, &mut collector);
        assert_eq!(collector.finish().processes.get(&9), Some(&7));
    }
}
