//! Messages between threads through sockets, as hackbench sends them: every sender to every receiver.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::{join_thread, spawn_named};

/// Senders, and as many receivers.
const SENDERS: usize = 8;
const MESSAGE_BYTES: usize = 100;

/// Every sender sends to every receiver, round after round, while `should_run` is true for the number of the round.
///
/// # Errors
/// When a socket or a thread cannot be created.
pub(super) fn exchange(should_run: impl Fn(u32) -> bool + Sync) -> io::Result<()> {
    let pairs = (0..SENDERS).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
    let (inlets, outlets): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for _ in 0..SENDERS {
            let inlets = inlets.iter().map(UnixStream::try_clone).collect::<io::Result<Vec<_>>>()?;
            handles.push(spawn_named(scope, "sender", || send(inlets, &should_run))?);
        }
        // The last sender that ends closes the sockets, and so ends the receivers.
        drop(inlets);
        for outlet in outlets {
            handles.push(spawn_named(scope, "receiver", || receive(outlet))?);
        }
        handles.into_iter().try_for_each(join_thread)
    })
}

fn send(mut inlets: Vec<UnixStream>, should_run: &(impl Fn(u32) -> bool + Sync)) -> io::Result<()> {
    let message = [7; MESSAGE_BYTES];
    for _ in (0u32..).take_while(|&round| should_run(round)) {
        inlets.iter_mut().try_for_each(|inlet| inlet.write_all(&message))?;
    }
    Ok(())
}

fn receive(mut outlet: UnixStream) -> io::Result<()> {
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match outlet.read_exact(&mut message) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            other => other?,
        }
    }
}

/// Rounds that take about `length` on this device undisturbed.
///
/// # Errors
/// As `exchange`.
pub fn calibrate_rounds(length: Duration) -> io::Result<u32> {
    const TRIAL: Duration = Duration::from_millis(100);
    let mut rounds = 32;
    loop {
        let begun = Instant::now();
        exchange(|round| round < rounds)?;
        let took = begun.elapsed();
        if took >= TRIAL {
            return Ok((f64::from(rounds) * length.as_secs_f64() / took.as_secs_f64()) as u32);
        }
        rounds *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_is_sent_and_all_threads_end() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let asked = AtomicU32::new(0);
        exchange(|round| {
            asked.fetch_add(1, Ordering::Relaxed);
            round < 5
        })
        .unwrap();
        assert_eq!(asked.into_inner() as usize, SENDERS * 6);
    }
}
