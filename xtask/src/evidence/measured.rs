//! The files of docs/evidence.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
pub use brisk::report::evidence::{Measured, SCHEMA};

/// Relative to the repository.
pub const FOLDER: &str = "docs/evidence";

/// Every file of docs/evidence, by the experiment's name.
pub fn read_all(repository: &Path) -> anyhow::Result<BTreeMap<String, Measured>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(repository.join(FOLDER)).with_context(|| format!("cannot read {FOLDER}"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let place = || path.display().to_string();
        let measured: Measured =
            serde_json::from_str(&fs::read_to_string(&path).with_context(place)?).with_context(place)?;
        ensure!(measured.schema == SCHEMA, "{}: schema {}, not {SCHEMA}", place(), measured.schema);
        ensure!(path.file_stem().is_some_and(|stem| stem == &*measured.experiment), "{}: wrong file name", place());
        all.insert(measured.experiment.clone(), measured);
    }
    Ok(all)
}
