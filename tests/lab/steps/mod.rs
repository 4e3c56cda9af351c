//! Scripts that do one thing after another in a guest, and what they say of each.

use std::time::Duration;

use brisk::lab::Job;
use serde_json::Value;

use super::{results, run};

/// What a script said: lines "NAME: TEXT".
#[derive(Debug)]
pub struct Report(Vec<(String, String)>);

impl Report {
    /// Runs `job`, whose command is a script, with `script` as the file `path` and the functions of steps.sh beside it.
    pub fn of(mut job: Job, path: &str, script: &str, patience: Duration) -> Self {
        job.busybox = true;
        // Each step waits for what it has caused, which takes its time on a busy host.
        job.timeout = patience;
        let job = job.with_file(path, script).with_file("/steps.sh", include_str!("steps.sh"));
        let (outcome, lines) = run(&job);
        let report = Self::told(&results(&lines));
        assert_eq!(outcome.unwrap().status, 0, "{report:#?}\n{lines:#?}");
        report
    }

    /// What `lines` say.
    pub fn told(lines: &[&str]) -> Self {
        let said = lines.iter().filter_map(|line| line.split_once(": "));
        Self(said.map(|(name, text)| (name.to_owned(), text.to_owned())).collect())
    }

    /// The same with the functions of launch_steps.sh beside it, too.
    pub fn of_launches(job: Job, path: &str, script: &str, patience: Duration) -> Self {
        Self::of(job.with_file("/launch_steps.sh", include_str!("launch.sh")), path, script, patience)
    }

    /// The same with the functions of `state_steps.sh` beside it: the whole state is compared.
    pub fn of_whole_state(job: Job, path: &str, script: &str, patience: Duration) -> Self {
        Self::of(job.with_file("/state_steps.sh", include_str!("state.sh")), path, script, patience)
    }

    /// All that was said of `name`.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(of, _)| of == name).map(|(_, text)| text.as_str()).collect()
    }

    /// What was said of `name`, once.
    pub fn one(&self, name: &str) -> &str {
        let all = self.all(name);
        assert_eq!(all.len(), 1, "{name}: {:#?}", self.0);
        all[0]
    }

    /// What brisk's logs warn of and call errors, but for what `is_expected`; the script must have said it by `say_complaints`.
    pub fn complaints(&self, is_expected: impl Fn(&str) -> bool) -> Vec<&str> {
        let kinds = self.all("complaint").len();
        assert_eq!(self.one("complaints") == "0", kinds == 0, "{self:#?}");
        self.all("complaint").into_iter().filter(|line| !is_expected(line)).collect()
    }

    /// The same as JSON.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.one(name)).unwrap()
    }

    /// The line of `name` that holds all of `parts`: one, however often it was tried again.
    pub fn said(&self, name: &str, parts: &[&str]) {
        let log = self.all(name);
        let found = log.iter().filter(|line| parts.iter().all(|part| line.contains(part))).count();
        assert_eq!(found, 1, "{parts:?} once: {log:#?}");
    }
}
