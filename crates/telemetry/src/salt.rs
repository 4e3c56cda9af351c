//! The salt of a store, and the hashes under it: SipHash-2-4, a keyed function, so that a list of names tells nothing without the
//! salt.

use std::hash::Hasher;
use std::io;
use std::path::Path;

use rustix::rand::{GetRandomFlags, getrandom};
use siphasher::sip::SipHasher24;

use brisk_sys::durable_file;

/// The file in the store's folder.
pub(crate) const FILE: &str = "salt";
const SALT_BYTES: usize = 16;

/// 128 random bits that never leave the device.
#[derive(Clone, PartialEq, Eq)]
pub struct Salt([u8; SALT_BYTES]);

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salt")
    }
}

impl Salt {
    /// Makes the salt of the store in `folder`, in place of an older one; only the owner may read it.
    ///
    /// # Errors
    /// Those of the file system and of getrandom(2).
    pub(crate) fn make(folder: &Path) -> io::Result<Self> {
        let mut salt = [0; SALT_BYTES];
        let mut filled = 0;
        while filled < SALT_BYTES {
            filled += getrandom(&mut salt[filled..], GetRandomFlags::empty())?;
        }
        let text: String = salt.iter().map(|byte| format!("{byte:02x}")).collect();
        durable_file::write(&folder.join(FILE), &text, 0o600)?;
        Ok(Self(salt))
    }

    /// The salt of the store in `folder`; `None` where there is none, or it is damaged or may not be read.
    pub fn read(folder: &Path) -> Option<Self> {
        let text = durable_file::read(&folder.join(FILE), 2 * SALT_BYTES as u64)?;
        let is_whole = text.len() == 2 * SALT_BYTES && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let mut salt = [0; SALT_BYTES];
        for (index, byte) in salt.iter_mut().enumerate().filter(|_| is_whole) {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        is_whole.then_some(Self(salt))
    }

    /// The hash of `text`, a name of the kind `domain`, as 16 hexadecimal digits.
    pub fn hash(&self, domain: &str, text: &str) -> String {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        // No domain contains the separator, so no two pairs are hashed as the same bytes.
        hasher.write(domain.as_bytes());
        hasher.write(b":");
        hasher.write(text.as_bytes());
        format!("{:016x}", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Vectors of the paper's reference program (vectors_sip64): key 00 01 ... 0f, message 00 01 ... 0e.
    #[test]
    fn the_hash_is_siphash_2_4() {
        let key: [u8; SALT_BYTES] = std::array::from_fn(|index| index as u8);
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(&(0..15).collect::<Vec<u8>>());
        assert_eq!(hasher.finish(), 0xa129_ca61_49be_45e5);
    }

    // Verifies FLEET-1.
    #[test]
    fn a_salt_is_made_once_and_only_its_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Salt::read(folder.path()), None);
        let salt = Salt::make(folder.path()).unwrap();
        assert_eq!(Salt::read(folder.path()).as_ref(), Some(&salt));
        let file = folder.path().join(FILE);
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let other = Salt::make(folder.path()).unwrap();
        for (domain, text) in [("application", "browser"), ("application", ""), ("boot", "browser")] {
            let hash = salt.hash(domain, text);
            assert!(hash.len() == 16 && !hash.contains("browser"), "{hash}");
            assert_eq!(hash, salt.hash(domain, text));
            assert_ne!(hash, other.hash(domain, text));
        }
        assert_ne!(salt.hash("application", "browser"), salt.hash("boot", "browser"));
        assert_eq!(format!("{salt:?}"), "Salt", "no message shows it");
        for text in ["", "0123", "0123456789abcdef0123456789abcdeg", "0123456789abcdef0123456789abcdef0"] {
            fs::write(&file, text).unwrap();
            assert_eq!(Salt::read(folder.path()), None, "{text}");
        }
    }
}
