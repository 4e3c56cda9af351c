//! `brisk boot chart`: a recorded boot as a picture, a page, or data.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;

use brisk_chart::{Boot, html, json, perfetto, png, svg};

/// Arguments of `brisk boot chart`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Reads Android's /data/bootchart, bootchart 0.8 and bootchart2, as .tgz, as .tar or as a folder. Parts of a
recording that cannot be used are listed on standard error and in the chart.

The extension of the output decides the format:
  .svg      a vector image
  .png      a raster image
  .html     one interactive page: zoom, hover, search, fold; no network access
  .json     the whole recording and its diagnosis, for programs
  .pftrace  a Perfetto trace, for ui.perfetto.dev and trace_processor

Examples:
  brisk boot chart bootchart.tgz --output boot.html
  adb pull /data/bootchart && brisk boot chart bootchart --output boot.svg")]
pub struct Arguments {
    /// The recording: an archive, or a folder of logs
    #[arg(value_name = "ARCHIVE-OR-FOLDER")]
    recording: PathBuf,
    /// Write the chart to FILE, in the format of its extension
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Print a summary of the chart as one JSON object
    #[arg(long)]
    json: bool,
}

/// What was drawn.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    output: &'a Path,
    bytes: usize,
    recorded_by: &'static str,
    start_ms: u32,
    end_ms: u32,
    processes: usize,
    left_out: Vec<String>,
}

/// How to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
    Json,
    Perfetto,
}

impl Format {
    const ALL: [(&'static str, Self); 5] = [
        ("svg", Self::Svg),
        ("png", Self::Png),
        ("html", Self::Html),
        ("json", Self::Json),
        ("pftrace", Self::Perfetto),
    ];

    fn of(path: &Path) -> anyhow::Result<Self> {
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match Self::ALL.into_iter().find(|(name, _)| *name == extension) {
            Some((_, format)) => Ok(format),
            None => {
                let known: Vec<String> = Self::ALL.iter().map(|(name, _)| format!(".{name}")).collect();
                bail!("unsupported file extension of {}; use {}", path.display(), known.join(", "))
            }
        }
    }

    fn draw(self, boot: &Boot) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Self::Svg => svg::render(boot).into_bytes(),
            Self::Png => png::render(boot)?,
            Self::Html => html::render(boot).into_bytes(),
            Self::Json => json::render(boot),
            Self::Perfetto => perfetto::render(boot),
        })
    }
}

/// Draws the chart and writes it.
///
/// # Errors
/// When the recording cannot be read, the extension is unsupported, or the chart cannot be drawn or written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let format = Format::of(&arguments.output)?;
    let boot = super::open(&arguments.recording)?;
    let drawing = format.draw(&boot)?;
    std::fs::write(&arguments.output, &drawing)
        .with_context(|| format!("cannot write {}", arguments.output.display()))?;
    if arguments.json {
        let report = Report {
            schema: json::SCHEMA,
            output: &arguments.output,
            bytes: drawing.len(),
            recorded_by: boot.format.words(),
            start_ms: boot.span.start_ms,
            end_ms: boot.span.end_ms,
            processes: boot.processes.len(),
            left_out: boot.omissions.iter().map(ToString::to_string).collect(),
        };
        writeln!(anstream::stdout().lock(), "{}", serde_json::to_string_pretty(&report)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
