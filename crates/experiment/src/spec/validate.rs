//! Semantic checks of a parsed experiment: each message says what is valid.

use std::collections::BTreeSet;

use super::super::claim::{Claim, Measure, PointSelector, VerdictBasis};
use super::super::metric::{Metric, Subject};
use super::{
    Arm, Boots, Experiment, LaunchLookups, LaunchMemory, Launches, Lookups, Preloading, Program, Readings, Reboots,
};
use brisk_mechanism::lookup::Traces;
use brisk_report::proof::Timekeeping;
use brisk_sys::binder::WireFormat;

/// Mechanisms that `brisk diagnose` estimates.
const ESTIMATED: [&str; 4] = ["launch", "placement", "lookup", "memory"];

fn manager_fault(arm: &Arm) -> Option<String> {
    match &arm.lookup {
        None => Some(format!("arm {}: lookup names the context manager", arm.name)),
        Some(lookup) if WireFormat::named(&lookup.format).is_none() => {
            Some(format!("arm {}: there is no wire format {:?}", arm.name, lookup.format))
        }
        Some(lookup) if lookup.manager.trim().is_empty() => Some(format!("arm {}: no manager", arm.name)),
        Some(_) => None,
    }
}

impl Experiment {
    /// The first fault, with its offset in the text where one is known.
    pub(super) fn fault(&self) -> Option<(usize, String)> {
        self.workload_fault().or_else(|| self.arms_fault()).map(|message| (0, message)).or_else(|| self.claims_fault())
    }

    fn workload_fault(&self) -> Option<String> {
        if (self.mode == Timekeeping::Native) != self.scenario.is_none() {
            return Some("an experiment in the lab names its `scenario`, one with mode = \"native\" has none".into());
        }
        if let Some(reboots) = self.reboots {
            return self.reboots_fault(reboots).or_else(|| self.replicates_fault());
        }
        #[cfg(feature = "lab")]
        if let Some(combinations) = &self.combinations {
            return combinations.fault(self).or_else(|| self.replicates_fault());
        }
        let fault = match (&self.launches, &self.lookups, &self.applications, self.readings, self.boots) {
            (Some(launches), None, None, None, None) => self.launches_fault(launches),
            (None, Some(lookups), None, None, None) => self.lookups_fault(lookups),
            (None, None, Some(openings), None, None) => self.openings_fault(openings),
            (None, None, None, Some(readings), None) => self.readings_fault(readings),
            (None, None, None, None, Some(boots)) => self.boots_fault(boots),
            _ => Some(
                "an experiment has one of a `workload`, which is launched, `lookups`, `applications`, `readings` and \
                 `boots`"
                    .into(),
            ),
        };
        fault.or_else(|| self.replicates_fault())
    }

    fn launches_fault(&self, workload: &Launches) -> Option<String> {
        let mut quick = self.replicates.quick_work_ms.iter().flatten();
        if workload.work_ms.is_empty() && workload.idle_ms.is_none() {
            return Some("the workload needs `work_ms` or `idle_ms`".into());
        }
        if workload.work_ms.contains(&0) || workload.threads == 0 || workload.idle_ms == Some(0) {
            return Some("work_ms, threads and idle_ms must be above zero".into());
        }
        if workload.work_ms.iter().any(|&work_ms| work_ms < workload.start_up_ms) {
            return Some("start_up_ms is a part of every work_ms and cannot be longer".into());
        }
        if workload.bursts.is_some_and(|bursts| bursts.work_ms == 0 || bursts.wait_ms == 0) {
            return Some("bursts: work_ms and wait_ms must be above zero".into());
        }
        if workload.settle_ms[0] > workload.settle_ms[1] {
            return Some("settle_ms is [shortest, longest]".into());
        }
        if workload.window_beyond_work_ms == 0 {
            return Some("window_beyond_work_ms must be above zero".into());
        }
        let has_unsupported_setting = |arm: &&Arm| {
            let lookup = arm.lookup.is_some() && workload.lookups.is_none();
            let others = lookup || arm.swap.is_some() || !arm.beside.is_empty() || !arm.launcher.is_empty();
            others || (arm.scenario.is_some() && self.mode != Timekeeping::Deterministic)
        };
        if let Some(arm) = self.arms.iter().find(has_unsupported_setting) {
            return Some(format!(
                "arm {}: lookup, swap, beside and launcher belong to experiments with lookups or applications, a scenario to \
                 deterministic mode",
                arm.name
            ));
        }
        if let Some(unknown_work_ms) = quick.find(|work_ms| !workload.work_ms.contains(work_ms)) {
            return Some(format!("quick_work_ms has {unknown_work_ms}, which work_ms lacks"));
        }
        if workload.background.is_some_and(|background| background.period_ms == 0) {
            return Some("background: period_ms must be above zero".into());
        }
        if workload.program == Program::AndroidApplication && self.does_more_than_an_application_of_android(workload) {
            return Some(
                "an android-application is opened in the lab, and does work_ms alone: without start_up_ms, threads, bursts, \
                 memory, lookups and estimates"
                    .into(),
            );
        }
        let memory_fault = workload.memory.and_then(|memory| self.launch_memory_fault(workload, memory));
        memory_fault.or_else(|| workload.lookups.and_then(|lookups| self.launch_lookups_fault(lookups)))
    }

    fn launch_memory_fault(&self, workload: &Launches, memory: LaunchMemory) -> Option<String> {
        let LaunchMemory { available_kib, cached, cached_kib, kib_per_work_ms } = memory;
        let is_one_piece = workload.start_up_ms == 0 && workload.threads == 1 && workload.bursts.is_none();
        if self.mode == Timekeeping::Native || !is_one_piece {
            return Some("memory of launches is filled in the lab, by one thread in one piece of work".into());
        }
        ([available_kib, u64::from(cached), cached_kib, kib_per_work_ms].contains(&0))
            .then(|| "memory: every amount must be above zero".into())
    }

    fn does_more_than_an_application_of_android(&self, workload: &Launches) -> bool {
        let does_more =
            workload.start_up_ms > 0 || workload.threads > 1 || workload.bursts.is_some() || workload.memory.is_some();
        let estimates = self.arms.iter().any(|arm| arm.estimates.is_some());
        self.mode == Timekeeping::Native || does_more || workload.lookups.is_some() || estimates
    }

    fn launch_lookups_fault(&self, lookups: LaunchLookups) -> Option<String> {
        if self.mode == Timekeeping::Native || lookups.services == 0 || lookups.per_work_ms == 0 {
            return Some("lookups of launches are made in the lab; services and per_work_ms must be above zero".into());
        }
        self.arms.iter().find_map(manager_fault)
    }

    fn lookups_fault(&self, lookups: &Lookups) -> Option<String> {
        let Lookups { services, count, misses, steps, clients, applications } = lookups;
        if self.mode == Timekeeping::Native || (self.mode == Timekeeping::Parallel) == clients.is_empty() {
            return Some("clients belong to parallel mode; else lookups are measured in deterministic mode".into());
        }
        let has_misses = clients.is_empty() && applications.is_empty();
        if *services == 0 || *count == 0 || (*misses == 0) == has_misses || clients.contains(&0) {
            return Some(
                "services, count and misses must be above zero (no misses with clients or applications)".into(),
            );
        }
        if *steps && !has_misses {
            return Some("steps are of one client's lookups, without clients and applications".into());
        }
        let known = Traces::built_in();
        if let Some(name) = applications.iter().find(|name| known.traces.iter().all(|trace| trace.name != **name)) {
            return Some(format!("there is no application {name:?}; see brisk lookup simulate"));
        }
        if !applications.is_empty() && (*services != known.services || !clients.is_empty()) {
            return Some(format!("applications look {} services up, without clients", known.services));
        }
        if self.replicates.quick_work_ms.is_some() {
            return Some("quick_work_ms is for launches".into());
        }
        self.arms.iter().find_map(manager_fault)
    }

    fn readings_fault(&self, readings: Readings) -> Option<String> {
        if self.mode != Timekeeping::Native || readings.count == 0 {
            return Some(
                "readings are of the user's own device, mode = \"native\", and their count is above zero".into(),
            );
        }
        let silent = self.arms.iter().find(|arm| arm.reads.is_none());
        silent.map(|arm| format!("arm {}: reads must be \"cheap\" or \"exact\"", arm.name))
    }

    fn boots_fault(&self, boots: Boots) -> Option<String> {
        let Boots { classes, services_ms, system_server_ms, application_ms, bursts, turns_per_ms } = boots;
        if self.mode != Timekeeping::Parallel {
            return Some("a zygote preloads on several CPUs: boots are measured with mode = \"parallel\"".into());
        }
        let amounts = [classes, services_ms, system_server_ms, application_ms, bursts.work_ms, bursts.wait_ms];
        if amounts.contains(&0) || turns_per_ms == 0 {
            return Some("boots: every amount must be above zero".into());
        }
        let is_unheld = |arm: &&Arm| {
            let is_complete = arm.scenario.is_some() && arm.governor.is_some();
            arm.hold_from_kernel
                && (!is_complete || arm.boot_hold || !arm.tunables.is_empty() || !arm.policy.is_empty())
        };
        if let Some(arm) = self.arms.iter().find(is_unheld) {
            return Some(format!(
                "arm {}: hold_from_kernel needs a scenario whose kernel starts under performance, and the governor to set after \
                 the boot; that has its own tunables then, and boot_hold does something else",
                arm.name
            ));
        }
        let once = self.replicates.warm_up == 0 && self.replicates.quick_work_ms.is_none();
        (!once).then(|| "a boot has no warm-up: warm_up = 0, and quick_work_ms is for launches".into())
    }

    fn reboots_fault(&self, reboots: Reboots) -> Option<String> {
        if self.mode != Timekeeping::Native || self.workload().is_some() || reboots.limit_s == 0 {
            return Some(
                "reboots are of the user's own device, mode = \"native\", without another workload, and limit_s is above zero"
                    .into(),
            );
        }
        if self.replicates.least.is_some() || self.replicates.quick_work_ms.is_some() {
            return Some("reboots: least and quick_work_ms are for other workloads".into());
        }
        let changes_more = |arm: &&Arm| {
            let settings = !arm.policy.is_empty() || !arm.tunables.is_empty() || arm.brisk.is_some();
            settings || matches!(arm.preload, Preloading::Fork | Preloading::ForkAndWait)
        };
        let arm = self.arms.iter().find(changes_more)?;
        Some(format!(
            "arm {}: between reboots arms differ in boot_hold and preload alone, and only the lab's zygote preloads in a fork",
            arm.name
        ))
    }

    fn replicates_fault(&self) -> Option<String> {
        let full = self.replicates_by_point(false);
        if full.len() != self.points(false).len() {
            return Some(format!(
                "replicates: full lists {} numbers for {} points",
                full.len(),
                self.points(false).len()
            ));
        }
        if self.replicates.least.is_some() && self.replicates.warm_up > 0 {
            return Some("replicates: with `least` each block is a run of its own, and warm_up is 0".into());
        }
        let quick = self.replicates.quick;
        if let Some(arm) = self.arms.iter().find(|arm| arm.full.is_some_and(|full| full < 2)) {
            return Some(format!("arm {}: full, its own number of replicates, must be at least 2", arm.name));
        }
        if self.arms.iter().any(|arm| arm.baseline && arm.full.is_some()) {
            return Some("the baseline has as many replicates as the most: it sets no `full` of its own".into());
        }
        let too_few = quick == 1 || full.iter().any(|&full| full < quick.max(2));
        too_few
            .then(|| "replicates: quick must be at least 2, and full at least quick; quick = 0: no quick form".into())
    }

    fn arms_fault(&self) -> Option<String> {
        let names: BTreeSet<_> = self.arms.iter().map(|arm| &arm.name).collect();
        if names.len() != self.arms.len() {
            return Some("two arms have the same name".into());
        }
        // The kernel resets a governor's tunables when another governor takes over.
        if let Some(arm) = self.arms.iter().find(|arm| self.mode == Timekeeping::Native && arm.governor.is_some()) {
            return Some(format!(
                "arm {}: a device keeps its own governor; pin the frequency with policy = {{ scaling_min_freq = \
                 \"maximum\" }}",
                arm.name
            ));
        }
        if self.arms.iter().any(|arm| arm.baseline && arm.full_only) {
            return Some("the baseline cannot be full_only".into());
        }
        if self.subject() != Subject::Combinations
            && self
                .arms
                .iter()
                .any(|arm| arm.alone || arm.background_nice.is_some() || !arm.background_launcher.is_empty())
        {
            return Some(
                "an arm is `alone`, or sets `background_nice` or `background_launcher`, in an experiment with combinations"
                    .into(),
            );
        }
        if let Some(arm) = self.arms.iter().find(|arm| arm.hidden_limit.is_some() && self.applications.is_none()) {
            return Some(format!("arm {}: hidden_limit is for experiments with applications", arm.name));
        }
        #[cfg(feature = "lab")]
        if let Some(fault) = self.arms.iter().find_map(|arm| self.by_hand_fault(arm)) {
            return Some(fault);
        }
        if let Some(arm) = self.arms.iter().find(|arm| arm.hold_from_kernel && self.boots.is_none()) {
            return Some(format!("arm {}: hold_from_kernel is for experiments with boots", arm.name));
        }
        let in_lab = self.launches.is_some() && self.mode != Timekeeping::Native;
        let is_unknown = |mechanism: &String| !in_lab || !ESTIMATED.contains(&mechanism.as_str());
        if let Some(arm) = self.arms.iter().find(|arm| arm.estimates.as_ref().is_some_and(is_unknown)) {
            return Some(format!(
                "arm {}: estimates are of launches in the lab, for one of {}",
                arm.name,
                ESTIMATED.join(", ")
            ));
        }
        let baselines = self.arms.iter().filter(|arm| arm.baseline).count();
        (baselines != 1).then(|| format!("{baselines} arms have `baseline = true`, exactly one must"))
    }

    #[cfg(feature = "lab")]
    fn by_hand_fault(&self, arm: &Arm) -> Option<String> {
        let has_disk = self.combinations.as_ref().is_some_and(|combinations| combinations.disk.is_some());
        if !has_disk && (arm.disk_scheduler.is_some() || arm.background_io_priority.is_some()) {
            let needs = "disk_scheduler and background_io_priority need combinations with a disk";
            return Some(format!("arm {}: {needs}", arm.name));
        }
        let has_network = self.combinations.as_ref().is_some_and(|combinations| combinations.network.is_some());
        if !has_network && (arm.network_queue.is_some() || arm.background_network_priority.is_some()) {
            let needs = "network_queue and background_network_priority need combinations with a network";
            return Some(format!("arm {}: {needs}", arm.name));
        }
        if arm.android_groups && (self.mode == Timekeeping::Native || self.combinations.is_none()) {
            return Some(format!("arm {}: android_groups is for combinations in the lab", arm.name));
        }
        if arm.android_foreground_shares.is_some() && !arm.android_groups {
            return Some(format!("arm {}: android_foreground_shares needs android_groups", arm.name));
        }
        let groups = arm.by_hand.as_ref()?;
        let is_possible = self.combinations.is_some() && self.mode != Timekeeping::Native && arm.brisk.is_none();
        let fault = if is_possible { groups.fault()? } else { "is for combinations in the lab, and without brisk" };
        Some(format!("arm {}: by_hand: {fault}", arm.name))
    }

    fn claims_fault(&self) -> Option<(usize, String)> {
        for claim in &self.claims {
            let named = [Some(&claim.arm), claim.against.as_ref(), claim.toward.as_ref()];
            for name in named.into_iter().flatten() {
                if self.arm(&name.value).is_none() {
                    return Some((name.offset, format!("there is no arm {:?}", name.value)));
                }
            }
            if let Some(message) = self.claim_fault(claim) {
                return Some((claim.arm.offset, format!("claim {}: {message}", claim.id)));
            }
        }
        None
    }

    fn claim_fault(&self, claim: &Claim) -> Option<String> {
        let toward = claim.toward.as_ref().map(|arm| &arm.value);
        let needs_toward = matches!(claim.measure, Measure::GapClosed | Measure::Loss | Measure::OffEstimate);
        if needs_toward != toward.is_some() {
            return Some("gap-closed, loss and off-estimate need `toward`, other measures have none".into());
        }
        let is_of_boot = matches!(claim.measure, Measure::OfBound | Measure::OffPrediction);
        if is_of_boot && !matches!(claim.metric, Metric::Boot | Metric::Preload) {
            return Some("of-bound and off-prediction are measures of the metrics boot and preload".into());
        }
        let has_estimates = |name: &String| self.arms.iter().any(|arm| arm.name == *name && arm.estimates.is_some());
        if claim.measure == Measure::OffEstimate
            && !(claim.metric == Metric::Launch && toward.is_some_and(has_estimates))
        {
            return Some("off-estimate is a measure of the metric launch, and `toward` an arm with `estimates`".into());
        }
        if (claim.measure == Measure::StaysOff) != (claim.metric == Metric::Actions) {
            return Some("stays-off and the metric actions belong together".into());
        }
        if claim.metric.subject() != self.subject() {
            return Some("its metric belongs to another kind of workload".into());
        }
        if claim.judged_by == VerdictBasis::Estimate && (claim.measure != Measure::Gain || claim.required.is_none()) {
            return Some("judged_by = \"estimate\" needs a gain with `required`".into());
        }
        if claim.paired && !claim.measure.can_be_paired() {
            return Some("paired is for gain, gap-closed and loss, which compare two arms".into());
        }
        #[cfg(feature = "lab")]
        if let Some(combinations) = &self.combinations {
            return combinations.claim_fault(claim, self);
        }
        match &claim.at {
            PointSelector::Named(_) => Some("names are for combinations".into()),
            PointSelector::Idle if self.launches.as_ref().is_none_or(|launches| launches.idle_ms.is_none()) => {
                Some("at = \"idle\" needs idle_ms in the workload".into())
            }
            PointSelector::Idle if claim.metric != Metric::Energy => Some("the idle point measures energy only".into()),
            _ if claim.metric == Metric::Energy && self.launches.as_ref().is_some_and(|launches| !launches.energy) => {
                Some("the workload has `energy = false`".into())
            }
            PointSelector::Work(list) => list
                .iter()
                .find(|work_ms| self.launches.as_ref().is_none_or(|launches| !launches.work_ms.contains(work_ms)))
                .map(|work_ms| format!("at has {work_ms}, which work_ms lacks")),
            _ => None,
        }
    }
}
