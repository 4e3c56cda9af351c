//! Clients of the control socket that flood, send invalid requests, disconnect or never read, while others are served.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::device::{Device, ask, eventually};

const STATUS: &str = "{\"version\":1,\"request\":\"status\"}\n";

/// Reads until the daemon disconnects; returns the lines.
fn until_hung_up(stream: &UnixStream) -> Vec<Value> {
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        match line {
            Ok(line) => lines.push(serde_json::from_str(&line).unwrap()),
            // It disconnected while the client was still sending.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) => panic!("the daemon did not hang up: {error}"),
        }
    }
    lines
}

fn error_of(answer: &Value) -> &str {
    assert_eq!(answer["ok"], false, "{answer}");
    answer["error"].as_str().unwrap()
}

// Verifies SOCKET-1.
#[test]
fn an_invalid_request_is_refused_and_the_client_stays() {
    let device = Device::new();
    let _daemon = device.daemon();
    let mut client = device.connect();
    for (line, error) in [
        (json!("status"), "\"version\" is missing"),
        (json!({"version": 9, "request": "status"}), "version 9 is not spoken here"),
        (json!({"version": 1, "request": "dance"}), "unknown variant `dance`"),
        (json!({"version": 1, "request": "launch", "application": ""}), "1 to 256 bytes"),
    ] {
        let answer = ask(&mut client, &line);
        assert!(error_of(&answer).contains(error), "{line}: {answer}");
    }
    client.write_all(b"\xff\xfe garbage\n").unwrap();
    client.write_all(STATUS.repeat(30).as_bytes()).unwrap();
    let answers: Vec<Value> =
        BufReader::new(&client).lines().take(31).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(error_of(&answers[0]).contains("not a JSON object"));
    assert!(answers[1..].iter().all(|answer| answer["ok"] == true), "all requests of one write are answered");
}

// Verifies SOCKET-1.
#[test]
fn a_line_without_end_is_refused() {
    let device = Device::new();
    let daemon = device.daemon();
    let mut client = device.connect();
    // The daemon may disconnect before all of it is sent.
    let _ = client.write_all(&[b'x'; 1 << 20]);
    let answers = until_hung_up(&client);
    assert!(answers.is_empty() || error_of(&answers[0]).contains("at most 4096 bytes"), "{answers:?}");
    let mut client = device.connect();
    client.write_all(&[b'x'; 4096]).unwrap();
    let answers = until_hung_up(&client);
    assert_eq!(answers.len(), 1);
    assert!(error_of(&answers[0]).contains("at most 4096 bytes"));
    daemon.status();
}

// Verifies SOCKET-1.
#[test]
fn a_flood_of_requests_is_refused_while_others_are_served() {
    let device = Device::with("[control]\nmaximum_requests_per_second = 20\n");
    let daemon = device.daemon();
    let flooder = device.connect();
    let mut writer = flooder.try_clone().unwrap();
    let flood = std::thread::spawn(move || {
        for _ in 0..10_000 {
            if writer.write_all(STATUS.as_bytes()).is_err() {
                return true;
            }
        }
        false
    });
    for _ in 0..5 {
        assert!(device.brisk(&["status"]).status.success(), "another process is served");
    }
    let answers = until_hung_up(&flooder);
    assert!(flood.join().unwrap(), "the daemon took ten thousand requests at once");
    // The error message is lost where the kernel resets a connection with unread input.
    if let Some(last) = answers.last().filter(|last| last["ok"] == false) {
        assert!(error_of(last).contains("more than 20 requests a second"));
    }
    assert!(answers.len() <= 60, "{} answers", answers.len());
    assert_eq!(device.brisk(&["status"]).status.code(), Some(0));
    drop(daemon);
}

// Verifies SOCKET-1.
#[test]
fn reconnecting_does_not_reset_the_rate_limit() {
    let device = Device::with("[control]\nmaximum_requests_per_second = 20\n");
    let _daemon = device.daemon();
    let began = Instant::now();
    let (mut answered, mut refused) = (0, Vec::new());
    for _ in 0..400 {
        let mut client = device.connect();
        // It may have disconnected already.
        let _ = client.write_all(STATUS.as_bytes());
        match until_hung_up_or_answered(&client) {
            Some(answer) if answer["ok"] == true => answered += 1,
            answer => refused.extend(answer),
        }
    }
    let most = 20 * (began.elapsed().as_secs() + 2);
    assert!(answered >= 20 && answered <= most, "{answered} of 400 were answered in {:?}", began.elapsed());
    assert!(error_of(refused.first().unwrap()).contains("more than 20 connections a second"), "{refused:?}");
    assert_eq!(device.brisk(&["status"]).status.code(), Some(0), "others are served");
}

/// One line, if the daemon sends any.
fn until_hung_up_or_answered(stream: &UnixStream) -> Option<Value> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}

/// Makes the socket's folder accessible, so that the daemon's own checks decide.
fn open_way(device: &Device) {
    for name in ["", "run", "run/brisk"] {
        std::fs::set_permissions(device.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(device.path("run/brisk/control"), PermissionsExt::from_mode(0o666)).unwrap();
}

/// A connection of user `uid`, which is in the socket's group; of the current user where only root could change it.
fn connect_as(device: &Device, uid: u32) -> UnixStream {
    if !rustix::process::geteuid().is_root() {
        return device.connect();
    }
    let connect = || {
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
        device.connect()
    };
    std::thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

// Verifies SOCKET-1.
#[test]
fn silent_clients_do_not_block_other_clients() {
    let device = Device::new();
    let mut daemon = device.daemon();
    open_way(&device);
    let silent: Vec<UnixStream> = (0..16).map(|_| connect_as(&device, 12_345)).collect();
    if rustix::process::geteuid().is_root() {
        assert_eq!(device.brisk(&["status"]).status.code(), Some(0), "root is served at once");
        let mut other = connect_as(&device, 23_456);
        assert_eq!(ask(&mut other, &json!({"version": 1, "request": "status"}))["ok"], true, "so is another user");
        // Also when root itself holds all connections.
        let of_root: Vec<UnixStream> = (0..32).map(|_| device.connect()).collect();
        assert_eq!(device.brisk(&["status"]).status.code(), Some(0));
        drop(of_root);
    } else {
        assert!(error_of(&until_hung_up(&device.connect())[0]).contains("16 clients are served already"));
    }
    // They are notified and disconnected.
    let began = Instant::now();
    for client in &silent {
        let said = until_hung_up(client);
        let reason = error_of(&said[0]);
        assert!(["no request was sent", "another client needs"].iter().any(|part| reason.contains(part)), "{reason}");
    }
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(device.brisk(&["status"]).status.code(), Some(0));
    assert!(daemon.child.try_wait().unwrap().is_none());
}

// Verifies SOCKET-1.
#[test]
fn a_client_that_sends_half_a_request_is_disconnected() {
    let device = Device::new();
    let daemon = device.daemon();
    let mut client = device.connect();
    assert_eq!(ask(&mut client, &json!({"version": 1, "request": "status"}))["ok"], true);
    let mut idle = client.try_clone().unwrap();
    let mut half = device.connect();
    half.write_all(b"{\"version\":1,").unwrap();
    assert!(error_of(&until_hung_up(&half)[0]).contains("no request was sent"));
    assert_eq!(ask(&mut idle, &json!({"version": 1, "request": "status"}))["ok"], true, "an active client stays");
    daemon.status();
}

/// Fields 3 and 41 of /proc/PID/stat: `R` is running, and 1 is SCHED_FIFO.
fn state_and_policy(pid: u32) -> (String, String) {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    (fields[0].to_owned(), fields[38].to_owned())
}

// Verifies SOCKET-1.
#[test]
fn clients_are_served_without_real_time_priority() {
    let device = Device::with("[control]\nmaximum_requests_per_second = 100000\n");
    let daemon = device.daemon();
    if daemon.status()["sensors"]["scheduling"] != "real-time" {
        return eprintln!("skipped: the daemon may not run in real time here");
    }
    let pid = daemon.child.id();
    let mut client = device.connect();
    let mut reader = client.try_clone().unwrap();
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    let (mut ordinary, mut real_time) = (0, 0);
    let began = Instant::now();
    while ordinary + real_time < 300 && began.elapsed() < Duration::from_secs(20) {
        client.write_all(STATUS.repeat(20).as_bytes()).unwrap();
        for _ in 0..20 {
            match state_and_policy(pid) {
                (state, policy) if state == "R" && policy == "0" => ordinary += 1,
                (state, _) if state == "R" => real_time += 1,
                _ => {}
            }
        }
    }
    assert!(ordinary > 9 * real_time && ordinary > 0, "{ordinary} samples ordinary, {real_time} in real time");
    drop(client);
    eventually("it is in real time again after it has served", || {
        state_and_policy(pid) == ("S".to_owned(), "1".to_owned())
    });
}

#[test]
fn a_client_that_never_reads_does_not_delay_others() {
    let device = Device::with("[control]\nmaximum_requests_per_second = 100000\n");
    let daemon = device.daemon();
    let mut silent = device.connect();
    silent.set_nonblocking(true).unwrap();
    let mut sent = 0u64;
    // Until the daemon stops reading, because its answers no longer fit.
    eventually("the daemon stops reading", || {
        loop {
            match silent.write(STATUS.as_bytes()) {
                Ok(length) => sent += length as u64,
                Err(error) => return error.kind() == ErrorKind::WouldBlock && sent > 1 << 12,
            }
        }
    });
    for _ in 0..20 {
        daemon.status();
    }
    drop(silent);
    daemon.status();
}

#[test]
fn half_closed_clients_receive_an_answer_or_an_error() {
    let device = Device::new();
    let daemon = device.daemon();
    let mut whole = device.connect();
    whole.write_all(STATUS.as_bytes()).unwrap();
    whole.shutdown(Shutdown::Write).unwrap();
    let answers = until_hung_up(&whole);
    assert_eq!((answers.len(), &answers[0]["ok"]), (1, &Value::Bool(true)));

    let mut cut = device.connect();
    cut.write_all(b"{\"version\":1,").unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    let answers = until_hung_up(&cut);
    assert!(error_of(&answers[0]).contains("ended within a request"), "{answers:?}");

    let silent = device.connect();
    silent.shutdown(Shutdown::Write).unwrap();
    assert!(until_hung_up(&silent).is_empty());
    daemon.status();
}

// Verifies SOCKET-1.
#[test]
fn a_client_above_the_limit_receives_an_error() {
    let device = Device::with("[control]\nmaximum_clients = 3\n");
    let daemon = device.daemon();
    open_way(&device);
    let mut clients: Vec<UnixStream> = (0..3).map(|_| connect_as(&device, 12_345)).collect();
    for client in &mut clients {
        assert_eq!(ask(client, &json!({"version": 1, "request": "status"}))["ok"], true);
    }
    let answers = until_hung_up(&connect_as(&device, 12_345));
    assert!(error_of(&answers[0]).contains("3 clients are served already"), "{answers:?}");
    clients.pop();
    eventually("the place of a client that left is free", || {
        let mut client = device.connect();
        client.write_all(STATUS.as_bytes()).is_ok() && {
            let mut line = String::new();
            BufReader::new(client).read_line(&mut line).is_ok() && line.contains("\"ok\":true")
        }
    });
    drop(clients);
    assert!(daemon.status()["metrics"]["refused_clients"].as_u64().unwrap() >= 1);
}

// Verifies SOCKET-1.
#[test]
fn only_root_and_the_group_may_connect() {
    let device = Device::new();
    let _daemon = device.daemon();
    let mode = std::fs::metadata(device.path("run/brisk/control")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can become another user");
    }
    open_way(&device);
    let Ok(output) = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_brisk"))
        .arg("--root")
        .arg(device.path(""))
        .arg("status")
        .output()
    else {
        return eprintln!("skipped: there is no setpriv");
    };
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains("failed to execute") {
        return eprintln!("skipped: another user may not run the program where it lies: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("user 65534 may not"), "{said}");
}

#[test]
fn watchers_receive_launches_until_they_disconnect() {
    let device = Device::with("[launch]\ntriggers = [\"announced\"]\n");
    let daemon = device.daemon();
    let mut watcher = device.connect();
    writeln!(watcher, "{}", json!({"version": 1, "request": "watch"})).unwrap();
    let mut lines = BufReader::new(watcher.try_clone().unwrap());
    let mut next = || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["result"].clone()
    };
    assert_eq!(next()["support"]["state"], "active");
    daemon.announce("browser");
    daemon.finish("browser");
    let (began, ended) = (next(), next());
    assert_eq!((&began["launch"], &began["application"]), (&"began".into(), &"browser".into()));
    assert_eq!((&ended["launch"], &ended["reason"]), (&"ended".into(), &"finished".into()));
    watcher.shutdown(Shutdown::Both).unwrap();
    let mut rest = Vec::new();
    let _ = watcher.read_to_end(&mut rest);
    daemon.announce("editor");
    daemon.status();
}
