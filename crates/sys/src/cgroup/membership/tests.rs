use super::*;
use crate::test_trees::root_of;

const V1: (&str, &str) =
    ("/proc/mounts", "none /dev/cpuctl cgroup rw,cpu 0 0\nnone /dev/cpuset cgroup rw,cpuset,noprefix 0 0\n");
const V1_WITH_ACCOUNTS: (&str, &str) = ("/proc/mounts", "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n");
const V2: (&str, &str) = ("/proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n");
const V2_CONTROLLERS: (&str, &str) = ("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids");

/// Where thread 7 may be moved for its weight and for its CPUs.
fn taken_from(files: &[(&str, &str)], choice: &GroupChoice) -> [Option<(String, bool)>; 2] {
    let (_folder, root) = root_of(files);
    let Memberships { cpu, cpuset } = Groups::of(&root, choice).at(&root).memberships(7);
    [cpu, cpuset].map(|from| from.map(|from| (from.taken_into.display().to_string(), from.whole_process)))
}

fn threads(folder: &str) -> Option<(String, bool)> {
    Some((format!("{folder}/brisk-threads"), false))
}

// Verifies PLACE-4.
#[test]
fn version_1_weighs_as_sibling_and_confines_as_child() {
    let folders = [V1, ("/dev/cpuctl/", ""), ("/dev/cpuset/", "")];
    let with = |more: &[(&'static str, &'static str)]| [&folders[..], more].concat();
    let in_groups = ("/proc/7/cgroup", "3:cpuset:/background\n2:cpu:/bg\n0::/\n");
    let auto = |files: &[(&str, &str)]| taken_from(files, &GroupChoice::Auto);
    assert_eq!(auto(&with(&[in_groups])), [threads("/dev/cpuctl"), threads("/dev/cpuset/background")]);
    let quota = ("/dev/cpuctl/bg/cpu.cfs_quota_us", "50000");
    assert_eq!(
        auto(&with(&[in_groups, quota])),
        [None, threads("/dev/cpuset/background")],
        "no thread escapes a quota"
    );
    let no_quota = ("/dev/cpuctl/bg/cpu.cfs_quota_us", "-1");
    assert_eq!(auto(&with(&[in_groups, no_quota]))[0], threads("/dev/cpuctl"));
    let systemd = ("/run/systemd/system/", "");
    assert_eq!(auto(&with(&[in_groups, systemd])), [None, threads("/dev/cpuset/background")]);
    let ours = ("/proc/7/cgroup", "3:cpuset:/background/brisk-threads\n2:cpu:/brisk-threads\n");
    assert_eq!(auto(&with(&[ours])), [None, None], "the thread is in brisk's group already");
    assert_eq!(auto(&folders), [None, None], "the thread has exited");
    assert_eq!(taken_from(&with(&[in_groups]), &GroupChoice::Off), [None, None]);

    let accounts = [V1_WITH_ACCOUNTS, ("/sys/fs/cgroup/cpu/", "")];
    let of = |group: &'static str| auto(&[&accounts[..], &[("/proc/7/cgroup", group)]].concat());
    assert_eq!(of("2:cpu,cpuacct:/\n"), [threads("/sys/fs/cgroup/cpu"), None]);
    assert_eq!(of("2:cpu,cpuacct:/container\n"), [None, None], "its time would be missing in the accounts");
}

// Verifies PLACE-4.
#[test]
fn version_2_belongs_to_its_manager_unless_a_tree_is_named() {
    let flat = [V2, V2_CONTROLLERS, ("/proc/7/cgroup", "0::/\n")];
    let with = |more: &[(&'static str, &'static str)]| [&flat[..], more].concat();
    let auto = |files: &[(&str, &str)]| taken_from(files, &GroupChoice::Auto);
    assert_eq!(auto(&flat), [threads("/sys/fs/cgroup"), threads("/sys/fs/cgroup")]);
    assert_eq!(auto(&with(&[("/run/systemd/system/", "")])), [None, None]);
    assert_eq!(auto(&with(&[("/system/build.prop", "")])), [None, None], "Android's");
    assert_eq!(auto(&with(&[("/sys/fs/cgroup/other/", "")])), [None, None], "the other group's weight would change");
    let shared = [("/sys/fs/cgroup/other/", ""), ("/sys/fs/cgroup/cgroup.subtree_control", "cpu")];
    assert_eq!(auto(&with(&shared)), [threads("/sys/fs/cgroup"), None]);
    let elsewhere = [V2, V2_CONTROLLERS, ("/proc/7/cgroup", "0::/other\n"), ("/sys/fs/cgroup/other/", "")];
    assert_eq!(auto(&elsewhere), [None, None], "a managed group");
    let without_cpuset = [V2, ("/sys/fs/cgroup/cgroup.controllers", "cpu"), ("/proc/7/cgroup", "0::/\n")];
    assert_eq!(auto(&without_cpuset), [threads("/sys/fs/cgroup"), None]);
}

// Verifies PLACE-4.
#[test]
fn a_subtree_takes_threads_if_threaded_otherwise_processes() {
    let tree = GroupChoice::Tree("/sys/fs/cgroup/kiosk".into());
    let base = [V2, V2_CONTROLLERS, ("/sys/fs/cgroup/kiosk/cgroup.controllers", "cpuset cpu memory")];
    let of = |more: &[(&'static str, &'static str)]| taken_from(&[&base[..], more].concat(), &tree);
    let domain = ("/sys/fs/cgroup/kiosk/cgroup.type", "domain");
    let in_tree = ("/proc/7/cgroup", "0::/kiosk\n");
    assert_eq!(of(&[domain, in_tree]), [threads("/sys/fs/cgroup/kiosk"), threads("/sys/fs/cgroup/kiosk")]);
    let memory = ("/sys/fs/cgroup/kiosk/cgroup.subtree_control", "memory");
    assert_eq!(of(&[domain, in_tree, memory]), [None, None], "no threaded child where memory is delegated");
    assert_eq!(of(&[("/sys/fs/cgroup/kiosk/cgroup.type", "domain invalid"), in_tree]), [None, None]);
    assert_eq!(of(&[domain, ("/proc/7/cgroup", "0::/kiosk2\n")]), [None, None], "outside");
    assert_eq!(of(&[domain, ("/proc/7/cgroup", "0::/\n")]), [None, None], "outside");

    let app = [
        domain,
        ("/proc/7/cgroup", "0::/kiosk/app\n"),
        ("/sys/fs/cgroup/kiosk/cgroup.subtree_control", "cpu memory"),
        ("/sys/fs/cgroup/kiosk/app/cgroup.type", "domain"),
        ("/sys/fs/cgroup/kiosk/app/memory.max", "max"),
        ("/sys/fs/cgroup/kiosk/app/cpu.max", "max 100000"),
        ("/sys/fs/cgroup/kiosk/app/cgroup.controllers", "cpu memory"),
    ];
    let inner = [("/sys/fs/cgroup/kiosk/app/cgroup.subtree_control", "memory")];
    let processes = Some(("/sys/fs/cgroup/kiosk/brisk-processes".to_owned(), true));
    assert_eq!(of(&app), [threads("/sys/fs/cgroup/kiosk/app"), None], "threads stay in their process's group");
    assert_eq!(of(&[&app[..], &inner].concat()), [processes, None]);
    let limit = [("/sys/fs/cgroup/kiosk/app/memory.high", "1000000")];
    assert_eq!(of(&[&app[..], &inner, &limit].concat()), [None, None], "no thread escapes a limit");
}

// Verifies PLACE-4, PLACE-8.
#[test]
fn androids_groups_of_processes_weigh_as_wholes() {
    let android = [
        V1,
        ("/system/build.prop", ""),
        ("/dev/cpuctl/", ""),
        ("/dev/cpuctl/cpu.shares", "1024"),
        ("/dev/cpuctl/background/cpu.shares", "512"),
        ("/proc/7/cgroup", "3:cpuset:/background\n2:cpu:/background\n0::/uid_10001/pid_7\n"),
    ];
    let weighed = |files: &[(&str, &str)], choice: &GroupChoice| -> Vec<(String, Option<u32>)> {
        let (_folder, root) = root_of(files);
        let groups = Groups::of(&root, choice);
        let chain = groups.at(&root).weighed(7);
        assert_eq!(groups.has_process_groups(), !chain.is_empty());
        chain.into_iter().map(|group| (group.folder.display().to_string(), group.weight)).collect()
    };
    let expected = [("/dev/cpuctl".to_owned(), None), ("/dev/cpuctl/background".to_owned(), Some(512))];
    assert_eq!(weighed(&android, &GroupChoice::Auto), expected);
    assert_eq!(weighed(&android, &GroupChoice::Off), []);
    assert_eq!(weighed(&[&android[..1], &android[2..]].concat(), &GroupChoice::Auto), [], "no Android");
}

// Verifies PLACE-4.
#[test]
fn a_missing_or_undelegated_tree_is_refused_with_the_reason() {
    let tree = GroupChoice::Tree("/sys/fs/cgroup/kiosk".into());
    let unsupported_reason =
        |files: &[(&str, &str)]| Groups::of(&root_of(files).1, &tree).unsupported_reason.unwrap_or_default();
    assert_eq!(unsupported_reason(&[V1]), "/sys/fs/cgroup/kiosk is in no mounted cgroup v2 hierarchy");
    let systemd = ("/run/systemd/system/", "");
    assert!(unsupported_reason(&[V2, systemd, ("/sys/fs/cgroup/kiosk/", "")]).contains("is not delegated"));
    let manager = ("/sys/fs/cgroup/kiosk/init.scope/cgroup.procs", "1");
    assert_eq!(unsupported_reason(&[V2, manager]), "/sys/fs/cgroup/kiosk is managed by a systemd of its own");
    let unused = Groups::of(&root_of(&[V1]).1, &tree).unused_tree(&tree);
    assert_eq!(
        unused.as_deref(),
        Some(
            "placement.groups = \"/sys/fs/cgroup/kiosk\" is not used: /sys/fs/cgroup/kiosk is in no mounted cgroup v2 hierarchy"
        )
    );
    assert_eq!(Groups::of(&root_of(&[V1]).1, &GroupChoice::Off).unused_tree(&GroupChoice::Off), None);
    assert_eq!(unsupported_reason(&[V2]), "no control group can be written here");
    let with = |controllers| unsupported_reason(&[V2, ("/sys/fs/cgroup/kiosk/cgroup.controllers", controllers)]);
    assert_eq!(with("cpu memory"), "");
    assert_eq!(with("memory pids"), "control groups have neither cpu nor cpuset here");
}

#[test]
fn a_choice_is_a_keyword_or_a_folder() {
    for text in ["auto", "off", "/sys/fs/cgroup/kiosk.slice"] {
        assert_eq!(String::from(text.parse::<GroupChoice>().unwrap()), text);
    }
    for text in ["", "on", "kiosk", "/sys/../etc"] {
        assert!(text.parse::<GroupChoice>().is_err(), "{text:?}");
    }
}
