//! Openings of applications: their table in an experiment's file, and its faults.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

#[cfg(feature = "lab")]
use super::BackgroundProgram;
use super::Experiment;
use crate::applications::Applications;
use brisk_report::proof::Timekeeping;
#[cfg(feature = "lab")]
use brisk_sys::binder::WireFormat;

/// Applications that are opened one after another, and again; `memory-workload.toml` says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Openings {
    /// Number of openings, from the start of the workload.
    pub count: u32,
    /// The same for the quick form, when it cannot afford all.
    pub quick_count: Option<u32>,
    /// The block device with the framework and the applications' files.
    pub storage: PathBuf,
    /// An application without a screen for this long is unresponsive.
    pub limit_ms: u32,
    /// True for a single application that allocates memory until the kernel kills it, in place of openings.
    #[serde(default)]
    pub single: bool,
    /// A whole device around them: services that each application looks up, governors, background programs.
    #[cfg(feature = "lab")]
    pub together: Option<DeviceEnvironment>,
}

/// A whole device around the applications.
#[cfg(feature = "lab")]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEnvironment {
    /// Services that are registered and looked up by their popularity.
    pub services: u32,
    /// Lookups of an application at each of its openings.
    pub lookups: u32,
    /// Programs that run in the background all the time.
    pub background: Vec<BackgroundProgram>,
    /// How many times slower the guest runs the kernel's code than the device that it stands for. Work and periods of the
    /// applications and of the background take this many times longer, so that they keep their proportion to the kernel's
    /// work (time dilation: D. Gupta et al., "To infinity and beyond: time-warped network emulation", NSDI 2006).
    #[serde(default = "undilated")]
    pub time_dilation: u32,
}

#[cfg(feature = "lab")]
const fn undilated() -> u32 {
    1
}

/// At more, a course would take hours.
#[cfg(feature = "lab")]
const MAX_TIME_DILATION: u32 = 100;

impl Openings {
    /// How many openings the quick or the full form has.
    pub fn of_form(&self, quick: bool) -> u32 {
        self.quick_count.filter(|_| quick).unwrap_or(self.count)
    }

    /// The factor by which applications' and the background's work and periods are prolonged; 1 where there is none.
    pub fn time_dilation(&self) -> u32 {
        #[cfg(feature = "lab")]
        return self.together.as_ref().map_or(1, |together| together.time_dilation);
        #[cfg(not(feature = "lab"))]
        1
    }

    fn is_of_whole_device(&self) -> bool {
        #[cfg(feature = "lab")]
        return self.together.is_some();
        #[cfg(not(feature = "lab"))]
        false
    }
}

impl Experiment {
    pub(super) fn openings_fault(&self, openings: &Openings) -> Option<String> {
        let known = match Applications::standard() {
            Ok(workload) => workload.list.len() + workload.reopens.count,
            Err(error) => return Some(format!("memory-workload.toml: {error}")),
        };
        // A whole device on several CPUs is compared with another one at the same time.
        if self.mode != Timekeeping::Deterministic
            && !(self.mode == Timekeeping::Parallel && openings.is_of_whole_device())
        {
            return Some(
                "applications are opened where time is counted in instructions: mode = \"deterministic\" (or \
                 \"parallel\", with `together`)"
                    .into(),
            );
        }
        if openings.count == 0 || openings.count as usize > known {
            return Some(format!("applications: count is 1 to {known}"));
        }
        if openings.quick_count.is_some_and(|quick| quick == 0 || quick > openings.count) {
            return Some("applications: quick_count is 1 to count".into());
        }
        if openings.limit_ms == 0 || self.replicates.quick_work_ms.is_some() {
            return Some("limit_ms must be above zero, and quick_work_ms is for launches".into());
        }
        #[cfg(feature = "lab")]
        if let Some(together) = &openings.together {
            return self.together_fault(together);
        }
        let unsupported_arm = self.arms.iter().find(|arm| arm.lookup.is_some());
        unsupported_arm.map(|arm| format!("arm {}: lookup belongs to experiments with lookups", arm.name))
    }

    #[cfg(feature = "lab")]
    fn together_fault(&self, together: &DeviceEnvironment) -> Option<String> {
        if together.services == 0 || together.lookups == 0 {
            return Some("applications.together: services and lookups must be above zero".into());
        }
        if !(1..=MAX_TIME_DILATION).contains(&together.time_dilation) {
            return Some(format!("applications.together: time_dilation is 1 to {MAX_TIME_DILATION}"));
        }
        self.arms.iter().find_map(|arm| match &arm.lookup {
            Some(lookup) if WireFormat::named(&lookup.format).is_some() => None,
            Some(lookup) => Some(format!("arm {}: there is no wire format {:?}", arm.name, lookup.format)),
            None => Some(format!("arm {}: lookup names the context manager", arm.name)),
        })
    }
}

#[cfg(all(test, feature = "lab"))]
mod tests {
    use super::*;
    use crate::point::Point;

    const TOGETHER: &str = r#"name = "x"
title = "x"
description = "x"
mechanism = "together"
mode = "deterministic"
scenario = "x"
replicates = { quick = 2, full = 4 }
[applications]
count = 45
quick_count = 12
storage = "/dev/flash0"
limit_ms = 20000
together = { services = 100, lookups = 20, background = ["music", "download"] }
[[arm]]
name = "stock"
title = "x"
baseline = true
lookup = { manager = "own", format = "android-5" }
"#;

    #[test]
    fn the_quick_form_has_fewer_openings_and_mistakes_are_named() {
        let experiment = Experiment::parse("x", TOGETHER).unwrap();
        assert_eq!(experiment.points(true), [Point::Openings(12)]);
        assert_eq!(experiment.points(false), [Point::Openings(45)]);
        let parallel = TOGETHER.replace("\"deterministic\"", "\"parallel\"");
        assert_eq!(Experiment::parse("x", &parallel).unwrap().mode, Timekeeping::Parallel);
        let alone: String =
            parallel.lines().filter(|line| !line.starts_with("together =")).map(|line| format!("{line}\n")).collect();
        let error = Experiment::parse("x", &alone).unwrap_err().to_string();
        assert!(error.contains("mode = \"deterministic\""), "{error}");
        let all = TOGETHER.replace("quick_count = 12\n", "");
        assert_eq!(Experiment::parse("x", &all).unwrap().points(true), [Point::Openings(45)]);
        for (from, to, expected) in [
            ("quick_count = 12", "quick_count = 46", "quick_count is 1 to count"),
            ("quick_count = 12", "quick_count = 0", "quick_count is 1 to count"),
            ("count = 45", "count = 46", "count is 1 to 45"),
            ("lookups = 20", "lookups = 0", "services and lookups must be above zero"),
            ("lookups = 20,", "lookups = 20, time_dilation = 0,", "time_dilation is 1 to 100"),
            ("lookups = 20,", "lookups = 20, time_dilation = 101,", "time_dilation is 1 to 100"),
            ("android-5", "android-4", "arm stock: there is no wire format \"android-4\""),
            ("lookup = { manager = \"own\", format = \"android-5\" }", "", "arm stock: lookup names"),
            (
                "together = { services = 100, lookups = 20, background = [\"music\", \"download\"] }",
                "",
                "lookup belongs",
            ),
            ("\"deterministic\"", "\"native\"", "names its `scenario`"),
        ] {
            let text = TOGETHER.replacen(from, to, 1);
            assert_ne!(text, TOGETHER, "{from}");
            let error = Experiment::parse("x", &text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}\n  wanted {expected}");
        }
    }
}
