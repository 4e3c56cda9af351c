//! A mechanism's input for probing: the device and the current configuration.

use std::any::Any;

use brisk_sys::Root;

/// The configuration, by sections.
pub trait Settings {
    /// The section called `name`; `None` when there is none.
    fn section(&self, name: &str) -> Option<&dyn Any>;

    /// True when mechanisms are to make observations for telemetry.
    fn is_observed(&self) -> bool {
        false
    }
}

/// The device and the configuration.
#[derive(Clone, Copy)]
pub struct ProbeContext<'engine> {
    /// The device.
    pub root: &'engine Root,
    /// The configuration.
    pub settings: &'engine dyn Settings,
    /// True when the configuration was read since the last time; false when only the device has changed.
    pub is_new_configuration: bool,
}

impl ProbeContext<'_> {
    /// The section called `name`; its default where the configuration has no such section of this type.
    pub fn section<T: Any + Clone + Default>(&self, name: &str) -> T {
        self.settings.section(name).and_then(|section| section.downcast_ref::<T>()).cloned().unwrap_or_default()
    }
}

impl std::fmt::Debug for ProbeContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProbeContext")
            .field("root", &self.root)
            .field("is_new_configuration", &self.is_new_configuration)
            .finish_non_exhaustive()
    }
}
