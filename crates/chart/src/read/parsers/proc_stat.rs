//! `proc_stat.log`: periodic samples of /proc/stat (proc(5)): ticks of all CPUs together and of each.

use std::io::Read;

use crate::model::{Core, CpuSample, OFFLINE, Span};
use crate::read::blocks::{self, Item};
use crate::read::lines::{Fields, number};
use crate::read::{Notes, ReadError};

/// The CPU time of a recording.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct CpuLog {
    /// All CPUs together.
    pub samples: Vec<CpuSample>,
    /// Each CPU, with a value for each of `samples`.
    pub cores: Vec<Core>,
    /// When the kernel started, in seconds since 1970.
    pub boot_time_s: Option<u64>,
}

/// Ticks of one `cpu` line: user and nice; system and interrupts; I/O wait; everything else (idle, stolen).
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
    io_wait: u64,
    idle: u64,
}

/// Shares of an interval.
struct Shares {
    user: f32,
    system: f32,
    io_wait: f32,
}

impl Ticks {
    /// user nice system idle [iowait irq softirq steal]; guest time is part of user. Linux 2.4 ends with idle.
    fn of(fields: &mut Fields<'_>) -> Option<Self> {
        let mut next = [0; 8];
        for (place, value) in next.iter_mut().enumerate() {
            match fields.next() {
                Some(field) => *value = number(field)?,
                None if place >= 4 => break,
                None => return None,
            }
        }
        let [user, nice, system, idle, io_wait, irq, softirq, steal] = next;
        let add = u64::saturating_add;
        Some(Self { user: add(user, nice), system: add(system, add(irq, softirq)), io_wait, idle: add(idle, steal) })
    }

    /// Counters may stand still, and I/O wait may decrease: both count as no time.
    fn since(&self, before: &Self) -> Shares {
        let spent = |now: u64, before: u64| now.saturating_sub(before) as f32;
        let (user, system) = (spent(self.user, before.user), spent(self.system, before.system));
        let (io_wait, idle) = (spent(self.io_wait, before.io_wait), spent(self.idle, before.idle));
        let sum = (user + system + io_wait + idle).max(1.0);
        Shares { user: user / sum, system: system / sum, io_wait: io_wait / sum }
    }
}

/// What is known of one CPU so far.
struct CoreState {
    core: Core,
    before: Option<Ticks>,
    seen: bool,
}

struct Reader {
    log: CpuLog,
    total: Option<Ticks>,
    total_before: Option<Ticks>,
    cores: Vec<CoreState>,
    time_ms: Option<u32>,
    before_ms: Option<u32>,
    has_sample: bool,
}

/// Reads the log.
///
/// # Errors
/// Read errors, and too many samples or CPUs.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<CpuLog, ReadError> {
    let mut reader = Reader {
        log: CpuLog::default(),
        total: None,
        total_before: None,
        cores: Vec::new(),
        time_ms: None,
        before_ms: None,
        has_sample: false,
    };
    let (limits, file) = (notes.limits, notes.file);
    let too_many = |what, limit| Err(ReadError::too_many(file, what, limit));
    blocks::each(input, notes, &mut |item| {
        let time_ms = match item {
            Item::Time(time_ms) => time_ms,
            Item::Line(line) => return Ok(reader.line(line, limits.cores)),
        };
        reader.end_block();
        (reader.before_ms, reader.time_ms) = (reader.time_ms, Some(time_ms));
        let samples = reader.log.samples.len();
        if samples >= limits.samples {
            return too_many("samples", limits.samples);
        }
        if samples * reader.cores.len() > limits.core_samples {
            return too_many("samples of CPUs", limits.core_samples);
        }
        Ok(true)
    })?;
    reader.end_block();
    reader.log.cores = reader.cores.into_iter().map(|state| state.core).collect();
    reader.log.cores.sort_by_key(|core| core.number);
    Ok(reader.log)
}

impl Reader {
    fn line(&mut self, line: &[u8], most_cores: usize) -> bool {
        let Some(rest) = line.strip_prefix(b"cpu") else {
            if let Some(rest) = line.strip_prefix(b"btime ") {
                self.log.boot_time_s = number(rest.trim_ascii());
            }
            return true;
        };
        let mut fields = Fields::of(rest);
        if rest.first() == Some(&b' ') {
            let Some(ticks) = Ticks::of(&mut fields) else { return false };
            self.total = Some(ticks);
            self.begin_sample();
            return true;
        }
        let core = fields.next().and_then(number).and_then(|core| u32::try_from(core).ok());
        let (Some(number), Some(ticks)) = (core, Ticks::of(&mut fields)) else { return false };
        if number as usize >= most_cores {
            return false;
        }
        self.core(number, ticks);
        true
    }

    /// An interval needs totals at both ends.
    fn begin_sample(&mut self) {
        let (Some(total), Some(before)) = (self.total, self.total_before) else { return };
        let (Some(start_ms), Some(end_ms)) = (self.before_ms, self.time_ms) else { return };
        if self.has_sample {
            return;
        }
        let Shares { user, system, io_wait } = total.since(&before);
        self.log.samples.push(CpuSample { span: Span::new(start_ms, end_ms), user, system, io_wait });
        self.has_sample = true;
    }

    fn core(&mut self, number: u32, ticks: Ticks) {
        // CPUs are listed in order, so the index is nearly always the number.
        let guess = self.cores.get(number as usize).filter(|state| state.core.number == number);
        let place = match guess {
            Some(_) => Some(number as usize),
            None => self.cores.iter().position(|state| state.core.number == number),
        };
        let place = place.unwrap_or_else(|| {
            self.cores.push(CoreState { core: Core { number, ..Core::default() }, before: None, seen: false });
            self.cores.len() - 1
        });
        let state = &mut self.cores[place];
        if let (Some(before), true, false) = (state.before, self.has_sample, state.seen) {
            let shares = ticks.since(&before);
            let percent = |share: f32| (share * 100.0).round() as u8;
            state.core.busy.resize(self.log.samples.len() - 1, OFFLINE);
            state.core.io_wait.resize(self.log.samples.len() - 1, 0);
            state.core.busy.push(percent(shares.user + shares.system).min(100));
            state.core.io_wait.push(percent(shares.io_wait).min(100));
        }
        state.before = Some(ticks);
        state.seen = true;
    }

    fn end_block(&mut self) {
        self.total_before = self.total.take();
        self.has_sample = false;
        let samples = self.log.samples.len();
        for state in &mut self.cores {
            state.core.busy.resize(samples, OFFLINE);
            state.core.io_wait.resize(samples, 0);
            // A CPU that was offline starts again without a previous sample.
            if !std::mem::take(&mut state.seen) {
                state.before = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::Limits;

    fn parsed(text: &str) -> (CpuLog, Vec<String>) {
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let log = parse(text.as_bytes(), &mut Notes::new("proc_stat.log", &mut omissions, &limits)).unwrap();
        (log, omissions.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn shares_come_from_the_differences() {
        let (log, omissions) = parsed(
            "100\ncpu  10 0 10 80 0 0 0 0\ncpu0 5 0 5 40 0 0 0 0\ncpu1 5 0 5 40 0 0 0 0\nbtime 77\n\n\
             120\ncpu  30 0 16 90 4 0 0 0\ncpu0 25 0 5 40 0 0 0 0\ncpu1 5 0 11 50 4 0 0 0\nbtime 77\n\n",
        );
        assert_eq!(omissions, Vec::<String>::new());
        assert_eq!(log.boot_time_s, Some(77));
        let [sample] = log.samples[..] else { panic!("{:?}", log.samples) };
        assert_eq!(sample.span, Span { start_ms: 1000, end_ms: 1200 });
        assert_eq!((sample.user, sample.system, sample.io_wait), (0.5, 0.15, 0.1));
        assert_eq!(log.cores.iter().map(|core| core.busy[0]).collect::<Vec<_>>(), [100, 30]);
        assert_eq!(log.cores[1].io_wait, [20]);
    }

    #[test]
    fn cpus_may_go_offline_and_counters_may_decrease() {
        let (log, omissions) = parsed(
            "1\ncpu 0 0 0 0 9\ncpu0 0 0 0 0 0\n\n2\ncpu 1 0 0 0 5\ncpu0 1 0 0 0 0\ncpu1 0 0 0 0\n\n\
             3\ncpu 2 0 0 0 5\ncpu1 1 0 0 0\n\n4\ncpu x 0 0\ncpu0 3 0 0 0\n\n5\ncpu 4 0 0 4 5\ncpu0 4 0 0 1\n",
        );
        assert_eq!(omissions, ["proc_stat.log:15: a torn or unknown line is left out"]);
        let busy: Vec<f32> = log.samples.iter().map(CpuSample::busy).collect();
        assert_eq!(busy, [1.0, 1.0], "the block without totals and the one after it give no interval");
        assert_eq!(log.cores[0].busy, [100, OFFLINE]);
        assert_eq!(log.cores[1].busy, [OFFLINE, 100]);
    }

    #[test]
    fn a_log_without_cpus_has_no_samples() {
        assert_eq!(parsed("1\nctxt 5\n\n2\nctxt 6\n").0, CpuLog::default());
    }
}
