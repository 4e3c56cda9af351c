//! The Magisk and KernelSU module: its installer and its service, run as on a phone: by mksh, which is Android's shell, with
//! toybox's applets and no other program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MODULE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/android/integration/module");

/// build-module packs these files as META-INF/com/google/android.
const INSTALLER_FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/android/integration/installer");

/// build-module packs this file as etc/brisk.toml.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/android/integration/brisk.toml");

/// The functions that Magisk and KernelSU define before they source customize.sh.
const INSTALLER: &str = r#"
set -u
ui_print() { echo "$1"; }
abort() { echo "$1" >&2; exit 1; }
set_perm() { chmod "$4" "$1"; }
set_perm_recursive() { chmod -R u=rwX,go=rX "$1"; }
. "$MODPATH/customize.sh"
"#;

/// Android's shell, and a folder with toybox's applets.
struct Shell {
    applets: tempfile::TempDir,
}

impl Shell {
    fn new() -> Self {
        let applets = tempfile::tempdir().unwrap();
        let toybox = Command::new("toybox").output().expect("toybox is not installed: ./dev test installs it");
        for applet in String::from_utf8(toybox.stdout).unwrap().split_whitespace() {
            std::os::unix::fs::symlink("/usr/bin/toybox", applets.path().join(applet)).unwrap();
        }
        Self { applets }
    }

    /// Runs with `programs` before the applets.
    fn command(&self, programs: &[&Path]) -> Command {
        let folders = programs.iter().copied().chain([self.applets.path()]);
        let mut shell = Command::new("/usr/bin/mksh");
        shell.env("PATH", std::env::join_paths(folders).unwrap());
        shell
    }
}

fn unpacked() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(MODULE).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    folder
}

fn executable(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}

fn install(module: &Path, architecture: &str, cpus: &Path) -> Output {
    fs::create_dir_all(module.join("bin")).unwrap();
    fs::create_dir_all(module.join("etc")).unwrap();
    fs::copy(SETTINGS, module.join("etc/brisk.toml")).unwrap();
    for name in ["brisk-x86_64", "brisk-aarch64"] {
        fs::copy(env!("CARGO_BIN_EXE_brisk"), module.join("bin").join(name)).unwrap();
    }
    let phone = Shell::new();
    let mut shell = phone.command(&[]);
    shell.args(["-c", INSTALLER]).env("MODPATH", module).env("ARCH", architecture).env("BRISK_CPUS", cpus);
    shell.env("BRISK_SETTINGS", cpus.join("settings"));
    shell.output().unwrap()
}

// Verifies ANDROID-3.
#[test]
fn it_installs_on_a_supported_device() {
    let module = unpacked();
    let cpus = tempfile::tempdir().unwrap();
    fs::create_dir_all(cpus.path().join("cpu0/cpufreq")).unwrap();
    let output = install(module.path(), "x64", cpus.path());
    assert!(output.status.success(), "{output:?}");
    let binary = module.path().join("system/bin/brisk");
    assert_eq!(fs::metadata(&binary).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(!module.path().join("bin").exists(), "the other architecture's binary is removed");
    assert!(cpus.path().join("settings").is_dir(), "the folder of the user's settings exists");
    let version = Command::new(&binary).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&version.stdout), format!("brisk {}\n", env!("CARGO_PKG_VERSION")));
}

// Verifies ANDROID-3.
#[test]
fn an_unsupported_device_is_refused_with_the_reason() {
    let cpus = tempfile::tempdir().unwrap();
    for (architecture, reason) in [("arm", "no binary for arm"), ("x64", "no cpufreq")] {
        let output = install(unpacked().path(), architecture, cpus.path());
        assert_eq!(output.status.code(), Some(1));
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(message.contains(reason), "{architecture}: {message}");
    }
}

/// Magisk's application refuses a zip without META-INF, and runs update-binary.
#[test]
fn the_zip_is_one_that_magisk_installs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("brisk-x86_64"), "program").unwrap();
    let zip = folder.path().join("module.zip");
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/android/integration/build-module"))
        .args([folder.path(), zip.as_path()])
        .arg("x86_64")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let bytes = fs::read(&zip).unwrap();
    let installer = ["update-binary", "updater-script"].map(|name| format!("META-INF/com/google/android/{name}"));
    let files = ["module.prop", "customize.sh", "service.sh", "bin/brisk-x86_64"].map(str::to_owned);
    for name in installer.iter().chain(&files) {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name} is missing");
    }
    assert_eq!(fs::read_to_string(format!("{INSTALLER_FILES}/updater-script")).unwrap(), "#MAGISK\n");
}

#[test]
fn magisks_own_installer_gets_the_zip_unless_it_is_too_old() {
    let folder = tempfile::tempdir().unwrap();
    // No file system is mounted here.
    executable(&folder.path().join("mount"), "#!/bin/sh\nexit 1\n");
    for (version, expected) in [("20400", "installs a.zip"), ("19000", "Magisk 20.4 or newer")] {
        let functions = format!("MAGISK_VER_CODE={version}\ninstall_module() {{ echo \"installs $ZIPFILE\"; }}\n");
        fs::write(folder.path().join("util_functions.sh"), functions).unwrap();
        let phone = Shell::new();
        let mut shell = phone.command(&[folder.path()]);
        shell.arg(format!("{INSTALLER_FILES}/update-binary")).args(["3", "1", "a.zip"]);
        let output = shell.env("BRISK_MAGISK", folder.path()).output().unwrap();
        assert_eq!(output.status.success(), version == "20400", "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(expected), "{output:?}");
    }
}

/// Runs service.sh with `brisk` (a shell script) until it ends; returns the subcommands that `brisk` was run with.
fn serve(brisk: &str) -> Vec<String> {
    let module = unpacked();
    let folder = module.path().to_owned();
    let programs: PathBuf = folder.join("programs");
    fs::create_dir_all(folder.join("system/bin")).unwrap();
    fs::create_dir_all(&programs).unwrap();
    // The boot is not yet complete at the first query, and complete at the second.
    executable(
        &programs.join("getprop"),
        &format!("#!/bin/sh\n[ -e {0}/asked ] && echo 1\n: >{0}/asked\n", folder.display()),
    );
    executable(&programs.join("sleep"), "#!/bin/sh\n");
    let brisk = format!(
        "#!/bin/sh\nPATH=/usr/bin:/bin\ncd {}\n[ -e asked ] || exit 9\necho \"$1\" >>log\n{brisk}\n",
        folder.display()
    );
    executable(&folder.join("system/bin/brisk"), &brisk);
    let status = Shell::new().command(&[&programs]).arg(folder.join("service.sh")).status().unwrap();
    assert!(status.success());
    fs::read_to_string(folder.join("log")).unwrap().lines().map(str::to_owned).collect()
}

// Verifies ANDROID-3.
#[test]
fn the_service_restores_after_a_death_and_starts_again() {
    let noted = serve("[ \"$1\" = restore ] || [ \"$(grep -c daemon log)\" -gt 1 ]");
    assert_eq!(noted, ["daemon", "restore", "daemon"]);
}

// Verifies ANDROID-3.
#[test]
fn the_service_gives_up_after_five_quick_failures_and_restores() {
    let noted = serve("[ \"$1\" = restore ]");
    assert_eq!(noted, ["daemon", "restore"].repeat(5));
}

/// Runs uninstall.sh on a device whose /data is `data`; returns the properties that it set.
fn uninstall(data: &Path) -> String {
    let text = fs::read_to_string(Path::new(MODULE).join("uninstall.sh")).unwrap();
    let text = text.replace("/data/", &format!("{}/", data.display()));
    let script = format!("resetprop() {{ echo \"$@\"; }}\n{text}");
    let output = Shell::new().command(&[]).args(["-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// Verifies BOOT-4.
#[test]
fn removal_restores_the_properties_of_a_boot_series() {
    for (record, expected) in [
        (None, ""),
        (Some("plan\noff\n"), "-p persist.brisk.preload plan\n"),
        (Some("\noff\n"), "-p persist.brisk.preload \n"),
    ] {
        let data = tempfile::tempdir().unwrap();
        for folder in ["misc/brisk", "misc/brisk-config", "adb/brisk/reboots", "adb/service.d", "adb/post-fs-data.d"] {
            fs::create_dir_all(data.path().join(folder)).unwrap();
        }
        let scripts = ["adb/service.d/brisk-reboots.sh", "adb/post-fs-data.d/brisk-reboots-hold.sh"];
        scripts.iter().for_each(|script| fs::write(data.path().join(script), "").unwrap());
        if let Some(record) = record {
            fs::write(data.path().join("adb/brisk/reboots/preload.before"), record).unwrap();
        }
        assert_eq!(uninstall(data.path()), expected, "{record:?}");
        let left = ["misc/brisk", "misc/brisk-config", "adb/brisk"]
            .iter()
            .chain(&scripts)
            .filter(|place| data.path().join(place).exists());
        assert_eq!(left.count(), 0);
    }
}

/// A phone with `files` where the module's installer, or a platform build, installs them.
fn phone_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let device = tempfile::tempdir().unwrap();
    for (place, text) in files.iter().chain(&[("system/build.prop", "")]) {
        let path = device.path().join(place);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    device
}

fn shown(device: &Path) -> String {
    let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"));
    let output = brisk.arg("--root").arg(device).args(["config", "show", "--origin"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

// Verifies ANDROID-2.
#[test]
fn a_phones_configuration_is_found_in_module_and_platform_build() {
    let settings = fs::read_to_string(SETTINGS).unwrap();
    let script = fs::read_to_string(Path::new(MODULE).join("../build-module")).unwrap();
    assert!(script.contains("android/integration/brisk.toml \"$folder/etc/brisk.toml\""), "{script}");
    let build = fs::read_to_string(Path::new(MODULE).join("../Android.bp")).unwrap();
    for part in ["required: [\"brisk.toml\"]", "prebuilt_etc {", "sub_dir: \"brisk\"", "system_ext_specific: true"] {
        assert!(build.contains(part), "{part}");
    }
    for place in ["data/adb/modules/brisk/etc/brisk.toml", "system_ext/etc/brisk/brisk.toml"] {
        let device = phone_with(&[(place, &settings)]);
        let shown_alone = shown(device.path());
        let mut lines = shown_alone.lines().filter(|line| line.starts_with("triggers = []"));
        assert!(lines.any(|line| line.ends_with(place)), "{shown_alone}");
        let device = phone_with(&[
            (place, &settings),
            ("data/misc/brisk-config/brisk.toml.d/mine.toml", "[launch]\nminimum_gain_percent = 3.0\n"),
        ]);
        let shown = shown(device.path());
        assert!(
            shown.lines().any(|line| line.starts_with("minimum_gain_percent = 3") && line.contains("mine.toml")),
            "{shown}"
        );
    }
}
