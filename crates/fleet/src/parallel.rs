//! Work on all CPUs at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// What `work` returns for each of `items`, in their order.
pub fn on_all_cpus<'a, T: Sync, R: Send>(items: &'a [T], work: impl Fn(&'a T) -> R + Sync) -> Vec<R> {
    on_all_cpus_while(items, || true, work)
}

/// The same for as many of the first items as are begun while `goes_on` returns true.
pub fn on_all_cpus_while<'a, T: Sync, R: Send>(
    items: &'a [T],
    goes_on: impl Fn() -> bool + Sync,
    work: impl Fn(&'a T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        // An item that is taken is always done, so that the results have no gap.
        while goes_on() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { break };
            done.push((index, work(item)));
        }
        done
    };
    let cpus = thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let mut all: Vec<(usize, R)> = match cpus {
        0 | 1 => take(),
        _ => thread::scope(|scope| {
            let threads: Vec<_> = (0..cpus).map(|_| scope.spawn(take)).collect();
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        }),
    };
    // A stable sort merges the threads' results, each of which is in order.
    all.sort_by_key(|(index, _)| *index);
    all.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_that_were_begun_have_no_gap() {
        let items: Vec<usize> = (0..10_000).collect();
        let begun = AtomicUsize::new(0);
        let goes_on = || begun.load(Ordering::Relaxed) < 100;
        let done = on_all_cpus_while(&items, goes_on, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            *item
        });
        assert!((100..10_000).contains(&done.len()), "{}", done.len());
        assert_eq!(done, items[..done.len()]);
        assert_eq!(on_all_cpus(&items, |item| *item), items);
        assert!(on_all_cpus(&items[..0], |item| *item).is_empty());
    }
}
