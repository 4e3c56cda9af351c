//! Thread samples from the kernel's task iterator: each contains all threads.

use std::collections::BTreeMap;

use super::tracked_thread::{TrackedThread, first_usage};
use super::{Excluded, Sample, Thread, ThreadUsage};
use crate::BootTime;
use crate::bpf::task::Task;

/// Evaluates `tasks`, all that exist, ordered by number, for a sample at `now` after one at `sampled_at`.
pub(super) fn take(
    known: &mut BTreeMap<u32, TrackedThread>,
    tasks: &[Task],
    (sampled_at, now): (Option<BootTime>, BootTime),
    excluded: Excluded,
    sample: &mut Sample,
) {
    let mut new = Vec::new();
    let mut others = known.iter_mut().peekable();
    for task in tasks.iter().filter(|task| !excluded.has(task.pid, task.parent)) {
        while let Some((&ended, _)) = others.next_if(|(tid, _)| **tid < task.tid) {
            sample.ended.push(ended);
        }
        match others.next_if(|(tid, _)| **tid == task.tid) {
            Some((_, one)) if one.is_of(task.born) => {
                one.born = Some(task.born);
                sample.used.extend(one.take(now, task.used).map(|usage| ThreadUsage { tid: task.tid, usage }));
            }
            // The number was reused for another thread.
            Some(_) => {
                sample.ended.push(task.tid);
                new.push(task);
            }
            None => new.push(task),
        }
    }
    sample.ended.extend(others.map(|(&tid, _)| tid));
    sample.ended.iter().for_each(|tid| drop(known.remove(tid)));
    for task in new {
        let since = sampled_at.filter(|&since| task.born >= since);
        let usage = since.and_then(|since| first_usage(task.used, (since, now), || task.born));
        sample.used.extend(usage.map(|usage| ThreadUsage { tid: task.tid, usage }));
        sample.born.push(Thread { tid: task.tid, pid: task.pid, parent: task.parent, command: task.command() });
        known.insert(task.tid, TrackedThread::new(now, task.used).born(task.born));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::schedstat::Usage;
    use crate::sched::threads::KTHREADD;

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn tids(sample: &Sample) -> (Vec<u32>, Vec<u32>) {
        (sample.born.iter().map(|thread| thread.tid).collect(), sample.used.iter().map(|used| used.tid).collect())
    }

    /// A sample of `tasks` at `now` after one at `sampled_at`.
    fn sample_at(
        known: &mut BTreeMap<u32, TrackedThread>,
        sampled_at: Option<u64>,
        now: u64,
        tasks: &[Task],
    ) -> Sample {
        let excluded = Excluded { kthreadd: Some(KTHREADD), own: Some(40) };
        let mut sample = Sample::default();
        take(known, tasks, (sampled_at.map(at), at(now)), excluded, &mut sample);
        sample
    }

    // Verifies PLACE-1.
    #[test]
    fn only_tasks_that_ran_or_waited_have_usage() {
        let mut known = BTreeMap::new();
        let init = Task::of(1, (1, 0), 0, (7, 0, 1));
        let others =
            [Task::of(2, (2, 0), 0, (1, 1, 1)), Task::of(9, (9, 2), 0, (1, 1, 1)), Task::of(41, (40, 1), 0, (1, 1, 1))];
        let first =
            [&[init][..], &others, &[Task::of(50, (50, 1), 900, (5, 5, 5)), Task::of(51, (50, 1), 900, (6, 0, 5))]];
        let sample = sample_at(&mut known, None, 1000, &first.concat());
        assert_eq!(
            tids(&sample),
            (vec![1, 50, 51], vec![]),
            "no kernel threads and none of brisk's own, and no thread's age is known"
        );
        let expected = Thread { tid: 51, pid: 50, parent: 1, command: "name".into() };
        assert_eq!(sample.born[2], expected);

        let second = [init, Task::of(50, (50, 1), 900, (35, 25, 9)), Task::of(60, (60, 50), 1020, (60, 0, 2))];
        let sample = sample_at(&mut known, Some(1000), 1100, &second);
        let usage = |tid, wall_ms: u64, run_ms: u64, wait_ms: u64, slices| ThreadUsage {
            tid,
            usage: Usage {
                wall_ns: wall_ms * 1_000_000,
                run_ns: run_ms * 1_000_000,
                wait_ns: wait_ms * 1_000_000,
                slices,
            },
        };
        assert_eq!(
            sample.used,
            [usage(50, 100, 30, 20, 4), usage(60, 80, 60, 0, 2)],
            "1 sleeps, 60 was busy from birth"
        );
        assert_eq!((tids(&sample).0, sample.ended), (vec![60], vec![51]));
        assert_eq!(known.keys().copied().collect::<Vec<_>>(), [1, 50, 60]);
    }

    // Verifies PLACE-1.
    #[test]
    fn a_reused_number_is_another_thread() {
        let mut known = BTreeMap::new();
        sample_at(
            &mut known,
            None,
            1000,
            &[Task::of(50, (50, 1), 900, (500, 0, 5)), Task::of(70, (70, 1), 900, (1, 0, 1))],
        );
        let later = [Task::of(50, (50, 1), 1050, (2, 0, 1)), Task::of(70, (70, 1), 900, (2, 0, 2))];
        let sample = sample_at(&mut known, Some(1000), 1100, &later);
        assert_eq!(tids(&sample), (vec![50], vec![70]), "its usage is too little for an estimate: {sample:?}");
        assert_eq!(sample.ended, [50]);
        let sample = sample_at(&mut known, Some(1100), 1200, &[]);
        assert_eq!(sample, Sample { ended: vec![50, 70], ..Sample::default() });
        assert!(known.is_empty());
    }
}
