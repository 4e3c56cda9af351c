//! What a release's packages install, upgrade and remove, with Debian's systemd and dpkg and the README's commands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use brisk::lab::GuestFile;

use super::steps::Report;
use super::{job, static_brisk};

/// The packages that the guest needs in addition to systemd to install a package as Debian does, with their libraries.
const PACKAGES: [&str; 19] = [
    "dash",
    "dpkg",
    "tar",
    "perl-base",
    "init-system-helpers",
    "passwd",
    "libc-bin",
    "libmd0",
    "libbz2-1.0",
    "zlib1g",
    "libpam0g",
    "libsemanage2",
    "libsepol2",
    "libcrypt1",
    "libpcre2-8-0",
    "libselinux1",
    "libaudit1",
    "libcap-ng0",
    "libacl1",
];
/// Files of systemd's package.
const OWN: [&str; 5] = [
    "bin/systemd-sysusers",
    "lib/systemd/system/basic.target",
    "lib/systemd/system/sockets.target",
    "lib/systemd/system/paths.target",
    "lib/systemd/system/multi-user.target",
];
/// The installed packages that brisk's package depends on.
const STATUS: &str = "\
Package: init-system-helpers\nStatus: install ok installed\nVersion: 1.65\nArchitecture: all\nMaintainer: lab <lab>\n\
Description: in the guest\n\n\
Package: systemd\nStatus: install ok installed\nVersion: 252\nArchitecture: amd64\nMaintainer: lab <lab>\n\
Description: in the guest\n";

/// The README's commands by the word after ```sh.
fn lines() -> BTreeMap<String, String> {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let blocks = readme.split("```sh ").skip(1).filter_map(|rest| rest.split_once("```")?.0.split_once('\n'));
    blocks.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// A release of the program that guests run, without its documents, which xtask generates.
fn release(binary: &Path) -> &'static Path {
    static RELEASE: OnceLock<PathBuf> = OnceLock::new();
    RELEASE.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("release");
        let _ = fs::remove_dir_all(&folder);
        for name in ["input/man", "input/completions"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        fs::copy(binary, folder.join("input/brisk-x86_64")).unwrap();
        let made = [
            "man/brisk.1",
            "man/brisk.toml.5",
            "completions/brisk.bash",
            "completions/_brisk",
            "completions/brisk.fish",
            "brisk.cdx.json",
        ];
        made.iter().for_each(|name| fs::write(folder.join("input").join(name), "made by xtask\n").unwrap());
        let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/release"))
            .args([folder.join("input"), folder.join("output")])
            .arg("x86_64")
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        folder
    })
}

/// The output of `step` of install.sh.
fn report(step: &str) -> Option<Report> {
    let binary = static_brisk()?;
    let mut job = job(binary, "systemd-6.1", &["dash", "/install.sh", step]);
    // Files kept on the disk are mounted, and could not be removed.
    job.scenario.guest.kept.clear();
    // The package, its unpacked files and the lab's own brisk are in memory at the same time.
    job.scenario.machine.memory_mib = 1024;
    let systemd = job.scenario.guest.systemd.as_mut().unwrap();
    systemd.packages.extend(PACKAGES.map(str::to_owned));
    systemd.own.extend(OWN.map(str::to_owned));
    systemd.files.insert(
        "/etc/systemd/system/default.target.d/basic.conf".into(),
        "[Unit]\nRequires=basic.target\nAfter=basic.target\n".into(),
    );
    for (path, text) in [("status", STATUS), ("info/format", "1\n")] {
        systemd.files.insert(format!("/var/lib/dpkg/{path}"), text.into());
    }
    let made = release(binary).join("output");
    for entry in fs::read_dir(made).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if name.starts_with("brisk_") || name.ends_with(".tar.gz") {
            let contents = fs::read(entry.path()).unwrap();
            job.files.push(GuestFile { path: format!("/release/{name}"), contents, mode: 0o644 });
        }
    }
    for (name, text) in lines() {
        job = job.with_file(format!("/{name}.lines"), text);
    }
    Some(Report::of(job, "/install.sh", include_str!("install.sh"), Duration::from_secs(900)))
}

/// Checks that each of the README's commands of that name has run, `times` times, and has exited with 0.
fn ran(report: &Report, name: &str, times: usize) {
    let text = lines()[name].repeat(times);
    let expected: Vec<String> = text.lines().map(|line| format!("0 {line}")).collect();
    assert!(!expected.is_empty(), "{name}");
    assert_eq!(report.all(name), expected, "{name}: {report:#?}");
}

fn is_upgraded(report: &Report) {
    assert_eq!(report.one("started"), "inactive disabled", "an installation starts nothing");
    ran(report, "try", 1);
    assert_eq!(report.one("upgraded"), "another process active");
    assert!(report.one("kept").contains("enabled = true"), "settings survive the upgrade: {report:#?}");
    assert_ne!(report.one("held"), "100000");
    assert_eq!(report.one("restored"), "100000");
    assert_eq!(report.one("left").trim(), "", "no file is left");
}

// Verifies INSTALL-1.
#[test]
fn the_readmes_commands_install_upgrade_and_purge_the_package() {
    let Some(report) = report("package") else { return };
    ran(&report, "package", 2);
    ran(&report, "undo", 1);
    ran(&report, "remove-package", 1);
    is_upgraded(&report);
}

// Verifies INSTALL-1.
#[test]
fn the_readmes_commands_install_upgrade_and_remove_the_tarball() {
    let Some(report) = report("tarball") else { return };
    ran(&report, "tarball", 2);
    ran(&report, "remove-tarball", 1);
    is_upgraded(&report);
}

// Verifies INSTALL-1.
#[test]
#[ignore = "boots a guest: ./dev test --deep"]
fn a_removed_package_restores_and_keeps_settings_until_purged() {
    let Some(report) = report("package_removed") else { return };
    assert_eq!(report.one("restored"), "100000");
    assert_eq!(report.one("stopped"), "inactive");
    assert!(report.one("set").contains("switched.toml"), "{report:#?}");
    assert_eq!(report.one("left").trim(), "", "no file is left");
}
