//! Control groups of both versions (cgroups(7); Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/): where they are
//! mounted, which one a thread is in, and groups that are made temporarily.

pub mod group;
pub mod hierarchy;
pub mod id;
pub mod membership;
pub mod memory;
pub mod pressure;
pub mod unit;
pub mod weight;
