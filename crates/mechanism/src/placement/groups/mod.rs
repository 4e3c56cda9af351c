//! Groups of threads that compete as one: sessions by their autogroups, and control groups.

pub(super) mod task_groups;
