//! The `brisk` program: everything is in the library, so that tests drive what users run.

#[cfg(all(target_env = "musl", panic = "abort"))]
mod no_unwinding;

use brisk::sys::process::first_process::open_missing_descriptors;

/// What the loader calls before `main`. Here, because the linker keeps every object of the program itself.
#[used]
// SAFETY: the section holds addresses of functions that take nothing they need and return, which this one is.
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = open_missing_descriptors;

fn main() -> std::process::ExitCode {
    brisk::cli::main()
}
