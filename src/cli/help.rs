//! Help: the first page with the commands in groups, in the order in which a user needs them, and the layout of all pages.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::ColorChoice;
use clap::builder::StyledStr;
use clap::builder::styling::Style;

/// The maximum line length of help, in characters.
const WIDTH: usize = 90;

/// Headings, each with its commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["doctor", "diagnose", "setup", "why", "status"]),
    ("The daemon", &["daemon", "enable", "disable", "foreground", "top", "config", "restore"]),
    ("The mechanisms", &["launch", "placement", "memory", "lookup", "boot"]),
    ("Evidence and tools", &["trace", "telemetry", "prove", "fleet", "replay", "completions"]),
];

const EXAMPLES: &[(&str, &str)] = &[
    ("brisk doctor", "show what this device supports"),
    ("brisk setup", "choose mechanisms; asks before it writes"),
    ("brisk daemon --dry-run", "print what the daemon would do; writes nothing"),
    #[cfg(feature = "chart")]
    ("brisk boot diagnose FOLDER", "show what limits a recorded boot"),
];

/// Printed with the help of a device's program, and where it lacks a subcommand.
#[cfg(not(feature = "trace"))]
pub const DEVICE: &str = "\
This is the device's program. The workstation's, which ./dev build makes, also explains
recorded boots, launches and decisions, and has the laboratory.";

/// `command` with its help in groups.
pub fn grouped(command: clap::Command) -> clap::Command {
    let page = page(&command);
    command.override_help(page)
}

/// Limits the help of `command` and its subcommands to [`WIDTH`] columns. Their paragraphs are joined to one line each, so
/// that clap alone wraps them, for the actual terminal.
pub fn laid_out(command: clap::Command) -> clap::Command {
    let text = command.get_after_help().map(|text| unwrapped(&text.to_string()));
    let command = command.max_term_width(WIDTH).mut_subcommands(laid_out);
    match text {
        Some(text) => command.after_help(text),
        None => command,
    }
}

/// Joins each paragraph of `text` to one line. Lines that are indented or have columns stay as they are.
fn unwrapped(text: &str) -> String {
    let flows = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.contains("  ");
    let mut unwrapped = String::new();
    let mut before = "";
    for line in text.lines() {
        let separator = match (unwrapped.is_empty(), flows(before) && flows(line)) {
            (true, _) => "",
            (false, true) => " ",
            (false, false) => "\n",
        };
        unwrapped.push_str(separator);
        unwrapped.push_str(line);
        before = line;
    }
    unwrapped
}

/// The value of `--color` among `words`, for help and errors that clap prints before it has parsed the command line.
pub fn color(words: impl Iterator<Item = OsString>) -> ColorChoice {
    let words: Vec<OsString> = words.take_while(|word| word != "--").collect();
    let joined = words.iter().filter_map(|word| word.to_str()?.strip_prefix("--color="));
    let following = words.windows(2).filter(|pair| pair[0] == "--color").filter_map(|pair| pair[1].to_str());
    joined.chain(following).find_map(|value| value.parse().ok()).unwrap_or(ColorChoice::Auto)
}

fn page(command: &clap::Command) -> StyledStr {
    let heading = Style::new().bold().underline();
    let literal = Style::new().bold();
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut page = StyledStr::new();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    // Writing into memory cannot fail.
    let _ = writeln!(page, "{about}\n\n{heading}Usage:{heading:#} {literal}brisk{literal:#} <COMMAND>");
    for (title, names) in GROUPS {
        let _ = writeln!(page, "\n{heading}{title}:{heading:#}");
        for name in *names {
            // The device's build lacks the lab's subcommands.
            let Some(subcommand) = command.find_subcommand(name) else { continue };
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(page, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(
        page,
        "\n{heading}Options:{heading:#}\n  {literal}-h{literal:#}, {literal}--help{literal:#}        Print help; \
         {literal}brisk COMMAND --help{literal:#} for one command\n  \
         {literal}-q{literal:#}, {literal}--quiet{literal:#}       Print no progress and no notes\n      \
         {literal}--color{literal:#} WHEN  Colour the output: auto, always or never\n  \
         {literal}-V{literal:#}, {literal}--version{literal:#}     Print version\n\n{heading}Examples:{heading:#}"
    );
    for (example, what) in EXAMPLES {
        let _ = write!(page, "\n  {example:26}  {what}");
    }
    #[cfg(not(feature = "trace"))]
    let _ = write!(page, "\n\n{DEVICE}");
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_visible_command_is_in_one_group_and_its_line_fits() {
        let command = Cli::command();
        let visible: Vec<&str> =
            command.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.retain(|name| command.find_subcommand(name).is_some());
        let [mut one, mut other] = [visible.clone(), grouped];
        one.sort_unstable();
        other.sort_unstable();
        assert_eq!(one, other);
        let page = page(&command).to_string();
        for line in page.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }

    /// `command` and all its subcommands, each with its full name.
    fn all(command: &mut clap::Command, found: &mut Vec<(String, clap::Command)>) {
        found.push((command.get_display_name().unwrap_or(command.get_name()).to_owned(), command.clone()));
        command.get_subcommands_mut().for_each(|it| all(it, found));
    }

    #[test]
    fn help_wraps_only_between_words_of_a_paragraph() {
        let mut command = laid_out(Cli::command());
        command.build();
        let mut found = Vec::new();
        all(&mut command, &mut found);
        assert!(found.len() > 40);
        for (name, mut command) in found {
            for line in command.get_after_help().map(ToString::to_string).unwrap_or_default().lines() {
                let is_fixed = line.starts_with(' ') || line.contains("  ");
                assert!(
                    !is_fixed || line.chars().count() <= 80,
                    "{name}: too long for a terminal of 80 columns: {line}"
                );
            }
            let visible = || command.get_subcommands().filter(|it| !it.is_hide_set());
            let names = visible().map(|it| it.get_name().len()).max().unwrap_or(0);
            for it in visible() {
                let about = it.get_about().map(ToString::to_string).unwrap_or_default();
                assert!(names + about.chars().count() + 4 <= 80, "{name} {}: {about}", it.get_name());
            }
            for line in command.render_long_help().to_string().lines().filter(|it| !it.starts_with("Usage: ")) {
                assert!(line.chars().count() <= WIDTH, "{name}: {line}");
            }
        }
    }

    #[test]
    fn paragraphs_are_joined_and_columns_stay() {
        let text = "One\ntwo.\n\nExamples:\n  brisk a   b\n  brisk c\nword   its meaning\nlast";
        assert_eq!(unwrapped(text), "One two.\n\nExamples:\n  brisk a   b\n  brisk c\nword   its meaning\nlast");
    }

    #[test]
    fn color_is_found_among_unparsed_arguments() {
        for (line, expected) in [
            ("brisk doctor", ColorChoice::Auto),
            ("brisk --color never doctor", ColorChoice::Never),
            ("brisk doctor --color=always", ColorChoice::Always),
            ("brisk launch -- ls --color=always", ColorChoice::Auto),
        ] {
            assert_eq!(color(line.split(' ').map(OsString::from)), expected, "{line}");
        }
    }
}
