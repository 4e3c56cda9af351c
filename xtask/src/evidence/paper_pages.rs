//! The pages of the book about the papers, from papers/ and docs/evidence.

use std::path::Path;

use brisk::papers::paper::Paper;
use brisk::papers::results::Results;
use brisk::papers::{built_in, markdown};

use super::measured;

/// Each page's path in the repository, and its text.
pub fn pages(repository: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let mut results = Results::default();
    measured::read_all(repository)?.into_values().for_each(|measured| results.add_evidence(measured));
    let papers = built_in::select(&[])?;
    let page = |paper: &Paper| (format!("docs/papers/{}.md", paper.name), markdown::page(paper, &results));
    Ok(papers.iter().map(page).collect())
}
