//! `brisk prove boot --here`: explains and starts a series of reboots, resumes it after each reboot, and ends it.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Signal, kill_process};

use super::{Arguments, RunContext, finish, select_form, set_aside};
use brisk_base::notes::note;
use brisk_experiment::campaign::{CampaignMember, ExperimentOutcome};
use brisk_experiment::catalogue::Entry;
use brisk_experiment::conduct::{Findings, Run, Testbed};
use brisk_experiment::plan::Line;
use brisk_experiment::reboots::preload;
use brisk_experiment::reboots::resume_method::{self, ResumeMethod};
use brisk_experiment::reboots::series::Series;
use brisk_experiment::reboots::{self, SeriesEnding, SeriesRunner};
use brisk_experiment::store::StoredResults;
use brisk_experiment::testbed::LocalDevice;
use brisk_experiment::wall_clock;
use brisk_mechanism::boot::zygote;
use brisk_report::proof::{Failure, FailureOf};
use brisk_sys::locked_file::LockedFile;
use brisk_sys::{Root, process};

/// The assumed time from the end of one boot to the kernel's start of the next, for the estimate that the user sees.
const SHUTDOWN_S: f64 = 15.0;
/// The assumed length of a boot where it is not known.
const BOOT_S: f64 = 40.0;

/// The lock file of the process that runs the series; it contains the pid.
const LOCK_FILE: &str = "turn";
/// That process must exit within this many rounds of [`STOP_ROUND`] after SIGTERM.
const STOP_ROUNDS: u32 = 200;
const STOP_ROUND: Duration = Duration::from_millis(100);

/// Starts a series, or resumes the one that is under way.
///
/// # Errors
/// When this device does not support a series, or when a step fails: the series is then removed.
pub fn run(
    arguments: &Arguments,
    entry: Entry,
    quick: bool,
    interrupted: &AtomicBool,
    root: &Root,
) -> anyhow::Result<ExitCode> {
    ensure!(
        arguments.output.is_none() && arguments.minutes.is_none(),
        "a series of reboots has a fixed folder for results and no time limit: omit --output and --minutes"
    );
    let means = ResumeMethod::of(root).context(
        "cannot resume after a reboot on this device: this needs systemd, or Android with Magisk or KernelSU",
    )?;
    let folder = means.folder(root);
    let entry = select_form(entry, quick);
    if !Series::is_active(&folder) {
        if arguments.rebooted {
            // Power was lost while a series was being started or ended.
            remove_series(root)?;
            return Ok(ExitCode::from(1));
        }
        let comparable_arms = reboots::comparable_arms(&entry.experiment, root)?;
        if !arguments.yes {
            ask(
                arguments,
                &with_compared_arms(entry, &comparable_arms.arms),
                quick,
                means,
                &comparable_arms.unsupported_arms,
            );
            return Ok(ExitCode::from(2));
        }
        ensure!(root.is_system(), "a recorded tree cannot reboot");
        ensure!(rustix::process::geteuid().is_root(), "only root can reboot this device: run it as root");
        begin(arguments, &entry, comparable_arms.arms, quick, means, root)
            .inspect_err(|_| drop(remove_series(root)))?;
        if means.start().inspect_err(|_| drop(remove_series(root)))? {
            note!("the first reboot follows at once; `brisk prove --here --stop` ends the series");
            return Ok(ExitCode::SUCCESS);
        }
        return continue_series(arguments, entry, quick, means, interrupted, root);
    }
    ensure!(
        arguments.resume && arguments.yes,
        "a series of reboots is under way; `brisk prove --here --stop` ends it and keeps its results in {}",
        folder.display()
    );
    continue_series(arguments, entry, quick, means, interrupted, root)
}

/// Ends the series that is under way, even if another process runs it.
///
/// # Errors
/// When something cannot be removed.
pub fn stop(root: &Root) -> anyhow::Result<ExitCode> {
    let was_under_way = reboots::is_series_active(root);
    let folder = ResumeMethod::of(root).map(|means| means.folder(root)).filter(|folder| folder.is_dir());
    let _turn = folder.map(|folder| lock_series_by_force(&folder)).transpose()?;
    let removed = remove_series(root)?;
    removed.iter().for_each(|place| note!("removed {place}"));
    if !was_under_way && removed.is_empty() {
        note!("nothing to do: no series of reboots is under way");
        return Ok(ExitCode::SUCCESS);
    }
    note!("the series of reboots is ended; its measurements are kept, and a new series resumes them");
    Ok(ExitCode::SUCCESS)
}

/// Makes this the only process that runs the series, until the returned lock is dropped. The lock file gets this pid.
fn lock_series(folder: &Path) -> anyhow::Result<LockedFile> {
    let turn = LockedFile::try_lock(open_lock_file(folder)?).context("cannot lock the series")?;
    let mut turn = turn.ok().context("another brisk process runs this series")?;
    turn.set_len(0)
        .and_then(|()| write!(turn, "{}", std::process::id()))
        .context("cannot write the lock of the series")?;
    Ok(turn)
}

/// Takes the lock after sending SIGTERM to the process that holds it.
fn lock_series_by_force(folder: &Path) -> anyhow::Result<LockedFile> {
    let mut turn = open_lock_file(folder)?;
    let mut is_asked = false;
    for _ in 0..STOP_ROUNDS {
        turn = match LockedFile::try_lock(turn).context("cannot lock the series")? {
            Ok(locked) => return Ok(locked),
            Err(turn) => turn,
        };
        let pid = std::fs::read_to_string(folder.join(LOCK_FILE)).ok().and_then(|pid| pid.parse().ok());
        if let (false, Some(pid)) = (is_asked, pid.and_then(process::id)) {
            is_asked = kill_process(pid, Signal::TERM).is_ok();
        }
        std::thread::sleep(STOP_ROUND);
    }
    bail!("another brisk process runs this series and does not exit")
}

fn open_lock_file(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK_FILE);
    let turn = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    turn.with_context(|| format!("cannot open {}", path.display()))
}

/// Removes the series: first what would resume it, last its record. A failure of one step does not prevent the others.
fn remove_series(root: &Root) -> anyhow::Result<Vec<&'static str>> {
    let removed = resume_method::remove(root);
    resume_method::forget(root);
    let forgotten = [ResumeMethod::Systemd, ResumeMethod::Android].map(|means| Series::forget(&means.folder(root)));
    forgotten.into_iter().fold(removed, |removed, forgotten| forgotten.and(removed))
}

/// `entry` with only the arms that are compared on this device. With other arms it is another experiment, which --resume
/// does not continue.
fn with_compared_arms(mut entry: Entry, arms: &[String]) -> Entry {
    entry.experiment = entry.experiment.with_arms(|arm| arms.contains(&arm.name));
    entry.text += &format!("\n# compared here: {}\n", arms.join(", "));
    entry
}

/// Installs what resumes the series after a reboot, then records that the series is under way.
fn begin(
    arguments: &Arguments,
    entry: &Entry,
    arms: Vec<String>,
    quick: bool,
    means: ResumeMethod,
    root: &Root,
) -> anyhow::Result<()> {
    // The store must exist before the first reboot, which resumes it.
    drop(open_in(arguments, with_compared_arms(entry.clone(), &arms), quick, means, root)?);
    means.install(root, &program()?, &words(arguments)?)?;
    // From here on the series is under way.
    Series { arms, ..Series::default() }.write(&means.folder(root))
}

/// Opens the store of the series; an aborted series is continued if program, experiment and kernel are the same.
fn open_in(
    arguments: &Arguments,
    entry: Entry,
    quick: bool,
    means: ResumeMethod,
    root: &Root,
) -> anyhow::Result<CampaignMember> {
    let here = LocalDevice { root: root.path("/") };
    let (base, started) = (means.folder(root), wall_clock::rfc3339_now());
    let run_context = RunContext { arguments, quick, base: &base, program: here.program()?, started: &started };
    let (mut member, found) = run_context.open(entry)?;
    let changed = member.store.set_devices(&here.kernel())?;
    for found in changed.iter().chain([&found]) {
        if matches!(found, StoredResults::Other { .. }) {
            // Boots with different kernels or versions of brisk are not compared.
            ensure!(!arguments.resume, "the series is ended: it {}", set_aside(found));
            note!("the series {}", set_aside(found));
            member.findings = Findings::default();
        }
    }
    Ok(member)
}

/// Runs the present boot's step of the series.
fn continue_series(
    arguments: &Arguments,
    entry: Entry,
    quick: bool,
    means: ResumeMethod,
    interrupted: &AtomicBool,
    root: &Root,
) -> anyhow::Result<ExitCode> {
    let folder = means.folder(root);
    let _turn = lock_series(&folder)?;
    let course = || -> anyhow::Result<(CampaignMember, SeriesEnding)> {
        let arms = Series::read(&folder)?.unwrap_or_default().arms;
        let entry = with_compared_arms(entry, &arms);
        let again = Arguments { resume: true, restart: false, ..arguments.clone() };
        let mut member = open_in(&again, entry, quick, means, root)?;
        let CampaignMember { entry, store, findings, .. } = &mut member;
        let run = Run { experiment: &entry.experiment, quick, seed: store.header().seed, shard: None };
        let course = SeriesRunner { root, means, program: program()?, run, interrupted };
        let ending = course.continue_series(store, findings)?;
        Ok((member, ending))
    };
    let (mut member, ending) = course().inspect_err(|_| drop(remove_series(root)))?;
    member.outcome = Some(match ending {
        SeriesEnding::Interrupted => return Ok(ExitCode::SUCCESS),
        SeriesEnding::Complete => ExperimentOutcome::Complete,
        SeriesEnding::Failed(reason) => {
            let reason = format!("a boot failed twice: {reason}");
            eprintln!("the series of reboots is ended, because {reason}");
            ExperimentOutcome::Failed(Failure { of: FailureOf::Experiment, reason })
        }
    });
    remove_series(root)?;
    if let Some(note) = preload::note(&member.entry.experiment, &member.findings) {
        member.findings.add(Line::Note { note });
    }
    finish(arguments, vec![member], &folder, wall_clock::rfc3339_now())
}

/// The path at which the next boot finds this program.
fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// The arguments with which the next boot runs it.
fn words(arguments: &Arguments) -> anyhow::Result<Vec<String>> {
    let mut words = vec!["prove".to_owned()];
    for name in &arguments.experiments {
        let path = Path::new(name);
        let is_file = path.extension().is_some_and(|extension| extension == "toml");
        words.push(if is_file { path.canonicalize()?.display().to_string() } else { name.clone() });
    }
    words.extend(["--here", "--yes", "--resume", "--rebooted"].map(str::to_owned));
    words.extend(arguments.full.then(|| "--full".to_owned()));
    words.extend(arguments.seed.map(|seed| format!("--seed={seed}")));
    Ok(words)
}

/// Explains what the series does, and prints the command that starts it.
fn ask(arguments: &Arguments, entry: &Entry, quick: bool, means: ResumeMethod, unsupported_arms: &[String]) {
    let experiment = &entry.experiment;
    let counted: u32 = experiment.replicates_by_point(quick).iter().sum();
    let count = experiment.arms.len() as u32 * (counted + experiment.replicates.warm_up);
    let boot_s = means.this_boot_ms().map_or(BOOT_S, |ms| ms / 1000.0);
    let settle_s = f64::from(experiment.reboots.map_or(0, |reboots| reboots.settle_s));
    let minutes = (f64::from(count) * (boot_s + settle_s + SHUTDOWN_S) / 60.0).ceil();
    let arms = experiment.arms.iter().map(|arm| format!("  {}: {}\n", arm.name, arm.title)).collect::<String>();
    let unsupported_arms = unsupported_arms.iter().map(|arm| format!("  not compared: {arm}\n")).collect::<String>();
    let mut installed_paths = means.installed_paths().iter().map(|place| format!("  {place}\n")).collect::<String>();
    if preload::is_compared(experiment) {
        installed_paths += &format!("  the property {}, which is restored in each boot\n", zygote::MODE);
    }
    let names = arguments.experiments.join(" ");
    let full = if quick { "" } else { " --full" };
    eprint!(
        "brisk prove {names} --here reboots this device {count} times, in about {minutes} minutes (a boot takes about \
         {boot_s:.0} s), and compares:\n{arms}{unsupported_arms}\
         Save your work first: brisk does not ask before a reboot. A boot that does not complete, or that brisk did not \
         cause, is repeated once; a second failure ends the series.\n\
         During the series these exist, and nothing else is changed:\n{installed_paths}\
         To end it at any time: brisk prove --here --stop; or remove them{}\n\
         To start it: brisk prove {names} --here --yes{full}\n",
        match means {
            ResumeMethod::Systemd => "; or add brisk.noreboots to the kernel's command line, in the boot loader",
            ResumeMethod::Android => "",
        }
    );
}
