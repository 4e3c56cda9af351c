//! The lab: each device is a guest that boots, runs `brisk replicate` and powers off.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};

use super::super::conduct::Testbed;
use super::super::lookup::Manager;
use super::super::plan::{Line, Plan};
use super::super::point::Point;
use super::super::spec::{Experiment, Workload};
use super::super::tasks::ENGINE;
use brisk_lab::{Channel, GuestFile, GuestLine, HostClock, Job, LabError, Prepared, Scenario};
use brisk_report::proof::{SelfCheck, Timekeeping};

/// The plan's path in the guest.
const PLAN_FILE: &str = "/plan.json";
/// Lines of the console that are kept for the error message of a plan that fails.
const LAST_LINES: usize = 8;

/// The lab on this host.
#[derive(Debug)]
pub struct Lab {
    host_cpus: u32,
    /// Self-checks by scenario. Guests of one scenario are the same machine, so only the first is checked.
    checked: Mutex<BTreeMap<String, Vec<SelfCheck>>>,
}

impl Lab {
    /// The lab, whose guests may keep `host_cpus` CPUs of the host busy.
    pub fn new(host_cpus: u32) -> Self {
        Self { host_cpus, checked: Mutex::default() }
    }

    fn known_checks(&self, scenario: &str) -> Option<Vec<SelfCheck>> {
        self.checked.lock().ok().and_then(|checked| checked.get(scenario).cloned())
    }

    /// The self-check in a guest of its own, once for each scenario: guests of independent plans run only their plan.
    fn checked_alone(&self, scenario: &Scenario) -> anyhow::Result<Vec<SelfCheck>> {
        // The other devices wait: no timing counts before the check has passed.
        let mut checked = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = checked.get(&scenario.name) {
            return Ok(known.clone());
        }
        if !scenario.guest.self_check {
            return Ok(Vec::new());
        }
        let mut job = Job::new(scenario.clone(), ["brisk", "--version"]);
        job.seed = Some(0);
        let outcome = brisk_lab::run(&job, &mut |_| {})?;
        let checks: Vec<SelfCheck> = outcome.self_check.iter().map(described).collect();
        checked.insert(scenario.name.clone(), checks.clone());
        Ok(checks)
    }
}

/// The check as a report prints it.
fn described(check: &brisk_lab::SelfCheck) -> SelfCheck {
    SelfCheck {
        text: format!("Work takes time proportional to 1/f, within 2 %: {}", check.figures()),
        passed: check.passed(),
    }
}

impl Testbed for Lab {
    fn devices(&self, experiment: &Experiment) -> u32 {
        // A guest on the host's clock needs the host for itself.
        if experiment.mode == Timekeeping::Deterministic { self.host_cpus } else { 1 }
    }

    fn check(&self, plan: &Plan) -> anyhow::Result<()> {
        scenario_of(plan).map(drop)
    }

    fn program(&self) -> anyhow::Result<String> {
        let guests = std::env::var_os(brisk_lab::BINARY_VARIABLE).map(PathBuf::from);
        super::digest(guests.iter().map(PathBuf::as_path).chain([Path::new("/proc/self/exe")]))
    }

    fn prepare(&self, _experiment: &Experiment, plan: &Plan) -> anyhow::Result<String> {
        let scenario = scenario_of(plan)?;
        let Prepared { release, digest } = brisk_lab::prepare(&scenario)?;
        let mut hasher = DefaultHasher::new();
        digest.hash(&mut hasher);
        for file in files(plan, &scenario)? {
            (file.path, file.contents, file.mode).hash(&mut hasher);
        }
        Ok(format!("{}: {release}, {:016x}", scenario.name, hasher.finish()))
    }

    fn is_testbed_error(&self, error: &anyhow::Error) -> bool {
        error.is::<LabError>()
    }

    fn run(
        &self,
        experiment: &Experiment,
        plan: &Plan,
        device: u32,
        _interrupted: &AtomicBool,
        on_line: &mut dyn FnMut(Line),
    ) -> anyhow::Result<Vec<SelfCheck>> {
        let mut scenario = scenario_of(plan)?;
        let name = scenario.name.clone();
        let known = if plan.independent { Some(self.checked_alone(&scenario)?) } else { self.known_checks(&name) };
        scenario.guest.self_check &= device == 0 && known.is_none();
        let mut job = Job::new(scenario, ["brisk", "replicate", "--plan", PLAN_FILE])
            .with_file(PLAN_FILE, serde_json::to_vec(plan)?);
        job.files.extend(files(plan, &job.scenario)?);
        job.timeout = plan_timeout(plan);
        // Without a seed, arm64's machine hands the host's random numbers to the kernel (`rng-seed` of the device tree), which
        // places pages by them.
        job.seed = plan.replicates.first().map(|first| first.seed);
        let is_boot = matches!(plan.workload, Workload::Boots(_));
        let mut parser =
            GuestOutputParser { boots_since: is_boot.then(HostClock::default), ..GuestOutputParser::default() };
        let outcome = brisk_lab::run(&job, &mut |line| parser.parse_line(&line, experiment.mode, on_line))?;
        if let Some(text) = parser.fault {
            bail!("the guest printed {text:?} instead of a result");
        }
        if outcome.status != 0 {
            let lines: Vec<String> = parser.last_lines.into();
            let reason = parser.failed.unwrap_or_else(|| format!("its last lines:\n{}", lines.join("\n")));
            bail!("the plan failed in the guest with status {}: {reason}", outcome.status);
        }
        let checks = known.unwrap_or_else(|| outcome.self_check.iter().map(described).collect());
        if let Ok(mut checked) = self.checked.lock()
            && device == 0
        {
            checked.insert(name, checks.clone());
        }
        Ok(checks)
    }
}

fn scenario_of(plan: &Plan) -> anyhow::Result<Scenario> {
    Ok(Scenario::load(plan.scenario.as_deref().context("the experiment names no scenario")?)?)
}

/// The guest's files besides brisk and its plan.
fn files(plan: &Plan, scenario: &Scenario) -> anyhow::Result<Vec<GuestFile>> {
    let mut files = Vec::new();
    for program in programs(plan) {
        let contents = brisk_lab::program(&program, scenario)?;
        files.push(GuestFile { path: format!("/bin/{program}"), contents, mode: 0o755 });
    }
    for program in beside(plan) {
        files.extend(brisk_lab::packaged_program(&program, scenario)?);
    }
    if let Workload::Combinations(combinations) = &plan.workload
        && combinations.has_suite(&plan.points)
    {
        files.extend(brisk_lab::host_program(ENGINE)?);
    }
    if let Workload::Boots(boots) = &plan.workload {
        files.extend(brisk_lab::zygote(boots.classes)?);
    }
    Ok(files)
}

/// Programs other than brisk that the plan's arms run: context managers by their command's first word.
fn programs(plan: &Plan) -> BTreeSet<String> {
    let arms = plan.replicates.iter().filter_map(|replicate| plan.arms.get(replicate.arm)?.lookup.as_ref());
    let managers = arms.map(|lookup| Manager::named(&lookup.manager));
    managers.filter_map(|manager| manager.program().map(str::to_owned)).collect()
}

/// Debian programs that run beside the plan's arms.
fn beside(plan: &Plan) -> BTreeSet<String> {
    let arms = plan.replicates.iter().filter_map(|replicate| plan.arms.get(replicate.arm));
    arms.filter_map(|arm| arm.beside.first().cloned()).collect()
}

/// An upper limit of a plan's host time, on a host that is overloaded several times over.
fn plan_timeout(plan: &Plan) -> Duration {
    let is_single = matches!(&plan.workload, Workload::Applications(openings) if openings.single);
    let (window_ms, lookups) = match &plan.workload {
        Workload::Launches(launches) => (u64::from(launches.window_beyond_work_ms), 0),
        Workload::Lookups(lookups) => (0, u64::from(lookups.count)),
        Workload::Applications(_) | Workload::Readings(_) | Workload::Boots(_) | Workload::Combinations(_) => (0, 0),
    };
    let in_foreground_ms = |point: &Point| match &plan.workload {
        Workload::Combinations(combinations) => {
            combinations.at(point).map_or(0, |at| at.foreground.duration_ms().into())
        }
        _ => 0,
    };
    let replicate = |index: usize| match plan.points.get(index) {
        Some(Point::Work(work_ms)) => u64::from(*work_ms) * 6 + window_ms,
        Some(Point::Idle(idle_ms)) => u64::from(*idle_ms),
        // Ten times the time with a stock driver, and three processes that start before.
        Some(Point::Lookups(count)) => u64::from(*count) * 4 + 3000,
        Some(Point::Application(_)) => lookups * 4 + 3000,
        Some(Point::Clients(clients)) => u64::from(*clients) * lookups + 3000,
        // The time to fill a flash of one GB.
        Some(Point::Openings(_)) if is_single => 120_000,
        // Each may take as long as its limit.
        Some(Point::Openings(count)) => u64::from(*count) * 4000,
        Some(Point::Boot) => 60_000,
        // Half a minute on a loaded host, where the foreground may get a fraction of a CPU.
        Some(point @ Point::Combination(_)) => 4000 + in_foreground_ms(point),
        Some(Point::Readings(_)) | None => 0,
    };
    let guest_ms: u64 = plan.replicates.iter().map(|r| replicate(r.point) + r.settle_us / 1000).sum();
    Duration::from_secs(180) + Duration::from_millis(guest_ms * 8)
}

/// Parses a guest's lines.
#[derive(Default)]
struct GuestOutputParser {
    started: Option<HostClock>,
    /// Set for boots: the host may disturb one before the guest's first line.
    boots_since: Option<HostClock>,
    last_lines: VecDeque<String>,
    /// A line that cannot be parsed.
    fault: Option<String>,
    /// Why the plan could not be run, as the guest reports it.
    failed: Option<String>,
}

impl GuestOutputParser {
    fn parse_line(&mut self, line: &GuestLine, mode: Timekeeping, on_line: &mut dyn FnMut(Line)) {
        if line.channel == Channel::Console {
            if self.last_lines.len() == LAST_LINES {
                self.last_lines.pop_front();
            }
            self.last_lines.push_back(line.text.clone());
            return;
        }
        match serde_json::from_slice(line.text.as_bytes()) {
            Ok(Line::Failed { failed }) => self.failed = Some(failed),
            Ok(parsed) => on_line(self.reject_if_disturbed(parsed, &line.host, mode)),
            Err(_) => drop(self.fault.get_or_insert_with(|| line.text.clone())),
        }
    }

    /// Refuses a replicate during which the host did not let the guest run.
    fn reject_if_disturbed(&mut self, mut line: Line, host: &HostClock, mode: Timekeeping) -> Line {
        match &mut line {
            Line::Started { .. } => self.started = Some(self.boots_since.clone().unwrap_or_else(|| host.clone())),
            Line::Measured(measured) if mode == Timekeeping::Parallel && measured.rejected.is_none() => {
                let waited = self.started.take().map_or(1.0, |started| host.disturbance_since(&started));
                if waited > HostClock::DISTURBANCE_LIMIT {
                    let limit = HostClock::DISTURBANCE_LIMIT * 100.0;
                    measured.rejected =
                        Some(format!("the host kept a virtual CPU waiting for more than {limit:.0} % of the time"));
                }
            }
            Line::Device { device } => {
                device.place = "lab".into();
                device.processor = format!("{}, emulated by QEMU", device.processor);
            }
            _ => {}
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, channel: Channel, wall_ms: u64, delay_ms: u64) -> GuestLine {
        let [wall, delay] = [wall_ms, delay_ms].map(Duration::from_millis);
        GuestLine { channel, text: text.into(), host: HostClock { wall, run_delay: vec![delay] } }
    }

    #[test]
    fn a_disturbed_replicate_is_refused_in_parallel_mode_only() {
        let measured = r#"{"replicate":1,"arm":"a","point":"p","metrics":{},"rejected":null}"#;
        for (mode, delay_ms, refused) in [
            (Timekeeping::Parallel, 40, true),
            (Timekeeping::Parallel, 20, false),
            (Timekeeping::Deterministic, 900, false),
        ] {
            let mut heard = Vec::new();
            let mut parser = GuestOutputParser::default();
            for (text, wall, delay) in [(r#"{"started":1}"#, 5000, 7), (measured, 6000, 7 + delay_ms)] {
                parser.parse_line(&line(text, Channel::Results, wall, delay), mode, &mut |line| heard.push(line));
            }
            let Some(Line::Measured(measured)) = heard.pop() else { panic!("{heard:?}") };
            assert_eq!(measured.rejected.is_some(), refused, "{mode:?} {delay_ms} ms");
        }
    }

    #[test]
    fn garbage_is_a_fault_and_the_console_is_kept() {
        let mut parser = GuestOutputParser::default();
        for number in 0..20 {
            parser.parse_line(
                &line(&number.to_string(), Channel::Console, 0, 0),
                Timekeeping::Parallel,
                &mut |_| panic!(),
            );
        }
        parser.parse_line(&line("oops", Channel::Results, 0, 0), Timekeeping::Parallel, &mut |_| panic!());
        assert_eq!(parser.fault.as_deref(), Some("oops"));
        assert_eq!((parser.last_lines.len(), parser.last_lines[0].as_str()), (LAST_LINES, "12"));
    }
}
