//! CPUs: which exist, how fast they are, how they have spent their time.

pub mod capacity;
pub mod cpu_times;
pub mod cpufreq;
pub mod current_frequency;
pub mod energy;
pub mod governor;
pub mod hotplug;
pub mod idle_time;
pub mod load;
pub mod loadavg;
pub mod ticks;
pub mod topology;
