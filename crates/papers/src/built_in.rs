//! The papers that come with brisk, in the order of the bibliography.

use crate::paper::{Paper, PaperError};

const PAPERS: [(&str, &str); 5] = [
    ("boot", include_str!("../../../papers/boot.toml")),
    ("launch", include_str!("../../../papers/launch.toml")),
    ("placement", include_str!("../../../papers/placement.toml")),
    ("memory", include_str!("../../../papers/memory.toml")),
    ("lookup", include_str!("../../../papers/lookup.toml")),
];

/// Why a selection of papers is refused.
#[derive(Debug, thiserror::Error)]
pub enum SelectionError {
    /// No paper has this name.
    #[error("there is no paper {name:?}; there are {}", PAPERS.map(|(name, _)| name).join(", "))]
    Unknown {
        /// The name that was asked for.
        name: String,
    },
    /// A paper's file is wrong, which the tests rule out.
    #[error(transparent)]
    Paper(#[from] PaperError),
}

/// The papers that `names` select, without duplicates; all without `names`.
///
/// # Errors
/// When no paper has one of the names.
pub fn select(names: &[String]) -> Result<Vec<Paper>, SelectionError> {
    if let Some(name) = names.iter().find(|name| PAPERS.iter().all(|(known, _)| known != name)) {
        return Err(SelectionError::Unknown { name: name.clone() });
    }
    let is_chosen = |name: &str| names.is_empty() || names.iter().any(|chosen| chosen == name);
    let chosen = PAPERS.iter().filter(|(name, _)| is_chosen(name));
    chosen.map(|(name, text)| Ok(Paper::parse(&format!("papers/{name}.toml"), text)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::Standing;

    fn names(asked: &[&str]) -> Result<Vec<String>, String> {
        let asked: Vec<String> = asked.iter().map(|&name| name.to_owned()).collect();
        let papers = select(&asked).map_err(|error| error.to_string())?;
        Ok(papers.into_iter().map(|paper| paper.name).collect())
    }

    #[test]
    fn papers_are_selected_by_name_in_their_order() {
        assert_eq!(names(&[]).unwrap(), ["boot", "launch", "placement", "memory", "lookup"]);
        assert_eq!(names(&["lookup", "boot", "lookup"]).unwrap(), ["boot", "lookup"]);
        let error = names(&["boot", "bot"]).unwrap_err();
        assert_eq!(error, "there is no paper \"bot\"; there are boot, launch, placement, memory, lookup");
    }

    /// The numbers of the tables and figures that each paper prints, from the papers themselves.
    // Verifies PROVE-8.
    #[test]
    fn every_table_and_figure_of_the_papers_has_a_part() {
        for (name, tables, figures) in [
            ("boot", "1 2 3", "1 2 3 4 5 6 7 8 9"),
            ("launch", "1 2 3", "1 2 3 4"),
            ("placement", "4 6-1 6-2", "2 3 4-1 4-2 4-3 4-4 6-1 6-2"),
            ("memory", "1 2", "1 2 3 4 5"),
            ("lookup", "1", "1 2 3 4 5"),
        ] {
            let paper = select(&[name.to_owned()]).unwrap().remove(0);
            let tables = tables.split(' ').map(|number| format!("Table {number}"));
            for label in tables.chain(figures.split(' ').map(|number| format!("Figure {number}"))) {
                let found = paper.parts.iter().filter(|part| part.label == label).count();
                assert_eq!(found, 1, "{name}: {label}");
            }
        }
    }

    #[test]
    fn rows_that_are_not_measured_give_a_reason() {
        let papers = select(&[]).unwrap();
        let rows: Vec<_> = papers.iter().flat_map(|paper| &paper.parts).flat_map(|part| &part.rows).collect();
        assert!(rows.len() > 70, "{}", rows.len());
        for row in rows {
            match row.standing() {
                Standing::Measured(_) => {}
                Standing::CannotHere(reason) | Standing::NotYet(reason) | Standing::InTree(reason) => {
                    assert!(reason.len() > 12, "{}: {reason:?}", row.what.value);
                }
            }
        }
    }
}
