//! Keeps the evidence: `tests/evidence.toml`, the day and commit at which each deep test last passed and each experiment was
//! last run; docs/evidence, what experiments measured; and docs/traceability.md, docs/papers and a table of README.md, which are
//! generated from the sources, from papers/ and from these.

mod measured;
#[cfg(feature = "lab")]
mod paper_pages;
mod support;
mod traceability;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use brisk::report::json;
use brisk::report::proof::{ExperimentResult, Proof};

use measured::Measured;

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
const RECORD: &str = "tests/evidence.toml";
const TRACEABILITY: &str = "docs/traceability.md";

/// The runs to record; the generated documents are written in any case.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The output of `cargo test`
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
    /// The proof.json of `brisk prove`: full runs are kept in docs/evidence
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    /// The commit that was run, where it is not the one that is checked out
    #[arg(long)]
    commit: Option<String>,
    /// No advisory of the database of DAY is open against a dependency
    #[arg(long, value_name = "DAY")]
    advisories: Option<String>,
}

/// Records runs, and writes the documents that depend on them.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let repository = Path::new(REPOSITORY);
    let day = output("date", &["+%F"])?;
    let commit = match &arguments.commit {
        Some(commit) => commit.clone(),
        None => output("git", &["rev-parse", "--short=9", "HEAD"])?,
    };
    let when = format!("{day} {commit}");
    let mut record = read(&repository.join(RECORD))?;
    if let Some(path) = &arguments.tests {
        record = with_tests(&record, &read(path)?, &when);
    }
    if let Some(path) = &arguments.proof {
        let proof = json::parse(&read(path)?)
            .with_context(|| format!("{} is no proof: brisk prove writes proof.json", path.display()))?;
        for experiment in &proof.experiments {
            record = with_experiment(&record, &experiment.name, experiment.quick, &when)?;
            if !experiment.quick {
                write_evidence(&repository.join(measured::FOLDER), &measured(&proof, experiment, &commit)?)?;
            }
        }
    }
    if let Some(day) = &arguments.advisories {
        record = with_advisories(&record, &format!("{day} {commit}"));
    }
    write(&repository.join(RECORD), &record)?;
    #[cfg(feature = "lab")]
    for (file, page) in paper_pages::pages(repository)? {
        write(&repository.join(file), &page)?;
    }
    write(&repository.join(support::FILE), &support::readme(repository)?)?;
    write(&repository.join(TRACEABILITY), &traceability::document(repository)?)
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn write_evidence(folder: &Path, measured: &Measured) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(measured)?;
    write(&folder.join(format!("{}.json", measured.experiment)), &(text + "\n"))
}

/// What is kept of a full run.
fn measured(proof: &Proof, experiment: &ExperimentResult, commit: &str) -> anyhow::Result<Measured> {
    if let Some(failure) = &experiment.failure {
        bail!("{} did not finish: {}", experiment.name, failure.reason);
    }
    Ok(Measured::of(proof, experiment, commit))
}

fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output().with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn with_advisories(record: &str, when: &str) -> String {
    let edited = |line: &str| match line.strip_prefix("advisories = ") {
        Some(_) => format!("advisories = \"{when}\"\n"),
        None => format!("{line}\n"),
    };
    record.lines().map(edited).collect()
}

/// `record` with `when` for each test that passed.
fn with_tests(record: &str, printed: &str, when: &str) -> String {
    let passed = |test: &str| printed.lines().any(|line| line == format!("test {test} ... ok"));
    edit(record, |key| {
        let (file, name) = key.split_once("::")?;
        let path = file.strip_prefix("tests/").or(file.split_once("src/").map(|(_, path)| path))?;
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let names = [format!("{module}::{name}"), format!("{module}::tests::{name}")];
        names.iter().any(|name| passed(name)).then(|| format!("\"{when}\""))
    })
}

fn with_experiment(record: &str, name: &str, quick: bool, when: &str) -> anyhow::Result<String> {
    let wanted = format!("experiments/{name}.toml");
    let form = if quick { "quick" } else { "full" };
    let Some(line) = record.lines().find(|line| line.starts_with(&format!("\"{wanted}\""))) else {
        bail!("{RECORD} has no {wanted}");
    };
    let (before, rest) = line.split_once(&format!("{form} = \"")).with_context(|| format!("{wanted} has no {form}"))?;
    let (_, after) = rest.split_once('"').context("a quote ends the value")?;
    let (_, value) = before.split_once(" = ").context("a value follows the key")?;
    let value = format!("{value}{form} = \"{when}\"{after}");
    Ok(edit(record, |key| (key == wanted).then(|| value.clone())))
}

/// `record` with each value replaced by that of `value_of`, where it gives one for the key.
fn edit(record: &str, value_of: impl Fn(&str) -> Option<String>) -> String {
    let edited = |line: &str| {
        let key = line.strip_prefix('"').and_then(|rest| Some(rest.split_once("\" = ")?.0));
        match key.and_then(|key| Some((key, value_of(key)?))) {
            Some((key, value)) => format!("\"{key}\" = {value}\n"),
            None => format!("{line}\n"),
        }
    };
    record.lines().map(edited).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk::report::proof::{Failure, FailureOf};

    const RECORD: &str = "\
# why
[deep]
\"tests/lab/mod.rs::a\" = \"not on record\"
\"tests/lab/undo/mod.rs::b\" = \"2026-01-01 0000000\"
\"crates/chart/src/a.rs::c\" = \"2026-01-01 0000000\"

[measured]
\"experiments/launch.toml\" = { quick = \"not on record\", full = \"not on record\" }
";

    #[test]
    fn tests_that_passed_get_the_day() {
        let printed = "test lab::a ... ok\ntest lab::undo::b ... FAILED\ntest lab::undo::b has been running\n\
                       test a::tests::c ... ok\n";
        let record = with_tests(RECORD, printed, "2026-11-23 abcdef0");
        let expected = RECORD.replacen("not on record", "2026-11-23 abcdef0", 1);
        let expected = expected.replace("c\" = \"2026-01-01 0000000", "c\" = \"2026-11-23 abcdef0");
        assert_eq!(record, expected);
    }

    #[test]
    fn experiments_get_the_day_of_their_form() {
        let quick = with_experiment(RECORD, "launch", true, "2026-11-23 abcdef0").unwrap();
        assert!(quick.contains("{ quick = \"2026-11-23 abcdef0\", full = \"not on record\" }"), "{quick}");
        let both = with_experiment(&quick, "launch", false, "2026-11-24 abcdef1").unwrap();
        assert!(both.contains("{ quick = \"2026-11-23 abcdef0\", full = \"2026-11-24 abcdef1\" }"), "{both}");
        assert!(with_experiment(RECORD, "none", true, "x").is_err());
        let checked = with_advisories(&format!("advisories = \"not on record\"\n{RECORD}"), "2026-11-23 abcdef0");
        assert_eq!(checked, format!("advisories = \"2026-11-23 abcdef0\"\n{RECORD}"));
    }

    #[test]
    fn a_full_run_is_kept_as_figures_without_samples() {
        let proof = json::parse(include_str!("../../../tests/fixtures/proof.json")).unwrap();
        let experiment = &proof.experiments[0];
        let kept = measured(&proof, experiment, "abcdef0").unwrap();
        assert_eq!((kept.series.len(), kept.claims.len()), (experiment.arms.len(), experiment.claims.len()));
        assert_eq!(kept.series[0].count, experiment.arms[0].samples.len());
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(measured::FOLDER)).unwrap();
        write_evidence(&folder.path().join(measured::FOLDER), &kept).unwrap();
        assert_eq!(measured::read_all(folder.path()).unwrap()[&experiment.name], kept);

        let failure = Failure { of: FailureOf::Lab, reason: "no mirror".to_owned() };
        let failed = ExperimentResult { failure: Some(failure), ..experiment.clone() };
        assert!(measured(&proof, &failed, "abcdef0").unwrap_err().to_string().contains("no mirror"));
    }
}
