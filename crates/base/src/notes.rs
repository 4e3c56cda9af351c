//! Notes: progress and hints for the user, on standard error. `--quiet` silences them; errors and warnings are not notes.

use std::sync::atomic::{AtomicBool, Ordering};

static SILENT: AtomicBool = AtomicBool::new(false);

/// Silences all notes from now on.
pub fn silence() {
    SILENT.store(true, Ordering::Relaxed);
}

/// True after [`silence`].
pub fn are_silent() -> bool {
    SILENT.load(Ordering::Relaxed)
}

/// Prints a note, unless notes are silent.
#[macro_export]
macro_rules! note {
    ($($argument:tt)*) => {
        if !$crate::notes::are_silent() {
            eprintln!($($argument)*);
        }
    };
}
pub use note;
