//! A download of 50 MB over TCP to a file. Its server is a thread of the same process, on the loopback interface.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::background::Tally;
use super::periodic::sleep_until;
use super::{TaskRunner, join_thread, spawn_named};
use brisk_sys::BootTime;

/// What is downloaded, in the thesis's size, and how fast the server sends it: 8 Mbit/s, so that it lasts for a minute of mixed work.
const SIZE_BYTES: usize = 50_000_000;
const BYTES_PER_SECOND: usize = 1_000_000;
const CHUNK_BYTES: usize = 20_000;

impl TaskRunner {
    /// Downloads once, or until `tally` says to stop. The file has no name, so that it does not outlive this process.
    ///
    /// # Errors
    /// When a socket or the file fails, or the download is incomplete.
    pub(super) fn transfer(&self, tally: &Tally) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let path = self.folder.join(format!("download-{}", std::process::id()));
        let file = File::create(&path)?;
        fs::remove_file(&path)?;
        // The listener's queue accepts it before the server does, which would otherwise wait for a client that failed.
        let stream = TcpStream::connect(address)?;
        thread::scope(|scope| {
            let server = spawn_named(scope, "server", || self.serve(&listener, tally))?;
            let received = receive(stream, file);
            let sent = join_thread(server);
            match (received?, sent?) {
                (received, sent) if received == sent => Ok(()),
                (received, sent) => Err(io::Error::other(format!("{received} of {sent} bytes arrived"))),
            }
        })
    }

    /// Sends to one client; returns how many bytes.
    fn serve(&self, listener: &TcpListener, tally: &Tally) -> io::Result<usize> {
        let (mut stream, _) = listener.accept()?;
        let chunk = vec![0x5a; CHUNK_BYTES];
        let pause = self.dilated(Duration::from_secs(1)) * CHUNK_BYTES as u32 / BYTES_PER_SECOND as u32;
        let mut due = BootTime::now();
        let mut sent = 0;
        while sent < SIZE_BYTES && tally.should_run() {
            stream.write_all(&chunk)?;
            sent += CHUNK_BYTES;
            due = due + pause;
            sleep_until(due);
        }
        Ok(sent)
    }
}

/// Writes what `stream` sends to `file` and to its disk; returns how many bytes.
fn receive(mut stream: TcpStream, mut file: File) -> io::Result<usize> {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut received = 0;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            file.sync_all()?;
            return Ok(received);
        }
        file.write_all(&buffer[..count])?;
        received += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_writes_all_that_was_sent() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("download");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let sender = thread::spawn(move || listener.accept().unwrap().0.write_all(&[7; 70_000]).unwrap());
        let (stream, file) = (TcpStream::connect(address).unwrap(), File::create(&path).unwrap());
        assert_eq!(receive(stream, file).unwrap(), 70_000);
        sender.join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [7; 70_000]);
    }

    #[test]
    fn a_stopped_download_ends_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let runner = TaskRunner::of_tests(folder.path());
        let tally = Tally::default();
        thread::scope(|scope| {
            let transfer = scope.spawn(|| runner.transfer(&tally));
            thread::sleep(Duration::from_millis(50));
            tally.stop();
            transfer.join().unwrap().unwrap();
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
