//! How an Android device's zygotes preload: what they are told, and what they say that they did. Their side is in
//! `android/integration`.

use std::fmt;

use brisk_sys::Root;
use brisk_sys::system::android_properties;

/// The property that tells them how, in all boots to come; empty, it leaves that to `ro.zygote.preload`.
pub const MODE: &str = "persist.brisk.preload";
/// The same, as the system was built.
const BUILT: &str = "ro.zygote.preload";
/// What they say that they did in this boot: the first zygote's, and the second one's where a device has two.
const REPORTS: [&str; 2] = ["brisk.preloaded.64", "brisk.preloaded.32"];

const CLASS_LIST: &str = "/system/etc/preloaded-classes";
const PLAN: &str = "/system/etc/preload.plan";
/// What stands while one of them preloads in parallel.
const MARKERS: [&str; 2] = ["/metadata/brisk/preload64", "/metadata/brisk/preload32"];

/// What a zygote did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preloaded {
    /// The mode that ran.
    pub mode: String,
    /// How long classes and resources took, in milliseconds.
    pub took_ms: u32,
    /// Why no other mode ran; empty where none was asked for.
    pub reason: String,
}

impl Preloaded {
    /// Reads `MODE MILLISECONDS[ REASON]`.
    fn of(text: &str) -> Option<Self> {
        let (mode, rest) = text.split_once(' ')?;
        let (took_ms, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self { mode: mode.to_owned(), took_ms: took_ms.parse().ok()?, reason: reason.to_owned() })
    }
}

impl fmt::Display for Preloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} ms", self.mode, self.took_ms)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}

/// What this boot's zygotes say, the first one's first; nothing where they are not brisk's.
pub fn preloaded(root: &Root) -> Vec<Preloaded> {
    let said = REPORTS.iter().filter_map(|name| android_properties::value(root, name));
    said.filter_map(|text| Preloaded::of(&text)).collect()
}

/// Whether there is a plan to preload by.
pub fn has_plan(root: &Root) -> bool {
    root.exists(PLAN)
}

/// How this device's zygote preloads, for people; nothing where there is none.
pub fn preloading(root: &Root) -> Option<String> {
    if !root.exists(CLASS_LIST) {
        return None;
    }
    let set = android_properties::value(root, MODE).filter(|mode| !mode.is_empty());
    let name = if set.is_some() { MODE } else { BUILT };
    let mode = set.or_else(|| android_properties::value(root, BUILT)).unwrap_or_default();
    let is_parallel = matches!(mode.as_str(), "ahead" | "plan");
    if let Some(done) = preloaded(root).first() {
        let advice = if is_parallel { String::new() } else { format!("; {BUILT}=ahead makes it several threads") };
        return Some(format!("in this boot the zygote preloaded {done}{advice}"));
    }
    Some(if is_parallel && MARKERS.iter().any(|marker| root.exists(marker)) {
        format!("the zygote's last preload ({name}={mode}) did not end, so the next one is in order")
    } else if mode == "plan" && !has_plan(root) {
        format!("the zygote is to preload by a plan, and there is no {PLAN}: `brisk boot plan` makes it")
    } else if is_parallel {
        format!("the zygote preloads on several threads ({name}={mode})")
    } else {
        format!("the zygote preloads on one thread: with brisk's, {BUILT}=ahead makes it several")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::area;

    // Verifies PRELOAD-2.
    #[test]
    fn the_zygotes_side_uses_the_same_names() {
        let side = include_str!("../../../../android/integration/zygote/ZygotePreload.java");
        let contexts = include_str!("../../../../android/integration/sepolicy/property_contexts");
        let has_label = |name: &str| contexts.lines().any(|line| line.split_whitespace().next() == Some(name));
        let without_bits = |name: &'static str| &name[..name.len() - 2];
        for name in [MODE, BUILT, CLASS_LIST, PLAN]
            .into_iter()
            .chain(REPORTS.map(without_bits))
            .chain(MARKERS.map(without_bits))
        {
            assert!(side.contains(&format!("\"{name}\"")), "{name}");
        }
        for name in [MODE].into_iter().chain(REPORTS) {
            assert!(has_label(name), "{name}");
        }
    }

    // Verifies PRELOAD-2.
    #[test]
    fn a_zygotes_word_is_read_or_counts_for_nothing() {
        let done = |mode: &str, took_ms, reason: &str| {
            Some(Preloaded { mode: mode.to_owned(), took_ms, reason: reason.to_owned() })
        };
        for (said, expected) in [
            ("plan 812", done("plan", 812, "")),
            ("off 1650 there is no plan", done("off", 1650, "there is no plan")),
            ("", None),
            ("plan", None),
            ("plan -1", None),
            ("plan 1.5 s", None),
        ] {
            assert_eq!(Preloaded::of(said), expected, "{said}");
        }
        assert_eq!(done("plan", 812, "").unwrap().to_string(), "plan in 812 ms");
        assert_eq!(done("off", 9, "one processor").unwrap().to_string(), "off in 9 ms (one processor)");
    }

    // Verifies PRELOAD-2.
    #[test]
    fn a_zygotes_preload_mode_follows_its_properties_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |file: &str, bytes: &[u8]| {
            std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
            std::fs::write(root.path(file), bytes).unwrap();
        };
        let set = |properties: &[(&str, &str)]| write("/dev/__properties__/properties", &area(properties));
        assert_eq!(preloading(&root), None, "there is no zygote");
        write(CLASS_LIST, b"android.app.Activity\n");
        let said = || preloading(&root).unwrap();
        assert!(said().contains("on one thread: with brisk's, ro.zygote.preload=ahead"), "{}", said());
        for (built, chosen, expected) in [
            ("off", "", "on one thread"),
            ("ahead", "", "on several threads (ro.zygote.preload=ahead)"),
            ("ahead", "off", "on one thread"),
            ("off", "ahead", "on several threads (persist.brisk.preload=ahead)"),
            ("plan", "", "there is no /system/etc/preload.plan"),
        ] {
            set(&[(BUILT, built), (MODE, chosen)]);
            assert!(said().contains(expected), "{}", said());
        }
        write(PLAN, b"");
        assert!(said().ends_with("several threads (ro.zygote.preload=plan)"), "{}", said());
        write(MARKERS[1], b"");
        assert!(said().contains("did not end"), "{}", said());
        set(&[(BUILT, "plan"), (REPORTS[1], "plan 7"), (REPORTS[0], "off 812 the last preload did not end")]);
        assert_eq!(said(), "in this boot the zygote preloaded off in 812 ms (the last preload did not end)");
        assert_eq!(preloaded(&root).len(), 2);
        set(&[(REPORTS[0], "off 812")]);
        assert!(said().ends_with("off in 812 ms; ro.zygote.preload=ahead makes it several threads"), "{}", said());
    }
}
