//! The book's source for mdBook: the pages of docs/ at the top, and the documents and files outside of docs/ that they link to
//! in a separate folder, with their links adjusted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};

/// The folder for files from outside of docs/.
const OUTSIDE: &str = "repository";

/// Writes the source into `target`, from the tree `repository`. Returns how many documents it holds.
///
/// # Errors
/// A page that cannot be read or written.
pub fn write(repository: &Path, target: &Path) -> anyhow::Result<usize> {
    if target.exists() {
        fs::remove_dir_all(target).with_context(|| format!("cannot remove {}", target.display()))?;
    }
    let mut pending = files(&repository.join("docs"), Path::new("docs"))?;
    // By their path in the repository: the title of a document, `None` for another file.
    let mut done: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    while let Some(path) = pending.pop() {
        if done.contains_key(&path) {
            continue;
        }
        let from = repository.join(&path);
        let to = target.join(book_path(&path));
        fs::create_dir_all(to.parent().unwrap_or(target))?;
        let mut title = None;
        if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
            let (text, linked) = relinked(&text, &path, repository);
            title = text.lines().find_map(|line| Some(line.strip_prefix("# ")?.to_owned()));
            fs::write(&to, text)?;
            pending.extend(linked);
        } else {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        }
        done.insert(path, title);
    }
    let summary = target.join("SUMMARY.md");
    let mut contents = fs::read_to_string(&summary).context("docs/SUMMARY.md is missing")?;
    contents += "\n# In the repository\n\n";
    for (path, title) in done.iter().filter(|(path, _)| !path.starts_with("docs")) {
        if let Some(title) = title {
            contents += &format!("- [{title}]({})\n", book_path(path).display());
        }
    }
    fs::write(&summary, contents)?;
    Ok(done.values().flatten().count())
}

/// All files below `folder`, by their path in the repository.
fn files(folder: &Path, name: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let name = name.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path(), &name)?);
        } else {
            found.push(name);
        }
    }
    ensure!(!found.is_empty(), "{} is empty", folder.display());
    Ok(found)
}

/// The path of the repository's file `path` in the book's source.
fn book_path(path: &Path) -> PathBuf {
    path.strip_prefix("docs").map_or_else(|_| Path::new(OUTSIDE).join(path), Path::to_owned)
}

/// The text of the document `path` with links for the book, and the files that they lead to.
fn relinked(text: &str, path: &Path, repository: &Path) -> (String, Vec<PathBuf>) {
    let mut linked = Vec::new();
    let mut parts = Vec::new();
    for (number, part) in text.split("```").enumerate() {
        // Brackets in fenced blocks are code.
        if number % 2 == 1 {
            parts.push(part.to_owned());
            continue;
        }
        let mut pieces = part.split("](");
        let mut prose = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (target, rest) = piece.split_once(')').unwrap_or((piece, ""));
            let (file, anchor) = target.split_once('#').map_or((target, ""), |(file, _)| (file, &target[file.len()..]));
            let found = normal(&path.parent().unwrap_or(Path::new("")).join(file));
            let is_file = !file.is_empty() && !target.contains("://") && repository.join(&found).is_file();
            if is_file {
                let new = relative(&book_path(path), &book_path(&found));
                prose += &format!("]({}{anchor}){rest}", new.display());
                linked.push(found);
            } else {
                prose += &format!("]({piece}");
            }
        }
        parts.push(prose);
    }
    (parts.join("```"), linked)
}

/// `path` with `..` and `.` resolved.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// The path of the file `to`, relative to the document `from`.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let folder: Vec<_> = from.parent().map(|it| it.components().collect()).unwrap_or_default();
    let target: Vec<_> = to.components().collect();
    let common = folder.iter().zip(&target).take_while(|(one, other)| one == other).count();
    let up = folder[common..].iter().map(|_| Component::ParentDir);
    up.chain(target[common..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies HOUSE-1.
    #[test]
    fn links_lead_to_where_the_book_has_the_files() {
        let tree = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("docs/SUMMARY.md", "# Summary\n\n- [A](guides/a.md)\n"),
            (
                "docs/guides/a.md",
                "# A\n[b](../b.md#x) [r](../../README.md) [w](https://x/y) ```[c](d)``` [t](../../t.toml)",
            ),
            ("docs/b.md", "# B\n![p](p.png)"),
            ("docs/p.png", ""),
            ("README.md", "# Read me\n[a](docs/guides/a.md) [c](c/README.md) [none](none.md) [here](#h)"),
            ("c/README.md", "# C\n[up](../README.md)"),
            ("t.toml", ""),
            ("left.md", "# Left"),
        ] {
            let path = tree.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let target = tree.path().join("out");
        assert_eq!(write(tree.path(), &target).unwrap(), 5);
        let read = |file: &str| fs::read_to_string(target.join(file)).unwrap();
        assert_eq!(
            read("guides/a.md"),
            "# A\n[b](../b.md#x) [r](../repository/README.md) [w](https://x/y) ```[c](d)``` [t](../repository/t.toml)"
        );
        assert_eq!(
            read("repository/README.md"),
            "# Read me\n[a](../guides/a.md) [c](c/README.md) [none](none.md) [here](#h)"
        );
        assert_eq!(read("repository/c/README.md"), "# C\n[up](../README.md)");
        assert!(read("SUMMARY.md").ends_with("- [Read me](repository/README.md)\n- [C](repository/c/README.md)\n"));
        assert!(target.join("repository/t.toml").exists() && !target.join("repository/left.md").exists());
    }
}
