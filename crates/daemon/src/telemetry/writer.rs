//! The thread that writes the store: the loop must not wait for a disk, which may take seconds when it is busy or broken.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::TelemetryStatus;
use brisk_mechanism::Observation;
use brisk_sys::time::wall_s;
use brisk_sys::{BootTime, Root};
use brisk_telemetry::folder;
use brisk_telemetry::row::Record;
use brisk_telemetry::store::{Store, StoreOptions};

/// The name of the thread, which `ps -L` shows.
const NAME: &str = "telemetry";
/// Rows that wait for the disk; further ones are dropped.
const CAPACITY: usize = 256;
/// After an error rows are dropped for this long.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The longest wait for what is left when telemetry ends: a broken disk must hold up neither a reload nor the daemon's end, which
/// systemd awaits for five seconds (TimeoutStopSec).
const END_PATIENCE: Duration = Duration::from_secs(3);
/// How often it looks meanwhile.
const END_PERIOD: Duration = Duration::from_millis(5);

/// Makes an observation that takes long.
type SlowObserver = fn(&Root) -> Option<Observation>;

#[derive(Debug)]
enum Message {
    /// Store this, which happened at this time.
    Record(u64, Record),
    /// Make the slow observations.
    Survey(u64),
    /// Continue with these options.
    Reopen(StoreOptions),
}

/// The thread, as the loop sees it. Dropping it waits until all is written, for [`END_PATIENCE`] at most.
#[derive(Debug)]
pub(super) struct Writer {
    messages: Option<SyncSender<Message>>,
    thread: JoinHandle<()>,
    status: Arc<Mutex<TelemetryStatus>>,
}

impl Writer {
    /// Starts the thread, which opens the store.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub(super) fn start(root: &Root, options: StoreOptions, observers: Vec<SlowObserver>) -> io::Result<Self> {
        let status = TelemetryStatus { folder: folder(root).display().to_string(), ..TelemetryStatus::default() };
        let status = Arc::new(Mutex::new(status));
        let (messages, receiver) = sync_channel(CAPACITY);
        let mut work = Work {
            root: root.clone(),
            options,
            observers,
            store: None,
            retry_at: BootTime::default(),
            status: Arc::clone(&status),
        };
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || work.run(&receiver))?;
        Ok(Self { messages: Some(messages), thread, status })
    }

    /// Stores `record` with the present time.
    pub(super) fn send(&self, record: Record) {
        if !self.pass(Message::Record(wall_s(), record)) {
            lock(&self.status).dropped_rows += 1;
        }
    }

    /// Has the slow observations made that are missing.
    pub(super) fn survey(&self) {
        self.pass(Message::Survey(wall_s()));
    }

    /// Continues with `options`.
    pub(super) fn reopen(&self, options: StoreOptions) {
        if !self.pass(Message::Reopen(options)) {
            tracing::warn!("telemetry goes on under the previous configuration: its disk does not answer");
        }
    }

    fn pass(&self, message: Message) -> bool {
        self.messages.as_ref().is_some_and(|messages| messages.try_send(message).is_ok())
    }

    /// What it has written; the configuration's part is missing.
    pub(super) fn status(&self) -> TelemetryStatus {
        lock(&self.status).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.messages.take());
        let end = BootTime::now() + END_PATIENCE;
        while !self.thread.is_finished() {
            if BootTime::now() >= end {
                return tracing::warn!("telemetry: its thread does not end, so its last rows may be lost");
            }
            std::thread::sleep(END_PERIOD);
        }
    }
}

fn lock(status: &Mutex<TelemetryStatus>) -> MutexGuard<'_, TelemetryStatus> {
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread has.
struct Work {
    root: Root,
    options: StoreOptions,
    observers: Vec<SlowObserver>,
    store: Option<Store>,
    retry_at: BootTime,
    status: Arc<Mutex<TelemetryStatus>>,
}

impl Work {
    fn run(&mut self, messages: &Receiver<Message>) {
        self.with_store(wall_s(), |_| Ok(()));
        for message in messages {
            if Arc::strong_count(&self.status) == 1 {
                // Its end was awaited for too long: another thread may write the store by now.
                return;
            }
            match message {
                Message::Record(at_s, record) => self.store_row(at_s, record),
                Message::Survey(at_s) => self.survey(at_s),
                Message::Reopen(options) => {
                    (self.options, self.store, self.retry_at) = (options, None, BootTime::default());
                    self.with_store(wall_s(), |_| Ok(()));
                }
            }
        }
    }

    fn store_row(&mut self, at_s: u64, record: Record) {
        if !self.with_store(at_s, |store| store.append(at_s, record)) {
            lock(&self.status).dropped_rows += 1;
        }
    }

    /// Each observer is called until its observation is stored.
    fn survey(&mut self, at_s: u64) {
        for observer in std::mem::take(&mut self.observers) {
            let record = observer(&self.root).map(Record::Observation);
            let is_stored = record.is_some_and(|record| self.with_store(at_s, |store| store.append(at_s, record)));
            if !is_stored {
                self.observers.push(observer);
            }
        }
    }

    /// Calls `write` with the store, which is opened if necessary. False, with an error in the status, if that is not possible.
    fn with_store(&mut self, at_s: u64, write: impl FnOnce(&mut Store) -> io::Result<()>) -> bool {
        let now = BootTime::now();
        if now < self.retry_at {
            return false;
        }
        let written = match &mut self.store {
            Some(store) => write(store),
            None => Store::open(&self.root, self.options.clone(), at_s).and_then(|mut store| {
                report_damage(&store);
                let written = write(&mut store);
                self.store = Some(store);
                written
            }),
        };
        let error = written.err().map(|error| format!("{}: {error}", folder(&self.root).display()));
        if error.is_some() {
            self.retry_at = now + RETRY_PAUSE;
        }
        let mut status = lock(&self.status);
        if let Some(store) = &self.store {
            (status.last_row, status.bytes) = (store.last_row(), store.bytes());
            status.damaged_bytes = store.damaged_bytes();
        }
        match (&status.error, &error) {
            (None, Some(error)) => tracing::warn!("telemetry is not stored, will retry: {error}"),
            (Some(_), None) => tracing::info!("telemetry is stored again"),
            _ => {}
        }
        status.error = error;
        status.error.is_none()
    }
}

fn report_damage(store: &Store) {
    let damaged_bytes = store.damaged_bytes();
    if damaged_bytes > 0 {
        let folder = store.folder().display();
        tracing::warn!(
            "{folder}: {damaged_bytes} bytes belong to no row, as after a power cut; their rows are dropped"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use brisk_sys::test_trees::root_of;
    use brisk_telemetry::summary::summary;

    fn options() -> StoreOptions {
        StoreOptions { size_bytes: 65_536, names: Vec::new() }
    }

    fn switch() -> Record {
        Record::Switch { mechanism: "launch".to_owned(), active: true, reason: "" }
    }

    fn observed(_root: &Root) -> Option<Observation> {
        Some(Observation::Boot { length_ms: 7, kernel_ms: None, performance_held: None })
    }

    // Verifies FLEET-2.
    #[test]
    fn all_rows_are_written_when_it_ends() {
        let (_folder, root) = root_of(&[]);
        let writer = Writer::start(&root, options(), vec![observed, |_| None]).unwrap();
        (0..100).for_each(|_| writer.send(switch()));
        (0..3).for_each(|_| writer.survey());
        let status = Arc::clone(&writer.status);
        drop(writer);
        let summary = summary(&root, 0).unwrap();
        assert_eq!((summary.kinds["start"], summary.kinds["switch"], summary.kinds["boot"]), (1, 100, 1));
        let status = lock(&status).clone();
        assert_eq!((status.last_row, status.bytes, status.error), (102, summary.bytes, None));
    }

    // Verifies FLEET-2.
    #[test]
    fn a_store_that_cannot_be_opened_is_reported_and_rows_are_counted() {
        let (_folder, root) = root_of(&[("var/lib/brisk/telemetry", "a file in its place")]);
        let writer = Writer::start(&root, options(), Vec::new()).unwrap();
        (0..3).for_each(|_| writer.send(switch()));
        let status = Arc::clone(&writer.status);
        drop(writer);
        let status = lock(&status).clone();
        let error = status.error.unwrap();
        assert!(status.dropped_rows == 3 && error.contains("var/lib/brisk/telemetry"), "{error}");
        assert_eq!(fs::read_to_string(root.path("/var/lib/brisk/telemetry")).unwrap(), "a file in its place");
    }

    // Verifies FLEET-2.
    #[test]
    fn an_observation_that_could_not_be_stored_is_made_again() {
        let (_folder, root) = root_of(&[("var/lib/brisk/telemetry", "a file in its place")]);
        let (options, observers) = (options(), vec![observed as SlowObserver]);
        let (retry_at, status) = (BootTime::default(), Arc::default());
        let mut work = Work { root: root.clone(), options, observers, store: None, retry_at, status };
        work.survey(1);
        fs::remove_file(root.path("/var/lib/brisk/telemetry")).unwrap();
        for at_s in [2, 3] {
            work.retry_at = BootTime::default();
            work.survey(at_s);
        }
        assert_eq!(summary(&root, 0).unwrap().kinds["boot"], 1);
        assert_eq!(lock(&work.status).dropped_rows, 0);
    }

    fn stuck(_root: &Root) -> Option<Observation> {
        std::thread::sleep(Duration::from_secs(600));
        None
    }

    // Verifies FLEET-2.
    #[test]
    fn the_end_does_not_wait_for_a_disk_that_does_not_answer() {
        let (_folder, root) = root_of(&[]);
        let writer = Writer::start(&root, options(), vec![stuck as SlowObserver]).unwrap();
        writer.survey();
        let began = BootTime::now();
        drop(writer);
        assert!(BootTime::now().since(began) < Duration::from_secs(300));
    }
}
