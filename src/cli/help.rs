//! The first page of help: the commands in groups, in the order in which a person needs them.

use std::fmt::Write as _;

use clap::builder::StyledStr;
use clap::builder::styling::Style;

/// A group's heading, and its commands.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start here", &["doctor", "setup", "why", "status"]),
    ("The daemon", &["run", "enable", "disable", "foreground", "top", "config", "restore"]),
    ("The mechanisms", &["launch", "placement", "memory", "lookup", "boot"]),
    ("Proof", &["prove", "replay"]),
];

const EXAMPLES: &[(&str, &str)] = &[
    ("brisk doctor", "what this device supports"),
    ("brisk setup", "choose what is on; nothing is written before you agree"),
    ("brisk run --dry-run", "what the daemon would do; nothing is written"),
    ("brisk boot diagnose FOLDER", "what limits a boot that was recorded"),
];

/// `command` with its help in groups.
pub fn grouped(command: clap::Command) -> clap::Command {
    let page = page(&command);
    command.override_help(page)
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
            // A brisk for devices has no lab.
            let Some(subcommand) = command.find_subcommand(name) else { continue };
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(page, "  {literal}{name:width$}{literal:#}  {about}");
        }
    }
    let _ = write!(
        page,
        "\n{heading}Options:{heading:#}\n  {literal}-h{literal:#}, {literal}--help{literal:#}     Print help; \
         {literal}brisk COMMAND --help{literal:#} for one command\n  \
         {literal}-V{literal:#}, {literal}--version{literal:#}  Print version\n\n{heading}Examples:{heading:#}"
    );
    for (example, what) in EXAMPLES {
        let _ = write!(page, "\n  {example:26}  {what}");
    }
    page
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn each_command_for_people_is_in_one_group_and_its_line_fits() {
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
            assert!(line.chars().count() <= 90, "{line}");
        }
    }
}
