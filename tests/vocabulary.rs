//! One vocabulary, one spelling, and short lines: phrases that no text of the tree may use, and limits for lines of documents.
//! `src/cli/help.rs` limits the lines of help.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that are not allowed, and their replacements.
const PHRASES: [(&str, &str); 10] = [
    ("whoever", "the process, the thread or the user that is meant"),
    ("somebody", "the process, the thread or the user that is meant"),
    ("nobody", "no process, no thread, no user"),
    ("everybody", "all processes, all threads, all users"),
    ("anybody", "any process, any thread, any user"),
    ("in front", "in the foreground"),
    ("anew", "again"),
    ("a look", "a sample"),
    ("look-up", "lookup"),
    ("look-ups", "lookups"),
];

/// Stems of words that American and British English spell differently: the tree is British. `synchronized` is Java's,
/// `serialize` serde's, `color` that of CSS, NO_COLOR and its crates.
const AMERICAN: [(&str, &str); 24] = [
    ("utilization", "utilisation"),
    ("initializ", "initialis"),
    ("recogniz", "recognis"),
    ("optimiz", "optimis"),
    ("prioritiz", "prioritis"),
    ("minimiz", "minimis"),
    ("maximiz", "maximis"),
    ("normaliz", "normalis"),
    ("summariz", "summaris"),
    ("organiz", "organis"),
    ("emphasiz", "emphasis"),
    ("specializ", "specialis"),
    ("generaliz", "generalis"),
    ("analyz", "analys"),
    ("realiz", "realis"),
    ("behavior", "behaviour"),
    ("neighbor", "neighbour"),
    ("favor", "favour"),
    ("honor", "honour"),
    ("colored", "coloured"),
    ("canceled", "cancelled"),
    ("labeled", "labelled"),
    ("modeled", "modelled"),
    ("gray", "grey"),
];

/// Foreign names that contain an American word.
const FOREIGN: [&str; 2] = ["Initializing", "grayscale"];

/// The maximal length of a document's line in characters; a table's line is limited by its cells.
const LINE: usize = 140;
/// The maximal length of a table's cell.
const CELL: usize = 200;

/// Documents whose lines are limited.
const DOCUMENTS: [&str; 5] = ["README.md", "docs", "CONTRIBUTING.md", "SECURITY.md", "android"];

/// Generated lines, which contain paths and names of tests.
const UNLIMITED: [&str; 1] = ["docs/traceability.md"];

/// Foreign files. The recorded trees' files have none of the endings below.
const SKIPPED: [&str; 3] = ["target", ".git", "fixtures"];

/// This file, which lists the phrases.
const OWN: &str = "tests/vocabulary.rs";

const ENDINGS: [&str; 10] = ["rs", "md", "c", "h", "sh", "toml", "java", "txt", "trycmd", "service"];

fn texts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        if SKIPPED.iter().any(|skipped| name == *skipped) || path.ends_with(OWN) {
            continue;
        }
        if entry.file_type().unwrap().is_dir() {
            texts(&path, found);
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
}

/// True when `line` has `phrase` as words of a sentence: not within a name, and not as a key or value.
fn has(line: &str, phrase: &str) -> bool {
    let capitalised = phrase[..1].to_uppercase() + &phrase[1..];
    [phrase, &capitalised].into_iter().any(|phrase| {
        line.match_indices(phrase).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = line[at + phrase.len()..].chars().next();
            let is_in_name = |letter: Option<char>| letter.is_some_and(|it| it.is_alphanumeric() || "-_".contains(it));
            let is_key = before == Some('.') || (before == Some('"') && matches!(after, Some('"' | '\\')));
            !is_in_name(before) && !is_in_name(after) && !is_key
        })
    })
}

// Verifies HOUSE-1.
#[test]
fn forbidden_phrases_are_not_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    texts(root, &mut files);
    assert!(files.len() > 500, "the tree's files are found");
    let mut wrong = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap().display();
        for (number, line) in text.lines().enumerate() {
            let used = PHRASES.iter().filter(|(phrase, _)| has(line, phrase));
            wrong.extend(used.map(|(phrase, better)| format!("{name}:{}: {phrase:?}; write {better}", number + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_spelling_is_british() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    texts(root, &mut files);
    let mut wrong = Vec::new();
    for path in files {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap().display();
        for (number, line) in text.lines().enumerate() {
            let used = AMERICAN.iter().filter(|(american, _)| starts_a_word(line, american));
            wrong.extend(used.map(|(american, british)| format!("{name}:{}: {american}: {british}", number + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// True when a word of the sentence `line` begins with `stem`: no name in code, and no key.
fn starts_a_word(line: &str, stem: &str) -> bool {
    let words = line.split(|letter: char| !letter.is_alphanumeric() && !"-_".contains(letter));
    let is_name = |word: &str| word.contains(['-', '_']) || word.chars().skip(1).any(char::is_uppercase);
    words.filter(|word| !is_name(word) && !FOREIGN.contains(word)).any(|word| word.to_lowercase().starts_with(stem))
}

/// The lines of a document that are too long: number and reason.
fn too_long(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    let mut is_code = false;
    for (number, line) in text.lines().enumerate() {
        is_code ^= line.starts_with("```");
        if line.starts_with('|') {
            if line.split('|').any(|cell| cell.trim().chars().count() > CELL) {
                found.push((number + 1, "a cell of more than 200 characters"));
            }
        } else if !is_code && line.chars().count() > LINE && line.trim_start().contains(' ') {
            found.push((number + 1, "more than 140 characters"));
        }
    }
    found
}

#[test]
fn lines_and_cells_of_documents_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for document in DOCUMENTS.map(|name| root.join(name)) {
        if document.is_dir() { texts(&document, &mut files) } else { files.push(document) }
    }
    files.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    files.retain(|path| !UNLIMITED.iter().any(|name| path.ends_with(name)));
    assert!(files.len() > 5, "{files:?}");
    let mut wrong = Vec::new();
    for path in files {
        let long = too_long(&fs::read_to_string(&path).unwrap());
        wrong.extend(long.into_iter().map(|(line, why)| format!("{}:{line}: {why}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn long_lines_and_long_cells_are_found() {
    let long = "word ".repeat(50);
    let text = format!(
        "short\n{long}\n```\n{long}\n```\n| a | b |\n| {long} | c |\n| {} | {} |\n",
        &long[..140],
        &long[..140]
    );
    assert_eq!(too_long(&text), [(2, "more than 140 characters"), (7, "a cell of more than 200 characters")]);
}

#[test]
fn a_phrase_is_found_only_in_sentences() {
    for (line, phrase, expected) in [
        ("Nobody waits.", "nobody", true),
        ("they go in front, all", "in front", true),
        ("\"nobody asks\"", "nobody", true),
        ("--look-ups 4", "look-ups", false),
        ("metric = \"look-up\"", "look-up", false),
        ("id = \"together.look-up\"", "look-up", false),
        ("const NOBODY: u32", "nobody", false),
        ("fn put_in_foreground()", "in front", false),
        ("names of a looks", "a look", false),
    ] {
        assert_eq!(has(line, phrase), expected, "{line}");
    }
}
