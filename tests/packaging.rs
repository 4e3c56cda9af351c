//! What packages install, read from their recipes: these build systems do not run here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use brisk::config::Layers;
use brisk::mechanism::Enabled;

const BUILDROOT: &str = "packaging/buildroot/package/brisk/brisk.mk";
const YOCTO: &str = "packaging/yocto/recipes-core/brisk/brisk_git.bb";
/// The tarballs and Debian's packages.
const RELEASE: &str = "packaging/release";

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

#[test]
fn a_device_gets_the_program_without_charts_and_laboratory() {
    for file in [BUILDROOT, YOCTO] {
        let text = text(file);
        let builds = text.lines().filter(|line| line.contains("--bin brisk"));
        assert!(builds.clone().count() > 0, "{file} names no program");
        for line in builds {
            assert!(line.contains("--no-default-features --bin brisk"), "{file}: {line}");
        }
    }
    assert!(text("packaging/build-release").contains("--no-default-features --bin brisk"));
}

#[test]
fn each_package_installs_the_settings_with_their_defaults() {
    for file in [BUILDROOT, YOCTO, RELEASE] {
        assert!(text(file).contains("packaging/brisk.toml"), "{file}");
    }
}

/// brisk's parser accepts each profile, and no profile overrides the detection of the device.
// Verifies INSTALL-1.
#[test]
fn each_profile_is_valid_and_switches_nothing_on_or_off() {
    for profile in ["desktop", "board", "phone"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("packaging/profiles/{profile}.toml"));
        let layers = Layers::read_only(&file).unwrap();
        let config = &layers.config;
        let switches =
            [config.launch.enabled, config.placement.enabled, config.memory.zram.enabled, config.memory.killer.enabled];
        assert_eq!(switches, [Enabled::Auto; 4], "{profile}");
        assert!(layers.settings["launch.enabled"].origin.is_some(), "{profile} sets it explicitly");
    }
    let profiles = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/profiles")).unwrap();
    assert_eq!(profiles.count(), 3, "each profile is tested here");
}

// Verifies INSTALL-1.
#[test]
fn each_package_installs_its_profile_where_brisk_reads_it() {
    let is_installed = |file: &str, profile: &str, place: &str| {
        text(file)
            .lines()
            .any(|line| line.contains(&format!("packaging/profiles/{profile}.toml")) && line.contains(place))
    };
    assert!(is_installed(RELEASE, "desktop", "/lib/brisk/brisk.toml"));
    assert!(is_installed(BUILDROOT, "board", "$(TARGET_DIR)/usr/lib/brisk/brisk.toml"));
    assert!(is_installed(YOCTO, "board", "${D}${nonarch_libdir}/brisk/brisk.toml"));
    // Android's image and module install it from their own folder (android_module.rs).
    assert_eq!(text("packaging/profiles/phone.toml"), text("android/integration/brisk.toml"));
}

// Verifies INSTALL-1.
#[test]
fn removing_the_package_restores_and_purging_leaves_nothing() {
    assert!(text("packaging/debian/brisk/prerm").contains("brisk restore"));
    let purge = text("packaging/debian/brisk/postrm");
    for file in ["setup.toml", "switched.toml"] {
        assert!(purge.contains(&format!("/etc/brisk/brisk.toml.d/{file}")), "{file}");
    }
    assert!(text("android/integration/module/uninstall.sh").contains("/data/misc/brisk-config"));
}

#[test]
fn recipes_and_the_readme_name_files_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for file in [BUILDROOT, YOCTO, RELEASE, "README.md"] {
        let text = text(file).replace("$(@D)", " ");
        let words = text.split(|letter: char| letter.is_whitespace() || "\"'`()[]{},$:".contains(letter));
        for word in words.filter_map(|word| word.find("packaging/").map(|at| &word[at..])) {
            named += 1;
            let path = word.trim_end_matches(['.', '/']);
            assert!(path.contains('*') || top.join(path).exists(), "{file} names {word}");
        }
    }
    assert!(named > 10, "{named}");
}

/// Packages, man pages and the driver have the version of Cargo.toml. packaging/release reads it there.
// Verifies INSTALL-2.
#[test]
fn all_packages_have_one_version() {
    let version = env!("CARGO_PKG_VERSION");
    for (file, line) in [
        ("Cargo.toml", format!("version = \"{version}\"")),
        ("kernel/binder-cache/dkms.conf", format!("PACKAGE_VERSION=\"{version}\"")),
        (YOCTO, format!("PV = \"{version}+git\"")),
        ("CITATION.cff", format!("version: {version}")),
        ("android/preload/pom.xml", format!("  <version>{version}</version>")),
    ] {
        assert!(text(file).lines().any(|found| found == line), "{file} has no line {line}");
    }
    for name in [format!("brisk_{version}_amd64.deb"), format!("brisk-{version}-x86_64.tar.gz")] {
        assert!(text("README.md").contains(&name), "the README does not name the version of {name}");
    }
}

/// Built in two folders, with different times, umask, time zone and locale.
// Verifies INSTALL-2.
#[test]
fn packages_are_reproducible() {
    let sums = ["first", "a/second/elsewhere"].map(|name| {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join(name);
        fs::create_dir_all(&tree).unwrap();
        let script = "
            umask $1; cd \"$2\"; shift 2; cp -r \"$@\" .; mkdir -p android kernel in/man in/completions
            cp -r \"$top/android/integration\" android/; cp -r \"$top/kernel/binder-cache\" kernel/
            echo '#!/bin/sh' >in/brisk-x86_64
            for file in man/brisk.1 man/brisk.toml.5 completions/brisk.bash completions/_brisk completions/brisk.fish brisk.cdx.json; do
                echo text >in/$file
            done
            packaging/release in out x86_64 >&2; cat out/SHA256SUMS";
        let top = env!("CARGO_MANIFEST_DIR");
        let copied = ["packaging", "Cargo.toml", "LICENSE", "README.md", "CHANGELOG.md"];
        let is_first = name == "first";
        let output = Command::new("sh")
            .args(["-ec", script, "sh", if is_first { "022" } else { "077" }])
            .arg(&tree)
            .args(copied.map(|file| format!("{top}/{file}")))
            .env("top", top)
            .env("SOURCE_DATE_EPOCH", "1700000000")
            .env("TZ", if is_first { "UTC" } else { "Asia/Tokyo" })
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    assert_eq!(sums[0].lines().count(), 5, "{}", sums[0]);
    assert_eq!(sums[0], sums[1]);
}

/// Buildroot enables each unit that no preset names: without one, every boot would be recorded and held.
#[test]
fn buildroots_preset_names_each_unit_and_enables_the_daemon_alone() {
    let (recipe, preset) = (text(BUILDROOT), text("packaging/buildroot/package/brisk/brisk.preset"));
    let mut units = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/systemd")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if text(&format!("packaging/systemd/{name}")).lines().any(|line| line == "[Install]") {
            units += 1;
            let expected = format!("{} {name}", if name == "brisk.service" { "enable" } else { "disable" });
            assert!(recipe.contains(&name) && preset.lines().any(|line| line == expected), "{expected}");
        }
    }
    assert_eq!(units, preset.lines().filter(|line| !line.starts_with('#')).count());
    assert!(recipe.contains("brisk.preset"), "{BUILDROOT} does not install it");
}

/// The kernel options for process events, as each build system sets them.
#[test]
fn buildroot_and_yocto_set_the_same_kernel_options() {
    let options = |text: &str| -> BTreeSet<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("CONFIG_")).map(str::to_owned).collect()
    };
    let buildroot = options(&text(BUILDROOT));
    assert!(buildroot.contains("CONFIG_PROC_EVENTS"), "{buildroot:?}");
    assert_eq!(options(&text("packaging/yocto/recipes-kernel/linux/files/brisk.cfg")), buildroot);
}
