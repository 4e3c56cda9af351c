//! Text of ftrace: tracefs's `trace`, `trace-cmd report`, atrace and systrace, also inside systrace's HTML.

mod events;
mod line;

use std::io::{BufRead, Read as _};

use super::error::Fault;
use crate::collect::Collector;

/// A line that is longer is no event; it is read in parts.
const LONGEST_LINE: u64 = 64 * 1024;

/// Reads all lines. Lines that are no events are skipped, and counted where only events belong.
pub(super) fn read(input: &mut dyn BufRead, collector: &mut Collector) -> Result<(), Fault> {
    let mut line = Vec::new();
    let mut page = Page::default();
    loop {
        line.clear();
        match input.take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => take(&line, &mut page, collector)?,
            Err(cause) if page.events > 0 => {
                collector.fault(format!("the file is damaged after {} events: {cause}", page.events));
                break;
            }
            Err(cause) => return Err(cause.into()),
        }
    }
    if page.unreadable > 0 {
        collector.fault(format!("{} lines are not events and have been skipped", page.unreadable));
    }
    if page.is_html {
        collector.set_format("systrace HTML");
    }
    Ok(())
}

/// What has been read so far.
#[derive(Debug, Default)]
struct Page {
    is_html: bool,
    /// Within the part of the page that holds the trace.
    is_in_trace: bool,
    events: u64,
    unreadable: u64,
}

impl Page {
    /// Whether a line of HTML belongs to the trace. Older pages hold it as a string of JavaScript.
    fn is_trace(&mut self, line: &str) -> bool {
        let start = line.trim_start();
        if self.events == 0 && (start.starts_with("<!DOCTYPE") || start.starts_with("<html")) {
            self.is_html = true;
        }
        if !self.is_html {
            return true;
        }
        if line.contains("class=\"trace-data\"") || line.contains("linuxPerfData") {
            self.is_in_trace = true;
        } else if line.contains("</script>") {
            self.is_in_trace = false;
        }
        self.is_in_trace
    }
}

fn take(line: &[u8], page: &mut Page, collector: &mut Collector) -> Result<(), Fault> {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    if !page.is_trace(line) {
        return Ok(());
    }
    // A line of a JavaScript string ends with an escaped line feed and a backslash.
    let line = line.strip_suffix("\\n\\").unwrap_or(line);
    if let Some(parsed) = line::parse(line) {
        events::take(&parsed, collector)?;
        page.events += 1;
    } else if let Some((cpu, count)) = line::lost(line) {
        collector.lost(cpu, count);
    } else if !is_expected(line, page) {
        page.unreadable += 1;
    }
    Ok(())
}

/// Headings and comments, the number of CPUs, and the HTML around the events.
fn is_expected(line: &str, page: &Page) -> bool {
    let line = line.trim();
    let is_heading = line.is_empty()
        || line.starts_with('#')
        || line.starts_with("cpus=")
        || line.starts_with("version =")
        || line.starts_with("CPU ") && line.ends_with(" is empty");
    let is_markup = line.starts_with('<') || line.starts_with("\";") || line.contains("linuxPerfData");
    is_heading || page.is_html && is_markup || line.starts_with("TRACE:")
}

#[cfg(test)]
mod tests;
