//! The format of an experiment's file.

use super::*;
use crate::claim::PointSelector;

const MINIMAL: &str = r#"name = "small"
title = "Small"
description = "Two arms."
mechanism = "launch"
mode = "deterministic"
scenario = "launch"
[workload]
program = "load"
work_ms = [200, 400]
settle_ms = [100, 200]
window_beyond_work_ms = 500
[replicates]
quick = 2
full = 4
[[arm]]
name = "slow"
title = "slow"
baseline = true
governor = "ondemand"
tunables = { sampling_rate = 100000 }
[[arm]]
name = "fast"
title = "fast"
governor = "performance"
[[claim]]
id = "launch.small"
text = "fast is faster"
measure = "gain"
arm = "fast"
required = ">= 1"
promise = "LAUNCH-4"
"#;

#[test]
fn a_minimal_experiment_is_read() {
    let experiment = Experiment::parse("small", MINIMAL).unwrap();
    assert_eq!(experiment.arms[0].tunables["sampling_rate"], "100000");
    assert_eq!(experiment.points(true), [Point::Work(200), Point::Work(400)]);
    assert_eq!(experiment.claims[0].at, PointSelector::Each);
    assert_eq!((experiment.baseline(), experiment.replicates.warm_up), (0, 1));
    // An experiment without a quick form.
    Experiment::parse("small", &MINIMAL.replacen("quick = 2", "quick = 0", 1)).unwrap();
}

#[test]
fn mistakes_are_named_with_line_and_column() {
    let cases = [
        ("mode = \"deterministic\"", "mode = \"quantum\"", "x:5:8: unknown variant `quantum`"),
        ("program = \"load\"", "program = \"load\"\nspeed = 3", "x:9:1: unknown field `speed`"),
        ("work_ms = [200, 400]", "work_ms = \"all\"", "x:9:11: invalid type: string \"all\""),
        ("arm = \"fast\"", "arm = \"faster\"", "x:29:7: there is no arm \"faster\""),
        ("required = \">= 1\"", "required = \"> 1\"", "x:30:12: \"> 1\" is not a requirement"),
        ("baseline = true\n", "", "x:1:1: 0 arms have `baseline = true`"),
        ("beyond_work_ms = 500", "beyond_work_ms = 0", "x:1:1: window_beyond_work_ms must be above zero"),
        ("title = \"fast\"", "title = \"fast\"\nhold_from_kernel = true", "x:1:1: arm fast: hold_from_kernel is for"),
        ("title = \"fast\"", "title = \"fast\"\nhidden_limit = 12", "x:1:1: arm fast: hidden_limit is for"),
        ("scenario = \"launch\"\n", "", "x:1:1: an experiment in the lab names its `scenario`"),
        ("quick = 2", "quick = 2\nquick_work_ms = [300]", "x:1:1: quick_work_ms has 300"),
        ("full = 4", "full = [4]", "x:1:1: replicates: full lists 1 numbers for 2 points"),
        ("full = 4", "full = [4, 1]", "x:1:1: replicates: quick must be at least 2, and full at least quick"),
        ("quick = 2", "quick = 1", "x:1:1: replicates: quick must be at least 2"),
        (
            "title = \"fast\"",
            "title = \"fast\"\nfull = 1",
            "x:1:1: arm fast: full, its own number of replicates, must be",
        ),
        ("baseline = true", "baseline = true\nfull = 3", "x:1:1: the baseline has as many replicates as the most"),
        ("full = 4", "full = \"many\"", "x:14:8: expected a number, or a list"),
        ("measure = \"gain\"", "measure = \"loss\"", "x:29:7: claim launch.small: gap-closed, loss and off-est"),
        ("arm = \"fast\"", "arm = \"fast\"\nat = [300]", "x:29:7: claim launch.small: at has 300"),
        ("arm = \"fast\"", "arm = \"fast\"\nat = \"noon\"", "x:30:6: invalid value: string \"noon\""),
        ("promise = \"LAUNCH-4\"\n", "", "x:25:1: missing field `promise`"),
        ("\"LAUNCH-4\"", "\"launch-4\"", "x:31:11: \"launch-4\" is not a promise's number"),
        ("title = \"Small\"", "title = \"Small", "x:2:"),
    ];
    for (from, to, expected) in cases {
        let text = MINIMAL.replacen(from, to, 1);
        assert_ne!(text, MINIMAL, "{from}");
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  wanted {expected}");
    }
}

#[test]
fn an_application_of_android_does_its_work_alone() {
    let text = MINIMAL.replacen("program = \"load\"", "program = \"android-application\"", 1);
    let experiment = Experiment::parse("x", &text).unwrap();
    assert_eq!(experiment.launches.unwrap().program, Program::AndroidApplication);
    for (from, to) in [
        ("settle_ms", "start_up_ms = 20\nsettle_ms"),
        ("settle_ms", "threads = 2\nsettle_ms"),
        ("settle_ms", "bursts = { work_ms = 20, wait_ms = 3 }\nsettle_ms"),
        ("baseline = true", "baseline = true\nestimates = \"launch\""),
        ("mode = \"deterministic\"\nscenario = \"launch\"", "mode = \"native\""),
    ] {
        let error = Experiment::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains("an android-application is opened in the lab"), "{to}: {error}");
    }
}

#[test]
fn memory_is_filled_by_one_thread_in_the_lab() {
    let memory = "memory = { available_kib = 9, cached = 2, cached_kib = 8, kib_per_work_ms = 4 }\nsettle_ms";
    let text = MINIMAL.replacen("settle_ms", memory, 1);
    let launches = Experiment::parse("x", &text).unwrap().launches.unwrap();
    let expected = LaunchMemory { available_kib: 9, cached: 2, cached_kib: 8, kib_per_work_ms: 4 };
    assert_eq!(launches.memory, Some(expected));
    for (from, to, expected) in [
        ("cached = 2", "cached = 0", "memory: every amount must be above zero"),
        ("kib_per_work_ms = 4", "kib_per_work_ms = 0", "memory: every amount must be above zero"),
        ("memory =", "threads = 2\nmemory =", "by one thread in one piece of work"),
        ("memory =", "start_up_ms = 20\nmemory =", "by one thread in one piece of work"),
        ("mode = \"deterministic\"\nscenario = \"launch\"", "mode = \"native\"", "is filled in the lab"),
    ] {
        let error = Experiment::parse("x", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  wanted {expected}");
    }
}

#[test]
fn energy_is_claimed_only_where_it_is_measured() {
    let claimed = MINIMAL.replacen("measure = \"gain\"", "measure = \"gain\"\nmetric = \"energy\"", 1);
    Experiment::parse("x", &claimed).unwrap();
    let unmeasured = claimed.replacen("work_ms = 500", "work_ms = 500\nenergy = false", 1);
    let error = Experiment::parse("x", &unmeasured).unwrap_err().to_string();
    assert!(error.ends_with("claim launch.small: the workload has `energy = false`"), "{error}");
}

#[test]
fn estimates_are_of_launches_and_compared_with_their_gain() {
    let claimed = MINIMAL.replacen("measure = \"gain\"", "measure = \"off-estimate\"\ntoward = \"slow\"", 1).replacen(
        "baseline = true",
        "baseline = true\nestimates = \"launch\"",
        1,
    );
    assert_eq!(Experiment::parse("x", &claimed).unwrap().arms[0].estimates.as_deref(), Some("launch"));
    let with_lookups = claimed.replacen(
        "work_ms = [200, 400]",
        "work_ms = [200, 400]\nlookups = { services = 9, per_work_ms = 1 }",
        1,
    );
    for (text, expected) in [
        (claimed.replacen("estimates = \"launch\"\n", "", 1), "`toward` an arm with `estimates`"),
        (claimed.replacen("estimates = \"launch\"", "estimates = \"boot\"", 1), "for one of launch, placement, lookup"),
        (with_lookups.clone(), "arm slow: lookup names the context manager"),
        (with_lookups.replacen("per_work_ms = 1", "per_work_ms = 0", 1), "per_work_ms must be above zero"),
    ] {
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  wanted {expected}");
    }
    let elsewhere = LOOKUPS.replacen("baseline = true", "baseline = true\nestimates = \"lookup\"", 1);
    let error = Experiment::parse("x", &elsewhere).unwrap_err().to_string();
    assert!(error.contains("arm off: estimates are of launches in the lab"), "{error}");
}

#[test]
fn the_quick_form_omits_full_only_arms_and_claims() {
    let text = MINIMAL.replacen("governor = \"performance\"", "governor = \"performance\"\nfull_only = true", 1);
    let quick = Experiment::parse("x", &text).unwrap().in_quick_form();
    assert_eq!((quick.arms.len(), quick.claims.len()), (1, 0));
    let text = MINIMAL.replacen("required = \">= 1\"", "required = \">= 1\"\nfull_only = true", 1);
    let experiment = Experiment::parse("x", &text).unwrap();
    assert_eq!(experiment.claims.len(), 1);
    let quick = experiment.in_quick_form();
    assert_eq!((quick.arms.len(), quick.claims.len()), (2, 0));
    let baseline = text.replacen("baseline = true", "baseline = true\nfull_only = true", 1);
    assert!(Experiment::parse("x", &baseline).unwrap_err().to_string().contains("the baseline cannot be full_only"));
}

const LOOKUPS: &str = r#"name = "samples"
title = "Looks"
description = "Two drivers."
mechanism = "lookup"
mode = "deterministic"
scenario = "binder-6.1"
lookups = { services = 10, count = 20, misses = 5 }
replicates = { quick = 2, full = 4 }
[[arm]]
name = "off"
title = "off"
baseline = true
lookup = { manager = "own", format = "android-5", cache = { mode = "off" } }
[[arm]]
name = "on"
title = "on"
lookup = { manager = "own", format = "android-5", cache = { mode = "transparent", capacity = 10 } }
[[claim]]
id = "lookup.level"
promise = "LAUNCH-4"
text = "short"
measure = "level"
metric = "lookup"
arm = "on"
required = "<= 5000"
"#;

#[test]
fn experiments_about_lookups_are_read_and_their_mistakes_named() {
    let experiment = Experiment::parse("x", LOOKUPS).unwrap();
    assert_eq!(experiment.points(true), [Point::Lookups(20)]);
    assert_eq!(experiment.replicates_by_point(false), [4]);
    assert_eq!(experiment.arms[1].lookup.as_ref().unwrap().cache["capacity"], "10");
    for (from, to, expected) in [
        ("android-5", "android-4", "arm off: there is no wire format \"android-4\""),
        ("deterministic", "parallel", "clients belong to parallel mode"),
        ("misses = 5", "clients = [2]", "clients belong to parallel mode"),
        ("misses = 5", "applications = [\"boot\", \"game\"]", "no application \"game\""),
        ("count = 20", "count = 0", "services, count and misses must be above zero"),
        ("misses = 5", "steps = true, applications = [\"boot\"]", "steps are of one client's lookups"),
        ("lookup = { manager = \"own\", format = \"android-5\", cache = { mode = \"off\" } }", "", "arm off: lookup"),
        ("metric = \"lookup\"", "metric = \"launch\"", "its metric belongs to another kind of workload"),
        ("lookups = { services = 10, count = 20, misses = 5 }", "", "one of a `workload`"),
    ] {
        let text = LOOKUPS.replacen(from, to, 1);
        assert_ne!(text, LOOKUPS, "{from}");
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  wanted {expected}");
    }
    let shown = |from: &str, to: &str| {
        let text = LOOKUPS.replace(from, to).replace("services = 10,", "services = 100,");
        let points = Experiment::parse("x", &text).unwrap().points(true);
        points.iter().map(Point::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown("misses = 5", "applications = [\"boot\", \"tests\"]"), ["boot", "tests"]);
    let parallel = LOOKUPS.replace("misses = 5", "clients = [1, 4]").replace("deterministic", "parallel");
    assert_eq!(shown(LOOKUPS, &parallel), ["1 client", "4 clients"]);
    let launches = MINIMAL.replacen("governor = \"performance\"", "scenario = \"other\"", 1);
    Experiment::parse("x", &launches).unwrap();
    for wrong in
        [launches.replace("deterministic", "parallel"), launches.replace("scenario = \"other\"", "swap = \"/dev/a\"")]
    {
        let error = Experiment::parse("x", &wrong).unwrap_err().to_string();
        assert!(error.contains("belong to experiments with lookups"), "{error}");
    }
}

const BOOTS: &str = r#"name = "boots"
title = "Boots"
description = "Two ways to preload."
mechanism = "boot"
mode = "parallel"
scenario = "zygote-6.1-parallel"
replicates = { quick = 2, full = 15, warm_up = 0 }
[boots]
classes = 400
services_ms = 10
system_server_ms = 10
application_ms = 10
bursts = { work_ms = 2, wait_ms = 1 }
turns_per_ms = 1000
[[arm]]
name = "stock"
title = "stock"
baseline = true
[[arm]]
name = "plan"
title = "plan"
preload = "plan"
[[claim]]
id = "boot.of-bound"
promise = "PRELOAD-3"
text = "most of the bound"
measure = "of-bound"
metric = "boot"
arm = "plan"
required = ">= 80"
"#;

#[test]
fn experiments_about_boots_are_read_and_their_mistakes_named() {
    let experiment = Experiment::parse("x", BOOTS).unwrap();
    assert_eq!((experiment.points(true), experiment.subject()), (vec![Point::Boot], Subject::Boots));
    assert_eq!(experiment.arms.iter().map(|arm| arm.preload.mode()).collect::<Vec<_>>(), ["off", "plan"]);
    for (from, to, expected) in [
        ("mode = \"parallel\"", "mode = \"deterministic\"", "x:1:1: a zygote preloads on several CPUs"),
        ("classes = 400", "classes = 0", "x:1:1: boots: every amount must be above zero"),
        ("wait_ms = 1", "wait_ms = 0", "x:1:1: boots: every amount must be above zero"),
        (", warm_up = 0", "", "x:1:1: a boot has no warm-up: warm_up = 0"),
        (
            "metric = \"boot\"",
            "metric = \"classes-left\"",
            "x:29:7: claim boot.of-bound: of-bound and off-prediction are",
        ),
        ("preload = \"plan\"", "preload = \"halves\"", "x:22:11: unknown variant `halves`"),
        ("[boots]", "[readings]\ncount = 1\n[boots]", "x:1:1: an experiment has one of a `workload`"),
        ("preload = \"plan\"", "hold_from_kernel = true", "x:1:1: arm plan: hold_from_kernel needs a scenario"),
        (
            "preload = \"plan\"",
            "hold_from_kernel = true\nscenario = \"y\"\ngovernor = \"ondemand\"\nboot_hold = true",
            "x:1:1: arm plan: hold_from_kernel needs a scenario",
        ),
    ] {
        let error = Experiment::parse("x", &BOOTS.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\n  wanted {expected}");
    }
}

const COMBINATIONS: &str = r#"name = "together"
title = "Together"
description = "One foreground task."
mechanism = "placement"
mode = "parallel"
scenario = "x"
replicates = { quick = 2, full = 60, least = 10, warm_up = 0 }
arm = [
  { name = "alone", title = "", alone = true },
  { name = "stock", title = "", baseline = true },
  { name = "brisk", title = "", brisk = { placement = { enabled = true } } },
]
[combinations]
settle_ms = [1800, 2000]
list = [
  { foreground = "frames", background = ["music", "hog"], alone = true, quick = true },
  { foreground = "thread", background = ["music", "hog", "hog"], unseen = true },
]
[[claim]]
id = "placement.x"
promise = "LAUNCH-4"
text = ""
measure = "gain"
metric = "foreground"
arm = "brisk"
at = ["frames"]
against = "alone"
"#;

#[test]
fn combinations_are_points_and_their_mistakes_are_named() {
    let experiment = Experiment::parse("x", COMBINATIONS).unwrap();
    let names: Vec<String> = experiment.points(false).iter().map(Point::to_string).collect();
    assert_eq!(names, ["frames / music + hog", "thread / music + hog + hog"]);
    assert_eq!((experiment.points(true).len(), experiment.subject()), (1, Subject::Combinations));
    assert_eq!(experiment.excluded_cells(false), BTreeSet::from([(0, 1)]), "no claim needs the thread alone");
    assert!(experiment.excluded_cells(true).is_empty());
    for (from, to, expected) in [
        ("at = [\"frames\"]", "at = [\"frame\"]", "claim placement.x: there is no combination \"frame\""),
        ("at = [\"frames\"]", "at = [\"thread\"]", "the foreground of \"thread\" is not run alone"),
        ("against = \"alone\"", "judged_by = \"estimate\"", "judged_by = \"estimate\" needs a gain with `required`"),
        ("metric = \"foreground\"", "metric = \"launch\"", "belongs to another kind of workload"),
        ("\"stock\", title = \"\"", "\"stock\", title = \"\", alone = true", "one arm is `alone`"),
        (", quick = true", "", "at least one must be `quick`"),
        ("background = [\"music\", \"hog\"]", "background = []", "each has a background"),
        ("settle_ms = [1800", "settle_ms = [2100", "settle_ms is [shortest, longest]"),
        ("warm_up = 0", "warm_up = 1", "each block is a run of its own, and warm_up is 0"),
        ("\"hog\", \"hog\"", "\"pig\"", "unknown variant `pig`"),
        ("\"hog\", \"hog\"", "\"backup\"", "programs that use a disk and the `disk` belong together"),
        (
            "\"stock\", title = \"\"",
            "\"stock\", title = \"\", disk_scheduler = \"bfq\"",
            "need combinations with a disk",
        ),
        ("\"hog\", \"hog\"", "\"upload\"", "programs that use a network and the `network` belong together"),
        (
            "\"stock\", title = \"\"",
            "\"stock\", title = \"\", network_queue = \"fq_codel\"",
            "need combinations with a network",
        ),
        ("\"stock\", title = \"\"", "\"stock\", title = \"\", swap = \"/dev/a\"", "belongs to other workloads"),
        (
            "[combinations]",
            "boots = { classes = 1, services_ms = 1, system_server_ms = 1, application_ms = 1, bursts = \
         { work_ms = 1, wait_ms = 1 }, turns_per_ms = 1 }\n[combinations]",
            "has no other workload",
        ),
    ] {
        let text = COMBINATIONS.replacen(from, to, 1);
        assert_ne!(text, COMBINATIONS, "{from}");
        let error = Experiment::parse("x", &text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  wanted {expected}");
    }
    let half = "by_hand = { cgroup = \"v1\", foreground = { weight = 100 }, background = {} }";
    for (arm, groups, expected) in [
        ("\"stock\", title = \"\"", half.to_owned(), None),
        ("\"stock\", title = \"\"", half.replace("100", "0"), Some("arm stock: by_hand: a weight is 1 to 10000")),
        ("\"brisk\", title = \"\"", half.to_owned(), Some("arm brisk: by_hand: is for combinations in the lab")),
    ] {
        let text = COMBINATIONS.replacen(arm, &format!("{arm}, {groups}"), 1);
        let fault = Experiment::parse("x", &text).err().map(|error| error.to_string());
        assert_eq!(fault.is_some(), expected.is_some(), "{fault:?}");
        assert!(expected.is_none_or(|expected| fault.is_some_and(|fault| fault.contains(expected))), "{text}");
    }
    let of_phone =
        COMBINATIONS.replacen("\"brisk\", title = \"\"", "\"brisk\", title = \"\", android_groups = true", 1);
    assert!(Experiment::parse("x", &of_phone).unwrap().arms.iter().any(|arm| arm.android_groups));
    let of_vendor = of_phone.replacen("android_groups = true", "android_foreground_shares = 20480", 1);
    let error = Experiment::parse("x", &of_vendor).unwrap_err().to_string();
    assert!(error.contains("android_foreground_shares needs android_groups"), "{error}");
    let of_launch = MINIMAL.replacen("governor = \"performance\"", "android_groups = true", 1);
    let error = Experiment::parse("x", &of_launch).unwrap_err().to_string();
    assert!(error.contains("android_groups is for combinations in the lab"), "{error}");
    let lonely = MINIMAL.replacen("governor = \"performance\"", "alone = true", 1);
    assert!(Experiment::parse("x", &lonely).unwrap_err().to_string().contains("in an experiment with combinations"));
}

#[test]
fn programs_of_the_lab_share_a_disk_and_have_groups() {
    let text = |disk: &str, mode: &str| {
        let disk = format!("[combinations]\ngrouped = true\ndisk = {disk}");
        let text = COMBINATIONS.replacen("\"hog\", \"hog\"", "\"backup\"", 1).replacen("[combinations]", &disk, 1);
        let set = "\"stock\", title = \"\", swap = \"/dev/a\", background_io_priority = { class = \"idle\", data = 0 }";
        text.replacen("\"stock\", title = \"\"", set, 1).replacen("mode = \"parallel\"\nscenario = \"x\"", mode, 1)
    };
    let disk = "{ name = \"nullb0\", scheduler = \"bfq\", requests = 64 }";
    let parallel = "mode = \"parallel\"\nscenario = \"x\"";
    assert_eq!(Experiment::parse("x", &text(disk, parallel)).unwrap().points(false).len(), 2);
    for (disk, mode, expected) in [
        (disk.replace("nullb0", "../sda"), parallel, "disk: name and scheduler are names, not paths"),
        (disk.replace("64", "0"), parallel, "disk: requests must be above zero"),
        (disk.to_owned(), "mode = \"native\"", "a disk, a network and groups belong to the lab"),
    ] {
        let error = Experiment::parse("x", &text(&disk, mode)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\n  wanted {expected}");
    }
}

#[test]
fn programs_of_the_lab_share_a_link() {
    let parsed = |rate_kbit: u32| {
        let network = format!("[combinations]\nnetwork = {{ rate_kbit = {rate_kbit}, queue = \"pfifo_fast\" }}");
        let text = COMBINATIONS.replacen("\"hog\", \"hog\"", "\"upload\"", 1).replacen("[combinations]", &network, 1);
        let set = "\"stock\", title = \"\", network_queue = \"fq_codel\", background_network_priority = 1";
        Experiment::parse("x", &text.replacen("\"stock\", title = \"\"", set, 1))
    };
    assert_eq!(parsed(8000).unwrap().points(false).len(), 2);
    assert!(parsed(0).unwrap_err().to_string().contains("network: rate_kbit must be above zero"));
}

#[test]
fn reboot_arms_differ_only_in_what_a_device_supports() {
    let parsed = |arm: &str| {
        let text = format!(
            "name = \"x\"\ntitle = \"x\"\ndescription = \"x\"\nmechanism = \"boot\"\nmode = \"native\"\n\
             reboots = {{ limit_s = 60, settle_s = 5 }}\nreplicates = {{ quick = 2, full = 2 }}\n\
             arm = [{{ name = \"stock\", title = \"\", baseline = true }}, {{ name = \"other\", title = \"\", {arm} }}]\n"
        );
        Experiment::parse("x", &text)
    };
    for arm in ["boot_hold = true", "preload = \"ahead\"", "preload = \"plan\", boot_hold = true"] {
        assert_eq!(parsed(arm).unwrap().arms.len(), 2, "{arm}");
    }
    for arm in [
        "preload = \"fork\"",
        "preload = \"fork-and-wait\"",
        "policy = { scaling_min_freq = \"maximum\" }",
        "brisk = {}",
    ] {
        let error = parsed(arm).unwrap_err().to_string();
        assert!(
            error.contains("arm other: between reboots arms differ in boot_hold and preload alone"),
            "{arm}: {error}"
        );
    }
    let narrow = parsed("boot_hold = true").unwrap().with_arms(|arm| arm.baseline);
    assert_eq!((narrow.arms.len(), narrow.baseline()), (1, 0));
}
