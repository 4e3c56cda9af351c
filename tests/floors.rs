//! ARCHITECTURE.md's floors: crates depend only on crates below, and within a crate no two files or folders import each other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path below the crate: `["device", "journal"]`.
type Module = Vec<String>;

/// The crates from top to bottom; a crate may depend on its own row and on those below. `brisk`, the command line, depends
/// on all of them. The compiler forbids circles.
const FLOORS: [&[&str]; 7] = [
    &["daemon", "experiment", "lab"],
    &["config"],
    &["fleet", "papers", "telemetry"],
    &["mechanism", "chart", "trace", "recorder", "report", "remote"],
    &["undo"],
    &["sys"],
    &["base"],
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn source(name: &str) -> PathBuf {
    repository().join("crates").join(name).join("src")
}

/// The crates of this repository that the crate of this manifest depends on, without dev-dependencies.
fn dependencies(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let names = manifest["dependencies"].as_table().unwrap().keys();
    names.filter_map(|name| name.strip_prefix("brisk-")).map(str::to_owned).collect()
}

/// Every module and the text of its file without comments and tests.
fn modules(folder: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(here) = folders.pop() {
        for path in fs::read_dir(here).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.strip_prefix(folder).unwrap().with_extension("");
            let mut module: Module = name.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                if module.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
                    module.pop();
                }
                modules.entry(module).or_insert_with(String::new).push_str(&code(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    modules
}

/// A file's text up to its unit tests, without comments.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
    let lines = text[..tests].lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The paths below its crate that `text`, in `module`, names in imports and code.
fn named(module: &[String], text: &str) -> Vec<Module> {
    ["crate::", "super::"].iter().flat_map(|first| named_below(first, module, text)).collect()
}

/// The paths after `first` that `text`, in `module`, names.
fn named_below(first: &str, module: &[String], text: &str) -> Vec<Module> {
    let mut paths = Vec::new();
    for (start, _) in text.match_indices(first) {
        let before = text[..start].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || "_:{".contains(before)) {
            continue;
        }
        let mut base = if first == "super::" { module[..module.len().max(1) - 1].to_vec() } else { Module::new() };
        let mut rest = &text[start + first.len()..];
        while let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            rest = after;
        }
        // Include the preceding `::`, because a group may follow.
        expand(&base, &text[text.len() - rest.len() - 2..], &mut paths);
    }
    paths
}

/// Appends the paths that `text` begins with, below `base`: `a::{b, c::d}` is two. Returns what follows them.
fn expand<'text>(base: &[String], mut text: &'text str, paths: &mut Vec<Module>) -> &'text str {
    let mut path = base.to_vec();
    loop {
        let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len());
        if end > 0 && text[..end] != *"self" {
            path.push(text[..end].to_owned());
        }
        text = &text[end..];
        let Some(after) = text.strip_prefix("::") else { break };
        let Some(mut group) = after.strip_prefix('{') else {
            text = after;
            continue;
        };
        loop {
            group = expand(&path, group.trim_start(), paths).trim_start();
            group = match group.strip_prefix(',') {
                Some(next) if !next.trim_start().starts_with('}') => next,
                after => return after.unwrap_or(group).trim_start().strip_prefix('}').unwrap_or(""),
            };
        }
    }
    paths.push(path);
    text
}

/// The module that contains `path`.
fn owner(modules: &BTreeMap<Module, String>, path: &[String]) -> Module {
    (0..=path.len()).rev().map(|length| path[..length].to_vec()).find(|module| modules.contains_key(module)).unwrap()
}

/// Pairs of modules where the first names the second; a module and its submodules are one family and may name each other.
fn imports(modules: &BTreeMap<Module, String>) -> BTreeSet<(Module, Module)> {
    let mut imports = BTreeSet::new();
    for (module, text) in modules {
        for path in named(module, text) {
            let owner = owner(modules, &path);
            if !module.starts_with(&owner) && !owner.starts_with(module) {
                imports.insert((module.clone(), owner));
            }
        }
    }
    imports
}

/// The nodes on a circle: what remains after nodes without incoming or without outgoing edges are removed repeatedly.
fn circles<T: Ord + Clone>(mut edges: BTreeSet<(T, T)>) -> BTreeSet<(T, T)> {
    loop {
        let from: BTreeSet<T> = edges.iter().map(|(from, _)| from.clone()).collect();
        let to: BTreeSet<T> = edges.iter().map(|(_, to)| to.clone()).collect();
        let before = edges.len();
        edges.retain(|(one, other)| to.contains(one) && from.contains(other));
        if edges.len() == before {
            return edges;
        }
    }
}

fn floor(name: &str) -> usize {
    FLOORS.iter().position(|floor| floor.contains(&name)).unwrap_or_else(|| panic!("{name} has no floor"))
}

// Verifies HOUSE-2.
#[test]
fn crates_depend_only_on_lower_floors() {
    let folders = fs::read_dir(repository().join("crates")).unwrap();
    let names: BTreeSet<String> = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, FLOORS.concat().into_iter().map(str::to_owned).collect(), "each crate has its floor");
    let mut upward = Vec::new();
    for name in names {
        let manifest = fs::read_to_string(repository().join("crates").join(&name).join("Cargo.toml")).unwrap();
        let above = dependencies(&manifest).into_iter().filter(|other| floor(other) < floor(&name));
        upward.extend(above.map(|other| format!("{name} depends on {other}")));
    }
    assert_eq!(upward, Vec::<String>::new());
}

// Verifies HOUSE-2.
#[test]
fn no_two_folders_and_no_two_files_import_each_other() {
    let sources = FLOORS.concat().into_iter().map(source).chain([repository().join("src")]);
    for source in sources {
        let imports = imports(&modules(&source));
        let folders = imports.iter().filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let folders = folders.map(|(from, to)| (from[0].clone(), to[0].clone())).filter(|(from, to)| from != to);
        assert_eq!(circles(folders.collect()), BTreeSet::new(), "{}", source.display());
        assert_eq!(circles(imports), BTreeSet::new(), "{}", source.display());
    }
}

#[test]
fn the_checks_find_what_is_wrong() {
    let text = "use crate::a::{self, b::{C, d}, e};\nfn f() { super::g::h(); super::super::i() }";
    let found: BTreeSet<String> =
        named(&["x".into(), "y".into()], text).into_iter().map(|path| path.join("::")).collect();
    let expected = ["a", "a::b::C", "a::b::d", "a::e", "i", "x::g::h"].map(str::to_owned);
    assert_eq!(found, BTreeSet::from(expected));
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")];
    assert_eq!(circles(BTreeSet::from(edges)), BTreeSet::from([("b", "c"), ("c", "b")]));

    let house = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("lib.rs", "pub mod device;"),
        ("device/mod.rs", "pub mod a;\nuse a::A;"),
        ("device/a.rs", "use super::b::B; // use crate::cli::C\n#[cfg(test)]\nmod tests { use crate::cli::C; }"),
        ("device/b.rs", "use crate::device::a::A;\nfn b() -> crate::report::R {}"),
        ("report/mod.rs", ""),
    ] {
        let path = house.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let imports = imports(&modules(house.path()));
    let names: Vec<String> = imports.iter().map(|(from, to)| format!("{} {}", from.join("/"), to.join("/"))).collect();
    assert_eq!(names, ["device/a device/b", "device/b device/a", "device/b report"]);
    assert_eq!(circles(imports).len(), 2);
    assert_eq!(dependencies("[dependencies]\nbrisk-sys.workspace = true\nserde = \"1\"\n"), ["sys"]);
    assert!(floor("daemon") < floor("mechanism") && floor("mechanism") < floor("sys"));
}

/// The engine drives a list of mechanisms and names none of them; separate processes beside it may.
// Verifies HOUSE-2.
#[test]
fn the_engine_names_no_mechanism() {
    const OWN_PROCESSES: [&str; 2] = ["boot", "killer"];
    const MECHANISMS: [&str; 5] = ["boot", "launch", "lookup", "memory", "placement"];
    let is_apart = |module: &Module| module.first().is_some_and(|name| OWN_PROCESSES.contains(&name.as_str()));
    let mut faults = Vec::new();
    for (module, text) in modules(&source("daemon")) {
        if is_apart(&module) {
            continue;
        }
        let named = named_below("brisk_mechanism::", &module, &text).into_iter();
        let named = named.filter(|path| path.first().is_some_and(|name| MECHANISMS.contains(&name.as_str())));
        faults.extend(named.map(|path| format!("{} names {}", module.join("::"), path.join("::"))));
    }
    assert_eq!(faults, Vec::<String>::new());
    let text = "use brisk_mechanism::{Mechanism, launch::LaunchConfig};";
    assert_eq!(named_below("brisk_mechanism::", &[], text)[1], ["launch", "LaunchConfig"]);
}

/// A mechanism reads the device in a few files; all others, above all its policy, are pure.
// Verifies HOUSE-2.
#[test]
fn policies_read_no_device_and_no_clock() {
    /// These two files of the contract name the device only to pass it on.
    const CONTRACT: [&str; 2] = ["", "contract::probe_context"];
    const DEVICE_FILES: [&str; 7] = ["driver", "probe", "support", "automatic", "snapshot", "kill_log", "zygote"];
    let faults = |modules: BTreeMap<Module, String>| -> Vec<String> {
        let is_pure = |module: &Module| {
            let is_of_mechanism = module.len() > 1 && DEVICE_FILES.contains(&module.last().unwrap().as_str());
            let is_test = module.iter().any(|part| part == "tests");
            !is_of_mechanism && !is_test && !CONTRACT.contains(&module.join("::").as_str())
        };
        let pure = modules.into_iter().filter(|(module, _)| is_pure(module));
        pure.flat_map(|(module, text)| {
            impure(&text).into_iter().map(move |what| format!("{} {what}", module.join("::")))
        })
        .collect()
    };
    assert_eq!(faults(modules(&source("mechanism"))), Vec::<String>::new());
    let text = "use brisk_sys::{BootTime, Root};\nlet now = Instant::now(); let home = SchedulingGroup::Root;";
    let wrong = BTreeMap::from([(vec!["launch".to_owned(), "policy".to_owned()], text.to_owned())]);
    assert_eq!(faults(wrong), ["launch::policy names Root", "launch::policy names now()"]);
}

/// The parts of the device, the clock or the processes that `text` names.
fn impure(text: &str) -> Vec<String> {
    const DEVICE: [&str; 8] =
        ["Root", "std::fs", "std::process", "std::env", "std::net", "std::thread", "OpenOptions", "rustix"];
    let is_name =
        |character: Option<char>| character.is_some_and(|character| character.is_alphanumeric() || character == '_');
    let names = move |what: &str| {
        text.match_indices(what).any(|(start, _)| {
            let (before, after) = (&text[..start], &text[start + what.len()..]);
            !is_name(before.chars().next_back()) && !before.ends_with("Group::") && !is_name(after.chars().next())
        })
    };
    let device = DEVICE.into_iter().filter(|what| names(what)).map(|what| format!("names {what}"));
    let clock = text.contains("::now(").then(|| "names now()".to_owned());
    device.chain(clock).collect()
}
