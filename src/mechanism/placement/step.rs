//! The rungs of the ladder, and what each means for one thread.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::cores::Split;
use crate::device::hotplug::format_list;
use crate::device::priority::{Priority, SchedulingPolicy};
use crate::device::thread_facts::ThreadFacts;
use crate::mechanism::Target;

/// What is done to bulk threads for the foreground's sake.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// They weigh less.
    Weight,
    /// They run on what nobody else wants.
    Idle,
    /// They leave some cores free.
    Isolate(Split),
}

/// What threads give up: each target with the value that it is to hold.
pub type Demands = BTreeMap<Target, String>;

/// The rungs without what belongs to each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rung {
    /// [`Step::Weight`].
    Weight,
    /// [`Step::Idle`].
    Idle,
    /// [`Step::Isolate`].
    Isolate,
}

impl Step {
    /// Which rung it is.
    pub fn rung(&self) -> Rung {
        match self {
            Self::Weight => Rung::Weight,
            Self::Idle => Rung::Idle,
            Self::Isolate(_) => Rung::Isolate,
        }
    }

    /// What is changed of the thread with these facts, and to what; `None` when it is left alone: somebody has bound it,
    /// chosen its policy, or made it less already.
    pub fn demand_of(&self, facts: &ThreadFacts, nice_levels: i32) -> Option<(Target, String)> {
        let ThreadFacts { tid, start_time_ticks, allowed, priority } = facts;
        let (tid, start_time_ticks) = (*tid, *start_time_ticks);
        if priority.policy != SchedulingPolicy::Other {
            return None;
        }
        match self {
            Self::Isolate(split) => {
                let is_free = split.reserved.iter().chain(&split.rest).all(|cpu| allowed.contains(cpu));
                is_free.then(|| (Target::CpuAffinity { tid, start_time_ticks }, format_list(&split.rest)))
            }
            Self::Weight | Self::Idle => {
                let lower = match self {
                    Self::Idle => Priority { policy: SchedulingPolicy::Idle, nice: priority.nice },
                    _ => Priority { policy: SchedulingPolicy::Other, nice: (priority.nice + nice_levels).min(19) },
                };
                (lower != *priority).then(|| (Target::Priority { tid, start_time_ticks }, lower.to_string()))
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Weight => f.write_str("bulk work weighs less"),
            Self::Idle => f.write_str("bulk work runs on what nobody else wants"),
            Self::Isolate(split) => write!(f, "bulk work leaves CPU {} free", format_list(&split.reserved)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_changes_what_may_be_changed() {
        let split = || Step::Isolate(Split { reserved: vec![1], rest: vec![0, 2] });
        let (other, idle, special) = (SchedulingPolicy::Other, SchedulingPolicy::Idle, SchedulingPolicy::Special);
        for (step, allowed, policy, nice, expected) in [
            (split(), vec![0, 1, 2, 3], other, 0, Some("0,2")),
            (split(), vec![0, 2], other, 0, None),
            (split(), vec![0, 1, 2], special, 0, None),
            (split(), vec![0, 1, 2], idle, 0, None),
            (Step::Weight, vec![0], other, 0, Some("other 10")),
            (Step::Weight, vec![0], other, 15, Some("other 19")),
            (Step::Weight, vec![0], other, 19, None),
            (Step::Weight, vec![0], special, 0, None),
            (Step::Idle, vec![0], other, 5, Some("idle 5")),
            (Step::Idle, vec![0], idle, 5, None),
        ] {
            let facts = ThreadFacts { tid: 7, start_time_ticks: 70, allowed, priority: Priority { policy, nice } };
            let value = step.demand_of(&facts, 10).map(|(_, value)| value);
            assert_eq!(value.as_deref(), expected, "{step:?} {facts:?}");
        }
    }
}
