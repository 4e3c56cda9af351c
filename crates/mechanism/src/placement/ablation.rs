//! Parts of the policy that a test can switch off one at a time, to measure what each is worth. Outside of tests every part is on,
//! and nothing of this remains in a binary.

/// A part of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::placement) enum Part {
    /// Light threads leave reserved CPUs.
    LightThreads,
    /// Busy foreground threads are put on one CPU each for a moment.
    Spread,
    /// Threads that inherited leased values get their own back.
    Inherited,
    /// Processes with short-lived, CPU-bound children are bulk.
    ForkParents,
    /// Sessions and units of bulk threads are deprioritised as a whole.
    GroupWeights,
    /// Trials without a clear result are extended.
    Extension,
    /// A core is reserved with all its threads.
    WholeCores,
    /// Deprioritised threads are confined to the smallest cores.
    SmallestCores,
}

#[cfg(test)]
thread_local! {
    static OFF: std::cell::Cell<Option<Part>> = const { std::cell::Cell::new(None) };
}

/// True while a test has switched `part` off.
#[cfg(test)]
pub(in crate::placement) fn is_off(part: Part) -> bool {
    OFF.get() == Some(part)
}

/// Every part is on.
#[cfg(not(test))]
pub(in crate::placement) const fn is_off(_: Part) -> bool {
    false
}

/// Runs `measure` without `part`.
#[cfg(test)]
pub(in crate::placement) fn without<R>(part: Option<Part>, measure: impl FnOnce() -> R) -> R {
    OFF.set(part);
    let measured = measure();
    OFF.set(None);
    measured
}
