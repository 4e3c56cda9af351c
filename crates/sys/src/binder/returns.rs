//! The driver's returns, parsed: numbers, each followed by as many bytes as it encodes.

use super::abi::{self, br};

/// A range of the mapped buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// Its start address in this process's memory.
    pub address: u64,
    /// Its length in bytes.
    pub size: u64,
}

/// A call or an answer that has arrived (`struct binder_transaction_data`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Transaction {
    /// The called object of this process, by the name under which it was sent; 0 for answers and for the context manager.
    pub target: u64,
    pub cookie: u64,
    /// The called function.
    pub code: u32,
    /// Flags such as `abi::ONE_WAY`.
    pub flags: u32,
    /// The caller's process; 0 for answers.
    pub sender_pid: i32,
    /// The caller's effective user.
    pub sender_euid: u32,
    pub data: Range,
    /// The offsets of the objects in the data, 64 bits each.
    pub offsets: Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Return {
    /// Nothing to do: no-op, success, or a request for more threads.
    Nothing,
    /// The driver has accepted what was sent.
    TransactionComplete,
    /// A call.
    Transaction(Transaction),
    /// The answer to a call.
    Reply(Transaction),
    /// The called object's process is dead.
    DeadReply,
    /// The call could not be made, or its answer could not be delivered.
    FailedReply,
    /// The called process is frozen.
    FrozenReply,
    /// The driver failed.
    Error(i32),
    /// A process holds a first reference to an object of this process, which the command `confirm` confirms.
    Referenced {
        /// `bc::INCREFS_DONE` or `bc::ACQUIRE_DONE`.
        confirm: u32,
        /// The object, by the name under which it was sent.
        pointer: u64,
        cookie: u64,
    },
    /// No process holds such a reference any more.
    Dereferenced {
        /// The object.
        pointer: u64,
    },
    /// An object has died for which a notification was requested.
    DeadBinder {
        /// The cookie of the request.
        cookie: u64,
    },
    /// A return of a later kernel; its payload was skipped.
    Other(u32),
}

/// Iterates over the returns in the bytes that the driver has written.
#[derive(Debug, Clone)]
pub struct Returns<'a> {
    bytes: &'a [u8],
}

impl<'a> Returns<'a> {
    /// The returns in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Bytes that are not parsed yet.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }
}

impl Iterator for Returns<'_> {
    /// An inner `None` stands for bytes that end within a return. Nothing follows it.
    type Item = Option<Return>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let parsed = parse(self.bytes);
        self.bytes = parsed.map_or(&[], |(_, rest)| rest);
        Some(parsed.map(|(item, _)| item))
    }
}

fn parse(bytes: &[u8]) -> Option<(Return, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    let number = u32::from_ne_bytes(*number);
    let (payload, rest) = rest.split_at_checked(abi::payload_bytes(number))?;
    let item = match number {
        br::NOOP | br::OK | br::SPAWN_LOOPER | br::CLEAR_DEATH_NOTIFICATION_DONE => Return::Nothing,
        br::TRANSACTION_COMPLETE => Return::TransactionComplete,
        br::TRANSACTION => Return::Transaction(transaction(payload)?),
        br::REPLY => Return::Reply(transaction(payload)?),
        br::DEAD_REPLY => Return::DeadReply,
        br::FAILED_REPLY => Return::FailedReply,
        br::FROZEN_REPLY => Return::FrozenReply,
        br::ERROR => Return::Error(u32_at(payload, 0)?.cast_signed()),
        br::INCREFS => referenced(abi::bc::INCREFS_DONE, payload)?,
        br::ACQUIRE => referenced(abi::bc::ACQUIRE_DONE, payload)?,
        br::RELEASE | br::DECREFS => Return::Dereferenced { pointer: u64_at(payload, 0)? },
        br::DEAD_BINDER => Return::DeadBinder { cookie: u64_at(payload, 0)? },
        other => Return::Other(other),
    };
    Some((item, rest))
}

fn referenced(confirm: u32, payload: &[u8]) -> Option<Return> {
    Some(Return::Referenced { confirm, pointer: u64_at(payload, 0)?, cookie: u64_at(payload, 8)? })
}

fn transaction(payload: &[u8]) -> Option<Transaction> {
    Some(Transaction {
        target: u64_at(payload, 0)?,
        cookie: u64_at(payload, 8)?,
        code: u32_at(payload, 16)?,
        flags: u32_at(payload, 20)?,
        sender_pid: u32_at(payload, 24)?.cast_signed(),
        sender_euid: u32_at(payload, 28)?,
        data: Range { size: u64_at(payload, 32)?, address: u64_at(payload, 48)? },
        offsets: Range { size: u64_at(payload, 40)?, address: u64_at(payload, 56)? },
    })
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u32::from_ne_bytes(*chunk))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|chunk| u64::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn a_reply_is_read_after_the_returns_before_it() {
        let mut bytes = numbers(&[br::NOOP, br::TRANSACTION_COMPLETE, br::REPLY]);
        let mut payload = [0u8; abi::TRANSACTION_BYTES];
        payload[20] = abi::STATUS_CODE as u8;
        payload[28..32].copy_from_slice(&1000u32.to_ne_bytes());
        payload[32] = 24;
        payload[40] = 8;
        payload[48..56].copy_from_slice(&0x7f00_0000_1000u64.to_ne_bytes());
        bytes.extend(payload);
        let returns: Vec<_> = Returns::new(&bytes).collect();
        let reply = Transaction {
            flags: abi::STATUS_CODE,
            sender_euid: 1000,
            data: Range { address: 0x7f00_0000_1000, size: 24 },
            offsets: Range { address: 0, size: 8 },
            ..Transaction::default()
        };
        assert_eq!(returns, [Some(Return::Nothing), Some(Return::TransactionComplete), Some(Return::Reply(reply))]);
    }

    #[test]
    fn unknown_returns_are_skipped_truncated_ones_reported() {
        let unknown = 0x8008_72ff;
        for (bytes, expected) in [
            (numbers(&[unknown, 1, 2, br::DEAD_REPLY]), vec![Some(Return::Other(unknown)), Some(Return::DeadReply)]),
            (numbers(&[br::DEAD_BINDER, 5]), vec![None]),
            (numbers(&[br::REPLY]), vec![None]),
            (vec![1, 2], vec![None]),
            (Vec::new(), vec![]),
        ] {
            assert_eq!(Returns::new(&bytes).collect::<Vec<_>>(), expected, "{bytes:?}");
        }
    }
}
