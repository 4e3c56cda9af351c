//! Services to look up: objects that only answer what every object answers.

use std::path::Path;

use brisk_sys::binder::abi::CONTEXT_MANAGER;
use brisk_sys::binder::returns::Transaction;
use brisk_sys::binder::{
    Answer, CallError, Commands, Connection, Endpoint, Server, UNKNOWN_TRANSACTION, WireFormat,
    answer_standard_transaction,
};

const MAP_BYTES: usize = 128 * 1024;

/// Registers `names` in the context of the device at `path`, calls `ready`, and serves forever.
///
/// # Errors
/// [`CallError`] when there is no context manager, or it refuses.
pub fn register_and_serve(
    path: &Path,
    format: &WireFormat,
    names: &[String],
    ready: &mut dyn FnMut(),
) -> Result<std::convert::Infallible, CallError> {
    let mut endpoint = Endpoint::new(Connection::open(path, MAP_BYTES)?);
    let mut objects = Objects;
    for (name, pointer) in names.iter().zip(1u64..) {
        let reply = endpoint.call(CONTEXT_MANAGER, format.add, &format.add_request(name, pointer), &mut objects)?;
        endpoint.finish(&reply, None);
        let is_done = reply.data.first_chunk().is_some_and(|status| i32::from_ne_bytes(*status) == 0);
        if !is_done && !reply.data.is_empty() {
            return Err(CallError::Malformed(format.name.clone()));
        }
    }
    endpoint.flush()?;
    ready();
    endpoint.serve(&mut objects)
}

/// The object behind every name.
struct Objects;

impl Server for Objects {
    fn serve(&mut self, call: &Transaction, _data: &[u8], _commands: &mut Commands) -> Answer {
        answer_standard_transaction(call.code, "brisk.lab.IService").unwrap_or(Answer::Status(UNKNOWN_TRANSACTION))
    }
}
