//! A browser of two processes: its own, and one that renders. A page is loaded, scrolled and read; together they take about 60 % of
//! a CPU.

use std::io::{self, BufRead, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use super::periodic::{FRAMES, p95, sleep_until};
use super::{TaskRunner, milliseconds};
use brisk_sys::BootTime;

/// A page's pieces, and the work of each process for a piece.
const PIECES: u32 = 60;
const PIECE_RENDER_MS: u8 = 20;
const PIECE_OWN_MS: u64 = 10;
/// The frames while it is scrolled, and the work of each process for a frame.
const SCROLLED_FRAMES: u32 = 120;
const FRAME_RENDER_MS: u8 = 4;
const FRAME_OWN_MS: u64 = 2;
const READING: Duration = Duration::from_millis(800);

/// The process that renders; dropping it ends it.
struct Renderer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: ChildStdout,
}

impl TaskRunner {
    /// Loads pages for `length`; returns the 95th percentile of the times that they took.
    ///
    /// # Errors
    /// When the second process cannot be started or ends.
    pub(super) fn browse(&self, length: Duration) -> io::Result<f64> {
        let mut renderer = Renderer::start(self)?;
        let begun = Instant::now();
        let mut loads_ms = Vec::new();
        let frame_period = self.dilated(FRAMES.period);
        while begun.elapsed() < length {
            let load = Instant::now();
            for _ in 0..PIECES {
                renderer.render_while(PIECE_RENDER_MS, || self.work(PIECE_OWN_MS))?;
            }
            loads_ms.push(milliseconds(load.elapsed()));
            let scrolled = BootTime::now();
            for frame in 0..SCROLLED_FRAMES {
                sleep_until(scrolled + frame_period * frame);
                renderer.render_while(FRAME_RENDER_MS, || self.work(FRAME_OWN_MS))?;
            }
            self.wait(READING);
        }
        Ok(p95(loads_ms))
    }

    /// Runs as the process that renders, until `requests` end: each is a byte, the milliseconds of its work.
    ///
    /// # Errors
    /// When its pipes fail.
    pub fn render(&self, requests: impl BufRead, mut answers: impl Write) -> io::Result<()> {
        for request in requests.bytes() {
            let work_ms = request?;
            self.work(work_ms.into());
            answers.write_all(&[work_ms])?;
            answers.flush()?;
        }
        Ok(())
    }
}

impl Renderer {
    fn start(runner: &TaskRunner) -> io::Result<Self> {
        let mut command = Command::new(&runner.program);
        command.args(["task", "--renderer", "--turns-per-ms"]).arg(runner.turns_per_ms.to_string());
        command.arg(format!("--time-dilation={}", runner.time_dilation));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { child, requests, answers })
    }

    /// Lets it work for `work_ms`, and meanwhile runs `own`.
    fn render_while(&mut self, work_ms: u8, own: impl FnOnce()) -> io::Result<()> {
        self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write_all(&[work_ms])?;
        own();
        self.answers.read_exact(&mut [0])
    }
}

impl Drop for Renderer {
    fn drop(&mut self) {
        drop(self.requests.take());
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_renderer_answers_each_request() {
        let runner = TaskRunner::of_tests("none".as_ref());
        let mut answers = Vec::new();
        runner.render(&[20, 4, 4][..], &mut answers).unwrap();
        assert_eq!(answers, [20, 4, 4]);
    }
}
