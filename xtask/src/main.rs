//! Tasks of the repository: man pages and completions from the program's command tree, the book's source, the bill of
//! materials, benchmarks of its daemon, its charts and its explanations, and the record of what was run when.

#[cfg(feature = "lab")]
mod bench;
mod book;
#[cfg(feature = "lab")]
mod chart;
#[cfg(feature = "lab")]
mod cost;
mod evidence;
mod sbom;
mod settings;
#[cfg(feature = "lab")]
mod threads;
#[cfg(feature = "lab")]
mod trace;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use brisk::cli::Cli;
use clap::{Command, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use settings::{EXAMPLE, Settings};

/// Tasks of the repository
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Write man pages, completions and the book's source; docs/configuration.md as well
    Docs {
        /// Where to write them
        #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../target/docs"))]
        folder: PathBuf,
    },
    /// Write the bill of materials of the program that a device carries, as CycloneDX
    Sbom {
        /// Where to write it
        file: PathBuf,
    },
    /// Write docs/traceability.md, docs/papers and the README's table of platforms, and record today's runs
    Evidence(evidence::Arguments),
    /// Measure the daemon, here and in the lab, with real process events and a device tree on a tmpfs; needs root
    #[cfg(feature = "lab")]
    Bench {
        /// The binary to measure
        brisk: PathBuf,
        /// Only what is measured in the lab, which a loaded machine does not disturb
        #[arg(long)]
        lab: bool,
    },
    /// Measure the drawing of a large boot, compared with pybootchartgui where that is in PATH
    #[cfg(feature = "lab")]
    BenchChart {
        /// The binary to measure
        brisk: PathBuf,
    },
    /// Measure the explanation of a trace of two million events
    #[cfg(feature = "lab")]
    BenchTrace {
        /// The binary to measure
        brisk: PathBuf,
    },
    /// Measure the cost of sampling threads, with this many more than the machine has
    #[cfg(feature = "lab")]
    BenchThreads {
        /// Number of additional threads
        #[arg(default_values_t = [1_000, 10_000])]
        counts: Vec<u32>,
    },
    /// Run threads that sleep; a part of `bench-threads`
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Crowd {
        /// Number of threads
        count: u32,
        /// Number of threads that wake periodically
        awake: u32,
    },
    /// The part of `bench` that runs in the lab's guest as well
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Guest {
        /// The binary to measure
        brisk: PathBuf,
    },
    /// Receive process events and do nothing about them; a part of `bench`
    #[cfg(feature = "lab")]
    #[command(hide = true)]
    Receiver,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Docs { folder } => docs(&folder),
        Task::Sbom { file } => sbom::run(&file),
        Task::Evidence(arguments) => evidence::run(&arguments),
        #[cfg(feature = "lab")]
        Task::Bench { brisk, lab } => bench::run(&brisk, lab),
        #[cfg(feature = "lab")]
        Task::BenchChart { brisk } => chart::run(&brisk),
        #[cfg(feature = "lab")]
        Task::BenchTrace { brisk } => trace::run(&brisk),
        #[cfg(feature = "lab")]
        Task::BenchThreads { counts } => threads::run(&counts),
        #[cfg(feature = "lab")]
        Task::Crowd { count, awake } => threads::run_crowd(count, awake),
        #[cfg(feature = "lab")]
        Task::Guest { brisk } => bench::run_in_guest(&brisk),
        #[cfg(feature = "lab")]
        Task::Receiver => bench::run_receiver(),
    }
}

fn docs(folder: &Path) -> anyhow::Result<()> {
    let pages = write_man_pages(&folder.join("man"))?;
    let scripts = write_completions(&folder.join("completions"))?;
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    write_if_changed(&repository.join("docs/configuration.md"), &Settings::read(EXAMPLE).page())?;
    let documents = book::write(&repository, &folder.join("book-source"))?;
    println!(
        "{pages} man pages, {scripts} completion scripts and {documents} documents of the book in {}",
        folder.canonicalize()?.display()
    );
    Ok(())
}

/// One page a visible subcommand (`brisk.1`, `brisk-launch.1`, `brisk-config-show.1`), and `brisk.toml.5`.
fn write_man_pages(folder: &Path) -> anyhow::Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let commands = visible_commands();
    for command in &commands {
        let file = folder.join(format!("{}.1", page_name(command)));
        let mut page = Vec::new();
        let source = format!("brisk {}", env!("CARGO_PKG_VERSION"));
        clap_mangen::Man::new(command.clone()).source(source).manual("brisk").render(&mut page)?;
        fs::write(&file, readable(&String::from_utf8(page)?))
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    let file = folder.join("brisk.toml.5");
    let page = Settings::read(EXAMPLE).man_page(env!("CARGO_PKG_VERSION"));
    fs::write(&file, page).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(commands.len() + 1)
}

/// Names the notes section of a man page, puts lists and examples on their own lines, and adds references.
fn readable(page: &str) -> String {
    let mut text = String::new();
    let mut has_examples = false;
    let mut keeps_lines = false;
    for line in page.lines() {
        has_examples = (has_examples || line == "Examples:") && !line.starts_with(".SH ");
        let keeps = has_examples || line.starts_with(' ');
        if keeps != keeps_lines {
            text += if keeps { ".nf\n" } else { ".fi\n" };
            keeps_lines = keeps;
        }
        text += if line == ".SH EXTRA" { ".SH NOTES" } else { line };
        text.push('\n');
    }
    text + if keeps_lines { ".fi\n" } else { "" } + ".SH \"SEE ALSO\"\n\\fBbrisk\\fR(1), \\fBbrisk.toml\\fR(5)\n"
}

/// Writes `text`, unless the file holds it already.
fn write_if_changed(file: &Path, text: &str) -> anyhow::Result<()> {
    if fs::read_to_string(file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

fn write_completions(folder: &Path) -> anyhow::Result<usize> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for shell in Shell::value_variants() {
        clap_complete::generate_to(*shell, &mut Cli::command(), "brisk", folder)
            .with_context(|| format!("cannot write the {shell} completion into {}", folder.display()))?;
    }
    Ok(Shell::value_variants().len())
}

/// The command tree as a flat list, without hidden subcommands. clap names each with its parents (`brisk-config-show`).
fn visible_commands() -> Vec<Command> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut commands = Vec::new();
    let mut pending = vec![root];
    while let Some(command) = pending.pop() {
        pending.extend(command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()).cloned());
        commands.push(command);
    }
    commands
}

fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies HOUSE-1.
    #[test]
    fn every_subcommand_and_argument_says_what_it_does() {
        let commands = visible_commands();
        for command in &commands {
            assert!(command.get_about().is_some(), "{} has no about text", page_name(command));
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                assert!(argument.get_help().is_some(), "{} {} has no help", page_name(command), argument.get_id());
            }
        }
    }

    /// The commands of brisk in the shell blocks of `text`, as words.
    fn commands_of(text: &str) -> Vec<Vec<&str>> {
        let mut shell = false;
        let mut commands = Vec::new();
        for line in text.lines() {
            if let Some(language) = line.strip_prefix("```") {
                // A word after it names the block for a test.
                shell = ["sh", "console"].contains(&language.split(' ').next().unwrap_or_default());
                continue;
            }
            let command = line.split(" #").next().unwrap_or_default();
            let words = command.split_whitespace().skip_while(|word| ["$", "sudo", "su", "-c"].contains(word));
            // What follows is the shell's or another program's.
            let words: Vec<&str> = words.take_while(|word| !["|", ">", "<", "&&"].contains(word)).collect();
            if shell && words.first().is_some_and(|first| first.trim_start_matches("./") == "brisk") {
                commands.push(words);
            }
        }
        commands
    }

    // Verifies HOUSE-1.
    #[test]
    fn commands_in_the_book_are_understood() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut commands = 0;
        let mut wrong = Vec::new();
        for folder in [".", "docs", "docs/guides", "docs/install", "docs/inside", "android/integration"] {
            for path in fs::read_dir(repository.join(folder)).unwrap().map(|entry| entry.unwrap().path()) {
                let Ok(text) = fs::read_to_string(&path) else { continue };
                for command in commands_of(&text) {
                    commands += 1;
                    // Names in capitals may stand for numbers.
                    let words = command.iter().map(|word| if *word == "PID" { "1" } else { word });
                    if let Err(error) = Cli::try_parse_from(words)
                        && error.use_stderr()
                    {
                        wrong.push(format!("{}: {}: {error}", path.display(), command.join(" ")));
                    }
                }
            }
        }
        assert!(commands > 30, "the commands are found: {commands}");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let text = "```sh try\nsudo brisk why  # now\nls\nbrisk top | cat -n\n```\nbrisk x\n";
        assert_eq!(commands_of(text), [["brisk", "why"], ["brisk", "top"]]);
    }

    #[test]
    fn hidden_subcommands_have_no_page() {
        let hidden: Vec<_> = Cli::command().get_subcommands().filter(|c| c.is_hide_set()).cloned().collect();
        let names: Vec<_> = visible_commands().iter().map(|command| page_name(command).to_owned()).collect();
        assert!(names.contains(&"brisk".to_owned()));
        for command in hidden {
            assert!(!names.contains(&format!("brisk-{}", command.get_name())));
        }
    }

    #[test]
    fn examples_of_a_page_keep_their_lines() {
        let page = readable(".TH x\n.SH EXTRA\nNote:\n  item\nMore.\n\nExamples:\n  a\n  b\n.SH VERSION\nv1\n");
        let notes = ".SH NOTES\nNote:\n.nf\n  item\n.fi\nMore.\n\n.nf\nExamples:\n  a\n  b\n.fi\n.SH VERSION\nv1\n";
        assert!(page.contains(notes), "{page}");
    }

    #[test]
    fn pages_and_completions_are_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write_man_pages(folder.path()).unwrap(), visible_commands().len() + 1);
        assert_eq!(write_completions(folder.path()).unwrap(), 5);
        let page = fs::read_to_string(folder.path().join("brisk.1")).unwrap();
        assert!(page.contains(".TH brisk 1"), "{page}");
    }
}
