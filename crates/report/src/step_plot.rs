//! Charts of a quantity in the course of an experiment: one line for each arm, step by step.

use super::figure;
use super::plot::Size;
use super::summary;
use super::svg::{self, Anchor, Canvas, Caption, SERIES_COLOURS, SMALL_SIZE, Scale};
use crate::proof::{ExperimentResult, StepSeries};

/// The height of the lines without the legend.
const HEIGHT: f64 = 150.0;
/// The width of the figures left of them.
const LEFT: f64 = 44.0;

/// The lines of the course `what`, for a page; `id` must be unique there.
pub fn lines(experiment: &ExperimentResult, what: &str, size: Size, id: &str) -> String {
    let courses: Vec<&StepSeries> = experiment.courses.iter().filter(|course| course.what == what).collect();
    let mut canvas = Canvas::new(size.width());
    let top = legend(&mut canvas, experiment, &courses, size);
    let bottom = top + HEIGHT;
    let values = courses.iter().flat_map(|course| course.medians.iter().copied()).chain([0.0]);
    let scale = Scale::containing(values, (0.0, HEIGHT));
    let (left, right) = (LEFT, size.width() - 8.0);
    for (value, label) in scale.ticks(SMALL_SIZE) {
        let y = bottom - scale.position(value);
        canvas.line("rule", (left, y), (right, y));
        canvas.text("small", Anchor::End, (left - 6.0, y + 4.0), &label);
    }
    canvas.line("axis", (left, bottom), (right, bottom));
    let steps = courses.iter().map(|course| course.medians.len()).max().unwrap_or(0);
    let position = |step: usize| left + (right - left) * step as f64 / steps.saturating_sub(1).max(1) as f64;
    for step in [0, steps / 3, 2 * steps / 3, steps.saturating_sub(1)] {
        canvas.text("small", Anchor::Middle, (position(step), bottom + 16.0), &(step + 1).to_string());
    }
    for course in &courses {
        let points: Vec<(f64, f64)> = course
            .medians
            .iter()
            .enumerate()
            .map(|(step, &value)| (position(step), bottom - scale.position(value)))
            .collect();
        canvas.group(&format!("series-{}", series(experiment, &course.arm)), &course.arm, |canvas| {
            points.windows(2).for_each(|pair| canvas.line("median", pair[0], pair[1]));
        });
    }
    let title = format!("{}: {what}", experiment.title);
    let ends: Vec<String> = courses.iter().filter_map(|course| end(course)).collect();
    let description = format!("One line for each arm over {steps} steps; the last figures are {}.", ends.join(", "));
    canvas.inline(size.class(), bottom + 24.0, Caption { id, title: &title, description: &description })
}

fn end(course: &StepSeries) -> Option<String> {
    let last = course.medians.last()?;
    Some(format!("{} {}", course.arm, figure::fixed(*last, 0)))
}

/// The legend of the colours. Returns the top of the lines.
fn legend(canvas: &mut Canvas, experiment: &ExperimentResult, courses: &[&StepSeries], size: Size) -> f64 {
    let (mut x, mut y) = (0.0, 14.0);
    for course in courses {
        let width = 22.0 + svg::text_width(&course.arm, SMALL_SIZE) + 16.0;
        if x > 0.0 && x + width > size.width() + 16.0 {
            (x, y) = (0.0, y + 20.0);
        }
        canvas.group(&format!("series-{}", series(experiment, &course.arm)), "", |canvas| {
            canvas.line("median", (x + 1.0, y - 4.0), (x + 15.0, y - 4.0));
            canvas.text("small", Anchor::Start, (x + 22.0, y), &course.arm);
        });
        x += width;
    }
    y + 14.0
}

/// The colour of an arm: that of its samples.
fn series(experiment: &ExperimentResult, arm: &str) -> usize {
    let names = summary::distinct(experiment.arms.iter().map(|arm| arm.name.as_str()));
    let is_baseline = |name: &str| experiment.arms.iter().any(|arm| arm.baseline && arm.name == name);
    if is_baseline(arm) {
        return 0;
    }
    let position = names.iter().filter(|name| !is_baseline(name)).position(|other| *other == arm);
    position.unwrap_or(0) % SERIES_COLOURS + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-7.
    #[test]
    fn every_arm_has_a_line_through_all_its_steps() {
        let course = |arm: &str, medians: &[f64]| StepSeries {
            arm: arm.to_owned(),
            what: "alive".to_owned(),
            unit: String::new(),
            medians: medians.to_vec(),
        };
        let mut experiment: ExperimentResult = serde_json::from_str(
            r#"{"name":"x","title":"X","description":"","mechanism":"memory","mode":"deterministic","quick":true,"seed":1,
                "arms":[],"claims":[],"notes":[]}"#,
        )
        .unwrap();
        experiment.courses = vec![course("<none>", &[1.0, 2.0, 3.0]), course("brisk", &[1.0, f64::NAN, 9.0, 15.0])];
        for size in [Size::Narrow, Size::Wide] {
            let drawing = lines(&experiment, "alive", size, "id");
            // The legend of each has one more.
            assert_eq!(drawing.matches("class=\"median\"").count(), 2 + 2 + 3, "{drawing}");
            assert!(
                drawing.contains("brisk 15") && drawing.contains("&lt;none&gt;") && !drawing.contains("NaN"),
                "{drawing}"
            );
        }
        assert!(lines(&experiment, "nothing", Size::Wide, "id").starts_with("<svg"));
    }
}
