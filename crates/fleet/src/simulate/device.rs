//! A simulated device: drawn once, then it lives a day at a time and exports that day.

use std::f64::consts::TAU;
use std::fmt::Write as _;

use brisk_base::random::Random;

use super::model::{self, MODELS};
use super::{FIRST_DAY, Plan, build_name};
use crate::export::seal;

/// Applications of a device; the first ones open most often.
const APPLICATIONS: usize = 8;
/// The standard deviation of a launch's logarithm.
const SPREAD: f64 = 0.2;
/// Rows of kind `hour` in a day: devices are off at night.
const HOURS: u64 = 6;
const DAY_S: u64 = 86_400;

pub struct Device {
    hash: u64,
    model: usize,
    random: Random,
    next_row: u64,
    boots: u64,
    build: Option<usize>,
    /// The day on which each build arrives.
    updates: Vec<i64>,
    /// From this day on, launches are boosted.
    boosted_from: i64,
    /// The mean logarithm of a launch of each application.
    applications: [f64; APPLICATIONS],
    launches: f64,
    boot_factor: f64,
    losses_ms: [f64; 2],
}

impl Device {
    /// The device of this number in the fleet of `plan`.
    pub fn draw(plan: &Plan, index: u64) -> Self {
        let mut random = Random::stream(plan.seed, index);
        let model = model::drawn(random.below(model::total_share() as usize) as u32);
        let apart = (plan.days / plan.builds.max(1) as i64).max(1);
        let updates = (0..plan.builds as i64).map(|build| {
            // A build reaches all devices before the next one is released; all begin with the first.
            if build == 0 { 0 } else { build * apart + random.below(apart as usize) as i64 / 2 }
        });
        let updates = updates.collect();
        // A third never has launch on, a third always; the rest switches it on at some day.
        let boosted_from = match random.below(3) {
            0 => i64::MAX,
            1 => 0,
            _ => 1 + random.below(plan.days.max(2) as usize - 1) as i64,
        };
        let own = 0.25 * normal(&mut random);
        let applications = std::array::from_fn(|_| 6.4 + own + 0.5 * normal(&mut random));
        Self {
            hash: random.bits(),
            model,
            next_row: 1,
            boots: 0,
            build: None,
            updates,
            boosted_from,
            applications,
            launches: 3.0 + 14.0 * random.unit() * random.unit(),
            boot_factor: (0.1 * normal(&mut random)).exp(),
            losses_ms: MODELS[model].losses_ms(),
            random,
        }
    }

    /// Lives through `day`, counted from the first one, and exports its rows.
    pub fn export(&mut self, plan: &Plan, day: i64) -> String {
        let build = self.updates.iter().rposition(|update| *update <= day).unwrap_or(0);
        let boots = self.build != Some(build) || self.random.unit() < 0.3;
        self.build = Some(build);
        let model = &MODELS[self.model];
        let (launches, kills) = (poisson(&mut self.random, self.launches), poisson(&mut self.random, model.kills));
        let mut text = String::with_capacity(400 + 180 * (launches + kills + 16) as usize);
        let midnight_s = (FIRST_DAY + day) as u64 * DAY_S;
        let name = build_name(build);
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            text,
            r#"{{"brisk_telemetry":1,"device":"{:016x}","model":"{}","build":"{name}","kernel":"6.1.0","architecture":"aarch64","memory_kib":{},"cpus":{},"governor":"{}","brisk":"0.1.0","exported_at_s":{}}}"#,
            self.hash,
            model.name,
            model.memory_kib,
            model.cpus,
            model.governor,
            midnight_s + DAY_S - 1
        );
        let first = self.next_row;
        let expected = launches + kills + HOURS + 4;
        let mut clock = Clock { at_s: midnight_s, step_s: DAY_S / (expected + 1) };
        if boots || day == self.boosted_from {
            self.boots += 1;
        }
        self.row(
            &mut text,
            &mut clock,
            format_args!(r#""kind":"start","brisk":"0.1.0","build":"{name}","kernel":"6.1.0""#),
        );
        if boots {
            self.boot(&mut text, &mut clock);
        }
        let is_boosted = day >= self.boosted_from;
        if boots || day == self.boosted_from {
            let reason = if is_boosted { "" } else { "off" };
            let switch =
                format_args!(r#""kind":"switch","mechanism":"launch","active":{is_boosted},"reason":"{reason}""#);
            self.row(&mut text, &mut clock, switch);
        }
        let slower = plan.slower.as_ref().filter(|slower| slower.build == build && slower.model == model.name);
        let factor = 1.0 + slower.map_or(0.0, |slower| slower.percent / 100.0);
        for _ in 0..launches {
            self.launch(&mut text, &mut clock, is_boosted, factor);
        }
        for _ in 0..kills {
            self.kill(&mut text, &mut clock);
        }
        for hour in 1..=HOURS {
            self.hour(&mut text, &mut clock, hour);
        }
        seal(&mut text, self.next_row - first);
        text
    }

    fn boot(&mut self, text: &mut String, clock: &mut Clock) {
        let length_ms = MODELS[self.model].boot_ms * self.boot_factor * (0.05 * normal(&mut self.random)).exp();
        let kernel_ms = length_ms / 5.0;
        let row = format_args!(
            r#""kind":"boot","length_ms":{length_ms:.0},"kernel_ms":{kernel_ms:.0},"performance_held":false"#
        );
        self.row(text, clock, row);
    }

    fn launch(&mut self, text: &mut String, clock: &mut Clock, is_boosted: bool, factor: f64) {
        let drawn = self.random.unit() * self.random.unit();
        let application = (drawn * APPLICATIONS as f64) as usize;
        let loss_ms = self.losses_ms[usize::from(is_boosted)] * (0.8 + 0.4 * self.random.unit()) * factor;
        let work_ms = (self.applications[application] + SPREAD * normal(&mut self.random)).exp();
        let length_ms = work_ms * factor + loss_ms;
        let (hash, governor) = (self.hash ^ (application as u64 + 1), MODELS[self.model].governor);
        let row = format_args!(
            r#""kind":"launch","application":"{hash:016x}","name":null,"length_ms":{length_ms:.0},"loss_ms":{loss_ms:.1},"boosted":{is_boosted},"governor":"{governor}""#
        );
        self.row(text, clock, row);
    }

    fn kill(&mut self, text: &mut String, clock: &mut Clock) {
        let (freed_kib, headroom_kib) = (20_000 + self.random.below(60_000), self.random.below(40_000));
        let hash = self.hash ^ 1;
        let row = format_args!(
            r#""kind":"kill","application":"{hash:016x}","name":null,"freed_kib":{freed_kib},"oom_score_adj":900,"headroom_kib":{headroom_kib}"#
        );
        self.row(text, clock, row);
    }

    fn hour(&mut self, text: &mut String, clock: &mut Clock, hour: u64) {
        let (some_ms, cpu_ms) = (self.random.below(4000), 200 + self.random.below(900));
        let uptime_s = hour * 3600;
        let row = format_args!(
            r#""kind":"hour","period_s":3600,"uptime_s":{uptime_s},"memory_some_ms":{some_ms},"memory_full_ms":0,"cpu_some_ms":{some_ms},"io_some_ms":0,"lookup_hits":null,"lookup_misses":null,"cpu_ms":{cpu_ms},"resident_kib":2900,"dropped_rows":0"#
        );
        self.row(text, clock, row);
    }

    fn row(&mut self, text: &mut String, clock: &mut Clock, rest: std::fmt::Arguments<'_>) {
        let (row, at_s, boot) = (self.next_row, clock.tick(), self.hash.wrapping_add(self.boots));
        let _ = writeln!(text, r#"{{"row":{row},"at_s":{at_s},"boot":"{boot:016x}",{rest}}}"#);
        self.next_row += 1;
    }
}

struct Clock {
    at_s: u64,
    step_s: u64,
}

impl Clock {
    fn tick(&mut self) -> u64 {
        self.at_s += self.step_s;
        self.at_s
    }
}

/// A number with mean 0 and standard deviation 1 (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    (-2.0 * (1.0 - random.unit()).ln()).sqrt() * (TAU * random.unit()).cos()
}

/// A count with this mean (Knuth), which is small.
fn poisson(random: &mut Random, mean: f64) -> u64 {
    let (limit, mut product, mut count) = ((-mean).exp(), random.unit(), 0);
    while product > limit {
        product *= random.unit();
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::{Export, Fact};
    use crate::simulate::Slower;

    fn plan() -> Plan {
        Plan { devices: 1, days: 20, seed: 3, builds: 2, slower: None }
    }

    /// The logarithms of the launches of a hundred devices under the last build on `board-a`.
    fn launches(plan: &Plan) -> Vec<f64> {
        let devices =
            (0..100).map(|index| Device::draw(plan, index)).filter(|device| MODELS[device.model].name == "board-a");
        let mut found = Vec::new();
        for mut device in devices {
            for day in 0..plan.days {
                let text = device.export(plan, day);
                let export = Export::parse(text.as_bytes(), (FIRST_DAY + plan.days) * 86_400).unwrap();
                assert_eq!(export.undated, [] as [(u64, &str); 0]);
                for row in export.rows.iter().filter(|row| &*export.systems[row.system].build == "build-002") {
                    if let Fact::Launch { length_ms: Some(length_ms), .. } = row.fact {
                        found.push((length_ms as f64).ln());
                    }
                }
            }
        }
        found
    }

    #[test]
    fn a_planted_regression_is_all_that_differs() {
        let slower = Slower { build: 1, model: "board-a".to_owned(), percent: 6.0 };
        let [with, without] = [launches(&Plan { slower: Some(slower), ..plan() }), launches(&plan())];
        assert!(with.len() > 500 && with.len() == without.len());
        let mean = with.iter().zip(&without).map(|(one, other)| one - other).sum::<f64>() / with.len() as f64;
        // Lengths are rounded to milliseconds.
        assert!((mean.exp() - 1.06).abs() < 5e-4, "{mean}");
    }

    #[test]
    fn every_model_gains_by_its_boost_and_devices_are_of_all_models() {
        for model in &MODELS {
            let [stock, boosted] = model.losses_ms();
            assert!(stock >= boosted && boosted >= 0.0, "{}: {stock} {boosted}", model.name);
        }
        let drawn: std::collections::BTreeSet<usize> =
            (0..200).map(|index| Device::draw(&plan(), index).model).collect();
        assert_eq!(drawn.len(), MODELS.len());
    }
}
