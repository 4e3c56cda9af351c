use std::process::Command;
use std::sync::Barrier;

use super::super::apt::repository::Repository;
use super::*;

#[test]
fn headers_include_each_other_where_they_were_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("linux-headers-6.1.0-56-amd64");
    fs::create_dir_all(&headers).unwrap();
    fs::create_dir_all(folder.path().join("linux-headers-6.1.0-56-common")).unwrap();
    fs::write(headers.join("Makefile"), "include /usr/src/linux-headers-6.1.0-56-common/Makefile\n").unwrap();
    relocate_headers(folder.path(), Path::new("/cache/entry")).unwrap();
    let text = fs::read_to_string(headers.join("Makefile")).unwrap();
    assert_eq!(text, "include /cache/entry/usr/src/linux-headers-6.1.0-56-common/Makefile\n");
}

/// Names the cache and the source for a process that fills the cache beside others.
const JOBS: [&str; 2] = ["BRISK_TEST_CACHE", "BRISK_TEST_SOURCE"];
const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// What a job of the lab does before it boots, by eight threads that want the same at the same time.
fn fill(cache: &Cache, source: &str) {
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let apt = Apt::of_source(cache, source, Architecture::named("amd64").unwrap()).unwrap();
                let packages = Packages { cache, kernels: apt.clone(), tools: apt };
                for name in NAMES {
                    let folder = packages.with_libraries(name).unwrap();
                    for file in [name, "libsmall"] {
                        let text = fs::read_to_string(folder.join("usr/share").join(file)).unwrap();
                        assert_eq!(text, "1\n");
                    }
                }
            });
        }
    });
}

#[test]
fn an_empty_cache_is_filled_by_threads_of_several_processes_at_the_same_time() {
    if let [Some(cache), Some(source)] = JOBS.map(|name| std::env::var(name).ok()) {
        return fill(&Cache::at(Path::new(&cache)).unwrap(), &source);
    }
    let folder = tempfile::tempdir().unwrap();
    let offered = NAMES.map(|name| (name, "1", "libsmall (= 1)"));
    let repository = Repository::with(&[&offered[..], &[("libsmall", "1", "")]].concat());
    let this = "lab::packages::tests::an_empty_cache_is_filled_by_threads_of_several_processes_at_the_same_time";
    let start = || {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", this, "--nocapture"]).env(JOBS[0], folder.path()).env(JOBS[1], repository.source());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let processes = [start(), start(), start()];
    let outputs = processes.map(|process| process.wait_with_output().unwrap());
    for output in outputs {
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }
    // Made once each, and no draft or lock is left of all that.
    let drafts: Vec<_> = fs::read_dir(folder.path().join("drafts")).unwrap().collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}
