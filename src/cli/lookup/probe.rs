//! Records each call of the context manager, by a kprobe at the entry of the driver's `binder_transaction`.

use std::collections::HashMap;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use brisk_mechanism::lookup::recording::{Call, Recording, Request};
use brisk_recorder::RecordError;
use brisk_sys::binder::{ManagerRequest, WireFormat};
use brisk_sys::system::trace_events::{TraceEvent, TraceInstance};
use brisk_sys::{Root, process};

const EVENT: &str = "brisk/context_manager_call";
/// `binder_transaction(proc, thread, struct binder_transaction_data *tr, reply, ...)`: the target's handle, the function's
/// code, the size of the data and its first 256 bytes, by that structure's offsets on a 64-bit kernel
/// (include/uapi/linux/android/binder.h). The data is in user memory, which the kernel recognises by its address (x86,
/// arm64); an explicit `+u` is not accepted for arrays. 256 bytes hold a request for a name of 89 characters.
const DEFINITION: &str = "binder_transaction handle=+0($arg3):u32 code=+16($arg3):u32 reply=$arg4:s32 \
                          size=+32($arg3):u64 data=+0(+48($arg3)):x32[64]";
/// The period in which events are read: short, so that most callers still exist when their user is read from /proc.
const PERIOD: Duration = Duration::from_millis(50);

/// Records for `duration`.
///
/// # Errors
/// Without root's rights, and where the kernel has no kprobe events.
pub fn record(root: &Root, format: &WireFormat, buffer_kib: u32, duration: Duration) -> anyhow::Result<Recording> {
    let mut trace = TraceInstance::make(root, "brisk-record-calls", &[], buffer_kib)
        .map_err(|error| RecordError::of_instance(root, error))?;
    let mut pipe = trace.follow()?;
    trace
        .enable_probe(EVENT, DEFINITION, "handle == 0 && reply == 0")
        .context("this needs a 64-bit kernel with CONFIG_KPROBE_EVENTS and a binder driver")?;
    let start = Instant::now();
    let mut recorder = Recorder { root, format, callers: HashMap::new(), recording: Recording::default() };
    while start.elapsed() < duration {
        sleep(PERIOD.min(duration.saturating_sub(start.elapsed())));
        let at_us = start.elapsed().as_micros() as u64;
        pipe.read()?.iter().for_each(|event| recorder.take(event, at_us));
    }
    recorder.recording.header.lost_events = pipe.lost_events();
    Ok(recorder.recording)
}

/// Converts trace events to calls.
struct Recorder<'a> {
    root: &'a Root,
    format: &'a WireFormat,
    /// The process and the user of each thread.
    callers: HashMap<u32, (u32, Option<u32>)>,
    recording: Recording,
}

impl Recorder<'_> {
    fn take(&mut self, event: &TraceEvent, at_us: u64) {
        let Some((request, service)) = parse_request(self.format, event) else {
            self.recording.header.unread += 1;
            return;
        };
        let root = self.root;
        let (process, uid) = *self.callers.entry(event.tid).or_insert_with(|| caller(root, event.tid));
        self.recording.calls.push(Call { at_us, process, uid, request, service });
    }
}

/// The process and the real user of a thread; a thread that has ended is counted as a process of its own.
fn caller(root: &Root, tid: u32) -> (u32, Option<u32>) {
    let status = root.read(format!("/proc/{tid}/status")).unwrap_or_default();
    let process = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    (process.unwrap_or(tid), process::parse_real_uid(&status))
}

/// The request and the service of a call, if it is a lookup or a registration.
fn parse_request(format: &WireFormat, event: &TraceEvent) -> Option<(Request, String)> {
    let code = u32::try_from(event.number("code")?).ok()?;
    let words = event.numbers("data")?;
    let mut data: Vec<u8> = words.into_iter().flat_map(|word| (word as u32).to_ne_bytes()).collect();
    data.truncate(usize::try_from(event.number("size")?).ok()?);
    match format.parse_manager_request(code, &data)? {
        ManagerRequest::Lookup { name } => Some((Request::Lookup, String::from_utf16(&name).ok()?)),
        ManagerRequest::Add { name, .. } => Some((Request::Register, String::from_utf16(&name).ok()?)),
        ManagerRequest::List { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::system::trace_events::parse;

    fn event(code: u32, data: &[u8], size: usize) -> TraceEvent {
        let mut bytes = data.to_vec();
        // Other data of the caller after the request.
        bytes.resize(256, 0x55);
        let words = bytes.chunks_exact(4).map(|word| format!("{:#x}", u32::from_ne_bytes(word.try_into().unwrap())));
        let words = words.collect::<Vec<_>>().join(",");
        let text = format!("handle=0 code={code} reply=0 size={size} data={{{words}}}");
        parse(&format!("app-7 [000] ..... 10: context_manager_call: (binder_transaction+0x0/0x2d00) {text}")).unwrap()
    }

    // Verifies LOOKUP-8.
    #[test]
    fn requests_of_every_format_are_parsed() {
        for format in WireFormat::all() {
            let code = format.check_code();
            let ask = |name: &str, cut: usize| {
                let data = format.lookup_request(name).data;
                parse_request(format, &event(code, &data, data.len() - cut))
            };
            assert_eq!(ask("activity", 0), Some((Request::Lookup, "activity".into())), "{}", format.name);
            // A name that is longer than the fetched data, and a truncated request.
            assert_eq!(ask(&"n".repeat(200), 0), None, "{}", format.name);
            assert_eq!(ask("activity", 4), None, "{}", format.name);
            let add = format.add_request("window", 7).data;
            let registered = parse_request(format, &event(format.add, &add, add.len()));
            assert_eq!(registered, Some((Request::Register, "window".into())), "{}", format.name);
            assert_eq!(parse_request(format, &event(code, &[0xff; 64], 64)), None, "{}", format.name);
        }
    }

    // Verifies LOOKUP-8.
    #[test]
    fn a_thread_belongs_to_its_process_and_its_user() {
        let (root, own) = (Root::system(), std::process::id());
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(caller(&root, own), (own, Some(uid)));
        assert_eq!(caller(&root, u32::MAX), (u32::MAX, None));
    }
}
