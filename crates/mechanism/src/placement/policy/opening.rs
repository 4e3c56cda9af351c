//! Openings: while an application comes to the foreground on a device with one CPU, busy background threads take CPU time from
//! it. They are deprioritised at once, for the configured length of an opening.
//!
//! This includes threads that are not bulk: a download that works for 15 of every 40 ms makes an opening 50 % longer. Threads
//! that draw for the foreground are part of the opening, and so are threads with a raised priority. An opening ends before a
//! trial could be judged. With several CPUs the foreground may find an idle one, so the ladder decides there.

use std::time::Duration;

use super::{Held, PlacementPolicy};
use crate::Decision;
use crate::placement::step::Step;
use crate::placement::threads::classify::Class;
use crate::placement::threads::roster::Member;
use crate::placement::trial::PeriodicThreads;
use brisk_sys::BootTime;

/// Threads with a lower CPU demand hardly delay an opening.
const DELAYING_DEMAND: f64 = 0.25;
/// Display servers and compositors by /proc/PID/comm, which has the first 15 bytes of the name.
const DISPLAY_SERVERS: [&str; 17] = [
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

/// True for a background thread that is deprioritised during an opening: a bulk thread, or one with enough demand to matter,
/// unless it draws, has a raised priority, or its facts are unknown.
pub(super) fn delays_opening(member: &Member) -> bool {
    if member.statistics.class() == Class::Bulk {
        return true;
    }
    let is_ordinary = member.facts.as_ref().is_some_and(|facts| facts.priority.nice >= 0);
    is_ordinary
        && member.statistics.demand() >= DELAYING_DEMAND
        && !DISPLAY_SERVERS.contains(&member.thread.command.as_str())
}

impl PlacementPolicy {
    /// The foreground has changed; `is_some` is false if none is left. Leases for the previous foreground that are still wanted
    /// are kept. The roster does not know a launched process before the next sample.
    pub(super) fn on_foreground_changed(&mut self, now: BootTime, is_some: bool, decisions: &mut Vec<Decision>) {
        const WHY: &str = "the foreground changed";
        let lasts = Duration::from_millis(self.config.opening_ms);
        let is_wanted = self.config.helps_openings() && self.has_one_cpu();
        self.opening = (is_wanted && is_some).then(|| now + lasts);
        match self.opening {
            Some(_) if !self.busy(&Step::Weight).is_empty() => self.deprioritise_for_opening(now, decisions),
            _ => self.release_all(WHY, decisions),
        }
    }

    /// True during an opening; ends one that is over.
    pub(super) fn update_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) -> bool {
        let Some(until) = self.opening else { return false };
        if now >= until {
            self.opening = None;
            self.end_step("the opening is over", decisions);
            self.window.clear();
        }
        self.opening.is_some()
    }

    /// Deprioritises the background threads that delay the opening, including those that became busy since it began.
    pub(super) fn deprioritise_for_opening(&mut self, now: BootTime, decisions: &mut Vec<Decision>) {
        let Some(until) = self.opening else { return };
        self.start_group_weights_for_opening(now);
        let step = Step::Weight;
        self.reason = format!("{}, while an application opens", self.describe(&step));
        let held = Held::new(step, now, None, PeriodicThreads::default(), None);
        self.held = Some(Held { until, ..held });
        self.apply(now, decisions);
    }
}
