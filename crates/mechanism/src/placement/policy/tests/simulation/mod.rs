//! The policy on a simulated system with random workloads. Unlike the device of the tables beside this folder, the system goes
//! from event to event, has groups, thread siblings and a journal, and calls the policy when the daemon would.

mod ablation;
mod invariants;
mod journal;
mod properties;
mod regressions;
mod scheduler;
mod system;
mod workload;
