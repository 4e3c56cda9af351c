//! A daemon that ran as its own user: root restores what it left with that user's rights, and a compromised service gains
//! no further rights. The files belong to real users, so only root can run these tests, where there are other users.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::patience::{LONG_PATIENCE, OutputWithin};

const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";
const SERVICE: u32 = 23_456;
/// The journals' folders below /run, and what each may hold: a file, its original and its leased value.
const JOURNALS: [(&str, &str); 4] = [
    ("brisk", "/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate"),
    ("brisk-boot", "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"),
    ("brisk-memory", "/proc/sys/vm/swappiness"),
    ("brisk-experiment", "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq"),
];
const ORIGINAL: &str = "100";
const LEASED: &str = "50";

/// Root in a namespace with one user, or on a kernel without users (`CONFIG_MULTIUSER`), makes no files of others either.
fn makes_files_of_others() -> bool {
    let file = tempfile::NamedTempFile::new().unwrap();
    let made = rustix::process::geteuid().is_root() && chown(file.path(), Some(SERVICE), None).is_ok();
    if !made {
        eprintln!("skipped: this user cannot make files of other users");
    }
    made
}

/// The journal line of a lease of `target` (JSON) with `original`.
fn lease(target: &str, original: &str) -> String {
    let original = serde_json::to_string(original).unwrap();
    format!(
        r#"{{"record":"intent","lease":{{"target":{target},"original":{original},"value":"50","observed":"50","since":1,"until":2,"reason":"test"}}}}"#
    )
}

fn tunable(file: &str) -> String {
    format!("{{\"tunable\":{}}}", serde_json::to_string(file).unwrap())
}

/// A tree of files that every user can access.
struct Device(tempfile::TempDir);

impl Device {
    fn new() -> Self {
        let device = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(device.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (_, file) in JOURNALS {
            device.set(file, LEASED);
        }
        device.set("/proc/mounts", "none /sys/fs/cgroup cgroup2 rw 0 0");
        device
    }

    fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file.trim_start_matches('/'))
    }

    fn set(&self, file: &str, text: &str) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }

    fn get(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap().trim_end().to_owned()
    }

    /// Writes the journal of `user` below /run/`folder`, with `leases`.
    fn journal(&self, folder: &str, user: u32, leases: &[String]) {
        let folder = self.path("run").join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, PermissionsExt::from_mode(0o750)).unwrap();
        let log = folder.join("journal");
        let open = "{\"record\":\"open\",\"format\":1,\"boot_id\":null,\"pid\":7}\n";
        fs::write(&log, format!("{open}{}\n", leases.join("\n"))).unwrap();
        fs::set_permissions(&log, PermissionsExt::from_mode(0o600)).unwrap();
        chown(&log, Some(user), None).unwrap();
        chown(&folder, Some(user), None).unwrap();
    }

    /// Runs brisk with `arguments`; returns its exit code and output.
    fn brisk(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
        let output = command.arg("--root").arg(self.0.path()).args(arguments).output_within(LONG_PATIENCE);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), said)
    }
}

fn owner(path: impl AsRef<Path>) -> u32 {
    path.as_ref().symlink_metadata().unwrap().uid()
}

/// The governor in a boot's journal is another kind of target.
fn own_lease(folder: &str, file: &str) -> String {
    match folder {
        "brisk-boot" => lease(&format!("{{\"governor\":\"{CPUFREQ}/policy0\"}}"), ORIGINAL),
        _ => lease(&tunable(file), ORIGINAL),
    }
}

// Verifies SECURITY-1.
#[test]
fn root_restores_every_journal_with_the_rights_of_its_owner() {
    if !makes_files_of_others() {
        return;
    }
    // Each of the four belongs to root or to the service; of root's files, only those of cpufreq are granted to the service.
    for owners in 0..16u32 {
        let device = Device::new();
        let user = |index: usize| if owners >> index & 1 == 1 { SERVICE } else { 0 };
        for (index, (folder, file)) in JOURNALS.into_iter().enumerate() {
            device.journal(folder, user(index), &[own_lease(folder, file)]);
        }
        let (code, said) = device.brisk(&["restore"]);
        let expected: Vec<&str> = (0..4)
            .map(|index| {
                // The service cannot have set a file that only root may write or that is not a tunable of cpufreq: it is kept.
                let is_beyond = user(index) == SERVICE && matches!(JOURNALS[index].0, "brisk-memory" | "brisk-boot");
                if is_beyond { LEASED } else { ORIGINAL }
            })
            .collect();
        let held: Vec<String> = JOURNALS.iter().map(|(_, file)| device.get(file)).collect();
        assert_eq!(held, expected, "owners {owners:04b}: {said}");
        assert_eq!(code, Some(i32::from(expected.contains(&LEASED))), "owners {owners:04b}: {said}");
        for (_, file) in JOURNALS {
            assert_eq!(owner(device.path(file)), 0, "a granted file belongs to root again: {file}");
        }
    }
}

/// The state that `brisk memory apply --keep` leaves, after the service has run.
// Verifies SECURITY-1.
#[test]
fn restores_what_memory_apply_kept_after_the_service_has_run() {
    if !makes_files_of_others() {
        return;
    }
    for leases in [vec![], vec![own_lease(JOURNALS[0].0, JOURNALS[0].1)]] {
        let device = Device::new();
        device.journal("brisk", SERVICE, &leases);
        device.journal("brisk-memory", 0, &[own_lease("brisk-memory", JOURNALS[2].1)]);
        let (code, said) = device.brisk(&["restore"]);
        assert_eq!((code, device.get(JOURNALS[2].1).as_str()), (Some(0), ORIGINAL), "{said}");
    }
    // One report covers both processes.
    let device = Device::new();
    device.journal("brisk", SERVICE, &[own_lease(JOURNALS[0].0, JOURNALS[0].1)]);
    device.journal("brisk-memory", 0, &[own_lease("brisk-memory", JOURNALS[2].1)]);
    let (code, said) = device.brisk(&["restore", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&said).unwrap();
    let restored = report["restorations"].as_array().unwrap();
    assert!(restored.len() == 2 && restored.iter().all(|one| one["outcome"] == "restored"), "{said}");
    assert_eq!((code, &report["complete"], &report["earlier_boot"]), (Some(0), &true.into(), &false.into()), "{said}");
    let (code, said) = device.brisk(&["restore"]);
    assert_eq!((code, said.as_str()), (Some(0), "Nothing is left changed.\n"));
}

// Verifies SECURITY-1.
#[test]
fn a_journal_can_be_restored_alone() {
    if !makes_files_of_others() {
        return;
    }
    let device = Device::new();
    for (folder, file) in JOURNALS {
        device.journal(folder, 0, &[own_lease(folder, file)]);
    }
    for (index, name) in ["daemon", "boot", "memory", "experiment"].into_iter().enumerate() {
        let (code, said) = device.brisk(&["restore", "--journal", name]);
        let restored = JOURNALS.iter().filter(|(_, file)| device.get(file) == ORIGINAL).count();
        assert_eq!((code, restored), (Some(0), index + 1), "{said}");
    }
    let (code, said) = device.brisk(&["restore", "--journal", "all"]);
    assert!(code == Some(2) && said.contains("expected one of daemon, boot, memory, experiment"), "{said}");
}

/// The binder driver checks CAP_SYS_ADMIN, whichever user owns its files, so a service that sets it runs as root (lookup.conf).
#[test]
fn only_root_may_restore_the_binder_drivers_settings() {
    const CAPACITY: &str = "/sys/kernel/binder_cache/binder/capacity";
    if !makes_files_of_others() {
        return;
    }
    for (user, expected) in [(0, ORIGINAL), (SERVICE, LEASED)] {
        let device = Device::new();
        device.set(CAPACITY, LEASED);
        device.set("/dev/binder", "");
        device.set("/etc/brisk/brisk.toml", "[lookup]\nenabled = true");
        device.journal("brisk", user, &[lease(&tunable(CAPACITY), ORIGINAL)]);
        let (code, said) = device.brisk(&["grant"]);
        assert_eq!((code, owner(device.path(CAPACITY))), (Some(0), 0), "{said}");
        let (code, said) = device.brisk(&["restore"]);
        assert_eq!((code, device.get(CAPACITY).as_str()), (Some(i32::from(user != 0)), expected), "{said}");
        assert_eq!(owner(device.path(CAPACITY)), 0, "{said}");
    }
}

// Verifies SECURITY-1.
#[test]
fn a_journal_of_another_user_is_not_trusted() {
    if !makes_files_of_others() {
        return;
    }
    for (folder_owner, log_owner) in [(0, SERVICE), (SERVICE, SERVICE + 1), (SERVICE, 0)] {
        let device = Device::new();
        device.journal("brisk", log_owner, &[own_lease("brisk", JOURNALS[0].1)]);
        chown(device.path("run/brisk"), Some(folder_owner), None).unwrap();
        let (code, said) = device.brisk(&["restore"]);
        assert_eq!((code, device.get(JOURNALS[0].1).as_str()), (Some(2), LEASED), "{said}");
        assert!(said.contains("not trusted") || said.contains("ermission denied"), "{said}");
    }
}

/// Writes that a compromised service would want root to do: each with its file, whose content must stay unchanged.
fn attacks() -> Vec<(&'static str, String)> {
    let group = |folder: &str, original: &str| lease(&format!("{{\"group\":\"{folder}\"}}"), original);
    vec![
        ("/proc/sys/kernel/core_pattern", lease(&tunable("/proc/sys/kernel/core_pattern"), "|/tmp/x")),
        ("/sys/kernel/uevent_helper", lease(&tunable("/sys/kernel/uevent_helper"), "/tmp/x")),
        (
            "/sys/kernel/uevent_helper",
            lease(&tunable(&format!("{CPUFREQ}/../../../../kernel/uevent_helper")), "/tmp/x"),
        ),
        // A link in place of a tunable.
        ("/etc/passwd", lease(&tunable(&format!("{CPUFREQ}/policy0/link")), "root::0:0")),
        ("/etc/passwd", lease(&tunable("/proc/1/root/etc/passwd"), "root::0:0")),
        ("/etc/passwd", lease(&tunable("/etc/passwd"), "root::0:0")),
        ("/proc/1/oom_score_adj", lease(&tunable("/proc/1/oom_score_adj"), "1000")),
        ("/proc/sys/vm/overcommit_memory", lease(&tunable("/proc/sys/vm/overcommit_memory"), "2")),
        ("/sys/kernel/uevent_helper", group("/sys/fs/cgroup/brisk-processes", "../../../kernel/uevent_helper=/tmp/x")),
        ("/sys/kernel/uevent_helper", group("/sys/kernel/brisk-processes", "../uevent_helper=/tmp/x")),
        ("/tmp/policy0/scaling_governor", lease("{\"governor\":\"/tmp/policy0\"}", "evil")),
        ("/sys/block/zram0/backing_dev", lease("{\"zram-backing\":\"zram0\"}", "/dev/sda1")),
    ]
}

fn victim(file: &str) -> Device {
    let device = Device::new();
    device.set(file, LEASED);
    device.set("/dev/sda1", "");
    fs::create_dir_all(device.path("/sys/fs/cgroup/brisk-processes")).unwrap();
    fs::create_dir_all(device.path("/sys/kernel/brisk-processes")).unwrap();
    fs::create_dir_all(device.path("/proc/1")).unwrap();
    symlink(device.0.path(), device.path("/proc/1/root")).unwrap();
    symlink(device.path("/etc/passwd"), device.path(&format!("{CPUFREQ}/policy0/link"))).unwrap();
    device
}

// Verifies SECURITY-1.
#[test]
fn a_forged_journal_of_the_service_grants_nothing() {
    if !makes_files_of_others() {
        return;
    }
    let mut successful = Vec::new();
    for (file, forged) in attacks() {
        let device = victim(file);
        device.journal("brisk", SERVICE, std::slice::from_ref(&forged));
        let (code, said) = device.brisk(&["restore"]);
        if (code, device.get(file).as_str(), owner(device.path(file))) != (Some(1), LEASED, 0) {
            successful.push(format!("{forged}: {said}"));
        }
    }
    assert!(successful.is_empty(), "{successful:#?}");
}

/// systemd changes the owner of the whole folder to root when the unit is changed to run as root, including forged files.
// Verifies SECURITY-1.
#[test]
fn a_forged_journal_that_root_now_owns_grants_nothing() {
    if !makes_files_of_others() {
        return;
    }
    for (folder, _) in JOURNALS {
        for (file, forged) in attacks() {
            let device = victim(file);
            device.journal(folder, 0, std::slice::from_ref(&forged));
            let (code, said) = device.brisk(&["restore"]);
            assert_eq!((code, device.get(file).as_str()), (Some(1), LEASED), "{folder}, {forged}: {said}");
        }
    }
}

/// The guardian of a daemon that dies, and the next daemon that opens the journal, apply the same list.
// Verifies SECURITY-1.
#[test]
fn a_guardian_restores_only_what_its_holder_may_lease() {
    if !makes_files_of_others() {
        return;
    }
    for (file, forged) in attacks() {
        let device = victim(file);
        device.journal("brisk", 0, &[forged.clone(), own_lease("brisk", JOURNALS[0].1)]);
        let folder = device.path("run/brisk").display().to_string();
        // Its standard input is at end of file, as when the daemon has died.
        let mut guardian = Command::new(env!("CARGO_BIN_EXE_brisk"));
        guardian.arg("--root").arg(device.0.path()).args(["guardian", "--journal", "daemon", "--daemon", "7"]);
        let mut guardian = guardian
            .args(["--folder", &folder])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let begun = std::time::Instant::now();
        while device.get(JOURNALS[0].1) != ORIGINAL {
            assert!(begun.elapsed().as_secs() < 20, "{forged}: the guardian restores the daemon's leases");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // The forged lease is first in the log, so it is restored last: wait for the guardian to process it.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let held = device.get(file);
        // The guardian keeps retrying what was refused.
        guardian.kill().unwrap();
        guardian.wait().unwrap();
        assert_eq!(held, LEASED, "{forged}");
    }
}

/// Root's daemon in a folder that the service has left: files that the service's user creates there later are ignored.
// Verifies SECURITY-2.
#[test]
fn root_takes_over_only_an_empty_journal_of_the_service() {
    if !makes_files_of_others() {
        return;
    }
    let device = Device::new();
    let apply = || device.brisk(&["soak", "--kills", "1", &format!("{CPUFREQ}/ondemand/sampling_rate=60")]);
    device.journal("brisk", SERVICE, &[own_lease("brisk", JOURNALS[0].1)]);
    let (code, said) = apply();
    assert!(code == Some(2) || said.contains("brisk restore"), "{said}");
    assert_eq!(owner(device.path("run/brisk")), SERVICE);
    assert_eq!(device.brisk(&["restore"]).0, Some(0));
    let (code, said) = apply();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!([owner(device.path("run/brisk")), owner(device.path("run/brisk/journal"))], [0, 0]);
}

// Verifies SECURITY-2.
#[test]
fn grant_gives_tunables_to_the_runtime_folders_owner() {
    if !makes_files_of_others() {
        return;
    }
    let device = Device::new();
    for (file, text) in [
        ("policy0/affected_cpus", "0"),
        ("policy0/scaling_governor", "ondemand"),
        ("policy0/scaling_available_governors", "ondemand performance"),
        ("policy0/scaling_available_frequencies", "200000 1200000"),
        ("policy0/scaling_min_freq", "200000"),
        ("policy0/scaling_max_freq", "1200000"),
        ("policy0/cpuinfo_min_freq", "200000"),
        ("policy0/cpuinfo_max_freq", "1200000"),
        ("ondemand/sampling_rate", "100000"),
        ("ondemand/io_is_busy", "0"),
        ("ondemand/up_threshold", "95"),
    ] {
        device.set(&format!("{CPUFREQ}/{file}"), text);
    }
    device.set("/proc/sys/kernel/osrelease", "6.1.0");
    let owners = || {
        ["io_is_busy", "sampling_rate", "up_threshold"]
            .map(|name| owner(device.path(&format!("{CPUFREQ}/ondemand/{name}"))))
    };
    assert_eq!(device.brisk(&["grant"]).0, Some(0), "no service has run");
    device.journal("brisk", 0, &[]);
    assert_eq!((device.brisk(&["grant"]).0, owners()), (Some(0), [0; 3]), "root needs no grant");
    device.journal("brisk", SERVICE, &[]);
    let (code, said) = device.brisk(&["grant"]);
    assert_eq!((code, owners()), (Some(0), [SERVICE, SERVICE, 0]), "what a kick writes, and nothing else: {said}");
    assert_eq!((device.brisk(&["grant", "--revoke"]).0, owners()), (Some(0), [0; 3]));
}
