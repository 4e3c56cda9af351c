//! The client side of the control socket: for `brisk status`, `brisk launch` and the experiments.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::protocol::{self, Message, Request, VERSION};
use brisk_sys::Root;

/// A working daemon answers within milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the daemon did not answer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// No program listens.
    #[error("no daemon is running (no program listens on {}); start it with `systemctl start brisk` or `brisk daemon`", path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// This user may not use the socket.
    #[error("may not use {}: run as root, or as a member of its group", path.display())]
    Denied {
        /// The socket.
        path: PathBuf,
    },
    /// The daemon does not answer.
    #[error("the daemon on {} does not answer: {source}", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The daemon answered with an error.
    #[error("the daemon refused: {0}")]
    Refused(String),
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Connection {
    path: PathBuf,
    reader: BufReader<UnixStream>,
}

impl Connection {
    /// Connects to the daemon below `root`.
    ///
    /// # Errors
    /// [`ConnectionError::NoDaemon`] or [`ConnectionError::Denied`].
    pub fn open(root: &Root) -> Result<Self, ConnectionError> {
        let path = super::path(root);
        let stream = match UnixStream::connect(&path) {
            Ok(stream) => stream,
            Err(error) => {
                return Err(match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => ConnectionError::NoDaemon { path },
                    io::ErrorKind::PermissionDenied => ConnectionError::Denied { path },
                    _ => ConnectionError::Io { path, source: error },
                });
            }
        };
        let fault = |source| ConnectionError::Io { path: path.clone(), source };
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(fault)?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(fault)?;
        Ok(Self { path, reader: BufReader::new(stream) })
    }

    /// Sends a request, and waits for the answer.
    ///
    /// # Errors
    /// [`ConnectionError::Refused`] with the daemon's text, or when it does not answer.
    pub fn request(&mut self, request: Request) -> Result<Value, ConnectionError> {
        let mut line = serde_json::to_string(&Message { version: VERSION, request }).unwrap_or_default();
        line.push('\n');
        // If the daemon has closed the connection, it has sent the reason before.
        let sent = self.reader.get_mut().write_all(line.as_bytes());
        match self.next() {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(self.fault(sent.err().unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()))),
            Err(error) => Err(error),
        }
    }

    /// After [`Request::Watch`]: waits for the next line without a timeout; `None` when the daemon has closed the connection.
    ///
    /// # Errors
    /// As [`Connection::request`].
    pub fn wait(&mut self) -> Result<Option<Value>, ConnectionError> {
        self.reader.get_ref().set_read_timeout(None).map_err(|error| self.fault(error))?;
        self.next()
    }

    fn next(&mut self) -> Result<Option<Value>, ConnectionError> {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => protocol::parse_answer(&line).map(Some).map_err(ConnectionError::Refused),
            Err(error) => Err(self.fault(error)),
        }
    }

    fn fault(&self, source: io::Error) -> ConnectionError {
        ConnectionError::Io { path: self.path.clone(), source }
    }
}
