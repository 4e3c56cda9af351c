//! `packaging/monitoring` and the metrics' socket, with the real Prometheus, its promtool and systemd's socket activation.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::daemon::device::{Device, Running, eventually};
use super::debian_package;
use super::loopback::free_port;

const MONITORING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/monitoring");

/// The answer to `path` at a port of this machine: its status, and its body.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // Version 1.0: the answer comes in one part.
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

/// What systemd does for brisk-metrics.socket. `None` where systemd is not installed.
fn socket(device: &Device) -> Option<(Running, u16)> {
    let port = free_port();
    let mut command = Command::new("systemd-socket-activate");
    command.args(["--accept", "--inetd", "--listen", &format!("127.0.0.1:{port}")]);
    command.arg(env!("CARGO_BIN_EXE_brisk")).arg("--root").arg(device.path("")).args(["status", "--http"]);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(child) = child else {
        eprintln!("skipped: systemd-socket-activate is not there; install the package systemd");
        return None;
    };
    let socket = (Running(child), port);
    eventually("the socket listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    Some(socket)
}

// Verifies ON-4.
#[test]
fn the_metrics_socket_answers_http() {
    let device = Device::new();
    let Some((_socket, port)) = socket(&device) else { return };
    let (status, body) = get(port, "/metrics").unwrap();
    assert!(status == 503 && body.contains("no daemon is running"), "{status} {body}");
    let _daemon = device.daemon();
    let (status, body) = get(port, "/metrics").unwrap();
    assert!(status == 200 && body.ends_with("# EOF\n"), "{status} {body}");
    for line in ["brisk_configuration_valid 1", "brisk_mechanism_state{mechanism=\"launch\",state=\"active\"} 1"] {
        assert!(body.lines().any(|found| found == line), "{line}: {body}");
    }
    assert_eq!(get(port, "/").unwrap().0, 404);
}

fn dashboard_queries() -> Vec<String> {
    let text = fs::read_to_string(Path::new(MONITORING).join("brisk-dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let replaced = |text: &str| text.replace("$__rate_interval", "1m").replace("$device", ".*");
    targets.map(|target| replaced(target["expr"].as_str().unwrap())).collect()
}

/// Folder of the programs of Debian's package, which is not installed: that would start a service.
fn prometheus() -> Option<PathBuf> {
    debian_package::unpacked("prometheus", &["prometheus"], &[]).map(|root| root.join("usr/bin"))
}

#[test]
#[ignore = "downloads Prometheus; ./dev test --deep"]
fn the_alert_rules_fire_when_they_should() {
    let Some(programs) = prometheus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let rules = fs::read_to_string(Path::new(MONITORING).join("brisk.rules.yml")).unwrap();
    fs::write(folder.path().join("rules.test.yml"), include_str!("rules.test.yml")).unwrap();
    let check = |rules: &str| {
        fs::write(folder.path().join("brisk.rules.yml"), rules).unwrap();
        let mut command = Command::new(programs.join("promtool"));
        command.args(["test", "rules", "rules.test.yml"]).current_dir(folder.path()).output().unwrap()
    };
    let output = check(&rules);
    assert!(output.status.success(), "{output:?}");
    let never = rules.replace("brisk_leases > 0", "brisk_leases > 9");
    assert!(never != rules && !check(&never).status.success(), "the rules' tests cannot fail");
}

#[test]
#[ignore = "downloads Prometheus; ./dev test --deep"]
fn prometheus_scrapes_and_answers_the_dashboard() {
    let Some(programs) = prometheus() else { return };
    let device = Device::new();
    let Some((_socket, port)) = socket(&device) else { return };
    let _daemon = device.daemon();
    let folder = tempfile::tempdir().unwrap();
    let configuration = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n\
         rule_files: [{MONITORING}/brisk.rules.yml]\n\
         scrape_configs: [{{ job_name: brisk, static_configs: [{{ targets: [\"127.0.0.1:{port}\"] }}] }}]\n"
    );
    fs::write(folder.path().join("prometheus.yml"), configuration).unwrap();
    let web = free_port();
    let mut command = Command::new(programs.join("prometheus"));
    command.current_dir(folder.path()).arg("--config.file=prometheus.yml").arg("--storage.tsdb.path=data");
    command.arg(format!("--web.listen-address=127.0.0.1:{web}"));
    let _server = Running(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let query = |text: &str| {
        let encoded: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, body) = get(web, &format!("/api/v1/query?query={encoded}"))?;
        Some((status, serde_json::from_str::<Value>(body.trim()).ok()?))
    };
    let count = |answer: &Value| answer["data"]["result"].as_array().map_or(0, Vec::len);
    let is_one = |text: &str| query(text).is_some_and(|(_, answer)| count(&answer) == 1);
    eventually("Prometheus scrapes the device", || is_one("up{job=\"brisk\"} == 1"));
    // A rate needs two samples.
    eventually("it scrapes twice", || is_one("rate(brisk_launches_total[1m])"));
    let queries = dashboard_queries();
    assert!(queries.len() > 10, "{queries:#?}");
    for text in queries {
        let (status, answer) = query(&text).unwrap();
        assert!(status == 200 && count(&answer) > 0, "{text}: {answer}");
    }
    let (_, health) = get(web, "/api/v1/rules").unwrap();
    let rules: Value = serde_json::from_str(health.trim()).unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap().clone();
    assert!(rules.len() == 7 && rules.iter().all(|rule| rule["health"] == "ok"), "{rules:#?}");
}
