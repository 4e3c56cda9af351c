//! Opens the report in headless Chromium and checks that there are no errors and that the expected content is visible.

use std::ops::{Deref, DerefMut};
use std::path::Path;

use brisk::papers::built_in;
use brisk::papers::results::Results;
use brisk::report::proof::{ArmResult, Proof, StepSeries};
use brisk::report::{finding, html, json, summary};
use serde_json::json;

use crate::devtools::Tab;
use crate::measured;

const FIXTURE: &str = include_str!("../fixtures/proof.json");
const CHECKS: &str = include_str!("checks.js");

/// Widths of a small and a common phone, a tablet on either side of the breakpoint, and a desktop.
const WIDTHS: [u32; 6] = [320, 360, 600, 769, 1024, 1440];

struct Page {
    tab: Tab,
    proof: Proof,
}

impl Deref for Page {
    type Target = Tab;

    fn deref(&self) -> &Tab {
        &self.tab
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut Tab {
        &mut self.tab
    }
}

impl Page {
    /// The fixture's report in a browser; `None`, with the reason on stderr, where there is no browser.
    fn open() -> Option<Self> {
        Self::of(json::parse(FIXTURE).expect("the fixture is a proof"))
    }

    /// The report of `proof`.
    fn of(proof: Proof) -> Option<Self> {
        Self::showing(&html::render(&proof), proof)
    }

    /// The page `text`, which is about `proof`.
    fn showing(text: &str, proof: Proof) -> Option<Self> {
        let mut tab = Tab::open()?;
        let file = tab.browser.folder().join("report.html");
        std::fs::write(&file, text).expect("the report is written");
        tab.show(&file);
        Some(Self { tab, proof })
    }

    fn check(&mut self, checks: &[&str], when: &str) {
        let wrong = self.evaluate(&format!("{}({})", CHECKS.trim(), json!(checks)));
        assert!(wrong == json!([]), "{when}: {wrong:#}");
    }

    /// Checks each width, and the contrast, in a colour scheme.
    fn check_widths(&mut self, scheme: &str) {
        for width in WIDTHS {
            self.set(width, scheme, "");
            self.check(&["overflow", "plotText", "plotsSeen"], &format!("{width} px, {scheme}"));
        }
        self.set(1024, scheme, "");
        self.check(&["contrast"], scheme);
    }

    fn open_details(&mut self) {
        self.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
    }
}

// Verifies PROVE-4.
#[test]
fn the_page_has_no_errors_and_makes_no_requests() {
    let Some(mut page) = Page::open() else { return };
    page.set(1024, "dark", "");
    page.open_details();
    let urls: Vec<String> = page
        .browser
        .events
        .iter()
        .filter(|event| event["method"] == "Network.requestWillBeSent")
        .map(|event| event["params"]["request"]["url"].to_string())
        .collect();
    assert!(urls.iter().any(|url| url.ends_with("report.html\"")), "{urls:?}");
    let elsewhere = urls.iter().filter(|url| !url.ends_with("report.html\"") && !url.starts_with("\"data:"));
    assert_eq!(elsewhere.count(), 0, "{urls:?}");
    let errors = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed"];
    for event in &page.browser.events {
        assert!(!errors.iter().any(|error| event["method"] == *error), "{event:#}");
    }
    // The policy is enforced: an image from elsewhere is refused before any request.
    page.evaluate("new Promise((done) => { const picture = new Image(); picture.onerror = done; picture.src = 'http://127.0.0.1:9/x.png'; })");
    let refused = page.browser.events.iter().any(|event| event.to_string().contains("Content Security Policy"));
    assert!(refused, "the content security policy lets a request pass");
}

// Verifies PROVE-4.
#[test]
fn it_fits_every_width_in_both_colour_schemes_and_on_paper() {
    let Some(mut page) = Page::open() else { return };
    page.open_details();
    for scheme in ["light", "dark"] {
        page.check_widths(scheme);
        page.set(360, scheme, "");
        page.check(&["contrast"], &format!("narrow, {scheme}"));
        page.set(800, scheme, "print");
        page.check(&["contrast", "plotsSeen", "plotText"], &format!("print, {scheme}"));
    }
    page.set(1024, "light", "");
    let paper = page.call("Page.printToPDF", &json!({"printBackground": true}));
    let paper = paper["data"].as_str().unwrap_or_default();
    assert!(paper.starts_with("JVBERi0") && paper.len() > 50_000, "no PDF of some size: {}", paper.len());
}

/// The papers beside what docs/evidence has, and beside a run's curves.
// Verifies PROVE-8.
#[test]
fn the_papers_page_fits_every_width_in_both_schemes() {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    let course = |arm: &str, what: &str| StepSeries {
        arm: arm.to_owned(),
        what: what.to_owned(),
        unit: String::new(),
        medians: vec![1.0, 2.0, 3.0, 2.0, 3.0, 4.0],
    };
    proof.experiments[0].name = "memory-paper".to_owned();
    // Later than what docs/evidence has of it.
    proof.experiments[0].quick = false;
    proof.started = "2999-01-01T00:00:00Z".to_owned();
    proof.experiments[0].courses =
        ["free memory", "on swap", "applications alive"].map(|it| course("none", it)).to_vec();
    let mut results = Results::default();
    results.add_proof(&proof);
    for measured in measured::read_all(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap().into_values() {
        results.add_evidence(measured);
    }
    let text = brisk::papers::html::render(&built_in::select(&[]).unwrap(), &results);
    assert_eq!(text.matches("step by step").count(), 3, "the curves are drawn");
    let Some(mut page) = Page::showing(&text, proof) else { return };
    page.open_details();
    for scheme in ["light", "dark"] {
        page.check_widths(scheme);
    }
}

// Verifies PROVE-4.
#[test]
fn an_experiment_of_many_metrics_stays_readable() {
    let mut proof = json::parse(FIXTURE).expect("the fixture is a proof");
    let experiment = proof.experiments.iter_mut().find(|experiment| experiment.name == "launch-idle-power").unwrap();
    let arms = std::mem::take(&mut experiment.arms);
    for number in 0..20 {
        let named = |mut arm: ArmResult| {
            arm.metric = format!("part {number} of preloading");
            arm
        };
        experiment.arms.extend(arms.iter().cloned().map(named));
    }
    let Some(mut page) = Page::of(proof) else { return };
    for width in WIDTHS {
        page.set(width, "light", "");
        page.check(&["overflow", "wordsWhole"], &format!("{width} px"));
    }
}

// Verifies PROVE-4.
#[test]
fn the_report_has_the_expected_text() {
    let Some(mut page) = Page::open() else { return };
    page.set(1024, "light", "");
    page.check(&["structure"], "structure");
    page.open_details();
    let text = page.evaluate("document.body.innerText.replace(/\\s+/g, ' ')");
    let text = text.as_str().expect("the page's text");
    let mut expected: Vec<String> = Vec::new();
    for experiment in &page.proof.experiments {
        expected.push(experiment.title.clone());
        expected.push(experiment.description.clone());
        expected.push(experiment.command.clone());
        expected.extend(experiment.notes.iter().cloned());
        expected.extend(experiment.self_checks.iter().map(|check| check.text.clone()));
        expected.extend(experiment.rejections.iter().map(|rejection| rejection.reason.clone()));
        expected.extend(experiment.claims.iter().flat_map(|claim| [claim.text.clone(), claim.id.clone()]));
        expected.extend(experiment.arms.iter().map(|arm| arm.name.clone()));
        let sentences = finding::findings(experiment).into_iter().filter(|finding| !finding.energy);
        expected.extend(sentences.filter_map(|finding| finding.same_sentence()));
        let rows = summary::rows(experiment);
        expected.extend(rows.into_iter().flat_map(|row| [row.median, row.gain, row.interval, row.paper]));
    }
    expected.extend(["shown", "not shown", "inconclusive", "no samples", "18446744073709551615"].map(str::to_owned));
    for words in expected {
        let words = words.split_whitespace().collect::<Vec<&str>>().join(" ");
        assert!(text.contains(&words), "not seen: {words:?}");
    }
}

// Verifies PROVE-4.
#[test]
fn it_is_usable_with_a_keyboard_and_a_screen_reader() {
    let Some(mut page) = Page::open() else { return };
    page.set(1024, "light", "");
    for kind in ["keyDown", "keyUp"] {
        let key = json!({"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9});
        page.call("Input.dispatchKeyEvent", &key);
    }
    let focus = page.evaluate(
        "(() => { const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at); \
         return [at.className, box.top >= 0 && box.height > 0, style.outlineStyle, parseFloat(style.outlineWidth) >= 2]; })()",
    );
    assert_eq!(focus, json!(["skip", true, "solid", true]), "Tab does not show the skip link");
    let tree = page.call("Accessibility.getFullAXTree", &json!({}));
    let nodes = tree["nodes"].as_array().expect("an accessibility tree");
    let named = |role: &str| {
        let of_role = nodes.iter().filter(|node| node["role"]["value"] == role && node["ignored"] != true);
        of_role.map(|node| node["name"]["value"].as_str().unwrap_or_default().to_owned()).collect::<Vec<String>>()
    };
    for (role, least) in [("main", 1), ("navigation", 1), ("banner", 1), ("contentinfo", 1)] {
        assert_eq!(named(role).len(), least, "{role}");
    }
    let metrics: usize = page
        .proof
        .experiments
        .iter()
        .map(|experiment| summary::distinct(experiment.arms.iter().map(|arm| arm.metric.as_str())).len())
        .sum();
    let plots = named("image");
    assert_eq!(plots.len(), metrics, "one drawing of each plot is in the accessibility tree: {plots:?}");
    assert!(plots.iter().all(|name| !name.is_empty()));
    for role in ["table", "columnheader", "rowheader", "cell", "heading"] {
        assert!(!named(role).is_empty(), "{role}");
    }
    page.set(360, "light", "");
    let roles = page.call("Accessibility.getFullAXTree", &json!({}));
    let cells = roles["nodes"].as_array().expect("a tree").iter().filter(|node| node["role"]["value"] == "cell");
    assert!(cells.count() > 20, "tables stay tables when they are stacked");
}

#[test]
fn screenshots_are_not_empty() {
    let Some(mut page) = Page::open() else { return };
    let mut shots = Vec::new();
    for (scheme, is_dark) in [("light", false), ("dark", true)] {
        for width in [360, 1440] {
            page.set(width, scheme, "");
            let shot = page.call("Page.captureScreenshot", &json!({"format": "png"}));
            shots.push((format!("{width} px, {scheme}"), is_dark, shot["data"].clone()));
        }
    }
    // A page in the background is not drawn, so the page that evaluates the screenshots opens last.
    let viewer = page.browser.open();
    for (when, is_dark, picture) in shots {
        let seen = page.browser.evaluate(&viewer, &format!("({})({picture})", PIXELS.trim()));
        let (colours, ground) = (seen[0].as_u64().unwrap_or(0), seen[1].as_f64().unwrap_or(0.5));
        assert!(colours >= 50, "{when}: only {colours} colours");
        assert!(if is_dark { ground < 0.2 } else { ground > 0.8 }, "{when}: a ground of luminance {ground}");
    }
}

/// Counts the colours of an image and reads its first pixel; the browser decodes PNG so that the test need not.
const PIXELS: &str = "
async (picture) => {
  const image = new Image();
  image.src = 'data:image/png;base64,' + picture;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height);
  const context = canvas.getContext('2d');
  context.drawImage(image, 0, 0);
  const data = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);
  const [r, g, b] = [data[0] & 255, (data[0] >> 8) & 255, (data[0] >> 16) & 255];
  return [new Set(data).size, (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255];
}
";
