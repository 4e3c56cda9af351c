//! Replays the lookups of a modelled application: each of its processes is a connection opened as its user.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use super::client::Client;
use super::summary::{Summary, figures};
use brisk_mechanism::lookup::recording::top_quarter_share;
use brisk_mechanism::lookup::{Lookup, TraceEvent};
use brisk_sys::binder::WireFormat;
use brisk_sys::cpu::ticks::Ticks;
use brisk_sys::process::user::as_user;

/// Processes that are alive at the same time; the oldest ends first.
const MAX_PROCESSES: usize = 16;
/// Users of applications and of isolated processes, as Android numbers them.
const APPLICATION_UIDS: std::ops::Range<u32> = 10_000..20_000;
const ISOLATED_UIDS: std::ops::Range<u32> = 90_000..100_000;

/// A course of events for the context of a device.
#[derive(Debug)]
pub struct Replay<'a> {
    /// The device, which all users may open.
    pub device: &'a Path,
    /// The wire format of its manager.
    pub format: &'static WireFormat,
    /// The services, by the numbers that events give them.
    pub names: &'a [String],
    /// The events.
    pub events: &'a [TraceEvent],
}

/// The lookups that were made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Replayed {
    /// Their durations, in ticks of the processor's counter.
    pub calls: Summary,
    /// The share of them, 0 to 1, that went to the most frequent quarter of the services; `None` when there were none.
    pub top_quarter_share: Option<f64>,
}

impl Replay<'_> {
    /// Replays until `count` lookups were made.
    ///
    /// # Errors
    /// When this is not root, or the driver or the manager refuses.
    pub fn run(&self, count: usize) -> anyhow::Result<Replayed> {
        let ticks = Ticks::calibrate();
        let mut registrar = self.client()?;
        let mut processes: VecDeque<(u32, Client)> = VecDeque::new();
        let mut calls = Vec::with_capacity(count);
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for (pointer, event) in (1u64..).zip(self.events) {
            match event {
                TraceEvent::Registered { name } => registrar.register(&self.names[*name as usize], pointer)?,
                TraceEvent::Lookup(_) if calls.len() == count => break,
                TraceEvent::Lookup(lookup) => {
                    calls.push(ticks.of(self.lookup(lookup, &mut processes)?));
                    *counts.entry(lookup.name).or_insert(0) += 1;
                }
            }
        }
        Ok(Replayed { calls: figures(calls), top_quarter_share: top_quarter_share(counts.into_values()) })
    }

    fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::open(self.device, self.format)?)
    }

    /// Ticks of one lookup, in the process that makes it.
    fn lookup(&self, lookup: &Lookup, processes: &mut VecDeque<(u32, Client)>) -> anyhow::Result<u64> {
        let users = if lookup.isolated { ISOLATED_UIDS } else { APPLICATION_UIDS };
        let uid = users.start + lookup.caller % (users.end - users.start);
        as_user(uid, || {
            let known = processes.iter().position(|(process, _)| *process == lookup.process);
            let index = match known {
                Some(index) => index,
                None => {
                    processes.truncate(MAX_PROCESSES - 1);
                    processes.push_front((lookup.process, self.client()?));
                    0
                }
            };
            let (_, client) = &mut processes[index];
            let name = &self.names[lookup.name as usize];
            Ok(client.lookup(self.format.check_code(), name)?.1.call)
        })?
    }
}
