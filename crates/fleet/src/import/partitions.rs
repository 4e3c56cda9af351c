//! New rows in memory, by partition. Each table has a lock of its own, so that a CPU fills the columns of one while another fills
//! those of the next.

use std::collections::HashMap;
use std::slice::SliceIndex;
use std::sync::{Mutex, PoisonError};

use crate::export::Export;
use crate::parallel::on_all_cpus;
use crate::partition;
use crate::table::{Rows, Table};

/// What an almost empty partition takes in memory, in rows.
const PARTITION_ROWS: usize = 50;

/// Rows by table, day, build and model.
pub struct Partitions {
    /// The number of each build on a model.
    groups: HashMap<(String, String), usize>,
    tables: [Mutex<TableParts>; Table::ALL.len()],
}

/// The partitions of a table.
struct TableParts {
    table: Table,
    /// The place in `parts` of a group and a day.
    places: HashMap<(usize, i64), usize>,
    parts: Vec<Part>,
    rows: usize,
}

struct Part {
    group: usize,
    day: i64,
    rows: Rows,
}

impl Default for Partitions {
    fn default() -> Self {
        let parts = |table| TableParts { table, places: HashMap::new(), parts: Vec::new(), rows: 0 };
        Self { groups: HashMap::new(), tables: Table::ALL.map(|table| Mutex::new(parts(table))) }
    }
}

impl Partitions {
    /// Takes all rows of `exports`.
    pub fn add(&mut self, exports: &[Export<'_>]) {
        self.fill(exports, ..Table::OF_EXPORTS);
    }

    /// Takes all rows of files beside exports.
    pub fn add_documents(&mut self, documents: &[Export<'_>]) {
        self.fill(documents, Table::OF_EXPORTS..);
    }

    fn fill(
        &mut self,
        exports: &[Export<'_>],
        tables: impl SliceIndex<[Mutex<TableParts>], Output = [Mutex<TableParts>]>,
    ) {
        if exports.is_empty() {
            return;
        }
        let groups: Vec<Vec<usize>> = exports.iter().map(|export| self.groups(export)).collect();
        on_all_cpus(&self.tables[tables], |table| {
            let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
            for (export, groups) in exports.iter().zip(&groups) {
                table.add(export, groups);
            }
        });
    }

    /// How many rows take as much memory.
    pub fn size_rows(&mut self) -> usize {
        let tables = self.tables.iter_mut().map(|table| table.get_mut().unwrap_or_else(PoisonError::into_inner));
        tables.map(|table| table.rows + table.parts.len() * PARTITION_ROWS).sum()
    }

    /// Each partition's folder, table and rows, by folder.
    pub fn into_parts(self) -> Vec<(String, Table, Rows)> {
        let mut names = vec![(String::new(), String::new()); self.groups.len()];
        for (name, group) in self.groups {
            names[group] = name;
        }
        let mut all = Vec::new();
        for table in self.tables {
            let TableParts { table, parts, .. } = table.into_inner().unwrap_or_else(PoisonError::into_inner);
            all.extend(parts.into_iter().map(|Part { group, day, rows }| {
                let (build, model) = &names[group];
                (partition::folder(table.name(), day, build, model), table, rows)
            }));
        }
        all.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        all
    }

    /// The group of each of the export's systems.
    fn groups(&mut self, export: &Export<'_>) -> Vec<usize> {
        let model = partition::name(&export.header.model);
        let group = |build: &str| {
            let next = self.groups.len();
            *self.groups.entry((partition::name(build), model.clone())).or_insert(next)
        };
        export.systems.iter().map(|system| &*system.build).map(group).collect()
    }
}

impl TableParts {
    /// Takes the rows of this table.
    fn add(&mut self, export: &Export<'_>, groups: &[usize]) {
        let table = self.table;
        // Rows that follow each other are mostly of one day.
        let mut last = None;
        for row in export.rows.iter().filter(|row| Table::of(&row.fact) == table) {
            let (group, day) = (groups[row.system], partition::day(row.at_s));
            let place = match last {
                Some((known, place)) if known == (group, day) => place,
                _ => self.place(group, day),
            };
            last = Some(((group, day), place));
            self.parts[place].rows.push(export, row);
            self.rows += 1;
        }
    }

    fn place(&mut self, group: usize, day: i64) -> usize {
        let next = self.parts.len();
        let place = *self.places.entry((group, day)).or_insert(next);
        if place == next {
            self.parts.push(Part { group, day, rows: Rows::new(self.table) });
        }
        place
    }
}
