//! Sentences name their actor: phrases that hide it, and old spellings, are in no text of the tree.

use std::fs;
use std::path::{Path, PathBuf};

/// Phrases that are not used, and what to write.
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

/// What is not ours. The recorded trees' files have none of the endings below.
const SKIPPED: [&str; 3] = ["target", ".git", "fixtures"];

/// The file that names them.
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
fn phrases_that_hide_the_actor_are_not_used() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    texts(root, &mut files);
    assert!(files.len() > 500, "the tree is found");
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
fn a_phrase_is_found_in_sentences_alone() {
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
