//! The keys under which a lookup cache stores answers.

use std::hash::{BuildHasher, Hash, Hasher};

/// The key of a stored answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The service's name, by number.
    pub name: u32,
    /// The caller that may receive it; `None` when every caller may.
    pub caller: Option<u32>,
}

impl Key {
    /// 64 bits that depend on every bit of the key (the finaliser of MurmurHash3).
    pub fn hash64(self) -> u64 {
        let caller = self.caller.map_or(0, |caller| caller.wrapping_add(1));
        mix(u64::from(self.name) << 32 | u64::from(caller))
    }
}

fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash64());
    }
}

/// Passes [`Key::hash64`] through: no caller chooses a simulation's keys so that they collide, so the standard library's hash,
/// which guards against that, is not needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyHasher(u64);

impl BuildHasher for KeyHasher {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = mix(self.0 ^ u64::from(byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
