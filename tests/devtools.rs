//! The part of the DevTools protocol that the tests need, over the browser's own pipe: no port, no library.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use serde_json::{Value, json};

/// Long for a loaded machine; a healthy browser answers in milliseconds.
const PATIENCE: Duration = Duration::from_secs(90);

/// A headless browser; dropping it ends the browser.
pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    next_id: u64,
    /// All events of the pages so far: requests, console messages, exceptions, loads.
    pub events: Vec<Value>,
    folder: tempfile::TempDir,
}

impl Browser {
    /// The browser's executable in PATH, if there is one.
    pub fn program() -> Option<PathBuf> {
        let path: OsString = std::env::var_os("PATH")?;
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        names.iter().find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file()))
    }

    /// Starts `program` with its own profile in a temporary folder.
    pub fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let errors = std::fs::File::create(folder.path().join("stderr")).expect("a file for its stderr");
        // The browser reads requests on descriptor 3 and answers on 4.
        let mut child = Command::new("/bin/sh")
            .args(["-c", r#"exec "$@" 3<&0 4>&1 </dev/null >/dev/null"#, "sh"])
            .arg(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--disable-breakpad", "--remote-debugging-pipe", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
            .arg("about:blank")
            .env("HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .env("XDG_CACHE_HOME", folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the browser starts");
        let requests = child.stdin.take().expect("a pipe to it");
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe from it"));
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while stdout.read_until(0, &mut message).is_ok_and(|length| length > 0) {
                message.pop();
                let Ok(value) = serde_json::from_slice(&message) else { break };
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        Self { child, requests, answers, next_id: 1, events: Vec::new(), folder }
    }

    /// A folder that is removed with the browser.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens an empty page and returns its session.
    pub fn open(&mut self) -> String {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session =
            self.call(None, "Target.attachToTarget", &attach)["sessionId"].as_str().expect("a session").to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(Some(&session), &format!("{domain}.enable"), &json!({}));
        }
        session
    }

    /// Calls a method and returns its result; a protocol error is a failed test.
    pub fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        let mut request = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = session {
            request["sessionId"] = json!(session);
        }
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).and_then(|()| self.requests.flush()).expect("the browser takes a request");
        loop {
            let answer = self.receive(method);
            if answer["id"] == json!(id) {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
        }
    }

    /// Waits for an event of that name.
    pub fn wait_for(&mut self, event: &str) {
        while !self.events.iter().any(|seen| seen["method"] == event) {
            self.receive(event);
        }
    }

    /// Evaluates an expression in the page.
    pub fn evaluate(&mut self, session: &str, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call(Some(session), "Runtime.evaluate", &parameters);
        assert!(result["exceptionDetails"].is_null(), "{}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    fn receive(&mut self, waiting_for: &str) -> Value {
        let Ok(message) = self.answers.recv_timeout(PATIENCE) else {
            let errors = std::fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
            panic!("the browser did not answer {waiting_for}; its stderr:\n{errors}");
        };
        if message["method"].is_string() {
            self.events.push(message.clone());
        }
        message
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page in a browser of its own.
pub struct Tab {
    pub browser: Browser,
    session: String,
}

impl Tab {
    /// An empty page; `None`, with the reason on stderr, where there is no browser.
    pub fn open() -> Option<Self> {
        let Some(program) = Browser::program() else {
            eprintln!("skipped: no chromium in PATH (apt-get install chromium)");
            return None;
        };
        let mut browser = Browser::start(&program);
        let session = browser.open();
        Some(Self { browser, session })
    }

    /// Shows `file`.
    pub fn show(&mut self, file: &Path) {
        self.call("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        self.browser.wait_for("Page.loadEventFired");
    }

    pub fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    pub fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(&self.session, expression)
    }

    /// Waits two frames, so that requested changes are drawn.
    pub fn settle(&mut self) {
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
    }

    /// Sets the width, the colour scheme and the medium: empty, or `print`.
    pub fn set(&mut self, width: u32, scheme: &str, media: &str) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": media, "features": features}));
    }

    pub fn key(&mut self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            let text = if key.len() == 1 && kind == "keyDown" { json!(key) } else { json!("") };
            self.call("Input.dispatchKeyEvent", &json!({"type": kind, "key": key, "text": text}));
        }
    }

    pub fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let pressed = i32::from(kind == "mousePressed" || kind == "mouseMoved");
        let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": pressed, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &event);
    }
}
