//! Process events from the kernel's connector (linux/cn_proc.h, Documentation/driver-api/connector.rst):
//! a netlink multicast that reports every fork, exec, change of name or user, and exit.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recvfrom, send, socket_with};
use rustix::time::{ClockId, clock_gettime};

/// `CN_IDX_PROC` and `CN_VAL_PROC`: the connector's address, and the multicast group.
const CONNECTOR_PROCESS: u32 = 1;
const LISTEN: u32 = 1;
/// `PROC_CN_MCAST_IGNORE`: cancels one `LISTEN`.
const IGNORE: u32 = 2;
const NETLINK_HEADER_BYTES: usize = 16;
const CONNECTOR_HEADER_BYTES: usize = 20;
/// `what`, `cpu` and `timestamp_ns`, before the data of each kind.
const EVENT_HEADER_BYTES: usize = 16;

const NETLINK_NOOP: u16 = 1;
const NETLINK_ERROR: u16 = 2;
const NETLINK_DONE: u16 = 3;
const NETLINK_OVERRUN: u16 = 4;

/// A storm of 1000 forks a second sends about 300 KB of socket buffers a second: this holds a second or more of it.
const RECEIVE_BUFFER_BYTES: usize = 1 << 20;
/// Datagrams read by one call, so that a storm cannot keep the caller from its other work.
const DATAGRAMS_AT_ONCE: usize = 256;
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_millis(500);

/// What the kernel reported. Thread creation, thread names and thread exits are left out: a process is its group leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The answer to a subscription: zero or an errno.
    Acknowledged(u32),
    /// A process was created.
    Fork {
        /// Its parent's process id.
        parent: u32,
        /// Its own.
        child: u32,
    },
    /// It executed another program.
    Exec {
        /// The process.
        pid: u32,
    },
    /// It changed its name (Linux 3.2).
    Comm {
        /// The process.
        pid: u32,
        /// At most 15 bytes; what is not UTF-8 is replaced.
        command: String,
    },
    /// It changed its user.
    Uid {
        /// The process.
        pid: u32,
        /// The new real user id.
        real: u32,
        /// The new effective user id.
        effective: u32,
    },
    /// It ended.
    Exit {
        /// The process.
        pid: u32,
    },
    /// The kernel dropped an unknown number of events because they were not read fast enough.
    Lost,
}

/// A notice and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedNotice {
    /// Its time, in nanoseconds of CLOCK_MONOTONIC; zero for [`Notice::Lost`].
    pub monotonic_ns: u64,
    /// The event.
    pub notice: Notice,
}

/// The current time on the clock of [`TimedNotice::monotonic_ns`].
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Why process events are not available, with advice.
#[derive(Debug, thiserror::Error)]
pub enum ProcessEventsError {
    /// The kernel was built without CONFIG_CONNECTOR.
    #[error("the kernel has no netlink connector (CONFIG_CONNECTOR): use another trigger, such as the top-app cpuset")]
    NoConnector,
    /// Joining the group needs a capability that this process lacks.
    #[error("process events need CAP_NET_ADMIN: run as root, or grant it (AmbientCapabilities=CAP_NET_ADMIN)")]
    Denied,
    /// The kernel did not answer: no CONFIG_PROC_EVENTS, or not in the first pid and user namespaces.
    #[error(
        "the kernel did not acknowledge the subscription to process events: \
         it lacks CONFIG_PROC_EVENTS, or this is a container (its own pid or user namespace)"
    )]
    NotAnswered,
    /// A system call failed.
    #[error("cannot {operation} process events: {cause}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// The kernel's answer.
        cause: io::Error,
    },
}

/// A datagram that is not what linux/cn_proc.h describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed process event: {0}")]
pub struct MalformedEvent(&'static str);

/// A subscription to the process events of the whole system.
///
/// While there is a listener, the kernel creates a message for every fork, exec and exit. Before Linux 6.6 it only counts
/// listeners and does not notice their death: a subscription that is dropped unsubscribes, but after one that ends by SIGKILL
/// the kernel creates messages without a listener until the next boot.
#[derive(Debug)]
pub struct ProcessEvents {
    socket: OwnedFd,
    listening: bool,
    /// What arrived before the acknowledgement.
    early: Vec<TimedNotice>,
}

impl ProcessEvents {
    /// Subscribes, and waits for the kernel's acknowledgement.
    ///
    /// # Errors
    /// [`ProcessEventsError`], with advice.
    pub fn open() -> Result<Self, ProcessEventsError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::CONNECTOR)).map_err(
            |error| match error {
                Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT => ProcessEventsError::NoConnector,
                error => fault("open", error),
            },
        )?;
        // Only CAP_NET_ADMIN allows more than net.core.rmem_max; the default buffer works too, but overflows sooner.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER_BYTES).is_err() {
            let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER_BYTES);
        }
        bind(&socket, &SocketAddrNetlink::new(0, CONNECTOR_PROCESS)).map_err(|error| match error {
            Errno::PERM | Errno::ACCESS => ProcessEventsError::Denied,
            error => fault("join the group of", error),
        })?;
        send(&socket, &subscription(LISTEN), SendFlags::empty()).map_err(|error| match error {
            Errno::CONNREFUSED => ProcessEventsError::NotAnswered,
            Errno::PERM | Errno::ACCESS => ProcessEventsError::Denied,
            error => fault("subscribe to", error),
        })?;
        let mut events = Self { socket, listening: true, early: Vec::new() };
        events.await_acknowledgement()?;
        Ok(events)
    }

    /// Tells the kernel whether this process needs messages now; while it does not, a fork costs as little as without brisk.
    /// Queued messages still arrive.
    ///
    /// # Errors
    /// [`ProcessEventsError::Io`]; the subscription is then unchanged.
    pub fn listen(&mut self, listen: bool) -> Result<(), ProcessEventsError> {
        if listen != self.listening {
            let operation = if listen { LISTEN } else { IGNORE };
            send(&self.socket, &subscription(operation), SendFlags::empty())
                .map_err(|error| fault(if listen { "resume" } else { "pause" }, error))?;
            self.listening = listen;
        }
        Ok(())
    }

    fn await_acknowledgement(&mut self) -> Result<(), ProcessEventsError> {
        let started = std::time::Instant::now();
        loop {
            let left = ACKNOWLEDGE_TIMEOUT.saturating_sub(started.elapsed());
            let timeout = Timespec::try_from(left).ok();
            let mut wanted = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut wanted, timeout.as_ref()) {
                Ok(0) => return Err(ProcessEventsError::NotAnswered),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(fault("wait for", error)),
            }
            let mut notices = std::mem::take(&mut self.early);
            self.receive(&mut notices)?;
            let answer = notices.iter().find_map(|timed| match timed.notice {
                Notice::Acknowledged(errno) => Some(errno),
                _ => None,
            });
            notices.retain(|timed| !matches!(timed.notice, Notice::Acknowledged(_)));
            self.early = notices;
            match answer {
                Some(0) => return Ok(()),
                Some(errno) if errno == Errno::PERM.raw_os_error() as u32 => return Err(ProcessEventsError::Denied),
                Some(errno) => return Err(fault("subscribe to", Errno::from_raw_os_error(errno as i32))),
                None => {}
            }
        }
    }

    /// Appends the notices that have arrived to `notices`, without waiting; at most a few hundred per call, so call it again
    /// while the descriptor is readable. A message that is malformed or not from the kernel is skipped.
    ///
    /// # Errors
    /// [`ProcessEventsError::Io`] when the socket fails; lost events are not an error but [`Notice::Lost`].
    pub fn receive(&mut self, notices: &mut Vec<TimedNotice>) -> Result<(), ProcessEventsError> {
        notices.append(&mut self.early);
        // Not zeroed: that would take longer than the receive.
        let mut buffer = [MaybeUninit::<u8>::uninit(); 4096];
        for _ in 0..DATAGRAMS_AT_ONCE {
            match recvfrom(&self.socket, &mut buffer[..], RecvFlags::empty()) {
                Ok(((datagram, _), _, sender)) => {
                    // Any process may send to a netlink socket's port; only port 0 is the kernel.
                    let from_kernel = sender
                        .and_then(|sender| SocketAddrNetlink::try_from(sender).ok())
                        .is_some_and(|it| it.pid() == 0);
                    if from_kernel && let Err(error) = parse(datagram, notices) {
                        tracing::debug!("{error}");
                    }
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::NOBUFS) => notices.push(TimedNotice { monotonic_ns: 0, notice: Notice::Lost }),
                Err(error) => return Err(fault("receive", error)),
            }
        }
        Ok(())
    }
}

impl Drop for ProcessEvents {
    fn drop(&mut self) {
        // No caller is left to report a failure to.
        let _ = self.listen(false);
    }
}

impl AsFd for ProcessEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn fault(operation: &'static str, error: Errno) -> ProcessEventsError {
    ProcessEventsError::Io { operation, cause: error.into() }
}

/// The request to start (`LISTEN`) or stop (`IGNORE`) the multicast: netlink header, connector header, one word.
fn subscription(operation: u32) -> Vec<u8> {
    let length = (NETLINK_HEADER_BYTES + CONNECTOR_HEADER_BYTES + 4) as u32;
    let mut message = Vec::with_capacity(length as usize);
    message.extend(length.to_ne_bytes());
    message.extend(NETLINK_DONE.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend([0u32.to_ne_bytes(), std::process::id().to_ne_bytes()].concat());
    for word in [CONNECTOR_PROCESS, CONNECTOR_PROCESS, 0, 0] {
        message.extend(word.to_ne_bytes());
    }
    message.extend(4u16.to_ne_bytes());
    message.extend(0u16.to_ne_bytes());
    message.extend(operation.to_ne_bytes());
    message
}

/// Parses one datagram, which may hold several netlink messages, and appends their notices to `notices`. Kinds of no interest
/// (group, session, trace, core dump, single threads) add nothing.
///
/// # Errors
/// [`MalformedEvent`] at the first message that contradicts the format; the notices before it are kept.
pub fn parse(datagram: &[u8], notices: &mut Vec<TimedNotice>) -> Result<(), MalformedEvent> {
    let mut rest = datagram;
    while !rest.is_empty() {
        let length = word(rest, 0).ok_or(MalformedEvent("shorter than a netlink header"))? as usize;
        if length < NETLINK_HEADER_BYTES || length > rest.len() {
            return Err(MalformedEvent("length outside the datagram"));
        }
        let message = &rest[..length];
        match u16::from_ne_bytes([message[4], message[5]]) {
            NETLINK_NOOP => {}
            NETLINK_OVERRUN => notices.push(TimedNotice { monotonic_ns: 0, notice: Notice::Lost }),
            NETLINK_ERROR => return Err(MalformedEvent("netlink error")),
            _ => notices.extend(parse_connector(&message[NETLINK_HEADER_BYTES..])?),
        }
        // Messages are aligned to four bytes; the last one need not be padded.
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
    Ok(())
}

fn parse_connector(message: &[u8]) -> Result<Option<TimedNotice>, MalformedEvent> {
    const SHORT: MalformedEvent = MalformedEvent("shorter than its kind");
    if message.len() < CONNECTOR_HEADER_BYTES + EVENT_HEADER_BYTES {
        return Err(SHORT);
    }
    if (word(message, 0), word(message, 4)) != (Some(CONNECTOR_PROCESS), Some(CONNECTOR_PROCESS)) {
        return Ok(None);
    }
    let event = &message[CONNECTOR_HEADER_BYTES..];
    let kind = word(event, 0).ok_or(SHORT)?;
    let timestamp = event[8..16].try_into().map_err(|_| SHORT)?;
    let data = &event[EVENT_HEADER_BYTES..];
    let field = |index: usize| word(data, index * 4).ok_or(SHORT);
    let notice = match kind {
        0 => Notice::Acknowledged(field(0)?),
        0x1 => {
            let (parent, child_thread, child) = (field(1)?, field(2)?, field(3)?);
            if child_thread != child {
                return Ok(None);
            }
            Notice::Fork { parent, child }
        }
        0x2 => Notice::Exec { pid: field(1)? },
        0x4 | 0x200 | 0x8000_0000 if field(0)? != field(1)? => return Ok(None),
        0x4 => Notice::Uid { pid: field(1)?, real: field(2)?, effective: field(3)? },
        0x200 => {
            let name = data.get(8..24).ok_or(SHORT)?;
            let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
            Notice::Comm { pid: field(1)?, command: String::from_utf8_lossy(&name[..end]).into_owned() }
        }
        0x8000_0000 => Notice::Exit { pid: field(1)? },
        _ => return Ok(None),
    };
    Ok(Some(TimedNotice { monotonic_ns: u64::from_ne_bytes(timestamp), notice }))
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let word = bytes.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A datagram as the kernel sends it: the event's data is 24 bytes, whatever the kind (proc_event is a union).
    fn datagram(kind: u32, data: &[u32]) -> Vec<u8> {
        let mut message = subscription(0);
        message.truncate(NETLINK_HEADER_BYTES + CONNECTOR_HEADER_BYTES);
        for word in [kind, 0, 7, 0] {
            message.extend(u32::to_ne_bytes(word));
        }
        for index in 0..6 {
            message.extend(data.get(index).copied().unwrap_or(0).to_ne_bytes());
        }
        let length = message.len() as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message
    }

    fn parsed(bytes: &[u8]) -> Vec<Notice> {
        let mut notices = Vec::new();
        parse(bytes, &mut notices).unwrap();
        notices.into_iter().map(|timed| timed.notice).collect()
    }

    /// Whether the creation of a child process is reported, within 20 s.
    fn hears(events: &mut ProcessEvents) -> bool {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let is_its_birth =
            |timed: &TimedNotice| matches!(timed.notice, Notice::Fork { child: born, .. } if born == child.id());
        let started = std::time::Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            let mut notices = Vec::new();
            events.receive(&mut notices).unwrap();
            if notices.iter().any(is_its_birth) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    // Verifies COST-1.
    #[test]
    fn events_resume_after_a_pause_and_other_listeners_keep_theirs() {
        let (mut ours, other) = match (ProcessEvents::open(), ProcessEvents::open()) {
            (Ok(ours), Ok(other)) => (ours, other),
            (Err(error), _) | (_, Err(error)) => return eprintln!("skipped: {error}"),
        };
        ours.listen(false).unwrap();
        ours.listen(false).unwrap();
        ours.listen(true).unwrap();
        assert!(hears(&mut ours));
        drop(other);
        assert!(hears(&mut ours));
    }

    #[test]
    fn each_kind_parses_and_threads_are_left_out() {
        let name = |text: &[u8; 8]| {
            [u32::from_ne_bytes(text[..4].try_into().unwrap()), u32::from_ne_bytes(text[4..].try_into().unwrap())]
        };
        let [first, second] = name(b"glxgears");
        let cases: [(u32, &[u32], Option<Notice>); 11] = [
            (0, &[1], Some(Notice::Acknowledged(1))),
            (0x1, &[11, 10, 20, 20], Some(Notice::Fork { parent: 10, child: 20 })),
            (0x1, &[11, 10, 21, 10], None),
            (0x2, &[20, 20], Some(Notice::Exec { pid: 20 })),
            (0x2, &[21, 20], Some(Notice::Exec { pid: 20 })),
            (0x4, &[20, 20, 1000, 0], Some(Notice::Uid { pid: 20, real: 1000, effective: 0 })),
            (0x200, &[20, 20, first, second], Some(Notice::Comm { pid: 20, command: "glxgears".into() })),
            (0x200, &[21, 20, first, second], None),
            (0x8000_0000, &[20, 20, 0, 17], Some(Notice::Exit { pid: 20 })),
            (0x8000_0000, &[21, 20, 0, 17], None),
            (0x40, &[20, 20, 5, 5], None),
        ];
        for (kind, data, expected) in cases {
            assert_eq!(parsed(&datagram(kind, data)), Vec::from_iter(expected), "kind {kind:#x}, data {data:?}");
        }
    }

    #[test]
    fn several_messages_in_one_datagram_are_all_read() {
        let both = [datagram(0x2, &[20, 20]), datagram(0x8000_0000, &[20, 20])].concat();
        assert_eq!(parsed(&both), [Notice::Exec { pid: 20 }, Notice::Exit { pid: 20 }]);
        let mut notices = Vec::new();
        assert!(parse(&both[..both.len() - 1], &mut notices).is_err());
        assert_eq!(notices.len(), 1, "what came before the damage is kept");
        assert_eq!(notices[0].monotonic_ns, 7);
    }

    // Verifies LAUNCH-1.
    #[test]
    fn this_kernel_reports_a_child_process() {
        let mut events = match ProcessEvents::open() {
            Ok(events) => events,
            Err(error) => return eprintln!("skipped: {error}"),
        };
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let started = std::time::Instant::now();
        let mut seen = Vec::new();
        while started.elapsed() < Duration::from_secs(5) {
            events.receive(&mut seen).unwrap();
            if seen.iter().any(|timed| timed.notice == Notice::Exit { pid }) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let of_child = |notice: &Notice| match *notice {
            Notice::Fork { child, .. } => child == pid,
            Notice::Exec { pid: it } | Notice::Exit { pid: it } => it == pid,
            _ => false,
        };
        let kinds: Vec<_> = seen.iter().map(|timed| &timed.notice).filter(|notice| of_child(notice)).collect();
        assert!(matches!(kinds[..], [Notice::Fork { .. }, Notice::Exec { .. }, Notice::Exit { .. }]), "{kinds:?}");
        assert!(seen.windows(2).all(|pair| pair[0].monotonic_ns > 0));
    }

    proptest! {
        // Verifies LAUNCH-1.
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in any::<u32>(), cut in 0usize..90) {
            let _ = parse(&bytes, &mut Vec::new());
            let whole = datagram(kind, &[1, 2, 3, 4]);
            let _ = parse(&whole[..cut.min(whole.len())], &mut Vec::new());
        }
    }
}
