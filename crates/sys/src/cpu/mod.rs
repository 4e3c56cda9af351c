//! CPUs: which there are, how fast they are, what they have done.

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
