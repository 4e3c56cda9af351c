//! The binder driver of an arm: its device, the settings of its cache, and the cache's hits.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::lookup::{LookupProcesses, Manager};
use crate::spec::{Arm, LookupArm};
use brisk_sys::Root;
use brisk_sys::binder::WireFormat;
use brisk_sys::binder::cache::{self, CacheSettings};

/// The folder of binder devices.
const DEVICES: &str = "/dev";

/// The driver as the arm uses it.
pub(super) struct Driver<'a> {
    pub(super) arm: &'a LookupArm,
    pub(super) device: PathBuf,
    pub(super) format: &'static WireFormat,
    /// The device's cache, by the name that the driver gives it.
    context: String,
    root: &'a Root,
}

impl<'a> Driver<'a> {
    pub(super) fn of(root: &'a Root, arm: &'a Arm) -> anyhow::Result<Self> {
        let lookup = arm.lookup.as_ref().with_context(|| format!("arm {} names no context manager", arm.name))?;
        let format =
            WireFormat::named(&lookup.format).with_context(|| format!("there is no format {}", lookup.format))?;
        let context = cache::context_of(root, &lookup.device);
        Ok(Self { arm: lookup, device: Path::new(DEVICES).join(&lookup.device), format, context, root })
    }

    pub(super) fn settings(&self) -> CacheSettings<'_> {
        let profile = self.format.transparent_profile();
        CacheSettings { root: self.root, context: &self.context, files: &self.arm.cache, profile }
    }

    /// Sets the cache for the arm, whatever the previous arm has left, and starts the manager and so many services.
    pub(super) fn start(&self, services: u32) -> anyhow::Result<LookupProcesses> {
        self.settings().apply()?;
        LookupProcesses::start(&self.device, self.format, &Manager::named(&self.arm.manager), services as usize)
    }

    /// Lookups that the driver's cache has answered so far.
    pub(super) fn answered(&self) -> u64 {
        let status = cache::status_of(self.root, &self.context);
        status.map_or(0, |status| status.counters.get("hits").copied().unwrap_or(0))
    }

    /// True when the arm itself switches the cache on.
    pub(super) fn is_cache_enabled(&self) -> bool {
        self.arm.cache.get("mode").is_some_and(|mode| mode != "off")
    }
}
