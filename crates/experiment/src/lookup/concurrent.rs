//! Clients that look services up at the same time, each in a thread with its own connection.

use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::measure::Lookups;
use crate::statistics::mean;
use brisk_sys::binder::{CallError, WireFormat};

/// The mean time of a lookup with `clients` concurrent clients, in microseconds of this machine's clock. Each client looks
/// every service up once, then makes all of `lookups` in its own order.
///
/// # Errors
/// [`CallError`] of any of them.
pub fn crowd(
    device: &Path,
    format: &'static WireFormat,
    lookups: &Lookups<'_>,
    clients: u32,
) -> Result<f64, CallError> {
    let ready = Barrier::new(clients as usize);
    let times = thread::scope(|scope| {
        let ready = &ready;
        let threads: Vec<_> = (0..u64::from(clients))
            .map(|number| {
                scope.spawn(move || -> Result<Duration, CallError> {
                    let mut client = Client::open(device, format);
                    let prepared = client.as_mut().ok().map_or(Ok(()), |client| lookups.lookup_all(client));
                    // A client that failed must not keep the others waiting.
                    ready.wait();
                    prepared?;
                    let began = Instant::now();
                    lookups.run(&mut client?, number)?;
                    Ok(began.elapsed())
                })
            })
            .collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("a client does not panic"));
        ended.collect::<Result<Vec<_>, _>>()
    })?;
    let us: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e6 / lookups.count as f64).collect();
    Ok(mean(&us))
}
