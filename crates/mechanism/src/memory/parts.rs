//! Whether zram and the killer are on, and why: pure. Each has its own `enabled`.

use super::apply::changes;
use super::config::{KillerConfig, ZramConfig};
use super::probe::MemoryDevice;
use super::zram_availability::ZramAvailability;
use super::{MemoryPlan, ZramPlan};
use crate::enabled::decide;
use crate::{Enabled, Part};

/// The configuration section of zram and the reclaim tunables.
pub const ZRAM: &str = "memory.zram";
/// The configuration section of the killer.
pub const KILLER: &str = "memory.killer";

/// The state of zram besides its configuration.
#[derive(Debug, Clone, Copy, Default)]
pub struct ZramState<'a> {
    /// The other managers that set it up ([`crate::Job::managers`]).
    pub managers: Option<&'a str>,
    /// What it needs and the device lacks ([`obstacle`]).
    pub obstacle: Option<&'a str>,
    /// Why the device has refused a change of the plan.
    pub refusal: Option<&'a str>,
    /// How many of the plan's settings the daemon holds; `None` when no daemon was asked.
    pub held: Option<usize>,
}

/// The state of the killer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KillerState {
    /// No daemon was asked.
    Unknown,
    /// It starts once the zram plan is applied.
    AfterZram,
    /// It is wanted but does not run: the daemon starts or restarts it.
    Starts,
    /// It runs as this process.
    Runs(u32),
}

/// What zram needs under `config` and the device lacks, in words.
pub fn obstacle(facts: &MemoryDevice, config: &ZramConfig) -> Option<String> {
    let place = ZramAvailability::of(facts);
    match config.enabled {
        Enabled::Off => None,
        Enabled::Auto => (!place.has_zram()).then(|| place.reason()),
        Enabled::On => match changes(&MemoryPlan::from_config(facts, config)) {
            Err(reason) => Some(reason),
            Ok(changes) => (changes.is_empty() && !place.has_zram()).then(|| place.reason()),
        },
    }
}

/// Whether zram is on under `config`, and why.
pub fn zram(config: &ZramConfig, state: ZramState<'_>) -> Part {
    let (on, reason) = decide(ZRAM, config.enabled, state.managers);
    let (on, reason) = match (config.enabled, state.managers, state.obstacle, state.refusal) {
        (Enabled::Auto, None, Some(obstacle), _) => (false, format!("auto: {obstacle}")),
        (Enabled::On, _, Some(obstacle), _) => (false, format!("{reason}, but {obstacle}")),
        (Enabled::On, _, None, Some(refusal)) => (
            false,
            format!("{reason}, but the device has refused a change, and earlier changes are reverted: {refusal}"),
        ),
        (Enabled::On, _, None, None) => (on, format!("{reason}{}", held(config, state.held))),
        _ => (on, reason),
    };
    Part { name: ZRAM.to_owned(), on, reason }
}

fn held(config: &ZramConfig, held: Option<usize>) -> String {
    let plan = match config.plan {
        ZramPlan::Brisk => "the plan",
        ZramPlan::Paper => "the paper's plan",
    };
    match held {
        None => String::new(),
        Some(0) => format!(": nothing had to be changed for {plan}"),
        Some(1) => format!(": 1 setting of {plan} is held"),
        Some(count) => format!(": {count} settings of {plan} are held"),
    }
}

/// Whether the killer is on under `config`, where `managers` kill as well, and why.
pub fn killer(config: &KillerConfig, managers: Option<&str>, state: KillerState) -> Part {
    let (on, reason) = decide(KILLER, config.enabled, managers);
    let (on, reason) = match (config.enabled, state) {
        (Enabled::On, KillerState::AfterZram) => (false, format!("{reason}; it starts once zram is set up as planned")),
        (Enabled::On, KillerState::Starts) => {
            (false, format!("{reason}, but it does not run yet: the daemon starts it"))
        }
        (Enabled::On, KillerState::Runs(pid)) => (on, format!("{reason}; it is process {pid}")),
        _ => (on, reason),
    };
    Part { name: KILLER.to_owned(), on, reason }
}

#[cfg(test)]
mod tests {
    use super::super::plan::tests::phone;
    use super::*;
    use brisk_sys::memory::zram::Module;

    // Verifies ON-4.
    #[test]
    fn zram_reports_whether_it_is_on_and_why() {
        const GENERATOR: &str = "zram-generator (/etc/systemd/zram-generator.conf)";
        let nothing = ZramState::default();
        let left = ZramState { managers: Some(GENERATOR), ..nothing };
        let lacking = ZramState { obstacle: Some("the kernel has no zram"), ..nothing };
        let refused = ZramState { refusal: Some("EBUSY"), held: Some(0), ..nothing };
        let holding = |held| ZramState { held: Some(held), ..nothing };
        for (enabled, state, on, reason) in [
            (Enabled::Off, left, false, "memory.zram.enabled is false"),
            (Enabled::Auto, left, false, "auto: this is left to zram-generator (/etc/systemd/"),
            (Enabled::Auto, ZramState { obstacle: Some("no"), ..left }, false, "left to zram-generator"),
            (Enabled::Auto, lacking, false, "auto: the kernel has no zram"),
            (Enabled::Auto, nothing, false, "auto: zram can be removed only while"),
            (Enabled::On, left, true, "memory.zram.enabled is true"),
            (Enabled::On, lacking, false, "memory.zram.enabled is true, but the kernel has no zram"),
            (Enabled::On, refused, false, "refused a change, and earlier changes are reverted: EBUSY"),
            (Enabled::On, nothing, true, "memory.zram.enabled is true"),
            (Enabled::On, holding(0), true, "is true: nothing had to be changed for the plan"),
            (Enabled::On, holding(1), true, "is true: 1 setting of the plan is held"),
            (Enabled::On, holding(4), true, "is true: 4 settings of the plan are held"),
        ] {
            let part = zram(&ZramConfig { enabled, ..ZramConfig::default() }, state);
            assert!(
                part.name == ZRAM && part.on == on && part.reason.contains(reason),
                "{enabled} {state:?}: {part:?}"
            );
        }
    }

    // Verifies ON-4.
    #[test]
    fn the_killer_reports_whether_it_is_on_and_why() {
        for (enabled, managers, state, on, reason) in [
            (Enabled::Off, None, KillerState::Unknown, false, "memory.killer.enabled is false"),
            (Enabled::Auto, Some("lmkd (process 7)"), KillerState::Unknown, false, "left to lmkd (process 7)"),
            (Enabled::Auto, None, KillerState::Unknown, false, "auto: a process that was killed cannot"),
            (Enabled::On, Some("lmkd (process 7)"), KillerState::Unknown, true, "memory.killer.enabled is true"),
            (Enabled::On, None, KillerState::AfterZram, false, "is true; it starts once zram is set up as planned"),
            (Enabled::On, None, KillerState::Starts, false, "is true, but it does not run yet"),
            (Enabled::On, None, KillerState::Runs(9), true, "is true; it is process 9"),
        ] {
            let part = killer(&KillerConfig { enabled, ..KillerConfig::default() }, managers, state);
            assert!(
                part.name == KILLER && part.on == on && part.reason.contains(reason),
                "{enabled} {state:?}: {part:?}"
            );
        }
    }

    // Verifies ON-4.
    #[test]
    fn a_missing_requirement_of_zram_is_reported() {
        let config = |enabled| ZramConfig { enabled, ..ZramConfig::default() };
        let mut facts = phone();
        for enabled in [Enabled::Off, Enabled::Auto, Enabled::On] {
            assert_eq!(obstacle(&facts, &config(enabled)), None);
        }
        facts.zram = Ok(Vec::new());
        facts.module = Module::Loadable;
        assert_eq!(obstacle(&facts, &config(Enabled::Auto)), None, "loading it would not switch it on");
        assert!(obstacle(&facts, &config(Enabled::On)).unwrap().contains("load it first (modprobe zram)"));
        facts.module = Module::Missing;
        assert!(obstacle(&facts, &config(Enabled::Auto)).unwrap().contains("no zram module (CONFIG_ZRAM)"));
        assert_eq!(obstacle(&facts, &config(Enabled::On)), None, "the tunables of reclaim can be set without it");
        assert_eq!(obstacle(&facts, &config(Enabled::Off)), None);
    }
}
