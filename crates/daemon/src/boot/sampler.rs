//! Samples everything that a boot chart shows, onto the tape.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use brisk_mechanism::boot::Tape;
use brisk_mechanism::boot::tape::{Row, RowKind};
use brisk_sys::cpu::cpu_times;
use brisk_sys::cpu::current_frequency::CurrentFrequencies;
use brisk_sys::io::disk_stats::{self, is_whole_disk};
use brisk_sys::memory::psi;
use brisk_sys::open_file::OpenFile;
use brisk_sys::process::process_watch::{ProcessChange, ProcessWatch};
use brisk_sys::{BootTime, Root};

/// How often missing files are searched for again: a cpufreq driver, for example, may be a module.
const SEARCH_PERIOD: Duration = Duration::from_secs(2);
const PRESSURES: [&str; 3] = ["cpu", "memory", "io"];

/// The open files, and their rows on the tape.
#[derive(Debug)]
pub struct Sampler {
    root: Root,
    tape: Tape,
    files: Files,
    frequencies: CurrentFrequencies,
    processes: Option<ProcessWatch>,
    cpu_rows: BTreeMap<Option<u32>, (Row, u32)>,
    /// `None` for a device that is not a whole disk.
    disk_rows: HashMap<Vec<u8>, Option<Row>>,
    frequency_rows: BTreeMap<u32, (Row, u32)>,
    pressure_rows: [Option<Row>; PRESSURES.len()],
    process_rows: HashMap<u32, Row>,
    /// The user, nice and system time of all CPUs, in clock ticks since boot.
    busy_ticks: Option<u64>,
    next_search: BootTime,
    buffer: Vec<u8>,
}

#[derive(Debug, Default)]
struct Files {
    stat: Option<OpenFile>,
    disks: Option<OpenFile>,
    pressures: [Option<OpenFile>; PRESSURES.len()],
}

impl Files {
    fn search(&mut self, root: &Root) {
        let search = |file: &mut Option<OpenFile>, path: &str| {
            if file.is_none() {
                *file = OpenFile::open(root, path).ok();
            }
        };
        search(&mut self.stat, "/proc/stat");
        search(&mut self.disks, "/proc/diskstats");
        for (file, name) in self.pressures.iter_mut().zip(PRESSURES) {
            search(file, &format!("/proc/pressure/{name}"));
        }
    }
}

impl Sampler {
    /// Samples the system below `root` onto a tape of at most `limit_bytes`.
    pub fn new(root: &Root, limit_bytes: usize) -> Self {
        Self {
            root: root.clone(),
            tape: Tape::new(limit_bytes),
            files: Files::default(),
            frequencies: CurrentFrequencies::find(root),
            processes: None,
            cpu_rows: BTreeMap::new(),
            disk_rows: HashMap::new(),
            frequency_rows: BTreeMap::new(),
            pressure_rows: [None; PRESSURES.len()],
            process_rows: HashMap::new(),
            busy_ticks: None,
            next_search: BootTime::default(),
            buffer: Vec::new(),
        }
    }

    /// The tape.
    pub fn tape(&self) -> &Tape {
        &self.tape
    }

    /// How often a process was deferred to the next sample.
    pub fn passed_over(&self) -> u64 {
        self.processes.as_ref().map_or(0, ProcessWatch::passed_over)
    }

    /// Takes a sample, without the files that cannot be read.
    pub fn sample(&mut self, now: BootTime) {
        if now >= self.next_search {
            self.next_search = now + SEARCH_PERIOD;
            self.files.search(&self.root);
            self.frequencies = CurrentFrequencies::find(&self.root);
            if self.processes.is_none() {
                self.processes = ProcessWatch::new(&self.root).ok();
            }
        }
        if !self.tape.begin(now.nanoseconds() / 1_000_000) {
            return;
        }
        self.sample_cpus();
        self.sample_disks();
        self.sample_frequencies();
        self.sample_pressures();
        self.sample_processes();
    }

    fn sample_cpus(&mut self) {
        let Some(Ok(text)) = self.files.stat.as_ref().map(|file| file.read(&mut self.buffer)) else { return };
        let (tape, rows, busy_ticks) = (&mut self.tape, &mut self.cpu_rows, &mut self.busy_ticks);
        let sample = tape.samples();
        cpu_times::parse(text, &mut |cpu, ticks| {
            if cpu.is_none() {
                let [user, nice, system, ..] = *ticks;
                *busy_ticks = Some(user.saturating_add(nice).saturating_add(system));
            }
            let (row, seen) = rows.entry(cpu).or_insert_with(|| {
                let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
                (tape.row(RowKind::Cpu, &name, ticks.len()), sample)
            });
            *seen = sample;
            tape.put(*row, ticks, 1);
        });
        end_unseen(tape, rows, sample);
    }

    fn sample_disks(&mut self) {
        let Some(Ok(text)) = self.files.disks.as_ref().map(|file| file.read(&mut self.buffer)) else { return };
        let (tape, rows, root) = (&mut self.tape, &mut self.disk_rows, &self.root);
        disk_stats::parse(text, &mut |device| {
            if !rows.contains_key(device.name) {
                let name = String::from_utf8_lossy(device.name);
                let kind = RowKind::Disk { major: device.major, minor: device.minor };
                let row = is_whole_disk(root, &name).then(|| tape.row(kind, &name, device.counters.len()));
                rows.insert(device.name.to_vec(), row);
            }
            if let Some(Some(row)) = rows.get(device.name) {
                tape.put(*row, &device.counters, 1);
            }
        });
    }

    fn sample_frequencies(&mut self) {
        let (tape, rows) = (&mut self.tape, &mut self.frequency_rows);
        let sample = tape.samples();
        self.frequencies.read(&mut |cpu, khz, maximum_khz| {
            let (row, seen) =
                rows.entry(cpu).or_insert_with(|| (tape.row(RowKind::Frequency, &format!("cpu{cpu}"), 2), sample));
            *seen = sample;
            tape.put(*row, &[khz, maximum_khz], 1);
        });
        end_unseen(tape, rows, sample);
    }

    fn sample_pressures(&mut self) {
        for (index, file) in self.files.pressures.iter().enumerate() {
            let Some(Ok(text)) = file.as_ref().map(|file| file.read(&mut self.buffer)) else { continue };
            let Some((some_us, full_us)) = psi::totals_us(text) else { continue };
            let row =
                self.pressure_rows[index].get_or_insert_with(|| self.tape.row(RowKind::Pressure, PRESSURES[index], 2));
            self.tape.put(*row, &[some_us, full_us], 1);
        }
    }

    fn sample_processes(&mut self) {
        let Some(processes) = &mut self.processes else { return };
        let (tape, rows) = (&mut self.tape, &mut self.process_rows);
        processes.sample(self.busy_ticks, &mut |seen| match seen {
            ProcessChange::Started { pid, parent, start_ticks, name } => {
                rows.insert(pid, tape.row(RowKind::Process { pid, parent, start_ticks }, name, 3));
            }
            ProcessChange::Renamed { pid, name } => {
                if let Some(&row) = rows.get(&pid) {
                    tape.rename(row, name);
                }
            }
            ProcessChange::Sampled { pid, state, user_ticks, system_ticks, samples } => {
                if let Some(&row) = rows.get(&pid) {
                    tape.put(row, &[state.into(), user_ticks, system_ticks], samples);
                }
            }
            ProcessChange::Ended { pid } => {
                if let Some(row) = rows.remove(&pid) {
                    tape.end(row);
                }
            }
        });
    }
}

/// Ends the rows that were not seen at `sample`, such as that of a CPU that went offline. It gets a new row when it is back.
fn end_unseen<Key: Ord + Copy>(tape: &mut Tape, rows: &mut BTreeMap<Key, (Row, u32)>, sample: u32) {
    rows.retain(|_, (row, seen)| {
        if *seen != sample {
            tape.end(*row);
        }
        *seen == sample
    });
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use brisk_mechanism::boot::logs::LOGS;

    fn write(root: &Root, file: &str, text: &str) {
        fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
        fs::write(root.path(file), text).unwrap();
    }

    #[test]
    fn records_present_files_and_those_that_appear_later() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        write(&root, "/proc/stat", "cpu  2 0 0 2 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0\nintr 5\n");
        write(&root, "/proc/diskstats", " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11\n 254 1 vda1 1 2 3 4 5 6 7 8 9 10 11\n");
        write(&root, "/proc/1/stat", "1 (init) S 0 0 0 0 -1 64 0 0 0 0 3 4 0 0 20 0 1 0 2 4096 5 0\n");
        fs::create_dir_all(root.path("/sys/block/vda")).unwrap();
        let mut sampler = Sampler::new(&root, 1 << 20);
        let at = |milliseconds| BootTime::from_milliseconds(milliseconds);
        sampler.sample(at(1000));
        write(&root, "/proc/pressure/io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=8\n");
        let policy = "/sys/devices/system/cpu/cpufreq/policy0";
        for (file, text) in [
            ("affected_cpus", "0 1"),
            ("scaling_governor", "ondemand"),
            ("scaling_cur_freq", "5"),
            ("cpuinfo_max_freq", "9"),
        ] {
            write(&root, &format!("{policy}/{file}"), text);
        }
        write(&root, "/proc/stat", "cpu  4 0 0 2 0 0 0 0\ncpu0 3 0 0 1 0 0 0 0\n");
        sampler.sample(at(3000));
        let logs: Vec<String> = LOGS
            .iter()
            .map(|(_, write)| {
                let mut text = Vec::new();
                write(sampler.tape(), &mut text).unwrap();
                String::from_utf8(text).unwrap()
            })
            .collect();
        let disk = " 254       0 vda 1 2 3 4 5 6 7 8 9 10 11\n";
        let init = "1 (init) S 0 0 0 0 0 0 0 0 0 0 3 4 0 0 0 0 0 0 2\n";
        let expected = [
            "100\ncpu 2 0 0 2 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\n\n\
             300\ncpu 4 0 0 2 0 0 0 0 0 0\ncpu0 3 0 0 1 0 0 0 0 0 0\n\n"
                .to_owned(),
            format!("100\n{disk}\n300\n{disk}\n"),
            format!("100\n{init}\n300\n{init}\n"),
            "300\ncpu0 5 9\ncpu1 5 9\n\n".to_owned(),
            "300\nio 8 0\n\n".to_owned(),
        ];
        assert_eq!(logs, expected);
    }
}
