//! Opens the page of a boot chart in headless Chromium and operates it as a user does.
#![cfg(feature = "chart")]

use std::ops::{Deref, DerefMut};

use brisk::chart::generate::{self, Shape};
use brisk::chart::{html, read};
use serde_json::json;

use crate::devtools::Tab;

/// The report's checks of what is visible; its checks of structure do not fit a page with a script.
const CHECKS: &str = include_str!("../report_browser/checks.js");

struct Page(Tab);

impl Deref for Page {
    type Target = Tab;

    fn deref(&self) -> &Tab {
        &self.0
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut Tab {
        &mut self.0
    }
}

impl Page {
    /// A generated boot.
    fn open() -> Option<Self> {
        let mut tab = Tab::open()?;
        let folder = tab.browser.folder().join("boot");
        generate::android(&Shape::SMALL, &folder).expect("a recording");
        let mut boot = read::read(&folder).expect("it reads");
        boot.processes[1].name = "</script><img src=x onerror=alert(1)>".to_owned();
        let file = tab.browser.folder().join("boot.html");
        std::fs::write(&file, html::render(&boot)).expect("the page is written");
        tab.set(1200, "light", "");
        tab.show(&file);
        tab.settle();
        Some(Self(tab))
    }

    fn state(&mut self) -> (i64, i64, i64) {
        self.settle();
        let state =
            self.evaluate("['from', 'to', 'rows'].map((key) => Number(document.getElementById('chart').dataset[key]))");
        let at = |index: usize| state[index].as_i64().expect("a number");
        (at(0), at(1), at(2))
    }

    fn hover(&mut self, x: f64, y: f64) {
        self.call("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": x, "y": y}));
        self.settle();
    }

    /// Scrolls to the chart and returns where the rows and the panels begin.
    fn tree(&mut self) -> (f64, f64) {
        self.evaluate("document.getElementById('chart').scrollIntoView({block: 'start'})");
        self.settle();
        let top = self.evaluate("document.getElementById('tree').getBoundingClientRect().top");
        let panels = self.evaluate("document.getElementById('panels').getBoundingClientRect().top");
        (top.as_f64().expect("a place"), panels.as_f64().expect("a place"))
    }
}

// Verifies CHART-2.
#[test]
fn the_page_has_no_errors_and_makes_no_requests() {
    let Some(mut page) = Page::open() else { return };
    page.set(1000, "dark", "");
    page.settle();
    let errors = ["Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded", "Network.loadingFailed"];
    for event in &page.browser.events {
        assert!(!errors.iter().any(|error| event["method"] == *error), "{event:#}");
        if event["method"] == "Network.requestWillBeSent" {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned();
            assert!(url.ends_with("boot.html") || url.starts_with("data:"), "{url}");
        }
    }
    assert_eq!(page.evaluate("document.querySelectorAll('img').length"), json!(0), "a name became an element");
}

// Verifies CHART-2.
#[test]
fn it_fits_every_width_and_draws_in_both_colour_schemes() {
    let Some(mut page) = Page::open() else { return };
    page.evaluate("document.querySelectorAll('details').forEach((details) => { details.open = true; })");
    for scheme in ["light", "dark"] {
        for width in [320, 600, 1024, 1440] {
            page.set(width, scheme, "");
            page.settle();
            let wrong = page.evaluate(&format!("{}([\"overflow\", \"contrast\"])", CHECKS.trim()));
            assert_eq!(wrong, json!([]), "{width} px, {scheme}: {wrong:#}");
        }
    }
    let colours = "(id) => { const canvas = document.getElementById(id); const data = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer); return new Set(data).size; }";
    page.tree();
    for canvas in ["panels", "rows"] {
        let count = page.evaluate(&format!("({colours})('{canvas}')"));
        assert!(count.as_u64().unwrap_or(0) > 20, "{canvas} has {count} colours");
    }
}

// Verifies CHART-2.
#[test]
fn the_mouse_zooms_hovers_and_folds() {
    let Some(mut page) = Page::open() else { return };
    let (from, to, rows) = page.state();
    assert_eq!((from, to), (2000, 31_800));
    // The row of init has children: a click folds them, a second click unfolds them.
    for expected in [2, rows] {
        // A page that became shorter has scrolled.
        let (tree, _) = page.tree();
        for kind in ["mousePressed", "mouseReleased"] {
            page.mouse(kind, 60.0, tree + 9.0);
        }
        let (_, _, now) = page.state();
        assert!(if expected == rows { now == rows } else { now < rows / 2 }, "{now} of {rows}");
    }
    // The second row is a group of processes of the same name.
    let (tree, panels) = page.tree();
    for kind in ["mousePressed", "mouseReleased"] {
        page.mouse(kind, 60.0, tree + 18.0 + 9.0);
    }
    assert!(page.state().2 > rows, "a group is unfolded");
    page.hover(700.0, panels + 60.0);
    let tip = page.evaluate("document.getElementById('tip').innerText");
    let tip = tip.as_str().unwrap_or_default();
    assert!(tip.contains("user ") && tip.contains("limit: ") && tip.contains("mmcblk0: busy"), "{tip:?}");
    page.hover(700.0, tree + 9.0);
    let tip = page.evaluate("document.getElementById('tip').innerText");
    assert!(tip.as_str().is_some_and(|tip| tip.contains("(PID 1)") && tip.contains("CPU")), "{tip:?}");
    // Dragging over a part of the time axis zooms to it.
    page.mouse("mousePressed", 500.0, panels + 60.0);
    page.mouse("mouseMoved", 600.0, panels + 60.0);
    page.mouse("mouseMoved", 700.0, panels + 60.0);
    page.mouse("mouseReleased", 700.0, panels + 60.0);
    let (start, end, _) = page.state();
    assert!(start > from + 4000 && end < to - 4000 && end - start < 9000, "{start} to {end}");
    page.evaluate("document.getElementById('all').click()");
    assert_eq!((page.state().0, page.state().1), (from, to));
    page.evaluate("document.querySelector('.show').click()");
    let (start, end, _) = page.state();
    assert!(start > 3000 && end < 15_000, "a finding shows its phase: {start} to {end}");
}

// Verifies CHART-2.
#[test]
fn the_keyboard_does_all_that_the_mouse_does() {
    let Some(mut page) = Page::open() else { return };
    page.evaluate("document.getElementById('chart').focus()");
    let (from, to, rows) = page.state();
    page.key("+");
    let (start, end, _) = page.state();
    assert_eq!(end - start, (to - from) / 2);
    page.key("ArrowRight");
    assert!(page.state().0 > start);
    page.key("0");
    assert_eq!((page.state().0, page.state().1), (from, to));
    page.key("ArrowDown");
    page.key("ArrowDown");
    let detail = page.evaluate("document.getElementById('detail').innerText");
    assert!(detail.as_str().is_some_and(|detail| detail.contains("click unfolds")), "{detail}");
    page.key("Enter");
    assert!(page.state().2 > rows);
    page.key("Enter");
    assert_eq!(page.state().2, rows);
    page.key("/");
    assert_eq!(page.evaluate("document.activeElement.id"), json!("search"));
    page.call("Input.insertText", &json!({"text": "zygote64"}));
    assert_eq!(page.state().2, 1);
    assert_eq!(
        page.evaluate("document.getElementById('count').textContent.split(' ').slice(0, 2).join(' ')"),
        json!("1 of")
    );
    page.key("Escape");
    assert_eq!(page.state().2, rows);
    let tree = page.call("Accessibility.getFullAXTree", &json!({}));
    let named = |role: &str| {
        let nodes = tree["nodes"].as_array().expect("a tree");
        nodes.iter().any(|node| {
            node["role"]["value"] == role && node["name"]["value"].as_str().is_some_and(|name| !name.is_empty())
        })
    };
    for role in ["application", "searchbox", "button", "heading"] {
        assert!(named(role), "no {role} with a name");
    }
}
