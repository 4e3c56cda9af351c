//! `packaging/foreground`: the window manager's focused window is in the foreground, tested with the real programs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::device::{Daemon, Device, Running, eventually};
use crate::patience::{Limit, OutputWithin, PATIENCE};

const CONFIG: &str = "[launch]\nenabled = false\n[placement]\nenabled = true\nexcluded_commands = [\"*\"]\n";
/// sway refuses to run as root.
const NOBODY: u32 = 65_534;

fn start(command: &mut Command) -> Running {
    let name = command.get_program().to_owned();
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    Running(child.unwrap_or_else(|error| panic!("{}: {error}; ./dev test --deep installs it", name.display())))
}

/// The listener `name`, which reports to the daemon of `device`.
fn listener(device: &Device, name: &str) -> Command {
    let brisk = device.path("brisk");
    let (program, root) = (env!("CARGO_BIN_EXE_brisk"), device.path(""));
    fs::write(&brisk, format!("#!/bin/sh\nexec {program} --root {} \"$@\"\n", root.display())).unwrap();
    fs::set_permissions(&brisk, PermissionsExt::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/foreground").join(name);
    let mut command = Command::new(script);
    command.env("BRISK", brisk).stdout(Stdio::null());
    command
}

/// True when the process `pid` is in the foreground, or none is; a process's children are in the foreground with it.
fn is_foreground(daemon: &Daemon<'_>, pid: Option<u32>) -> bool {
    let answer = daemon.ask(&json!({"version": 1, "request": "placement"}));
    let foreground = answer["foreground"].as_array().unwrap();
    pid.map_or(foreground.is_empty(), |pid| foreground.contains(&json!(pid)))
}

fn said_by(command: &mut Command) -> String {
    String::from_utf8(command.output_within(PATIENCE).stdout).unwrap()
}

// Verifies DAEMON-2.
#[test]
#[ignore = "an X server and a window manager; ./dev test --deep"]
fn the_active_window_of_x11_is_in_the_foreground() {
    let device = Device::with(CONFIG);
    let daemon = device.daemon();
    let mut server = Command::new("Xvfb");
    server.args(["-displayfd", "1", "-screen", "0", "640x480x24", "-nolisten", "tcp"]).stdout(Stdio::piped());
    let mut server = start(&mut server);
    let mut number = String::new();
    let limit = Limit::of(&server.0, PATIENCE);
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut number).unwrap();
    drop(limit);
    let display = format!(":{}", number.trim());
    let on_display = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).env("DISPLAY", &display).stdout(Stdio::null());
        command
    };
    // Started before the window manager, as a session may do.
    let mut listener = start(listener(&device, "brisk-foreground-x11").env("DISPLAY", &display));
    // A window that is mapped before the window manager is ready would not become active.
    let ready = device.path("ready");
    let startup = format!("touch {}", ready.display());
    let _manager = start(&mut on_display("openbox", &["--startup", &startup]));
    eventually("the window manager is ready", || ready.exists());
    let active = || said_by(on_display("xprop", &["-root", "_NET_ACTIVE_WINDOW"]).stdout(Stdio::piped()));

    let window = |name: &str| {
        let program = start(&mut on_display("xev", &["-name", name]));
        let mut id = None;
        eventually("it has a window", || {
            let text = said_by(on_display("xwininfo", &["-name", name]).stdout(Stdio::piped()));
            id = text.split("Window id: ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
            id.is_some()
        });
        let id = id.unwrap();
        eventually("it is active", || active().contains(&id));
        (program, id)
    };
    let (first, id) = window("first");
    // xev does not set _NET_WM_PID.
    let of_window = ["-id", &id, "-f", "_NET_WM_PID", "32c", "-set", "_NET_WM_PID", &first.id().to_string()];
    assert!(on_display("xprop", &of_window).status().unwrap().success());
    let (second, _) = window("second");
    eventually("a window without a process is active", || is_foreground(&daemon, None));
    drop(second);
    eventually("the other window is active again", || is_foreground(&daemon, Some(first.id())));
    drop(first);
    eventually("no window is left", || is_foreground(&daemon, None));
    drop(server);
    eventually("the listener ends with the session", || listener.0.try_wait().unwrap().is_some());
}

/// A folder for the sockets of a session whose user is not root.
fn session_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    if rustix::process::geteuid().is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

/// `program` as a user other than root, in the session of `folder`.
fn of_session(folder: &Path, program: &str) -> Command {
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}"), "--clear-groups", program]);
        command
    } else {
        Command::new(program)
    };
    let variables = [
        ("XDG_RUNTIME_DIR", folder.to_owned()),
        ("HOME", folder.to_owned()),
        ("SWAYSOCK", socket(folder)),
        ("WAYLAND_DISPLAY", PathBuf::from("wayland-1")),
    ];
    command.envs(variables).env("LC_ALL", "C.UTF-8").env_remove("DISPLAY").stdout(Stdio::null());
    command
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("sway.sock")
}

// Verifies DAEMON-2.
#[test]
#[ignore = "a Wayland compositor; ./dev test --deep"]
fn the_focused_window_of_sway_is_in_the_foreground() {
    let device = Device::with(CONFIG);
    let daemon = device.daemon();
    let session = session_folder();
    let folder = session.path();
    fs::write(folder.join("config"), "xwayland disable\n").unwrap();
    fs::set_permissions(folder.join("config"), PermissionsExt::from_mode(0o644)).unwrap();
    let mut sway = of_session(folder, "sway");
    sway.arg("-c").arg(folder.join("config")).env_remove("WAYLAND_DISPLAY");
    for (name, value) in [
        ("WLR_BACKENDS", "headless"),
        ("WLR_RENDERER", "pixman"),
        ("WLR_LIBINPUT_NO_DEVICES", "1"),
        ("LIBSEAT_BACKEND", "noop"),
    ] {
        sway.env(name, value);
    }
    let _sway = start(&mut sway);
    let message = |arguments: &[&str]| of_session(folder, "swaymsg").args(arguments).status().unwrap().success();
    eventually("sway answers", || socket(folder).exists() && message(&["-t", "get_version"]));
    let mut listener = start(listener(&device, "brisk-foreground-sway").env("SWAYSOCK", socket(folder)));
    let terminal = || start(of_session(folder, "foot").args(["sleep", "600"]));
    let first = terminal();
    eventually("the only window has the focus", || is_foreground(&daemon, Some(first.id())));
    let second = terminal();
    eventually("a new window has it", || is_foreground(&daemon, Some(second.id())));
    assert!(!is_foreground(&daemon, Some(first.id())), "one window has the focus");
    assert!(message(&["focus", "left"]));
    eventually("the user goes back", || is_foreground(&daemon, Some(first.id())));
    drop(first);
    eventually("the other one is left", || is_foreground(&daemon, Some(second.id())));
    drop(second);
    eventually("no window is left", || is_foreground(&daemon, None));
    message(&["exit"]);
    eventually("the listener ends with the session", || listener.0.try_wait().unwrap().is_some());
}
