//! Arbitrates between owners that claim the same target: it has one lease, whose value follows from all claims, and changes
//! when an owner adds or releases one.
//!
//! | target | in force |
//! |---|---|
//! | lower utilisation clamps, frequencies | the highest |
//! | CPU masks | the CPUs that all claims allow, from the oldest claim on; a claim that would leave no CPU is skipped |
//! | all others | the latest |

use std::collections::BTreeMap;
use std::path::Path;

use brisk_sys::cpu::hotplug;
use brisk_sys::{BootTime, Target};

/// The value that one owner wants in a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    pub value: String,
    /// The deadline.
    pub until: BootTime,
    /// Why, for the user.
    pub reason: String,
}

/// The claims on every target, at most one per owner, the oldest first.
#[derive(Debug, Default)]
pub struct Claims {
    by_target: BTreeMap<Target, Vec<(&'static str, Claim)>>,
}

/// How several claims on one target are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Highest,
    Intersection,
    Latest,
}

impl Rule {
    fn of(target: &Target) -> Self {
        let is_frequency =
            |file: &Path| file.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(b"_freq"));
        match target {
            Target::UtilizationClampMinimum { .. } => Self::Highest,
            Target::Tunable(file) if is_frequency(file) => Self::Highest,
            Target::CpuAffinity { .. } => Self::Intersection,
            _ => Self::Latest,
        }
    }
}

impl Claims {
    /// Adds or changes the claim of `owner` on `target`. A renewed claim with the same value keeps its place.
    pub fn put(&mut self, target: &Target, owner: &'static str, claim: Claim) {
        let claims = self.by_target.entry(target.clone()).or_default();
        match claims.iter_mut().find(|(of, known)| *of == owner && known.value == claim.value) {
            Some((_, known)) => *known = claim,
            None => {
                claims.retain(|(of, _)| *of != owner);
                claims.push((owner, claim));
            }
        }
    }

    /// The claim of `owner` on `target`.
    pub fn get(&self, target: &Target, owner: &str) -> Option<&Claim> {
        self.of(target).iter().find_map(|(of, claim)| (*of == owner).then_some(claim))
    }

    /// The owners of the claims on `target`, that of the oldest claim first.
    pub fn owners(&self, target: &Target) -> impl Iterator<Item = &'static str> {
        self.of(target).iter().map(|(owner, _)| *owner)
    }

    /// Removes and returns the claim of `owner` on `target`.
    pub fn remove(&mut self, target: &Target, owner: &str) -> Option<Claim> {
        let claims = self.by_target.get_mut(target)?;
        let index = claims.iter().position(|(of, _)| *of == owner)?;
        let (_, claim) = claims.remove(index);
        if claims.is_empty() {
            self.by_target.remove(target);
        }
        Some(claim)
    }

    /// Removes all claims on `target`, and returns their owners.
    pub fn clear(&mut self, target: &Target) -> Vec<&'static str> {
        self.by_target.remove(target).unwrap_or_default().into_iter().map(|(owner, _)| owner).collect()
    }

    /// Removes claims that have expired by `now` while another claim on the same target goes on, and returns their owners.
    /// The last claims on a target end with its lease.
    pub fn expire(&mut self, now: BootTime) -> Vec<(Target, &'static str)> {
        let mut ended = Vec::new();
        for (target, claims) in &mut self.by_target {
            if claims.iter().any(|(_, claim)| claim.until > now) {
                let over = claims.extract_if(.., |(_, claim)| claim.until <= now);
                ended.extend(over.map(|(owner, _)| (target.clone(), owner)));
            }
        }
        ended
    }

    /// When [`Claims::expire`] is due.
    pub fn next_deadline(&self) -> Option<BootTime> {
        let shared = self.by_target.values().filter(|claims| claims.len() > 1);
        shared.flatten().map(|(_, claim)| claim.until).min()
    }

    /// The value for `target`, with deadline and reason; `None` when it is not claimed.
    pub fn effective(&self, target: &Target) -> Option<Claim> {
        let claims = self.of(target);
        let latest = || claims.last().map(|(_, claim)| claim.clone());
        match Rule::of(target) {
            Rule::Latest => latest(),
            Rule::Highest => highest(claims).or_else(latest),
            Rule::Intersection => intersection(claims).or_else(latest),
        }
    }

    fn of(&self, target: &Target) -> &[(&'static str, Claim)] {
        self.by_target.get(target).map_or(&[], Vec::as_slice)
    }
}

/// The claim with the highest number, and of equals the one that lasts longest; `None` if a value is no number.
fn highest(claims: &[(&'static str, Claim)]) -> Option<Claim> {
    let ranked: Option<Vec<_>> =
        claims.iter().map(|(_, claim)| Some((claim.value.parse::<i64>().ok()?, claim))).collect();
    ranked?.into_iter().max_by_key(|(number, claim)| (*number, claim.until)).map(|(_, claim)| claim.clone())
}

/// The CPUs that all claims allow, from the oldest on, skipping claims that would leave none; `None` if one is no CPU list.
fn intersection(claims: &[(&'static str, Claim)]) -> Option<Claim> {
    let mut effective: Option<(Vec<u32>, Claim)> = None;
    for (_, claim) in claims {
        let cpus = hotplug::parse_list(&claim.value)?;
        effective = Some(match effective {
            None => (cpus, claim.clone()),
            Some((allowed, before)) => {
                let both: Vec<u32> = allowed.iter().copied().filter(|cpu| cpus.contains(cpu)).collect();
                if both.is_empty() {
                    (allowed, before)
                } else {
                    let (until, reason) = (before.until.min(claim.until), claim.reason.clone());
                    (both.clone(), Claim { value: hotplug::format_list(&both), until, reason })
                }
            }
        });
    }
    effective.map(|(_, claim)| claim)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OWNERS: [&str; 3] = ["launch", "placement", "example"];

    fn at(milliseconds: u64) -> BootTime {
        BootTime::from_milliseconds(milliseconds)
    }

    fn claim(value: &str, until_ms: u64) -> Claim {
        Claim { value: value.to_owned(), until: at(until_ms), reason: "why".to_owned() }
    }

    fn frequency() -> Target {
        Target::Tunable("/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq".into())
    }

    fn governor_tunable() -> Target {
        Target::Tunable("/sys/devices/system/cpu/cpufreq/ondemand/up_threshold".into())
    }

    fn mask() -> Target {
        Target::CpuAffinity { tid: 7, start_time_ticks: 1 }
    }

    fn floor() -> Target {
        Target::UtilizationClampMinimum { pid: 7, start_time_ticks: 1 }
    }

    // Verifies UNDO-7.
    #[test]
    fn each_kind_of_target_has_its_rule() {
        for (target, values, expected) in [
            (frequency(), ["800000", "1200000", "900000"], "1200000"),
            (floor(), ["300", "100", "200"], "300"),
            (mask(), ["0-3", "2-5", "0,2-3"], "2-3"),
            // The second claim would leave no CPU.
            (mask(), ["0-1", "2-3", "1-2"], "1"),
            (governor_tunable(), ["95", "40", "60"], "60"),
            (frequency(), ["800000", "max", "1"], "1"),
        ] {
            let mut claims = Claims::default();
            for (owner, value) in OWNERS.into_iter().zip(values) {
                claims.put(&target, owner, claim(value, 10));
            }
            assert_eq!(claims.effective(&target).unwrap().value, expected, "{target} {values:?}");
        }
    }

    // Verifies UNDO-7.
    #[test]
    fn a_renewed_claim_keeps_its_place_a_changed_one_comes_last() {
        let mut claims = Claims::default();
        claims.put(&governor_tunable(), "launch", claim("40", 10));
        claims.put(&governor_tunable(), "placement", claim("60", 10));
        claims.put(&governor_tunable(), "launch", claim("40", 50));
        assert_eq!(claims.effective(&governor_tunable()), Some(claim("60", 10)));
        claims.put(&governor_tunable(), "launch", claim("41", 50));
        assert_eq!(claims.effective(&governor_tunable()), Some(claim("41", 50)));
    }

    // Verifies UNDO-7.
    #[test]
    fn a_claim_expires_alone_and_the_last_ones_with_the_lease() {
        let mut claims = Claims::default();
        claims.put(&frequency(), "launch", claim("9", 10));
        assert_eq!(claims.next_deadline(), None, "it ends with the lease");
        claims.put(&frequency(), "placement", claim("5", 20));
        assert_eq!(claims.next_deadline(), Some(at(10)));
        assert!(claims.expire(at(9)).is_empty());
        assert_eq!(claims.expire(at(10)), [(frequency(), "launch")]);
        assert_eq!(claims.effective(&frequency()), Some(claim("5", 20)));
        assert!(claims.expire(at(30)).is_empty());
        assert_eq!(claims.clear(&frequency()), ["placement"]);
        assert_eq!(claims.effective(&frequency()), None);
    }

    proptest! {
        // Verifies UNDO-7.
        #[test]
        fn the_value_in_force_depends_only_on_claims_and_their_order(
            kind in 0usize..3,
            steps in prop::collection::vec((0usize..3, prop::option::of(1u32..255), 0u64..100), 0..40),
        ) {
            let target = [frequency(), mask(), governor_tunable()][kind].clone();
            let mut claims = Claims::default();
            let mut model: Vec<(&str, u32)> = Vec::new();
            for (owner, value, until_ms) in steps {
                let owner = OWNERS[owner];
                let is_renewal = value.is_some_and(|value| model.contains(&(owner, value)));
                if !is_renewal {
                    model.retain(|(of, _)| *of != owner);
                    model.extend(value.map(|value| (owner, value)));
                }
                match value {
                    Some(bits) if kind == 1 => claims.put(&target, owner, claim(&list(bits), until_ms)),
                    Some(value) => claims.put(&target, owner, claim(&value.to_string(), until_ms)),
                    None => drop(claims.remove(&target, owner)),
                }
                let mut values = model.iter().map(|(_, value)| *value);
                let expected = match kind {
                    0 => values.max(),
                    1 => values.reduce(|all, bits| if all & bits == 0 { all } else { all & bits }),
                    _ => values.next_back(),
                };
                let effective = claims.effective(&target).map(|claim| claim.value);
                let expected = expected.map(|value| if kind == 1 { list(value) } else { value.to_string() });
                prop_assert_eq!(effective, expected);
            }
        }
    }

    fn list(bits: u32) -> String {
        hotplug::format_list(&(0..8).filter(|cpu| bits >> cpu & 1 == 1).collect::<Vec<_>>())
    }
}
