//! `brisk boot plan`: makes a preload plan for Android's zygote. The planner in `android/preload` is a Java program, because
//! it reads class files.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

/// The planner's path below the repository, and below an installation prefix.
const PLANNER_PLACES: [&str; 2] =
    ["android/preload/tools/target/planner/brisk-planner.jar", "share/brisk/planner/brisk-planner.jar"];

/// Arguments of `brisk boot plan`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads the classes of JARS (in BOOTCLASSPATH's syntax), finds which classes of LIST may initialise which,
virtual calls included, and writes a plan by which several threads can initialise them without waiting
for each other. The plan is valid only for these jars and this list; with others the preloader uses the
platform's order. android/preload/README.md explains the format, and how to gather costs and observations.

Exit code 0 when two threads save 5 % or more, 1 when they do not, 2 on an error.

Examples:
  brisk boot plan framework.jar:core.jar preloaded-classes -o preload.plan
  brisk boot plan classes.jar preloaded-classes --costs costs -o preload.plan")]
pub struct Arguments {
    /// The jars of class files, separated by colons
    #[arg(value_name = "JARS")]
    jars: String,
    /// The classes to preload, one a line
    #[arg(value_name = "LIST")]
    list: PathBuf,
    /// Write the plan to FILE
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Bind the plan to these jars of the device, when they differ from JARS
    #[arg(long, value_name = "JARS")]
    bind: Option<String>,
    /// Read the cost of each class: a name and microseconds a line
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// Read observed initialisers: a name and its cause (or -) a line
    #[arg(long, value_name = "FILE")]
    observed: Option<PathBuf>,
    /// The method that preloads resources, as package.Class.method(descriptor)
    #[arg(long, value_name = "METHOD")]
    resources: Option<String>,
    /// Treat classes with these prefixes, separated by commas, as initialised before [default: java.]
    #[arg(long, value_name = "PREFIXES")]
    ambient: Option<String>,
    /// Assume this speed-up of two threads [default: 1.9]
    #[arg(long, value_name = "NUMBER")]
    speedup: Option<String>,
    /// Use this planner [default: installed with this program, or in the repository that it was built in]
    #[arg(long, value_name = "FILE")]
    planner: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the planner; its exit code becomes this command's.
///
/// # Errors
/// When there is no planner or no Java, or the planner was killed.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let planner = match &arguments.planner {
        Some(planner) if planner.is_file() => planner.clone(),
        Some(planner) => bail!("there is no planner {}", planner.display()),
        None => find_planner(&std::env::current_exe().context("cannot find this program's own file")?)?,
    };
    let java = java(std::env::var_os("JAVA_HOME"));
    let mut command = Command::new(&java);
    command.arg("-jar").arg(planner).args(planner_arguments(arguments));
    let status = command.status().with_context(|| {
        format!("cannot run {}: install a Java 17 (Debian: default-jre-headless) or set JAVA_HOME", java.display())
    })?;
    match status.code() {
        Some(code @ 0..=2) => Ok(ExitCode::from(code.unsigned_abs() as u8)),
        Some(code) => bail!("the planner exited with {code}: is {} a Java 17 or newer?", java.display()),
        None => bail!("the planner was killed ({status})"),
    }
}

/// The planner's arguments.
fn planner_arguments(arguments: &Arguments) -> Vec<OsString> {
    let mut planner_arguments: Vec<OsString> =
        vec!["plan".into(), arguments.jars.clone().into(), arguments.list.clone().into()];
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            planner_arguments.extend([name.into(), value]);
        }
    };
    option("--output", Some(arguments.output.clone().into()));
    option("--bind", arguments.bind.clone().map(Into::into));
    option("--costs", arguments.costs.clone().map(Into::into));
    option("--observed", arguments.observed.clone().map(Into::into));
    option("--resources", arguments.resources.clone().map(Into::into));
    option("--ambient", arguments.ambient.clone().map(Into::into));
    option("--speedup", arguments.speedup.clone().map(Into::into));
    planner_arguments.extend(arguments.json.then(|| "--json".into()));
    planner_arguments
}

/// Finds the planner in a folder above `program`: an installation prefix, or the repository.
fn find_planner(program: &Path) -> anyhow::Result<PathBuf> {
    let mut places = program.ancestors().skip(1).flat_map(|folder| PLANNER_PLACES.map(|place| folder.join(place)));
    places.find(|place| place.is_file()).with_context(|| {
        format!(
            "there is no planner above {}: build it (mvn -f android/preload package) or name it with --planner",
            program.display()
        )
    })
}

/// The `java` of `JAVA_HOME`, or the one in `PATH`.
fn java(home: Option<OsString>) -> PathBuf {
    match home {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin/java"),
        _ => "java".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn parse(line: &[&str]) -> Arguments {
        <Line as clap::Parser>::parse_from(line).arguments
    }

    // Verifies PRELOAD-2.
    #[test]
    fn the_planner_gets_the_given_options() {
        let said = planner_arguments(&parse(&["plan", "a.jar:b.jar", "list", "--output", "p"]));
        assert_eq!(said, ["plan", "a.jar:b.jar", "list", "--output", "p"]);
        let line =
            ["plan", "a.jar", "list", "--json", "-o", "p", "--bind", "c.jar", "--costs", "c", "--ambient", "java."];
        let said = planner_arguments(&parse(&line));
        let expected =
            ["plan", "a.jar", "list", "--output", "p", "--bind", "c.jar", "--costs", "c", "--ambient", "java."];
        assert_eq!(said[..11], expected);
        assert_eq!(said[11], "--json");
    }

    // Verifies PRELOAD-2.
    #[test]
    fn the_planner_is_found_in_the_repository_and_in_a_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("bin/brisk");
        let why = find_planner(&program).unwrap_err().to_string();
        assert!(why.contains("--planner"), "{why}");
        for place in PLANNER_PLACES {
            let planner = folder.path().join(place);
            std::fs::create_dir_all(planner.parent().unwrap()).unwrap();
            std::fs::write(&planner, "").unwrap();
            assert_eq!(find_planner(&program).unwrap(), planner);
            std::fs::remove_file(&planner).unwrap();
        }
    }

    #[test]
    fn java_home_takes_precedence_over_path() {
        assert_eq!(java(Some("/opt/java".into())), Path::new("/opt/java/bin/java"));
        assert_eq!(java(Some("".into())), Path::new("java"));
        assert_eq!(java(None), Path::new("java"));
    }
}
