//! The constants of linux/android/binder.h, for 64-bit processes (protocol version 8).

/// The protocol version of these constants.
pub const PROTOCOL_VERSION: i32 = 8;

/// The handle of the context manager.
pub const CONTEXT_MANAGER: u32 = 0;

/// An object of the sender: pointer and cookie in `struct flat_binder_object` identify it.
pub const TYPE_BINDER: u32 = packed(b's', b'b', b'*');
/// An object of another process, identified by a handle.
pub const TYPE_HANDLE: u32 = packed(b's', b'h', b'*');
/// Bytes of `struct flat_binder_object`.
pub const OBJECT_BYTES: usize = 24;
/// Flags of an object: the minimum priority of its threads, and that it accepts file descriptors.
pub const OBJECT_FLAGS: u32 = 0x17f;

/// No reply is wanted.
pub const ONE_WAY: u32 = 0x01;
/// The data of the reply is one status code.
pub const STATUS_CODE: u32 = 0x08;
/// The reply may carry file descriptors.
pub const ACCEPT_FDS: u32 = 0x10;

/// Asks an object whether it is alive.
pub const PING: u32 = user_code(b"_PNG");
/// Asks an object for its state as text.
pub const DUMP: u32 = user_code(b"_DMP");
/// Asks an object for the name of its interface.
pub const INTERFACE: u32 = user_code(b"_NTF");

/// Bytes of `struct binder_transaction_data`.
pub const TRANSACTION_BYTES: usize = 64;

/// `_IOWR('b', 1, struct binder_write_read)`.
pub const WRITE_READ: u32 = 0xc030_6201;
/// `_IOW('b', 5, __u32)`.
pub const SET_MAX_THREADS: u32 = 0x4004_6205;
/// `_IOW('b', 7, __s32)`.
pub const SET_CONTEXT_MANAGER: u32 = 0x4004_6207;
/// `_IOWR('b', 9, struct binder_version)`.
pub const VERSION: u32 = 0xc004_6209;

/// Commands to the driver.
pub mod bc {
    /// `BC_TRANSACTION`
    pub const TRANSACTION: u32 = 0x4040_6300;
    /// `BC_REPLY`
    pub const REPLY: u32 = 0x4040_6301;
    /// `BC_FREE_BUFFER`
    pub const FREE_BUFFER: u32 = 0x4008_6303;
    /// `BC_INCREFS`
    pub const INCREFS: u32 = 0x4004_6304;
    /// `BC_ACQUIRE`
    pub const ACQUIRE: u32 = 0x4004_6305;
    /// `BC_RELEASE`
    pub const RELEASE: u32 = 0x4004_6306;
    /// `BC_DECREFS`
    pub const DECREFS: u32 = 0x4004_6307;
    /// `BC_INCREFS_DONE`
    pub const INCREFS_DONE: u32 = 0x4010_6308;
    /// `BC_ACQUIRE_DONE`
    pub const ACQUIRE_DONE: u32 = 0x4010_6309;
    /// `BC_ENTER_LOOPER`
    pub const ENTER_LOOPER: u32 = 0x0000_630c;
    /// `BC_REQUEST_DEATH_NOTIFICATION`
    pub const REQUEST_DEATH_NOTIFICATION: u32 = 0x400c_630e;
    /// `BC_CLEAR_DEATH_NOTIFICATION`
    pub const CLEAR_DEATH_NOTIFICATION: u32 = 0x400c_630f;
    /// `BC_DEAD_BINDER_DONE`
    pub const DEAD_BINDER_DONE: u32 = 0x4008_6310;
}

/// Returns of the driver.
pub mod br {
    /// `BR_ERROR`
    pub const ERROR: u32 = 0x8004_7200;
    /// `BR_OK`
    pub const OK: u32 = 0x0000_7201;
    /// `BR_TRANSACTION`
    pub const TRANSACTION: u32 = 0x8040_7202;
    /// `BR_REPLY`
    pub const REPLY: u32 = 0x8040_7203;
    /// `BR_DEAD_REPLY`
    pub const DEAD_REPLY: u32 = 0x0000_7205;
    /// `BR_TRANSACTION_COMPLETE`
    pub const TRANSACTION_COMPLETE: u32 = 0x0000_7206;
    /// `BR_INCREFS`
    pub const INCREFS: u32 = 0x8010_7207;
    /// `BR_ACQUIRE`
    pub const ACQUIRE: u32 = 0x8010_7208;
    /// `BR_RELEASE`
    pub const RELEASE: u32 = 0x8010_7209;
    /// `BR_DECREFS`
    pub const DECREFS: u32 = 0x8010_720a;
    /// `BR_NOOP`
    pub const NOOP: u32 = 0x0000_720c;
    /// `BR_SPAWN_LOOPER`
    pub const SPAWN_LOOPER: u32 = 0x0000_720d;
    /// `BR_DEAD_BINDER`
    pub const DEAD_BINDER: u32 = 0x8008_720f;
    /// `BR_CLEAR_DEATH_NOTIFICATION_DONE`
    pub const CLEAR_DEATH_NOTIFICATION_DONE: u32 = 0x8008_7210;
    /// `BR_FAILED_REPLY`
    pub const FAILED_REPLY: u32 = 0x0000_7211;
    /// `BR_FROZEN_REPLY`
    pub const FROZEN_REPLY: u32 = 0x0000_7212;
}

/// `B_PACK_CHARS` with the byte that marks an object's type.
const fn packed(first: u8, second: u8, third: u8) -> u32 {
    u32::from_be_bytes([first, second, third, 0x85])
}

const fn user_code(name: &[u8; 4]) -> u32 {
    u32::from_be_bytes(*name)
}

/// The bytes that follow a command or a return: every ioctl-style number encodes its size (`_IOC_SIZE`).
pub const fn payload_bytes(number: u32) -> usize {
    (number >> 16 & 0x3fff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_encode_the_size_of_their_structures() {
        for (number, bytes) in [
            (bc::TRANSACTION, TRANSACTION_BYTES),
            (bc::FREE_BUFFER, 8),
            (bc::ACQUIRE, 4),
            (bc::ACQUIRE_DONE, 16),
            (bc::REQUEST_DEATH_NOTIFICATION, 12),
            (bc::ENTER_LOOPER, 0),
            (br::REPLY, TRANSACTION_BYTES),
            (br::NOOP, 0),
            (WRITE_READ, 48),
        ] {
            assert_eq!(payload_bytes(number), bytes, "{number:#x}");
        }
        assert_eq!((PING, INTERFACE), (0x5f50_4e47, 0x5f4e_5446));
        assert_eq!((TYPE_BINDER, TYPE_HANDLE), (0x7362_2a85, 0x7368_2a85));
    }
}
