//! `proc_ps.log`: periodic samples of /proc/PID/stat of every process (proc(5)). Android's init writes the whole command name
//! between the brackets.

use std::io::Read;

use memchr::{memchr, memrchr};

use super::process_log::{ProcessLog, ProcessLogBuilder, ProcessSample};
use crate::model::State;
use crate::read::blocks::{self, Item};
use crate::read::lines::{Fields, number, saturate};
use crate::read::{Notes, ReadError};
use brisk_sys::process::TICK_MS;

/// Reads the log.
///
/// # Errors
/// Read errors, and too many samples or processes.
pub fn parse(input: impl Read, notes: &mut Notes<'_>) -> Result<ProcessLog, ReadError> {
    let mut builder = ProcessLogBuilder::new(notes);
    blocks::each(input, notes, &mut |item| match item {
        Item::Time(time_ms) => builder.begin_block(time_ms).map(|()| true),
        Item::Line(line) => match sample(line) {
            Some(sample) => builder.add(sample).map(|()| true),
            None => Ok(false),
        },
    })?;
    Ok(builder.finish())
}

/// PID (name) state parent ... with CPU time in the fields 14 and 15, the number of threads in 20 (0 before Linux 2.6)
/// and the start in 22.
fn sample(line: &[u8]) -> Option<ProcessSample<'_>> {
    let open = memchr(b'(', line)?;
    let close = memrchr(b')', line)?;
    let pid = number(line.get(..open)?.trim_ascii_end())?;
    let name = line.get(open + 1..close)?;
    let mut fields = Fields::of(&line[close + 1..]);
    let &[letter] = fields.next()? else { return None };
    let state = State::from_letter(letter)?;
    let parent_pid = fields.number()?;
    fields.skip_fields(9)?;
    let ticks = fields.number()?.saturating_add(fields.number()?);
    fields.skip_fields(4)?;
    let threads = fields.number()?;
    fields.skip_fields(1)?;
    let start_ms = fields.number()?.saturating_mul(TICK_MS);
    Some(ProcessSample {
        pid: u32::try_from(pid).ok()?,
        parent_pid: u32::try_from(parent_pid).ok()?,
        name,
        cpu_us: ticks.saturating_mul(TICK_MS * 1000),
        state,
        threads: saturate(threads),
        start_ms: Some(saturate(start_ms)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::process_log::ProcessLifetime;
    use super::*;
    use crate::model::{Activity, Span};
    use crate::read::Limits;

    fn stat(pid: u32, name: &str, state: char, parent: u32, ticks: u64, start: u64) -> String {
        format!(
            "{pid} ({name}) {state} {parent} 0 0 0 -1 64 0 0 0 0 {ticks} 0 0 0 20 0 1 0 {start} 4096 5 18446744073709551615 0\n"
        )
    }

    fn parsed(text: &str) -> (Vec<ProcessLifetime>, Vec<String>) {
        let mut omissions = Vec::new();
        let limits = Limits::default();
        let log = parse(text.as_bytes(), &mut Notes::new("proc_ps.log", &mut omissions, &limits)).unwrap();
        (log.lives, omissions.iter().map(ToString::to_string).collect())
    }

    fn activity(start_ms: u32, end_ms: u32, cpu_permille: u16, state: State) -> Activity {
        Activity { span: Span { start_ms, end_ms }, cpu_permille, state }
    }

    #[test]
    fn a_life_is_assembled_from_its_samples() {
        let text = format!(
            "100\n{}\n120\n{}{}\n140\n{}{}\n",
            stat(1, "init", 'S', 0, 50, 3),
            stat(1, "init", 'R', 0, 60, 3),
            stat(7, "sh) (x", 'R', 1, 8, 112),
            stat(1, "init", 'S', 0, 60, 3),
            stat(7, "zygote", 'D', 1, 8, 112),
        );
        let (lives, omissions) = parsed(&text);
        assert_eq!(omissions, Vec::<String>::new());
        let [init, zygote] = &lives[..] else { panic!("{lives:?}") };
        assert_eq!((init.start_ms, init.end_ms, init.cpu_us), (30, 1400, 100_000), "what was before is not counted");
        let expected = [activity(1000, 1200, 500, State::Running), activity(1200, 1400, 0, State::Sleeping)];
        assert_eq!(init.activity, expected);
        assert_eq!((zygote.name.as_str(), zygote.parent_pid, zygote.start_ms), ("zygote", 1, 1120));
        let expected = [activity(1120, 1200, 1000, State::Running), activity(1200, 1400, 0, State::DiskWait)];
        assert_eq!(zygote.activity, expected, "the CPU time of a new process counts from its start");
    }

    // Verifies CHART-1.
    #[test]
    fn a_pid_that_comes_again_is_another_process() {
        let text = format!(
            "100\n{}\n120\n{}\n140\n{}\n",
            stat(9, "a", 'S', 1, 4, 90),
            stat(9, "b", 'S', 1, 1, 110),
            stat(9, "b", 'S', 1, 1, 111),
        );
        let (lives, _) = parsed(&text);
        let seen: Vec<_> = lives.iter().map(|life| (life.name.as_str(), life.start_ms, life.end_ms)).collect();
        assert_eq!(seen, [("a", 900, 1000), ("b", 1100, 1400)]);
    }

    // Verifies CHART-1.
    #[test]
    fn torn_lines_are_left_out_and_repeated_ones_change_nothing() {
        let whole = stat(1, "init", 'S', 0, 1, 0);
        for (cut, reason) in
            [(3, "cut in the name"), (12, "cut in the fields"), (whole.len() - 60, "cut before the start")]
        {
            let text = format!("100\n{whole}\n120\n{}\n{}\n", &whole[..cut], whole);
            let (lives, omissions) = parsed(&text);
            assert_eq!(lives.len(), 1, "{reason}");
            assert_eq!(omissions, ["proc_ps.log:5: a torn or unknown line is left out"], "{reason}");
        }
        let once = parsed(&format!("100\n{whole}\n120\n{whole}"));
        assert_eq!(parsed(&format!("100\n{whole}{whole}\n120\n{whole}{whole}")), once);
        let (_, omissions) = parsed(&format!("100\n{}", whole.replace(" S ", " ? ")));
        assert_eq!(omissions.len(), 1);
    }

    /// By the kernel's clock the processes begin 4950 ms later than by the log's, or 9000 ms earlier.
    // Verifies CHART-1.
    #[test]
    fn the_recorders_own_clock_loses_no_process_and_no_cpu_time() {
        for offset_ticks in [495i64, -900] {
            let start = |ticks: i64| u64::try_from(ticks + offset_ticks).unwrap_or(0);
            let first = if offset_ticks > 0 { 0 } else { 1000 };
            let once = |pid: u32, ticks: u64, at: i64| stat(pid, "once", 'S', 1, ticks, start(first + at));
            let init = |ticks: u64| stat(1, "init", 'S', 0, ticks, 3);
            let mut text = format!("{}\n{}\n", first + 5, init(1));
            for block in 1..40 {
                let seen = first + 5 + 20 * block;
                text += &format!("{seen}\n{}{}\n", init(1), once(100 + block as u32, 12, 20 * block - 9));
            }
            let (lives, omissions) = parsed(&text);
            assert_eq!((lives.len(), omissions.len()), (40, 0));
            for (life, block) in lives[1..].iter().zip(1u32..) {
                let seen_ms = 10 * (first as u32 + 5 + 20 * block);
                assert_eq!((life.cpu_us, life.end_ms), (120_000, seen_ms), "{life:?}");
                assert!(life.start_ms.abs_diff(seen_ms - 140) <= 60, "the start is known within a sample: {life:?}");
                let [activity] = life.activity[..] else { panic!("{life:?}") };
                let spent_ms = activity.span.length_ms() * u32::from(activity.cpu_permille) / 1000;
                assert!(spent_ms.abs_diff(120) <= 1, "its activity has its CPU time: {life:?}");
            }
        }
    }

    // Verifies CHART-1.
    #[test]
    fn a_process_that_began_with_the_sample_has_its_time() {
        let (lives, _) =
            parsed(&format!("100\n{0}\n120\n{0}{1}", stat(1, "init", 'S', 0, 1, 0), stat(9, "a", 'R', 1, 1, 120)));
        assert_eq!((lives[1].cpu_us, lives[1].activity.len()), (10_000, 1), "{:?}", lives[1]);
    }

    #[test]
    fn a_relative_clock_puts_no_start_into_the_future() {
        let (lives, _) = parsed(&format!("5\n{0}\n10\n{0}", stat(1, "init", 'S', 0, 1, 500)));
        assert_eq!((lives[0].start_ms, lives[0].end_ms), (50, 100));
    }
}
