//! Observations for telemetry: what a mechanism has seen or done, as plain data with real names. The engine stores them, with
//! hashes in place of names; docs/telemetry.md describes each field.

/// More than a mechanism observes between two calls of the engine.
const CAPACITY: usize = 64;

/// One observation.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A launch is over.
    Launch {
        /// The application's name.
        application: String,
        /// How long it took; `None` where it was cut off at its deadline.
        length_ms: Option<u64>,
        /// What the governor cost it, by the model in `launch/prediction.rs`; `None` where that does not apply.
        loss_ms: Option<f64>,
        /// Something was written for it.
        boosted: bool,
        /// The governor of the fastest CPUs; empty without cpufreq.
        governor: String,
    },
    /// The boot has completed.
    Boot {
        /// From the start of the kernel until then.
        length_ms: u64,
        /// From the start of the kernel until the first process; `None` where that is unknown.
        kernel_ms: Option<u64>,
        /// The governor was held at `performance` meanwhile; `None` where that is unknown.
        performance_held: Option<bool>,
    },
    /// A process was killed because memory was short.
    Kill {
        /// Its name.
        application: String,
        /// The memory that came back, less what others took meanwhile; `None` while the process still exists.
        freed_kib: Option<i64>,
        /// What it was.
        oom_score_adj: i16,
        /// The headroom when it was chosen.
        headroom_kib: i64,
    },
    /// A trial of a step has ended.
    Trial {
        step: &'static str,
        outcome: TrialOutcome,
        /// By how much the foreground waited less; `None` where that is unknown.
        effect_percent: Option<f64>,
    },
}

/// How a trial has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The step helps, and stays.
    Kept,
    /// It does not help, or does harm, and was reverted.
    Dropped,
    /// Whether it helps cannot be said.
    Unclear,
}

/// What mechanisms add to the hourly row, each its own part. `None` is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HourFigures {
    /// Lookups that the binder driver's cache has answered since the last call, ...
    pub lookup_hits: Option<u64>,
    /// ... and those that it has not.
    pub lookup_misses: Option<u64>,
}

/// The observations of one mechanism until the engine takes them; without telemetry there are none.
#[derive(Debug, Default)]
pub struct Observations {
    is_on: bool,
    list: Vec<Observation>,
}

impl Observations {
    /// Keeps observations from now on, or drops them.
    pub fn switch(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.list.retain(|_| is_on);
    }

    /// True while observations are wanted.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Keeps what `observe` returns, if observations are wanted.
    pub fn note(&mut self, observe: impl FnOnce() -> Observation) {
        // A replay takes none.
        if self.is_on && self.list.len() < CAPACITY {
            self.list.push(observe());
        }
    }

    /// Appends all to `observations` and forgets them.
    pub fn take(&mut self, observations: &mut Vec<Observation>) {
        observations.append(&mut self.list);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies FLEET-1.
    #[test]
    fn without_telemetry_nothing_is_observed_and_with_it_only_so_much() {
        let trial = || Observation::Trial { step: "weight", outcome: TrialOutcome::Kept, effect_percent: None };
        let (mut observations, mut taken) = (Observations::default(), Vec::new());
        observations.note(|| panic!("nothing is computed for it"));
        observations.switch(true);
        (0..CAPACITY * 2).for_each(|_| observations.note(trial));
        observations.take(&mut taken);
        observations.take(&mut taken);
        assert_eq!(taken, vec![trial(); CAPACITY]);
        observations.note(trial);
        observations.switch(false);
        observations.take(&mut taken);
        assert_eq!(taken.len(), CAPACITY);
    }
}
