//! A page's charts of what was recorded in the course of replicates. No experiment on a device records it, so a device's program has
//! no such charts.

use super::plot::Size;
use super::{process_plot, step_plot, summary};
use crate::proof::ExperimentResult;

/// A chart, drawn in both sizes.
pub(super) struct CourseChart<'a> {
    /// The quantity, or the arm.
    pub(super) name: &'a str,
    /// The unit of its figures; empty for counts.
    pub(super) unit: &'a str,
    pub(super) wide: String,
    pub(super) narrow: String,
}

/// A chart of each quantity, with a line for each arm.
pub(super) fn of_steps<'a>(experiment: &'a ExperimentResult, anchor: &str) -> Vec<CourseChart<'a>> {
    let courses = experiment.courses.iter().map(|course| (course.what.as_str(), course.unit.as_str()));
    charts(&courses, &format!("{anchor}-course"), |what, size, id| step_plot::lines(experiment, what, size, id))
}

/// A chart of each arm, with a row for each process.
pub(super) fn of_processes<'a>(experiment: &'a ExperimentResult, anchor: &str) -> Vec<CourseChart<'a>> {
    let arms = experiment.processes.iter().map(|process| (process.arm.as_str(), "MiB"));
    charts(&arms, &format!("{anchor}-processes"), |arm, size, id| process_plot::rows(experiment, arm, size, id))
}

/// A chart of each name, which has the unit of its first entry.
fn charts<'a>(
    entries: &(impl Iterator<Item = (&'a str, &'a str)> + Clone),
    id: &str,
    draw: impl Fn(&str, Size, &str) -> String,
) -> Vec<CourseChart<'a>> {
    if !cfg!(feature = "lab") {
        return Vec::new();
    }
    let chart = |(at, name): (usize, &'a str)| {
        let unit = entries.clone().find(|(other, _)| *other == name).map_or("", |(_, unit)| unit);
        let [wide, narrow] = Size::both(&format!("{id}-{at}"), |size, id| draw(name, size, id));
        CourseChart { name, unit, wide, narrow }
    };
    summary::distinct(entries.clone().map(|(name, _)| name)).into_iter().enumerate().map(chart).collect()
}
