//! One thread's use of a binder connection: making calls, serving them, and the references in between.

use super::abi;
use super::commands::Commands;
use super::connection::Connection;
use super::parcel::Parcel;
use super::returns::{Return, Returns, Transaction};
use crate::error::DeviceError;

/// Room for returns: a reply, and the returns that may precede it.
const RETURN_BYTES: usize = 512;
/// libbinder's `UNKNOWN_TRANSACTION`: -EBADMSG.
pub const UNKNOWN_TRANSACTION: i32 = -74;

/// Serves incoming calls.
pub trait Server {
    /// Answers `call`, whose data is `data`. The commands added to `commands` are written before the answer.
    fn serve(&mut self, call: &Transaction, data: &[u8], commands: &mut Commands) -> Answer;

    /// Called when an answer is ready, before it is sent.
    fn before_answer(&mut self, connection: &Connection) {
        let _ = connection;
    }

    /// Handles the death notification that was requested with `cookie`.
    fn binder_died(&mut self, cookie: u64) {
        let _ = cookie;
    }
}

/// An answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Data, with flags of the reply.
    Data(Parcel, u32),
    /// A status code in place of data.
    Status(i32),
}

/// An answer that has arrived. Its buffer is held until [`Endpoint::finish`] frees it.
#[derive(Debug)]
pub struct Reply {
    pub data: Vec<u8>,
    buffer: u64,
}

/// A call that got no answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The driver refused it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The process of the called object is dead.
    #[error("the called process is dead (for handle 0: no context manager runs)")]
    Dead,
    /// The driver could not deliver the call or its answer.
    #[error(
        "the driver could not deliver the call or its answer (no room in a buffer, or a security module forbids it)"
    )]
    Failed,
    /// The called process is frozen.
    #[error("the called process is frozen")]
    Frozen,
    /// The called object answered with a status code.
    #[error("the called object answered with status {0}")]
    Status(i32),
    /// The answer does not follow the wire format.
    #[error("the answer is not what {0} sends")]
    Malformed(String),
    /// The answer follows the wire format, but does not do what the call asked for.
    #[error("the context manager {0}")]
    Unusable(String),
}

/// A connection in use by one thread.
#[derive(Debug)]
pub struct Endpoint {
    connection: Connection,
    commands: Commands,
    returns: Box<[u8; RETURN_BYTES]>,
    parsed: usize,
    filled: usize,
}

impl Endpoint {
    /// Uses `connection`.
    pub fn new(connection: Connection) -> Self {
        Self { connection, commands: Commands::default(), returns: Box::new([0; RETURN_BYTES]), parsed: 0, filled: 0 }
    }

    /// The connection in use.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The commands to be written with the next call.
    pub fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    /// Writes the pending commands.
    ///
    /// # Errors
    /// [`CallError::Device`].
    pub fn flush(&mut self) -> Result<(), CallError> {
        self.connection.write_read(self.commands.as_bytes(), &mut [])?;
        self.commands.clear();
        Ok(())
    }

    /// Calls `code` of `handle` and waits for the answer; meanwhile `server` serves the calls that arrive.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn call(
        &mut self,
        handle: u32,
        code: u32,
        request: &Parcel,
        server: &mut dyn Server,
    ) -> Result<Reply, CallError> {
        self.commands.transaction(handle, code, abi::ACCEPT_FDS, &request.data, &request.offsets);
        loop {
            match self.next_return()? {
                Return::Reply(reply) => return self.take(&reply),
                Return::DeadReply => return Err(CallError::Dead),
                Return::FailedReply => return Err(CallError::Failed),
                Return::FrozenReply => return Err(CallError::Frozen),
                other => self.handle(other, server)?,
            }
        }
    }

    /// Frees the buffer of `reply`, after it has taken a strong reference to `keep`, if given. Both are written with the next
    /// call.
    pub fn finish(&mut self, reply: &Reply, keep: Option<u32>) {
        if let Some(handle) = keep {
            self.commands.acquire(handle);
        }
        self.commands.free_buffer(reply.buffer);
    }

    /// Serves calls for ever.
    ///
    /// # Errors
    /// [`CallError::Device`] when the driver fails.
    pub fn serve(&mut self, server: &mut dyn Server) -> Result<std::convert::Infallible, CallError> {
        self.commands.enter_looper();
        loop {
            let item = self.next_return()?;
            self.handle(item, server)?;
        }
    }

    fn next_return(&mut self) -> Result<Return, DeviceError> {
        loop {
            let mut unread = Returns::new(&self.returns[self.parsed..self.filled]);
            match unread.next() {
                Some(Some(item)) => {
                    self.parsed = self.filled - unread.remaining();
                    return Ok(item);
                }
                Some(None) => {
                    self.parsed = self.filled;
                    return Err(DeviceError::malformed(self.connection.path(), "whole returns", "a part of one"));
                }
                None => {
                    self.filled = self.connection.write_read(self.commands.as_bytes(), &mut self.returns[..])?;
                    self.parsed = 0;
                    self.commands.clear();
                }
            }
        }
    }

    fn take(&mut self, reply: &Transaction) -> Result<Reply, CallError> {
        let mut data = Vec::new();
        self.connection.copy(reply.data, &mut data)?;
        if reply.flags & abi::STATUS_CODE != 0 {
            self.commands.free_buffer(reply.data.address);
            let status = data.first_chunk().map_or(0, |chunk| i32::from_ne_bytes(*chunk));
            return Err(CallError::Status(status));
        }
        Ok(Reply { data, buffer: reply.data.address })
    }

    fn handle(&mut self, item: Return, server: &mut dyn Server) -> Result<(), DeviceError> {
        match item {
            Return::Transaction(call) => self.answer(&call, server)?,
            Return::Referenced { confirm, pointer, cookie } => self.commands.reference_done(confirm, pointer, cookie),
            Return::DeadBinder { cookie } => {
                server.binder_died(cookie);
                self.commands.dead_binder_done(cookie);
            }
            Return::Error(code) => {
                return Err(DeviceError::malformed(self.connection.path(), "no error", &format!("BR_ERROR {code}")));
            }
            _ => {}
        }
        Ok(())
    }

    fn answer(&mut self, call: &Transaction, server: &mut dyn Server) -> Result<(), DeviceError> {
        let mut data = Vec::new();
        self.connection.copy(call.data, &mut data)?;
        let answer = server.serve(call, &data, &mut self.commands);
        server.before_answer(&self.connection);
        self.commands.free_buffer(call.data.address);
        let (parcel, flags) = match answer {
            Answer::Data(parcel, flags) => (parcel, flags),
            Answer::Status(status) => {
                let mut parcel = Parcel::default();
                parcel.put_i32(status);
                (parcel, abi::STATUS_CODE)
            }
        };
        if call.flags & abi::ONE_WAY == 0 {
            self.commands.reply(flags, &parcel.data, &parcel.offsets);
        }
        // At once: the reply's data is borrowed from `parcel`.
        self.connection.write_read(self.commands.as_bytes(), &mut [])?;
        self.commands.clear();
        Ok(())
    }
}

/// A server object's answer to a question that libbinder asks of every object; `None` for its own functions.
pub fn answer_standard_transaction(code: u32, interface: &str) -> Option<Answer> {
    let mut parcel = Parcel::default();
    match code {
        abi::PING => {}
        abi::INTERFACE => parcel.put_string16(interface),
        _ => return None,
    }
    Some(Answer::Data(parcel, 0))
}
