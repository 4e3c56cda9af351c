//! Documents from the commented configuration `packaging/brisk.toml`: the man page brisk.toml(5) and a page of the book. A test
//! of the program itself checks that the file has every setting with its default.

use std::fmt::Write as _;

/// The commented configuration.
pub const EXAMPLE: &str = include_str!("../../packaging/brisk.toml");
/// Longest line of the page.
const WIDTH: usize = 118;

/// The contents of the file.
#[derive(Debug, Default, PartialEq)]
pub struct Settings {
    /// Its paragraphs before the first section.
    introduction: Vec<String>,
    sections: Vec<Section>,
}

#[derive(Debug, Default, PartialEq)]
struct Section {
    name: String,
    about: String,
    settings: Vec<Setting>,
}

#[derive(Debug, PartialEq)]
struct Setting {
    key: String,
    default: String,
    about: String,
}

impl Settings {
    /// Reads a file in which each comment belongs to the section or the setting below it.
    pub fn read(text: &str) -> Self {
        let mut settings = Self::default();
        let mut about = String::new();
        for line in text.lines() {
            let section = settings.sections.last_mut();
            if let Some(comment) = line.strip_prefix('#') {
                about += if about.is_empty() { "" } else { " " };
                about += comment.trim();
            } else if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let about = std::mem::take(&mut about);
                settings.sections.push(Section { name: name.to_owned(), about, settings: Vec::new() });
            } else if let (Some((key, default)), Some(section)) = (line.split_once(" = "), section) {
                let about = std::mem::take(&mut about);
                section.settings.push(Setting { key: key.to_owned(), default: default.to_owned(), about });
            } else if !about.is_empty() {
                settings.introduction.push(std::mem::take(&mut about));
            }
        }
        settings
    }

    /// A page of the book.
    pub fn page(&self) -> String {
        let mut text = "# Configuration\n\n<!-- Written by `./dev docs` from packaging/brisk.toml. -->\n".to_owned();
        for paragraph in &self.introduction {
            let _ = write!(text, "\n{}", wrapped(&escaped(paragraph)));
        }
        for section in &self.sections {
            let _ = write!(text, "\n## `[{}]`\n", section.name);
            if !section.about.is_empty() {
                let _ = write!(text, "\n{}", wrapped(&escaped(&section.about)));
            }
            for Setting { key, default, about } in &section.settings {
                let _ = write!(text, "\n**`{key}`** = `{default}`\n");
                if !about.is_empty() {
                    let _ = write!(text, "\n{}", wrapped(&escaped(about)));
                }
            }
        }
        text
    }

    /// The man page.
    pub fn man_page(&self, version: &str) -> String {
        let mut text = format!(
            ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH brisk.toml 5 \"\" \"brisk {version}\"\n.SH NAME\n\
             brisk.toml \\- configuration of brisk(1)\n.SH SYNOPSIS\n/etc/brisk/brisk.toml\n.br\n/usr/lib/brisk/brisk.toml\n\
             .br\n/etc/brisk/brisk.toml.d/*.toml\n.br\n/usr/lib/brisk/brisk.toml.d/*.toml\n.SH DESCRIPTION\n"
        );
        for paragraph in &self.introduction {
            let _ = writeln!(text, "{}\n.PP", roff(paragraph));
        }
        for section in &self.sections {
            let _ = writeln!(text, ".SH [{}]\n{}", section.name, roff(&section.about));
            for Setting { key, default, about } in &section.settings {
                let _ = writeln!(text, ".TP\n\\fB{key}\\fR = {}\n{}", roff(default), roff(about));
            }
        }
        text += ".SH \"SEE ALSO\"\n\\fBbrisk\\fR(1), \\fBbrisk\\-config\\fR(1), \\fBbrisk\\-setup\\fR(1)\n";
        // An empty line would add a vertical space in roff.
        text.lines().filter(|line| !line.is_empty()).fold(String::new(), |text, line| text + line + "\n")
    }
}

/// Escapes the asterisks that Markdown takes for emphasis; those in code stay.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(place, part)| if place % 2 == 0 { part.replace('*', "\\*") } else { part.to_owned() });
    parts.collect::<Vec<_>>().join("`")
}

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let separator = match width {
            0 => "",
            _ if width + 1 + word.chars().count() > WIDTH => {
                width = 0;
                "\n"
            }
            _ => " ",
        };
        lines += separator;
        lines += word;
        width += usize::from(separator == " ") + word.chars().count();
    }
    lines + "\n"
}

/// Text of a man page, with code in bold.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\*(Aq");
    let parts: Vec<&str> = text.split('`').collect();
    let fonts = ["\\fB", "\\fR"].into_iter().cycle();
    let joined = parts.iter().skip(1).zip(fonts).fold(parts[0].to_owned(), |text, (part, font)| text + font + part);
    if joined.starts_with('.') { format!("\\&{joined}") } else { joined }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comment_belongs_to_what_is_below_it() {
        let text = "# One\n# two.\n\n# Three.\n\n# Of a.\n[a]\n# Of `k*`: x*.\nk = 1\nl = []\n\n[a.b]\nm = \"x\"\n";
        let settings = Settings::read(text);
        assert_eq!(settings.introduction, ["One two.", "Three."]);
        let names: Vec<_> = settings.sections.iter().map(|it| (it.name.as_str(), it.about.as_str())).collect();
        assert_eq!(names, [("a", "Of a."), ("a.b", "")]);
        let page = settings.page();
        assert!(page.contains("## `[a]`\n\nOf a.\n\n**`k`** = `1`\n\nOf `k*`: x\\*.\n\n**`l`** = `[]`\n"), "{page}");
        let man = settings.man_page("1.0");
        assert!(man.contains(".TP\n\\fBk\\fR = 1\nOf \\fBk*\\fR: x*.\n.TP\n"), "{man}");
        assert!(!man.contains("\n\n"), "{man}");
    }

    #[test]
    fn text_cannot_start_a_request_of_roff() {
        assert_eq!(roff("... and -x's"), "\\&... and \\-x\\*(Aqs");
    }

    // Verifies HOUSE-1.
    #[test]
    fn the_books_page_is_that_of_the_configuration() {
        let page = include_str!("../../docs/configuration.md");
        assert!(page == Settings::read(EXAMPLE).page(), "docs/configuration.md is out of date: run ./dev docs");
    }
}
