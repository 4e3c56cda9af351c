//! The `brisk` program. All code is in the library, so that tests run the code that users run.

#[cfg(all(target_env = "musl", panic = "abort", not(feature = "lab")))]
mod no_unwinding;

use brisk::sys::process::first_process::open_missing_descriptors;

/// The loader calls it before `main`. It is in this file because the linker keeps every object of the program itself.
#[used]
// SAFETY: the section holds addresses of functions that need no arguments and return; this function does both.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = open_missing_descriptors;

fn main() -> std::process::ExitCode {
    brisk::cli::main()
}
