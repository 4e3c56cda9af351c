//! A client that looks services up as libbinder does, without a library in between: one driver call for each lookup, which also
//! carries the reference commands of the previous lookup.

use std::path::Path;

use brisk_sys::binder::abi::{self, CONTEXT_MANAGER};
use brisk_sys::binder::parcel::{Object, Parcel};
use brisk_sys::binder::returns::{Return, Returns, Transaction};
use brisk_sys::binder::{CallError, Commands, Connection, ListStyle, WireFormat};
use brisk_sys::cpu::ticks;
use brisk_sys::error::DeviceError;

/// Size of the mapping for the answers of lookups.
const MAP_BYTES: usize = 128 * 1024;

/// The times of one lookup, in ticks of the processor's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// The counter when the driver was called.
    pub asked_at: u64,
    /// Building the request.
    pub request: u64,
    /// In the driver and in the process that answers.
    pub call: u64,
    /// Reading the answer.
    pub answer: u64,
}

/// The client of one connection.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    format: &'static WireFormat,
    /// A lookup's request; the part before the name is constant.
    request: Parcel,
    prefix_bytes: usize,
    commands: Commands,
    returns: Box<[u8; 512]>,
    copy: Vec<u8>,
}

impl Client {
    /// Opens a connection of its own to the binder device `device`; requests are in `format`.
    ///
    /// # Errors
    /// [`DeviceError`] when the device cannot be opened or mapped, or speaks another protocol.
    pub fn open(device: &Path, format: &'static WireFormat) -> Result<Self, DeviceError> {
        Ok(Self::new(Connection::open(device, MAP_BYTES)?, format))
    }

    /// Sends requests in `format` over `connection`.
    pub fn new(connection: Connection, format: &'static WireFormat) -> Self {
        let request = format.request();
        let prefix_bytes = request.data.len();
        let (commands, returns, copy) = (Commands::default(), Box::new([0; 512]), Vec::new());
        Self { connection, format, request, prefix_bytes, commands, returns, copy }
    }

    /// Looks `name` up with `code`, and keeps a reference until the next lookup. Returns the object and the times.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn lookup(&mut self, code: u32, name: &str) -> Result<(Object, Timing), CallError> {
        let began = ticks::now();
        self.request.data.truncate(self.prefix_bytes);
        self.request.put_string16(name);
        self.commands.transaction(CONTEXT_MANAGER, code, abi::ACCEPT_FDS, &self.request.data, &[]);
        let asked = ticks::now();
        let reply = self.transact()?;
        let answered = ticks::now();
        self.connection.copy(reply.data, &mut self.copy)?;
        self.commands.clear();
        let object = if reply.flags & abi::STATUS_CODE == 0 { self.format.read_service(&self.copy) } else { None };
        if let Some(Object::Handle(handle)) = object {
            self.commands.acquire(handle);
        }
        self.commands.free_buffer(reply.data.address);
        if let Some(Object::Handle(handle)) = object {
            self.commands.release(handle);
        }
        let read = ticks::now();
        let (request, call, answer) = (asked - began, answered - asked, read - answered);
        let timing = Timing { asked_at: asked, request, call, answer };
        object.map(|object| (object, timing)).ok_or_else(|| CallError::Malformed(self.format.name.clone()))
    }

    /// The names that the context manager lists.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn list(&mut self) -> Result<Vec<String>, CallError> {
        let mut names = Vec::new();
        loop {
            let request = self.format.list_request(names.len() as i32);
            self.commands.transaction(CONTEXT_MANAGER, self.format.list, abi::ACCEPT_FDS, &request.data, &[]);
            let reply = self.transact()?;
            self.connection.copy(reply.data, &mut self.copy)?;
            self.commands.clear();
            self.commands.free_buffer(reply.data.address);
            // One name for each call until there is no more, or all at once.
            let more = if reply.flags & abi::STATUS_CODE == 0 { self.format.read_names(&self.copy) } else { None };
            match (more, self.format.list_style) {
                (Some(more), ListStyle::Array) => return Ok(more),
                (Some(more), _) => names.extend(more),
                (None, ListStyle::Index | ListStyle::IndexAndPriority) => return Ok(names),
                (None, ListStyle::Array) => return Err(CallError::Malformed(self.format.name.clone())),
            }
        }
    }

    /// Registers an object of this process as `name`.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn register(&mut self, name: &str, pointer: u64) -> Result<(), CallError> {
        self.flush_commands()?;
        let Parcel { data, offsets } = self.format.add_request(name, pointer);
        self.commands.transaction(CONTEXT_MANAGER, self.format.add, abi::ACCEPT_FDS, &data, &offsets);
        let reply = self.transact();
        self.commands.clear();
        let reply = reply?;
        self.commands.free_buffer(reply.data.address);
        match reply.flags & abi::STATUS_CODE {
            0 => Ok(()),
            _ => Err(CallError::Unusable(format!("does not register {name}"))),
        }
    }

    /// Pings the context manager.
    ///
    /// # Errors
    /// [`CallError::Dead`] when there is none.
    pub fn ping(&mut self) -> Result<(), CallError> {
        self.commands.transaction(CONTEXT_MANAGER, abi::PING, abi::ACCEPT_FDS, &[], &[]);
        let reply = self.transact();
        self.commands.clear();
        self.commands.free_buffer(reply?.data.address);
        Ok(())
    }

    /// Takes one more reference of `handle`, for the client's lifetime.
    pub fn keep(&mut self, handle: u32) {
        // Before the command that releases the last lookup's reference.
        let rest = std::mem::take(&mut self.commands);
        self.commands.acquire(handle);
        self.commands.append(&rest);
    }

    /// Ticks of a call of the driver that does nothing.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn empty_call(&mut self) -> Result<u64, CallError> {
        self.flush_commands()?;
        let began = ticks::now();
        self.connection.write_read(&[], &mut [])?;
        Ok(ticks::now() - began)
    }

    /// Ticks of a call of the driver that takes a reference of `handle` and releases it.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn reference_pair(&mut self, handle: u32) -> Result<u64, CallError> {
        self.flush_commands()?;
        self.commands.acquire(handle);
        self.commands.release(handle);
        let began = ticks::now();
        self.connection.write_read(self.commands.as_bytes(), &mut [])?;
        let ended = ticks::now();
        self.commands.clear();
        Ok(ended - began)
    }

    /// Sends the remaining commands of the last lookup.
    fn flush_commands(&mut self) -> Result<(), DeviceError> {
        if !self.commands.is_empty() {
            self.connection.write_read(self.commands.as_bytes(), &mut [])?;
            self.commands.clear();
        }
        Ok(())
    }

    /// Writes the commands and reads until the reply arrives.
    fn transact(&mut self) -> Result<Transaction, CallError> {
        let mut commands = self.commands.as_bytes();
        loop {
            let filled = self.connection.write_read(commands, &mut self.returns[..])?;
            commands = &[];
            for item in Returns::new(&self.returns[..filled]) {
                match item {
                    Some(Return::Reply(reply)) => return Ok(reply),
                    Some(Return::DeadReply) => return Err(CallError::Dead),
                    Some(Return::FailedReply) => return Err(CallError::Failed),
                    Some(Return::FrozenReply) => return Err(CallError::Frozen),
                    Some(_) => {}
                    None => return Err(CallError::Malformed("the driver".into())),
                }
            }
        }
    }
}
