//! The documents tell the truth: links lead somewhere, and every promise names a test or a claim that exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders that hold no documents of ours.
const SKIPPED: [&str; 3] = ["target", "fuzz", ".git"];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && !SKIPPED.iter().any(|skipped| name == *skipped) {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// The text outside fenced blocks, where brackets are code.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The targets of `[text](target)` and `<img src="target">`.
fn links(text: &str) -> Vec<String> {
    let text = prose(text);
    let after = |opening: &str, closing: char| -> Vec<String> {
        text.split(opening).skip(1).filter_map(|rest| Some(rest.split_once(closing)?.0.to_owned())).collect()
    };
    let mut links = after("](", ')');
    links.extend(after("src=\"", '"'));
    links.extend(after("srcset=\"", '"'));
    links
}

/// The anchors that headings of `text` get on the usual Git hosts.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|&letter| letter.is_alphanumeric() || " -_".contains(letter));
        kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut files = Vec::new();
    documents(repository(), &mut files);
    assert!(files.len() >= 5, "the documents are found: {files:?}");
    let mut broken = Vec::new();
    for file in files {
        for link in links(&fs::read_to_string(&file).unwrap()) {
            if link.starts_with("https://") || link.starts_with("http://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { file.clone() } else { file.parent().unwrap().join(path) };
            let leads = target.exists()
                && (anchor.is_empty() || anchors(&fs::read_to_string(&target).unwrap_or_default()).contains(anchor));
            if !leads {
                broken.push(format!("{}: {link}", file.strip_prefix(repository()).unwrap().display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// `file::name` or `file#claim` in backticks, as SPECIFICATION.md names what checks a promise.
fn references(row: &str) -> Vec<(&str, &str)> {
    let quoted = row.split('`').skip(1).step_by(2);
    quoted.filter_map(|code| code.split_once("::").or_else(|| code.split_once('#'))).collect()
}

/// True when `file` holds the test function or the claim called `name`.
fn holds(file: &str, name: &str) -> bool {
    let Ok(text) = fs::read_to_string(repository().join(file)) else { return false };
    if file.ends_with(".toml") {
        return text.lines().any(|line| line.replace(' ', "") == format!("id=\"{name}\""));
    }
    if file.ends_with(".java") {
        return text.contains(&format!("void {name}("));
    }
    text.contains(&format!("fn {name}(")) || text.contains(&format!("{name}: \""))
}

#[test]
fn every_promise_is_checked_by_something_that_exists() {
    let text = fs::read_to_string(repository().join("SPECIFICATION.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Promise"));
    let mut wrong = Vec::new();
    let mut promises = 0;
    for row in rows {
        promises += 1;
        let references = references(row);
        if references.is_empty() {
            wrong.push(format!("nothing checks: {row}"));
        }
        for (file, name) in references.into_iter().filter(|(file, name)| !holds(file, name)) {
            wrong.push(format!("{file} has no {name}"));
        }
    }
    assert!(promises >= 10, "SPECIFICATION.md has its tables");
    assert!(wrong.is_empty(), "SPECIFICATION.md:\n{}", wrong.join("\n"));
}

/// Every claim of an experiment is a promise, so SPECIFICATION.md names it.
#[test]
fn every_claim_is_a_promise() {
    let specification = fs::read_to_string(repository().join("SPECIFICATION.md")).unwrap();
    let mut claims = 0;
    let mut missing = Vec::new();
    for path in fs::read_dir(repository().join("experiments")).unwrap().map(|entry| entry.unwrap().path()) {
        for line in fs::read_to_string(&path).unwrap().lines().map(|line| line.replace(' ', "")) {
            let Some(id) = line.strip_prefix("id=\"").and_then(|rest| rest.strip_suffix('"')) else { continue };
            claims += 1;
            let reference = format!("`experiments/{}#{id}`", path.file_name().unwrap().display());
            if !specification.contains(&reference) {
                missing.push(reference);
            }
        }
    }
    assert!(claims > 0, "the claims are found");
    assert!(missing.is_empty(), "SPECIFICATION.md does not name\n{}", missing.join("\n"));
}

/// The pages of the book, by their path in docs/.
fn pages() -> Vec<String> {
    let folder = repository().join("docs");
    let mut files = Vec::new();
    documents(&folder, &mut files);
    files.iter().map(|file| file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn the_books_contents_name_each_page_once() {
    let contents = fs::read_to_string(repository().join("docs/SUMMARY.md")).unwrap();
    let mut named = links(&contents);
    named.push("SUMMARY.md".to_owned());
    named.sort();
    let mut pages = pages();
    pages.sort();
    assert_eq!(named, pages);
}

/// What makes `text` hard to read: long lines, and long cells in tables, whose lines may be longer.
fn hard_to_read(text: &str) -> Vec<usize> {
    const LINE: usize = 140;
    const CELL: usize = 200;
    let is_hard = |line: &str| match line.starts_with('|') {
        true => line.split('|').any(|cell| cell.trim().chars().count() > CELL),
        false => line.chars().count() > LINE,
    };
    text.lines().enumerate().filter(|(_, line)| is_hard(line)).map(|(number, _)| number + 1).collect()
}

#[test]
fn lines_and_cells_of_the_book_are_short() {
    let mut wrong = Vec::new();
    for page in pages().into_iter().filter(|page| page != "results.md") {
        let text = fs::read_to_string(repository().join("docs").join(&page)).unwrap();
        wrong.extend(hard_to_read(&text).into_iter().map(|line| format!("docs/{page}:{line}")));
        if page.starts_with("decisions/0") && text.lines().count() > 30 {
            wrong.push(format!("docs/{page} has more than 30 lines"));
        }
    }
    assert!(wrong.is_empty(), "lines of at most 140 characters, cells of 200:\n{}", wrong.join("\n"));
}

/// Files of src/device/, tests left out, that docs/kernel-interfaces.md does not name, neither by themselves nor by a folder.
fn interfaces_without_a_row() -> Vec<String> {
    let table = fs::read_to_string(repository().join("docs/kernel-interfaces.md")).unwrap();
    let named: BTreeSet<&str> = table.split('`').skip(1).step_by(2).collect();
    let device = repository().join("src/device");
    let mut folders = vec![device.clone()];
    let mut missing = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(&device).unwrap().to_str().unwrap().to_owned();
            if name.ends_with("tests") || name.ends_with("tests.rs") || named.contains(format!("{name}/").as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !named.contains(name.as_str()) {
                missing.push(name);
            }
        }
    }
    missing
}

#[test]
fn each_file_of_kernel_interfaces_has_its_row() {
    assert_eq!(interfaces_without_a_row(), Vec::<String>::new(), "docs/kernel-interfaces.md");
    let table = fs::read_to_string(repository().join("docs/kernel-interfaces.md")).unwrap();
    let files = table.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").nth(1));
    let files = files.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let gone: Vec<&str> = files.filter(|file| !repository().join("src/device").join(file).exists()).collect();
    assert_eq!(gone, Vec::<&str>::new(), "docs/kernel-interfaces.md names files that are not there");
}

#[test]
fn the_checks_find_what_is_wrong() {
    let long = "x".repeat(150);
    assert_eq!(hard_to_read(&format!("a\n{long}\n| {long} | {long} |\n| {long}{long} |")), [2, 4]);
    assert_eq!(links("see [a](b.md#c) and ```[x](y)``` <img src=\"d.png\">"), ["b.md#c", "d.png"]);
    assert!(anchors("# How to add a mechanism\n## 2. `x`!").contains("how-to-add-a-mechanism"));
    assert_eq!(references("| p | `tests/a.rs::b`, `e.toml#f.g`, `plain` |"), [("tests/a.rs", "b"), ("e.toml", "f.g")]);
    assert!(holds("tests/documents.rs", "the_checks_find_what_is_wrong"));
    assert!(!holds("tests/documents.rs", concat!("no_such_", "test")));
    assert!(!holds("tests/none.rs", "any"));
}
