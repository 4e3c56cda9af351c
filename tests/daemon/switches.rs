//! `brisk setup`, `enable`, `disable`, `why` and `foreground`, on a recorded device and with a running daemon.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::device::{Device, eventually, exists};

const OWN: &str = "etc/brisk/brisk.toml.d";
/// Ondemand has a long sampling period here, so launches are boosted.
const BOARD: &str = "06-embedded-board";

struct Said {
    code: Option<i32>,
    out: String,
    error: String,
}

fn say(device: &Device, arguments: &[&str]) -> Said {
    let output = device.brisk(arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

fn json_of(device: &Device, arguments: &[&str]) -> Value {
    serde_json::from_str(&say(device, arguments).out).unwrap()
}

fn is_on(answer: &Value, mechanism: &str) -> bool {
    let mechanisms = answer["mechanisms"].as_array().unwrap();
    mechanisms.iter().find(|it| it["mechanism"] == mechanism).unwrap()["on"].as_bool().unwrap()
}

// Verifies ON-3.
#[test]
fn setup_shows_asks_and_writes_what_auto_decides() {
    let device = Device::of_tree(BOARD);
    let file = format!("{OWN}/setup.toml");
    let asked = say(&device, &["setup"]);
    assert!(
        asked.code == Some(1)
            && asked.error.contains("cannot ask, because standard input is no terminal; --yes writes"),
        "{}",
        asked.error
    );
    assert!(!exists(&device.path(&file)), "nothing was written");
    for part in ["launch         on\n", "a typical launch is 2.2 % shorter (predicted)", "memory.killer  off\n"] {
        assert!(asked.out.contains(part), "{part:?} is missing in {}", asked.out);
    }
    assert!(
        asked.out.contains("changes  /sys/devices/system/cpu/cpufreq/policy0/ondemand/sampling_rate"),
        "{}",
        asked.out
    );
    let shown = json_of(&device, &["setup", "--json"]);
    assert!(shown["written"] == false && is_on(&shown, "launch") && !exists(&device.path(&file)), "{shown}");

    let written = say(&device, &["setup", "--yes"]);
    assert!(
        written.code == Some(0) && written.out.contains("/etc/brisk/brisk.toml.d/setup.toml is written; no daemon")
    );
    let text = device.read(&file);
    assert!(
        text.contains("[launch]\nenabled = \"auto\"\n") && text.contains("[memory.zram]\nenabled = false\n"),
        "{text}"
    );
    assert_eq!(say(&device, &["config", "check"]).code, Some(0));

    device.write("sys/fs/cgroup/system.slice/tuned.service/cgroup.procs", "7\n");
    let again = json_of(&device, &["setup", "--json", "--yes"]);
    assert!(again["written"] == true && !is_on(&again, "launch"), "{again}");
    assert_eq!(again["other_managers"][0]["name"], "tuned");
    assert!(device.read(&file).contains("left to tuned"), "it is decided again, and the reason is on record");
}

// Verifies ON-3.
#[test]
fn setup_keeps_what_the_user_has_switched() {
    let device = Device::of_tree(BOARD);
    assert_eq!(say(&device, &["enable", "placement"]).code, Some(0));
    assert_eq!(say(&device, &["disable", "launch"]).code, Some(0));
    let shown = json_of(&device, &["setup", "--json", "--yes"]);
    assert!(is_on(&shown, "placement") && !is_on(&shown, "launch"), "{shown}");
    let text = device.read(&format!("{OWN}/setup.toml"));
    assert!(!text.contains("[placement]") && !text.contains("[launch]"), "{text}");
}

// Verifies ON-3.
#[test]
fn a_switch_keeps_other_lines_and_refuses_ineffective_changes() {
    let device = Device::of_tree(BOARD);
    let file = format!("{OWN}/switched.toml");
    device.write(&file, "# mine\n[launch]\nenabled = true # yes\nburst_launches = 3\n");
    assert_eq!(say(&device, &["disable", "launch"]).code, Some(0));
    assert_eq!(device.read(&file), "# mine\n[launch]\nenabled = false\nburst_launches = 3\n");
    assert_eq!(say(&device, &["enable", "launch", "--auto"]).code, Some(0));
    let before = device.read(&file);
    assert_eq!(before, "# mine\n[launch]\nenabled = \"auto\"\nburst_launches = 3\n");

    let unknown = say(&device, &["enable", "turbo"]);
    assert!(
        unknown.code == Some(2) && unknown.error.contains("[possible values: launch, placement"),
        "{}",
        unknown.error
    );
    device.write(&format!("{OWN}/zz.toml"), "[launch]\nenabled = true\n");
    let outweighed = say(&device, &["disable", "launch"]);
    let reason = "/etc/brisk/brisk.toml.d/zz.toml also sets launch.enabled and takes precedence";
    assert!(outweighed.code == Some(2) && outweighed.error.contains(reason), "{}", outweighed.error);
    device.write(&format!("{OWN}/zz.toml"), "[lunch]\nenabled = true\n");
    for arguments in [&["disable", "launch"][..], &["setup", "--yes"]] {
        let wrong = say(&device, arguments);
        assert!(wrong.code == Some(2) && wrong.error.contains("unknown field `lunch`"), "{}", wrong.error);
    }
    fs::remove_file(device.path(&format!("{OWN}/zz.toml"))).unwrap();
    assert_eq!(device.read(&file), before);

    device.write(&file, "launch.enabled = true\n");
    let dotted = say(&device, &["disable", "launch"]);
    assert!(
        dotted.code == Some(2) && dotted.error.contains("change it by hand; nothing was changed"),
        "{}",
        dotted.error
    );
    fs::remove_file(device.path(&file)).unwrap();
    symlink("/dev/null", device.path(&file)).unwrap();
    let masked = say(&device, &["disable", "launch"]);
    assert!(masked.code == Some(2) && masked.error.contains("is not a regular file"), "{}", masked.error);
}

// Verifies ON-3.
#[test]
fn on_a_phone_the_users_settings_are_in_their_own_folder() {
    let device = Device::of_tree("03-android-gki-phone");
    assert_eq!(say(&device, &["disable", "launch"]).code, Some(0));
    assert_eq!(device.read("data/misc/brisk-config/brisk.toml.d/switched.toml"), "[launch]\nenabled = false\n");
}

// Verifies ON-3, ON-4.
#[test]
fn a_running_daemon_follows_a_switch_at_once_and_says_why() {
    let device = Device::of_tree(BOARD);
    // Processes that start on this machine meanwhile do not matter.
    device.configure("[launch]\ntriggers = [\"announced\"]\n");
    let none = say(&device, &["why"]);
    assert!(none.code == Some(1) && none.out.starts_with("no daemon is running; `brisk daemon`"), "{}", none.out);
    let daemon = device.daemon();
    daemon.announce("browser");
    let why = say(&device, &["why"]);
    assert_eq!(why.code, Some(0));
    for part in [
        "launch         on   boosting the launch of browser",
        "placement      off  6 unequal CPUs are online; auto: what it gains",
        "memory.killer  off  auto: a process that was killed cannot be restored",
        "/ondemand/sampling_rate is ",
    ] {
        assert!(why.out.contains(part), "{part:?} is missing in {}", why.out);
    }
    let switched = say(&device, &["disable", "launch"]);
    assert!(switched.code == Some(0) && switched.out.contains("the daemon has read it"), "{}", switched.out);
    let answer = json_of(&device, &["why", "--json"]);
    assert!(answer["running"] == true && !is_on(&answer, "launch"), "{answer}");
    assert_eq!(answer["held"], json!([]), "its leases are restored");
    assert_eq!(say(&device, &["enable", "launch"]).code, Some(0));
    assert!(is_on(&json_of(&device, &["why", "--json"]), "launch"));
    assert_eq!(say(&device, &["setup", "--yes"]).code, Some(0));
    assert!(daemon.status()["configuration_error"].is_null());
}

// Verifies LOOKUP-6.
#[test]
fn lookup_is_switched_like_every_other_mechanism() {
    const MODE: &str = "sys/kernel/binder_cache/binder/mode";
    let device = Device::of_tree("09-binder-cache-board");
    let shown = say(&device, &["setup"]);
    for part in ["lookup         off\n", "binder_cache/binder/mode is off, which is not the driver's default"] {
        assert!(shown.out.contains(part), "{part:?} is missing in {}", shown.out);
    }
    let daemon = device.daemon();
    assert!(say(&device, &["why"]).out.contains("\nlookup         off  "), "{}", say(&device, &["why"]).out);
    assert_eq!(device.read(MODE), "off\n");

    let switched = say(&device, &["enable", "lookup"]);
    assert!(switched.code == Some(0) && switched.out.contains("lookup.enabled = true"), "{}", switched.error);
    assert_eq!(device.read(MODE).trim(), "cooperative");
    let why = say(&device, &["why"]);
    for part in [
        "\nlookup         on   lookups of binder are answered in the driver (cooperative); ",
        "/sys/kernel/binder_cache/binder/mode is cooperative in place of off: ",
    ] {
        assert!(why.out.contains(part), "{part:?} is missing in {}", why.out);
    }
    let proposed = json_of(&device, &["setup", "--json"]);
    assert!(is_on(&proposed, "lookup"), "{proposed}");
    let doctor = json_of(&device, &["doctor", "--json"]);
    let found = doctor["mechanisms"].as_array().unwrap().iter().find(|it| it["name"] == "lookup").unwrap();
    assert_eq!(found["state"], "active", "{found}");

    assert_eq!(say(&device, &["disable", "lookup"]).code, Some(0));
    assert_eq!(device.read(MODE), "off\n", "the mode is restored");
    let why = say(&device, &["why"]).out;
    assert!(why.contains("\nlookup         off  ") && why.contains("lookup.enabled is false"), "{why}");
    // A configuration from before `enabled` existed still leaves the driver alone.
    device.write(&format!("{OWN}/switched.toml"), "[lookup]\nenabled = true\nmode = \"off\"\n");
    daemon.signal(rustix::process::Signal::HUP);
    eventually("why reports it", || say(&device, &["why"]).out.contains("lookup.mode is off"));
    assert_eq!(device.read(MODE), "off\n");
}

// Verifies DAEMON-2.
#[test]
fn the_foreground_is_set_by_pid_by_pid_file_or_to_none() {
    let device = Device::with("[launch]\nenabled = false\n[placement]\nenabled = true\nexcluded_commands = [\"*\"]\n");
    let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = process.id().to_string();
    let without = say(&device, &["foreground", &pid]);
    assert!(without.code == Some(2) && without.error.contains("no daemon is running"), "{}", without.error);
    let daemon = device.daemon();
    let front = || daemon.ask(&json!({"version": 1, "request": "placement"}))["foreground"].clone();
    assert_eq!(say(&device, &["foreground", &pid]).code, Some(0));
    eventually("it is in the foreground", || front() == json!([process.id()]));

    device.write("run/kiosk.pid", "4194305\n");
    device.write("run/broken.pid", "soon\n");
    let file = |name: &str| device.path(name).to_str().unwrap().to_owned();
    for (arguments, error) in [
        (&["foreground", "4194305"][..], "there is no process 4194305: the foreground is unchanged"),
        (&["foreground", "--pid-file", &file("run/kiosk.pid")], "there is no process 4194305"),
        (&["foreground", "--pid-file", &file("run/broken.pid")], "broken.pid holds no process id"),
        (&["foreground", "--pid-file", &file("run/none.pid")], "cannot read"),
        (&["foreground", "0"], "invalid value '0'"),
        (&["foreground"], "required arguments were not provided"),
        (&["foreground", "--none", &pid], "cannot be used with"),
    ] {
        let said = say(&device, arguments);
        assert!(said.code == Some(2) && said.error.contains(error), "{arguments:?}: {}", said.error);
        assert_eq!(front(), json!([process.id()]), "{arguments:?}");
    }
    assert_eq!(say(&device, &["foreground", "--none"]).code, Some(0));
    eventually("nothing is in the foreground", || front() == json!([]));
    device.write("run/kiosk.pid", &format!("{pid}\n"));
    assert_eq!(say(&device, &["foreground", "--pid-file", &file("run/kiosk.pid")]).code, Some(0));
    eventually("it is in the foreground again", || front() == json!([process.id()]));
    drop(process.stdin.take());
    process.wait().unwrap();
}

// Verifies ON-4.
#[test]
fn status_why_and_doctor_say_why_each_part_of_memory_is_off() {
    for (file, text, zram, killer) in [
        (
            "etc/systemd/zram-generator.conf",
            "[zram0]\n",
            "left to zram-generator (",
            "that was killed cannot be restored",
        ),
        (
            "sys/fs/cgroup/system.slice/earlyoom.service/cgroup.procs",
            "7\n",
            "could not always be undone",
            "left to earlyoom (",
        ),
        (
            "etc/brisk/brisk.toml",
            "memory.killer.enabled = false\n",
            "could not always be undone",
            "memory.killer.enabled is false",
        ),
    ] {
        let device = Device::of_tree(BOARD);
        device.write(file, text);
        let daemon = device.daemon();
        let memory = daemon.status()["mechanisms"][2].clone();
        let told: Vec<_> =
            memory["parts"].as_array().unwrap().iter().map(|part| (&part["name"], &part["on"])).collect();
        assert_eq!(
            told,
            [(&json!("memory.zram"), &json!(false)), (&json!("memory.killer"), &json!(false))],
            "{memory}"
        );
        for command in ["status", "why", "doctor"] {
            let said = say(&device, &[command]).out.split_whitespace().collect::<Vec<_>>().join(" ");
            for (part, reason) in [("memory.zram off ", zram), ("memory.killer off ", killer)] {
                let rest = said.split_once(part).unwrap_or_else(|| panic!("{command}: no {part:?} in {said}")).1;
                let until_reason =
                    rest.find(reason).unwrap_or_else(|| panic!("{command}: {reason:?} is missing in {said}"));
                assert!(until_reason < 200, "{command}: {reason:?} is not the reason of {part:?}: {said}");
            }
        }
    }
}
