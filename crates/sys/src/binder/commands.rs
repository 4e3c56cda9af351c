//! Commands for the driver, one after the other in one buffer.

use super::abi::{self, bc};

/// What is written with the next `BINDER_WRITE_READ`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Commands {
    bytes: Vec<u8>,
}

impl Commands {
    /// The commands as the driver reads them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Clears the commands once they are written.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// True when there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds what is in `others`.
    pub fn append(&mut self, others: &Self) {
        self.bytes.extend_from_slice(&others.bytes);
    }

    /// Registers this thread to serve calls.
    pub fn enter_looper(&mut self) {
        self.number(bc::ENTER_LOOPER);
    }

    /// Calls `code` of the object `handle`; `data` and `offsets` must not move until this is written.
    pub fn transaction(&mut self, handle: u32, code: u32, flags: u32, data: &[u8], offsets: &[u64]) {
        self.number(bc::TRANSACTION);
        self.transaction_data(u64::from(handle), code, flags, data, offsets);
    }

    /// Answers the call that this thread serves; `data` and `offsets` must not move until this is written.
    pub fn reply(&mut self, flags: u32, data: &[u8], offsets: &[u64]) {
        self.number(bc::REPLY);
        self.transaction_data(0, 0, flags, data, offsets);
    }

    /// Frees the buffer at `address`.
    pub fn free_buffer(&mut self, address: u64) {
        self.number(bc::FREE_BUFFER);
        self.bytes.extend(address.to_ne_bytes());
    }

    /// Takes a strong reference.
    pub fn acquire(&mut self, handle: u32) {
        self.number(bc::ACQUIRE);
        self.number(handle);
    }

    /// Drops a strong reference.
    pub fn release(&mut self, handle: u32) {
        self.number(bc::RELEASE);
        self.number(handle);
    }

    /// Requests a notification of the death of the object `handle`, identified by `cookie`.
    pub fn request_death_notification(&mut self, handle: u32, cookie: u64) {
        self.number(bc::REQUEST_DEATH_NOTIFICATION);
        self.number(handle);
        self.bytes.extend(cookie.to_ne_bytes());
    }

    /// Acknowledges the death notification `cookie`.
    pub fn dead_binder_done(&mut self, cookie: u64) {
        self.number(bc::DEAD_BINDER_DONE);
        self.bytes.extend(cookie.to_ne_bytes());
    }

    /// Confirms the first reference of its kind to an object of this process: `bc::INCREFS_DONE` or `bc::ACQUIRE_DONE`.
    pub fn reference_done(&mut self, command: u32, pointer: u64, cookie: u64) {
        self.number(command);
        self.bytes.extend(pointer.to_ne_bytes());
        self.bytes.extend(cookie.to_ne_bytes());
    }

    fn number(&mut self, number: u32) {
        self.bytes.extend(number.to_ne_bytes());
    }

    /// `struct binder_transaction_data`; the driver fills in the sender's identity.
    fn transaction_data(&mut self, target: u64, code: u32, flags: u32, data: &[u8], offsets: &[u64]) {
        let start = self.bytes.len();
        self.bytes.extend(target.to_ne_bytes());
        self.bytes.extend(0u64.to_ne_bytes());
        self.bytes.extend(code.to_ne_bytes());
        self.bytes.extend(flags.to_ne_bytes());
        self.bytes.extend(0u64.to_ne_bytes());
        self.bytes.extend((data.len() as u64).to_ne_bytes());
        self.bytes.extend((size_of_val(offsets) as u64).to_ne_bytes());
        self.bytes.extend((data.as_ptr() as u64).to_ne_bytes());
        self.bytes.extend((offsets.as_ptr() as u64).to_ne_bytes());
        debug_assert_eq!(self.bytes.len() - start, abi::TRANSACTION_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_encoded_one_after_the_other() {
        let mut commands = Commands::default();
        commands.acquire(7);
        commands.free_buffer(0x1122);
        commands.transaction(0, 2, abi::ACCEPT_FDS, b"four", &[0, 24]);
        let bytes = commands.as_bytes();
        assert_eq!(bytes.len(), 8 + 12 + 4 + 64);
        assert_eq!(bytes[..8], [0x05, 0x63, 0x04, 0x40, 7, 0, 0, 0]);
        assert_eq!(bytes[20..24], bc::TRANSACTION.to_ne_bytes());
        assert_eq!(bytes[24 + 32..24 + 40], 4u64.to_ne_bytes());
        assert_eq!(bytes[24 + 40..24 + 48], 16u64.to_ne_bytes());
        commands.clear();
        assert!(commands.is_empty());
    }
}
