//! The daemon's epoll instance: level-triggered, so that each source can be read a bounded amount at a time.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;

/// What became ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// SIGTERM or SIGINT arrived.
    Stop,
    /// SIGHUP arrived.
    Reload,
    /// The earliest of all deadlines has passed.
    Timer,
    /// Process events are pending.
    Processes,
    /// A cpufreq file was written.
    CpufreqFiles,
    /// CPUs or cpufreq policies may have been added or removed.
    Uevents,
    /// The group of the processes in the foreground changed.
    Foreground,
    /// The foreground session changed.
    Session,
    /// The guardian died.
    Guardian,
    /// A client wants to connect to the control socket.
    Listener,
    /// A client of the control socket, by its number.
    Client(u32),
    /// A process whose end is awaited, by its id.
    Exit(u32),
    /// The child of a mechanism, by the mechanism's index, wrote output or died.
    Child(u32),
    /// Tasks stall on memory.
    Pressure,
}

impl Token {
    /// True for the control socket and its clients, which are served last.
    pub fn is_control_socket(self) -> bool {
        matches!(self, Self::Listener | Self::Client(_))
    }

    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Stop => (0u64, 0),
            Self::Reload => (1, 0),
            Self::Timer => (2, 0),
            Self::Processes => (3, 0),
            Self::CpufreqFiles => (4, 0),
            Self::Uevents => (5, 0),
            Self::Foreground => (6, 0),
            Self::Guardian => (7, 0),
            Self::Listener => (8, 0),
            Self::Client(number) => (9, number),
            Self::Exit(pid) => (10, pid),
            Self::Child(index) => (11, index),
            Self::Session => (12, 0),
            Self::Pressure => (13, 0),
        };
        kind << 32 | u64::from(number)
    }

    fn decode(data: u64) -> Option<Self> {
        let number = data as u32;
        Some(match data >> 32 {
            0 => Self::Stop,
            1 => Self::Reload,
            2 => Self::Timer,
            3 => Self::Processes,
            4 => Self::CpufreqFiles,
            5 => Self::Uevents,
            6 => Self::Foreground,
            7 => Self::Guardian,
            8 => Self::Listener,
            9 => Self::Client(number),
            10 => Self::Exit(number),
            11 => Self::Child(number),
            12 => Self::Session,
            13 => Self::Pressure,
            _ => return None,
        })
    }
}

/// The most events that one call returns.
const EVENTS_AT_ONCE: usize = 16;

/// The epoll instance.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// A new instance that watches nothing.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    /// Watches `source` for input, or a PSI trigger for its event, until it is closed or removed.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn watch(&self, source: impl AsFd, token: Token) -> io::Result<()> {
        let flags = if token == Token::Pressure { EventFlags::PRI } else { EventFlags::IN };
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token.encode()), flags)?)
    }

    /// Watches `source` for writability if `write`, else for input again.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn rewatch(&self, source: impl AsFd, token: Token, write: bool) -> io::Result<()> {
        let flags = if write { EventFlags::OUT } else { EventFlags::IN };
        Ok(epoll::modify(&self.epoll, source, EventData::new_u64(token.encode()), flags)?)
    }

    /// Stops watching `source`.
    pub fn unwatch(&self, source: impl AsFd) {
        // It may have been removed already.
        let _ = epoll::delete(&self.epoll, source);
    }

    /// Waits, at most `timeout` if given, and appends the sources that became ready to `ready`.
    ///
    /// # Errors
    /// The kernel's error; a signal is none.
    pub fn wait(&self, ready: &mut Vec<Token>, timeout: Option<&Timespec>) -> io::Result<()> {
        let mut events = [MaybeUninit::uninit(); EVENTS_AT_ONCE];
        match epoll::wait(&self.epoll, &mut events, timeout) {
            Ok((events, _)) => {
                ready.extend(events.iter().filter_map(|event| Token::decode(event.data.u64())));
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_tokens_are_decoded_again() {
        for token in [Token::Stop, Token::Listener, Token::Client(7), Token::Exit(u32::MAX)] {
            assert_eq!(Token::decode(token.encode()), Some(token));
        }
        assert_eq!(Token::decode(u64::MAX), None);
    }
}
