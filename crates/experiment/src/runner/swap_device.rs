//! An arm's swap.

use std::path::Path;

use brisk_sys::Root;
use brisk_sys::memory::swap_area;

/// A block device that is swap until it is dropped.
pub(super) struct SwapDevice<'a> {
    root: &'a Root,
    name: String,
}

impl<'a> SwapDevice<'a> {
    /// # Errors
    /// The kernel's answer.
    pub(super) fn swap(root: &'a Root, device: &Path) -> anyhow::Result<Self> {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        swap_area::set_state(root, &name, "on 10")?;
        Ok(Self { root, name })
    }

    /// # Errors
    /// Also when its content does not fit into memory.
    pub(super) fn off(mut self) -> anyhow::Result<()> {
        Ok(swap_area::set_state(self.root, &std::mem::take(&mut self.name), "off")?)
    }
}

impl Drop for SwapDevice<'_> {
    fn drop(&mut self) {
        // Only after an error: a device that is switched off has no name here.
        if !self.name.is_empty() {
            let _ = swap_area::set_state(self.root, &self.name, "off");
        }
    }
}
