//! The page of a fleet: what the answers say in words, then each question with a drawing, a table and its SQL. One
//! self-contained HTML file in the style of the other reports.

mod plot;
mod sections;
pub mod words;

use std::collections::BTreeMap;

use askama::Template;

use brisk_report::{html, svg};

use crate::answers::Answers;
use crate::dataset::Manifest;
use sections::Section;

const STYLE: &str = include_str!("../../templates/fleet.css");

/// What the page says of the data set itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// Its name.
    pub dataset: String,
    pub manifest: Manifest,
    /// Files and rows that were refused, by kind.
    pub set_aside: BTreeMap<String, u64>,
}

/// Writes the page. The same answers give the same bytes.
pub fn render(origin: &Origin, answers: &Answers) -> String {
    let (headline, rest) = words::headline(answers);
    let page = Page {
        styles: [html::STYLE, svg::STYLE, STYLE],
        version: env!("CARGO_PKG_VERSION"),
        origin,
        headline,
        rest,
        findings: words::findings(answers),
        sections: sections::all(answers),
    };
    // The template writes to a String from plain data, which cannot fail.
    page.render().unwrap_or_default()
}

#[derive(Template)]
#[template(path = "fleet.html")]
struct Page<'a> {
    styles: [&'static str; 3],
    version: &'static str,
    origin: &'a Origin,
    headline: String,
    rest: String,
    findings: Vec<String>,
    sections: Vec<Section>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answers::{Boots, Change, Claimed, Kills, Loss, Switched};

    fn origin() -> Origin {
        let manifest = Manifest {
            brisk_fleet_schema: 1,
            generation: 2,
            rows: 30,
            devices: 3,
            doubted: vec![-5],
            pending: Vec::new(),
        };
        let set_aside = BTreeMap::from([("half file".to_owned(), 2)]);
        Origin { dataset: "<fleet>".to_owned(), manifest, set_aside }
    }

    /// An answer to each question; every name would break a page that does not escape it.
    fn answers() -> Answers {
        let name = |name: &str| format!("<{name}>&\"");
        let change = Change {
            metric: "launch".to_owned(),
            model: name("M"),
            build: name("B"),
            previous: name("A"),
            devices: 12,
            change_percent: 6.0,
            low_percent: 5.0,
            high_percent: 7.0,
            p: 1e-9,
            q: 1e-8,
        };
        let boots = Boots {
            model: name("M"),
            build: name("B"),
            devices: 2,
            boots: 9,
            length_ms: 9000.0,
            low_ms: None,
            high_ms: None,
            kernel_ms: None,
            held_percent: None,
        };
        let loss = Loss {
            model: name("M"),
            governor: name("g"),
            boosted: false,
            devices: 3,
            launches: 30,
            unknown: 4,
            length_ms: Some(400.0),
            loss_ms: Some(40.0),
            loss_percent: Some(10.0),
            low_percent: Some(9.0),
            high_percent: Some(11.0),
        };
        let kills = |memory_mib: u64, rate: f64| Kills {
            memory_mib,
            devices: 4,
            hours: 400.0,
            kills: 7,
            foreground_kills: 0,
            kills_in_100_hours: rate,
            low: Some(rate - 0.5),
            high: Some(rate + 0.5),
            freed_kib: Some(20_000.0),
            headroom_kib: None,
        };
        let switched = Switched {
            mechanism: name("launch"),
            model: name("M"),
            devices: 5,
            launches: 60,
            change_percent: -3.0,
            low_percent: Some(-4.0),
            high_percent: Some(-2.0),
        };
        let claimed = Claimed {
            model: name("M"),
            build: name("B"),
            experiment: name("E"),
            claim: name("launch.gap"),
            quick: false,
            unit: "%".to_owned(),
            required: ">= 90".to_owned(),
            devices: 3,
            shown: 1,
            not_shown: 2,
            measured: Some(88.0),
            low: Some(86.0),
            high: Some(90.0),
        };
        Answers {
            claims: vec![claimed],
            changes: vec![change],
            boots: vec![boots],
            losses: vec![loss],
            kills: vec![kills(512, 4.0), kills(2048, 1.0)],
            switched: vec![switched],
            seconds: BTreeMap::from([("boots", 0.25)]),
        }
    }

    // Verifies FLEET-6.
    #[test]
    fn the_page_has_every_answer_and_no_name_breaks_it() {
        let page = render(&origin(), &answers());
        assert!(page.trim_end().ends_with("</html>") && !page.contains("<M>") && !page.contains("NaN"));
        for words in [
            "In 1 of 1 comparison a build is slower than the one before it on its model",
            "&#60;B&#62;&#38;&#34; starts applications 6.0\u{a0}% slower than &#60;A",
            "loses most to its governor: 10.0\u{a0}%",
            "are 3.0\u{a0}% shorter",
            "512\u{a0}MiB of memory kill 4.00 processes",
            "half file",
            "The rows of 1 of them are in no answer",
            "refuted on a device: 1 of 1",
            "&#60;fleet&#62;",
        ] {
            assert!(page.contains(words), "{words}: {page}");
        }
        for question in crate::question::ALL {
            assert!(page.contains(&question.title().replace('\'', "&#39;")), "{}", question.title());
        }
        assert_eq!(page.matches("class=\"plot wide\"").count(), 5);
    }

    #[test]
    fn a_fleet_without_answers_has_a_page() {
        let page = render(&origin(), &Answers::default());
        assert!(page.contains("No builds are compared yet") && !page.contains("class=\"plot"), "{page}");
    }
}
