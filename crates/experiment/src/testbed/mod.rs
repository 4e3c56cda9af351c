//! Where plans run: the lab's guests, or the device that brisk is on. Both run `brisk replicate`.

#[cfg(feature = "lab")]
mod lab;
mod local_device;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use anyhow::Context;

#[cfg(feature = "lab")]
pub use lab::Lab;
pub use local_device::LocalDevice;

/// The digest of programs: samples of programs with different digests are not mixed.
fn digest<'a>(programs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<String> {
    let mut hasher = DefaultHasher::new();
    for path in programs {
        std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    Ok(format!("{:016x}", hasher.finish()))
}
