//! What this device supports: a binder driver, and in it a cache that is switched on.

use crate::{Support, SupportState};
use brisk_sys::Root;
use brisk_sys::binder::cache::{self, CacheStatus};
use brisk_sys::error::DeviceError;

/// The paths of binder devices.
const DEVICES: [&str; 2] = ["/dev/binder", "/dev/binderfs/binder"];

const LINUX_ADVICE: &str = "Build the driver in kernel/binder-cache for this kernel, or install its DKMS package.";
const ANDROID_ADVICE: &str = "This needs a kernel image of your own with kernel/binder-cache: Android's kernels have their binder \
                               driver built in, and no module replaces it.";

/// What this device offers for service lookups.
pub fn support(root: &Root) -> Support {
    if !DEVICES.iter().any(|device| root.exists(device)) {
        return Support {
            state: SupportState::Unsupported,
            reason: format!("{} does not exist: no process looks services up here", DEVICES[0]),
            advice: String::new(),
        };
    }
    match cache::status(root) {
        Ok(contexts) => of_contexts(&contexts),
        Err(error) if error.is_missing() => Support {
            state: SupportState::Unsupported,
            reason: format!("{} does not exist: this kernel's binder driver keeps no answers", cache::folder()),
            advice: if root.is_android() { ANDROID_ADVICE } else { LINUX_ADVICE }.to_owned(),
        },
        Err(error) => unreadable(&error),
    }
}

fn unreadable(error: &DeviceError) -> Support {
    Support { state: SupportState::Available, reason: error.to_string(), advice: error.advice().to_owned() }
}

fn of_contexts(contexts: &[CacheStatus]) -> Support {
    let count = |context: &CacheStatus, name: &str| context.counters.get(name).copied().unwrap_or(0);
    let active: Vec<&CacheStatus> = contexts.iter().filter(|context| context.state == "active").collect();
    if !active.is_empty() {
        let of = |context: &&CacheStatus| {
            let name = format!("{} ({})", context.context, context.mode);
            if context.counters.is_empty() {
                return name;
            }
            let (hits, misses) = (count(context, "hits"), count(context, "misses"));
            let rate = context.hit_ratio().map(|ratio| format!(" ({:.1} %)", ratio * 100.0)).unwrap_or_default();
            format!("{name}: {hits} of {} lookups{rate}", hits + misses)
        };
        let answered = active.iter().map(of).collect::<Vec<_>>().join(", ");
        return Support {
            state: SupportState::Active,
            reason: format!("the binder driver has answered for {answered}"),
            advice: String::new(),
        };
    }
    let state = |CacheStatus { context, state, mode, .. }: &CacheStatus| match state == mode {
        true => format!("{context} is {state}"),
        false => format!("{context} is {state} ({mode})"),
    };
    let states: Vec<String> = contexts.iter().map(state).collect();
    let advice = if contexts.iter().any(|context| context.state == "refused") {
        "The profile is of another Android release: write the right one (brisk lookup profile) to `profile`."
    } else {
        "`brisk enable lookup` has the daemon set it: for a context manager that opts in, or with lookup.mode = \
         \"transparent\" for one that knows nothing of it."
    };
    let reason = if states.is_empty() {
        format!("{} is empty: no binder device is open", cache::folder())
    } else {
        format!("{}: {}", cache::folder(), states.join(", "))
    };
    Support { state: SupportState::Available, reason, advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::test_trees::root_of;

    fn context(state: &str) -> Vec<(&'static str, String)> {
        vec![
            ("dev/binder", String::new()),
            ("sys/kernel/binder_cache/binder/mode", "cooperative\n".into()),
            ("sys/kernel/binder_cache/binder/state", format!("{state}\n")),
            ("sys/kernel/binder_cache/binder/policy", "lru\n".into()),
            ("sys/kernel/binder_cache/binder/capacity", "2048\n".into()),
            ("sys/kernel/binder_cache/binder/stats", "hits 30\nmisses 10\n".into()),
        ]
    }

    // Verifies LOOKUP-8, ANDROID-1.
    #[test]
    fn support_follows_the_driver_and_its_state() {
        let state_of = |files: &[(&str, String)]| {
            let files: Vec<(&str, &str)> = files.iter().map(|(file, text)| (*file, text.as_str())).collect();
            let (_folder, root) = root_of(&files);
            let support = support(&root);
            (support.state, support.reason)
        };
        for (files, state, reason) in [
            (vec![], SupportState::Unsupported, "/dev/binder does not exist"),
            (vec![("dev/binder", String::new())], SupportState::Unsupported, "keeps no answers"),
            (context("waiting"), SupportState::Available, "binder is waiting (cooperative)"),
            (context("refused"), SupportState::Available, "binder is refused"),
            (context("active"), SupportState::Active, "binder (cooperative): 30 of 40 lookups (75.0 %)"),
        ] {
            let found = state_of(&files);
            assert!(found.0 == state && found.1.contains(reason), "{found:?}");
        }
        let (_folder, phone) = root_of(&[("dev/binder", ""), ("system/build.prop", "")]);
        let advice = support(&phone).advice;
        assert!(advice.contains("a kernel image of your own") && !advice.contains("DKMS"), "{advice}");
        // As a user sees it that may not read the counters.
        let mut uncounted = context("active");
        uncounted.last_mut().unwrap().1.clear();
        let (state, reason) = state_of(&uncounted);
        assert!(state == SupportState::Active && reason.ends_with("for binder (cooperative)"), "{reason}");
        let mut damaged = context("active");
        damaged.last_mut().unwrap().1 = "hits many\n".into();
        assert_eq!(state_of(&damaged).0, SupportState::Available);
    }
}
