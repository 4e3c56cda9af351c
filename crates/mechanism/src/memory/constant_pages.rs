//! Which pages of cached applications change so rarely that they may go to flash: the paper's "constant data". Pure.
//!
//! A page that is used leaves swap and gets another slot when it is swapped out again. So a page that has the same slot in two
//! cached periods of its application was neither read nor written by the use between them.

use std::collections::BTreeMap;

use brisk_sys::process::ProcessIdentity;

/// Cached periods in which a page must have had the same slot.
const PERIODS: u8 = 2;
/// The most extents over all applications, because the process that keeps them is locked in memory. The extents of an application
/// that exceeds it are dropped.
const CAPACITY: usize = 16 << 10;

/// A run of pages that are contiguous both in an application's memory and on swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SwapExtent {
    /// The first page's number in memory.
    page: u64,
    /// Its slot on swap.
    slot: u32,
    pages: u32,
    /// Cached periods in which they had these slots.
    periods: u8,
    /// They have been handled and are not due again.
    is_settled: bool,
}

impl SwapExtent {
    fn end(&self) -> u64 {
        self.page + u64::from(self.pages)
    }

    /// True when `next` continues this extent.
    fn is_continued_by(&self, next: &Self) -> bool {
        self.end() == next.page
            && self.slot.checked_add(self.pages) == Some(next.slot)
            && (self.periods, self.is_settled) == (next.periods, next.is_settled)
    }

    /// The longest prefix whose pages all kept, or all changed, their slots since `before`, with their known age. `before` is
    /// the first extent that does not end before this one begins.
    fn uniform_prefix(&self, before: Option<&Self>, by: u8) -> Self {
        let Some(before) = before.filter(|before| before.page < self.end()) else { return *self };
        if before.page > self.page {
            return Self { pages: (before.page - self.page) as u32, ..*self };
        }
        let pages = (before.end().min(self.end()) - self.page) as u32;
        match u64::from(before.slot) + (self.page - before.page) == u64::from(self.slot) {
            true => {
                let periods = before.periods.saturating_add(by);
                Self { pages, periods, is_settled: before.is_settled, ..*self }
            }
            false => Self { pages, ..*self },
        }
    }
}

/// An application's pages on swap, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SwapExtents(Vec<SwapExtent>);

impl SwapExtents {
    /// Adds a page with a higher number than those before.
    pub fn add(&mut self, page: u64, slot: u32) {
        self.push(SwapExtent { page, slot, pages: 1, periods: 1, is_settled: false });
    }

    fn push(&mut self, extent: SwapExtent) {
        match self.0.last_mut() {
            Some(last) if last.is_continued_by(&extent) => last.pages += extent.pages,
            _ => self.0.push(extent),
        }
    }

    /// The same extents; pages that had the same slot in `before` are `by` periods older now.
    fn aged(self, before: &Self, by: u8) -> Self {
        let mut aged = Self::default();
        let mut before = before.0.iter().peekable();
        for mut extent in self.0 {
            while extent.pages > 0 {
                while before.next_if(|before| before.end() <= extent.page).is_some() {}
                let uniform_prefix = extent.uniform_prefix(before.peek().copied(), by);
                extent.page += u64::from(uniform_prefix.pages);
                extent.slot = extent.slot.saturating_add(uniform_prefix.pages);
                extent.pages -= uniform_prefix.pages;
                aged.push(uniform_prefix);
            }
        }
        aged
    }
}

#[derive(Debug, Default)]
struct Application {
    extents: SwapExtents,
    is_cached: bool,
    /// What it had on swap at the last sample.
    swap_kib: u64,
}

/// The tracked pages of all applications.
#[derive(Debug, Default)]
pub struct ConstantPages {
    applications: BTreeMap<ProcessIdentity, Application>,
}

impl ConstantPages {
    /// Updates which applications are cached. One that is not but still `lives` has been used; others are forgotten.
    pub fn update_cached(
        &mut self,
        is_cached: impl Fn(&ProcessIdentity) -> bool,
        lives: impl Fn(&ProcessIdentity) -> bool,
    ) {
        self.applications.retain(|life, _| is_cached(life) || lives(life));
        for (life, application) in &mut self.applications {
            application.is_cached &= is_cached(life);
        }
    }

    /// True when a sample of `life`, which is cached and has `swap_kib` on swap, would give new information.
    pub fn needs_sample(&self, life: &ProcessIdentity, swap_kib: u64) -> bool {
        let known = self.applications.get(life);
        known.is_none_or(|application| !application.is_cached || application.swap_kib != swap_kib)
    }

    /// Records what `life`, which is cached, has on swap.
    pub fn sample(&mut self, life: ProcessIdentity, swap_kib: u64, extents: SwapExtents) {
        let application = self.applications.entry(life).or_default();
        let by = u8::from(!application.is_cached);
        let extents = extents.aged(&application.extents, by);
        *application = Application { extents, is_cached: true, swap_kib };
        let known: usize = self.applications.values().map(|application| application.extents.0.len()).sum();
        if known > CAPACITY {
            self.applications.insert(life, Application { is_cached: true, swap_kib, ..Application::default() });
        }
    }

    /// The slots of pages that may go to flash, ascending.
    pub fn due(&self) -> Vec<u32> {
        let cached = self.applications.values().filter(|application| application.is_cached);
        let extents = cached.flat_map(|application| &application.extents.0).filter(|extent| extent.is_due());
        let mut slots: Vec<u32> =
            extents.flat_map(|extent| extent.slot..extent.slot.saturating_add(extent.pages)).collect();
        // Pages that several applications share have one slot.
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Marks all that was due as handled.
    pub fn settle(&mut self) {
        for application in self.applications.values_mut().filter(|application| application.is_cached) {
            for extent in application.extents.0.iter_mut().filter(|extent| extent.is_due()) {
                extent.is_settled = true;
            }
        }
    }
}

impl SwapExtent {
    fn is_due(&self) -> bool {
        self.periods >= PERIODS && !self.is_settled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GALLERY: ProcessIdentity = ProcessIdentity { pid: 7, start_time_ticks: 100 };

    fn extents(pages: &[(u64, u32)]) -> SwapExtents {
        let mut extents = SwapExtents::default();
        pages.iter().for_each(|&(page, slot)| extents.add(page, slot));
        extents
    }

    /// The application has been in the foreground since the last sample.
    fn use_it(known: &mut ConstantPages) {
        known.update_cached(|_| false, |_| true);
    }

    // Verifies MEMORY-6.
    #[test]
    fn pages_that_keep_their_slot_across_a_use_are_due_once() {
        let mut known = ConstantPages::default();
        known.sample(GALLERY, 12, extents(&[(1, 10), (2, 11), (3, 12)]));
        assert_eq!(known.due(), [0; 0], "its first period");
        known.update_cached(|_| true, |_| true);
        known.sample(GALLERY, 16, extents(&[(1, 10), (2, 11), (3, 12), (9, 50)]));
        assert_eq!(known.due(), [0; 0], "still its first");
        use_it(&mut known);
        assert_eq!(known.due(), [0; 0], "it is in the foreground");
        // Page 2 was used and got another slot; page 3 was not swapped out again.
        known.sample(GALLERY, 12, extents(&[(1, 10), (2, 60), (9, 50)]));
        assert_eq!(known.due(), [10, 50]);
        known.settle();
        assert_eq!(known.due(), [0; 0]);
        use_it(&mut known);
        known.sample(GALLERY, 12, extents(&[(1, 10), (2, 60), (9, 50)]));
        assert_eq!(known.due(), [60], "what was handled is not due again");
    }

    // Verifies MEMORY-6.
    #[test]
    fn an_exited_process_leaves_nothing_to_a_reused_pid() {
        let mut known = ConstantPages::default();
        known.sample(GALLERY, 4, extents(&[(1, 10)]));
        known.update_cached(|_| false, |_| false);
        known.sample(GALLERY, 4, extents(&[(1, 10)]));
        let successor = ProcessIdentity { start_time_ticks: 200, ..GALLERY };
        known.sample(successor, 4, extents(&[(1, 10)]));
        assert_eq!(known.due(), [0; 0]);
    }

    #[test]
    fn unchanged_swap_is_not_read_again() {
        let mut known = ConstantPages::default();
        assert!(known.needs_sample(&GALLERY, 4));
        known.sample(GALLERY, 4, extents(&[(1, 10)]));
        assert!(!known.needs_sample(&GALLERY, 4) && known.needs_sample(&GALLERY, 8));
        use_it(&mut known);
        assert!(known.needs_sample(&GALLERY, 4));
    }

    #[test]
    fn the_tracked_pieces_are_bounded() {
        let mut known = ConstantPages::default();
        let scattered = |count: u64| extents(&(0..count).map(|page| (2 * page, page as u32)).collect::<Vec<_>>());
        let other = ProcessIdentity { pid: 8, ..GALLERY };
        for _ in 0..2 {
            known.sample(GALLERY, 4, scattered(10));
            known.sample(other, 4, scattered(CAPACITY as u64));
            use_it(&mut known);
        }
        known.sample(GALLERY, 4, scattered(10));
        known.sample(other, 4, scattered(CAPACITY as u64));
        assert_eq!(known.due().len(), 10);
    }

    proptest! {
        /// Compares with a model that works page by page.
        // Verifies MEMORY-6.
        #[test]
        fn pieces_agree_with_single_pages(
            before in prop::collection::btree_map(0u64..40, 0u32..8, 0..30),
            now in prop::collection::btree_map(0u64..40, 0u32..8, 0..30),
            distances in (0u32..3, 0u32..3),
        ) {
            // Contiguous slots make long extents.
            let placed = |map: &BTreeMap<u64, u32>, distance: u32| -> Vec<(u64, u32)> {
                map.iter().map(|(&page, &slot)| (page, page as u32 + slot / 6 * distance)).collect()
            };
            let (before, now) = (placed(&before, distances.0), placed(&now, distances.1));
            let mut expected: Vec<u32> = now.iter().filter(|page| before.contains(page)).map(|page| page.1).collect();
            expected.sort_unstable();
            expected.dedup();
            let mut known = ConstantPages::default();
            known.sample(GALLERY, 4, extents(&before));
            use_it(&mut known);
            known.sample(GALLERY, 4, extents(&now));
            prop_assert_eq!(known.due(), expected);
        }
    }
}
