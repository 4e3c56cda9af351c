//! One client of the control socket, with limits on input, output and silence.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::protocol::{self, MAXIMUM_LINE_BYTES};
use super::rates::Caller;
use brisk_sys::BootTime;

/// The most output that is stored for a client that does not read.
const MAXIMUM_OUTPUT_BYTES: usize = 256 << 10;
/// A client that has not read an answer for this long is disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// A client that has connected, or begun a request, and completes no request for this long is disconnected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a client stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepOpen {
    /// It stays connected.
    Yes,
    /// It is disconnected now.
    No,
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    /// Its credentials.
    pub caller: Caller,
    input: Vec<u8>,
    output: VecDeque<u8>,
    /// It has shut down its sending side.
    ended: bool,
    /// Nothing more is read from it; it is disconnected once its output is written.
    closing: bool,
    /// It receives every launch.
    pub watching: bool,
    /// When it connected or sent its last request.
    pub last_request_at: BootTime,
    /// When it connected or began a request, until it has completed one.
    silent_since: Option<BootTime>,
    blocked_since: Option<BootTime>,
}

impl Client {
    /// A client that connected at `now`.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking.
    pub fn new(stream: UnixStream, caller: Caller, now: BootTime) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            caller,
            input: Vec::new(),
            output: VecDeque::new(),
            ended: false,
            closing: false,
            watching: false,
            last_request_at: now,
            silent_since: Some(now),
            blocked_since: None,
        })
    }

    /// Reads at most [`MAXIMUM_LINE_BYTES`] of what it sent.
    pub fn read(&mut self, now: BootTime) -> KeepOpen {
        if self.closing {
            return KeepOpen::Yes;
        }
        let mut buffer = [0u8; MAXIMUM_LINE_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(length) => {
                self.input.extend_from_slice(&buffer[..length]);
                self.silent_since.get_or_insert(now);
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return KeepOpen::No,
        }
        KeepOpen::Yes
    }

    /// Its next complete line, if its last answer has been written.
    pub fn next_line(&mut self, now: BootTime) -> Option<Vec<u8>> {
        if self.closing || !self.output.is_empty() {
            return None;
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else {
            if self.input.len() >= MAXIMUM_LINE_BYTES {
                self.refuse(&format!("a request has at most {MAXIMUM_LINE_BYTES} bytes and ends with a newline"));
            } else if self.ended && !self.input.is_empty() {
                self.refuse("the connection ended within a request: end each with a newline");
            }
            return None;
        };
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        self.last_request_at = now;
        self.silent_since = (!self.input.is_empty()).then_some(now);
        Some(line)
    }

    /// Queues `line`. A client that does not keep up with its output is disconnected.
    pub fn send(&mut self, line: &str) {
        if self.output.len() + line.len() > MAXIMUM_OUTPUT_BYTES {
            self.closing = true;
            return;
        }
        self.output.extend(line.as_bytes());
    }

    /// Queues an error, after which the client is disconnected.
    pub fn refuse(&mut self, error: &str) {
        self.send(&protocol::refusal(error));
        self.closing = true;
        self.input = Vec::new();
    }

    /// Writes queued output without blocking.
    pub fn flush(&mut self, now: BootTime) -> KeepOpen {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(0) => return KeepOpen::No,
                Ok(written) => {
                    self.output.drain(..written);
                    self.blocked_since = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    return KeepOpen::Yes;
                }
                Err(_) => return KeepOpen::No,
            }
        }
        let finished = self.ended && !self.input.contains(&b'\n') && !self.watching;
        if self.closing || finished { KeepOpen::No } else { KeepOpen::Yes }
    }

    /// True while output waits for the client to read.
    pub fn is_blocked(&self) -> bool {
        !self.output.is_empty()
    }

    /// True when it has shut down its sending side: its descriptor stays readable for ever.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True when it has sent a line that was not taken yet.
    pub fn has_line(&self) -> bool {
        !self.closing && self.output.is_empty() && self.input.contains(&b'\n')
    }

    /// When it is disconnected, unless it sends or reads before.
    pub fn deadline(&self) -> Option<BootTime> {
        let silent = self.silent_since.filter(|_| !self.watching).map(|since| since + REQUEST_TIMEOUT);
        self.blocked_since.map(|since| since + WRITE_TIMEOUT).or(silent)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
