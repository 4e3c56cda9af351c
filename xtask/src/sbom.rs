//! The bill of materials of the program that a device carries: CycloneDX 1.6, from what cargo resolves for its targets.
//!
//! It runs `cargo tree`, because `cargo metadata` unites the features of the whole workspace: it would list dependencies that
//! only the laboratory needs.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];
const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// A crate that is linked in.
#[derive(Debug, Default, PartialEq, Eq)]
struct Component {
    licence: String,
    /// The crates that it uses.
    uses: BTreeSet<Key>,
}

/// A crate's name and version.
type Key = (String, String);

/// Writes the bill to `file`.
pub fn run(file: &Path) -> anyhow::Result<()> {
    let mut components = BTreeMap::new();
    for target in TARGETS {
        add(&mut components, &tree(target)?)?;
    }
    let lock = fs::read_to_string(Path::new(REPOSITORY).join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let compiler = output("rustc", &["--version"])?;
    let epoch = match env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => epoch,
        Err(_) => output("git", &["log", "-1", "--format=%ct"])?,
    };
    let time = output("date", &["-u", "-d", &format!("@{epoch}"), "+%Y-%m-%dT%H:%M:%SZ"])?;
    let bill = bill(&components, &checksums(&lock)?, &compiler, &time)?;
    let text = serde_json::to_string_pretty(&bill)? + "\n";
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{} crates in {}", components.len() - 1, file.display());
    Ok(())
}

fn output(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).current_dir(REPOSITORY).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    ensure!(output.status.success(), "{program} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The crates that are linked for `target`: one per line, after its depth below the program. Crates that only run in the
/// compiler (build scripts and procedural macros) are excluded.
fn tree(target: &str) -> anyhow::Result<String> {
    let edges = "normal,no-proc-macro";
    let options = ["--package", "brisk", "--no-default-features", "--target", target, "--edges", edges];
    let form = ["--locked", "--quiet", "--prefix", "depth", "--no-dedupe", "--format", "|{p}|{l}"];
    output(&env::var("CARGO").unwrap_or_else(|_| "cargo".into()), &[&["tree"][..], &options, &form].concat())
}

/// Adds the lines of [`tree`] to `components`.
fn add(components: &mut BTreeMap<Key, Component>, tree: &str) -> anyhow::Result<()> {
    let mut path: Vec<Key> = Vec::new();
    for line in tree.lines() {
        let mut fields = line.splitn(3, '|');
        let mut field = || fields.next().with_context(|| format!("cargo tree printed {line:?}"));
        let (depth, package, licence) = (field()?.parse::<usize>()?, field()?, field()?);
        // "NAME vVERSION", and its folder where it does not come from the registry.
        let mut words = package.split_whitespace();
        let (name, version) = words.next().zip(words.next()).with_context(|| format!("no version: {line:?}"))?;
        let key = (name.to_owned(), version.trim_start_matches('v').to_owned());
        ensure!(depth <= path.len(), "cargo tree omitted the parent of {line:?}");
        path.truncate(depth);
        if let Some(above) = path.last() {
            components.entry(above.clone()).or_default().uses.insert(key.clone());
        }
        // A slash means "or" in crates older than SPDX's expressions.
        components.entry(key.clone()).or_default().licence = licence.replace('/', " OR ");
        path.push(key);
    }
    Ok(())
}

/// The checksums of the registry's crates.
fn checksums(lock: &str) -> anyhow::Result<BTreeMap<Key, String>> {
    let lock: toml::Table = lock.parse().context("Cargo.lock is no TOML")?;
    let packages = lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock lists no package")?;
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let entry = |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.iter().filter_map(entry).collect())
}

fn reference((name, version): &Key) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

fn bill(
    components: &BTreeMap<Key, Component>,
    checksums: &BTreeMap<Key, String>,
    compiler: &str,
    time: &str,
) -> anyhow::Result<Value> {
    let (program, version) = ("brisk".to_owned(), env!("CARGO_PKG_VERSION"));
    let own = (program.clone(), version.to_owned());
    let mut libraries = Vec::new();
    for (key, component) in components.iter().filter(|(key, _)| **key != own) {
        // The crates of this repository come with the program, not from a registry.
        if key.0.starts_with("brisk-") {
            libraries.push(json!({
                "type": "library", "bom-ref": reference(key), "name": key.0, "version": key.1,
                "licenses": [{ "expression": component.licence }],
            }));
            continue;
        }
        let checksum = checksums.get(key).with_context(|| format!("Cargo.lock has no checksum of {}", key.0))?;
        libraries.push(json!({
            "type": "library", "bom-ref": reference(key), "name": key.0, "version": key.1,
            "licenses": [{ "expression": component.licence }],
            "hashes": [{ "alg": "SHA-256", "content": checksum }],
            "purl": reference(key),
        }));
    }
    // Linked in as well, though cargo names neither.
    let release = compiler.split_whitespace().nth(1).context("rustc names no version")?;
    libraries.push(json!({
        "type": "library", "bom-ref": "rust-std", "name": "std", "version": release, "description": compiler,
        "licenses": [{ "expression": "MIT OR Apache-2.0" }],
    }));
    libraries.push(json!({
        "type": "library", "bom-ref": "musl", "name": "musl", "licenses": [{ "license": { "id": "MIT" } }],
        "description": format!("as it comes with Rust {release} for the targets *-unknown-linux-musl"),
    }));
    let dependencies = components.iter().map(|(key, component)| {
        let mut uses: Vec<String> = component.uses.iter().map(reference).collect();
        if *key == own {
            uses.push("rust-std".into());
        }
        json!({ "ref": reference(key), "dependsOn": uses })
    });
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "application", "bom-ref": reference(&own), "name": program, "version": version,
                "licenses": [{ "license": { "id": "Apache-2.0" } }], "purl": reference(&own),
            },
        },
        "components": libraries,
        "dependencies": dependencies.chain([json!({ "ref": "rust-std", "dependsOn": ["musl"] })]).collect::<Vec<_>>(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies INSTALL-2.
    #[test]
    fn crates_and_what_they_use_follow_from_the_depths() {
        let mut components = BTreeMap::new();
        let tree =
            "0|brisk v0.1.0 (/somewhere)|Apache-2.0\n1|a v1.0.0|MIT/Apache-2.0\n2|b v2.0.0|MIT\n1|b v2.0.0|MIT\n";
        add(&mut components, tree).unwrap();
        let key = |name: &str, version: &str| (name.to_owned(), version.to_owned());
        let uses = |name, version| components[&key(name, version)].uses.iter().cloned().collect::<Vec<_>>();
        assert_eq!(uses("brisk", "0.1.0"), [key("a", "1.0.0"), key("b", "2.0.0")]);
        assert_eq!(uses("a", "1.0.0"), [key("b", "2.0.0")]);
        assert_eq!(components[&key("a", "1.0.0")].licence, "MIT OR Apache-2.0");
        assert!(add(&mut components, "2|c v1.0.0|MIT").is_err());
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"0a\"\n";
        assert!(bill(&components, &checksums(lock).unwrap(), "rustc 1.95.0 (x)", "t").is_err(), "b has no checksum");
    }

    /// The program as it is: each crate has a licence and a checksum, and each reference leads to a component.
    // Verifies INSTALL-2.
    #[test]
    fn the_bill_of_materials_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bill");
        run(&file).unwrap();
        let bill: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let libraries = bill["components"].as_array().unwrap();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let mut references: BTreeSet<_> = libraries.iter().filter_map(|library| text(&library["bom-ref"])).collect();
        assert_eq!(references.len(), libraries.len());
        references.extend(text(&bill["metadata"]["component"]["bom-ref"]));
        for dependency in bill["dependencies"].as_array().unwrap() {
            for reference in dependency["dependsOn"].as_array().unwrap().iter().chain([&dependency["ref"]]) {
                assert!(references.contains(reference.as_str().unwrap()), "{reference}");
            }
        }
        let names: Vec<_> = libraries.iter().filter_map(|library| library["name"].as_str()).collect();
        assert!(names.contains(&"rustix") && names.contains(&"musl"), "{names:?}");
        for other in ["cpio", "resvg", "clap_mangen", "serde_derive"] {
            assert!(!names.contains(&other), "{other} is not in what a device carries");
        }
        for library in libraries {
            assert!(!library["licenses"].as_array().unwrap().is_empty(), "{library}");
        }
    }
}
