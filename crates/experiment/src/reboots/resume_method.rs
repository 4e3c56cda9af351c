//! What resumes a series after each reboot: systemd units, or scripts that Magisk and KernelSU run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::preload;
use crate::metric::Metric;
use brisk_daemon::boot::Report;
use brisk_mechanism::boot::{CompletionSign, zygote};
use brisk_sys::system::android_properties;
use brisk_sys::{Root, durable_file};

/// The unit that users enable, so that the measurement covers what they get.
const HOLD_UNIT: &str = include_str!("../../../../packaging/systemd/brisk-boot-hold.service");
/// The program's path in that unit.
const PACKAGED: &str = "/usr/bin/brisk";
/// A boot with this word on the kernel's command line does not resume the series.
const OPT_OUT_CONDITION: &str = "ConditionKernelCommandLine=!brisk.noreboots";
/// The report of `brisk boot hold`, beside [`Root::runtime_folder`].
const HOLD_REPORT: &str = "brisk-reboots-hold.json";

const SERVICE: &str = "brisk-reboots.service";
const UNIT_FILE: &str = "/etc/systemd/system/brisk-reboots.service";
const SERVICE_DROP_IN: &str = "/etc/systemd/system/default.target.d/brisk-reboots.conf";
const HOLD_UNIT_FILE: &str = "/etc/systemd/system/brisk-reboots-hold.service";
const HOLD_DROP_IN: &str = "/etc/systemd/system/sysinit.target.d/brisk-reboots.conf";
const SCRIPT: &str = "/data/adb/service.d/brisk-reboots.sh";
const HOLD_SCRIPT: &str = "/data/adb/post-fs-data.d/brisk-reboots-hold.sh";

/// All files of a series on a device besides its results; those that start something come first.
const INSTALLED_FILES: [&str; 6] = [HOLD_DROP_IN, SERVICE_DROP_IN, HOLD_SCRIPT, SCRIPT, HOLD_UNIT_FILE, UNIT_FILE];

/// How a device can resume a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResumeMethod {
    Systemd,
    /// Android with Magisk or KernelSU.
    Android,
}

/// A file that is written on the device.
struct File {
    file_path: &'static str,
    text: String,
    mode: u32,
}

impl ResumeMethod {
    /// The means of this device; `None` where nothing can resume a series after a reboot.
    pub fn of(root: &Root) -> Option<Self> {
        if android_properties::exist(root) {
            return root.exists("/data/adb/service.d").then_some(Self::Android);
        }
        root.exists("/run/systemd/system").then_some(Self::Systemd)
    }

    /// Where a series keeps its state and its results.
    pub fn folder(self, root: &Root) -> PathBuf {
        root.path(match self {
            // Not below /var/lib/brisk, which belongs to the service's user: root acts on this state.
            Self::Systemd => "/var/lib/brisk-reboots",
            Self::Android => "/data/adb/brisk/reboots",
        })
    }

    /// The sign that a boot has completed.
    pub fn sign(self) -> CompletionSign {
        match self {
            Self::Systemd => CompletionSign::Systemd,
            Self::Android => CompletionSign::android(),
        }
    }

    /// Whether an orderly shutdown ends this program by SIGTERM, so that it can record that.
    pub fn signals_shutdown(self) -> bool {
        self == Self::Systemd
    }

    /// The files that stay on the device until the series ends, for messages.
    pub fn installed_paths(self) -> Vec<&'static str> {
        let is_android = |file_path: &&str| file_path.starts_with("/data/");
        INSTALLED_FILES.into_iter().filter(|file_path| is_android(file_path) == (self == Self::Android)).collect()
    }

    /// Makes `program` run with `words` after each reboot.
    ///
    /// # Errors
    /// When a file cannot be written, or a word needs quoting in a unit or a script.
    pub fn install(self, root: &Root, program: &Path, words: &[String]) -> anyhow::Result<()> {
        let program = unquoted(&program.display().to_string())?.to_owned();
        words.iter().try_for_each(|word| unquoted(word).map(drop))?;
        for file in self.persistent_files(&program, &words.join(" "), &self.folder(root).display().to_string()) {
            file.write(root)?;
        }
        Ok(())
    }

    /// Sets whether the next boots are held at performance.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn set_hold(self, root: &Root, program: &Path, hold: bool) -> anyhow::Result<()> {
        let switch = self.hold(&program.display().to_string(), &hold_report(root).display().to_string());
        if hold {
            return switch.write(root);
        }
        durable_file::remove(&root.path(switch.file_path))
            .with_context(|| format!("cannot remove {}", switch.file_path))
    }

    /// Makes the zygotes of the next boots preload by `mode`.
    ///
    /// # Errors
    /// When the original value cannot be recorded, or the property cannot be set.
    pub fn set_preload(self, root: &Root, mode: &str) -> anyhow::Result<()> {
        preload::set(root, &self.folder(root), mode)
    }

    /// Reverts the settings of an arm.
    ///
    /// # Errors
    /// When one of them cannot be reverted.
    pub fn unset(self, root: &Root, program: &Path) -> anyhow::Result<()> {
        self.set_hold(root, program, false)?;
        preload::restore(root, &self.folder(root)).map(drop)
    }

    fn persistent_files(self, program: &str, words: &str, folder: &str) -> Vec<File> {
        match self {
            Self::Systemd => vec![
                File { file_path: HOLD_UNIT_FILE, text: hold_unit(program), mode: 0o644 },
                File { file_path: UNIT_FILE, text: unit(program, words, folder), mode: 0o644 },
                File { file_path: SERVICE_DROP_IN, text: format!("[Unit]\nWants={SERVICE}\n"), mode: 0o644 },
            ],
            Self::Android => {
                let text = format!("#!/system/bin/sh\n{program} {words} </dev/null >>{folder}/log 2>&1 &\n");
                vec![File { file_path: SCRIPT, text, mode: 0o700 }]
            }
        }
    }

    fn hold(self, program: &str, report: &str) -> File {
        match self {
            Self::Systemd => {
                let text = "[Unit]\nWants=brisk-reboots-hold.service\n".to_owned();
                File { file_path: HOLD_DROP_IN, text, mode: 0o644 }
            }
            Self::Android => {
                let text = format!("#!/system/bin/sh\n{program} boot hold --json </dev/null >{report} 2>/dev/null &\n");
                File { file_path: HOLD_SCRIPT, text, mode: 0o700 }
            }
        }
    }

    /// Requests an orderly reboot.
    ///
    /// # Errors
    /// When the command fails, or `root` is not this system's.
    pub fn reboot(self, root: &Root) -> anyhow::Result<()> {
        ensure!(root.is_system(), "a recorded tree cannot reboot");
        match self {
            Self::Systemd => run("systemctl", &["reboot"]),
            Self::Android => run("reboot", &[]),
        }
    }

    /// Starts a series by its unit; false where the caller has to run it.
    ///
    /// # Errors
    /// When systemd refuses.
    pub fn start(self) -> anyhow::Result<bool> {
        if self == Self::Systemd {
            run("systemctl", &["daemon-reload"])?;
            // The unit of a series that has just ended may still be active.
            run("systemctl", &["restart", "--no-block", SERVICE])?;
        }
        Ok(self == Self::Systemd)
    }

    /// The duration of the current boot, which has completed; `watched` is the report of watching it.
    ///
    /// # Errors
    /// When the duration cannot be determined.
    pub fn boot_times(self, watched: &Report) -> anyhow::Result<BTreeMap<String, f64>> {
        if self == Self::Android {
            // A property does not record when it was set.
            ensure!(watched.ended_ms >= watched.began_ms + 100, "the boot had completed before brisk watched it");
            return Ok(BTreeMap::from([(Metric::Boot.key().to_owned(), watched.ended_ms as f64)]));
        }
        systemd_times().context("systemd does not report when the boot finished")
    }

    /// The duration of the current boot, where it can be read at any time.
    pub fn this_boot_ms(self) -> Option<f64> {
        let times = (self == Self::Systemd).then(systemd_times).flatten()?;
        times.get(Metric::Boot.key()).copied()
    }
}

/// Removes everything that a series has put on the device except its results; returns what it removed.
///
/// # Errors
/// The first that cannot be removed; the others are removed all the same.
pub fn remove(root: &Root) -> anyhow::Result<Vec<&'static str>> {
    let mut there: Vec<&str> = INSTALLED_FILES.into_iter().filter(|file_path| root.exists(file_path)).collect();
    let mut outcome = Ok(());
    for file_path in INSTALLED_FILES {
        let path = root.path(file_path);
        let removed = durable_file::remove(&path).with_context(|| format!("cannot remove {file_path}"));
        outcome = outcome.and(removed);
        // The folder of a drop-in, unless it holds another one.
        if file_path.ends_with(".conf") {
            let _ = path.parent().map(fs::remove_dir);
        }
    }
    let restored = preload::restore(root, &ResumeMethod::Android.folder(root));
    there.extend(restored.as_ref().is_ok_and(|was_ours| *was_ours).then_some(zygote::MODE));
    outcome.and(restored).map(|_| there)
}

/// Reloads systemd, so that it drops removed units.
pub fn forget(root: &Root) {
    if root.is_system() && ResumeMethod::of(root) == Some(ResumeMethod::Systemd) {
        let _ = run("systemctl", &["daemon-reload"]);
    }
}

/// Where `brisk boot hold` reports what it did in this boot.
pub fn hold_report(root: &Root) -> PathBuf {
    root.runtime_folder().with_file_name(HOLD_REPORT)
}

impl File {
    fn write(&self, root: &Root) -> anyhow::Result<()> {
        let written = durable_file::write(&root.path(self.file_path), &self.text, self.mode);
        written.with_context(|| format!("cannot write {}", self.file_path))
    }
}

/// The unit that resumes the series. It waits only for the file systems, and no unit waits for it.
fn unit(program: &str, words: &str, folder: &str) -> String {
    format!(
        "[Unit]\nDescription=Resume brisk prove boot --here\nDocumentation=man:brisk-prove(1)\n\
         # To end it: {program} prove --here --stop, or brisk.noreboots on the kernel's command line.\n{OPT_OUT_CONDITION}\n\
         DefaultDependencies=no\nRequiresMountsFor={folder}\nAfter=systemd-remount-fs.service local-fs.target\n\
         Conflicts=shutdown.target\nBefore=shutdown.target\n\n\
         [Service]\nType=exec\nExecStart={program} {words}\nTimeoutStopSec=20\n"
    )
}

/// The packaged unit with a report of what it did, to which `brisk restore` appends its own.
fn hold_unit(program: &str) -> String {
    let report = format!("[Service]\nStandardOutput=append:/run/{HOLD_REPORT}");
    let text = HOLD_UNIT.replace(PACKAGED, program).replace(" boot hold", " boot hold --json");
    text.replace("[Unit]", &format!("[Unit]\n{OPT_OUT_CONDITION}")).replace("[Service]", &report)
}

/// A word that means the same to systemd and to a shell, without quotes.
fn unquoted(word: &str) -> anyhow::Result<&str> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+=".contains(letter);
    ensure!(word.chars().all(is_plain), "{word:?} cannot be named in a unit: give it a path of letters and digits");
    Ok(word)
}

fn run(program: &str, arguments: &[&str]) -> anyhow::Result<()> {
    let line = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {}", line()))?;
    ensure!(output.status.success(), "{}: {}", line(), String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

fn systemd_times() -> Option<BTreeMap<String, f64>> {
    let mut command = Command::new("systemctl");
    command.args(["show", "--property=UserspaceTimestampMonotonic", "--property=FinishTimestampMonotonic"]);
    let output = command.stdin(Stdio::null()).output().ok()?;
    times(&String::from_utf8_lossy(&output.stdout))
}

/// The output of `systemctl show`, in microseconds since the kernel's start; 0 means not yet.
fn times(show_output: &str) -> Option<BTreeMap<String, f64>> {
    let value = |name: &str| {
        let value =
            show_output.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
        value.filter(|&us| us > 0)
    };
    let milliseconds = |us: u64| us as f64 / 1000.0;
    let boot = value("FinishTimestampMonotonic")?;
    let kernel = value("UserspaceTimestampMonotonic");
    let kernel = kernel.map(|us| (Metric::Kernel.key().to_owned(), milliseconds(us)));
    Some(kernel.into_iter().chain([(Metric::Boot.key().to_owned(), milliseconds(boot))]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(means: ResumeMethod) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let marks: &[&str] = match means {
            ResumeMethod::Systemd => &["run/systemd/system"],
            ResumeMethod::Android => &["dev/__properties__", "data/adb/service.d"],
        };
        marks.iter().for_each(|mark| fs::create_dir_all(folder.path().join(mark)).unwrap());
        (folder, root)
    }

    #[test]
    fn the_means_follow_from_the_devices_files() {
        for means in [ResumeMethod::Systemd, ResumeMethod::Android] {
            let (folder, root) = device(means);
            assert_eq!(ResumeMethod::of(&root), Some(means));
            let _ = fs::remove_dir(folder.path().join("data/adb/service.d"));
            let _ = fs::remove_dir(folder.path().join("run/systemd/system"));
            assert_eq!(ResumeMethod::of(&root), None, "nothing can resume");
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn installed_files_are_removed_again_and_no_others() {
        for means in [ResumeMethod::Systemd, ResumeMethod::Android] {
            let (folder, root) = device(means);
            let others = folder.path().join("etc/systemd/system/sysinit.target.d/others.conf");
            fs::create_dir_all(others.parent().unwrap()).unwrap();
            fs::write(&others, "").unwrap();
            let program = Path::new("/opt/brisk-1.0/brisk");
            let words = ["prove", "boot-here", "--here", "--yes", "--resume"].map(String::from);
            means.install(&root, program, &words).unwrap();
            means.set_hold(&root, program, true).unwrap();
            assert!(
                means.installed_paths().iter().all(|file_path| root.exists(file_path)),
                "{:?}",
                means.installed_paths()
            );
            means.set_hold(&root, program, false).unwrap();
            means.set_hold(&root, program, false).unwrap();
            assert_eq!(remove(&root).unwrap().len(), means.installed_paths().len() - 1, "the switch was off");
            assert_eq!(remove(&root).unwrap(), Vec::<&str>::new());
            assert!(others.exists() && !root.exists("/etc/systemd/system/default.target.d"));
            let strange = Path::new("/opt/a b/brisk");
            assert!(means.install(&root, strange, &words).unwrap_err().to_string().contains("letters and digits"));
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn reboot_units_match_the_packaged_one_and_can_be_refused() {
        let hold = hold_unit("/opt/brisk");
        for line in [
            OPT_OUT_CONDITION,
            "ExecStart=/opt/brisk boot hold --json",
            "ExecStopPost=/opt/brisk restore --journal boot",
            "StandardOutput=append:/run/brisk-reboots-hold.json",
            "Before=sysinit.target",
        ] {
            assert!(hold.lines().any(|known| known == line), "{line}: {hold}");
        }
        let unit = unit("/opt/brisk", "prove boot-here", "/var/lib/brisk-reboots");
        for line in [OPT_OUT_CONDITION, "ExecStart=/opt/brisk prove boot-here", "Conflicts=shutdown.target"] {
            assert!(unit.lines().any(|known| known == line), "{line}: {unit}");
        }
    }

    #[test]
    fn boot_times_are_parsed_from_systemctl_show() {
        let show_output = "UserspaceTimestampMonotonic=1500000\nFinishTimestampMonotonic=9250000\n";
        let expected = [("boot_ms", 9250.0), ("kernel_ms", 1500.0)].map(|(key, ms)| (key.to_owned(), ms));
        assert_eq!(times(show_output), Some(BTreeMap::from(expected)));
        for show_output in
            ["", "FinishTimestampMonotonic=0\n", "FinishTimestampMonotonic=\nUserspaceTimestampMonotonic=5\n"]
        {
            assert_eq!(times(show_output), None, "{show_output:?}");
        }
    }
}
