//! How an Android device's zygotes preload: how they are configured, and what they report. The zygote's side is in
//! `android/integration`.

use std::fmt;

use brisk_sys::Root;
use brisk_sys::system::android_properties;

/// The property that sets the mode for all boots to come; when it is empty, `ro.zygote.preload` applies.
pub const MODE: &str = "persist.brisk.preload";
/// The mode that the system was built with.
const BUILD_MODE: &str = "ro.zygote.preload";
/// The zygotes' reports of this boot: the first zygote's, and the second one's where a device has two.
const REPORTS: [&str; 2] = ["brisk.preloaded.64", "brisk.preloaded.32"];

const CLASS_LIST: &str = "/system/etc/preloaded-classes";
const PLAN: &str = "/system/etc/preload.plan";
/// Files that exist while a zygote preloads in parallel.
const MARKERS: [&str; 2] = ["/metadata/brisk/preload64", "/metadata/brisk/preload32"];

/// A zygote's report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreloadReport {
    /// The mode that ran.
    pub mode: String,
    /// How long classes and resources took, in milliseconds.
    pub took_ms: u32,
    /// Why no other mode ran; empty where none was requested.
    pub reason: String,
}

impl PreloadReport {
    /// Reads `MODE MILLISECONDS[ REASON]`.
    fn of(text: &str) -> Option<Self> {
        let (mode, rest) = text.split_once(' ')?;
        let (took_ms, reason) = rest.split_once(' ').unwrap_or((rest, ""));
        Some(Self { mode: mode.to_owned(), took_ms: took_ms.parse().ok()?, reason: reason.to_owned() })
    }
}

impl fmt::Display for PreloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {} ms", self.mode, self.took_ms)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}

/// The reports of this boot's zygotes, the first one's first; empty where the zygotes are not brisk's.
pub fn preloaded(root: &Root) -> Vec<PreloadReport> {
    let reports = REPORTS.iter().filter_map(|name| android_properties::value(root, name));
    reports.filter_map(|text| PreloadReport::of(&text)).collect()
}

/// Whether a plan for preloading exists.
pub fn has_plan(root: &Root) -> bool {
    root.exists(PLAN)
}

/// How this device's zygote preloads, in words; `None` where there is no zygote.
pub fn preloading(root: &Root) -> Option<String> {
    if !root.exists(CLASS_LIST) {
        return None;
    }
    let set = android_properties::value(root, MODE).filter(|mode| !mode.is_empty());
    let name = if set.is_some() { MODE } else { BUILD_MODE };
    let mode = set.or_else(|| android_properties::value(root, BUILD_MODE)).unwrap_or_default();
    let is_parallel = matches!(mode.as_str(), "ahead" | "plan");
    if let Some(done) = preloaded(root).first() {
        let advice = if is_parallel { String::new() } else { format!("; {BUILD_MODE}=ahead makes it several threads") };
        return Some(format!("in this boot the zygote preloaded {done}{advice}"));
    }
    Some(if is_parallel && MARKERS.iter().any(|marker| root.exists(marker)) {
        format!("the zygote's last preload ({name}={mode}) did not end, so the next one is sequential")
    } else if mode == "plan" && !has_plan(root) {
        format!("the zygote is to preload by a plan, but {PLAN} does not exist: `brisk boot plan` creates it")
    } else if is_parallel {
        format!("the zygote preloads on several threads ({name}={mode})")
    } else {
        format!("the zygote preloads on one thread: with brisk's, {BUILD_MODE}=ahead makes it several")
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
        for name in [MODE, BUILD_MODE, CLASS_LIST, PLAN]
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
    fn a_malformed_zygote_report_is_ignored() {
        let done = |mode: &str, took_ms, reason: &str| {
            Some(PreloadReport { mode: mode.to_owned(), took_ms, reason: reason.to_owned() })
        };
        for (report, expected) in [
            ("plan 812", done("plan", 812, "")),
            ("off 1650 there is no plan", done("off", 1650, "there is no plan")),
            ("", None),
            ("plan", None),
            ("plan -1", None),
            ("plan 1.5 s", None),
        ] {
            assert_eq!(PreloadReport::of(report), expected, "{report}");
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
        let state = || preloading(&root).unwrap();
        assert!(state().contains("on one thread: with brisk's, ro.zygote.preload=ahead"), "{}", state());
        for (built, chosen, expected) in [
            ("off", "", "on one thread"),
            ("ahead", "", "on several threads (ro.zygote.preload=ahead)"),
            ("ahead", "off", "on one thread"),
            ("off", "ahead", "on several threads (persist.brisk.preload=ahead)"),
            ("plan", "", "but /system/etc/preload.plan does not exist"),
        ] {
            set(&[(BUILD_MODE, built), (MODE, chosen)]);
            assert!(state().contains(expected), "{}", state());
        }
        write(PLAN, b"");
        assert!(state().ends_with("several threads (ro.zygote.preload=plan)"), "{}", state());
        write(MARKERS[1], b"");
        assert!(state().contains("did not end"), "{}", state());
        set(&[(BUILD_MODE, "plan"), (REPORTS[1], "plan 7"), (REPORTS[0], "off 812 the last preload did not end")]);
        assert_eq!(state(), "in this boot the zygote preloaded off in 812 ms (the last preload did not end)");
        assert_eq!(preloaded(&root).len(), 2);
        set(&[(REPORTS[0], "off 812")]);
        assert!(state().ends_with("off in 812 ms; ro.zygote.preload=ahead makes it several threads"), "{}", state());
    }
}
