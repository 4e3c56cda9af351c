//! Debian's systemd as a guest's first process: its files, and the unit that the job's command runs in.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::architecture::Architecture;
use super::assembly::cache::fault;
use super::assembly::libraries;
use super::assembly::packages::Packages;
use super::error::LabError;
use super::guest::GuestSystemd;
use super::job::GuestFile;
use super::scenario::Systemd;

/// The files of systemd's own package; newer packages have one more program.
const PROGRAMS: &[&str] = &["lib/systemd/systemd", "lib/systemd/systemd-executor", "usr/bin/systemd-run"];
/// The folders that are taken from other packages.
const FOLDERS: &[&str] = &["bin", "sbin", "lib", "etc", "usr/bin", "usr/sbin", "usr/lib", "usr/share/dbus-1"];
/// The first UID that Debian gives to system users.
const FIRST_SYSTEM_UID: usize = 100;
/// With a machine ID, systemd does not take this boot for the first one.
const MACHINE_ID: &str = "6272697369736272697369736272690a";
const SETTINGS: &str = "[Manager]\nShowStatus=no\nLogLevel=warning\n";
const TARGET: &str = "[Unit]\nDescription=brisk's laboratory\nWants=brisk-job.service\n";

/// What a guest with systemd as its first process needs: how systemd is started, and each file.
///
/// # Errors
/// [`LabError`] when a package cannot be obtained, or a part of it is missing.
pub fn files(
    packages: &Packages<'_>,
    systemd: &Systemd,
    architecture: &Architecture,
) -> Result<(GuestSystemd, Vec<GuestFile>), LabError> {
    let own = packages.with_libraries("systemd")?;
    let mut paths: BTreeMap<String, PathBuf> = PROGRAMS.iter().filter_map(|place| in_package(&own, place)).collect();
    let missing = |place: &str| LabError::Package { package: "systemd".into(), reason: format!("it has no {place}") };
    let program = paths.keys().find(|path| path.ends_with("/systemd")).cloned().ok_or_else(|| missing(PROGRAMS[0]))?;
    for place in &systemd.own {
        paths.extend([in_package(&own, place).ok_or_else(|| missing(place))?]);
    }
    let mut roots = vec![own];
    for name in &systemd.packages {
        let root = packages.alone(name)?;
        for folder in FOLDERS {
            collect(&root, &root.join(folder), &mut paths)?;
        }
        roots.push(root);
    }
    let programs: Vec<PathBuf> = paths.values().cloned().collect();
    let roots: Vec<&Path> = roots.iter().map(PathBuf::as_path).collect();
    paths.extend(libraries::needed_by(&programs, &roots, architecture.machine)?);
    let mut files = paths.iter().map(|(path, file)| read(path, file)).collect::<Result<Vec<_>, _>>()?;
    let (passwd, group) = users(&systemd.users);
    for (path, text) in [
        ("/etc/passwd", passwd.as_str()),
        ("/etc/group", &group),
        ("/etc/machine-id", &format!("{MACHINE_ID}\n")),
        ("/etc/systemd/system.conf", SETTINGS),
        ("/etc/systemd/system/default.target", TARGET),
        ("/etc/systemd/system/brisk-job.service", &unit(&systemd.services, architecture.console)),
        // Units with a private /tmp have a private /var/tmp as well.
        ("/var/tmp/.keep", ""),
    ] {
        files.push(GuestFile { path: path.into(), contents: text.into(), mode: 0o644 });
    }
    let own = systemd.files.iter();
    files.extend(own.map(|(path, text)| GuestFile { path: path.clone(), contents: text.as_str().into(), mode: 0o644 }));
    Ok((GuestSystemd { program, services: systemd.services.clone() }, files))
}

/// A file of a package, with or without `usr/` as its release has it: its path in the guest, and the file.
fn in_package(root: &Path, place: &str) -> Option<(String, PathBuf)> {
    let places = [place.to_owned(), format!("usr/{place}")];
    let found = places.into_iter().find(|place| root.join(place).is_file())?;
    Some((format!("/{found}"), root.join(&found)))
}

/// All files below `folder`; links are followed, because a link may be another name of a library.
fn collect(root: &Path, folder: &Path, found: &mut BTreeMap<String, PathBuf>) -> Result<(), LabError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry.map_err(fault("list", folder))?.path();
        if path.is_dir() {
            collect(root, &path, found)?;
        } else if let (true, Ok(place)) = (path.is_file(), path.strip_prefix(root)) {
            found.insert(format!("/{}", place.display()), path);
        }
    }
    Ok(())
}

fn read(path: &str, file: &Path) -> Result<GuestFile, LabError> {
    let contents = fs::read(file).map_err(fault("read", file))?;
    let mode = fs::metadata(file).map_err(fault("read", file))?.permissions().mode() & 0o777;
    Ok(GuestFile { path: path.into(), contents, mode })
}

/// The texts of passwd(5) and group(5) with root and `names`.
fn users(names: &[String]) -> (String, String) {
    let mut texts = (String::from("root:x:0:0:root:/:/bin/sh\n"), String::from("root:x:0:\n"));
    for (number, name) in (FIRST_SYSTEM_UID..).zip(names) {
        texts.0 += &format!("{name}:x:{number}:{number}::/:/usr/sbin/nologin\n");
        texts.1 += &format!("{name}:x:{number}:\n");
    }
    texts
}

/// The unit of the job's command. systemd does not stop it when the kernel kills one of its processes.
fn unit(services: &[String], console: &str) -> String {
    let services = services.join(" ");
    format!(
        "[Unit]\nDescription=The job of brisk's laboratory\nDefaultDependencies=no\nWants={services}\nAfter={services}\n\
         [Service]\nExecStart=/bin/brisk lab job\nStandardOutput=null\nStandardError=file:/dev/{console}\n\
         OOMPolicy=continue\nTasksMax=infinity\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_numbered_and_the_job_waits_for_its_services() {
        let (passwd, group) = users(&["one".into(), "two".into()]);
        assert_eq!(passwd.lines().last(), Some("two:x:101:101::/:/usr/sbin/nologin"));
        assert_eq!(group, "root:x:0:\none:x:100:\ntwo:x:101:\n");
        let unit = unit(&["a.service".into(), "b.service".into()], "ttyS0");
        for line in ["Wants=a.service b.service", "After=a.service b.service", "StandardError=file:/dev/ttyS0"] {
            assert!(unit.lines().any(|known| known == line), "{unit}");
        }
    }

    #[test]
    fn a_packages_files_keep_their_places_and_modes() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("usr/lib/systemd")).unwrap();
        fs::write(root.join("usr/lib/systemd/x.conf"), "x").unwrap();
        std::os::unix::fs::symlink("x.conf", root.join("usr/lib/systemd/y.conf")).unwrap();
        std::os::unix::fs::symlink("/nowhere", root.join("usr/lib/systemd/z.conf")).unwrap();
        let mut found = BTreeMap::new();
        for place in FOLDERS {
            collect(root, &root.join(place), &mut found).unwrap();
        }
        let places: Vec<_> = found.keys().map(String::as_str).collect();
        assert_eq!(places, ["/usr/lib/systemd/x.conf", "/usr/lib/systemd/y.conf"]);
        fs::set_permissions(&found[places[0]], fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(read("/x", &found[places[1]]).unwrap().mode, 0o750);
        assert_eq!(in_package(root, "lib/systemd/x.conf").unwrap().0, "/usr/lib/systemd/x.conf");
    }
}
