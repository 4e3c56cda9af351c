//! The terminal's alternate screen: entered, drawn on, and left again on any exit.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Escape sequences: alternate screen and hidden cursor, on and off.
const ENTER_SCREEN: &[u8] = b"\x1b[?1049h\x1b[?25l";
const LEAVE_SCREEN: &[u8] = b"\x1b[?25h\x1b[?1049l";
/// Keys that exit; Ctrl-C and Ctrl-D are included for terminals that send no signal for them.
const END_KEYS: &[u8] = b"qQ\x03\x04";

/// The alternate screen; dropping it restores the terminal.
#[derive(Debug)]
pub struct Terminal {
    before: Option<Termios>,
    /// Readable from the first signal on, including one that arrived before the wait.
    ended: UnixStream,
    signals: Vec<SigId>,
}

impl Terminal {
    /// Enters the alternate screen of standard output's terminal.
    ///
    /// # Errors
    /// When the terminal cannot be written, or signals cannot be received.
    pub fn take() -> io::Result<Self> {
        let (ended, sender) = UnixStream::pair()?;
        let register_signal = |&signal: &i32| pipe::register(signal, sender.try_clone()?);
        let signals = [SIGINT, SIGTERM, SIGHUP].iter().map(register_signal).collect::<io::Result<_>>()?;
        // Without a keyboard, signals end it.
        let before = tcgetattr(io::stdin()).ok();
        let terminal = Self { before, ended, signals };
        if let Some(before) = &terminal.before {
            let mut plain = before.clone();
            plain.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            // Ctrl-Z is disabled: a stopped program would leave the terminal on this screen.
            plain.special_codes[SpecialCodeIndex::VSUSP] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &plain)?;
        }
        write(ENTER_SCREEN)?;
        Ok(terminal)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).map_or((0, 0), |size| (size.ws_col.into(), size.ws_row.into()));
        // A serial line reports no size.
        if size.0 == 0 || size.1 == 0 { (80, 24) } else { size }
    }

    /// Replaces the screen by `lines`.
    ///
    /// # Errors
    /// When the terminal cannot be written.
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

    /// Waits for `pause`; true when a key or a signal requests the exit.
    ///
    /// # Errors
    /// When poll(2) fails.
    pub fn wait_for_exit(&self, pause: Duration) -> io::Result<bool> {
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
        // A closed keyboard reads as empty.
        let count = if typed { rustix::io::read(&stdin, &mut keys).unwrap_or(0) } else { 0 };
        Ok(signalled || typed && (count == 0 || keys[..count].iter().any(|key| END_KEYS.contains(key))))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = write(LEAVE_SCREEN);
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
