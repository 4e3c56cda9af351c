//! `brisk top`: CPUs, the foreground, thread classes, memory, lookups and the last decisions, live.

mod screen;
mod terminal;

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anstream::ColorChoice;

use brisk_sys::Root;
use screen::{Observer, Screen};
use terminal::Terminal;

/// Samples before a single screen, and their period: enough to classify bulk threads.
const SAMPLES: u32 = 4;
const SAMPLING_PERIOD: Duration = Duration::from_millis(400);
/// The screen's size without a terminal.
const DEFAULT_SIZE: (usize, usize) = (160, 80);

/// Arguments of `brisk top`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a daemon it shows what a daemon would decide; it changes nothing. A CPU's line has its load,
frequency and capacity (1024 for the fastest), and whether it is reserved for the foreground. Press q
or Ctrl-C to exit.

Examples:
  brisk top                 live, once a second
  brisk top --once | head   one screen
  brisk top --json          the same for programs")]
pub struct Arguments {
    /// Print one screen and exit (the default without a terminal)
    #[arg(long)]
    once: bool,
    /// Print one JSON object and exit
    #[arg(long)]
    json: bool,
    /// Set the time between two screens, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=60_000))]
    period_ms: u32,
}

/// Shows the screen until a key or a signal ends it.
///
/// # Errors
/// When the configuration is invalid, /proc cannot be read, or the terminal cannot be written.
pub fn run(arguments: &Arguments, root: &Root) -> anyhow::Result<ExitCode> {
    let mut observer = Observer::new(root);
    if arguments.once || arguments.json || !std::io::stdout().is_terminal() {
        let screen = one(&mut observer)?;
        let mut out = anstream::stdout().lock();
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string(&screen)?)?;
        } else {
            writeln!(out, "{}", screen.lines(DEFAULT_SIZE, true).join("\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let in_colours = anstream::stdout().current_choice() != ColorChoice::Never;
    // The first sample precedes the screen, so that an error is printed on the normal terminal.
    let mut screen = observer.sample()?;
    let terminal = Terminal::take()?;
    loop {
        terminal.show(&screen.lines(terminal.size(), in_colours))?;
        if terminal.wait_for_exit(Duration::from_millis(arguments.period_ms.into()))? {
            return Ok(ExitCode::SUCCESS);
        }
        screen = observer.sample()?;
    }
}

fn one(observer: &mut Observer) -> anyhow::Result<Screen> {
    for _ in 1..SAMPLES {
        observer.sample()?;
        sleep(SAMPLING_PERIOD);
    }
    observer.sample()
}
