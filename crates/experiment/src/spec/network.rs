//! The network of an experiment with combinations: a slow link, with a queueing discipline before it.

use serde::{Deserialize, Serialize};

/// A link that the programs of a combination share: the loopback interface, slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// How much it sends, in kbit/s of 1000 bits.
    pub rate_kbit: u32,
    /// Its queueing discipline in arms that name none.
    pub queue: NetworkQueue,
}

/// A queueing discipline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkQueue {
    /// Three bands by the packets' priority, each first in, first out: Linux's own default.
    PfifoFast,
    /// Fair queues for flows, whatever their priority: Debian's default.
    FqCodel,
}

impl NetworkQueue {
    /// The discipline `name`, as the kernel and experiments name it.
    ///
    /// # Errors
    /// The list of names, when it is none of them.
    pub fn of_name(name: &str) -> Result<Self, String> {
        let named = [Self::PfifoFast, Self::FqCodel].into_iter().find(|queue| queue.name() == name);
        named.ok_or_else(|| "expected pfifo_fast or fq_codel".to_owned())
    }

    /// Its name in the kernel and in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Self::PfifoFast => "pfifo_fast",
            Self::FqCodel => "fq_codel",
        }
    }
}

impl Network {
    /// The first fault.
    pub(super) fn fault(&self) -> Option<&'static str> {
        (self.rate_kbit == 0).then_some("rate_kbit must be above zero")
    }
}
