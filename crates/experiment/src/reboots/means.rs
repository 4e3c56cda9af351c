//! What makes a device go on after each reboot: units of systemd, or scripts that Magisk and KernelSU run.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use super::preload;
use crate::metric::Metric;
use brisk_daemon::boot::Report;
use brisk_mechanism::boot::{Sign, zygote};
use brisk_sys::system::android_properties;
use brisk_sys::{Root, durable_file};

/// The unit that people enable: what is measured is what they would get.
const HOLD_UNIT: &str = include_str!("../../../../packaging/systemd/brisk-boot-hold.service");
/// The program in there.
const PACKAGED: &str = "/usr/bin/brisk";
/// This on the kernel's command line boots without a series.
const REFUSAL: &str = "ConditionKernelCommandLine=!brisk.noreboots";
/// What `brisk boot hold` says of itself, beside [`Root::runtime_folder`].
const HOLD_REPORT: &str = "brisk-reboots-hold.json";

const SERVICE: &str = "brisk-reboots.service";
const UNIT: &str = "/etc/systemd/system/brisk-reboots.service";
const WANTED: &str = "/etc/systemd/system/default.target.d/brisk-reboots.conf";
const HOLD: &str = "/etc/systemd/system/brisk-reboots-hold.service";
const HOLD_WANTED: &str = "/etc/systemd/system/sysinit.target.d/brisk-reboots.conf";
const SCRIPT: &str = "/data/adb/service.d/brisk-reboots.sh";
const HOLD_SCRIPT: &str = "/data/adb/post-fs-data.d/brisk-reboots-hold.sh";

/// All that a series puts on a device beside its results, what starts something first.
const PLACES: [&str; 6] = [HOLD_WANTED, WANTED, HOLD_SCRIPT, SCRIPT, HOLD, UNIT];

/// What a device has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    Systemd,
    /// Android with Magisk or KernelSU.
    Android,
}

/// A file that is written on the device.
struct File {
    place: &'static str,
    text: String,
    mode: u32,
}

impl Means {
    /// Those of this device; `None` where nothing of it can go on after a reboot.
    pub fn of(root: &Root) -> Option<Self> {
        if android_properties::exist(root) {
            return root.exists("/data/adb/service.d").then_some(Self::Android);
        }
        root.exists("/run/systemd/system").then_some(Self::Systemd)
    }

    /// Where a series keeps its state and its results.
    pub fn folder(self, root: &Root) -> PathBuf {
        root.path(match self {
            // Not below /var/lib/brisk, which belongs to the user of the service: root goes on by what is on record there.
            Self::Systemd => "/var/lib/brisk-reboots",
            Self::Android => "/data/adb/brisk/reboots",
        })
    }

    /// The sign that a boot has completed.
    pub fn sign(self) -> Sign {
        match self {
            Self::Systemd => Sign::Systemd,
            Self::Android => Sign::android(),
        }
    }

    /// Whether a shutdown in order ends this program by SIGTERM, so that it can put that on record.
    pub fn tells_of_a_shutdown(self) -> bool {
        self == Self::Systemd
    }

    /// What it puts on the device until the end, for people.
    pub fn places(self) -> Vec<&'static str> {
        let is_android = |place: &&str| place.starts_with("/data/");
        PLACES.into_iter().filter(|place| is_android(place) == (self == Self::Android)).collect()
    }

    /// Makes `program` go on with `words` after each reboot.
    ///
    /// # Errors
    /// When a file cannot be written, or a word is none that a unit or a script takes as it is.
    pub fn install(self, root: &Root, program: &Path, words: &[String]) -> anyhow::Result<()> {
        let program = plain(&program.display().to_string())?.to_owned();
        words.iter().try_for_each(|word| plain(word).map(drop))?;
        for file in self.lasting(&program, &words.join(" "), &self.folder(root).display().to_string()) {
            file.write(root)?;
        }
        Ok(())
    }

    /// Lets the next boots be held at performance, or not.
    ///
    /// # Errors
    /// When that cannot be written.
    pub fn set_hold(self, root: &Root, program: &Path, hold: bool) -> anyhow::Result<()> {
        let switch = self.hold(&program.display().to_string(), &hold_report(root).display().to_string());
        if hold {
            return switch.write(root);
        }
        durable_file::remove(&root.path(switch.place)).with_context(|| format!("cannot remove {}", switch.place))
    }

    /// Lets the zygotes of the next boots preload by `mode`.
    ///
    /// # Errors
    /// When what they were told before cannot be recorded, or that is not set.
    pub fn set_preload(self, root: &Root, mode: &str) -> anyhow::Result<()> {
        preload::set(root, &self.folder(root), mode)
    }

    /// Takes back whatever is an arm's.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn unset(self, root: &Root, program: &Path) -> anyhow::Result<()> {
        self.set_hold(root, program, false)?;
        preload::give_back(root, &self.folder(root)).map(drop)
    }

    fn lasting(self, program: &str, words: &str, folder: &str) -> Vec<File> {
        match self {
            Self::Systemd => vec![
                File { place: HOLD, text: hold_unit(program), mode: 0o644 },
                File { place: UNIT, text: unit(program, words, folder), mode: 0o644 },
                File { place: WANTED, text: format!("[Unit]\nWants={SERVICE}\n"), mode: 0o644 },
            ],
            Self::Android => {
                let text = format!("#!/system/bin/sh\n{program} {words} </dev/null >>{folder}/log 2>&1 &\n");
                vec![File { place: SCRIPT, text, mode: 0o700 }]
            }
        }
    }

    fn hold(self, program: &str, report: &str) -> File {
        match self {
            Self::Systemd => {
                let text = "[Unit]\nWants=brisk-reboots-hold.service\n".to_owned();
                File { place: HOLD_WANTED, text, mode: 0o644 }
            }
            Self::Android => {
                let text = format!("#!/system/bin/sh\n{program} boot hold --json </dev/null >{report} 2>/dev/null &\n");
                File { place: HOLD_SCRIPT, text, mode: 0o700 }
            }
        }
    }

    /// Asks for a reboot in order.
    ///
    /// # Errors
    /// When no program reboots for it, or `root` is not this system's.
    pub fn reboot(self, root: &Root) -> anyhow::Result<()> {
        ensure!(root.is_system(), "a recorded tree cannot reboot");
        match self {
            Self::Systemd => run("systemctl", &["reboot"]),
            Self::Android => run("reboot", &[]),
        }
    }

    /// Begins a series by what goes on with it; false where the caller has to.
    ///
    /// # Errors
    /// When systemd refuses.
    pub fn start(self) -> anyhow::Result<bool> {
        if self == Self::Systemd {
            run("systemctl", &["daemon-reload"])?;
            // One that has just ended another series may not have ended itself.
            run("systemctl", &["restart", "--no-block", SERVICE])?;
        }
        Ok(self == Self::Systemd)
    }

    /// How long the boot under way took, now that it has completed; `watched` is what was seen of it.
    ///
    /// # Errors
    /// When that cannot be known.
    pub fn boot_times(self, watched: &Report) -> anyhow::Result<BTreeMap<String, f64>> {
        if self == Self::Android {
            // A property does not tell since when it has its value.
            ensure!(watched.ended_ms >= watched.began_ms + 100, "the boot had completed before brisk watched it");
            return Ok(BTreeMap::from([(Metric::Boot.key().to_owned(), watched.ended_ms as f64)]));
        }
        systemd_times().context("systemd does not say when the boot was over")
    }

    /// How long the boot under way took, where that can be asked at any time.
    pub fn this_boot_ms(self) -> Option<f64> {
        let times = (self == Self::Systemd).then(systemd_times).flatten()?;
        times.get(Metric::Boot.key()).copied()
    }
}

/// Takes away all that a series has put on the device but its results, and returns what was there.
///
/// # Errors
/// The first that cannot be taken away; the others are all the same.
pub fn remove(root: &Root) -> anyhow::Result<Vec<&'static str>> {
    let mut there: Vec<&str> = PLACES.into_iter().filter(|place| root.exists(place)).collect();
    let mut outcome = Ok(());
    for place in PLACES {
        let path = root.path(place);
        let removed = durable_file::remove(&path).with_context(|| format!("cannot remove {place}"));
        outcome = outcome.and(removed);
        // The folder of a drop-in, unless it holds another one.
        if place.ends_with(".conf") {
            let _ = path.parent().map(fs::remove_dir);
        }
    }
    let given_back = preload::give_back(root, &Means::Android.folder(root));
    there.extend(given_back.as_ref().is_ok_and(|was_ours| *was_ours).then_some(zygote::MODE));
    outcome.and(given_back).map(|_| there)
}

/// Lets systemd forget what is not there any more.
pub fn forget(root: &Root) {
    if root.is_system() && Means::of(root) == Some(Means::Systemd) {
        let _ = run("systemctl", &["daemon-reload"]);
    }
}

/// Where `brisk boot hold` says what it did in this boot.
pub fn hold_report(root: &Root) -> PathBuf {
    root.runtime_folder().with_file_name(HOLD_REPORT)
}

impl File {
    fn write(&self, root: &Root) -> anyhow::Result<()> {
        let written = durable_file::write(&root.path(self.place), &self.text, self.mode);
        written.with_context(|| format!("cannot write {}", self.place))
    }
}

/// The unit that goes on. It waits for the disks alone, and no unit waits for it.
fn unit(program: &str, words: &str, folder: &str) -> String {
    format!(
        "[Unit]\nDescription=Go on with brisk prove boot --here\nDocumentation=man:brisk-prove(1)\n\
         # To end it: {program} prove --here --stop, or brisk.noreboots on the kernel's command line.\n{REFUSAL}\n\
         DefaultDependencies=no\nRequiresMountsFor={folder}\nAfter=systemd-remount-fs.service local-fs.target\n\
         Conflicts=shutdown.target\nBefore=shutdown.target\n\n\
         [Service]\nType=exec\nExecStart={program} {words}\nTimeoutStopSec=20\n"
    )
}

/// The packaged one, which says what it did; after that, so does `brisk restore`.
fn hold_unit(program: &str) -> String {
    let report = format!("[Service]\nStandardOutput=append:/run/{HOLD_REPORT}");
    let text = HOLD_UNIT.replace(PACKAGED, program).replace(" boot hold", " boot hold --json");
    text.replace("[Unit]", &format!("[Unit]\n{REFUSAL}")).replace("[Service]", &report)
}

/// A word that means the same to systemd and to a shell, without quotes.
fn plain(word: &str) -> anyhow::Result<&str> {
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

/// What `systemctl show` says, in microseconds since the kernel's start; 0 is not yet.
fn times(said: &str) -> Option<BTreeMap<String, f64>> {
    let value = |name: &str| {
        let value = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok());
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

    fn device(means: Means) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let marks: &[&str] = match means {
            Means::Systemd => &["run/systemd/system"],
            Means::Android => &["dev/__properties__", "data/adb/service.d"],
        };
        marks.iter().for_each(|mark| fs::create_dir_all(folder.path().join(mark)).unwrap());
        (folder, root)
    }

    #[test]
    fn a_device_is_told_by_what_it_has() {
        for means in [Means::Systemd, Means::Android] {
            let (folder, root) = device(means);
            assert_eq!(Means::of(&root), Some(means));
            let _ = fs::remove_dir(folder.path().join("data/adb/service.d"));
            let _ = fs::remove_dir(folder.path().join("run/systemd/system"));
            assert_eq!(Means::of(&root), None, "nothing would go on");
        }
    }

    // Verifies BOOT-4.
    #[test]
    fn what_is_put_on_a_device_is_taken_away_again_and_nothing_else() {
        for means in [Means::Systemd, Means::Android] {
            let (folder, root) = device(means);
            let others = folder.path().join("etc/systemd/system/sysinit.target.d/others.conf");
            fs::create_dir_all(others.parent().unwrap()).unwrap();
            fs::write(&others, "").unwrap();
            let program = Path::new("/opt/brisk-1.0/brisk");
            let words = ["prove", "boot-here", "--here", "--yes", "--resume"].map(String::from);
            means.install(&root, program, &words).unwrap();
            means.set_hold(&root, program, true).unwrap();
            assert!(means.places().iter().all(|place| root.exists(place)), "{:?}", means.places());
            means.set_hold(&root, program, false).unwrap();
            means.set_hold(&root, program, false).unwrap();
            assert_eq!(remove(&root).unwrap().len(), means.places().len() - 1, "the switch was off");
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
            REFUSAL,
            "ExecStart=/opt/brisk boot hold --json",
            "ExecStopPost=/opt/brisk restore --journal boot",
            "StandardOutput=append:/run/brisk-reboots-hold.json",
            "Before=sysinit.target",
        ] {
            assert!(hold.lines().any(|known| known == line), "{line}: {hold}");
        }
        let unit = unit("/opt/brisk", "prove boot-here", "/var/lib/brisk-reboots");
        for line in [REFUSAL, "ExecStart=/opt/brisk prove boot-here", "Conflicts=shutdown.target"] {
            assert!(unit.lines().any(|known| known == line), "{line}: {unit}");
        }
    }

    #[test]
    fn times_are_read_as_systemd_says_them() {
        let said = "UserspaceTimestampMonotonic=1500000\nFinishTimestampMonotonic=9250000\n";
        let expected = [("boot_ms", 9250.0), ("kernel_ms", 1500.0)].map(|(key, ms)| (key.to_owned(), ms));
        assert_eq!(times(said), Some(BTreeMap::from(expected)));
        for said in ["", "FinishTimestampMonotonic=0\n", "FinishTimestampMonotonic=\nUserspaceTimestampMonotonic=5\n"] {
            assert_eq!(times(said), None, "{said:?}");
        }
    }
}
