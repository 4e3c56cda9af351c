//! brisk's SELinux policy for Android, checked against AOSP's neverallow rules, as stated in tests/sepolicy/refused.te,
//! by the compilers that AOSP uses (m4, checkpolicy, secilc).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn shipped(name: &str) -> String {
    fs::read_to_string(folder("android/integration").join(name)).unwrap()
}

/// Runs one of the compilers; Debian installs them in different folders.
fn compiler(name: &str, arguments: &[&Path]) -> Output {
    let places = ["/usr/bin", "/usr/sbin"].map(|place| Path::new(place).join(name));
    let program = places.into_iter().find(|path| path.exists());
    let program = program.unwrap_or_else(|| panic!("install the package {name}"));
    Command::new(program).args(arguments).output().unwrap()
}

/// What the compilers report about brisk's policy with `more` rules; empty when they accept it.
fn refusal(more: &str) -> String {
    let work = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = work.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let own = file("own.te", &(shipped("sepolicy/brisk.te") + &shipped("sepolicy-killer/brisk_killer.te") + more));
    let [platform, refused, end] =
        ["platform.conf", "refused.te", "end.conf"].map(|name| folder("tests/sepolicy").join(name));
    let genfs = folder("android/integration/sepolicy/genfs_contexts");
    let (conf, cil, binary) = (work.path().join("conf"), work.path().join("cil"), work.path().join("binary"));
    let text = compiler("m4", &[&platform, &own, &refused, &end, &genfs]);
    assert!(text.status.success(), "{}", String::from_utf8_lossy(&text.stderr));
    fs::write(&conf, text.stdout).unwrap();
    let [output, mls, to_cil] = ["-o", "-M", "-C"].map(Path::new);
    let parsed = compiler("checkpolicy", &[mls, to_cil, output, &cil, &conf]);
    assert!(parsed.status.success(), "{}", String::from_utf8_lossy(&parsed.stderr));
    let contexts = work.path().join("contexts");
    let [has_mls, is_mls, file_contexts] = ["-M", "true", "-f"].map(Path::new);
    let compiled = compiler("secilc", &[has_mls, is_mls, output, &binary, file_contexts, &contexts, &cil]);
    match compiled.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&compiled.stderr).into_owned() + &String::from_utf8_lossy(&compiled.stdout),
    }
}

// Verifies ANDROID-3.
#[test]
fn the_policy_violates_no_neverallow_rule_of_android() {
    let refused = refusal("");
    assert!(refused.is_empty(), "{refused}");
}

// Verifies ANDROID-3.
#[test]
fn each_violated_neverallow_rule_is_reported() {
    let rules = [
        "allow brisk self:capability dac_override;",
        "allow brisk self:capability dac_read_search;",
        "allow brisk self:capability sys_ptrace;",
        "allow brisk untrusted_app:process ptrace;",
        "allow brisk proc:file write;",
        "allow brisk sysfs:file read;",
        "allow brisk device:file write;",
        "allow brisk debugfs_tracing:file read;",
        "type brisk_socket, file_type; allow brisk brisk_socket:sock_file create;",
        "allow brisk brisk_data_file:file execute;",
        "allow brisk system_file:file entrypoint;",
        "allow brisk self:bpf prog_load;",
        "allow brisk vendor_file:file open;",
        "allow brisk usermodehelper:file write;",
        "allow brisk proc_sysrq:file write;",
        "allow brisk self:capability sys_module;",
    ];
    for rule in rules {
        let refused = refusal(&format!("\n{rule}\n"));
        assert!(refused.contains("neverallow check failed"), "{rule} {refused}");
    }
    let statements = fs::read_to_string(folder("tests/sepolicy/refused.te")).unwrap();
    assert!(
        statements.lines().filter(|line| line.starts_with("neverallow")).count() <= rules.len(),
        "at least one rule for each"
    );
}

/// The types of the policy with their attributes.
fn types() -> BTreeMap<String, BTreeSet<String>> {
    let text = shipped("sepolicy/brisk.te");
    let declaration = |line: &str| {
        let mut names = line.strip_prefix("type ")?.strip_suffix(';')?.split(',').map(|name| name.trim().to_owned());
        Some((names.next()?, names.collect()))
    };
    text.lines().filter_map(declaration).collect()
}

/// Paths and their SELinux types.
fn labels() -> Vec<(String, String)> {
    let label = |line: &str| {
        let (path, context) = line.split_once(' ')?;
        Some((path.to_owned(), context.trim().strip_prefix("u:object_r:")?.strip_suffix(":s0")?.to_owned()))
    };
    shipped("sepolicy/file_contexts").lines().filter_map(label).collect()
}

/// AOSP's own policy tests require this.
// Verifies ANDROID-3.
#[test]
fn files_have_the_types_that_their_partition_requires() {
    let (types, labels) = (types(), labels());
    assert_eq!(labels.len(), 4);
    for (path, label) in &labels {
        let wanted = match path {
            path if path.contains("system_ext") => "system_file_type",
            path if path.starts_with("/data/") => "core_data_file_type",
            _ => "coredomain_socket",
        };
        assert!(types[label].contains(wanted), "{path} is {label}, which is no {wanted}");
    }
    let genfs = shipped("sepolicy/genfs_contexts");
    for line in genfs.lines() {
        let label = line.rsplit_once("object_r:").and_then(|(_, rest)| rest.strip_suffix(":s0")).unwrap();
        assert!(types[label].contains("sysfs_type"), "{line}");
    }
}

// Verifies ANDROID-3.
#[test]
fn the_policy_grants_all_that_the_services_request() {
    let rc = shipped("brisk.rc");
    let granted: Vec<String> = [shipped("sepolicy/brisk.te"), shipped("sepolicy-killer/brisk_killer.te")]
        .iter()
        .flat_map(|text| text.lines())
        .filter_map(|line| line.strip_prefix("allow brisk self:capability {")?.strip_suffix("};"))
        .flat_map(|names| names.split_whitespace().map(str::to_uppercase))
        .collect();
    let asked = rc.lines().filter_map(|line| line.trim().strip_prefix("capabilities "));
    let asked: BTreeSet<&str> = asked.flat_map(str::split_whitespace).collect();
    assert_eq!(asked, granted.iter().map(String::as_str).collect());
    let made = rc.lines().filter_map(|line| line.trim().strip_prefix("mkdir ")?.split(' ').next());
    let made: Vec<_> = made.collect();
    assert_eq!(made, ["/dev/brisk", "/dev/brisk-boot", "/data/misc/brisk", "/data/misc/brisk-config"]);
    for folder in made {
        // A label's path is a regular expression: the text before its first group.
        let stem = |path: &str| path.split('(').next().unwrap_or_default().to_owned();
        let is_labelled = labels()
            .iter()
            .any(|(path, _)| stem(path) == folder || path.contains("(-[a-z]+)?") && folder.starts_with(&stem(path)));
        assert!(is_labelled, "{folder} has a label");
    }
}
