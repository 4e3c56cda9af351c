//! An explanation as one HTML page: the words, the parts, and the critical path with zoom, hover and search. It is self-contained
//! and makes no network requests.

use std::collections::HashMap;

use askama::Template;
use serde_json::{Value, json};

use crate::colours::{self, COLOURS, colour};
use crate::explain::Explanation;
use crate::launches::Launch;
use crate::model::{Tid, Trace};
use crate::remedy::words::{outcome, sentence, together};
use crate::remedy::{Estimate, WhatIf};
use crate::words::{self, Group, ms};

#[derive(Template)]
#[template(path = "trace.html")]
struct Page<'a> {
    colours: &'static str,
    style: &'static str,
    script: &'static str,
    title: String,
    facts: String,
    sentence: String,
    missing: &'a [&'a str],
    launches: Vec<LaunchLine<'a>>,
    parts: Vec<PartLine>,
    /// All mechanisms together, and each alone.
    together: Option<String>,
    estimates: Vec<EstimateLine<'a>>,
    legend: &'static [(&'static str, &'static str)],
    version: &'static str,
    data: String,
}

struct LaunchLine<'a> {
    is_shown: bool,
    name: &'a str,
    length: String,
    from: String,
    found: &'static str,
}

struct PartLine {
    group: usize,
    segments: Vec<Segment>,
    length: String,
    percent: String,
    text: String,
}

struct EstimateLine<'a> {
    mechanism: &'static str,
    outcome: String,
    assumes: &'a [String],
}

impl<'a> EstimateLine<'a> {
    fn of(estimate: &'a Estimate) -> Self {
        Self { mechanism: estimate.mechanism.name(), outcome: outcome(estimate), assumes: &estimate.assumes }
    }
}

/// A piece of a part's bar, in percent of the window.
struct Segment {
    class: &'static str,
    from: f64,
    width: f64,
}

/// Draws the explanation; `launch` is the place of the explained one of `launches`.
pub fn render(
    trace: &Trace,
    (explanation, what_if): (&Explanation, Option<&WhatIf>),
    launches: &[Launch],
    launch: Option<usize>,
    missing: &[&str],
) -> String {
    let groups = words::groups(explanation);
    let seconds = |ns: u64| format!("{:.6} s", ns as f64 / 1e9);
    let title = words::title(explanation, launch.map(|place| &launches[place]));
    let launches = launches.iter().enumerate().map(|(place, it)| LaunchLine {
        is_shown: launch == Some(place),
        name: &it.name,
        length: ms(it.to_ns - it.from_ns),
        from: seconds(it.from_ns),
        found: it.found.words(),
    });
    let parts = groups.iter().enumerate().map(|(number, group)| PartLine {
        group: number,
        segments: segments(explanation, group),
        length: ms(group.ns),
        percent: format!("{:.1}", words::percent(group.ns, explanation)),
        text: group.text.clone(),
    });
    let page = Page {
        colours: colours::STYLE,
        style: include_str!("../templates/trace.css"),
        script: include_str!("../templates/trace.js"),
        title,
        facts: words::facts(explanation, trace),
        sentence: sentence(explanation, what_if),
        missing,
        launches: launches.collect(),
        parts: parts.collect(),
        together: what_if.and_then(|what_if| together(explanation, what_if)),
        estimates: what_if.map_or(&[][..], |what_if| &what_if.estimates).iter().map(EstimateLine::of).collect(),
        legend: &COLOURS,
        version: env!("CARGO_PKG_VERSION"),
        data: data(explanation, &groups),
    };
    // The template writes to a String from plain data alone, which cannot fail.
    page.render().unwrap_or_default()
}

/// The causes of a group, one after the other.
fn segments(explanation: &Explanation, group: &Group) -> Vec<Segment> {
    let mut from = 0.0;
    let parts = group.parts.iter().map(|&part| &explanation.parts[part]);
    let segments = parts.map(|part| {
        let width = words::percent(part.ns, explanation);
        from += width;
        Segment { class: COLOURS[colour(part.cause)].0, from: from - width, width }
    });
    segments.collect()
}

/// What the script draws. Times are nanoseconds of the window; a step is `[from, length, thread, CPU, kHz, [part, ns, ...]]`.
fn data(explanation: &Explanation, groups: &[Group]) -> String {
    let mut group_of = vec![0; explanation.parts.len()];
    for (number, group) in groups.iter().enumerate() {
        group.parts.iter().for_each(|&part| group_of[part] = number);
    }
    let mut threads: Vec<Value> = vec![json!([explanation.thread, explanation.tid])];
    let mut thread_of: HashMap<Tid, usize> = HashMap::from([(explanation.tid, 0)]);
    let mut steps: Vec<Value> = Vec::with_capacity(explanation.path.len());
    for step in &explanation.path {
        let thread = *thread_of.entry(step.tid).or_insert_with(|| {
            threads.push(json!([step.thread, step.tid]));
            threads.len() - 1
        });
        let shares: Vec<u64> = step.shares.iter().flat_map(|&(part, ns)| [part as u64, ns]).collect();
        let from_ns = step.from_ns - explanation.from_ns;
        steps.push(json!([from_ns, step.to_ns - step.from_ns, thread, step.cpu, step.khz, shares]));
    }
    let parts = explanation.parts.iter().enumerate().map(|(number, part)| {
        let waited = part.on_behalf.as_ref().map(|_| &groups[group_of[number]].name);
        json!([colour(part.cause), group_of[number], words::phrase(part.cause, part.full_subject().as_deref()), waited])
    });
    let data = json!({
        "length": explanation.to_ns - explanation.from_ns,
        "colours": COLOURS.map(|(class, _)| class),
        "parts": parts.collect::<Vec<_>>(),
        "threads": threads,
        "steps": steps,
    });
    // A name may contain "</script>" or "<!--": the escape breaks both, and a JSON parser decodes it.
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::launches::find;
    use crate::read::read_bytes;
    use crate::remedy::{Mechanism, Remedies, what_if};
    use crate::threads::resolve;

    const LAUNCHES: &str = include_str!("../../../tests/cli/trace.in/launches.txt");

    /// The page of the first launch, and what its script gets.
    fn page(text: &str) -> (String, Value, Explanation) {
        let trace = read_bytes(std::path::Path::new("a"), text.as_bytes()).unwrap();
        let timelines = resolve(&trace);
        let launches = find(&trace, &timelines);
        let explanation = explain(&trace, &timelines, launches[0].window().unwrap());
        let window = launches[0].window().unwrap();
        let remedies = Remedies { with: Mechanism::ALL.to_vec(), ..Remedies::default() };
        let what_if = what_if(&trace, &timelines, (window, &explanation), &remedies);
        let page = render(&trace, (&explanation, Some(&what_if)), &launches, Some(0), &["a <note>"]);
        let (_, data) = page.split_once("type=\"application/json\">").unwrap();
        let (data, _) = data.split_once("</script>").unwrap();
        let data = serde_json::from_str(data).unwrap();
        (page, data, explanation)
    }

    // Verifies TRACE-5.
    #[test]
    fn the_steps_of_the_page_are_those_of_the_path() {
        let (page, data, explanation) = page(LAUNCHES);
        let number = |value: &Value| value.as_u64().unwrap();
        let mut at = 0;
        let mut parts = vec![0; explanation.parts.len()];
        for (step, expected) in data["steps"].as_array().unwrap().iter().zip(&explanation.path) {
            assert_eq!(number(&step[0]), at, "no gap and no overlap");
            at += number(&step[1]);
            let thread = &data["threads"][number(&step[2]) as usize];
            assert_eq!(thread[1], expected.tid);
            for share in step[5].as_array().unwrap().chunks(2) {
                parts[number(&share[0]) as usize] += number(&share[1]);
            }
        }
        assert_eq!((at, number(&data["length"])), (100_000_000, 100_000_000));
        assert_eq!(parts, explanation.parts.iter().map(|part| part.ns).collect::<Vec<_>>());
        for words in [
            "Launch of com.example.shop: where 100.0 ms went",
            "until forked by zygote64",
            "a &#60;note&#62;",
            "<h2 id=\"what-if-heading\">What if</h2>",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    // Verifies TRACE-5, SECURITY-3.
    #[test]
    fn the_page_holds_everything_and_runs_no_name() {
        let (page, data, _) = page(&LAUNCHES.replace("zygote64", "</script><b>"));
        assert!(!page.contains("</script><b>"), "a name is text");
        assert!(data["threads"].to_string().contains("</script><b>"));
        let outside = ["http:", "https:", "src=", "@import", "url("];
        assert!(outside.iter().all(|it| !page.contains(it)), "the page needs the network");
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn the_bar_of_a_part_is_as_long_as_its_share() {
        let (_, _, explanation) = page(LAUNCHES);
        for group in words::groups(&explanation) {
            let segments = segments(&explanation, &group);
            let width: f64 = segments.iter().map(|it| it.width).sum();
            assert!((width - words::percent(group.ns, &explanation)).abs() < 1e-9);
            assert!(segments.windows(2).all(|two| (two[0].from + two[0].width - two[1].from).abs() < 1e-9));
        }
    }
}
