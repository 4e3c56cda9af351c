//! The built-in experiments, and how the user names them.

use std::path::Path;

use super::spec::{Experiment, SpecError};
use brisk_report::proof::Timekeeping;

/// By name, in the order in which they run and a report shows them: all mechanisms together, then each by itself.
const EXPERIMENTS: &[&[(&str, &str)]] = &[
    #[cfg(feature = "lab")]
    LAB_EXPERIMENTS,
    DEVICE_EXPERIMENTS,
];

const DEVICE_EXPERIMENTS: &[(&str, &str)] = &[
    ("memory-here", include_str!("../../../experiments/memory-here.toml")),
    ("launch-here", include_str!("../../../experiments/launch-here.toml")),
    ("boot-here", include_str!("../../../experiments/boot-here.toml")),
];

/// Experiments that a device's binary does not carry: those of the lab, and one whose combinations need its programs.
#[cfg(feature = "lab")]
const LAB_EXPERIMENTS: &[(&str, &str)] = &[
    ("together", include_str!("../../../experiments/together.toml")),
    ("together-slow", include_str!("../../../experiments/together-slow.toml")),
    ("together-parallel", include_str!("../../../experiments/together-parallel.toml")),
    ("together-android", include_str!("../../../experiments/together-android.toml")),
    ("boot-preload", include_str!("../../../experiments/boot-preload.toml")),
    ("boot-bursts", include_str!("../../../experiments/boot-bursts.toml")),
    ("boot-paper", include_str!("../../../experiments/boot-paper.toml")),
    ("boot-heavy", include_str!("../../../experiments/boot-heavy.toml")),
    ("launch-paper", include_str!("../../../experiments/launch-paper.toml")),
    ("launch-idle", include_str!("../../../experiments/launch-idle.toml")),
    ("launch-gap", include_str!("../../../experiments/launch-gap.toml")),
    ("launch-energy", include_str!("../../../experiments/launch-energy.toml")),
    ("launch-schedutil", include_str!("../../../experiments/launch-schedutil.toml")),
    ("launch-stock", include_str!("../../../experiments/launch-stock.toml")),
    ("launch-threads", include_str!("../../../experiments/launch-threads.toml")),
    ("launch-estimate", include_str!("../../../experiments/launch-estimate.toml")),
    ("launch-arm64", include_str!("../../../experiments/launch-arm64.toml")),
    ("launch-android", include_str!("../../../experiments/launch-android.toml")),
    ("placement-combinations", include_str!("../../../experiments/placement-combinations.toml")),
    ("placement-sessions", include_str!("../../../experiments/placement-sessions.toml")),
    ("placement-units", include_str!("../../../experiments/placement-units.toml")),
    ("placement-thesis", include_str!("../../../experiments/placement-thesis.toml")),
    ("placement-half-core", include_str!("../../../experiments/placement-half-core.toml")),
    ("placement-storage", include_str!("../../../experiments/placement-storage.toml")),
    ("placement-memory", include_str!("../../../experiments/placement-memory.toml")),
    ("placement-network", include_str!("../../../experiments/placement-network.toml")),
    ("placement-unequal", include_str!("../../../experiments/placement-unequal.toml")),
    ("placement-browsing", include_str!("../../../experiments/placement-browsing.toml")),
    ("placement-estimate", include_str!("../../../experiments/placement-estimate.toml")),
    ("lookup-hub", include_str!("../../../experiments/lookup-hub.toml")),
    ("lookup-list", include_str!("../../../experiments/lookup-list.toml")),
    ("lookup-applications", include_str!("../../../experiments/lookup-applications.toml")),
    ("lookup-clients", include_str!("../../../experiments/lookup-clients.toml")),
    ("lookup-android", include_str!("../../../experiments/lookup-android.toml")),
    ("lookup-estimate", include_str!("../../../experiments/lookup-estimate.toml")),
    ("memory-paper", include_str!("../../../experiments/memory-paper.toml")),
    ("memory-brisk", include_str!("../../../experiments/memory-brisk.toml")),
    ("memory-victims", include_str!("../../../experiments/memory-victims.toml")),
    ("memory-single", include_str!("../../../experiments/memory-single.toml")),
    ("memory-writeback", include_str!("../../../experiments/memory-writeback.toml")),
    ("memory-estimate", include_str!("../../../experiments/memory-estimate.toml")),
    ("placement-here", include_str!("../../../experiments/placement-here.toml")),
];

fn texts() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    EXPERIMENTS.iter().copied().flatten()
}

/// An experiment with the text that it was read from.
#[derive(Debug, Clone)]
pub struct Entry {
    pub experiment: Experiment,
    /// Its file's text.
    pub text: String,
}

/// Why a selection of experiments is refused.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    /// No experiment, mechanism or file has this name.
    #[error("there is no experiment or mechanism {name:?}; there are {known}, or give the path of a .toml file")]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The experiment runs in the other place: the lab or a real device.
    #[error("{name} runs {there}: {advice}")]
    Elsewhere {
        /// The experiment.
        name: String,
        /// Where it runs.
        there: &'static str,
        /// What to change in the command.
        advice: &'static str,
    },
    /// The experiment's file is wrong.
    #[error(transparent)]
    Spec(#[from] SpecError),
}

/// Every experiment that comes with brisk.
///
/// # Errors
/// When a built-in file is wrong, which the tests rule out.
pub fn all() -> Result<Vec<Entry>, SpecError> {
    texts().map(|(name, text)| entry(&format!("experiments/{name}.toml"), text)).collect()
}

/// The experiments that `names` select (of experiments, of mechanisms or of files), without duplicates. Without `names`: all of
/// this place except those that reboot the device, which must be named.
///
/// # Errors
/// When a name matches no experiment, or only experiments of the other place.
pub fn select(names: &[String], here: bool) -> Result<Vec<Entry>, CatalogueError> {
    let fits = |entry: &Entry| (entry.experiment.mode == Timekeeping::Native) == here;
    let mut chosen: Vec<Entry> = Vec::new();
    if names.is_empty() {
        chosen.extend(all()?.into_iter().filter(|entry| fits(entry) && entry.experiment.reboots.is_none()));
    }
    for name in names {
        let mut found: Vec<Entry> = if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            let text = std::fs::read_to_string(name).map_err(|source| SpecError::Read { path: name.into(), source })?;
            vec![entry(name, &text)?]
        } else {
            let known = |experiment: &Experiment| experiment.name == *name || experiment.mechanism == *name;
            all()?.into_iter().filter(|entry| known(&entry.experiment)).collect()
        };
        if found.is_empty() {
            return Err(CatalogueError::Unknown { name: name.clone(), known: known_names()? });
        }
        found.retain(fits);
        if found.is_empty() {
            return Err(elsewhere(name, here));
        }
        found.retain(|entry| chosen.iter().all(|other| other.experiment.name != entry.experiment.name));
        chosen.append(&mut found);
    }
    Ok(chosen)
}

fn entry(origin: &str, text: &str) -> Result<Entry, SpecError> {
    Ok(Entry { experiment: Experiment::parse(origin, text)?, text: text.to_owned() })
}

fn elsewhere(name: &str, here: bool) -> CatalogueError {
    let (there, advice) =
        if here { ("in the lab only", "leave --here out") } else { ("on a real device only", "add --here") };
    CatalogueError::Elsewhere { name: name.to_owned(), there, advice }
}

fn known_names() -> Result<String, SpecError> {
    let entries = all()?;
    let mut names: Vec<String> = Vec::new();
    for Entry { experiment, .. } in entries {
        for name in [experiment.mechanism, experiment.name] {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    Ok(names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::Point;
    use brisk_config::Config;

    fn names(asked: &[&str], here: bool) -> Result<Vec<String>, String> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let entries = select(&asked, here).map_err(|error| error.to_string())?;
        Ok(entries.into_iter().map(|entry| entry.experiment.name).collect())
    }

    // Verifies PROVE-6.
    #[test]
    fn a_devices_program_can_read_each_experiment_that_it_carries() {
        for (name, text) in DEVICE_EXPERIMENTS {
            let experiment = Experiment::parse(name, text).unwrap();
            assert_eq!(experiment.mode, Timekeeping::Native, "{name}");
            // What a device's program leaves out of its experiments.
            assert!(experiment.combinations.is_none(), "{name}");
            assert!(experiment.applications.is_none_or(|openings| openings.together.is_none()), "{name}");
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn experiments_are_found_by_name_mechanism_and_place() {
        let launch = names(&["launch"], false).unwrap();
        assert_eq!(launch.len(), 10);
        assert_eq!(
            names(&["lookup"], false).unwrap(),
            ["lookup-hub", "lookup-list", "lookup-applications", "lookup-clients", "lookup-android", "lookup-estimate"]
        );
        assert_eq!(
            names(&["memory"], false).unwrap(),
            ["memory-paper", "memory-brisk", "memory-victims", "memory-single", "memory-writeback", "memory-estimate"]
        );
        assert_eq!(
            names(&["placement"], false).unwrap(),
            [
                "placement-combinations",
                "placement-sessions",
                "placement-units",
                "placement-thesis",
                "placement-half-core",
                "placement-storage",
                "placement-memory",
                "placement-network",
                "placement-unequal",
                "placement-browsing",
                "placement-estimate"
            ]
        );
        assert_eq!(names(&["boot"], false).unwrap(), ["boot-preload", "boot-bursts", "boot-paper", "boot-heavy"]);
        assert_eq!(
            names(&["together"], false).unwrap(),
            ["together", "together-slow", "together-parallel", "together-android"]
        );
        assert_eq!(names(&[], false).unwrap().len(), 41);
        assert_eq!(names(&["launch-gap", "launch-gap"], false).unwrap(), ["launch-gap"]);
        assert_eq!(names(&["launch"], true).unwrap(), ["launch-here"]);
        assert_eq!(names(&["boot"], true).unwrap(), ["boot-here"]);
        assert_eq!(
            names(&[], true).unwrap(),
            ["placement-here", "memory-here", "launch-here"],
            "an experiment that reboots must be named"
        );
        assert_eq!(names(&["memory"], true).unwrap(), ["memory-here"]);
        assert_eq!(names(&["placement"], true).unwrap(), ["placement-here"]);
        assert!(names(&["launch-here"], false).unwrap_err().contains("add --here"));
        assert!(names(&["launch-gap"], true).unwrap_err().contains("leave --here out"));
        assert!(names(&["lunch"], false).unwrap_err().contains("launch, launch-paper"));
        assert!(names(&["none.toml"], false).unwrap_err().contains("cannot read the experiment none.toml"));
    }

    #[test]
    fn built_in_experiments_parse_and_fit_their_scenarios() {
        for ((file_name, _), Entry { experiment, .. }) in texts().zip(all().unwrap()) {
            assert_eq!(experiment.name, *file_name, "an experiment is named after its file");
            for arm in &experiment.arms {
                if let Some(configuration) = &arm.brisk {
                    let text = toml::to_string(configuration).unwrap();
                    Config::parse(&text).unwrap_or_else(|error| panic!("{file_name}, arm {}: {error}", arm.name));
                }
            }
            for claim in &experiment.claims {
                assert!(claim.id.starts_with(&format!("{}.", experiment.mechanism)), "{}", claim.id);
            }
            for arm in experiment.arms.iter().filter(|arm| arm.hold_from_kernel) {
                let scenario = brisk_lab::Scenario::load(arm.scenario.as_ref().unwrap()).unwrap();
                let options = scenario.kernel.command_line;
                assert!(
                    options.contains("cpufreq.default_governor=performance"),
                    "{file_name}, arm {}: {options}",
                    arm.name
                );
            }
            let of_arms = experiment.arms.iter().filter_map(|arm| arm.scenario.as_ref());
            for scenario in experiment.scenario.iter().chain(of_arms) {
                let scenario = brisk_lab::Scenario::load(scenario).unwrap();
                let deterministic = scenario.machine.mode == brisk_lab::Mode::Deterministic;
                assert_eq!(deterministic, experiment.mode == Timekeeping::Deterministic, "{file_name}");
            }
            assert!(experiment.clone().in_quick_form().arms.iter().any(|arm| arm.baseline), "{file_name}");
            assert!(!experiment.points(true).is_empty());
            assert!(experiment.points(true).iter().all(|point| *point != Point::Work(0)));
        }
    }
}
