//! Clients of the control socket that flood, lie, hang up or never read, while others are served.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use super::device::{Device, ask, eventually};

const STATUS: &str = "{\"version\":1,\"request\":\"status\"}\n";

/// Reads until the daemon hangs up: the lines.
fn until_hung_up(stream: &UnixStream) -> Vec<Value> {
    let mut lines = Vec::new();
    for line in BufReader::new(stream).lines() {
        match line {
            Ok(line) => lines.push(serde_json::from_str(&line).unwrap()),
            // It hung up while we were still sending.
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

#[test]
fn what_is_no_request_is_refused_and_the_client_stays() {
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
    assert!(answers[1..].iter().all(|answer| answer["ok"] == true), "all that came in one breath is answered");
}

#[test]
fn a_line_without_end_is_refused() {
    let device = Device::new();
    let daemon = device.daemon();
    let mut client = device.connect();
    // The daemon may hang up before all of it is sent.
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
        daemon.status();
    }
    let answers = until_hung_up(&flooder);
    assert!(flood.join().unwrap(), "the daemon took ten thousand requests at once");
    // The error itself is lost where the kernel resets a connection with unread input.
    if let Some(last) = answers.last().filter(|last| last["ok"] == false) {
        assert!(error_of(last).contains("more than 20 requests a second"));
    }
    assert!(answers.len() <= 60, "{} answers", answers.len());
    daemon.status();
}

#[test]
fn a_client_that_reads_nothing_costs_nothing_to_others() {
    let device = Device::with("[control]\nmaximum_requests_per_second = 100000\n");
    let daemon = device.daemon();
    let mut silent = device.connect();
    silent.set_nonblocking(true).unwrap();
    let mut sent = 0u64;
    // Until the daemon stops reading, because its answers do not fit any more.
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
fn half_closed_clients_get_their_answer_or_their_error() {
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

#[test]
fn too_many_clients_are_told_so() {
    let device = Device::with("[control]\nmaximum_clients = 3\n");
    let daemon = device.daemon();
    let mut clients: Vec<UnixStream> = (0..3).map(|_| device.connect()).collect();
    for client in &mut clients {
        assert_eq!(ask(client, &json!({"version": 1, "request": "status"}))["ok"], true);
    }
    let answers = until_hung_up(&device.connect());
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

#[test]
fn only_root_and_the_group_may() {
    let device = Device::new();
    let _daemon = device.daemon();
    let mode = std::fs::metadata(device.path("run/brisk/control")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: only root can become somebody else");
    }
    // Open the way to the socket, so that the daemon's own check is what refuses.
    for name in ["", "run", "run/brisk"] {
        std::fs::set_permissions(device.path(name), PermissionsExt::from_mode(0o755)).unwrap();
    }
    std::fs::set_permissions(device.path("run/brisk/control"), PermissionsExt::from_mode(0o666)).unwrap();
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
        return eprintln!("skipped: nobody else may run the program where it lies: {said}");
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("user 65534 may not"), "{said}");
}

#[test]
fn watchers_hear_of_launches_until_they_leave() {
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
