//! The terminal as a screen of its own: taken, drawn on, and restored however it ends.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// The other screen, without a cursor; and back.
const TAKE: &[u8] = b"\x1b[?1049h\x1b[?25l";
const GIVE_BACK: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// Keys that end it: Ctrl-C and Ctrl-D as well, for a terminal that makes no signals of them.
const END_KEYS: &[u8] = b"qQ\x03\x04";

/// A terminal that shows one screen, until it is dropped.
#[derive(Debug)]
pub struct Terminal {
    before: Option<Termios>,
    /// Readable from the first signal on, also from one that came before it was waited for.
    ended: UnixStream,
    signals: Vec<SigId>,
}

impl Terminal {
    /// Takes the terminal of standard output.
    ///
    /// # Errors
    /// When it cannot be written, or signals cannot be heard.
    pub fn take() -> io::Result<Self> {
        let (ended, sender) = UnixStream::pair()?;
        let hear = |&signal: &i32| pipe::register(signal, sender.try_clone()?);
        let signals = [SIGINT, SIGTERM, SIGHUP].iter().map(hear).collect::<io::Result<_>>()?;
        // Without a keyboard there are signals.
        let before = tcgetattr(io::stdin()).ok();
        let terminal = Self { before, ended, signals };
        if let Some(before) = &terminal.before {
            let mut plain = before.clone();
            plain.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // A program that is stopped leaves the terminal as it is.
            plain.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &plain)?;
        }
        write(TAKE)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
        // A serial line knows no size.
        if size.0 == 0 || size.1 == 0 { (80, 24) } else { size }
    }

    /// Shows `lines` in place of what it showed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        let mut frame = b"\x1b[H".to_vec();
        for (number, line) in lines.iter().enumerate() {
            frame.extend_from_slice(if number > 0 { b"\r\n" } else { b"" });
            frame.extend_from_slice(line.as_bytes());
            frame.extend_from_slice(b"\x1b[K");
        }
        frame.extend_from_slice(b"\x1b[J");
        write(&frame)
    }

    /// Waits for `pause`; true when a key or a signal says that it is over.
    ///
    /// # Errors
    /// When the keyboard cannot be waited for.
    pub fn is_over_after(&self, pause: Duration) -> io::Result<bool> {
        let stdin = io::stdin();
        let mut ready = [PollFd::new(&self.ended, PollFlags::IN), PollFd::new(&stdin, PollFlags::IN)];
        let sources = if self.before.is_some() { 2 } else { 1 };
        let pause = Timespec::try_from(pause).map_err(io::Error::other)?;
        match poll(&mut ready[..sources], Some(&pause)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let [signalled, typed] = ready.map(|source| !source.revents().is_empty());
        let mut keys = [0u8; 64];
        // A keyboard that has gone is read as nothing.
        let count = if typed { rustix::io::read(&stdin, &mut keys).unwrap_or(0) } else { 0 };
        Ok(signalled || typed && (count == 0 || keys[..count].iter().any(|key| END_KEYS.contains(key))))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(GIVE_BACK);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
        for signal in self.signals.drain(..) {
            unregister(signal);
        }
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}
