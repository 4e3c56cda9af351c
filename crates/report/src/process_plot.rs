//! Charts of the memory of each process in the course of an arm: a row for each, resident memory below what is on swap.

use super::figure;
use super::plot::Size;
use super::svg::{Anchor, Canvas, Caption, SMALL_SIZE};
use crate::proof::{ExperimentResult, ProcessSeries};

/// The height of a row, and of the largest memory in it.
const ROW: f64 = 26.0;
const HIGHEST: f64 = 22.0;
/// The width of the names left of the rows.
const LEFT: f64 = 72.0;

/// The rows of `arm`, for a page; `id` must be unique there.
pub fn rows(experiment: &ExperimentResult, arm: &str, size: Size, id: &str) -> String {
    let processes: Vec<&ProcessSeries> = experiment.processes.iter().filter(|process| process.arm == arm).collect();
    let mut canvas = Canvas::new(size.width());
    let largest = experiment.processes.iter().flat_map(total).fold(0.0, f64::max).max(1.0);
    let (left, right) = (LEFT, size.width() - 8.0);
    let steps = processes.iter().map(|process| process.resident_mib.len()).max().unwrap_or(0).max(1);
    let position = |step: usize| left + (right - left) * step as f64 / steps as f64;
    for (series, x, name) in [(1, left, "resident"), (2, left + 92.0, "on swap")] {
        canvas.group(&format!("series-{series}"), "", |canvas| {
            canvas.rectangle("bar", (x, 5.0), (12.0, 10.0), 0.0);
            canvas.text("small", Anchor::Start, (x + 18.0, 14.0), name);
        });
    }
    let full = format!("full height: {} MiB", figure::fixed(largest, 0));
    canvas.text("small", Anchor::End, (right, 14.0), &full);
    for (row, process) in processes.iter().enumerate() {
        let bottom = 20.0 + ROW * (row + 1) as f64;
        canvas.line("rule", (left, bottom), (right, bottom));
        canvas.text("small", Anchor::End, (left - 6.0, bottom - 4.0), &process.process);
        let peak = total(process).fold(0.0, f64::max);
        canvas.group("", &format!("{}: at most {} MiB", process.process, figure::fixed(peak, 1)), |canvas| {
            for (from, to, [resident, swapped]) in runs(process) {
                let (x, width) = (position(from), position(to) - position(from));
                let [resident, swapped] = [resident, swapped].map(|mib| mib / largest * HIGHEST);
                let mut bar = |series: usize, base: f64, height: f64| {
                    if height > 0.0 {
                        canvas.rectangle(&format!("bar series-{series}"), (x, base - height), (width, height), 0.0);
                    }
                };
                bar(1, bottom, resident);
                bar(2, bottom - resident, swapped);
            }
        });
    }
    let bottom = 20.0 + ROW * processes.len() as f64;
    for step in [0, steps / 3, 2 * steps / 3, steps - 1] {
        let middle = (position(step) + position(step + 1)) / 2.0;
        canvas.text("small", Anchor::Middle, (middle, bottom + 4.0 + SMALL_SIZE), &(step + 1).to_string());
    }
    let title = format!("{}, {arm}: memory of each process", experiment.title);
    let description = format!(
        "A row for each of {} processes over {steps} steps; the largest has {} MiB.",
        processes.len(),
        figure::fixed(largest, 0)
    );
    canvas.inline(size.class(), bottom + 24.0, Caption { id, title: &title, description: &description })
}

/// Resident and swapped memory together, step by step; zero for what is not a number.
fn total(process: &ProcessSeries) -> impl Iterator<Item = f64> {
    process
        .resident_mib
        .iter()
        .zip(&process.swapped_mib)
        .map(|(resident, swapped)| number(*resident) + number(*swapped))
}

fn number(mib: f64) -> f64 {
    if mib.is_finite() { mib.max(0.0) } else { 0.0 }
}

/// Steps in which neither figure changes by a tenth of a MiB, as one: from, to (exclusive), and both figures.
fn runs(process: &ProcessSeries) -> Vec<(usize, usize, [f64; 2])> {
    let mut runs: Vec<(usize, usize, [f64; 2])> = Vec::new();
    for (step, (&resident, &swapped)) in process.resident_mib.iter().zip(&process.swapped_mib).enumerate() {
        let figures = [number(resident), number(swapped)];
        match runs.last_mut() {
            Some((_, to, known)) if known.iter().zip(figures).all(|(known, it)| (*known - it).abs() < 0.1) => *to += 1,
            _ => runs.push((step, step + 1, figures)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies MEMORY-7.
    #[test]
    fn each_process_of_an_arm_has_a_row_of_its_memory() {
        let process = |arm: &str, process: &str, resident: &[f64], swapped: &[f64]| ProcessSeries {
            arm: arm.into(),
            process: process.into(),
            resident_mib: resident.to_vec(),
            swapped_mib: swapped.to_vec(),
        };
        let game = process("none", "<game>", &[40.0, 40.04, 20.0, 0.0, f64::NAN], &[0.0, 0.0, 20.0, 0.0, 1.0]);
        assert_eq!(runs(&game), [(0, 2, [40.0, 0.0]), (2, 3, [20.0, 20.0]), (3, 4, [0.0, 0.0]), (4, 5, [0.0, 1.0])]);
        let mut experiment: ExperimentResult = serde_json::from_str(
            r#"{"name":"x","title":"X","description":"","mechanism":"memory","mode":"deterministic","quick":true,"seed":1,
                "arms":[],"claims":[],"notes":[]}"#,
        )
        .unwrap();
        experiment.processes = vec![game, process("zram", "maps", &[10.0], &[0.0])];
        for size in [Size::Narrow, Size::Wide] {
            let drawing = rows(&experiment, "none", size, "id");
            // Two of the legend, and one for each run and kind of memory that is not zero.
            assert_eq!(drawing.matches("<rect").count(), 2 + 2 + 2, "{drawing}");
            assert!(drawing.contains("&lt;game&gt;: at most 40.0 MiB") && !drawing.contains("maps"), "{drawing}");
            assert!(!drawing.contains("NaN"), "{drawing}");
        }
        assert!(rows(&experiment, "nothing", Size::Wide, "id").starts_with("<svg"));
    }
}
