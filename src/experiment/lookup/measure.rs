//! Many look-ups in a row, and what they took.

use serde::Serialize;

use super::client::{Client, Timing};
use crate::device::binder::CallError;
use crate::device::binder::parcel::Object;
use crate::device::ticks::{TickUnit, Ticks};
use crate::experiment::statistics::{mean, quantile};
use crate::mechanism::lookup::trace::Popularity;
use crate::random::Random;

/// How unevenly services are looked up, as in the simulator's traces: the top quarter takes 80 %.
const ZIPF_EXPONENT: f64 = 1.16;

/// A distribution in a few figures, in the unit of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figures {
    /// Half of the look-ups took no longer.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// The mean.
    pub mean: f64,
}

/// What the driver takes when it looks nothing up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Floors {
    /// A call that does nothing.
    pub empty_call: f64,
    /// A call that takes a reference and lets it go.
    pub reference_pair: f64,
}

/// A row of look-ups.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// What is counted.
    pub unit: TickUnit,
    /// How many were counted.
    pub look_ups: usize,
    /// How many services they were spread over.
    pub services: usize,
    /// The calls of the driver, with everything behind them.
    pub call: Figures,
    /// The requests, built in user space.
    pub request: Figures,
    /// The answers, read in user space.
    pub answer: Figures,
    /// What remains when nothing is looked up.
    pub floors: Floors,
}

/// Looks `names` up `look_ups` times by their popularity, after `warm_up` that are not counted.
///
/// # Errors
/// [`CallError`], also when a service is not there.
pub fn measure(
    client: &mut Client,
    code: u32,
    names: &[String],
    look_ups: usize,
    warm_up: usize,
    seed: u64,
) -> Result<Measured, CallError> {
    let ticks = Ticks::calibrate();
    let popularity = Popularity::zipf(names.len() as u32, ZIPF_EXPONENT);
    let mut random = Random::new(seed);
    let mut timings: Vec<Timing> = Vec::with_capacity(look_ups);
    let mut last_handle = 0;
    for turn in 0..warm_up + look_ups {
        let name = &names[popularity.draw(&mut random)];
        let (object, timing) = client.look_up(code, name)?;
        let Object::Handle(handle) = object else { return Err(CallError::Malformed(format!("a manager of {name}"))) };
        last_handle = handle;
        if turn >= warm_up {
            timings.push(timing);
        }
    }
    let figures = |part: fn(&Timing) -> u64| figures(timings.iter().map(|timing| ticks.of(part(timing))).collect());
    Ok(Measured {
        unit: ticks.unit,
        look_ups,
        services: names.len(),
        call: figures(|timing| timing.call),
        request: figures(|timing| timing.request),
        answer: figures(|timing| timing.answer),
        floors: floors(client, last_handle, &ticks)?,
    })
}

fn floors(client: &mut Client, handle: u32, ticks: &Ticks) -> Result<Floors, CallError> {
    const TRIALS: usize = 201;
    let mut median = |trial: &mut dyn FnMut(&mut Client) -> Result<u64, CallError>| -> Result<f64, CallError> {
        let trials = (0..TRIALS).map(|_| Ok(ticks.of(trial(client)?))).collect::<Result<Vec<f64>, CallError>>()?;
        Ok(figures(trials).p50)
    };
    Ok(Floors {
        empty_call: median(&mut |client| client.empty_call())?,
        reference_pair: median(&mut |client| client.reference_pair(handle))?,
    })
}

fn figures(mut values: Vec<f64>) -> Figures {
    values.sort_unstable_by(f64::total_cmp);
    Figures { p50: quantile(&values, 0.5), p99: quantile(&values, 0.99), mean: mean(&values) }
}
