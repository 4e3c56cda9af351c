//! The binder cache in a guest: its hazards one by one, races, and refusals, by a client that implements the binder protocol.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use brisk::lab::architecture::Architecture;
use brisk::lab::{self, GuestFile, Job, Scenario};

use super::arm64::is_unavailable;
use super::{results, run};
use crate::static_brisk::{static_brisk, static_brisk_for_arm64};

fn sources() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/binder-cache/tests")
}

/// `kernel/binder-cache/tests/hazards.c`, static, by the compiler for this architecture.
fn hazards(architecture: &Architecture) -> GuestFile {
    let folder = tempfile::tempdir().unwrap();
    let is_hosts = architecture.machine == std::env::consts::ARCH;
    let compiler = if is_hosts { String::new() } else { format!("CC={}gcc", architecture.cross_prefix) };
    let output = Command::new("make")
        .args(["-s", "-C"])
        .arg(sources())
        .arg("hazards")
        .arg(format!("O={}", folder.path().display()))
        .args((!is_hosts).then_some(compiler))
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make runs; install the packages make and gcc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let contents = std::fs::read(folder.path().join("hazards")).unwrap();
    GuestFile { path: "/bin/hazards".into(), contents, mode: 0o755 }
}

/// The output of the hazards' program in a guest of `scenario`; it must succeed, and the kernel must not complain.
fn said_by_hazards(
    scenario: &str,
    arguments: &[&str],
    files: Vec<GuestFile>,
    command_line: &str,
) -> Option<Vec<String>> {
    let mut job = job_beside_hazards(scenario, &[&["/bin/hazards"], arguments].concat())?;
    job.scenario.kernel.command_line.push_str(command_line);
    job.files.extend(files);
    let mut said = said_by(&job);
    assert_eq!(said.pop().as_deref(), Some("all ok"), "{}", said.join("\n"));
    println!("{}", said.join("\n"));
    Some(said)
}

/// `command` in a guest of `scenario` that has the hazards' program.
fn job_beside_hazards(scenario: &str, command: &[&str]) -> Option<Job> {
    let scenario = Scenario::load(scenario).unwrap();
    let architecture = scenario.architecture();
    let binary = if architecture.name == "arm64" { static_brisk_for_arm64()? } else { static_brisk()? };
    let mut job = Job::new(scenario, command.iter().copied());
    // SELinux's hooks are called, and it announces new policies; without a policy it allows everything.
    job.scenario.kernel.command_line.push_str(" security=selinux selinux=1");
    // On a busy host a CPU of the guest may stall for a long time, even during boot.
    job.scenario.kernel.command_line.push_str(" rcupdate.rcu_cpu_stall_suppress=1 nowatchdog no_timer_check ");
    job.files.push(hazards(architecture));
    job.binary = Some(binary.to_owned());
    job.timeout = Duration::from_secs(7200);
    (architecture.name != "arm64" || !is_unavailable(&job.scenario)).then_some(job)
}

fn said_by(job: &Job) -> Vec<String> {
    let (outcome, lines) = run(job);
    let said: Vec<String> = results(&lines).into_iter().map(str::to_owned).collect();
    let outcome = outcome.unwrap_or_else(|error| panic!("{error}\n{}", said.join("\n")));
    assert_eq!(outcome.status, 0, "{}", said.join("\n"));
    said
}

fn check(scenario: &str, arguments: &[&str]) {
    said_by_hazards(scenario, arguments, Vec::new(), "");
}

// Verifies LOOKUP-2, LOOKUP-1, LOOKUP-4, LOOKUP-7.
#[test]
fn no_hazard_of_the_binder_cache_comes_true() {
    check("binder-6.1", &[]);
}

// Verifies LOOKUP-1.
#[test]
#[ignore = "downloads a second kernel's sources; ./dev test --deep"]
fn no_hazard_of_the_binder_cache_comes_true_on_linux_6_12() {
    check("binder-6.12", &[]);
}

/// The kernel is configured like Android's.
// Verifies LOOKUP-1, LOOKUP-2, LOOKUP-7.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn no_hazard_of_the_binder_cache_comes_true_on_arm64() {
    check("android-6.12-binder", &[]);
}

// Verifies LOOKUP-3, LOOKUP-2.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn binder_cache_hazards_stay_out_under_kernel_checks() {
    let Some(said) = said_by_hazards("binder-6.1-checked", &[], Vec::new(), "") else { return };
    // Only this guest has a binderfs: it is tested once in each mode.
    let tried = said.iter().filter(|line| **line == "a binderfs in a user namespace was tried").count();
    assert_eq!(tried, 2, "{said:#?}");
}

// Verifies LOOKUP-3.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn binder_cache_hazards_stay_out_under_linux_6_12_checks() {
    check("binder-6.12-checked", &[]);
}

/// Why brisk does not share one table as the paper does: `hazards` refutes this for brisk's own driver.
// Verifies LOOKUP-1.
#[test]
fn a_table_shared_by_all_gives_out_what_is_refused() {
    let Some(said) = said_by_hazards("binder-insecure-6.1", &["leak"], Vec::new(), "") else { return };
    assert!(said.contains(&"ok a_table_for_all_leaks (transparent)".to_owned()), "{said:?}");
}

/// A new reference gets the smallest free descriptor; the driver of Linux 6.1 walks all references to find it.
// Verifies LOOKUP-4.
#[test]
fn a_hit_stays_cheap_with_ten_thousand_references() {
    check("binder-6.1", &["references"]);
}

/// The same as times, for a process on another CPU.
// Verifies LOOKUP-4.
#[test]
#[ignore = "times on the host's clock; ./dev test --deep"]
fn a_process_with_many_references_delays_no_other_process() {
    check("binder-6.1-parallel", &["references"]);
}

// Verifies LOOKUP-1.
#[test]
#[ignore = "takes minutes; ./dev test --deep"]
fn no_service_that_becomes_lazy_is_kept_on_two_cpus() {
    check("binder-6.1-parallel", &["lazy", "5000"]);
}

// Verifies LOOKUP-1.
#[test]
fn no_stale_answer_wins_a_short_race_on_two_cpus() {
    check("binder-6.1-parallel", &["race", "20000"]);
}

// Verifies LOOKUP-1.
#[test]
#[ignore = "takes long; ./dev test --deep"]
fn no_stale_answer_wins_a_race_on_two_cpus() {
    check("binder-6.1-parallel", &["race", "5000000"]);
}

// Verifies LOOKUP-3.
#[test]
#[ignore = "builds a kernel, and takes long; ./dev test --deep"]
fn no_stale_answer_wins_a_race_where_the_kernel_checks_itself() {
    check("binder-6.1-checked", &["race", "500000"]);
}

// Verifies LOOKUP-3.
#[test]
#[ignore = "builds a kernel, and takes long; ./dev test --deep"]
fn no_stale_answer_wins_a_race_on_linux_6_12_that_checks_itself() {
    check("binder-6.12-checked", &["race", "500000"]);
    check("binder-6.12-checked", &["lazy", "1000"]);
}

/// The names of the functions that the cache's sources define.
fn functions_of_the_cache() -> BTreeSet<String> {
    let files = std::fs::read_dir(sources().parent().unwrap()).unwrap().map(|file| file.unwrap().path());
    let texts = files.filter(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "h"));
    let names = texts.flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        let defined = text.lines().filter_map(|line| {
            let (before, _) = line.split_once('(').filter(|_| line.starts_with(|first: char| first.is_alphabetic()))?;
            let name = before.rsplit([' ', '*']).next()?;
            (before.contains(' ') && !line.ends_with(';')).then(|| name.to_owned())
        });
        defined.collect::<Vec<_>>()
    });
    names.collect()
}

/// KCSAN reports an access that races with another one. The stock driver has such accesses; the cache must have none.
// Verifies LOOKUP-3.
#[test]
#[ignore = "builds a kernel, and takes long; ./dev test --deep"]
fn no_data_race_is_found_by_kcsan_on_linux_6_12() {
    let Some(mut job) = job_beside_hazards("binder-6.12-races", &["sh", "/races.sh", "50000"]) else { return };
    // The program reads the reports; on the console each of them would end the guest.
    job.scenario.kernel.command_line.push_str(" loglevel=3");
    job.busybox = true;
    job.files.push(GuestFile { path: "/races.sh".into(), contents: include_bytes!("races.sh").to_vec(), mode: 0o755 });
    let said = said_by(&job);
    println!("{}", said.join("\n"));
    let ours = functions_of_the_cache();
    assert!(ours.contains("binder_cache_transaction") && ours.len() > 50, "{ours:?}");
    let reports: Vec<&str> = said.iter().filter_map(|line| line.strip_prefix("report: ")).collect();
    let is_ours = |report: &&&str| report.split([' ', '.']).any(|word| ours.contains(word));
    assert_eq!(reports.iter().filter(is_ours).collect::<Vec<_>>(), Vec::<&&str>::new());

    // These checks fail if KCSAN watches nothing.
    let figure = |name: &str| said.iter().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    assert!(said.contains(&"all ok".to_owned()) && !reports.is_empty(), "stock races are reported: {said:?}");
    assert!(figure("functions:").is_some_and(|count| count > 100), "the driver's functions are listed: {said:?}");
    assert!(figure("setup_watchpoints:").is_some_and(|count| count > 10_000), "many accesses are watched: {said:?}");
}

// Verifies LOOKUP-3.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn nothing_is_lost_when_any_allocation_fails() {
    let said = said_by_hazards("binder-6.1-checked", &["exhaust"], Vec::new(), "kmemleak=on");
    assert!(said.is_none_or(|said| said.contains(&"looked for leaks".into())));
}

/// The kernel's own test of binderfs: creates and removes devices, one and many at a time, also without privileges.
// Verifies LOOKUP-2.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn the_kernels_binderfs_test_agrees_on_both_drivers() {
    let Some(binary) = static_brisk() else { return };
    let verdicts = ["binder-stock-6.1-checked", "binder-6.1-checked"].map(|name| {
        let scenario = Scenario::load(name).unwrap();
        let contents = lab::selftest("filesystems/binderfs/binderfs_test", &scenario).unwrap();
        let mut job = Job::new(scenario, ["/bin/binderfs_test"]);
        job.files.push(GuestFile { path: "/bin/binderfs_test".into(), contents, mode: 0o755 });
        job.binary = Some(binary.to_owned());
        let (outcome, lines) = run(&job);
        let said = results(&lines).join("\n");
        assert_eq!(outcome.unwrap().status, 0, "{said}");
        println!("{name}:\n{said}");
        let is_verdict =
            |line: &&str| line.starts_with("ok ") || line.starts_with("not ok ") || line.starts_with("# Totals");
        said.lines().filter(is_verdict).map(str::to_owned).collect::<Vec<_>>()
    });
    assert!(verdicts[0].len() > 3 && verdicts[0][0].starts_with("ok 1 "), "{verdicts:?}");
    assert_eq!(verdicts[0], verdicts[1]);
}

/// Compiles a text to a binary policy with SELinux's own compiler.
fn compiled(text: &str, path: &str) -> GuestFile {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("policy.conf"), folder.path().join("policy"));
    std::fs::write(&source, text).unwrap();
    // An ordinary user's PATH has no sbin.
    let program = ["/usr/bin/checkpolicy", "/usr/sbin/checkpolicy"].into_iter().find(|path| Path::new(path).exists());
    let output = Command::new(program.unwrap_or("checkpolicy"))
        .args(["-U", "allow", "-c", "31", "-o"])
        .args([&binary, &source])
        .output()
        .expect("checkpolicy runs; install the package checkpolicy");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    GuestFile { path: path.into(), contents: std::fs::read(binary).unwrap(), mode: 0o644 }
}

/// The lookups that callers see under an enforced policy, a line each, once for each mode of the cache.
fn seen_under_a_policy(scenario: &str) -> Option<Vec<Vec<String>>> {
    let first = std::fs::read_to_string(sources().join("policy.conf")).unwrap();
    let second: String =
        first.lines().filter(|line| !line.ends_with("# first")).map(|line| format!("{line}\n")).collect();
    let policies = vec![compiled(&first, "/policy"), compiled(&second, "/policy.2")];
    let said = said_by_hazards(scenario, &["selinux"], policies, "")?;
    let modes = said.split(|line| line.starts_with("mode "));
    Some(modes.filter(|lines| !lines.is_empty()).map(<[String]>::to_vec).collect())
}

/// Permissions are revoked, granted again and changed by a new policy, between lookups whose answers are known.
fn who_may_not_is_refused(stock: &str, ours: &str) {
    let Some(stock) = seen_under_a_policy(stock) else { return };
    let ours = seen_under_a_policy(ours).expect("there was an emulator");
    let [stock] = &stock[..] else { panic!("a stock driver has one mode: {stock:?}") };
    assert_eq!(ours.len(), 2, "transparent and cooperative");
    for seen in &ours {
        assert_eq!(seen, stock);
    }
    for (step, expected) in [
        ("client", "found, call answered"),
        ("stranger, cold", "refused -1"),
        ("outsider", "refused -1"),
        ("client without client_may_call", "refused -1"),
        ("client without client_may_receive", "refused -1"),
        ("client without client_may_use", "found, call refused -1"),
        ("client with the second policy", "refused -1"),
        ("client with the first policy again", "found, call answered"),
    ] {
        for round in 0..3 {
            let line = format!("{step} {round}: {expected}");
            assert!(stock.contains(&line), "no {line:?} in\n{}", stock.join("\n"));
        }
    }
}

// Verifies LOOKUP-2.
#[test]
fn refusals_match_the_stock_driver_with_a_cold_and_a_warm_cache() {
    who_may_not_is_refused("binder-stock-6.1", "binder-6.1");
}

// Verifies LOOKUP-2.
#[test]
#[ignore = "builds a kernel; ./dev test --deep"]
fn an_unauthorised_caller_is_refused_on_the_checked_kernel() {
    who_may_not_is_refused("binder-stock-6.1-checked", "binder-6.1-checked");
}

/// Builds it as `dkms install` does on Debian, for the lab's kernel, without installing it.
// Verifies LOOKUP-7.
#[test]
#[ignore = "needs the package dkms; ./dev test --deep"]
fn dkms_builds_the_driver_for_debians_kernel() {
    let kernel = lab::driver_sources(&Scenario::load("binder-6.1").unwrap(), Path::new("drivers/android")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [packages, trees] = ["src", "dkms"].map(|name| folder.path().join(name));
    std::fs::create_dir_all(&packages).unwrap();
    std::fs::create_dir_all(&trees).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .arg(sources().parent().unwrap())
        .arg(packages.join("binder-cache-0.1.0"))
        .status()
        .unwrap();
    assert!(copied.success());
    let output = Command::new("dkms")
        .args(["build", "binder-cache/0.1.0", "-k", &kernel.release])
        .arg("--kernelsourcedir")
        .arg(&kernel.headers)
        .arg("--sourcetree")
        .arg(&packages)
        .arg("--dkmstree")
        .arg(&trees)
        .env("LINUX_SOURCE", &kernel.tree)
        .env_remove("MAKEFLAGS")
        .output()
        .expect("dkms runs; install the package dkms");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let log = std::fs::read_to_string(trees.join("binder-cache/0.1.0/build/make.log")).unwrap_or_default();
    assert!(output.status.success(), "{said}\n{log}");
    let built = trees.join(format!("binder-cache/0.1.0/{}/x86_64/module/binder_linux.ko", kernel.release));
    let module = ["", ".xz"].iter().find_map(|suffix| {
        let path = format!("{}{suffix}", built.display());
        Path::new(&path).exists().then_some(path)
    });
    let module = module.unwrap_or_else(|| panic!("no module at {}: {said}", built.display()));
    let output = Command::new("/usr/sbin/modinfo").args(["--field", "vermagic", &module]).output().unwrap();
    let magic = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(magic.starts_with(&format!("{} ", kernel.release)), "{magic}");
}
