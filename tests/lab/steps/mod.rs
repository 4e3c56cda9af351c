//! Scripts that run steps in a guest, and their output.

use std::time::Duration;

use brisk::lab::Job;
use serde_json::Value;

use super::{results, run};

/// The output of a script: lines "NAME: TEXT".
#[derive(Debug)]
pub struct Report(Vec<(String, String)>);

impl Report {
    /// Runs `job`, whose command is a script, with `script` as the file `path` and the functions of steps.sh.
    pub fn of(mut job: Job, path: &str, script: &str, patience: Duration) -> Self {
        job.busybox = true;
        // Each step waits for its effect, which takes longer on a busy host.
        job.timeout = patience;
        let job = job.with_file(path, script).with_file("/steps.sh", include_str!("steps.sh"));
        let (outcome, lines) = run(&job);
        let report = Self::told(&results(&lines));
        assert_eq!(outcome.unwrap().status, 0, "{report:#?}\n{lines:#?}");
        report
    }

    /// Parses `lines`.
    pub fn told(lines: &[&str]) -> Self {
        let said = lines.iter().filter_map(|line| line.split_once(": "));
        Self(said.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    /// The same with the functions of launch_steps.sh.
    pub fn of_launches(job: Job, path: &str, script: &str, patience: Duration) -> Self {
        Self::of(job.with_file("/launch_steps.sh", include_str!("launch.sh")), path, script, patience)
    }

    /// The same with the functions of `state_steps.sh`, which compare the whole state.
    pub fn of_whole_state(job: Job, path: &str, script: &str, patience: Duration) -> Self {
        Self::of(job.with_file("/state_steps.sh", include_str!("state.sh")), path, script, patience)
    }

    /// All texts of `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == name).map(|(_, text)| text.as_str()).collect()
    }

    /// The only text of `name`.
    pub fn one(&self, name: &str) -> &str {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.0);
        all[0]
    }

    /// The warnings and errors of brisk's logs, except those that `is_expected`; the script must have called `say_complaints`.
    pub fn complaints(&self, is_expected: impl Fn(&str) -> bool) -> Vec<&str> {
        let kinds = self.all("complaint").len();
        assert_eq!(self.one("complaints") == "0", kinds == 0, "{self:#?}");
        self.all("complaint").into_iter().filter(|line| !is_expected(line)).collect()
    }

    /// The only text of `name`, as JSON.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.one(name)).unwrap()
    }

    /// Checks that one line of `name` contains all of `parts`, even if the action was retried.
    pub fn said(&self, name: &str, parts: &[&str]) {
        let log = self.all(name);
        let found = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(found, 1, "{parts:?} once: {log:#?}");
    }
}
