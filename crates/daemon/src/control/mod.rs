//! The control socket: `brisk status`, `brisk launch` and other programs talk to the daemon here.
//!
//! Only root, the daemon's user and the socket's group may connect. A client that floods, sends garbage, or sends or reads
//! nothing gets an error and is disconnected, without effect on other clients. Request rates are counted by the peer's
//! credentials (`rates`). At the limit of clients a long idle one is disconnected, and root can always connect.

pub mod client;
pub mod connection;
pub mod protocol;
mod rates;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rustix::fs::{Mode, chownat};
use rustix::process::{Gid, geteuid, umask};

use super::poller::{Poller, Token};
use brisk_config::ControlConfig;
use brisk_sys::process::peer::Peer;
use brisk_sys::{BootTime, Root};
use client::{Client, KeepOpen};
use protocol::Request;
use rates::{Caller, LimitedEvent, RateLimiter};

/// Owner and group may use the socket.
const SOCKET_MODE: u32 = 0o660;
/// At the limit of clients, one that has sent no request for this long may be disconnected for a new one.
const IDLE_AFTER: Duration = Duration::from_secs(10);
/// The group may enter the folder.
const FOLDER_MODE: u32 = 0o750;

/// The real path of the socket below `root`.
pub fn path(root: &Root) -> PathBuf {
    root.runtime_folder().join("control")
}

/// The listening socket and its clients.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    gid: u32,
    config: ControlConfig,
    clients: BTreeMap<u32, Client>,
    next_number: u32,
    /// The client whose line was taken last.
    served: u32,
    rates: RateLimiter,
    /// The number of clients refused or disconnected.
    pub refused: u64,
}

impl Control {
    /// Listens below `root`. The caller holds the journal's lock, so an existing socket is from a dead daemon.
    ///
    /// # Errors
    /// When the socket cannot be created, or the configured group does not exist.
    pub fn open(root: &Root, config: &ControlConfig, poller: &Poller) -> anyhow::Result<Self> {
        let path = path(root);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove the old {}", path.display()));
            }
            _ => {}
        }
        // No client may connect between bind and chmod.
        let before = umask(Mode::from_raw_mode(0o177));
        let listener = UnixListener::bind(&path);
        umask(before);
        let listener = listener.with_context(|| format!("cannot listen on {}", path.display()))?;
        listener.set_nonblocking(true)?;
        poller.watch(&listener, Token::Listener)?;
        let mut control = Self {
            listener,
            path,
            gid: 0,
            config: ControlConfig::default(),
            clients: BTreeMap::new(),
            next_number: 0,
            served: 0,
            rates: RateLimiter::default(),
            refused: 0,
        };
        control.reconfigure(root, config)?;
        Ok(control)
    }

    /// Applies new limits and a new group.
    ///
    /// # Errors
    /// When the group does not exist or the socket's group cannot be changed.
    pub fn reconfigure(&mut self, root: &Root, config: &ControlConfig) -> anyhow::Result<()> {
        if !config.group.is_empty() {
            let gid = group_id(root, &config.group)?;
            let folder = self.path.parent().unwrap_or(Path::new("/"));
            for path in [self.path.as_path(), folder] {
                chownat(rustix::fs::CWD, path, None, Some(Gid::from_raw(gid)), rustix::fs::AtFlags::empty())
                    .with_context(|| format!("cannot give {} to group {}", path.display(), config.group))?;
            }
            fs::set_permissions(folder, fs::Permissions::from_mode(FOLDER_MODE))
                .with_context(|| format!("cannot open {} to group {}", folder.display(), config.group))?;
        }
        fs::set_permissions(&self.path, fs::Permissions::from_mode(SOCKET_MODE))
            .with_context(|| format!("cannot set the rights of {}", self.path.display()))?;
        self.gid = fs::metadata(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?.gid();
        self.config = config.clone();
        Ok(())
    }

    /// Accepts one client.
    pub fn accept(&mut self, now: BootTime, poller: &Poller) {
        let stream = match self.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => {
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) {
                    tracing::warn!("cannot accept a client on {}: {error}", self.path.display());
                }
                return;
            }
        };
        let caller = match self.admit(&stream, now, poller) {
            Ok(caller) => caller,
            Err(reason) => {
                self.refused += 1;
                return reject(stream, &reason);
            }
        };
        let number = self.next_number;
        self.next_number = self.next_number.wrapping_add(1);
        let client = Client::new(stream, caller, now);
        match client.and_then(|client| poller.watch(&client, Token::Client(number)).map(|()| client)) {
            Ok(client) => {
                self.clients.insert(number, client);
            }
            Err(error) => tracing::warn!("cannot serve a client: {error}"),
        }
    }

    fn admit(&mut self, stream: &UnixStream, now: BootTime, poller: &Poller) -> Result<Caller, String> {
        let peer = Peer::of(stream).map_err(|error| format!("cannot read your credentials: {error}"))?;
        if peer.uid != 0 && peer.uid != geteuid().as_raw() && !peer.is_in(self.gid) {
            return Err(format!("user {} may not connect: only root and group {} may", peer.uid, self.gid));
        }
        let caller = Caller { uid: peer.uid, pid: peer.pid };
        let maximum = self.config.maximum_requests_per_second;
        if !self.rates.admit(now, caller, LimitedEvent::Connection, maximum) {
            return Err(format!("more than {maximum} connections a second: wait"));
        }
        if self.clients.len() as u64 >= self.config.maximum_clients {
            let Some(number) = self.client_to_evict(now, caller) else {
                return Err(format!("{} clients are served already: try again", self.config.maximum_clients));
            };
            self.disconnect(number, "another client needs the connection", now, poller);
        }
        Ok(caller)
    }

    /// The client to disconnect for `caller` at the limit of clients: the longest idle one, if idle for [`IDLE_AFTER`]. Else,
    /// for root or a user with at least two fewer connections, a client of the user that has most.
    fn client_to_evict(&self, now: BootTime, caller: Caller) -> Option<u32> {
        let connection_count = |uid| self.clients.values().filter(|client| client.caller.uid == uid).count();
        let is_idle = |client: &Client| !client.watching && now.since(client.last_request_at) >= IDLE_AFTER;
        let rank = |client: &Client| (is_idle(client), connection_count(client.caller.uid), !client.watching);
        let last =
            |(one, other): (&Client, &Client)| (rank(one), other.last_request_at) > (rank(other), one.last_request_at);
        let mut clients = self.clients.iter();
        let first = clients.next()?;
        let (number, client) = clients.fold(first, |found, next| if last((next.1, found.1)) { next } else { found });
        let has_more = connection_count(client.caller.uid) > connection_count(caller.uid) + 1;
        (is_idle(client) || caller.uid == 0 || has_more).then_some(*number)
    }

    /// The next client, round-robin, that has sent a line which was not taken yet.
    pub fn next_pending(&self) -> Option<u32> {
        let mut pending = self.clients.iter().filter(|(_, client)| client.has_line()).map(|(&number, _)| number);
        let first = pending.clone().next();
        pending.find(|&number| number > self.served).or(first)
    }

    /// When [`Control::expire`] is due.
    pub fn deadline(&self) -> Option<BootTime> {
        self.clients.values().filter_map(Client::deadline).min()
    }

    /// Disconnects clients that send no request or read no answer.
    pub fn expire(&mut self, now: BootTime, poller: &Poller) {
        let is_due = |client: &Client| client.deadline().is_some_and(|deadline| deadline <= now);
        let due: Vec<u32> =
            self.clients.iter().filter(|(_, client)| is_due(client)).map(|(&number, _)| number).collect();
        due.into_iter()
            .for_each(|number| self.disconnect(number, "no request was sent, or no answer was read", now, poller));
    }

    fn disconnect(&mut self, number: u32, reason: &str, now: BootTime, poller: &Poller) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.refuse(reason);
            let _ = client.flush(now);
        }
        self.refused += 1;
        self.drop_client(number, poller);
    }

    /// The next request of client `number`, after it became ready: `None` when there is no complete one.
    /// The caller answers it with [`Control::answer`].
    pub fn next_request(&mut self, number: u32, now: BootTime) -> Option<Result<Request, String>> {
        let client = self.clients.get_mut(&number)?;
        let line = client.next_line(now)?;
        self.served = number;
        let maximum = self.config.maximum_requests_per_second;
        if !self.rates.admit(now, client.caller, LimitedEvent::Request, maximum) {
            client.refuse(&format!("more than {maximum} requests a second: wait"));
            return None;
        }
        Some(protocol::parse(&line))
    }

    /// Reads from client `number`, unless it has an answer or a request pending.
    pub fn read(&mut self, number: u32, now: BootTime, poller: &Poller) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        // At most one read is stored: its requests are answered first.
        if !client.is_blocked() && !client.has_line() && client.read(now) == KeepOpen::No {
            self.drop_client(number, poller);
        }
    }

    /// Sends `line` to client `number`.
    pub fn answer(&mut self, number: u32, line: &str, now: BootTime) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.send(line);
            // Write immediately: most answers fit, and then the client's next request can be taken.
            let _ = client.flush(now);
        }
    }

    /// Client `number` receives every launch from now on.
    pub fn watch(&mut self, number: u32) {
        if let Some(client) = self.clients.get_mut(&number) {
            client.watching = true;
        }
    }

    /// True while a client watches launches.
    pub fn is_watched(&self) -> bool {
        self.clients.values().any(|client| client.watching)
    }

    /// Sends `line` to all clients that watch.
    pub fn broadcast(&mut self, line: &str, now: BootTime, poller: &Poller) {
        let watching: Vec<u32> =
            self.clients.iter().filter(|(_, client)| client.watching).map(|(&number, _)| number).collect();
        for number in watching {
            self.answer(number, line, now);
            self.flush_and_rearm(number, now, poller);
        }
    }

    /// Writes the pending output of client `number`, then polls it for reading or writing.
    pub fn flush_and_rearm(&mut self, number: u32, now: BootTime, poller: &Poller) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let keep_open =
            client.flush(now) == KeepOpen::Yes && !(client.has_ended() && client.watching && !client.is_blocked());
        let token = Token::Client(number);
        if !keep_open || poller.rewatch(&*client, token, client.is_blocked()).is_err() {
            self.drop_client(number, poller);
        }
    }

    fn drop_client(&mut self, number: u32, poller: &Poller) {
        if let Some(client) = self.clients.remove(&number) {
            poller.unwatch(&client);
        }
    }
}

impl AsFd for Control {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Sends the reason, if the socket buffer takes it, and closes the connection.
fn reject(mut stream: UnixStream, reason: &str) {
    if stream.set_nonblocking(true).is_ok() {
        let _ = stream.write_all(protocol::refusal(reason).as_bytes());
    }
}

/// The gid of group `name`, from /etc/group, or `name` itself if it is a number.
fn group_id(root: &Root, name: &str) -> anyhow::Result<u32> {
    if let Ok(gid) = name.parse() {
        return Ok(gid);
    }
    let groups = root.read("/etc/group").unwrap_or_default();
    let found = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1))?.and_then(|gid| gid.parse().ok())
    });
    found.with_context(|| format!("control.group: there is no group {name:?} in {}", root.path("/etc/group").display()))
}
