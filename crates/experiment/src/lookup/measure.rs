//! A series of lookups, and their durations.

use serde::Serialize;

use super::client::{Client, Timing};
use super::steps::{self, Detail, Recordings, Series, Steps};
use super::summary::{Summary, figures};
use brisk_base::random::Random;
use brisk_mechanism::lookup::trace::Popularity;
use brisk_sys::Root;
use brisk_sys::binder::CallError;
use brisk_sys::binder::parcel::Object;
use brisk_sys::cpu::ticks::{TickUnit, Ticks};

/// How unevenly services are looked up, as in the simulator's traces: the top quarter takes 80 %.
const ZIPF_EXPONENT: f64 = 1.16;
/// Lookups of each series whose steps are recorded: five or six events each.
const RECORDED: usize = 500;
/// The stream of random numbers that all these series draw their names from.
const STEPS_STREAM: u64 = 2;
/// Lookups before each of these series, which are not measured. A client that has just read a recording has had more CPU time than
/// the manager, so that the scheduler lets the manager preempt it for some hundred lookups.
const SETTLING: usize = 1000;

/// A series of lookups.
#[derive(Debug, Clone, Copy)]
pub struct Lookups<'a> {
    /// The transaction code of a lookup.
    pub code: u32,
    /// The services, most popular first.
    pub names: &'a [String],
    /// How many lookups are measured.
    pub count: usize,
    /// The seed of the order of the names.
    pub seed: u64,
}

/// Durations of driver calls without a lookup.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Floors {
    /// A call that does nothing.
    pub empty_call: f64,
    /// A call that takes a reference and releases it.
    pub reference_pair: f64,
}

/// The result of a series of lookups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The unit of the figures.
    pub unit: TickUnit,
    /// Number of measured lookups.
    pub lookups: usize,
    /// Number of services that they were spread over.
    pub services: usize,
    /// The calls of the driver, with everything behind them.
    pub call: Summary,
    /// The requests, built in user space.
    pub request: Summary,
    /// The answers, read in user space.
    pub answer: Summary,
    /// Driver calls without a lookup.
    pub floors: Floors,
}

impl Lookups<'_> {
    /// Looks every service up once, then measures.
    ///
    /// # Errors
    /// [`CallError`], also when a service does not exist.
    pub fn measure(&self, client: &mut Client) -> Result<Measured, CallError> {
        let ticks = Ticks::calibrate();
        self.lookup_all(client)?;
        let timings = self.run(client, 0)?;
        let part = |part: fn(&Timing) -> u64| figures(timings.iter().map(|timing| ticks.of(part(timing))).collect());
        Ok(Measured {
            unit: ticks.unit,
            lookups: self.count,
            services: self.names.len(),
            call: part(|timing| timing.call),
            request: part(|timing| timing.request),
            answer: part(|timing| timing.answer),
            floors: self.floors(client, &ticks)?,
        })
    }

    /// Driver calls of `count` lookups; before each of them, `flush` clears the driver's cache.
    ///
    /// # Errors
    /// [`CallError`], and those of `flush`.
    pub fn misses(
        &self,
        client: &mut Client,
        count: usize,
        flush: &mut dyn FnMut() -> Result<(), CallError>,
    ) -> Result<Summary, CallError> {
        let ticks = Ticks::calibrate();
        let mut random = Random::stream(self.seed, 1);
        let popularity = self.popularity();
        let mut calls = Vec::with_capacity(count);
        for _ in 0..count {
            flush()?;
            calls.push(ticks.of(self.lookup(client, &self.names[popularity.draw(&mut random)])?.call));
        }
        Ok(figures(calls))
    }

    /// The steps of the calls, from other series of lookups that the driver's trace events below `root` record. `None` when no
    /// lookup reached a manager, or the events are not available.
    ///
    /// # Errors
    /// [`CallError`].
    pub fn steps(&self, client: &mut Client, root: &Root) -> Result<Option<Steps>, CallError> {
        let lookups = Lookups { count: self.count.min(RECORDED), ..*self };
        let mut series = |detail| lookups.recorded(client, root, detail);
        let (transactions, reply_command) = (series(Detail::Transactions)?, series(Detail::ReplyCommand)?);
        let Some((transactions, reply_command)) = transactions.zip(reply_command) else { return Ok(None) };
        let found_reference = series(Detail::FoundReference)?;
        let unrecorded = lookups.settled(client)?;
        let recordings = Recordings { unrecorded, transactions, reply_command, found_reference };
        Ok(recordings.steps(std::process::id(), &Ticks::calibrate()))
    }

    /// The lookups with their events; `None` where the kernel cannot record them.
    fn recorded(&self, client: &mut Client, root: &Root, detail: Detail) -> Result<Option<Series>, CallError> {
        let trace = match steps::record(root, detail) {
            Ok(trace) => trace,
            Err(error) => {
                tracing::info!("the steps of lookups cannot be recorded ({detail:?}): {error}");
                return Ok(None);
            }
        };
        let timings = self.settled(client)?;
        Ok(Some(Series { timings, events: trace.finish()? }))
    }

    /// The lookups of each series of steps, after [`SETTLING`].
    fn settled(&self, client: &mut Client) -> Result<Vec<Timing>, CallError> {
        Lookups { count: SETTLING, ..*self }.run(client, STEPS_STREAM)?;
        self.run(client, STEPS_STREAM)
    }

    fn popularity(&self) -> Popularity {
        Popularity::zipf(self.names.len() as u32, ZIPF_EXPONENT)
    }

    fn lookup(&self, client: &mut Client, name: &str) -> Result<Timing, CallError> {
        match client.lookup(self.code, name)? {
            (Object::Null, _) => Err(CallError::Unusable(format!("does not know {name}"))),
            (_, timing) => Ok(timing),
        }
    }

    /// Looks every service up once, so that no measured lookup is a first one.
    ///
    /// # Errors
    /// [`CallError`], also when a service does not exist.
    pub fn lookup_all(&self, client: &mut Client) -> Result<(), CallError> {
        self.names.iter().try_for_each(|name| self.lookup(client, name).map(drop))
    }

    /// Makes all the lookups, in the order given by the seed and `stream`.
    ///
    /// # Errors
    /// [`CallError`], also when a service does not exist.
    pub fn run(&self, client: &mut Client, stream: u64) -> Result<Vec<Timing>, CallError> {
        let mut random = Random::stream(self.seed, stream);
        let popularity = self.popularity();
        (0..self.count).map(|_| self.lookup(client, &self.names[popularity.draw(&mut random)])).collect()
    }

    fn floors(&self, client: &mut Client, ticks: &Ticks) -> Result<Floors, CallError> {
        const TRIALS: usize = 201;
        let (object, _) = client.lookup(self.code, &self.names[0])?;
        let Object::Handle(handle) = object else {
            return Err(CallError::Unusable("answers with an object of its own, not with another process's".into()));
        };
        client.keep(handle);
        let mut median = |trial: &mut dyn FnMut(&mut Client) -> Result<u64, CallError>| -> Result<f64, CallError> {
            let trials = (0..TRIALS).map(|_| Ok(ticks.of(trial(client)?))).collect::<Result<Vec<f64>, CallError>>()?;
            Ok(figures(trials).p50)
        };
        Ok(Floors {
            empty_call: median(&mut Client::empty_call)?,
            reference_pair: median(&mut |client| client.reference_pair(handle))?,
        })
    }
}
