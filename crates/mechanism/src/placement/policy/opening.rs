//! While something comes to the foreground: where one CPU is all there is, a busy background thread takes its share of it from
//! whatever opens, so it weighs less at once and for as long as an opening takes.
//!
//! That holds for threads that are not bulk as well: a download that works for 15 of every 40 ms makes an opening half as long
//! again. Who draws for the foreground is part of the opening, and so is who was given a higher priority than most.
//! An opening is over before a trial could be judged. On several CPUs the foreground may find one that is free, so there the
//! ladder decides.

use std::time::Duration;

use super::{Held, PlacementPolicy};
use crate::Decision;
use crate::placement::config::Rule;
use crate::placement::step::Step;
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::Member;
use crate::placement::trial::Rhythms;
use brisk_sys::BootTime;

/// What asks for less than this share of a CPU hardly makes an opening longer.
const IN_THE_WAY: f64 = 0.25;
/// Display servers and compositors, as /proc/PID/comm has them: its first 15 letters.
const DRAWS: [&str; 17] = [
    "Xorg",
    "Xwayland",
    "Xvfb",
    "sway",
    "weston",
    "cage",
    "labwc",
    "wayfire",
    "hyprland",
    "Hyprland",
    "gnome-shell",
    "gnome-kiosk",
    "mutter",
    "kwin_x11",
    "kwin_wayland",
    "surfaceflinger",
    "RenderEngine",
];

/// True for a background thread that weighs less while something opens: bulk work, and what asks for as much as to be noticed
/// unless it is known to draw, was given a higher priority, or nothing is known of it.
pub(super) fn makes_room_for_opening(member: &Member) -> bool {
    if member.habits.class() == Class::Bulk {
        return true;
    }
    let is_ordinary = member.facts.as_ref().is_some_and(|facts| facts.priority.nice >= 0);
    is_ordinary && member.habits.demand() >= IN_THE_WAY && !DRAWS.contains(&member.thread.command.as_str())
}

impl PlacementPolicy {
    /// The foreground has changed, and `is_some` comes to it: what is leased for the one before is kept where it is wanted for this
    /// one. Who is launched is not known to the roster before the next sample.
    pub(super) fn open(&mut self, now: BootTime, is_some: bool, decisions: &mut Vec<Decision>) {
        const WHY: &str = "something else came to the front";
        let lasts = Duration::from_millis(self.config.opening_ms);
        let is_wanted = self.config.rule == Rule::Brisk && !lasts.is_zero() && self.machine.cores().len() == 1;
        self.opening = (is_wanted && is_some).then(|| now + lasts);
        match self.opening {
            Some(_) if !self.busy(&Step::Weight).is_empty() => self.weigh_for_opening(now, decisions),
            _ => self.release_all(WHY, decisions),
        }
    }

    /// True while an opening goes on; ends one that is over.
    pub(super) fn is_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) -> bool {
        let Some(until) = self.opening else { return false };
        if now >= until {
            self.opening = None;
            self.end_step("the opening is over", decisions);
            self.window.clear();
        }
        self.opening.is_some()
    }

    /// What is in the way of what opens weighs less, also what has got in its way since.
    pub(super) fn weigh_for_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let Some(until) = self.opening else { return };
        self.stand_for_opening(now);
        let step = Step::Weight;
        self.reason = format!("{}, while something opens", self.words(&step));
        let held = Held::new(step, now, None, Rhythms::default(), None);
        self.held = Some(Held { until, ..held });
        self.apply(now, decisions);
    }
}
