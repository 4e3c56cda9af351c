//! What a person sees while experiments run: bars on a terminal, a line now and then elsewhere. Always on stderr.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Between two lines where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(10);

/// An experiment's own pace is known after this.
const SETTLED: Duration = Duration::from_secs(12);

/// Progress over all experiments of one `brisk prove`, in units of estimated cost.
pub struct Progress {
    bar: ProgressBar,
    terminal: bool,
    /// Of the present experiment, with the cost done until then.
    began: (Instant, u64),
    /// Host milliseconds a unit of cost, from the experiments before and the present one.
    pace: Option<f64>,
    last_line: Instant,
    measured: usize,
    replicates: usize,
}

impl Progress {
    /// Progress over `replicates` that cost `cost_ms` together.
    pub fn new(replicates: usize, cost_ms: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = ProgressBar::with_draw_target(
            Some(cost_ms),
            if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() },
        );
        let template = "{bar:30} {percent:>3} %  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if terminal {
            bar.enable_steady_tick(Duration::from_millis(250));
        }
        let now = Instant::now();
        Self { bar, terminal, began: (now, 0), pace: None, last_line: now, measured: 0, replicates }
    }

    /// An experiment begins.
    pub fn begin(&mut self, title: &str, name: &str, replicates: usize) {
        self.began = (Instant::now(), self.bar.position());
        self.say(&format!("{name}: {title} ({replicates} replicates)"));
    }

    /// A replicate that costs `cost_ms` is done.
    pub fn step(&mut self, name: &str, cost_ms: u64) {
        self.bar.inc(cost_ms);
        self.measured += 1;
        let remaining = self.remaining();
        let text = format!("{name}  {} of {}, {remaining}", self.measured, self.replicates);
        if self.terminal {
            self.bar.set_message(text);
        } else if self.last_line.elapsed() >= LINE_PERIOD {
            self.last_line = Instant::now();
            eprintln!("{text}");
        }
    }

    /// A line for people above the bar.
    pub fn say(&self, text: &str) {
        if self.terminal {
            self.bar.println(text);
        } else {
            eprintln!("{text}");
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// What is left at the present pace. A guest's boot makes an experiment's first replicates look slow, so the pace of
    /// the experiments before counts until this one has [`SETTLED`].
    fn remaining(&mut self) -> String {
        let (since, cost_then) = self.began;
        let done = self.bar.position() - cost_then;
        if done > 0 && (self.pace.is_none() || since.elapsed() > SETTLED) {
            self.pace = Some(since.elapsed().as_secs_f64() / done as f64);
        }
        let left = self.bar.length().unwrap_or(0).saturating_sub(self.bar.position());
        match (self.pace.unwrap_or(0.0) * left as f64).ceil() as u64 {
            seconds @ 0..=99 => format!("{seconds} s left"),
            seconds => format!("{} min left", seconds.div_ceil(60)),
        }
    }
}
