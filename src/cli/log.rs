//! Messages on standard error: text for the user, with priorities (`<4>`, sd-daemon(3)) for the system's journal.

use std::fmt::{self, Write as _};
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use brisk_base::notes;

/// From now on, messages of `level` or more severe go to standard error; with `--quiet` only warnings and errors.
pub fn start(level: Level) {
    let level = if notes::are_silent() { level.min(Level::WARN) } else { level };
    let priorities = std::env::var_os("JOURNAL_STREAM").is_some();
    // A second call, in a test, keeps the first.
    let _ = tracing::subscriber::set_global_default(Log { level, priorities });
}

struct Log {
    level: Level,
    priorities: bool,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level
    }

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let level = *event.metadata().level();
        let prefix = if self.priorities { priority(level) } else { word(level) };
        // A failure of standard error cannot be reported anywhere.
        let _ = writeln!(anstream::stderr(), "{prefix}{}", message.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn priority(level: Level) -> &'static str {
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

fn word(level: Level) -> &'static str {
    match level {
        Level::ERROR => "brisk: error: ",
        Level::WARN => "brisk: warning: ",
        _ => "brisk: ",
    }
}

/// The message and its fields.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
