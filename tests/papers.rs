//! Each row of the papers names what exists: experiments, arms, metrics, points, claims.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use brisk::experiment::catalogue;
use brisk::experiment::claim::Claim;
use brisk::experiment::metric::Metric;
use brisk::experiment::plan::StepMetric;
use brisk::experiment::spec::Experiment;
use brisk::papers::built_in;
use brisk::papers::paper::{Paper, Row, Source};

use crate::paper_pages;
use crate::patience::{LONG_PATIENCE, OutputWithin};

fn experiments() -> Vec<Experiment> {
    catalogue::all().unwrap().into_iter().map(|entry| entry.experiment).collect()
}

/// What is wrong with `source`, a figure of `row`; nothing where it exists.
fn faults(row: &Row, source: &Source, is_method: bool, experiments: &[Experiment]) -> Vec<String> {
    let mut faults = Vec::new();
    let Some(experiment) = experiments.iter().find(|experiment| experiment.name == source.experiment) else {
        return vec![format!("no experiment {}", source.experiment)];
    };
    if experiment.arms.iter().all(|arm| arm.name != source.arm) {
        faults.push(format!("{} has no arm {}", experiment.name, source.arm));
    }
    let metric = Metric::ALL.into_iter().find(|metric| metric.name() == source.metric);
    let metric = metric.filter(|metric| metric.subject() == experiment.subject());
    if metric.is_none() {
        faults.push(format!("{} does not measure {}", experiment.name, source.metric));
    }
    let points: Vec<String> = experiment.points(false).iter().map(ToString::to_string).collect();
    match &source.point {
        None if points.len() > 1 => faults.push(format!("{} has several points: name one", experiment.name)),
        // Stands for a claim about all of them.
        Some(point) if point.is_empty() && source.claim.is_some() => {}
        Some(point) if !points.contains(point) => {
            faults.push(format!("{} has no point {point:?}; it has {points:?}", experiment.name));
        }
        _ => {}
    }
    let unit = match &source.claim {
        None if source.gain => "%",
        None => metric.map_or("", Metric::unit),
        Some(id) => match experiment.claims.iter().find(|claim| claim.id == *id) {
            None => {
                faults.push(format!("{} has no claim {id}", experiment.name));
                return faults;
            }
            Some(claim) => {
                if claim.arm.value != source.arm || Some(claim.metric) != metric {
                    faults.push(format!("{id} is about {} and {}", claim.arm.value, claim.metric.name()));
                }
                unit(claim)
            }
        },
    };
    if is_method && row.unit != unit {
        faults.push(format!("{:?} is in {unit:?}, not in {:?}", source.metric, row.unit));
    }
    faults
}

fn unit(claim: &Claim) -> &'static str {
    if claim.measure.is_percentage() { "%" } else { claim.metric.unit() }
}

/// Faults of all rows of `papers`, with the place of each.
fn all_faults(papers: &[Paper]) -> Vec<String> {
    let experiments = experiments();
    let mut found = Vec::new();
    for paper in papers {
        for part in &paper.parts {
            for row in &part.rows {
                let sources = [(&row.method, true), (&row.brisk, false)].into_iter();
                for (source, is_method) in sources.filter_map(|(source, is)| Some((source.as_ref()?, is))) {
                    let faults = faults(row, source, is_method, &experiments).into_iter();
                    found.extend(
                        faults.map(|fault| format!("{} {}: {}: {fault}", paper.name, part.label, row.what.value)),
                    );
                }
            }
            if let Some(course) = &part.course {
                let is_recorded = StepMetric::ALL.iter().any(|metric| metric.what().0 == course.what);
                let exists = experiments.iter().any(|experiment| experiment.name == course.experiment);
                if !is_recorded || !exists {
                    found.push(format!("{} {}: no course {course:?}", paper.name, part.label));
                }
            }
        }
    }
    found
}

// Verifies PROVE-8.
#[test]
fn what_the_papers_rows_name_exists() {
    assert_eq!(all_faults(&built_in::select(&[]).unwrap()), Vec::<String>::new());
}

#[test]
fn a_row_that_names_nothing_is_found() {
    let text = include_str!("../papers/lookup.toml");
    for (name, other, expected) in [
        ("experiment = \"lookup-list\"", "experiment = \"lookup-lists\"", "no experiment lookup-lists"),
        ("arm = \"transparent\"", "arm = \"clear\"", "has no arm clear"),
        ("metric = \"lookup mean\"", "metric = \"launch\"", "does not measure launch"),
        ("metric = \"lookup mean\"", "metric = \"miss\"", "is about paper and lookup mean"),
        ("claim = \"lookup.paper-gain\"", "claim = \"lookup.papers-gain\"", "has no claim lookup.papers-gain"),
        ("point = \"1 client\"", "point = \"3 clients\"", "has no point \"3 clients\""),
        ("point = \"boot\", ", "", "has several points"),
        ("unit = \"%\"\nmethod", "unit = \"us\"\nmethod", "not in \"us\""),
    ] {
        let wrong = Paper::parse("wrong", &text.replacen(name, other, 1)).unwrap();
        let found = all_faults(&[wrong]);
        assert!(found.iter().any(|fault| fault.contains(expected)), "{other}: {found:?}");
    }
    assert_eq!(all_faults(&[Paper::parse("right", text).unwrap()]), Vec::<String>::new());
}

// Verifies PROVE-8.
#[test]
fn the_books_pages_about_the_papers_are_up_to_date() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, made) in paper_pages::pages(repository).unwrap() {
        let kept = fs::read_to_string(repository.join(&file)).unwrap_or_default();
        let differs = kept.lines().zip(made.lines()).find(|(kept, made)| kept != made);
        assert!(kept == made, "run `cargo xtask evidence`: {file}; kept and made first differ in {differs:#?}");
    }
}

/// The paper's name is that of its mechanism, and the bibliography has its authors, title, year and venue.
#[test]
fn the_bibliography_has_the_same_papers() {
    let bibliography = include_str!("../docs/bibliography.md");
    for paper in built_in::select(&[]).unwrap() {
        let line = format!("{}: *{}*. {}.", paper.authors.join(", "), paper.title, paper.year);
        assert!(bibliography.contains(&line), "docs/bibliography.md has no {line:?}");
        assert!(bibliography.contains(&paper.venue), "docs/bibliography.md has no {:?}", paper.venue);
        assert!(paper.doi.is_none_or(|doi| bibliography.contains(&doi)));
    }
}

fn papers(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_brisk")).args(["prove", "papers"]).args(arguments).output_within(LONG_PATIENCE)
}

fn evidence() -> String {
    format!("{}/docs/evidence", env!("CARGO_MANIFEST_DIR"))
}

// Verifies PROVE-8.
#[test]
fn what_is_on_record_is_judged_without_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().to_str().unwrap();
    let judged = papers(&["boot", "lookup", "--from", &evidence(), "--json", "--output", output]);
    let json: serde_json::Value = serde_json::from_slice(&judged.stdout).unwrap();
    // The record changes; whatever it has, the exit code says.
    let has_refuted = String::from_utf8_lossy(&judged.stdout).contains("\"verdict\": \"not-reproduced\"");
    assert_eq!(judged.status.code(), Some(i32::from(has_refuted)), "{judged:?}");
    let names: Vec<&str> = json["papers"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["boot", "lookup"]);
    let page = fs::read_to_string(folder.path().join("papers.html")).unwrap();
    assert!(page.contains("An Improving Method of Android Boot Speed") && !page.contains("id=\"memory\""));

    let text = papers(&["lookup", "--from", &evidence(), "--output", output]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("paper: 52.9\u{a0}% less, on average") && text.contains(" rows of 1 paper: "), "{text}");
}

/// Another folder's proof.json is used alone, at any depth; a row that is refuted there is exit code 1.
// Verifies PROVE-8.
#[test]
fn a_proof_below_the_folder_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("2026-11-26T120000Z");
    fs::create_dir(&below).unwrap();
    fs::write(folder.path().join("costs.json"), "{}").unwrap();
    let mut proof = brisk::report::json::parse(include_str!("fixtures/proof.json")).unwrap();
    proof.experiments.truncate(1);
    let experiment = &mut proof.experiments[0];
    experiment.name = "lookup-list".to_owned();
    experiment.claims.truncate(1);
    let claim = &mut experiment.claims[0];
    (claim.id, claim.measured, claim.ci) = ("lookup.paper-gain".to_owned(), -3.0, [-4.0, -2.0]);
    fs::write(below.join("proof.json"), brisk::report::json::render(&proof)).unwrap();
    let path = folder.path().to_str().unwrap();
    let judged = papers(&["lookup", "--from", path, "--output", path]);
    let text = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(text.contains("not reproduced, because ten entries"), "{text}");
    assert_eq!(judged.status.code(), Some(1), "{judged:?}");
}

#[test]
fn what_cannot_be_judged_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let output = papers(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{arguments:?}: {said}");
    };
    refused(&["--from", path], "has no proof.json and no file of docs/evidence");
    refused(&["--from", "/nonexistent-folder"], "cannot read /nonexistent-folder");
    fs::write(folder.path().join("x.json"), "{").unwrap();
    refused(&["--from", path], "x.json is neither a proof.json");
    refused(&["lunch"], "there is no paper \"lunch\"; there are boot, launch");
    refused(&["--from", path, "--full"], "cannot be used with");
}
