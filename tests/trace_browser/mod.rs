//! Opens the page of `brisk trace explain --html` in headless Chromium and operates it as a user does.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::devtools::Browser;

/// The report's checks of what is visible; its checks of structure do not fit a page with a script.
const CHECKS: &str = include_str!("../report_browser/checks.js");

struct Page {
    browser: Browser,
    session: String,
}

impl Page {
    /// The example's page in a browser; `None`, with the reason on stderr, where there is no browser.
    fn open() -> Option<Self> {
        let Some(program) = Browser::program() else {
            eprintln!("skipped: no chromium in PATH (apt-get install chromium)");
            return None;
        };
        let mut browser = Browser::start(&program);
        let file = browser.folder().join("trace.html");
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/trace.in/launch.txt");
        let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"));
        brisk.args(["trace", "explain"]).arg(example).args(["--process", "browser", "--html"]).arg(&file);
        assert!(brisk.output().unwrap().status.success());
        let session = browser.open();
        let mut page = Self { browser, session };
        page.set(1200, "light");
        page.call("Page.navigate", &json!({"url": format!("file://{}", file.display())}));
        page.browser.wait_for("Page.loadEventFired");
        Some(page)
    }

    fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.browser.call(Some(&self.session), method, parameters)
    }

    /// Evaluates after two frames, when requested changes are drawn.
    fn evaluate(&mut self, expression: &str) -> Value {
        let frames = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))";
        self.browser.evaluate(&self.session, frames);
        self.browser.evaluate(&self.session, expression)
    }

    fn set(&mut self, width: u32, scheme: &str) {
        let metrics = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &metrics);
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", &json!({"media": "", "features": features}));
    }

    fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &event);
    }

    /// The first and the last nanosecond that are shown, and the number of rows.
    fn state(&mut self) -> Value {
        self.evaluate("['from', 'to', 'rows'].map((key) => Number(document.getElementById('chart').dataset[key]))")
    }
}

// Verifies TRACE-5.
#[test]
fn the_page_of_a_trace_has_no_errors_and_fits_every_width() {
    let Some(mut page) = Page::open() else { return };
    for scheme in ["light", "dark"] {
        for width in [320, 600, 1440] {
            page.set(width, scheme);
            let wrong = page.evaluate(&format!("{}([\"overflow\", \"contrast\"])", CHECKS.trim()));
            assert_eq!(wrong, json!([]), "{width} px, {scheme}: {wrong:#}");
        }
    }
    let errors = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed"];
    for event in &page.browser.events {
        assert!(!errors.iter().any(|error| event["method"] == *error), "{event:#}");
        if event["method"] == "Network.requestWillBeSent" {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            assert!(url.ends_with("trace.html") || url.starts_with("data:"), "{url}");
        }
    }
    let colours = page.evaluate(
        "(() => { const canvas = document.getElementById('view'); const pixels = new Uint32Array(canvas.getContext('2d')\
         .getImageData(0, 0, canvas.width, canvas.height).data.buffer); return new Set(pixels).size; })()",
    );
    assert!(colours.as_u64().unwrap_or(0) > 20, "{colours} colours");
}

// Verifies TRACE-5.
#[test]
fn the_page_of_a_trace_zooms_searches_and_chooses_parts() {
    let Some(mut page) = Page::open() else { return };
    // The whole path and four threads.
    assert_eq!(page.state(), json!([0, 150_000_000, 5]));
    let search = |words: &str| {
        format!(
            "document.getElementById('search').value = '{words}'; \
             document.getElementById('search').dispatchEvent(new Event('input')); document.getElementById('count').textContent"
        )
    };
    assert_eq!(page.evaluate(&search("servicemanager")), json!("7.90 ms of 150.0 ms in 1 of 4 threads"));
    assert_eq!(page.evaluate(&search("dex2oat")), json!("31.00 ms of 150.0 ms in 3 of 4 threads"));
    assert_eq!(page.evaluate(&search("nothing")), json!("0 ns of 150.0 ms in 0 of 4 threads"));
    page.evaluate(&search(""));
    let choose = "document.querySelectorAll('.show')[2].click(); document.getElementById('count').textContent";
    assert_eq!(page.evaluate(choose), json!("24.00 ms of 150.0 ms in 1 of 4 threads"));
    assert_eq!(page.evaluate(choose), json!("18 steps in 4 threads"));
    let place = page.evaluate("document.getElementById('chart').scrollIntoView(); (({left, top, width}) => [left, top, width])(document.getElementById('chart').getBoundingClientRect())");
    let [left, top, width] = [0, 1, 2].map(|at| place[at].as_f64().unwrap());
    page.mouse("mouseMoved", left + width * 0.35, top + 54.0);
    let tip = page.evaluate("document.getElementById('tip').textContent");
    assert!(tip.as_str().unwrap().starts_with("browser (7)"), "{tip}");
    for (kind, x) in [("mousePressed", 0.4), ("mouseMoved", 0.6), ("mouseReleased", 0.6)] {
        page.mouse(kind, left + width * x, top + 54.0);
    }
    let state = page.state();
    let shown = state[1].as_i64().unwrap() - state[0].as_i64().unwrap();
    assert!((20_000_000..60_000_000).contains(&shown), "{state}");
    page.evaluate("document.getElementById('chart').focus()");
    for kind in ["keyDown", "keyUp"] {
        page.call(
            "Input.dispatchKeyEvent",
            &json!({"type": kind, "key": "0", "text": if kind == "keyDown" { "0" } else { "" }}),
        );
    }
    assert_eq!(page.state(), json!([0, 150_000_000, 5]));
}
