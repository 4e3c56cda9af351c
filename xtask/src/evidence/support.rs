//! The README's table that says on which processor and kernel each mechanism was measured or tested: from tests/support.toml,
//! the experiments' scenarios and the record of runs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use brisk::experiment::spec::Experiment;
use brisk::lab::Scenario;
use serde::Deserialize;

use super::traceability::{self, Check, NOT_ON_RECORD, Record, Tier};

/// The file that has the table, between two comments.
pub const FILE: &str = "README.md";
const BEGIN: &str = "<!-- support: cargo xtask evidence -->\n";
const END: &str = "<!-- end of support -->\n";

const MECHANISMS: [&str; 5] = ["boot", "launch", "placement", "memory", "lookup"];

/// tests/support.toml
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Support {
    platform: Vec<Platform>,
}

/// A row of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    name: String,
    /// Debian's name of the architecture and the kernel's series, as scenarios have them; empty where no scenario is of it.
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    kernel: String,
    /// The mechanisms whose code is built for it.
    built: Vec<String>,
    /// By mechanism, the tests that ran on it, as `FILE::TEST`.
    #[serde(default)]
    tests: BTreeMap<String, Vec<String>>,
}

/// An experiment with a run on record.
struct Run {
    mechanism: String,
    architecture: String,
    kernel: String,
}

/// The README of `repository` with the table of today.
pub fn readme(repository: &Path) -> anyhow::Result<String> {
    let read = |file: &str| fs::read_to_string(repository.join(file)).with_context(|| format!("cannot read {file}"));
    let support: Support = toml::from_str(&read("tests/support.toml")?).context("tests/support.toml")?;
    let record = Record::read(repository)?;
    let table = table(&support, &runs(repository, &record)?, &traceability::checks(repository)?, &record)?;
    let text = read(FILE)?;
    let between = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = between.with_context(|| format!("{FILE} has no {BEGIN:?} and {END:?} around the table"))?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// The experiments that were run in the lab.
fn runs(repository: &Path, record: &Record) -> anyhow::Result<Vec<Run>> {
    let is_on_record = |run: &String| run != NOT_ON_RECORD;
    let mut runs = Vec::new();
    for (file, _) in record.measured.iter().filter(|(_, it)| [&it.quick, &it.full].into_iter().any(is_on_record)) {
        let text = fs::read_to_string(repository.join(file)).with_context(|| format!("cannot read {file}"))?;
        let experiment = Experiment::parse(file, &text)?;
        let Some(scenario) = &experiment.scenario else { continue };
        let kernel = Scenario::load(scenario)?.kernel;
        runs.extend(measured_mechanisms(&experiment).into_iter().map(|mechanism| Run {
            mechanism: mechanism.to_owned(),
            architecture: kernel.architecture.clone(),
            kernel: kernel.version.clone(),
        }));
    }
    Ok(runs)
}

/// The mechanism that an experiment is about; of all mechanisms together, those that an arm switches on.
fn measured_mechanisms(experiment: &Experiment) -> Vec<&str> {
    if MECHANISMS.contains(&experiment.mechanism.as_str()) {
        return vec![&experiment.mechanism];
    }
    let is_on =
        |mechanism: &str| experiment.arms.iter().filter_map(|arm| arm.brisk.as_ref()?.get(mechanism)).any(enables);
    MECHANISMS.into_iter().filter(|mechanism| is_on(mechanism)).collect()
}

/// True where `configuration`, or a table of it, has `enabled = true`.
fn enables(configuration: &toml::Value) -> bool {
    let is_enabled = configuration.get("enabled").and_then(toml::Value::as_bool) == Some(true);
    is_enabled || configuration.as_table().is_some_and(|table| table.values().any(enables))
}

fn table(support: &Support, runs: &[Run], checks: &[Check], record: &Record) -> anyhow::Result<String> {
    let mut table = format!("| | {} |\n|---{}|\n", MECHANISMS.join(" | "), "|---".repeat(MECHANISMS.len()));
    for platform in &support.platform {
        let named = platform.built.iter().chain(platform.tests.keys());
        for name in named {
            ensure!(MECHANISMS.contains(&name.as_str()), "{}: {name} is no mechanism", platform.name);
        }
        let _ = write!(table, "| {} |", platform.name);
        for mechanism in MECHANISMS {
            let _ = write!(table, " {} |", cell(platform, mechanism, runs, checks, record)?);
        }
        table.push('\n');
    }
    Ok(table)
}

fn cell(
    platform: &Platform,
    mechanism: &str,
    runs: &[Run],
    checks: &[Check],
    record: &Record,
) -> anyhow::Result<&'static str> {
    let is_here = |run: &&Run| (&run.architecture, &run.kernel) == (&platform.architecture, &platform.kernel);
    let mut is_tested = false;
    for test in platform.tests.get(mechanism).into_iter().flatten() {
        let found = checks.iter().find(|check| *test == format!("{}::{}", check.file, check.name));
        let found = found.with_context(|| format!("{}: there is no test {test}", platform.name))?;
        is_tested |= match found.tier {
            Tier::EachRun => true,
            _ => record.deep.get(test).is_some_and(|run| run != NOT_ON_RECORD),
        };
    }
    Ok(if runs.iter().filter(is_here).any(|run| run.mechanism == mechanism) {
        "measured"
    } else if is_tested {
        "tested"
    } else if platform.built.iter().any(|built| built == mechanism) {
        "built"
    } else {
        "not yet"
    })
}

#[cfg(test)]
mod tests {
    use brisk::experiment::catalogue;

    use super::*;

    fn made(platform: &str) -> anyhow::Result<String> {
        let support = toml::from_str(&format!("[[platform]]\n{platform}")).unwrap();
        let run = |mechanism: &str, kernel: &str| Run {
            mechanism: mechanism.to_owned(),
            architecture: "arm64".to_owned(),
            kernel: kernel.to_owned(),
        };
        let check = |tier, name: &str| Check {
            tier,
            file: "tests/a.rs".to_owned(),
            name: name.to_owned(),
            promises: Vec::new(),
        };
        let checks = [check(Tier::EachRun, "each"), check(Tier::Deep, "deep"), check(Tier::Deep, "never")];
        let record = toml::from_str(
            "advisories = \"\"\n[measured]\n[deep]\n\"tests/a.rs::deep\" = \"2026-01-01 abcdef0\"\n\
             \"tests/a.rs::never\" = \"not on record\"\n",
        );
        let runs = [run("launch", "6.1"), run("memory", "6.12")];
        Ok(table(&support, &runs, &checks, &record.unwrap())?.lines().last().unwrap().to_owned())
    }

    #[test]
    fn a_cell_says_the_strongest_of_what_ran() {
        let row = made(
            "name = \"board\"\narchitecture = \"arm64\"\nkernel = \"6.1\"\nbuilt = [\"launch\", \"placement\", \"memory\"]\n\
             tests = { launch = [\"tests/a.rs::each\"], placement = [\"tests/a.rs::each\"], memory = \
             [\"tests/a.rs::never\"], boot = [\"tests/a.rs::never\", \"tests/a.rs::deep\"] }",
        );
        assert_eq!(row.unwrap(), "| board | tested | measured | tested | built | not yet |");
        let row = made("name = \"other\"\nbuilt = []").unwrap();
        assert_eq!(row, "| other | not yet | not yet | not yet | not yet | not yet |");
    }

    #[test]
    fn an_experiment_with_all_mechanisms_measures_those_that_it_enables() {
        let known = catalogue::all().unwrap();
        let experiment = |name: &str| {
            let found = known.iter().find(|entry| entry.experiment.name == name);
            found.unwrap().experiment.clone()
        };
        let together = experiment("together");
        assert_eq!(measured_mechanisms(&together), ["launch", "placement", "memory", "lookup"]);
        let without = |arms: &[&str]| {
            let mut some = together.clone();
            some.arms.retain(|arm| arms.contains(&arm.name.as_str()));
            measured_mechanisms(&some).join(" ")
        };
        assert_eq!(["stock", "placement", "memory"].map(|arm| without(&[arm])), ["", "placement", "memory"]);
        assert_eq!(measured_mechanisms(&experiment("lookup-hub")), ["lookup"]);
    }

    #[test]
    fn unknown_tests_and_mechanisms_are_refused() {
        for (platform, expected) in [
            ("name = \"x\"\nbuilt = [\"lauch\"]", "lauch is no mechanism"),
            (
                "name = \"x\"\nbuilt = []\ntests = { memory = [\"tests/a.rs::none\"] }",
                "there is no test tests/a.rs::none",
            ),
        ] {
            let error = made(platform).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
