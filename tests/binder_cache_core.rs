//! The parts of the binder cache that also build in user space: its core, and the parsers of untrusted bytes. Their own
//! tests, a naive model and a mutator run with gcc's sanitizers; `./dev fuzz binder-cache` runs them for longer.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernel/binder-cache")
}

/// `make GOAL` in the tests' folder of `sources`, what it builds in `folder`.
fn make(sources: &Path, folder: &Path, arguments: &[&str]) -> Output {
    let mut make = Command::new("make");
    make.arg("-s").arg("-C").arg(sources.join("tests")).args(arguments).arg(format!("O={}", folder.display()));
    // Variables of a make that runs cargo must not reach this make.
    for variable in ["MAKEFLAGS", "MFLAGS", "O"] {
        make.env_remove(variable);
    }
    make.output().expect("make runs; install the packages make and gcc")
}

fn said_by(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the core's unit tests, then `programs` random programs against the model; returns the number of calls.
fn calls_of_programs(programs: u32, seed: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["check", &format!("PROGRAMS={programs}"), &format!("SEED={seed}")];
    let output = make(&sources(), folder.path(), &arguments);
    let said = said_by(&output);
    assert!(output.status.success() && said.lines().any(|line| line == "ok"), "seed {seed}: {said}");
    let calls = said.lines().find_map(|line| line.strip_prefix("calls ")?.parse().ok());
    println!("{said}");
    calls.unwrap_or_else(|| panic!("it says how many calls it made: {said}"))
}

// Verifies LOOKUP-1, LOOKUP-2.
#[test]
fn the_core_passes_its_tests_and_agrees_with_the_model() {
    assert!(calls_of_programs(200, 1) > 200_000);
}

/// The seed differs in each run; a failure prints it.
// Verifies LOOKUP-1.
#[test]
#[ignore = "a minute; ./dev test --deep"]
fn the_core_agrees_with_the_model_in_millions_of_calls() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    assert!(calls_of_programs(6_000, seed) > 5_000_000);
}

/// A service becomes lazy, dies, or is released and freed while another thread learns or finds it; a reference is freed while
/// another thread frees or needs one: every order with two context switches.
// Verifies LOOKUP-3, LOOKUP-4, LOOKUP-1.
#[test]
fn two_threads_in_the_hooks_keep_the_rules_in_every_order() {
    let folder = tempfile::tempdir().unwrap();
    let output = make(&sources(), folder.path(), &["interleave"]);
    let said = said_by(&output);
    assert!(output.status.success() && said.lines().any(|line| line == "ok"), "{said}");
    println!("{said}");
}

// Verifies LOOKUP-3.
#[test]
fn the_parsers_of_untrusted_bytes_agree_with_a_simple_parser() {
    let folder = tempfile::tempdir().unwrap();
    let output = make(&sources(), folder.path(), &["mutate", "INPUTS=20000"]);
    let said = said_by(&output);
    assert!(output.status.success(), "{said}");
    for target in ["is_string16", "recognise", "is_answer", "read_answer", "profile", "core"] {
        assert!(said.contains(&format!("{target}: 20000 inputs")), "{target}: {said}");
    }
}

/// For each target, a fault in its source; the mutator must find it from the same seeds.
const PLANTED: &[(&str, &str, &str, &str)] = &[
    ("is_string16", "format.c", "!end[1] && ", ""),
    ("recognise", "format.c", "& format->first_fixed", "& format->first_fixed >> 8"),
    ("is_answer", "format.c", "tail == form->tail[i] && ", ""),
    ("read_answer", "format.c", "offset > size - OBJECT_SIZE", "offset > size"),
    ("profile", "profile.c", "*other_count < BINDER_CACHE_OTHERS", "*other_count <= BINDER_CACHE_OTHERS"),
    ("profile", "profile.c", "length / 2 > most", "length / 3 > most"),
    ("core", "core.h", "entry->generation != core->generation || core->changes", "core->changes"),
];

/// Copies the sources into `folder`, to plant faults there.
fn copy_in(folder: &Path) -> PathBuf {
    let copy = folder.join("binder-cache");
    let status = Command::new("cp").arg("-r").arg(sources()).arg(&copy).status().unwrap();
    assert!(status.success());
    copy
}

/// Runs `tried` while `wrong` replaces `right` in the copy's `file`.
fn with_fault<T>(copy: &Path, file: &str, right: &str, wrong: &str, tried: impl FnOnce() -> T) -> T {
    let path = copy.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.matches(right).count(), 1, "{file}: {right}");
    std::fs::write(&path, text.replace(right, wrong)).unwrap();
    let result = tried();
    std::fs::write(&path, text).unwrap();
    result
}

// Verifies LOOKUP-3.
#[test]
fn a_fault_planted_in_a_parser_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let copy = copy_in(folder.path());
    let program = folder.path().join("mutate");
    for (target, file, right, wrong) in PLANTED {
        let built = with_fault(&copy, file, right, wrong, || make(&copy, folder.path(), &[program.to_str().unwrap()]));
        assert!(built.status.success(), "{}", said_by(&built));
        let run = Command::new(&program).args(["-n", "200000", target]).output().unwrap();
        let said = said_by(&run);
        assert!(!run.status.success() && said.contains(&format!("{target} broke on ")), "{file}: {wrong}: {said}");
    }
}

/// A step of the hooks that is omitted or misplaced, and what some interleaving of two threads then detects.
const MISPLACED: &[(&str, &str, &str, &str)] = &[
    (
        "manager.c",
        "bc_is_stale(&cache->core, entry) ||",
        "(READ_ONCE(node->proc) && bc_is_stale(&cache->core, entry)) ||",
        "freed memory is accessed",
    ),
    ("manager.c", "bc_is_stale(&cache->core, entry) ||", "", "freed memory is accessed"),
    ("manager.c", "WRITE_ONCE(node->cached, true);", "(void)node;", "an answer was learnt that must not be"),
    (
        "manager.c",
        "binder_cache_forget_object(cache, ref->node);",
        "(void)cache;",
        "an answer was learnt that must not be",
    ),
    ("caller.c", "cache->core.removals != removals", "false", "freed memory is accessed"),
    ("answer.c", "memset(ref, 0, sizeof(*ref));", "", "a reference is not zeroed"),
    (
        "answer.c",
        "memset(ref, 0, sizeof(*ref));\n\treturn !cmpxchg(&proc->cache_spare_ref, NULL, ref);",
        "if (cmpxchg(&proc->cache_spare_ref, NULL, ref))\n\t\treturn false;\n\tmemset(ref, 0, sizeof(*ref));\n\
         \treturn true;",
        "a reference is not zeroed",
    ),
    (
        "answer.c",
        "return !cmpxchg(&proc->cache_spare_ref, NULL, ref);",
        "proc->cache_spare_ref = ref;\n\treturn true;",
        "a freed reference is lost, or has two owners",
    ),
    (
        "caller.c",
        "slot->spare_ref = xchg(&proc->cache_spare_ref, NULL);",
        "slot->spare_ref = READ_ONCE(proc->cache_spare_ref);",
        "a freed reference is lost, or has two owners",
    ),
];

// Verifies LOOKUP-1.
#[test]
fn a_misplaced_step_of_the_hooks_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let copy = copy_in(folder.path());
    for (file, right, wrong, found) in MISPLACED {
        let output = with_fault(&copy, file, right, wrong, || make(&copy, folder.path(), &["interleave"]));
        let said = said_by(&output);
        assert!(!output.status.success() && said.contains(&format!("not ok: {found}")), "{file}: {wrong}: {said}");
    }
}
