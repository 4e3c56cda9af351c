//! The chart's time axis: values of intervals are averaged into columns one unit wide, whatever the number of samples.

use super::model::Span;

/// Maps time to columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeScale {
    /// The time that is shown.
    pub span: Span,
    /// The x coordinate of its start.
    pub left: f64,
    /// The number of columns.
    pub width: usize,
}

impl TimeScale {
    /// The x coordinate of `time_ms`, clamped to the span.
    pub fn x_of(&self, time_ms: u32) -> f64 {
        self.left + self.column(time_ms)
    }

    fn column(&self, time_ms: u32) -> f64 {
        let after_ms = time_ms.clamp(self.span.start_ms, self.span.end_ms) - self.span.start_ms;
        f64::from(after_ms) * self.width as f64 / f64::from(self.span.length_ms().max(1))
    }

    /// Round times within the span and their labels, about `apart` columns from each other.
    pub fn ticks(&self, apart: f64) -> Vec<(u32, String)> {
        const STEPS_MS: [u32; 15] =
            [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000];
        let wanted_ms = f64::from(self.span.length_ms().max(1)) * apart / self.width as f64;
        let step_ms = STEPS_MS.iter().copied().find(|&step| f64::from(step) >= wanted_ms);
        let step_ms = step_ms.unwrap_or_else(|| (wanted_ms / 600_000.0).ceil() as u32 * 600_000).max(1);
        let first = self.span.start_ms.div_ceil(step_ms) * step_ms;
        let label = |ms: u32| match step_ms {
            small if small < 1000 => format!("{:.*}", if small < 100 { 2 } else { 1 }, f64::from(ms) / 1000.0),
            _ if self.span.end_ms >= 120_000 => format!("{}:{:02}", ms / 60_000, ms / 1000 % 60),
            _ => (ms / 1000).to_string(),
        };
        (0..)
            .map_while(|index: u32| first.checked_add(index.checked_mul(step_ms)?).filter(|ms| *ms <= self.span.end_ms))
            .map(|ms| (ms, label(ms)))
            .collect()
    }
}

/// Values over time, summed for each column.
#[derive(Debug, Clone)]
pub struct Columns {
    scale: TimeScale,
    sums: Vec<f32>,
}

impl Columns {
    /// All zero.
    pub fn new(scale: TimeScale) -> Self {
        Self { scale, sums: vec![0.0; scale.width] }
    }

    /// Adds `value` during `span`.
    pub fn add(&mut self, span: Span, value: f32) {
        let (from, to) = (self.scale.column(span.start_ms), self.scale.column(span.end_ms));
        let last = self.sums.len().saturating_sub(1);
        let (first_column, last_column) = ((from as usize).min(last), (to as usize).min(last));
        if first_column == last_column {
            self.sums[first_column] += value * (to - from) as f32;
            return;
        }
        self.sums[first_column] += value * (first_column as f64 + 1.0 - from) as f32;
        self.sums[first_column + 1..last_column].iter_mut().for_each(|sum| *sum += value);
        self.sums[last_column] += value * (to - last_column as f64) as f32;
    }

    /// The average of each column.
    pub fn values(&self) -> &[f32] {
        &self.sums
    }

    /// Resets all sums to zero.
    pub fn clear(&mut self) {
        self.sums.fill(0.0);
    }
}

/// Runs of equal values: the first column, the column after the last, and the value.
pub fn runs<T: PartialEq + Copy>(values: impl IntoIterator<Item = T>) -> impl Iterator<Item = (usize, usize, T)> {
    let mut values = values.into_iter().enumerate().peekable();
    std::iter::from_fn(move || {
        let (start, value) = values.next()?;
        let mut end = start + 1;
        while values.next_if(|(_, next)| *next == value).is_some() {
            end += 1;
        }
        Some((start, end, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_do_not_depend_on_the_sampling() {
        for (width, length_ms, step_ms) in [(10, 1000, 7), (1000, 500, 200), (100, 100, 100), (7, 50_000, 3)] {
            let scale = TimeScale { span: Span { start_ms: 300, end_ms: 300 + length_ms }, left: 9.0, width };
            let mut columns = Columns::new(scale);
            for start_ms in (300..300 + length_ms).step_by(step_ms) {
                columns.add(Span { start_ms, end_ms: (start_ms + step_ms as u32).min(300 + length_ms) }, 0.5);
            }
            for value in columns.values() {
                assert!((value - 0.5).abs() < 0.01, "{width} {length_ms} {step_ms}: {value}");
            }
        }
    }

    #[test]
    fn spans_outside_the_scale_are_clamped() {
        let scale = TimeScale { span: Span { start_ms: 100, end_ms: 200 }, left: 0.0, width: 10 };
        let mut columns = Columns::new(scale);
        columns.add(Span { start_ms: 0, end_ms: 150 }, 1.0);
        columns.add(Span { start_ms: 500, end_ms: 600 }, 1.0);
        assert_eq!(columns.values(), [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let ticks = |start_ms, end_ms| {
            let scale = TimeScale { span: Span { start_ms, end_ms }, left: 0.0, width: 1000 };
            scale.ticks(90.0).into_iter().map(|(_, label)| label).collect::<Vec<_>>()
        };
        assert_eq!(ticks(1540, 12_000), ["2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"]);
        assert_eq!(ticks(0, 600_000)[..3], ["0:00", "1:00", "2:00"]);
        assert_eq!(ticks(0, 900)[..3], ["0.0", "0.1", "0.2"]);
        assert_eq!(ticks(5, 5), Vec::<String>::new());
        assert!(ticks(0, u32::MAX).len() < 14);
    }

    #[test]
    fn equal_neighbours_form_one_run() {
        assert_eq!(runs([1, 1, 2, 1]).collect::<Vec<_>>(), [(0, 2, 1), (2, 3, 2), (3, 4, 1)]);
    }
}
