//! Signals as readable descriptors.

use std::io;
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

use super::poller::{Poller, Token};

/// The signals that the daemon handles.
#[derive(Debug)]
pub struct Signals {
    reload: UnixStream,
    _stop: UnixStream,
    registered: Vec<SigId>,
}

impl Signals {
    /// Turns SIGTERM and SIGINT into [`Token::Stop`] and SIGHUP into [`Token::Reload`].
    ///
    /// # Errors
    /// The kernel's error.
    pub fn register(poller: &Poller) -> io::Result<Self> {
        let (stop, stop_sender) = UnixStream::pair()?;
        let (reload, reload_sender) = UnixStream::pair()?;
        reload.set_nonblocking(true)?;
        let registered = vec![
            pipe::register(SIGTERM, stop_sender.try_clone()?)?,
            pipe::register(SIGINT, stop_sender)?,
            pipe::register(SIGHUP, reload_sender)?,
        ];
        poller.watch(&stop, Token::Stop)?;
        poller.watch(&reload, Token::Reload)?;
        Ok(Self { reload, _stop: stop, registered })
    }

    /// Discards the reload requests received so far: one reload answers them all.
    pub fn drain_reload(&self) {
        let mut buffer = [0u8; 64];
        while rustix::io::read(&self.reload, &mut buffer).is_ok_and(|length| length > 0) {}
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.registered.drain(..).for_each(|id| {
            unregister(id);
        });
    }
}
