//! Opens what `brisk trace explain` writes in headless Chromium: the page, which is operated as a user does, and the drawing.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::devtools::Tab;

/// The report's checks of what is visible; its checks of structure do not fit a page with a script.
const CHECKS: &str = include_str!("../report_browser/checks.js");

/// Texts of a drawing that are outside of it, overlap or have too little contrast.
const FAULTS_OF_DRAWING: &str = "(() => {
  const view = document.documentElement.viewBox.baseVal;
  const luminance = (colour) => {
    const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
    const linear = parts.map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ground = luminance(getComputedStyle(document.querySelector('.ground')).fill);
  const texts = [...document.querySelectorAll('text')].map((text) => [text, text.getBBox()]);
  const wrong = [];
  texts.forEach(([text, box], at) => {
    const name = text.textContent;
    if (box.x < 0 || box.y < 0 || box.x + box.width > view.width || box.y + box.height > view.height) wrong.push(`outside: ${name}`);
    const light = luminance(getComputedStyle(text).fill);
    const ratio = (Math.max(light, ground) + 0.05) / (Math.min(light, ground) + 0.05);
    if (ratio < 4.5) wrong.push(`contrast ${ratio}: ${name}`);
    for (const [other, its] of texts.slice(at + 1)) {
      const across = Math.min(box.x + box.width, its.x + its.width) - Math.max(box.x, its.x);
      const down = Math.min(box.y + box.height, its.y + its.height) - Math.max(box.y, its.y);
      if (across > 0.5 && down > 2) wrong.push(`overlap: ${name} and ${other.textContent}`);
    }
  });
  return [texts.length, wrong];
})()";

/// The example's page.
fn open() -> Option<Tab> {
    opened("html")
}

/// The example's explanation as a file of this kind.
fn opened(kind: &str) -> Option<Tab> {
    let mut page = Tab::open()?;
    let file = page.browser.folder().join(format!("trace.{kind}"));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/trace.in/launch.txt");
    let mut brisk = Command::new(env!("CARGO_BIN_EXE_brisk"));
    brisk.args(["trace", "explain"]).arg(example).args(["--process", "browser"]).arg(format!("--{kind}")).arg(&file);
    assert!(brisk.output().unwrap().status.success());
    page.set(1200, "light", "");
    page.show(&file);
    Some(page)
}

/// Evaluates after requested changes are drawn.
fn evaluate(page: &mut Tab, expression: &str) -> Value {
    page.settle();
    page.evaluate(expression)
}

/// The first and the last nanosecond that are shown, and the number of rows.
fn state(page: &mut Tab) -> Value {
    evaluate(page, "['from', 'to', 'rows'].map((key) => Number(document.getElementById('chart').dataset[key]))")
}

// Verifies TRACE-5.
#[test]
fn the_page_of_a_trace_has_no_errors_and_fits_every_width() {
    let Some(mut page) = open() else { return };
    for scheme in ["light", "dark"] {
        for width in [320, 600, 1440] {
            page.set(width, scheme, "");
            let wrong = evaluate(&mut page, &format!("{}([\"overflow\", \"contrast\"])", CHECKS.trim()));
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
    let colours = evaluate(
        &mut page,
        "(() => { const canvas = document.getElementById('view'); const pixels = new Uint32Array(canvas.getContext('2d')\
         .getImageData(0, 0, canvas.width, canvas.height).data.buffer); return new Set(pixels).size; })()",
    );
    assert!(colours.as_u64().unwrap_or(0) > 20, "{colours} colours");
}

// Verifies TRACE-5.
#[test]
fn the_drawing_of_a_trace_can_be_read_in_light_and_dark() {
    let Some(mut page) = opened("svg") else { return };
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        page.set(1200, scheme, "");
        let found = evaluate(&mut page, FAULTS_OF_DRAWING);
        assert!(found[0].as_u64().unwrap() > 40, "{found:#}");
        assert_eq!(found[1], json!([]), "{scheme}: {found:#}");
        grounds.push(evaluate(&mut page, "getComputedStyle(document.querySelector('.ground')).fill"));
    }
    assert_ne!(grounds[0], grounds[1]);
    let requests = page.browser.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
    let urls: Vec<String> = requests.map(|event| event["params"]["request"]["url"].to_string()).collect();
    assert!(urls.iter().all(|url| url.ends_with("trace.svg\"")), "{urls:?}");
}

// Verifies TRACE-5.
#[test]
fn the_page_of_a_trace_zooms_searches_and_chooses_parts() {
    let Some(mut page) = open() else { return };
    // The whole path and four threads.
    assert_eq!(state(&mut page), json!([0, 150_000_000, 5]));
    let search = |words: &str| {
        format!(
            "document.getElementById('search').value = '{words}'; \
             document.getElementById('search').dispatchEvent(new Event('input')); document.getElementById('count').textContent"
        )
    };
    assert_eq!(evaluate(&mut page, &search("servicemanager")), json!("7.90 ms of 150.0 ms in 1 of 4 threads"));
    assert_eq!(evaluate(&mut page, &search("dex2oat")), json!("31.00 ms of 150.0 ms in 3 of 4 threads"));
    assert_eq!(evaluate(&mut page, &search("nothing")), json!("0 ns of 150.0 ms in 0 of 4 threads"));
    evaluate(&mut page, &search(""));
    let choose = "document.querySelectorAll('.show')[2].click(); document.getElementById('count').textContent";
    assert_eq!(evaluate(&mut page, choose), json!("24.00 ms of 150.0 ms in 1 of 4 threads"));
    assert_eq!(evaluate(&mut page, choose), json!("18 steps in 4 threads"));
    let place = evaluate(
        &mut page,
        "document.getElementById('chart').scrollIntoView(); (({left, top, width}) => [left, top, width])(document.getElementById('chart').getBoundingClientRect())",
    );
    let [left, top, width] = [0, 1, 2].map(|at| place[at].as_f64().unwrap());
    page.mouse("mouseMoved", left + width * 0.35, top + 54.0);
    let tip = evaluate(&mut page, "document.getElementById('tip').textContent");
    assert!(tip.as_str().unwrap().starts_with("browser (7)"), "{tip}");
    for (kind, x) in [("mousePressed", 0.4), ("mouseMoved", 0.6), ("mouseReleased", 0.6)] {
        page.mouse(kind, left + width * x, top + 54.0);
    }
    let zoomed = state(&mut page);
    let shown = zoomed[1].as_i64().unwrap() - zoomed[0].as_i64().unwrap();
    assert!((20_000_000..60_000_000).contains(&shown), "{zoomed}");
    evaluate(&mut page, "document.getElementById('chart').focus()");
    page.key("0");
    assert_eq!(state(&mut page), json!([0, 150_000_000, 5]));
}
