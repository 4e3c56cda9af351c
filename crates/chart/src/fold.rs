//! Which processes get a row: those that did most and their ancestors. The rest is folded into group rows, by name below the
//! nearest ancestor with a row. So a chart of five thousand processes has as many rows as one of fifty.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::model::{Boot, Kind, Process, Span};

/// A row of the process tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Depth below the root.
    pub depth: u16,
    /// The processes that it shows.
    pub content: Content,
}

/// The processes of a row, as indices into the boot's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// One process.
    One(usize),
    /// Several processes of the same name.
    Same(Vec<usize>),
    /// Different processes that did little.
    Rest(Vec<usize>),
}

impl Row {
    /// The processes that it shows.
    pub fn members(&self) -> &[usize] {
        match &self.content {
            Content::One(process) => std::slice::from_ref(process),
            Content::Same(members) | Content::Rest(members) => members,
        }
    }
}

/// The time of a process that can lengthen a boot.
pub fn weight_ms(process: &Process) -> u64 {
    let initcall_ms = if process.kind == Kind::Initcall { process.span.length_ms() } else { 0 };
    u64::from(process.cpu_ms) + u64::from(process.disk_wait_ms) + u64::from(initcall_ms)
}

/// The rows of `boot`, at most about `most`, in the order of the tree: children by start, below their parent.
pub fn rows(boot: &Boot, most: usize) -> Vec<Row> {
    let processes = &boot.processes;
    let seen = |index: usize| is_in_recording(&processes[index], boot.span);
    let has_row = choose(boot, most);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); processes.len() + 1];
    let mut folded: Vec<Vec<usize>> = vec![Vec::new(); processes.len() + 1];
    let root = processes.len();
    // The nearest ancestor that has a row; parents come before their children.
    let mut nearest: Vec<usize> = Vec::with_capacity(processes.len());
    for (index, process) in processes.iter().enumerate() {
        let above = process.parent.map_or(root, |parent| if has_row[parent] { parent } else { nearest[parent] });
        nearest.push(above);
        if has_row[index] {
            children[above].push(index);
        } else if seen(index) {
            folded[above].push(index);
        }
    }
    let large = large_groups(processes, &folded, most / 3);
    let mut rows = Vec::new();
    // A stack instead of recursion: a chain of parents may be as long as a log.
    let mut stack: Vec<(usize, u16)> = vec![(root, 0)];
    while let Some((parent, depth)) = stack.pop() {
        if parent != root {
            rows.push(Row { depth: depth - 1, content: Content::One(parent) });
        }
        rows.extend(folded_rows(processes, &folded[parent], &large, parent, depth));
        stack.extend(children[parent].iter().rev().map(|&child| (child, depth.saturating_add(1))));
    }
    rows
}

/// True when any of it lies within the recording.
fn is_in_recording(process: &Process, span: Span) -> bool {
    process.span.end_ms >= span.start_ms && process.span.start_ms <= span.end_ms
}

/// Chooses the processes with a row of their own: the heaviest, and their ancestors. Of similar processes (the same names up to
/// the root, such as a daemon's workers) only `MAX_SIMILAR` get one, unless they are heavy.
fn choose(boot: &Boot, most: usize) -> Vec<bool> {
    let processes = &boot.processes;
    let mut order: Vec<usize> =
        (0..processes.len()).filter(|&index| is_in_recording(&processes[index], boot.span)).collect();
    order.sort_by_key(|&index| (std::cmp::Reverse(weight_ms(&processes[index])), index));
    let all_fit = order.len() <= most / 2;
    let heavy_ms = u64::from(boot.span.length_ms()) / 25;
    let lineage_hashes = lineage_hashes(processes);
    let mut shown: HashMap<u64, usize> = HashMap::new();
    let mut has_row = vec![false; processes.len()];
    let mut left = most * 2 / 3;
    for &index in &order {
        let weight = weight_ms(&processes[index]);
        let similar_count = shown.entry(lineage_hashes[index]).or_default();
        let is_one_of_many = *similar_count >= MAX_SIMILAR && weight < heavy_ms;
        let is_small = weight < least_weight_ms(processes[index].kind).max(u64::from(boot.span.length_ms()) / 2000);
        if !all_fit && (is_small || is_one_of_many) {
            continue;
        }
        *similar_count += 1;
        let ancestors = std::iter::successors(Some(index), |&index| processes[index].parent);
        let lineage: Vec<usize> = ancestors.take_while(|&index| !has_row[index]).take(left + 1).collect();
        if lineage.len() <= left {
            left -= lineage.len();
            lineage.into_iter().for_each(|index| has_row[index] = true);
        }
    }
    has_row
}

/// How many similar processes get a row each.
const MAX_SIMILAR: usize = 3;

/// For each process a hash of its name and those of its ancestors.
fn lineage_hashes(processes: &[Process]) -> Vec<u64> {
    let mut lineage_hashes: Vec<u64> = Vec::with_capacity(processes.len());
    for process in processes {
        let mut hasher = DefaultHasher::new();
        (process.parent.map(|parent| lineage_hashes[parent]), &process.name).hash(&mut hasher);
        lineage_hashes.push(hasher.finish());
    }
    lineage_hashes
}

/// A process below this weight is folded, unless all processes fit.
fn least_weight_ms(kind: Kind) -> u64 {
    match kind {
        Kind::Process => 10,
        Kind::KernelThread => 50,
        Kind::Initcall => 20,
    }
}

/// Groups of one name below one row that are heavy enough for a row of their own, by parent and name.
fn large_groups<'a>(processes: &'a [Process], folded: &[Vec<usize>], most: usize) -> HashMap<(usize, &'a str), u64> {
    let mut groups: HashMap<(usize, &str), (u64, u32)> = HashMap::new();
    for (parent, members) in folded.iter().enumerate() {
        for &member in members {
            let (weight, count) = groups.entry((parent, &processes[member].name)).or_default();
            *weight += weight_ms(&processes[member]);
            *count += 1;
        }
    }
    let mut large: Vec<((usize, &str), u64)> = groups
        .into_iter()
        .filter(|(_, (weight, count))| *count > 1 && *weight >= 20)
        .map(|(key, (weight, _))| (key, weight))
        .collect();
    large.sort_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
    large.truncate(most);
    large.into_iter().collect()
}

/// The rows of what is folded below `parent`: groups of one name by weight, then the rest.
fn folded_rows(
    processes: &[Process],
    members: &[usize],
    large: &HashMap<(usize, &str), u64>,
    parent: usize,
    depth: u16,
) -> Vec<Row> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut rest: HashMap<Kind, Vec<usize>> = HashMap::new();
    for &member in members {
        let process = &processes[member];
        let name = process.name.as_str();
        if !large.contains_key(&(parent, name)) {
            rest.entry(process.kind).or_default().push(member);
            continue;
        }
        let place = *places.entry(name).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(member);
    }
    let row = |content| Row { depth, content };
    let mut rows: Vec<Row> = groups.into_iter().map(|(_, members)| row(Content::Same(members))).collect();
    for kind in [Kind::Process, Kind::KernelThread, Kind::Initcall] {
        match rest.remove(&kind) {
            Some(members) if members.len() == 1 => rows.push(row(Content::One(members[0]))),
            Some(members) => rows.push(row(Content::Rest(members))),
            None => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, parent: Option<usize>, cpu_ms: u32) -> Process {
        Process {
            pid: 1,
            parent,
            name: name.to_owned(),
            command: None,
            kind: Kind::Process,
            span: Span { start_ms: 0, end_ms: 10 },
            cpu_ms,
            disk_wait_ms: 0,
            threads: 1,
            activity: Vec::new(),
        }
    }

    fn drawn(boot: &Boot, most: usize) -> Vec<String> {
        let text = |row: &Row| {
            let name = &boot.processes[row.members()[0]].name;
            let what = match &row.content {
                Content::One(_) => name.clone(),
                Content::Same(members) => format!("{name} x {}", members.len()),
                Content::Rest(members) => format!("{} others", members.len()),
            };
            format!("{}{what}", "  ".repeat(usize::from(row.depth)))
        };
        rows(boot, most).iter().map(text).collect()
    }

    #[test]
    fn the_busy_and_their_ancestors_are_shown_the_rest_is_folded() {
        let mut boot = Boot { span: Span { start_ms: 0, end_ms: 100 }, ..Boot::default() };
        boot.processes = vec![process("init", None, 30), process("sh", Some(0), 0), process("server", Some(1), 900)];
        for index in 0..40 {
            boot.processes.push(process(if index % 2 == 0 { "modprobe" } else { "sed" }, Some(1), index % 2 * 2 + 1));
        }
        boot.processes.push(process("once", Some(0), 0));
        boot.processes.push(process("twice", Some(1), 0));
        boot.processes.push(Process { span: Span { start_ms: 200, end_ms: 300 }, ..process("late", Some(0), 99) });
        let expected = ["init", "  once", "  sh", "    modprobe x 20", "    sed x 20", "    twice", "    server"];
        assert_eq!(drawn(&boot, 12), expected);
    }

    #[test]
    fn when_all_fit_all_are_shown() {
        let mut boot = Boot { span: Span { start_ms: 0, end_ms: 100 }, ..Boot::default() };
        boot.processes = vec![process("init", None, 0), process("a", Some(0), 0), process("b", Some(0), 0)];
        assert_eq!(drawn(&boot, 12), ["init", "  a", "  b"]);
    }

    #[test]
    fn similar_workers_are_folded() {
        let mut boot = Boot { span: Span { start_ms: 0, end_ms: 10_000 }, ..Boot::default() };
        boot.processes = vec![process("init", None, 30)];
        for index in 0..20 {
            boot.processes.push(process("udevd", Some(0), 0));
            boot.processes.push(process("modprobe", Some(1 + 2 * index), 50 + index as u32));
        }
        let rows = drawn(&boot, 60);
        assert_eq!(rows[1], "  modprobe x 17", "{rows:?}");
        assert_eq!(rows.iter().filter(|row| row.ends_with("modprobe")).count(), 3);
    }

    #[test]
    fn every_process_is_in_one_row_and_rows_are_bounded() {
        let mut random = brisk_base::random::Random::new(5);
        let mut boot = Boot { span: Span { start_ms: 0, end_ms: 100 }, ..Boot::default() };
        for index in 0..3000usize {
            let parent = (index > 0).then(|| if index % 3 == 0 { index - 1 } else { random.below(index) });
            let name = format!("name{}", random.below(40));
            boot.processes.push(process(&name, parent, random.below(100) as u32));
        }
        let rows = rows(&boot, 60);
        let mut members: Vec<usize> = rows.iter().flat_map(|row| row.members().to_vec()).collect();
        members.sort_unstable();
        assert_eq!(members, (0..3000).collect::<Vec<_>>());
        assert!(rows.len() <= 150, "{}", rows.len());
    }

    #[test]
    fn a_chain_as_long_as_a_log_overflows_no_stack() {
        let mut boot = Boot { span: Span { start_ms: 0, end_ms: 100 }, ..Boot::default() };
        boot.processes = (0..100_000).map(|index: usize| process("sh", index.checked_sub(1), 0)).collect();
        assert!(rows(&boot, 60).len() <= 3);
    }
}
