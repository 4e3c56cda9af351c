//! While something comes to the foreground: where one CPU is all there is, a bulk thread takes its share of it from whatever
//! opens, so bulk work weighs less at once and for as long as an opening takes.
//!
//! An opening is over before a trial could be judged. On several CPUs the foreground may find one that is free, so there the
//! ladder decides.

use std::time::Duration;

use super::{Held, PlacementPolicy};
use crate::device::BootTime;
use crate::mechanism::Decision;
use crate::mechanism::placement::config::Rule;
use crate::mechanism::placement::step::Step;
use crate::mechanism::placement::trial::Rhythms;

impl PlacementPolicy {
    /// Something else has come to the foreground: what is leased for the one before is kept where it is wanted for this one.
    pub(super) fn open(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        const WHY: &str = "something else came to the front";
        let lasts = Duration::from_millis(self.config.opening_ms);
        let is_wanted = self.config.rule == Rule::Brisk && !lasts.is_zero() && self.machine.cores().len() == 1;
        self.opening = (is_wanted && self.roster.has_front()).then(|| now + lasts);
        match self.opening {
            Some(_) if !self.busy(&Step::Weight).is_empty() => self.weigh_for_opening(now, decisions),
            _ => self.release_all(WHY, decisions),
        }
    }

    /// True while an opening goes on, for which all is done then.
    pub(super) fn is_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) -> bool {
        let Some(until) = self.opening else { return false };
        if now < until {
            self.weigh_for_opening(now, decisions);
            return true;
        }
        self.opening = None;
        self.release_all("the opening is over", decisions);
        self.window.clear();
        false
    }

    fn weigh_for_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let Some(until) = self.opening else { return };
        let step = Step::Weight;
        self.reason = format!("{}, while something opens", self.words(&step));
        let held = Held::new(step, now, None, Rhythms::default(), None);
        self.held = Some(Held { until, ..held });
        self.apply(now, decisions);
    }
}
