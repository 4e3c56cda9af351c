//! Converts a tape to the logs of a bootchart recording, as Android's init writes them (`header`, `proc_stat.log`,
//! `proc_ps.log`, `proc_diskstats.log`), and to `cpufreq.log` and `pressure.log` beside them.
//!
//! A log is timed blocks: a line with the time in hundredths of a second since boot, lines of data, an empty line.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};

use super::tape::{Row, RowChange, RowKind, Tape, TapeReader};
use brisk_sys::process::process_watch::MAX_GAP_SAMPLES;

/// Writes one log.
pub type WriteLog = fn(&Tape, &mut dyn Write) -> io::Result<()>;

/// The logs besides the header, by the names of their files.
pub const LOGS: [(&str, WriteLog); 5] = [
    ("proc_stat.log", cpus),
    ("proc_diskstats.log", disks),
    ("proc_ps.log", processes),
    ("cpufreq.log", frequencies),
    ("pressure.log", pressures),
];

fn cpus(tape: &Tape, out: &mut dyn Write) -> io::Result<()> {
    rows(tape, out, &|kind| kind == RowKind::Cpu, &|out, _, name, values| {
        write!(out, "{name}")?;
        values.iter().try_for_each(|ticks| write!(out, " {ticks}"))?;
        out.write_all(b" 0 0\n")
    })
}

fn disks(tape: &Tape, out: &mut dyn Write) -> io::Result<()> {
    rows(tape, out, &|kind| matches!(kind, RowKind::Disk { .. }), &|out, kind, name, values| {
        let RowKind::Disk { major, minor } = kind else { return Ok(()) };
        write!(out, "{major:4} {minor:7} {name}")?;
        values.iter().try_for_each(|counter| write!(out, " {counter}"))?;
        out.write_all(b"\n")
    })
}

fn frequencies(tape: &Tape, out: &mut dyn Write) -> io::Result<()> {
    rows(tape, out, &|kind| kind == RowKind::Frequency, &|out, _, name, values| match values {
        [khz, maximum_khz] => writeln!(out, "{name} {khz} {maximum_khz}"),
        _ => Ok(()),
    })
}

fn pressures(tape: &Tape, out: &mut dyn Write) -> io::Result<()> {
    rows(tape, out, &|kind| kind == RowKind::Pressure, &|out, _, name, values| match values {
        [some_us, full_us] => writeln!(out, "{name} {some_us} {full_us}"),
        _ => Ok(()),
    })
}

type WriteLine<'a> = &'a dyn Fn(&mut dyn Write, RowKind, &str, &[u64]) -> io::Result<()>;

/// A block per sample, with a line for each existing row of the wanted kind.
fn rows(tape: &Tape, out: &mut dyn Write, wanted: &dyn Fn(RowKind) -> bool, line: WriteLine<'_>) -> io::Result<()> {
    let mut reader = tape.reader();
    let mut present: Vec<Row> = Vec::new();
    while reader.advance() {
        for &change in reader.changes() {
            match change {
                RowChange::Put { row, .. } if !present.contains(&row) && wanted(tape.label(row).kind) => {
                    present.push(row);
                }
                RowChange::Put { .. } => {}
                RowChange::End { row } => present.retain(|&other| other != row),
            }
        }
        if present.is_empty() {
            continue;
        }
        writeln!(out, "{}", reader.time_ms() / 10)?;
        for &row in &present {
            let label = tape.label(row);
            line(out, label.kind, label.name(reader.sample()), reader.values(row))?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// A process's state at one sample.
#[derive(Debug, Clone, Copy)]
struct ProcessSample {
    state: u8,
    user_ticks: u64,
    system_ticks: u64,
}

impl ProcessSample {
    fn of(values: &[u64]) -> Self {
        let &[state, user_ticks, system_ticks] = values else {
            return Self { state: b'S', user_ticks: 0, system_ticks: 0 };
        };
        Self { state: state as u8, user_ticks, system_ticks }
    }

    /// Its state `samples` later, interpolated towards `later`, which was sampled `of` samples later.
    fn interpolate(self, later: Self, samples: u64, of: u64) -> Self {
        let between = |from: u64, to: u64| from + to.saturating_sub(from) * samples / of;
        let has_run = (self.user_ticks, self.system_ticks) != (later.user_ticks, later.system_ticks);
        Self {
            state: if has_run { later.state } else { self.state },
            user_ticks: between(self.user_ticks, later.user_ticks),
            system_ticks: between(self.system_ticks, later.system_ticks),
        }
    }
}

/// A block that may still be corrected.
struct Block {
    sample: u32,
    time_ms: u64,
    process_samples: BTreeMap<Row, ProcessSample>,
}

/// A quiet process is not sampled at every sample. Its CPU time since the last sample is spread evenly over the samples
/// between, so a block is written only when no later sample can correct it.
fn processes(tape: &Tape, out: &mut dyn Write) -> io::Result<()> {
    let mut reader = tape.reader();
    let mut present: BTreeMap<Row, ProcessSample> = BTreeMap::new();
    let mut blocks: VecDeque<Block> = VecDeque::new();
    while reader.advance() {
        for &change in reader.changes() {
            match change {
                RowChange::Put { row, gap } => record_sample(&reader, tape, row, gap, &mut present, &mut blocks),
                RowChange::End { row } => drop(present.remove(&row)),
            }
        }
        blocks.push_back(Block {
            sample: reader.sample(),
            time_ms: reader.time_ms(),
            process_samples: present.clone(),
        });
        if blocks.len() > MAX_GAP_SAMPLES as usize {
            write_block(tape, out, blocks.pop_front())?;
        }
    }
    blocks.into_iter().try_for_each(|block| write_block(tape, out, Some(block)))
}

fn record_sample(
    reader: &TapeReader<'_>,
    tape: &Tape,
    row: Row,
    gap: u32,
    present: &mut BTreeMap<Row, ProcessSample>,
    blocks: &mut VecDeque<Block>,
) {
    if !matches!(tape.label(row).kind, RowKind::Process { .. }) {
        return;
    }
    let now = ProcessSample::of(reader.values(row));
    if let Some(before) = present.insert(row, now) {
        // The block of the last sample is `gap` samples back; the blocks after it only repeat it.
        let (count, gap) = (blocks.len(), gap as usize);
        for ago in 1..gap.min(count + 1) {
            let corrected = before.interpolate(now, (gap - ago) as u64, gap as u64);
            blocks[count - ago].process_samples.insert(row, corrected);
        }
    }
}

fn write_block(tape: &Tape, out: &mut dyn Write, block: Option<Block>) -> io::Result<()> {
    let Some(Block { sample, time_ms, process_samples }) = block.filter(|block| !block.process_samples.is_empty())
    else {
        return Ok(());
    };
    writeln!(out, "{}", time_ms / 10)?;
    for (row, ProcessSample { state, user_ticks, system_ticks }) in process_samples {
        let label = tape.label(row);
        let RowKind::Process { pid, parent, start_ticks } = label.kind else { continue };
        let (name, state) = (label.name(sample), char::from(state));
        // The fields of /proc/PID/stat up to the start time; those that no chart reads are zero.
        writeln!(
            out,
            "{pid} ({name}) {state} {parent} 0 0 0 0 0 0 0 0 0 {user_ticks} {system_ticks} 0 0 0 0 0 0 {start_ticks}"
        )?;
    }
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(tape: &Tape, name: &str) -> String {
        let (_, write) = LOGS.into_iter().find(|(file, _)| *file == name).unwrap();
        let mut text = Vec::new();
        write(tape, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn constant_counters_are_repeated_and_end_with_their_row() {
        let mut tape = Tape::new(1 << 20);
        tape.begin(1000);
        let all = tape.row(RowKind::Cpu, "cpu", 8);
        let one = tape.row(RowKind::Cpu, "cpu1", 8);
        let disk = tape.row(RowKind::Disk { major: 259, minor: 0 }, "nvme0n1", 11);
        let frequency = tape.row(RowKind::Frequency, "cpu0", 2);
        let pressure = tape.row(RowKind::Pressure, "io", 2);
        tape.put(all, &[1, 2, 3, 4, 5, 6, 7, 8], 1);
        tape.put(one, &[1, 0, 0, 0, 0, 0, 0, 0], 1);
        tape.put(disk, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], 1);
        tape.put(frequency, &[408_000, 1_200_000], 1);
        tape.put(pressure, &[7, 5], 1);
        tape.begin(1040);
        tape.put(all, &[1, 2, 3, 8, 5, 6, 7, 8], 1);
        tape.end(one);
        assert_eq!(
            log(&tape, "proc_stat.log"),
            "100\ncpu 1 2 3 4 5 6 7 8 0 0\ncpu1 1 0 0 0 0 0 0 0 0 0\n\n104\ncpu 1 2 3 8 5 6 7 8 0 0\n\n"
        );
        let line = " 259       0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11\n";
        assert_eq!(log(&tape, "proc_diskstats.log"), format!("100\n{line}\n104\n{line}\n"));
        assert_eq!(log(&tape, "cpufreq.log"), "100\ncpu0 408000 1200000\n\n104\ncpu0 408000 1200000\n\n");
        assert_eq!(log(&tape, "pressure.log"), "100\nio 7 5\n\n104\nio 7 5\n\n");
        assert_eq!(log(&tape, "proc_ps.log"), "");
    }

    /// The states and times of process 7, one per block.
    fn seen(tape: &Tape) -> Vec<String> {
        let field = |line: &str, index: usize| line.split(' ').nth(index).unwrap().to_owned();
        let log = log(tape, "proc_ps.log");
        let lines = log.lines().filter(|line| line.starts_with("7 "));
        lines.map(|line| format!("{}{}", field(line, 2), field(line, 13))).collect()
    }

    // Verifies BOOT-1.
    #[test]
    fn cpu_time_between_two_samples_is_spread_evenly() {
        let mut tape = Tape::new(1 << 20);
        tape.begin(1000);
        let kind = RowKind::Process { pid: 7, parent: 1, start_ticks: 90 };
        let row = tape.row(kind, "quiet", 3);
        tape.put(row, &[u64::from(b'S'), 10, 0], 1);
        for sample in 1..=30 {
            tape.begin(1000 + sample * 40);
        }
        tape.put(row, &[u64::from(b'R'), 18, 0], 4);
        tape.begin(2240);
        tape.put(row, &[u64::from(b'S'), 19, 0], 1);
        tape.begin(2280);
        tape.end(row);
        let mut expected = vec!["S10"; 27];
        expected.extend(["R12", "R14", "R16", "R18", "S19"]);
        assert_eq!(seen(&tape), expected);
        assert!(
            log(&tape, "proc_ps.log").starts_with("100\n7 (quiet) S 1 0 0 0 0 0 0 0 0 0 10 0 0 0 0 0 0 0 90\n\n104\n")
        );
    }
}
