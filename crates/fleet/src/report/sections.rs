//! A section of the page for each question: a drawing, and a table by model.

use brisk_report::figure;

use super::plot::{Estimate, Estimates, MOST_ROWS};
use super::words::{self, Direction};
use crate::answers::{Answers, Boots, Change, Claimed, Kills, Loss, Switched};
use crate::question::{self, Question};

/// A question with its answer.
pub struct Section {
    pub question: Question,
    pub method: String,
    pub seconds: Option<String>,
    /// Drawings: wide, narrow, and what they show.
    pub drawings: Vec<(String, String, String)>,
    pub columns: &'static [Column],
    pub groups: Vec<Group>,
}

/// The heading of a column, and whether it has numbers.
pub type Column = (&'static str, bool);

/// The rows of a model, which unfold.
pub struct Group {
    pub name: String,
    /// What its rows show, in a few words.
    pub gist: String,
    pub rows: Vec<Vec<String>>,
}

/// All sections, in the order of the questions.
pub fn all(answers: &Answers) -> Vec<Section> {
    vec![changes(answers), boots(answers), losses(answers), kills(answers), switched(answers), claims(answers)]
}

fn section(answers: &Answers, name: &'static str, columns: &'static [Column]) -> Section {
    // The names are those of the table of questions.
    let question = question::find(name).unwrap_or(question::ALL[0]);
    let seconds = answers.seconds.get(name).map(|seconds| figure::with_unit(*seconds, [f64::NAN; 2], "s"));
    Section { question, method: question.method(), seconds, drawings: Vec::new(), columns, groups: Vec::new() }
}

impl Section {
    fn draw(&mut self, title: &str, unit: &'static str, rows: Vec<Estimate>) {
        let left_out = rows.len().saturating_sub(MOST_ROWS);
        let id = format!("{}-{}", self.question.name.replace('_', "-"), self.drawings.len());
        let drawing = Estimates { title: title.to_owned(), unit, rows };
        if let Some([wide, narrow]) = drawing.draw(&id) {
            let rest = if left_out > 0 { format!(" {left_out} more are in the table.") } else { String::new() };
            self.drawings.push((wide, narrow, format!("{title}, with 95 % intervals over devices.{rest}")));
        }
    }

    /// Folds `rows` by their names, in the order of their first rows.
    fn fold<Row>(&mut self, rows: &[Row], name: fn(&Row) -> &str, cells: fn(&Row) -> Vec<String>) {
        for row in rows {
            let name = name(row);
            match self.groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.rows.push(cells(row)),
                None => {
                    let (name, rows) = (name.to_owned(), vec![cells(row)]);
                    self.groups.push(Group { name, gist: String::new(), rows });
                }
            }
        }
        for group in &mut self.groups {
            group.gist = match group.rows.len() {
                1 => "1 row".to_owned(),
                many => format!("{many} rows"),
            };
        }
    }
}

fn both(low: Option<f64>, high: Option<f64>) -> Option<[f64; 2]> {
    Some([low?, high?])
}

fn number(value: Option<f64>, interval: Option<[f64; 2]>, unit: &str) -> String {
    figure::with_unit(value.unwrap_or(f64::NAN), interval.unwrap_or([f64::NAN; 2]), unit)
}

fn interval(value: Option<f64>, interval: Option<[f64; 2]>, unit: &str) -> String {
    figure::interval(value.unwrap_or(f64::NAN), interval.unwrap_or([f64::NAN; 2]), unit)
}

fn probability(value: f64) -> String {
    if value < 1e-4 { "< 0.0001".to_owned() } else { figure::fixed(value, 4) }
}

fn changes(answers: &Answers) -> Section {
    const COLUMNS: &[Column] = &[
        ("Build", false),
        ("Compared with", false),
        ("What", false),
        ("Devices", true),
        ("Longer by", true),
        ("Interval", true),
        ("p", true),
        ("q", true),
        ("Verdict", false),
    ];
    let cells = |row: &Change| {
        let ends = [row.low_percent, row.high_percent];
        let verdict = match row.direction() {
            Direction::Slower => "slower",
            Direction::Faster => "faster",
            Direction::Same => "not told apart",
        };
        vec![
            row.build.clone(),
            row.previous.clone(),
            if row.metric == "boot" { "boots" } else { "launches" }.to_owned(),
            row.devices.to_string(),
            figure::change(row.change_percent, ends),
            figure::interval(row.change_percent, ends, "%"),
            probability(row.p),
            probability(row.q),
            verdict.to_owned(),
        ]
    };
    let mut section = section(answers, "regressions", COLUMNS);
    for (metric, title) in
        [("launch", "Launches: change by build and model"), ("boot", "Boots: change by build and model")]
    {
        let rows = || answers.changes.iter().filter(|row| row.metric == metric);
        let estimates = rows().map(|row| Estimate {
            label: match rows().filter(|other| (&other.model, &other.build) == (&row.model, &row.build)).count() {
                1 => format!("{} {}", row.model, row.build),
                // Devices that skipped a build come from another one.
                _ => format!("{} {} after {}", row.model, row.build, row.previous),
            },
            value: row.change_percent,
            interval: Some([row.low_percent, row.high_percent]),
            series: match row.direction() {
                Direction::Slower => 2,
                Direction::Faster => 3,
                Direction::Same => 0,
            },
        });
        section.draw(title, "%", estimates.collect());
    }
    section.fold(&answers.changes, |row| &row.model, cells);
    for group in &mut section.groups {
        let slower = group.rows.iter().filter(|cells| cells.last().is_some_and(|verdict| verdict == "slower")).count();
        group.gist = format!("{} comparisons, {slower} slower", group.rows.len());
    }
    section
}

fn boots(answers: &Answers) -> Section {
    const COLUMNS: &[Column] = &[
        ("Build", false),
        ("Devices", true),
        ("Boots", true),
        ("Length", true),
        ("Interval", true),
        ("Kernel", true),
        ("At full speed", true),
    ];
    let mut section = section(answers, "boots", COLUMNS);
    let estimates = answers.boots.iter().map(|row| Estimate {
        label: format!("{} {}", row.model, row.build),
        value: row.length_ms,
        interval: both(row.low_ms, row.high_ms),
        series: 1,
    });
    section.draw("Length of a boot by model and build", "ms", estimates.collect());
    let cells = |row: &Boots| {
        let ends = both(row.low_ms, row.high_ms);
        vec![
            row.build.clone(),
            row.devices.to_string(),
            row.boots.to_string(),
            number(Some(row.length_ms), ends, "ms"),
            interval(Some(row.length_ms), ends, "ms"),
            number(row.kernel_ms, None, "ms"),
            number(row.held_percent, None, "%"),
        ]
    };
    section.fold(&answers.boots, |row| &row.model, cells);
    section
}

fn losses(answers: &Answers) -> Section {
    const COLUMNS: &[Column] = &[
        ("Governor", false),
        ("Boosted", false),
        ("Devices", true),
        ("Launches", true),
        ("Loss unknown", true),
        ("Length", true),
        ("Loss", true),
        ("Share", true),
        ("Interval", true),
    ];
    let mut section = section(answers, "launch_loss", COLUMNS);
    let estimates = answers.losses.iter().filter_map(|row| {
        let boost = if row.boosted { ", boosted" } else { "" };
        let label = format!("{} {}{boost}", row.model, row.governor);
        let series = if row.boosted { 1 } else { 2 };
        Some(Estimate { label, value: row.loss_percent?, interval: both(row.low_percent, row.high_percent), series })
    });
    section.draw("Loss in percent of a launch by model and governor", "%", estimates.collect());
    let cells = |row: &Loss| {
        let ends = both(row.low_percent, row.high_percent);
        vec![
            row.governor.clone(),
            if row.boosted { "yes" } else { "no" }.to_owned(),
            row.devices.to_string(),
            row.launches.to_string(),
            row.unknown.to_string(),
            number(row.length_ms, None, "ms"),
            number(row.loss_ms, None, "ms"),
            number(row.loss_percent, ends, "%"),
            interval(row.loss_percent, ends, "%"),
        ]
    };
    section.fold(&answers.losses, |row| &row.model, cells);
    section
}

fn kills(answers: &Answers) -> Section {
    const COLUMNS: &[Column] = &[
        ("Memory", false),
        ("Devices", true),
        ("Hours", true),
        ("Kills", true),
        ("Of the foreground", true),
        ("In 100 hours", true),
        ("Interval", true),
        ("Returned", true),
    ];
    let mut section = section(answers, "kills", COLUMNS);
    let estimates = answers.kills.iter().map(|row| Estimate {
        label: words::memory(row.memory_mib),
        value: row.kills_in_100_hours,
        interval: both(row.low, row.high),
        series: 4,
    });
    section.draw("Kills in 100 hours by memory", "", estimates.collect());
    let cells = |row: &Kills| {
        let ends = both(row.low, row.high);
        let returned = row.freed_kib.map(|kib| (kib, figure::scale("KiB", kib)));
        vec![
            words::memory(row.memory_mib),
            row.devices.to_string(),
            figure::fixed(row.hours, 0),
            row.kills.to_string(),
            row.foreground_kills.to_string(),
            number(Some(row.kills_in_100_hours), ends, ""),
            interval(Some(row.kills_in_100_hours), ends, ""),
            returned.map_or_else(
                || figure::UNAVAILABLE.to_owned(),
                |(kib, scaled)| figure::with_unit(kib * scaled.factor, [f64::NAN; 2], &scaled.unit),
            ),
        ]
    };
    section.fold(&answers.kills, |_| "All sizes", cells);
    section
}

fn switched(answers: &Answers) -> Section {
    const COLUMNS: &[Column] =
        &[("Mechanism", false), ("Devices", true), ("Launches", true), ("Longer by", true), ("Interval", true)];
    let mut section = section(answers, "switched_on", COLUMNS);
    let estimates = answers.switched.iter().map(|row| Estimate {
        label: format!("{} on {}", row.mechanism, row.model),
        value: row.change_percent,
        interval: both(row.low_percent, row.high_percent),
        series: 1,
    });
    section.draw("Change of launches since a mechanism was switched on", "%", estimates.collect());
    let cells = |row: &Switched| {
        let ends = both(row.low_percent, row.high_percent);
        vec![
            row.mechanism.clone(),
            row.devices.to_string(),
            row.launches.to_string(),
            figure::change(row.change_percent, ends.unwrap_or([f64::NAN; 2])),
            interval(Some(row.change_percent), ends, "%"),
        ]
    };
    section.fold(&answers.switched, |row| &row.model, cells);
    section
}

/// Without a drawing: each claim has a unit of its own.
fn claims(answers: &Answers) -> Section {
    const COLUMNS: &[Column] = &[
        ("Claim", false),
        ("Form", false),
        ("Build", false),
        ("Required", false),
        ("Devices", true),
        ("Shown on", true),
        ("Refuted on", true),
        ("Measured", true),
        ("Interval", true),
    ];
    let mut section = section(answers, "claims", COLUMNS);
    let cells = |row: &Claimed| {
        let ends = both(row.low, row.high);
        vec![
            row.claim.clone(),
            if row.quick { "quick" } else { "full" }.to_owned(),
            row.build.clone(),
            row.required.clone(),
            row.devices.to_string(),
            row.shown.to_string(),
            row.not_shown.to_string(),
            number(row.measured, ends, &row.unit),
            interval(row.measured, ends, &row.unit),
        ]
    };
    section.fold(&answers.claims, |row| &row.model, cells);
    for group in &mut section.groups {
        let of_model = || answers.claims.iter().filter(|row| row.model == group.name);
        let refuted = of_model().filter(|row| row.not_shown > 0).count();
        group.gist = format!("refuted on a device: {refuted} of {}", of_model().count());
    }
    section
}
