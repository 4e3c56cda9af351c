//! The `brisk` program: everything is in the library, so that tests drive what users run.

fn main() -> std::process::ExitCode {
    brisk::cli::main()
}
