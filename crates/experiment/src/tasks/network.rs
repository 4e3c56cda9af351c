//! Programs that wait for a network. Each has its server in the same process, on the loopback interface, so that requests and
//! answers wait in the same queue.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use super::background::Tally;
use super::{TaskRunner, join_thread, spawn_named};

/// What the foreground asks and gets, and how often an exchange is due.
const REQUEST_BYTES: usize = 200;
const ANSWER_BYTES: usize = 1000;
const EXCHANGE_PERIOD: Duration = Duration::from_millis(100);
/// The files of an opening, and the work after each.
const FETCHES: u32 = 40;
const FETCHED_BYTES: usize = 4096;
const FETCH_WORK_US: u64 = 500;
/// A file of the background, and what is sent and received of it at a time.
const UPLOADED_BYTES: usize = 256 << 10;
const PIECE_BYTES: usize = 16 << 10;

impl TaskRunner {
    /// Exchanges messages with a server each [`EXCHANGE_PERIOD`] for `length`, over one connection; returns the times from when
    /// each was due until its answer was there, in milliseconds.
    ///
    /// # Errors
    /// When a socket fails.
    pub(super) fn exchange_with_server(&self, length: Duration) -> io::Result<Vec<f64>> {
        with_server(ANSWER_BYTES, |address| {
            let mut client = connect(address)?;
            self.try_at_period_for(EXCHANGE_PERIOD, length, || ask(&mut client, ANSWER_BYTES))
        })
    }

    /// Fetches the files of an opening one after the other, and works after each.
    ///
    /// # Errors
    /// When a socket fails.
    pub(super) fn fetch_files(&self) -> io::Result<()> {
        with_server(FETCHED_BYTES, |address| {
            for _ in 0..FETCHES {
                ask(&mut connect(address)?, FETCHED_BYTES)?;
                self.work_us(FETCH_WORK_US);
            }
            Ok(())
        })
    }

    /// Sends a file, or a part of it if `tally` says to stop.
    ///
    /// # Errors
    /// When a socket fails.
    pub(super) fn upload_file(&self, tally: &Tally) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        // The listener's queue accepts it before the server does.
        let mut client = connect(listener.local_addr()?)?;
        thread::scope(|scope| {
            let server = spawn_named(scope, "server", || {
                let (mut stream, _) = listener.accept()?;
                let mut piece = vec![0; PIECE_BYTES];
                loop {
                    match stream.read(&mut piece)? {
                        0 => return Ok(()),
                        length => tally.add_moved(length),
                    }
                }
            })?;
            let piece = vec![0x5a; PIECE_BYTES];
            let mut pieces = (0..UPLOADED_BYTES / PIECE_BYTES).take_while(|_| tally.should_run());
            let sent = pieces.try_for_each(|_| client.write_all(&piece));
            drop(client);
            sent.and(join_thread(server))
        })
    }
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a request and waits for its answer.
fn ask(stream: &mut TcpStream, answer_bytes: usize) -> io::Result<()> {
    stream.write_all(&[7; REQUEST_BYTES])?;
    stream.read_exact(&mut vec![0; answer_bytes])
}

/// Runs `client` beside a server that answers each request with `answer_bytes`, one connection after the other.
fn with_server<T>(answer_bytes: usize, client: impl FnOnce(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::scope(|scope| {
        let server = spawn_named(scope, "server", || serve(&listener, answer_bytes))?;
        let outcome = client(address);
        // A connection without a request ends the server.
        drop(TcpStream::connect(address)?);
        join_thread(server).and(outcome)
    })
}

fn serve(listener: &TcpListener, answer_bytes: usize) -> io::Result<()> {
    let answer = vec![0x5a; answer_bytes];
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut request, mut requests) = ([0; REQUEST_BYTES], 0);
        loop {
            match stream.read_exact(&mut request) {
                Ok(()) => stream.write_all(&answer)?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && requests == 0 => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
            requests += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    // Verifies PROVE-2.
    #[test]
    fn the_foreground_gets_its_answers_and_the_background_sends_until_it_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let runner = TaskRunner::of_tests(folder.path());
        assert_eq!(runner.exchange_with_server(EXCHANGE_PERIOD).unwrap().len(), 1);
        runner.fetch_files().unwrap();
        let (tally, begun) = (Tally::default(), Instant::now());
        thread::scope(|scope| {
            let sender =
                scope.spawn(|| (0..).take_while(|_| tally.should_run()).try_for_each(|_| runner.upload_file(&tally)));
            while tally.moved() < 2 * UPLOADED_BYTES as u64 && begun.elapsed() < PATIENCE {
                thread::yield_now();
            }
            assert!(!sender.is_finished(), "it ended without being stopped");
            tally.stop();
            sender.join().unwrap().unwrap();
        });
        assert!(tally.moved() >= 2 * UPLOADED_BYTES as u64);
    }
}
