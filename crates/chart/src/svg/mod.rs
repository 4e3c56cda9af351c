//! The chart as one SVG: a summary, then the paper's three parts (CPU and I/O wait, disks, processes), with each CPU and its
//! frequency. Its width is that of a screen; its height depends on the rows, not on the boot's length.

mod panels;
mod sheet;
mod summary;
mod tree;

use std::fmt::Write as _;

use super::columns::TimeScale;
use super::diagnose::{self, Diagnosis};
use super::model::Boot;
use super::{fold, summary as words};
use brisk_report::svg::escape;
use sheet::Sheet;

/// The style of charts, shared with the HTML page.
pub const STYLE: &str = include_str!("../../templates/chart.css");

/// The width of the chart.
const WIDTH: f64 = 1320.0;
/// Names are left of this.
const LEFT: f64 = 270.0;
/// Columns of time; figures are right of them.
const COLUMNS: usize = 960;
/// The approximate number of rows of the process tree.
const MAX_ROWS: usize = 110;
const MARGIN: f64 = 20.0;

/// Draws `boot`.
pub fn render(boot: &Boot) -> String {
    render_with(boot, &diagnose::diagnose(boot))
}

fn render_with(boot: &Boot, diagnosis: &Diagnosis) -> String {
    let scale = TimeScale { span: boot.span, left: LEFT, width: COLUMNS };
    let mut sheet = Sheet::new(scale);
    let mut y = summary::draw(&mut sheet, boot, diagnosis, MARGIN);
    let top = y;
    y = panels::cpu(&mut sheet, boot, y);
    y = panels::cores(&mut sheet, boot, y);
    y = panels::disks(&mut sheet, boot, y);
    y = panels::pressures(&mut sheet, boot, y);
    let rows = fold::rows(boot, MAX_ROWS);
    y = tree::draw(&mut sheet, boot, &rows, y);
    sheet.grid(top, y, diagnosis.done_ms);
    y = summary::footer(&mut sheet, boot, y + 28.0);
    document(&sheet, boot, diagnosis, y)
}

fn document(sheet: &Sheet, boot: &Boot, diagnosis: &Diagnosis, height: f64) -> String {
    let height = height.ceil();
    let title = escape(&words::title(boot));
    let description = escape(&words::facts(boot, diagnosis).join("; "));
    let mut text = String::with_capacity(sheet.under.len() + sheet.over.len() + STYLE.len() + 1024);
    // Writing to a String cannot fail.
    let _ = write!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" role=\"img\" aria-labelledby=\"chart-title chart-description\">\
         <title id=\"chart-title\">{title}</title><desc id=\"chart-description\">{description}</desc>\n\
         <style>{STYLE}</style>\n<rect class=\"ground\" width=\"{WIDTH}\" height=\"{height}\"/>\n"
    );
    text.push_str(&sheet.under);
    text.push_str(&sheet.over);
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests;
