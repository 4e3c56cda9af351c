//! Where swap on zram could be: on a device of ours, or nowhere, because another owns it or the kernel has none.

use super::probe::MemoryDevice;
use brisk_sys::memory::zram::{HOT_ADD, Module};

/// Where swap on zram could be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SwapPlace {
    /// A device that is there and not in use.
    Unused(String),
    /// A device that the loaded driver makes when asked.
    New,
    /// The first device of a module that is to be loaded.
    Module,
    /// Another program's device: its name, and whose it is in words.
    Owned(String, String),
    /// Nowhere, for a reason in words.
    Nowhere(String),
}

impl SwapPlace {
    pub(super) fn of(facts: &MemoryDevice) -> Self {
        let (swaps, devices) = match (&facts.swaps, &facts.zram) {
            (Ok(swaps), Ok(devices)) => (swaps, devices),
            (Err(fault), _) | (_, Err(fault)) => return Self::Nowhere(fault.clone()),
        };
        if let Some(name) = swaps.iter().find_map(|swap| swap.zram_name()) {
            let owner = facts.owners.iter().find(|owner| owner.devices.contains_key(name));
            let whose = match owner {
                Some(owner) => {
                    format!("{name} is swap already and belongs to {} ({})", owner.name, owner.files.join(", "))
                }
                None => format!("{name} is swap already, set up by another program"),
            };
            return Self::Owned(name.to_owned(), whose);
        }
        if let Some(owner) = facts.owners.first() {
            let names: Vec<&str> = owner.devices.keys().map(String::as_str).collect();
            let whose = format!("{} is told to set up {} ({})", owner.name, names.join(", "), owner.files.join(", "));
            return Self::Owned(names.first().copied().unwrap_or_default().to_owned(), whose);
        }
        // A device that has a size is in use, if not for swap.
        match devices.iter().find(|zram| zram.disk_size_bytes == 0) {
            Some(zram) => Self::Unused(zram.name.clone()),
            None => match facts.module {
                Module::Loaded => Self::New,
                Module::Loadable => Self::Module,
                Module::Missing => Self::Nowhere(
                    "/sys/block/zram0 does not exist, and /lib/modules has no zram module (CONFIG_ZRAM)".to_owned(),
                ),
            },
        }
    }

    /// True when swap is or will be on zram.
    pub(super) fn has_zram(&self) -> bool {
        !matches!(self, Self::Nowhere(_))
    }

    /// The device, where its name is known before it is made.
    pub(super) fn device(&self) -> Option<&str> {
        match self {
            Self::Unused(name) | Self::Owned(name, _) => Some(name),
            Self::Module => Some("zram0"),
            Self::New | Self::Nowhere(_) => None,
        }
    }

    /// How the device comes about.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Unused(name) => format!("{name} is there and not in use"),
            Self::New => format!("every zram device is in use; {HOT_ADD} makes another"),
            Self::Module => "the module zram is there and not loaded".to_owned(),
            Self::Owned(_, whose) => format!("{whose}: it is left alone"),
            Self::Nowhere(why) => why.clone(),
        }
    }
}
