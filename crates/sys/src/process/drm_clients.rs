//! GPU usage of processes: the statistics that DRM drivers expose in /proc/PID/fdinfo/N (Documentation/gpu/drm-usage-stats.rst,
//! Linux 5.19; each driver keeps only some of the counters).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::Root;

/// More descriptors of one process are not read.
const MAX_DESCRIPTORS: usize = 4096;

/// One opener of a GPU. Duplicated and inherited descriptors belong to the same client.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId {
    /// The driver, `i915`.
    pub driver: String,
    /// The device's address on its bus; empty where the driver does not report it.
    pub device: String,
    /// Its number on that device.
    pub number: String,
}

/// The counters of one engine for a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Busy time.
    pub busy_ns: Option<u64>,
    /// Engines of that kind; one where the driver does not report it.
    pub capacity: Option<u64>,
    /// Busy cycles.
    pub cycles: Option<u64>,
    /// Cycles available in total.
    pub total_cycles: Option<u64>,
    /// Maximum cycles per second.
    pub maximum_hz: Option<u64>,
}

/// One client and its engines, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Client {
    /// Its identity.
    pub id: ClientId,
    /// Its usage.
    pub engines: BTreeMap<String, EngineCounters>,
}

/// All clients in one sample, each with the first process that has it open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clients(BTreeMap<ClientId, (u32, BTreeMap<String, EngineCounters>)>);

/// A process's usage of the engine that it used most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineShare {
    /// The engine's name, `render`.
    pub engine: String,
    /// Its share of the engine's capacity, 0 to 1.
    pub share: f64,
}

/// The clients of `pids`. Processes whose descriptors may not be read are skipped; without a GPU, no process is read.
pub fn sample(root: &Root, pids: impl IntoIterator<Item = u32>) -> Clients {
    let mut clients = Clients::default();
    if !root.exists("/dev/dri") {
        return clients;
    }
    for pid in pids {
        for number in descriptors(root, pid) {
            let text = root.read(format!("/proc/{pid}/fdinfo/{number}")).ok();
            if let Some(client) = text.and_then(|text| parse(&text)) {
                clients.0.entry(client.id).or_insert((pid, client.engines));
            }
        }
    }
    clients
}

/// The descriptors of `pid` that refer to a GPU.
fn descriptors(root: &Root, pid: u32) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(root.path(format!("/proc/{pid}/fd"))).into_iter().flatten();
    let leads_to_gpu = |path: &Path| fs::read_link(path).is_ok_and(|target| target.starts_with("/dev/dri"));
    let entries = entries.take(MAX_DESCRIPTORS).flatten().filter(move |entry| leads_to_gpu(&entry.path()));
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Parses a descriptor's statistics; `None` when it belongs to no client.
pub fn parse(text: &str) -> Option<Client> {
    let mut client = Client::default();
    for (key, value) in text.lines().filter_map(|line| line.strip_prefix("drm-")?.split_once(':')) {
        client.take(key, value.trim());
    }
    (!client.id.number.is_empty()).then_some(client)
}

impl Client {
    fn take(&mut self, key: &str, value: &str) {
        type Set = fn(&mut EngineCounters, u64);
        // Longer prefixes first: one is the beginning of another.
        const COUNTERS: [(&str, Set); 5] = [
            ("engine-capacity-", |engine, count| engine.capacity = Some(count)),
            ("engine-", |engine, ns| engine.busy_ns = Some(ns)),
            ("total-cycles-", |engine, count| engine.total_cycles = Some(count)),
            ("cycles-", |engine, count| engine.cycles = Some(count)),
            ("maxfreq-", |engine, hz| engine.maximum_hz = Some(hz)),
        ];
        match key {
            "driver" => self.id.driver = value.to_owned(),
            "pdev" => self.id.device = value.to_owned(),
            "client-id" => self.id.number = value.to_owned(),
            _ => {
                let counter = COUNTERS.iter().find_map(|(prefix, set)| Some((key.strip_prefix(prefix)?, set)));
                if let (Some((engine, set)), Some(amount)) = (counter, parse_amount(value)) {
                    set(self.engines.entry(engine.to_owned()).or_default(), amount);
                }
            }
        }
    }
}

/// A number with its unit, if any, converted to nanoseconds or hertz.
fn parse_amount(value: &str) -> Option<u64> {
    let mut words = value.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let factor = match words.next() {
        Some("KHz") => 1_000,
        Some("MHz") => 1_000_000,
        _ => 1,
    };
    number.checked_mul(factor)
}

impl EngineCounters {
    /// The usage since `before`, `wall` ago, 0 to 1; `None` where the driver reports too few counters.
    fn share_since(&self, before: &Self, wall: Duration) -> Option<f64> {
        // A driver may briefly count backwards: that counts as no usage.
        let since = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?) as f64);
        let of_time = || {
            let capacity = self.capacity.unwrap_or(1).max(1) as f64;
            Some(since(self.busy_ns, before.busy_ns)? / (wall.as_nanos() as f64 * capacity))
        };
        let of_cycles = || {
            let possible = since(self.total_cycles, before.total_cycles)
                .or_else(|| Some(self.maximum_hz? as f64 * wall.as_secs_f64()))?;
            Some(since(self.cycles, before.cycles)? / possible)
        };
        of_time().or_else(of_cycles).filter(|share| share.is_finite()).map(|share| share.min(1.0))
    }
}

impl Clients {
    /// Per process, the engine that it used most since `before`, `wall` ago. A client that did not exist before is left out.
    pub fn shares_since(&self, before: &Self, wall: Duration) -> BTreeMap<u32, EngineShare> {
        let mut used: BTreeMap<(u32, &str), f64> = BTreeMap::new();
        for (id, (pid, engines)) in &self.0 {
            let Some((_, earlier)) = before.0.get(id) else { continue };
            for (name, counters) in engines {
                let share = earlier.get(name).and_then(|earlier| counters.share_since(earlier, wall));
                *used.entry((*pid, name)).or_default() += share.unwrap_or(0.0);
            }
        }
        let mut most: BTreeMap<u32, EngineShare> = BTreeMap::new();
        for ((pid, engine), share) in used {
            if most.get(&pid).is_none_or(|most| share > most.share) {
                most.insert(pid, EngineShare { engine: engine.to_owned(), share });
            }
        }
        most
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn client(number: &str, counters: &str) -> String {
        format!(
            "pos:\t0\nflags:\t02100002\ndrm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t{number}\n{counters}"
        )
    }

    /// A device on which each process has these descriptors: number, target, content.
    fn device(descriptors: &[(u32, u32, &str, String)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        fs::create_dir_all(root.path("/dev/dri")).unwrap();
        for (pid, number, target, text) in descriptors {
            for folder in ["fd", "fdinfo"] {
                fs::create_dir_all(root.path(format!("/proc/{pid}/{folder}"))).unwrap();
            }
            symlink(target, root.path(format!("/proc/{pid}/fd/{number}"))).unwrap();
            fs::write(root.path(format!("/proc/{pid}/fdinfo/{number}")), text).unwrap();
        }
        (folder, root)
    }

    // Verifies ON-4.
    #[test]
    fn each_kind_of_counter_becomes_a_share() {
        for (name, before, after, expected) in [
            ("time", "drm-engine-render:\t0 ns\n", "drm-engine-render:\t250000000 ns\n", 0.25),
            (
                "time of two engines",
                "drm-engine-video:\t0 ns\ndrm-engine-capacity-video:\t2\n",
                "drm-engine-video:\t1000000000 ns\ndrm-engine-capacity-video:\t2\n",
                0.5,
            ),
            (
                "cycles of all",
                "drm-cycles-rcs:\t10\ndrm-total-cycles-rcs:\t1000\n",
                "drm-cycles-rcs:\t40\ndrm-total-cycles-rcs:\t1100\n",
                0.3,
            ),
            (
                "cycles at a frequency",
                "drm-cycles-fragment:\t0\ndrm-maxfreq-fragment:\t800 MHz\n",
                "drm-cycles-fragment:\t80000000\ndrm-maxfreq-fragment:\t800 MHz\n",
                0.1,
            ),
            ("backwards", "drm-engine-render:\t9 ns\n", "drm-engine-render:\t8 ns\n", 0.0),
            ("more than all", "drm-engine-render:\t0 ns\n", "drm-engine-render:\t2000000000 ns\n", 1.0),
            ("cycles of nothing", "drm-cycles-rcs:\t0\n", "drm-cycles-rcs:\t40\n", 0.0),
            (
                "no time",
                "drm-cycles-a:\t0\ndrm-total-cycles-a:\t7\n",
                "drm-cycles-a:\t0\ndrm-total-cycles-a:\t7\n",
                0.0,
            ),
        ] {
            let sample = |counters: &str| {
                let (_folder, root) = device(&[(7, 3, "/dev/dri/renderD128", client("1", counters))]);
                sample(&root, [7])
            };
            let shares = sample(after).shares_since(&sample(before), SECOND);
            assert!((shares[&7].share - expected).abs() < 1e-9, "{name}: {shares:?}");
        }
    }

    // Verifies ON-4.
    #[test]
    fn a_client_is_counted_once_and_a_process_by_its_busiest_engine() {
        let at = |render: u64, copy: u64| {
            let text = |number: &str| {
                client(number, &format!("drm-engine-render:\t{render} ns\ndrm-engine-copy:\t{copy} ns\n"))
            };
            device(&[
                // One client, with two descriptors, and in the child that inherited them.
                (7, 3, "/dev/dri/renderD128", text("1")),
                (7, 4, "/dev/dri/renderD128", text("1")),
                (8, 3, "/dev/dri/renderD128", text("1")),
                // A second client of the same process, and one of another.
                (7, 5, "/dev/dri/card0", text("2")),
                (9, 3, "/dev/dri/card0", text("3")),
                // Another kind of file with the same content.
                (9, 4, "/tmp/renderD128", text("4")),
            ])
        };
        let ((_one, before), (_two, after)) = (at(0, 0), at(200_000_000, 300_000_000));
        let before = sample(&before, [7, 8, 9, 10]);
        let shares = sample(&after, [7, 8, 9, 10]).shares_since(&before, SECOND);
        assert_eq!(shares.keys().copied().collect::<Vec<_>>(), [7, 9]);
        assert_eq!(shares[&7], EngineShare { engine: "copy".to_owned(), share: 0.6 });
        assert_eq!(shares[&9], EngineShare { engine: "copy".to_owned(), share: 0.3 });
    }

    #[test]
    fn text_without_a_client_is_none() {
        for text in ["", "pos:\t0\n", "drm-driver:\tvgem\n", "drm-client-id:\t\n", "drm-engine-render:\t7 ns\n"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        let odd = parse("drm-client-id: 1\ndrm-engine-x: many ns\ndrm-maxfreq-x: 18446744073709551615 MHz\n").unwrap();
        assert!(odd.engines.is_empty(), "{odd:?}");
    }
}
