//! What mechanisms need of the engine beside events: samples of threads, help for launches, a child, and a file to keep what they
//! learn.

use crate::Support;
use brisk_sys::cgroup::membership::GroupChoice;
use brisk_sys::sched::threads::Sensing;

/// What is wanted with the next sample of threads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadDemand {
    /// The threads whose facts are wanted.
    pub facts: Vec<u32>,
    /// True when the groups of the sub-tree that is delegated to brisk are wanted.
    pub groups: bool,
}

/// How threads are sampled.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThreadSampling<'mechanism> {
    /// By what interface.
    pub sensing: Sensing,
    /// Which control groups threads may be moved to for a while.
    pub groups: &'mechanism GroupChoice,
}

/// What a mechanism does for launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchHelp<'mechanism> {
    /// Whether it can help them here.
    pub support: &'mechanism Support,
    /// True while it helps one.
    pub is_going_on: bool,
}

/// A process of brisk's own, beside the daemon. It ends when its standard input does, and is ready when it writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// Another number is another process.
    pub edition: u64,
    /// The subcommand of `brisk`.
    pub subcommand: &'static str,
    /// What follows it.
    pub arguments: Vec<String>,
}

/// A file for what is learned, in `/var/lib/brisk`, on Android in `/data/misc/brisk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LearnedFile {
    pub name: &'static str,
    /// What is in it, in words.
    pub what: &'static str,
    /// What happens when it is damaged, in words.
    pub if_damaged: &'static str,
    /// True when it must not be lost with the power.
    pub is_durable: bool,
}

/// What is learned, and where it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    pub file: LearnedFile,
    /// What is to be in it now.
    pub text: String,
}
