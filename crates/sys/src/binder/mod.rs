//! Binder from user space: the driver's own interface (linux/android/binder.h), used directly.
//!
//! A [`Connection`] is an open device with its mapped buffer; an [`Endpoint`] makes calls on it and serves them. A
//! [`WireFormat`] describes, as data, what the context managers of Android's releases expect.

pub mod abi;
pub mod cache;
mod commands;
mod connection;
mod endpoint;
pub mod parcel;
pub mod returns;
mod wire_format;

pub use commands::Commands;
pub use connection::Connection;
pub use endpoint::{Answer, CallError, Endpoint, Reply, Server, UNKNOWN_TRANSACTION, answer_standard_transaction};
pub use wire_format::{AddTail, DESCRIPTOR, ListStyle, ManagerRequest, ServiceUnion, WireFormat};
