//! The daemon's lookup policy: it configures the cache of the binder driver by leases, and reports what the cache answers.

use super::config::{CacheMode, LookupConfig};
use crate::enabled::decide;
use crate::lease_transaction::{Change, LeaseTransaction};
use crate::{Decision, Enabled, Event, Outcome, Policy, Support, SupportState, Target};
use brisk_sys::BootTime;
use brisk_sys::binder::WireFormat;
use brisk_sys::binder::cache::{self, CacheStatus};

/// The mechanism's name.
pub const NAME: &str = "lookup";

/// The lookup mechanism's state and its decisions.
#[derive(Debug, Default)]
pub struct LookupControl {
    config: LookupConfig,
    /// What the driver offers and has answered, as last read.
    device_support: Support,
    support: Support,
    changes: LeaseTransaction,
    /// Why the driver cannot be set as configured.
    obstacle: Option<String>,
    since: Option<BootTime>,
    /// The hits and misses of all caches when they were last counted.
    counted: Option<(u64, u64)>,
}

/// Whether `config` lets the daemon configure the driver, and why.
pub fn decision(config: &LookupConfig) -> (bool, String) {
    match config.mode {
        CacheMode::Off => (false, format!("{NAME}.mode is off: the driver is left as it is")),
        _ => decide(NAME, config.enabled, None),
    }
}

/// What `config` changes of a driver with the caches `contexts`, in the order in which it must be done: the mode is set last
/// and restored first.
///
/// # Errors
/// Why the configuration cannot be applied, in words.
pub fn changes(config: &LookupConfig, contexts: &[CacheStatus]) -> Result<Vec<Change>, String> {
    let Some(mode) = config.mode.name() else { return Ok(Vec::new()) };
    let found = named(&config.context, contexts)?;
    if config.enabled == Enabled::Auto && found.mode == "off" {
        let file = cache::control_file(&found.context, "mode");
        return Err(format!(
            "{} is off, which is not the driver's default: another writer's choice stays",
            file.display()
        ));
    }
    let mut changes = Vec::new();
    let mut change = |target: Target, value: &str| {
        let reason = format!("lookup.mode is {mode}");
        changes.push(Change { target, value: value.to_owned(), reason });
    };
    let file = |name: &str| Target::Tunable(cache::control_file(&found.context, name));
    let policy = config.policy.name();
    if policy != found.policy {
        change(file("policy"), policy);
    }
    if config.entries != found.capacity {
        change(file("capacity"), &config.entries.to_string());
    }
    if config.mode == CacheMode::Transparent {
        let format = WireFormat::named(&config.format);
        let format = format
            .ok_or_else(|| format!("lookup.format {:?} is not known: see brisk lookup profile", config.format))?;
        change(Target::LookupProfile(found.context.clone()), &format.transparent_profile());
    }
    if mode != found.mode {
        change(file("mode"), mode);
    }
    Ok(changes)
}

/// The cache of the binder device `name`. That of a device in binderfs is called `NAME.MINOR`, and its minor number differs
/// from boot to boot.
///
/// # Errors
/// In words, when no such device is open, or several binderfs have one.
fn named<'a>(name: &str, contexts: &'a [CacheStatus]) -> Result<&'a CacheStatus, String> {
    if let Some(found) = contexts.iter().find(|context| context.context == name) {
        return Ok(found);
    }
    let is_in_binderfs = |context: &&CacheStatus| {
        let minor = context.context.strip_prefix(name).and_then(|rest| rest.strip_prefix('.'));
        minor.is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let found: Vec<&CacheStatus> = contexts.iter().filter(is_in_binderfs).collect();
    match found[..] {
        [only] => Ok(only),
        [] => Err(format!("{} has no folder {name}: no such binder device is open", cache::folder())),
        [first, ..] => Err(format!(
            "{} binder devices are called {name}: set lookup.context to the folder of one in {}, such as {}",
            found.len(),
            cache::folder(),
            first.context
        )),
    }
}

impl LookupControl {
    /// Takes what the driver offers and has answered.
    pub(super) fn set_device_support(&mut self, now: BootTime, device_support: Support) {
        self.device_support = device_support;
        self.update_support(now);
    }

    /// The hits and misses of the caches `contexts` since the last call; `None` where there are none or they cannot be read, and
    /// at the first call.
    pub(super) fn count_lookups(&mut self, contexts: &[CacheStatus]) -> Option<(u64, u64)> {
        let sum = |name: &str| contexts.iter().filter_map(|context| context.counters.get(name)).sum();
        let is_known = contexts.iter().any(|context| !context.counters.is_empty());
        let before = std::mem::replace(&mut self.counted, is_known.then(|| (sum("hits"), sum("misses"))));
        let ((hits, misses), (hits_before, misses_before)) = self.counted.zip(before)?;
        // The driver was loaded again.
        let since = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        Some((since(hits, hits_before), since(misses, misses_before)))
    }

    /// Releases what it has set, where `config` differs.
    pub(super) fn release_if_changed(&mut self, config: &LookupConfig, decisions: &mut Vec<Decision>) {
        if *config != self.config {
            self.changes.release("the configuration has changed", decisions);
        }
    }

    /// Configures the driver, whose caches are `contexts`, by `config`.
    pub(super) fn set(
        &mut self,
        now: BootTime,
        config: LookupConfig,
        (device_support, contexts): (Support, &[CacheStatus]),
        decisions: &mut Vec<Decision>,
    ) {
        self.config = config;
        let (is_wanted, _) = decision(&self.config);
        if is_wanted && self.changes.is_idle() && device_support.state != SupportState::Unsupported {
            let changes = changes(&self.config, contexts);
            self.obstacle = changes.as_ref().err().cloned();
            if let Some(obstacle) = self.obstacle.as_ref().filter(|_| self.config.enabled.is_on()) {
                tracing::warn!("{NAME}: {obstacle}");
            }
            self.changes.begin(changes.unwrap_or_default());
            self.changes.advance(decisions);
        }
        self.set_device_support(now, device_support);
    }

    fn update_support(&mut self, now: BootTime) {
        let held: Vec<String> = self.changes.held().iter().map(|change| change.target.to_string()).collect();
        let is_on = !held.is_empty();
        self.since = self.since.filter(|_| is_on).or(is_on.then_some(now));
        self.support = self.device_support.clone();
        let (is_wanted, reason) = decision(&self.config);
        if !is_wanted {
            self.support.reason += &format!("; {reason}");
        } else if let Some(obstacle) = &self.obstacle {
            self.support.reason += &format!("; {obstacle}");
        }
        if self.device_support.state != SupportState::Unsupported {
            // The driver's own activity is not brisk's: the mechanism is active only where the driver is set as configured.
            let is_set = is_wanted && self.obstacle.is_none() && self.changes.refusal().is_none();
            self.support.state = if is_set { SupportState::Active } else { SupportState::Available };
        }
        if is_on {
            self.support.reason += &format!("; brisk has set {}", held.join(", "));
        }
        for stuck in self.changes.stuck() {
            self.support.reason += &format!("; restoring {} failed; will retry", stuck.target);
        }
        if let Some(error) = self.changes.refusal() {
            self.support.reason += &format!("; the driver was not set: {error}");
            self.support.advice =
                "The daemon needs root and CAP_SYS_ADMIN for that: lookup.conf beside brisk.service.".to_owned();
        }
    }
}

impl Policy for LookupControl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn support(&self) -> &Support {
        &self.support
    }

    fn on_event(&mut self, _now: BootTime, _event: &Event, _decisions: &mut Vec<Decision>) {}

    fn on_outcomes(&mut self, now: BootTime, outcomes: &[Outcome], decisions: &mut Vec<Decision>) {
        for outcome in outcomes {
            self.changes.take(outcome, decisions);
        }
        self.changes.advance(decisions);
        self.update_support(now);
    }

    fn deadline(&self) -> Option<BootTime> {
        None
    }

    fn activity(&self) -> Option<(BootTime, String)> {
        let mode = self.config.mode.name()?;
        self.since
            .map(|since| (since, format!("lookups of {} are answered in the driver ({mode})", self.config.context)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::config::EvictionPolicy;
    use crate::simulated::Kernel;
    use crate::{Action, Effect};

    fn driver(mode: &str) -> CacheStatus {
        CacheStatus {
            context: "binder".to_owned(),
            mode: mode.to_owned(),
            state: "waiting".to_owned(),
            policy: "lru".to_owned(),
            capacity: 2048,
            counters: Default::default(),
        }
    }

    fn files(config: &LookupConfig, mode: &str) -> Vec<String> {
        let config = LookupConfig { enabled: Enabled::On, ..config.clone() };
        let changes = changes(&config, &[driver(mode)]).unwrap();
        changes.iter().map(|change| change.target.to_string().rsplit('/').next().unwrap().to_owned()).collect()
    }

    // Verifies LOOKUP-6.
    #[test]
    fn only_what_differs_is_set_and_the_mode_comes_last() {
        let transparent = LookupConfig { mode: CacheMode::Transparent, ..LookupConfig::default() };
        for (config, found, expected) in [
            (LookupConfig { mode: CacheMode::Off, ..LookupConfig::default() }, "cooperative", &[][..]),
            (LookupConfig::default(), "cooperative", &[]),
            (LookupConfig::default(), "off", &["mode"]),
            (transparent.clone(), "cooperative", &["lookup profile of binder", "mode"]),
            (
                LookupConfig { entries: 64, policy: EvictionPolicy::Lfu, ..transparent.clone() },
                "cooperative",
                &["policy", "capacity", "lookup profile of binder", "mode"],
            ),
        ] {
            assert_eq!(files(&config, found), expected, "{config:?}");
        }
        for config in [
            LookupConfig { context: "hwbinder".to_owned(), ..transparent.clone() },
            LookupConfig { format: "android-4".to_owned(), ..transparent },
        ] {
            let config = LookupConfig { enabled: Enabled::On, ..config };
            assert!(changes(&config, &[driver("off")]).is_err(), "{config:?}");
        }
    }

    // Verifies LOOKUP-6.
    #[test]
    fn a_device_in_binderfs_is_found_by_its_name() {
        for (folders, expected) in [
            (&["hwbinder.2", "binder.1", "vndbinder.3"][..], Some("binder.1")),
            (&["binder.7", "binder"], Some("binder")),
            (&["hwbinder.1", "binder.", "binder.x", "binderfs"], None),
            (&["binder.1", "binder.4"], None),
        ] {
            let contexts: Vec<CacheStatus> =
                folders.iter().map(|name| CacheStatus { context: (*name).to_owned(), ..driver("off") }).collect();
            let config = LookupConfig { enabled: Enabled::On, mode: CacheMode::Transparent, ..LookupConfig::default() };
            let targets = changes(&config, &contexts).map(|changes| {
                changes.iter().map(|change| change.target.to_string()).collect::<Vec<String>>().join(" ")
            });
            let wanted = expected.map(|name| format!("lookup profile of {name} /sys/kernel/binder_cache/{name}/mode"));
            assert_eq!(targets.ok(), wanted, "{folders:?}");
        }
    }

    // Verifies LOOKUP-6.
    #[test]
    fn auto_leaves_a_driver_that_is_off_alone() {
        for (enabled, mode, is_set) in [
            (Enabled::Auto, "off", false),
            (Enabled::On, "off", true),
            (Enabled::Auto, "cooperative", true),
            (Enabled::Auto, "transparent", true),
        ] {
            let changes = changes(&LookupConfig { enabled, ..LookupConfig::default() }, &[driver(mode)]);
            assert_eq!(changes.is_ok(), is_set, "{enabled} {mode}: {changes:?}");
        }
    }

    // Verifies ON-1.
    #[test]
    fn the_driver_is_set_unless_the_user_disables_it() {
        for (enabled, mode, on, reason) in [
            (Enabled::Auto, CacheMode::Cooperative, true, "auto"),
            (Enabled::On, CacheMode::Cooperative, true, "lookup.enabled is true"),
            (Enabled::On, CacheMode::Transparent, true, "lookup.enabled is true"),
            (Enabled::Off, CacheMode::Transparent, false, "lookup.enabled is false"),
            (Enabled::On, CacheMode::Off, false, "lookup.mode is off"),
            (Enabled::Auto, CacheMode::Off, false, "lookup.mode is off"),
        ] {
            let config = LookupConfig { enabled, mode, ..LookupConfig::default() };
            let decision = decision(&config);
            assert!(decision.0 == on && decision.1.starts_with(reason), "{enabled} {mode:?}: {decision:?}");
            // The driver's own activity is reported, but is not brisk's.
            let device_support =
                Support { state: SupportState::Active, reason: "30 of 40".to_owned(), advice: String::new() };
            let mut control = LookupControl { config, device_support, ..LookupControl::default() };
            control.update_support(BootTime::from_milliseconds(1));
            let support = control.support();
            assert_eq!(support.state == SupportState::Active, on, "{support:?}");
            assert!(support.reason.starts_with("30 of 40"), "{support:?}");
        }
    }

    // Verifies FLEET-1.
    #[test]
    fn lookups_are_counted_between_two_readings() {
        let cache = |counters: &[(&str, u64)]| {
            let counters = counters.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
            CacheStatus { counters, ..driver("cooperative") }
        };
        let mut control = LookupControl::default();
        for (caches, expected) in [
            (vec![cache(&[("hits", 100), ("misses", 10)])], None),
            (vec![cache(&[("hits", 130), ("misses", 11)])], Some((30, 1))),
            (vec![cache(&[("hits", 130), ("misses", 11)]), cache(&[("hits", 5), ("misses", 2)])], Some((5, 2))),
            (vec![cache(&[("hits", 3), ("misses", 1)])], Some((3, 1))),
            (vec![cache(&[])], None),
            (vec![], None),
            (vec![cache(&[("hits", 7), ("misses", 7)])], None),
            (vec![cache(&[("hits", 8), ("misses", 9)])], Some((1, 2))),
        ] {
            assert_eq!(control.count_lookups(&caches), expected, "{caches:?}");
        }
    }

    // Verifies LOOKUP-6.
    #[test]
    fn the_driver_is_set_whole_or_not_at_all() {
        for (refused, expected_held) in [(None, 2), (Some("transparent"), 0)] {
            let refuses = move |_: BootTime, action: &Action| match action {
                Action::Lease { value, .. } if Some(value.as_str()) == refused => {
                    Some(Effect::Refused("permission denied".to_owned()))
                }
                _ => None,
            };
            let (mut kernel, mut control) = (Kernel::refusing(refuses), LookupControl::default());
            control.config =
                LookupConfig { enabled: Enabled::On, mode: CacheMode::Transparent, ..LookupConfig::default() };
            control.changes.begin(changes(&control.config, &[driver("cooperative")]).unwrap());
            let (now, mut decisions) = (BootTime::from_milliseconds(1), Vec::new());
            control.changes.advance(&mut decisions);
            while !decisions.is_empty() {
                let outcomes: Vec<_> =
                    decisions.iter().map(|decision| kernel.carry_out(now, decision, &mut |_| Ok(()))).collect();
                decisions.clear();
                control.on_outcomes(now, &outcomes, &mut decisions);
            }
            assert_eq!(kernel.held().len(), expected_held);
            assert_eq!(control.activity().is_some(), refused.is_none());
            let (reason, advice) = (&control.support().reason, &control.support().advice);
            assert_eq!(reason.contains("the driver was not set: permission denied"), refused.is_some(), "{reason}");
            assert_eq!(advice.contains("CAP_SYS_ADMIN"), refused.is_some(), "{advice}");
        }
    }
}
