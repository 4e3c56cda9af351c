//! Which pages of cached applications change so seldom that flash may have them: the paper's "constant data". Pure.
//!
//! A page that is used leaves swap, and goes to another place there when it is swapped out again. So one that lies at the
//! same place in two cached periods of its application was neither written nor read by the use between them.

use std::collections::BTreeMap;

use brisk_sys::process::Life;

/// Cached periods in which a page must have lain at the same place.
const PERIODS: u8 = 2;
/// Pieces that are remembered of all applications together: the process that remembers them is locked in memory. Of one that
/// comes when there is no room, nothing is known.
const CAPACITY: usize = 16 << 10;

/// Pages that follow each other both in an application's memory and on swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// The first one's number in memory.
    page: u64,
    /// Its place on swap.
    slot: u32,
    pages: u32,
    /// Cached periods in which they lay there.
    periods: u8,
    /// Nothing more is to be done about them.
    is_settled: bool,
}

impl Piece {
    fn end(&self) -> u64 {
        self.page + u64::from(self.pages)
    }

    /// True when `next` goes on where this one ends.
    fn goes_on_as(&self, next: &Self) -> bool {
        self.end() == next.page
            && self.slot.checked_add(self.pages) == Some(next.slot)
            && (self.periods, self.is_settled) == (next.periods, next.is_settled)
    }

    /// How many of its first pages lie, or do not lie, where they lay in `before`, the first piece that does not end
    /// before this one begins; with what is known of them.
    fn head(&self, before: Option<&Self>, by: u8) -> Self {
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

/// What an application has on swap, by ascending page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pieces(Vec<Piece>);

impl Pieces {
    /// Adds a page of a higher number than those before.
    pub fn add(&mut self, page: u64, slot: u32) {
        self.push(Piece { page, slot, pages: 1, periods: 1, is_settled: false });
    }

    fn push(&mut self, piece: Piece) {
        match self.0.last_mut() {
            Some(last) if last.goes_on_as(&piece) => last.pages += piece.pages,
            _ => self.0.push(piece),
        }
    }

    /// The same pieces; those that lay in `before` at the same place are `by` periods older now.
    fn aged(self, before: &Self, by: u8) -> Self {
        let mut aged = Self::default();
        let mut before = before.0.iter().peekable();
        for mut piece in self.0 {
            while piece.pages > 0 {
                while before.next_if(|before| before.end() <= piece.page).is_some() {}
                let head = piece.head(before.peek().copied(), by);
                piece.page += u64::from(head.pages);
                piece.slot = piece.slot.saturating_add(head.pages);
                piece.pages -= head.pages;
                aged.push(head);
            }
        }
        aged
    }
}

/// What is known of one application.
#[derive(Debug, Default)]
struct Application {
    pieces: Pieces,
    is_cached: bool,
    /// What it had on swap when it was looked at.
    swap_kib: u64,
}

/// What is known of all.
#[derive(Debug, Default)]
pub struct ConstantPages {
    applications: BTreeMap<Life, Application>,
}

impl ConstantPages {
    /// The applications that `is_cached` now; of the others, those that `lives` have been used, and the rest is forgotten.
    pub fn see(&mut self, is_cached: impl Fn(&Life) -> bool, lives: impl Fn(&Life) -> bool) {
        self.applications.retain(|life, _| is_cached(life) || lives(life));
        for (life, application) in &mut self.applications {
            application.is_cached &= is_cached(life);
        }
    }

    /// True when a sample of `life`, which is cached and has `swap_kib` on swap, would say something new.
    pub fn is_news(&self, life: &Life, swap_kib: u64) -> bool {
        let known = self.applications.get(life);
        known.is_none_or(|application| !application.is_cached || application.swap_kib != swap_kib)
    }

    /// Learns what `life`, which is cached, has on swap.
    pub fn sample(&mut self, life: Life, swap_kib: u64, pieces: Pieces) {
        let application = self.applications.entry(life).or_default();
        let by = u8::from(!application.is_cached);
        let pieces = pieces.aged(&application.pieces, by);
        *application = Application { pieces, is_cached: true, swap_kib };
        let known: usize = self.applications.values().map(|application| application.pieces.0.len()).sum();
        if known > CAPACITY {
            self.applications.insert(life, Application { is_cached: true, swap_kib, ..Application::default() });
        }
    }

    /// The places on swap of pages that flash may have, ascending.
    pub fn due(&self) -> Vec<u32> {
        let cached = self.applications.values().filter(|application| application.is_cached);
        let pieces = cached.flat_map(|application| &application.pieces.0).filter(|piece| piece.is_due());
        let mut slots: Vec<u32> = pieces.flat_map(|piece| piece.slot..piece.slot.saturating_add(piece.pages)).collect();
        // What several applications share has one place.
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// All that was due is done.
    pub fn settle(&mut self) {
        for application in self.applications.values_mut().filter(|application| application.is_cached) {
            for piece in application.pieces.0.iter_mut().filter(|piece| piece.is_due()) {
                piece.is_settled = true;
            }
        }
    }
}

impl Piece {
    fn is_due(&self) -> bool {
        self.periods >= PERIODS && !self.is_settled
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GALLERY: Life = Life { pid: 7, start_time_ticks: 100 };

    fn pieces(pages: &[(u64, u32)]) -> Pieces {
        let mut pieces = Pieces::default();
        pages.iter().for_each(|&(page, slot)| pieces.add(page, slot));
        pieces
    }

    /// The application was in the foreground since.
    fn use_it(known: &mut ConstantPages) {
        known.see(|_| false, |_| true);
    }

    // Verifies MEMORY-6.
    #[test]
    fn what_lies_at_the_same_place_after_a_use_is_due_once() {
        let mut known = ConstantPages::default();
        known.sample(GALLERY, 12, pieces(&[(1, 10), (2, 11), (3, 12)]));
        assert_eq!(known.due(), [0; 0], "its first period");
        known.see(|_| true, |_| true);
        known.sample(GALLERY, 16, pieces(&[(1, 10), (2, 11), (3, 12), (9, 50)]));
        assert_eq!(known.due(), [0; 0], "still its first");
        use_it(&mut known);
        assert_eq!(known.due(), [0; 0], "it is the foreground");
        // Page 2 was used and came to another place; page 3 did not come back.
        known.sample(GALLERY, 12, pieces(&[(1, 10), (2, 60), (9, 50)]));
        assert_eq!(known.due(), [10, 50]);
        known.settle();
        assert_eq!(known.due(), [0; 0]);
        use_it(&mut known);
        known.sample(GALLERY, 12, pieces(&[(1, 10), (2, 60), (9, 50)]));
        assert_eq!(known.due(), [60], "what is done stays done");
    }

    // Verifies MEMORY-6.
    #[test]
    fn an_ended_process_tells_nothing_about_a_reused_pid() {
        let mut known = ConstantPages::default();
        known.sample(GALLERY, 4, pieces(&[(1, 10)]));
        known.see(|_| false, |_| false);
        known.sample(GALLERY, 4, pieces(&[(1, 10)]));
        let heir = Life { start_time_ticks: 200, ..GALLERY };
        known.sample(heir, 4, pieces(&[(1, 10)]));
        assert_eq!(known.due(), [0; 0]);
    }

    #[test]
    fn unchanged_swap_is_not_read_again() {
        let mut known = ConstantPages::default();
        assert!(known.is_news(&GALLERY, 4));
        known.sample(GALLERY, 4, pieces(&[(1, 10)]));
        assert!(!known.is_news(&GALLERY, 4) && known.is_news(&GALLERY, 8));
        use_it(&mut known);
        assert!(known.is_news(&GALLERY, 4));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = ConstantPages::default();
        let scattered = |count: u64| pieces(&(0..count).map(|page| (2 * page, page as u32)).collect::<Vec<_>>());
        let other = Life { pid: 8, ..GALLERY };
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
        /// The same, page by page.
        // Verifies MEMORY-6.
        #[test]
        fn pieces_say_what_single_pages_say(
            before in prop::collection::btree_map(0u64..40, 0u32..8, 0..30),
            now in prop::collection::btree_map(0u64..40, 0u32..8, 0..30),
            distances in (0u32..3, 0u32..3),
        ) {
            // Places that follow each other make long pieces.
            let placed = |map: &BTreeMap<u64, u32>, distance: u32| -> Vec<(u64, u32)> {
                map.iter().map(|(&page, &slot)| (page, page as u32 + slot / 6 * distance)).collect()
            };
            let (before, now) = (placed(&before, distances.0), placed(&now, distances.1));
            let mut expected: Vec<u32> = now.iter().filter(|page| before.contains(page)).map(|page| page.1).collect();
            expected.sort_unstable();
            expected.dedup();
            let mut known = ConstantPages::default();
            known.sample(GALLERY, 4, pieces(&before));
            use_it(&mut known);
            known.sample(GALLERY, 4, pieces(&now));
            prop_assert_eq!(known.due(), expected);
        }
    }
}
