//! What this device supports for a faster boot, for `brisk doctor`.

use super::governor_hold::PERFORMANCE;
use super::zygote;
use crate::{Support, SupportState};
use brisk_sys::Root;
use brisk_sys::cpu::cpufreq::{FrequencyPolicy, Policies};
use brisk_sys::kernel;

/// The kernel parameter that chooses the governor before any program runs (Linux 5.9).
const PARAMETER: &str = "cpufreq.default_governor";

/// Which governors can be held, and how a zygote preloads. Every device can record a boot.
pub fn support(root: &Root) -> Support {
    let mut support = governors(root);
    if let Some(preloading) = zygote::preloading(root) {
        support.reason = format!("{}; {preloading}", support.reason);
    }
    support
}

fn governors(root: &Root) -> Support {
    let policies = Policies::read(root).list;
    let command_line = root.read("/proc/cmdline").unwrap_or_default();
    let has_parameter = kernel::release(root).as_deref().and_then(kernel::version).is_some_and(|it| it >= (5, 9));
    let available = |reason: String, advice: String| Support { state: SupportState::Available, reason, advice };
    let fast = |policy: &&FrequencyPolicy| policy.governor == PERFORMANCE;
    let held =
        |policy: &&FrequencyPolicy| !fast(policy) && policy.available_governors.iter().any(|it| it == PERFORMANCE);
    let names = |wanted: &dyn Fn(&&FrequencyPolicy) -> bool| {
        policies.iter().filter(|it| wanted(it)).map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    if command_line.split_ascii_whitespace().any(|word| word == format!("{PARAMETER}={PERFORMANCE}")) {
        let reason = format!("the kernel's command line has {PARAMETER}={PERFORMANCE}");
        let advice = "`brisk boot hold --then GOVERNOR` hands over when the boot has completed.".to_owned();
        return available(reason, advice);
    }
    if policies.iter().any(|policy| held(&policy)) {
        let reason = format!("boots can be recorded, and {} can boot under {PERFORMANCE}", names(&held));
        let earlier =
            format!("{PARAMETER}={PERFORMANCE} on the kernel's command line, with --then, holds it from the start");
        let hold = "`brisk boot hold` holds it until the boot has completed.";
        let advice = if has_parameter { format!("{hold} {earlier}.") } else { hold.to_owned() };
        return available(reason, advice);
    }
    let why = match policies.len() {
        0 => "there is no cpufreq policy".to_owned(),
        _ if policies.iter().all(|policy| fast(&policy)) => format!("{} is under {PERFORMANCE} already", names(&fast)),
        _ => format!("{} has no governor {PERFORMANCE}", names(&|policy| !fast(policy))),
    };
    available(format!("boots can be recorded; {why}, so no governor is handed over"), String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_depends_on_governor_kernel_and_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let write = |file: &str, text: &str| {
            std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
            std::fs::write(root.path(file), text).unwrap();
        };
        let policy = "/sys/devices/system/cpu/cpufreq/policy0";
        assert!(support(&root).reason.ends_with("there is no cpufreq policy, so no governor is handed over"));
        write(&format!("{policy}/affected_cpus"), "0");
        write(&format!("{policy}/scaling_governor"), "ondemand");
        assert!(support(&root).reason.contains("policy0 has no governor performance"));
        write(&format!("{policy}/scaling_available_governors"), "ondemand performance");
        write("/proc/sys/kernel/osrelease", "4.4.194");
        assert_eq!(support(&root).advice, "`brisk boot hold` holds it until the boot has completed.");
        write("/proc/sys/kernel/osrelease", "6.1.0");
        assert!(support(&root).advice.contains("cpufreq.default_governor=performance"));
        write(&format!("{policy}/scaling_governor"), "performance");
        assert!(support(&root).reason.contains("is under performance already"));
        write("/proc/cmdline", "quiet cpufreq.default_governor=performance");
        assert!(support(&root).advice.contains("--then GOVERNOR"));
    }
}
