//! Takes samples in the background while something else runs.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A thread that takes samples until it ends.
pub(super) struct Sampler<S> {
    stop: Sender<()>,
    thread: JoinHandle<Vec<S>>,
}

impl<S: Send + 'static> Sampler<S> {
    /// Calls `take` at once and after each `period`.
    pub(super) fn start(period: Duration, mut take: impl FnMut() -> Option<S> + Send + 'static) -> Self {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut samples = Vec::new();
            loop {
                samples.extend(take());
                if stopped.recv_timeout(period) != Err(RecvTimeoutError::Timeout) {
                    return samples;
                }
            }
        });
        Self { stop, thread }
    }

    /// Ends, and returns the samples in their order; none where the thread panicked.
    pub(super) fn end(self) -> Vec<S> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_samples_from_the_start_to_the_end() {
        let never_again = Duration::from_secs(3600);
        assert_eq!(Sampler::start(never_again, || Some(7)).end(), [7], "one at once, and no wait for the next");
        assert_eq!(Sampler::start(never_again, || None::<u8>).end(), Vec::<u8>::new());
        let (taken, seen) = mpsc::channel();
        let mut count = 0;
        let sampler = Sampler::start(Duration::from_millis(1), move || {
            count += 1;
            let _ = taken.send(());
            (count != 2).then_some(count)
        });
        (0..3).for_each(|_| seen.recv_timeout(Duration::from_secs(60)).unwrap());
        assert_eq!(sampler.end()[..2], [1, 3], "what gives no sample leaves none");
    }
}
