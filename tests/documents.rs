//! Checks of the documents: links have targets, and a test or a claim verifies every promise.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support;
use crate::traceability::{self, Promise};

/// Three pages.
const LONGEST_SPECIFICATION: usize = 20 * 1024;
const LONGEST_LINE: usize = 400;

/// Folders without documents of this project.
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

// Verifies HOUSE-1.
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

/// Faults of a specification. It should have two to three pages, and the traceability table names the tests, not the text.
fn faults(specification: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if specification.len() >= LONGEST_SPECIFICATION {
        faults.push(format!("{} bytes; say it shorter", specification.len()));
    }
    for line in specification.lines() {
        let names_a_test = ["::", ".rs", ".java", "tests/", ".toml#"].iter().any(|part| line.contains(part))
            || line.split('`').skip(1).step_by(2).any(|code| code.matches('_').count() >= 3);
        if names_a_test {
            faults.push(format!("names a test: {line}"));
        }
        if line.chars().count() > LONGEST_LINE {
            faults.push(format!("longer than {LONGEST_LINE} characters: {line}"));
        }
    }
    let mut last: Option<Promise> = None;
    for promise in traceability::promises(specification) {
        let numbered = |promise: &Promise| {
            let (group, number) = promise.id.split_once('-')?;
            Some((group.to_owned(), number.parse::<u32>().ok()?))
        };
        let goes_on = match (last.as_ref().and_then(numbered), numbered(&promise)) {
            (Some((before, last)), Some((group, number))) if before == group => number == last + 1,
            (_, Some((_, number))) => number == 1,
            (_, None) => false,
        };
        if !goes_on || !promise.text.ends_with('.') {
            faults.push(format!(
                "the numbers of a group are 1, 2 and so on, and a promise is a sentence: {}",
                promise.id
            ));
        }
        last = Some(promise);
    }
    faults
}

// Verifies HOUSE-1.
#[test]
fn the_specification_is_short_and_names_no_test() {
    let specification = fs::read_to_string(repository().join("SPECIFICATION.md")).unwrap();
    assert_eq!(faults(&specification), Vec::<String>::new());
    let lines = specification.lines().filter(|line| line.starts_with("- ")).count();
    let promises = traceability::promises(&specification);
    assert!(promises.len() > 50 && promises.len() == lines, "each line of the lists is a promise");
    let ids: BTreeSet<&str> = promises.iter().map(|promise| promise.id.as_str()).collect();
    assert_eq!(ids.len(), promises.len(), "a number stands for one promise");
}

/// A promise without a test or a claim is not verified, and a check must name an existing promise.
// Verifies HOUSE-1.
#[test]
fn each_promise_has_a_check_and_each_check_a_promise() {
    let promises = traceability::promises(&fs::read_to_string(repository().join("SPECIFICATION.md")).unwrap());
    let promises: BTreeSet<&str> = promises.iter().map(|promise| promise.id.as_str()).collect();
    let checks = traceability::checks(repository()).unwrap();
    assert!(checks.len() > 900, "the checks are found");
    let verified: BTreeSet<&str> = checks.iter().flat_map(|check| &check.promises).map(String::as_str).collect();
    assert_eq!(verified.difference(&promises).collect::<Vec<_>>(), Vec::<&&str>::new(), "no promises");
    assert_eq!(promises.difference(&verified).collect::<Vec<_>>(), Vec::<&&str>::new(), "not verified");
    let names: BTreeSet<String> = checks.iter().map(|check| format!("{}::{}", check.file, check.name)).collect();
    assert_eq!(names.len(), checks.len(), "a check has one comment, which may name several promises");
}

// Verifies HOUSE-1.
#[test]
fn the_traceability_table_is_up_to_date() {
    let kept = fs::read_to_string(repository().join("docs/traceability.md")).unwrap();
    let made = traceability::document(repository()).unwrap();
    let mut lines = kept.lines().zip(made.lines());
    let differs = lines.find(|(kept, made)| kept != made);
    assert!(kept == made, "run `cargo xtask evidence`; kept and made first differ in {differs:#?}");
}

// Verifies HOUSE-1.
#[test]
fn the_readmes_table_of_platforms_is_up_to_date() {
    let kept = fs::read_to_string(repository().join(support::FILE)).unwrap();
    assert_eq!(kept, support::readme(repository()).unwrap(), "run `cargo xtask evidence`");
}

/// The pages of the book, by their path in docs/.
fn pages() -> Vec<String> {
    let folder = repository().join("docs");
    let mut files = Vec::new();
    documents(&folder, &mut files);
    files.iter().map(|file| file.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned()).collect()
}

// Verifies HOUSE-1.
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

// Verifies HOUSE-1.
#[test]
fn decision_records_are_short() {
    for record in pages().into_iter().filter(|page| page.starts_with("decisions/0")) {
        let lines = fs::read_to_string(repository().join("docs").join(&record)).unwrap().lines().count();
        assert!(lines <= 30, "docs/{record} has {lines} lines, more than 30");
    }
}

/// The file or folder that docs/kernel-interfaces.md calls `name`.
fn interface(name: &str) -> PathBuf {
    let crates = repository().join("crates");
    name.strip_prefix("undo/")
        .map_or_else(|| crates.join("sys/src").join(name), |name| crates.join("undo/src").join(name))
}

/// False for a file that only names the modules of its folder.
fn holds_code(path: &Path) -> bool {
    fs::read_to_string(path).unwrap().contains("fn ")
}

/// Files of crates/sys and crates/undo, without tests, that docs/kernel-interfaces.md names neither directly nor by a
/// folder.
fn interfaces_without_a_row() -> Vec<String> {
    let table = fs::read_to_string(repository().join("docs/kernel-interfaces.md")).unwrap();
    let named: BTreeSet<&str> = table.split('`').skip(1).step_by(2).collect();
    let (sys, undo) = (interface(""), interface("undo/"));
    let mut folders = vec![sys.clone(), undo.clone()];
    let mut missing = Vec::new();
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = match path.strip_prefix(&undo) {
                Ok(name) => format!("undo/{}", name.display()),
                Err(_) => path.strip_prefix(&sys).unwrap().display().to_string(),
            };
            if name.contains("test") || named.contains(format!("{name}/").as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !named.contains(name.as_str()) && holds_code(&path) {
                missing.push(name);
            }
        }
    }
    missing
}

// Verifies HOUSE-2.
#[test]
fn each_file_of_kernel_interfaces_has_its_row() {
    assert_eq!(interfaces_without_a_row(), Vec::<String>::new(), "docs/kernel-interfaces.md");
    let table = fs::read_to_string(repository().join("docs/kernel-interfaces.md")).unwrap();
    let files = table.lines().filter_map(|row| row.strip_prefix("| ")?.split(" | ").nth(1));
    let files = files.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let gone: Vec<&str> = files.filter(|file| !interface(file).exists()).collect();
    assert_eq!(gone, Vec::<&str>::new(), "docs/kernel-interfaces.md names files that do not exist");
}

#[test]
fn the_checks_find_what_is_wrong() {
    assert_eq!(links("see [a](b.md#c) and ```[x](y)``` <img src=\"d.png\">"), ["b.md#c", "d.png"]);
    assert!(anchors("# How to add a mechanism\n## 2. `x`!").contains("how-to-add-a-mechanism"));
    let promise = "- **UNDO-1** It is restored.\n";
    assert_eq!(faults(promise), Vec::<String>::new());
    for (wrong, expected) in [
        ("- **UNDO-2** It is restored.", "the numbers of a group"),
        ("- **UNDO-1** It is restored", "a promise is a sentence"),
        ("- **UNDO-one** It is restored.", "the numbers of a group"),
        ("see `restores_it_after_sigkill`", "names a test"),
        ("see crates/undo/src/journal/tests/mod.rs", "names a test"),
        (&"long ".repeat(81), "longer than"),
        (&promise.repeat(1000), "bytes; say it shorter"),
        (&promise.repeat(2), "the numbers of a group"),
    ] {
        assert!(faults(wrong).iter().any(|fault| fault.contains(expected)), "{wrong:.100}: {:.100?}", faults(wrong));
    }
}
