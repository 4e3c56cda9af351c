//! Embeds the sources of the kernel modules, so that an installed brisk can build them for its lab.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let manifest = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let kernel = Path::new(&manifest).join("../../kernel");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", kernel.display());
    let mut list = String::from("&[\n");
    for folder in sorted(&kernel) {
        let patches = sorted(&kernel.join(&folder).join("patches")).into_iter().map(|file| format!("patches/{file}"));
        for file in sorted(&kernel.join(&folder)).into_iter().filter(|file| is_source(file)).chain(patches) {
            let path = kernel.join(&folder).join(&file);
            println!("cargo:rerun-if-changed={}", path.display());
            writeln!(list, "    ({folder:?}, {file:?}, include_bytes!({path:?})),").expect("a string takes all");
        }
    }
    list.push(']');
    let output = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("module_sources.rs");
    fs::write(&output, list).expect("OUT_DIR can be written");
}

fn sorted(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// Files that kbuild needs; build products are excluded.
fn is_source(file: &str) -> bool {
    ["Makefile", "Kbuild"].contains(&file)
        || ((file.ends_with(".c") || file.ends_with(".h")) && !file.ends_with(".mod.c"))
}
