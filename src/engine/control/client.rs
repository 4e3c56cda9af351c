//! One client of the control socket: bounded input, bounded output, a bounded rate.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::protocol::{self, MAXIMUM_LINE_BYTES};
use crate::device::BootTime;

/// A client that reads nothing gets no more than this stored for it.
const MAXIMUM_OUTPUT_BYTES: usize = 256 << 10;
/// A client that has not read an answer for this long may be dropped for another.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// Whether a client stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stay {
    /// It stays.
    Yes,
    /// It goes, now.
    No,
}

/// A connected client.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    output: VecDeque<u8>,
    /// It has sent everything it will send.
    ended: bool,
    /// Nothing more is read from it; it is hung up on when its output is gone.
    closing: bool,
    /// It wants to hear of every launch.
    pub watching: bool,
    window_began: BootTime,
    requests_in_window: u64,
    blocked_since: Option<BootTime>,
}

impl Client {
    /// A client that connected at `now`.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking.
    pub fn new(stream: UnixStream, now: BootTime) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
            output: VecDeque::new(),
            ended: false,
            closing: false,
            watching: false,
            window_began: now,
            requests_in_window: 0,
            blocked_since: None,
        })
    }

    /// Reads a bounded amount of what it sent.
    pub fn read(&mut self) -> Stay {
        if self.closing {
            return Stay::Yes;
        }
        let mut buffer = [0u8; MAXIMUM_LINE_BYTES];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.ended = true,
            Ok(length) => self.input.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Stay::No,
        }
        Stay::Yes
    }

    /// Its next complete line, if its last answer is on its way and it does not ask too often.
    pub fn next_line(&mut self, now: BootTime, maximum_per_second: u64) -> Option<Vec<u8>> {
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
        if now.since(self.window_began) >= Duration::from_secs(1) {
            (self.window_began, self.requests_in_window) = (now, 0);
        }
        self.requests_in_window += 1;
        if self.requests_in_window > maximum_per_second {
            self.refuse(&format!("more than {maximum_per_second} requests a second: wait and connect again"));
            return None;
        }
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        Some(line)
    }

    /// Sends `line`, now or when it reads again. A watcher that does not keep up is hung up on.
    pub fn send(&mut self, line: &str) {
        if self.output.len() + line.len() > MAXIMUM_OUTPUT_BYTES {
            self.closing = true;
            return;
        }
        self.output.extend(line.as_bytes());
    }

    /// Sends why it is hung up on, and hangs up then.
    pub fn refuse(&mut self, error: &str) {
        self.send(&protocol::refusal(error));
        self.closing = true;
        self.input = Vec::new();
    }

    /// Writes what there is to write, without waiting.
    pub fn flush(&mut self, now: BootTime) -> Stay {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(0) => return Stay::No,
                Ok(written) => {
                    self.output.drain(..written);
                    self.blocked_since = None;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    return Stay::Yes;
                }
                Err(_) => return Stay::No,
            }
        }
        let finished = self.ended && !self.input.contains(&b'\n') && !self.watching;
        if self.closing || finished { Stay::No } else { Stay::Yes }
    }

    /// True while it is waited for to read.
    pub fn is_blocked(&self) -> bool {
        !self.output.is_empty()
    }

    /// True when it has sent everything and only listens: its descriptor stays readable for ever.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True when it has not read for so long that its place may be given to another.
    pub fn is_stuck(&self, now: BootTime) -> bool {
        self.blocked_since.is_some_and(|since| now.since(since) >= STUCK_AFTER)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}
