//! Where swap on zram can be: on a device that brisk sets up, or nowhere, because another program owns it or none exists.

use super::probe::MemoryDevice;
use brisk_sys::memory::zram::{HOT_ADD, Module};

/// Where swap on zram can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ZramAvailability {
    /// A device that exists and is unused.
    Unused(String),
    /// A device that the loaded driver creates on request.
    New,
    /// The first device of the zram module, which is not loaded yet.
    Module,
    /// Another program's device: its name, and a description of its owner.
    Owned(String, String),
    /// Unavailable, and why.
    Unavailable(String),
}

impl ZramAvailability {
    pub(super) fn of(facts: &MemoryDevice) -> Self {
        let (swaps, devices) = match (&facts.swaps, &facts.zram) {
            (Ok(swaps), Ok(devices)) => (swaps, devices),
            (Err(fault), _) | (_, Err(fault)) => return Self::Unavailable(fault.clone()),
        };
        if let Some(name) = swaps.iter().find_map(|swap| swap.zram_name()) {
            let owner = facts.owners.iter().find(|owner| owner.devices.contains_key(name));
            let description = match owner {
                Some(owner) => {
                    format!("{name} is swap already and belongs to {} ({})", owner.name, owner.files.join(", "))
                }
                None => format!("{name} is swap already, set up by another program"),
            };
            return Self::Owned(name.to_owned(), description);
        }
        if let Some(owner) = facts.owners.first() {
            let names: Vec<&str> = owner.devices.keys().map(String::as_str).collect();
            let description =
                format!("{} is configured to set up {} ({})", owner.name, names.join(", "), owner.files.join(", "));
            return Self::Owned(names.first().copied().unwrap_or_default().to_owned(), description);
        }
        // A device with a size is in use, even if not as swap.
        match devices.iter().find(|zram| zram.disk_size_bytes == 0) {
            Some(zram) => Self::Unused(zram.name.clone()),
            None => match facts.module {
                Module::Loaded => Self::New,
                Module::Loadable => Self::Module,
                Module::Missing => Self::Unavailable(
                    "/sys/block/zram0 does not exist, and /lib/modules has no zram module (CONFIG_ZRAM)".to_owned(),
                ),
            },
        }
    }

    /// True when brisk may set up swap on a device that exists or that the loaded driver creates.
    pub(super) fn is_free(&self) -> bool {
        matches!(self, Self::Unused(_) | Self::New)
    }

    /// True when another program owns the device.
    pub(super) fn is_owned(&self) -> bool {
        matches!(self, Self::Owned(..))
    }

    /// True when swap is or will be on zram.
    pub(super) fn has_zram(&self) -> bool {
        !matches!(self, Self::Unavailable(_))
    }

    /// The device's name, where it is known before the device is created.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            Self::Unused(name) | Self::Owned(name, _) => Some(name),
            Self::Module => Some("zram0"),
            Self::New | Self::Unavailable(_) => None,
        }
    }

    /// Where the device comes from, in words.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unused(name) => format!("{name} is there and not in use"),
            Self::New => format!("every zram device is in use; {HOT_ADD} creates another"),
            Self::Module => "the module zram is there and not loaded".to_owned(),
            Self::Owned(_, description) => format!("{description}: it is left alone"),
            Self::Unavailable(why) => why.clone(),
        }
    }
}
