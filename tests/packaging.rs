//! What packages install, read from their recipes: none of these build systems runs here.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use brisk::config::Layers;
use brisk::mechanism::Enabled;

const BUILDROOT: &str = "packaging/buildroot/package/brisk/brisk.mk";
const YOCTO: &str = "packaging/yocto/recipes-core/brisk/brisk_git.bb";
const DEBIAN: &str = "Cargo.toml";

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
    assert!(text(DEBIAN).contains("[\"target/device/brisk-x86_64\", \"usr/bin/brisk\""), "what build-release makes");
}

#[test]
fn each_package_installs_the_settings_with_their_defaults() {
    for file in [BUILDROOT, YOCTO, DEBIAN] {
        assert!(text(file).contains("packaging/brisk.toml"), "{file}");
    }
}

/// The real reader takes each, and none overrules what is known of a device.
// Verifies INSTALL-1.
#[test]
fn each_profile_is_a_configuration_that_leaves_switching_to_the_device() {
    for profile in ["desktop", "board", "phone"] {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("packaging/profiles/{profile}.toml"));
        let layers = Layers::read_only(&file).unwrap();
        let config = &layers.config;
        let switches =
            [config.launch.enabled, config.placement.enabled, config.memory.zram.enabled, config.memory.killer.enabled];
        assert_eq!(switches, [Enabled::Auto; 4], "{profile}");
        assert!(layers.settings["launch.enabled"].origin.is_some(), "{profile} says so itself");
    }
    let profiles = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/profiles")).unwrap();
    assert_eq!(profiles.count(), 3, "each profile is tried here");
}

// Verifies INSTALL-1.
#[test]
fn each_package_installs_the_profile_of_its_devices_where_brisk_reads_it() {
    let is_installed = |file: &str, profile: &str, place: &str| {
        text(file)
            .lines()
            .any(|line| line.contains(&format!("packaging/profiles/{profile}.toml")) && line.contains(place))
    };
    assert!(is_installed(DEBIAN, "desktop", "usr/lib/brisk/brisk.toml"));
    assert!(is_installed(BUILDROOT, "board", "$(TARGET_DIR)/usr/lib/brisk/brisk.toml"));
    assert!(is_installed(YOCTO, "board", "${D}${nonarch_libdir}/brisk/brisk.toml"));
    assert!(is_installed("README.md", "desktop", "/usr/lib/brisk/brisk.toml"));
    // The image and the module of Android install it from its own folder (android_module.rs).
    assert_eq!(text("packaging/profiles/phone.toml"), text("android/integration/brisk.toml"));
}

// Verifies INSTALL-1.
#[test]
fn removing_the_package_restores_and_purging_it_leaves_nothing_behind() {
    assert!(text("packaging/debian/prerm").contains("brisk restore"));
    let purge = text("packaging/debian/postrm");
    for file in ["setup.toml", "switched.toml"] {
        assert!(purge.contains(&format!("/etc/brisk/brisk.toml.d/{file}")), "{file}");
    }
    assert!(text("android/integration/module/uninstall.sh").contains("/data/misc/brisk-config"));
}

#[test]
fn recipes_and_the_readme_name_files_that_exist() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for file in [BUILDROOT, YOCTO, DEBIAN, "README.md"] {
        let text = text(file);
        let words = text.split(|letter: char| letter.is_whitespace() || "\"'`()[]{},$@:".contains(letter));
        for word in words.filter_map(|word| word.find("packaging/").map(|at| &word[at..])) {
            named += 1;
            let path = word.trim_end_matches(['.', '/']);
            assert!(path.contains('*') || top.join(path).exists(), "{file} names {word}");
        }
    }
    assert!(named > 10, "{named}");
}

#[test]
fn the_readme_installs_what_the_release_build_makes() {
    let installs: Vec<String> =
        text("README.md").lines().filter(|line| line.starts_with("install ")).map(str::to_owned).collect();
    assert!(installs.len() >= 3, "{installs:?}");
    for line in installs {
        let source = line.split_whitespace().nth(3).unwrap();
        let built =
            source.starts_with("target/device/brisk-") && text("packaging/build-release").contains("target/device");
        assert!(built || Path::new(env!("CARGO_MANIFEST_DIR")).join(source).exists(), "{line}");
    }
}

/// The options that a kernel needs for process events, as each build system sets them.
#[test]
fn buildroot_and_yocto_ask_the_kernel_for_the_same() {
    let options = |text: &str| -> BTreeSet<String> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        words.filter(|word| word.starts_with("CONFIG_")).map(str::to_owned).collect()
    };
    let buildroot = options(&text(BUILDROOT));
    assert!(buildroot.contains("CONFIG_PROC_EVENTS"), "{buildroot:?}");
    assert_eq!(options(&text("packaging/yocto/recipes-kernel/linux/files/brisk.cfg")), buildroot);
}
