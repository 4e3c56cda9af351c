//! Keeps `tests/evidence.toml`: the day and commit at which each deep test last passed and each experiment was last run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};
use serde::Deserialize;

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/evidence.toml");

/// What to read.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Arguments {
    /// What `cargo test` printed
    #[arg(long, value_name = "FILE")]
    tests: Option<PathBuf>,
    /// What `brisk prove --json` printed
    #[arg(long, value_name = "FILE")]
    proof: Option<PathBuf>,
    /// No advisory of the database of DAY is open against a dependency
    #[arg(long, value_name = "DAY")]
    advisories: Option<String>,
}

#[derive(Deserialize)]
struct Proof {
    experiments: Vec<Experiment>,
}

#[derive(Deserialize)]
struct Experiment {
    name: String,
    quick: bool,
}

/// Enters today's runs.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let day = output("date", &["+%F"])?;
    let commit = output("git", &["rev-parse", "--short=9", "HEAD"])?;
    let when = format!("{day} {commit}");
    let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()));
    let mut record = read(Path::new(RECORD))?;
    if let Some(path) = &arguments.tests {
        record = with_tests(&record, &read(path)?, &when);
    }
    if let Some(path) = &arguments.proof {
        let proof: Proof = serde_json::from_str(&read(path)?)
            .with_context(|| format!("{} is no proof: brisk prove --json prints one", path.display()))?;
        for experiment in &proof.experiments {
            record = with_experiment(&record, experiment, &when)?;
        }
    }
    if let Some(day) = &arguments.advisories {
        record = with_advisories(&record, &format!("{day} {commit}"));
    }
    fs::write(RECORD, record).with_context(|| format!("cannot write {RECORD}"))
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
        let path = file.strip_prefix("tests/").or(file.strip_prefix("src/"))?;
        let module = path.trim_end_matches(".rs").trim_end_matches("/mod").replace('/', "::");
        let names = [format!("{module}::{name}"), format!("{module}::tests::{name}")];
        names.iter().any(|name| passed(name)).then(|| format!("\"{when}\""))
    })
}

fn with_experiment(record: &str, experiment: &Experiment, when: &str) -> anyhow::Result<String> {
    let wanted = format!("experiments/{}.toml", experiment.name);
    let form = if experiment.quick { "quick" } else { "full" };
    let Some(line) = record.lines().find(|line| line.starts_with(&format!("\"{wanted}\""))) else {
        bail!("tests/evidence.toml has no {wanted}");
    };
    let (before, rest) = line.split_once(&format!("{form} = \"")).with_context(|| format!("{wanted} has no {form}"))?;
    let (_, after) = rest.split_once('"').context("a quote ends the value")?;
    let (_, value) = before.split_once(" = ").context("a value follows the key")?;
    let value = format!("{value}{form} = \"{when}\"{after}");
    Ok(edit(record, |key| (key == wanted).then(|| value.clone())))
}

/// `record` with the value that `value_of` gives for a key in place of the present one.
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

    const RECORD: &str = "\
# why
[deep]
\"tests/lab/mod.rs::a\" = \"not on record\"
\"tests/lab/undo.rs::b\" = \"2026-01-01 0000000\"
\"src/chart/a.rs::c\" = \"2026-01-01 0000000\"

[measured]
\"experiments/launch.toml\" = { quick = \"not on record\", full = \"not on record\" }
";

    #[test]
    fn tests_that_passed_get_the_day() {
        let printed = "test lab::a ... ok\ntest lab::undo::b ... FAILED\ntest lab::undo::b has been running\n\
                       test chart::a::tests::c ... ok\n";
        let record = with_tests(RECORD, printed, "2026-11-23 abcdef0");
        let expected = RECORD.replacen("not on record", "2026-11-23 abcdef0", 1);
        let expected = expected.replace("c\" = \"2026-01-01 0000000", "c\" = \"2026-11-23 abcdef0");
        assert_eq!(record, expected);
    }

    #[test]
    fn experiments_get_the_day_of_their_form() {
        let experiment = |name: &str, quick| Experiment { name: name.into(), quick };
        let quick = with_experiment(RECORD, &experiment("launch", true), "2026-11-23 abcdef0").unwrap();
        assert!(quick.contains("{ quick = \"2026-11-23 abcdef0\", full = \"not on record\" }"), "{quick}");
        let both = with_experiment(&quick, &experiment("launch", false), "2026-11-24 abcdef1").unwrap();
        assert!(both.contains("{ quick = \"2026-11-23 abcdef0\", full = \"2026-11-24 abcdef1\" }"), "{both}");
        assert!(with_experiment(RECORD, &experiment("none", true), "x").is_err());
        let checked = with_advisories(&format!("advisories = \"not on record\"\n{RECORD}"), "2026-11-23 abcdef0");
        assert_eq!(checked, format!("advisories = \"2026-11-23 abcdef0\"\n{RECORD}"));
    }
}
