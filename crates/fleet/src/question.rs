//! The questions: SQL that DuckDB and Spark understand alike, over a view for each table and one of Student's quantiles.

use std::fmt::Write as _;
use std::path::Path;

use arrow_schema::DataType;

use crate::table::Table;

/// A question as a file of `questions/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The file's name without its ending.
    pub name: &'static str,
    /// Its text: comments that say what it asks and how, and one statement.
    pub sql: &'static str,
}

/// All of them, in the order of the report.
pub const ALL: [Question; 6] = [
    Question { name: "regressions", sql: include_str!("../../../questions/regressions.sql") },
    Question { name: "boots", sql: include_str!("../../../questions/boots.sql") },
    Question { name: "launch_loss", sql: include_str!("../../../questions/launch_loss.sql") },
    Question { name: "kills", sql: include_str!("../../../questions/kills.sql") },
    Question { name: "switched_on", sql: include_str!("../../../questions/switched_on.sql") },
    Question { name: "claims", sql: include_str!("../../../questions/claims.sql") },
];

/// An engine for which a script is written. Only what opens the files differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    DuckDb,
    Spark,
}

/// What begins a statement that makes a view.
const CREATE: &str = "CREATE OR REPLACE TEMPORARY VIEW";

/// The quantiles of 95 % intervals by degrees of freedom (Abramowitz and Stegun, 26.7.5). From 10,000 on, questions use the last one.
const STUDENT: &str = "SELECT freedom, 1.959964e0 + 2.372271e0 / freedom + 2.822496e0 / power(freedom, 2) \
     + 2.555852e0 / power(freedom, 3) + 1.589534e0 / power(freedom, 4) AS quantile FROM range(2, 10001) AS numbers(freedom)";

impl Question {
    /// The question in words.
    pub fn title(self) -> &'static str {
        self.sql.lines().next().unwrap_or_default().trim_start_matches("-- ")
    }

    /// How it is answered.
    pub fn method(self) -> String {
        let comments = self.sql.lines().skip(1).map_while(|line| line.strip_prefix("--"));
        comments.map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// The question called `name`.
pub fn find(name: &str) -> Option<Question> {
    ALL.into_iter().find(|question| question.name == name)
}

/// Statements that make the views of the data set `folder`, each ended by a semicolon. `prefix` is what leads to the folder from where
/// the engine runs: empty, or a path that ends with `/`. The views leave out the rows of the devices `doubted`.
pub fn views(engine: Engine, folder: &Path, prefix: &str, doubted: &[i64]) -> String {
    let mut script = String::new();
    if engine == Engine::Spark {
        // Builds and models that look like numbers are texts as well.
        script += "SET spark.sql.sources.partitionColumnTypeInference.enabled=false;\n";
    }
    let hashes: Vec<String> = doubted.iter().map(i64::to_string).collect();
    let but = if hashes.is_empty() { String::new() } else { format!(" WHERE device NOT IN ({})", hashes.join(", ")) };
    for table in Table::ALL {
        let name = table.name();
        let place = format!("{prefix}{name}").replace('\'', "''");
        let source = match engine {
            _ if !folder.join(name).is_dir() => format!("AS {}", nothing(table)),
            Engine::DuckDb => format!(
                "AS SELECT * FROM read_parquet('{place}/*/*/*/*.parquet', hive_partitioning = true, hive_types_autocast = false){but}"
            ),
            Engine::Spark if but.is_empty() => format!("USING parquet OPTIONS (path '{place}')"),
            Engine::Spark => {
                let all = format!("all_{name}");
                let _ = writeln!(script, "{CREATE} {all} USING parquet OPTIONS (path '{place}');");
                format!("AS SELECT * FROM {all}{but}")
            }
        };
        // Writing to a String cannot fail.
        let _ = writeln!(script, "{CREATE} {name} {source};");
    }
    script + CREATE + " student AS " + STUDENT + ";\n"
}

/// A table without rows, where no device has sent any.
fn nothing(table: Table) -> String {
    let schema = table.schema();
    let own = schema.fields().iter().map(|field| (field.name().as_str(), sql_type(field.data_type())));
    let columns = own.chain(["date", "build", "model"].map(|name| (name, "STRING")));
    let columns: Vec<String> = columns.map(|(name, kind)| format!("CAST(NULL AS {kind}) AS {name}")).collect();
    format!("SELECT {} WHERE 1 = 0", columns.join(", "))
}

fn sql_type(data: &DataType) -> &'static str {
    match data {
        DataType::Int64 => "BIGINT",
        DataType::Float64 => "DOUBLE",
        DataType::Boolean => "BOOLEAN",
        _ => "STRING",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_says_what_it_asks_and_is_one_statement() {
        for question in ALL {
            assert!(question.title().ends_with('?'), "{}", question.name);
            assert!(question.method().len() > 80 && !question.method().contains("--"), "{}", question.method());
            assert!(!question.sql.contains(';'), "{}: the script adds the semicolon", question.name);
            assert_eq!(find(question.name), Some(question));
        }
    }

    #[test]
    fn a_path_is_quoted_and_a_missing_table_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("boots")).unwrap();
        let script = views(Engine::Spark, folder.path(), "it's/", &[]);
        assert!(script.contains("VIEW boots USING parquet OPTIONS (path 'it''s/boots')"), "{script}");
        assert!(script.contains("VIEW kills AS SELECT CAST(NULL AS BIGINT) AS device, "), "{script}");
        let script = views(Engine::DuckDb, folder.path(), "", &[]);
        assert!(script.contains("read_parquet('boots/*/*/*/*.parquet', hive_partitioning = true"), "{script}");
        assert!(!script.contains("NOT IN"), "{script}");
    }

    // Verifies FLEET-3.
    #[test]
    fn the_views_leave_doubted_devices_out() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("boots")).unwrap();
        for (engine, rows) in [(Engine::DuckDb, "read_parquet('boots/"), (Engine::Spark, "all_boots")] {
            let script = views(engine, folder.path(), "", &[-7, 9]);
            let begin = format!("{CREATE} boots AS SELECT * FROM {rows}");
            let view = script.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("{script}"));
            assert!(view.ends_with(" WHERE device NOT IN (-7, 9);"), "{view}");
        }
    }
}
