//! The parsers as functions of bytes: a refusal is correct, a panic is a fault.

use std::fs;

use brisk::base::random::Random;
use brisk::chart::read::{self, Limits};
use brisk::chart::{diagnose, html as page, perfetto, svg};
use brisk::config::Config;
use brisk::daemon::control::protocol::{self, Message};
use brisk::daemon::replay::replay;
use brisk::experiment::merge::{self, Record};
use brisk::experiment::spec::Experiment;
use brisk::fleet::document::{self, Given};
use brisk::fleet::export::{self, Export};
use brisk::fleet::table::{Rows, Table};
use brisk::lab::scenario::Scenario;
use brisk::mechanism::launch::{LaunchConfig, LaunchDevice, LaunchPlan, LearnedDurations};
use brisk::mechanism::lookup::{Trace, Traces};
use brisk::papers::built_in;
use brisk::papers::comparison::Comparison;
use brisk::papers::paper::Paper;
use brisk::papers::results::Results;
use brisk::papers::verdict::Verdict;
use brisk::remote::program::Kind;
use brisk::remote::target::Target;
use brisk::remote::{quote, script};
use brisk::report::{html, json};
use brisk::sys::binder::returns::Returns;
use brisk::sys::binder::{WireFormat, cache};
use brisk::sys::bpf::btf::Types;
use brisk::sys::bpf::layout::Layout;
use brisk::sys::bpf::task;
use brisk::sys::cgroup::hierarchy::{self, Hierarchy};
use brisk::sys::cpu::{cpu_times, energy, hotplug, load, loadavg};
use brisk::sys::io::{disk_stats, process_io};
use brisk::sys::memory::{
    meminfo, process_memory, process_reclaim, psi, swaps, vm_tunables, vmstat, zoneinfo, zram, zram_owner,
    zram_writeback,
};
use brisk::sys::network::{netlink, queues, sockets};
use brisk::sys::process::schedstat;
use brisk::sys::process::{drm_clients, process_events, process_watch};
use brisk::sys::sched::{affinity, priority, thread_switches, threads};
use brisk::sys::system::{android_properties, trace_events};
use brisk::sys::{Root, process};
use brisk::telemetry as telemetry_store;
use brisk::telemetry::error::TelemetryError;
use brisk::telemetry::export::export;
use brisk::telemetry::store::{Store, StoreOptions};
use brisk::telemetry::summary::summary;
use brisk::undo::journal;

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

pub fn config(bytes: &[u8]) {
    if let Ok(config) = Config::parse(&text(bytes)) {
        let printed = toml::to_string(&config).expect("a configuration can be printed");
        assert_eq!(Config::parse(&printed).expect("a printed configuration parses"), config);
    }
}

pub fn cpu_lists(bytes: &[u8]) {
    let text = text(bytes);
    let _ = hotplug::parse_words(&text);
    if let Some(cpus) = hotplug::parse_list(&text) {
        assert!(cpus.is_sorted_by(|one, other| one < other));
        assert_eq!(hotplug::parse_list(&hotplug::format_list(&cpus)), Some(cpus));
    }
}

pub fn netlink(bytes: &[u8]) {
    let mut bodies = 0;
    let _ = netlink::parse(bytes, &mut |body| {
        bodies += 1;
        let (queue, socket) = (queues::parse(body), sockets::parse(body));
        assert!(queue.is_none_or(|queue| queue.kind.len() <= 3 * body.len()) && socket.is_none_or(|_| body.len() > 72));
    });
    assert!(bodies <= bytes.len() / 16, "more messages than headers fit");
}

pub fn process_event_datagram(bytes: &[u8]) {
    let mut notices = Vec::new();
    let _ = process_events::parse(bytes, &mut notices);
    assert!(notices.len() <= bytes.len() / 16, "more notices than headers fit");
}

pub fn control(bytes: &[u8]) {
    if let Ok(request) = protocol::parse(bytes) {
        let line = serde_json::to_vec(&Message { version: protocol::VERSION, request: request.clone() });
        assert_eq!(protocol::parse(&line.expect("a request can be printed")), Ok(request));
    }
    let _ = protocol::parse_answer(&text(bytes));
}

/// Small, so that no input takes long.
const SMALL: Limits =
    Limits { bytes: 1 << 20, samples: 500, processes: 500, activities: 5000, cores: 64, core_samples: 20_000 };

/// Reads `bytes` as each of the files `names`; diagnoses and draws the result.
fn bootchart(names: &[&str], bytes: &[u8]) {
    for name in names {
        let mut recording = read::Recording::new(&SMALL);
        if recording.take(name, &mut &*bytes).is_ok()
            && let Ok(boot) = recording.finish(std::path::Path::new("fuzz"))
        {
            assert!(diagnose::diagnose(&boot).phases.len() <= boot.cpu.len());
            svg::render(&boot);
            page::render(&boot);
            perfetto::render(&boot);
        }
    }
}

pub fn bootchart_samples(bytes: &[u8]) {
    bootchart(&["proc_stat.log", "proc_diskstats.log", "cpufreq.log", "pressure.log"], bytes);
}

pub fn bootchart_processes(bytes: &[u8]) {
    bootchart(&["proc_ps.log", "taskstats.log"], bytes);
}

pub fn bootchart_facts(bytes: &[u8]) {
    bootchart(&["header", "cmdline2.log", "paternity.log", "kernel_pacct", "dmesg"], bytes);
}

pub fn bootchart_archive(bytes: &[u8]) {
    let _ = read::read_bytes(bytes, &SMALL);
}

/// A trace of the scheduler, explained for each of its threads and its launches: the parts are the window, and estimates within it.
pub fn trace_files(bytes: &[u8]) {
    use brisk::trace::remedy::{Mechanism, Remedies, what_if};
    let Ok(trace) = brisk::trace::read::read_bytes(std::path::Path::new("fuzz"), bytes) else { return };
    let timelines = brisk::trace::threads::resolve(&trace);
    let (from_ns, to_ns) = (trace.start_ns(), trace.end_ns());
    let mut converted = Vec::new();
    brisk::trace::perfetto::write(&trace, &mut converted).unwrap();
    // Forged numbers of threads that no kernel has are refused.
    if let Ok(again) = brisk::trace::read::read_bytes(std::path::Path::new("fuzz"), &converted) {
        assert!(again.counts.switches <= trace.counts.switches);
    }
    if from_ns == to_ns {
        return;
    }
    let launches = brisk::trace::launches::find(&trace, &timelines);
    for launch in &launches {
        assert!(from_ns <= launch.from_ns && launch.from_ns < launch.to_ns && launch.to_ns <= to_ns, "{launch:?}");
    }
    let whole = (0..timelines.threads.len().min(20) as u32).map(|thread| brisk::trace::explain::Window {
        thread,
        from_ns,
        to_ns,
    });
    for window in whole.chain(launches.iter().filter_map(brisk::trace::launches::Launch::window).take(5)) {
        let explanation = brisk::trace::explain::explain(&trace, &timelines, window);
        let parts_ns: u64 = explanation.parts.iter().map(|part| part.ns).sum();
        assert_eq!(parts_ns, window.to_ns - window.from_ns);
        let groups = brisk::trace::words::groups(&explanation);
        assert!(brisk::trace::waterfall::draw(&explanation, &groups, None).lines().count() <= 14);
        let remedies = Remedies { with: vec![Mechanism::Launch, Mechanism::Placement], ..Remedies::default() };
        let what_if = what_if(&trace, &timelines, (window, &explanation), &remedies);
        assert_eq!(what_if.left_ns.iter().sum::<u64>() + what_if.removed_ns, parts_ns);
        let page = brisk::trace::html::render(&trace, (&explanation, Some(&what_if)), &launches, None, &[]);
        assert!(page.trim_end().ends_with("</html>"));
        let drawing = brisk::trace::svg::render(&trace, (&explanation, Some(&what_if)), None, &[]);
        assert!(drawing.ends_with("</svg>\n") && drawing.len() < 4 << 20);
    }
}

pub fn process_files(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (process::parse_stat(&text), process::parse_real_uid(&text), process::parse_cgroup(&text));
    let _ = process::parse_last_cpu(&text);
    let _ = (process_watch::parse(bytes), loadavg::parse(bytes));
    android_properties::find(bytes, "sys.boot_completed");
    let mounts = hierarchy::parse_mounts(&text);
    assert!(mounts.iter().all(|mount| mounts.iter().filter(|it| it.hierarchy == mount.hierarchy).count() == 1));
    for kind in [Hierarchy::Cpu, Hierarchy::Cpuset, Hierarchy::Unified] {
        assert!(hierarchy::group_in(&text, kind).is_none_or(hierarchy::is_plain));
    }
}

/// For any recording, the mechanisms do not panic, and no file is created outside of the replay's tree.
pub fn daemon_recording(bytes: &[u8]) {
    const FIRST: &[u8] = br#"{"record":"opened","format":2,"brisk":"","kernel":"","mechanisms":["launch","placement","memory","lookup","boot"]}"#;
    for config in [None, Some(Config::everything_on())] {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).expect("a folder");
        let _ = replay(&*[FIRST, b"\n", bytes].concat(), config.as_ref(), &tree);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}

pub fn thread_files(bytes: &[u8]) {
    let text = text(bytes);
    if let Some(schedstat) = schedstat::parse(bytes) {
        assert_eq!(schedstat.since(schedstat, 7).run_ns, 0);
    }
    let _ = (threads::parse_status(7, &text), thread_switches::parse(&text));
    if let Some(cpus) = affinity::parse_allowed(&text) {
        assert_eq!(hotplug::parse_list(&hotplug::format_list(&cpus)), Some(cpus));
    }
    if let Ok(priority) = text.parse::<priority::Priority>() {
        assert_eq!(priority.to_string().parse(), Ok(priority));
    }
}

pub fn kernel_types(bytes: &[u8]) {
    if let Ok(types) = Types::parse(bytes) {
        let _ = (Layout::of(&types), types.function("f"));
        if let Ok(structure) = types.structure("s") {
            let _ = (types.member(structure, &["m"]), types.member(structure, &["a", "m"]));
        }
    }
    if let Some(tasks) = task::parse(bytes) {
        // An invalid byte becomes three.
        assert!(tasks.into_iter().all(|task| task.command().len() <= 3 * task::COMMAND_BYTES));
    }
}

pub fn counters(bytes: &[u8]) {
    let text = text(bytes);
    if let Some(time) = load::parse(&text) {
        assert!(time.busy_ticks <= time.total_ticks);
        assert_eq!(time.busy_permille_since(time), None);
    }
    cpu_times::parse(bytes, &mut |_, _| ());
    disk_stats::parse(bytes, &mut |_| ());
    let _ = (energy::parse_rails(&text), process_io::parse(&text));
    if let Some(client) = drm_clients::parse(&text) {
        assert!(!client.id.number.is_empty());
    }
    if let Some(pids) = hierarchy::parse_members(&text) {
        assert!(pids.is_sorted_by(|one, other| one < other));
    }
}

pub fn memory_files(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (meminfo::parse(&text), zoneinfo::parse(&text, 4), vm_tunables::parse_lru_gen(&text));
    let _ = psi::totals_us(bytes);
    if let Some(pressure) = psi::parse(&text) {
        assert!((0.0..=100.0).contains(&pressure.some.average_10s_percent));
    }
    let _ = vmstat::parse(&text);
    assert!(process_reclaim::parse_maps(&text).iter().all(|range| range.bytes > 0));
    if let Some(swaps) = swaps::parse(&text) {
        assert!(swaps.is_sorted_by(|one, other| one.priority >= other.priority));
        assert!(swaps.iter().all(|swap| swap.free_kib() <= swap.size_kib));
        let _ = swaps.iter().filter_map(swaps::Swap::zram_name).count();
    }
    let _ = (process_memory::parse_status(&text), process_memory::parse_rollup(&text));
    let _ = (process_memory::parse_statm(&text, 4), process_memory::parse_name(&text));
}

pub fn zram_files(bytes: &[u8]) {
    let text = text(bytes);
    if let Some((chosen, offered)) = zram::parse_algorithms(&text) {
        assert!(offered.contains(&chosen));
    }
    assert!(zram::parse_usage(&text).and_then(|usage| usage.ratio()).is_none_or(|ratio| ratio >= 0.0));
    let _ = (zram::parse_backing("none", &text), zram_writeback::parse_state(&text));
    for devices in [zram_owner::parse_generator(&text), zram_owner::parse_fstab(&text)] {
        assert!(devices.keys().all(|name| name.starts_with("zram")));
    }
    let _ = zram_owner::parse_shell(&text);
}

pub fn journal_log(bytes: &[u8]) {
    let contents = journal::record::parse(bytes);
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert!(contents.leases.len() + contents.malformed_lines <= lines, "every lease has a line of its own");
    assert_eq!(contents.torn, bytes.last().is_some_and(|&byte| byte != b'\n'));
}

pub fn learned(bytes: &[u8]) {
    if let Some(mut learned) = LearnedDurations::parse(&text(bytes)) {
        assert_eq!(LearnedDurations::parse(&learned.to_text()), Some(learned.clone()));
        let _ = learned.limit("app");
        learned.learn("app", std::time::Duration::from_millis(300), false);
        assert!(LearnedDurations::parse(&learned.to_text()).is_some(), "learning keeps the state valid");
    }
}

/// A store of telemetry with arbitrary rows: it can be exported, and rows that are added are in the next export.
pub fn telemetry(bytes: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a temporary folder");
    }
    FOLDER.with(|folder| {
        let root = Root::at(folder.path());
        let store = telemetry_store::folder(&root);
        fs::create_dir_all(&store).expect("a folder below the temporary one");
        let _ = fs::remove_file(store.join("rows.old"));
        fs::write(store.join("rows"), bytes).expect("a file below the temporary folder");
        fs::write(store.join("salt"), "0".repeat(32)).expect("a file below the temporary folder");
        let before = match export(&root, 1) {
            Ok(export) => export.rows,
            Err(TelemetryError::NoStore(_)) if bytes.is_empty() => 0,
            Err(error) => panic!("whatever its rows, it has a salt: {error}"),
        };
        let options = StoreOptions { size_bytes: 1 << 20, names: Vec::new() };
        Store::open(&root, options, 1).expect("damaged rows are skipped");
        let after = export(&root, 1).expect("as before");
        assert!(after.rows >= before.max(1), "a row of kind start was added, and none is lost");
        assert!(summary(&root, 3).expect("as before").rows <= after.rows);
    });
}

/// The files of a small device, in the order in which a `device-tree` input holds them, separated by 0xff.
const TREE: [&str; 14] = [
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/cpufreq/policy0/affected_cpus",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    "sys/devices/system/cpu/cpufreq/policy0/scaling_available_frequencies",
    "sys/devices/system/cpu/cpufreq/ondemand/sampling_rate",
    "sys/devices/system/cpu/cpufreq/ondemand/io_is_busy",
    "sys/devices/system/cpu/cpufreq/ondemand/sampling_rate_min",
    "sys/devices/system/cpu/cpufreq/interactive/above_hispeed_delay",
    "proc/sys/kernel/osrelease",
    "sys/class/powercap/intel-rapl:0/energy_uj",
    "sys/devices/system/cpu/cpufreq/interactive/boostpulse_duration",
    "sys/devices/system/cpu/cpufreq/interactive/hispeed_freq",
];

/// Reads a device before any decision, from a tree of arbitrary contents: the result is a valid plan.
pub fn device_tree(bytes: &[u8]) {
    thread_local! {
        static FOLDER: tempfile::TempDir = tempfile::tempdir().expect("a temporary folder");
    }
    FOLDER.with(|folder| {
        for (name, contents) in TREE.iter().zip(bytes.split(|&byte| byte == 0xff)) {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder below the temporary one");
            fs::write(path, contents).expect("a file below the temporary folder");
        }
        let root = Root::at(folder.path());
        let facts = LaunchDevice::probe(&root);
        let plan = LaunchPlan::of(&facts, &LaunchConfig::default());
        for target in plan.tunables() {
            assert!(target.to_string().starts_with("/sys/devices/system/cpu/"), "{target} is no tunable of a CPU");
        }
        if let Some(meter) = energy::Meter::find(&root) {
            let _ = meter.read(&root);
        }
    });
}

pub fn scenario(bytes: &[u8]) {
    if let Ok(scenario) = Scenario::parse("fuzzed", &text(bytes)) {
        let _ = scenario.architecture();
    }
}

/// Returns of the driver, answers of context managers, and the files of the cache.
pub fn binder_bytes(bytes: &[u8]) {
    let returns = Returns::new(bytes).count();
    assert!(returns <= bytes.len().div_ceil(4), "every return has a number of its own");
    for format in WireFormat::all() {
        let _ = (format.read_service(bytes), format.read_names(bytes));
        // The header is given, because random bytes only match the part behind it.
        let mut request = format.request().data;
        request.extend(bytes);
        for code in [format.check_code(), format.add, format.list] {
            let _ = format.parse_manager_request(code, &request);
        }
    }
    let text = text(bytes);
    if let Some(entries) = cache::parse_entries(&text) {
        assert!(entries.len() <= text.lines().count());
    }
    let _ = cache::parse_counters(&text);
    let _ = text.lines().filter_map(trace_events::parse).filter_map(|event| event.number("code")).count();
}

pub fn traces(bytes: &[u8]) {
    if let Ok(traces) = Traces::parse(&text(bytes)) {
        let is_short = |trace: &&Trace| traces.services < 200 && trace.phases.iter().all(|phase| phase.starts < 100);
        for trace in traces.traces.iter().filter(is_short) {
            let _ = trace.events(&traces, &mut Random::new(1)).len();
        }
    }
}

pub fn experiment(bytes: &[u8]) {
    if let Ok(experiment) = Experiment::parse("fuzzed", &text(bytes)) {
        assert!(experiment.arms[experiment.baseline()].baseline);
        assert!(!experiment.points(true).is_empty());
    }
}

/// An export as it is, and with a right trailer in place of its own: most damaged ones are refused for their checksum.
pub fn fleet_export(bytes: &[u8]) {
    const NOW_S: i64 = 1_795_700_000;
    let _ = Export::parse(bytes, NOW_S);
    let text = text(bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("{\"rows\"")).collect();
    let mut sealed = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    export::seal(&mut sealed, lines.len().saturating_sub(1) as u64);
    let Ok(export) = Export::parse(sealed.as_bytes(), NOW_S) else { return };
    assert!(export.rows.is_sorted_by(|one, other| one.row < other.row));
    assert!(export.ranges.iter().all(|(from, to)| from <= to));
    let known: u64 = export.ranges.iter().map(|(from, to)| to - from + 1).sum();
    assert!((export.rows.len() + export.undated.len() + export.systems.len() - 1) as u64 == known);
    each_row_has_its_table(&export);
}

/// A proof or an explanation of a trace; recordings of boots have targets of their own.
pub fn fleet_document(bytes: &[u8]) {
    let given = Given { device: Some(1), model: "m".to_owned(), build: String::new(), day: Some(20_000) };
    if let Ok(document) = document::parse(bytes, 7, &given, 1_795_700_000) {
        each_row_has_its_table(&document);
    }
}

fn each_row_has_its_table(export: &Export<'_>) {
    for table in Table::ALL {
        let mut rows = Rows::new(table);
        let own = export.rows.iter().filter(|row| Table::of(&row.fact) == table);
        own.clone().for_each(|row| rows.push(export, row));
        assert_eq!(rows.take().num_rows(), own.count());
    }
}

/// A paper's file, and results to compare it with.
pub fn papers(bytes: &[u8]) {
    let text = text(bytes);
    let mut results = Results::default();
    let is_result = results.add_text("fuzzed", &text).is_ok();
    let papers = match Paper::parse("fuzzed", &text) {
        Ok(paper) => vec![paper],
        Err(_) if is_result => built_in::select(&["boot".to_owned()]).expect("a paper that comes with brisk"),
        Err(_) => return,
    };
    for row in Comparison::of(&papers, &results).rows() {
        assert!(row.method.is_some() || row.verdict >= Verdict::NotOnRecord, "no verdict without a figure: {row:?}");
    }
}

/// What a device answers, and what a user names and gives.
pub fn remote(bytes: &[u8]) {
    if let Some((_, folder)) = script::prepared(bytes) {
        assert!(folder.starts_with('/') && folder.contains("/brisk.") && !folder.contains(".."));
        assert_eq!(quote::quoted(&folder), folder);
    }
    if let Some((output, _)) = script::ending(bytes) {
        assert!(bytes.starts_with(output));
    }
    if let Ok(target) = text(bytes).parse::<Target>() {
        assert_eq!(target.to_string().parse(), Ok(target));
    }
    let _ = Kind::of(bytes);
}

/// A shard's header in one line, then its lines: alone, and with a copy of itself.
pub fn shards(bytes: &[u8]) {
    let (header, lines) =
        bytes.split_at(bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |end| end + 1));
    let record = |folder: &str| Record { folder: folder.into(), header: header.to_vec(), lines: lines.to_vec() };
    let alone = merge::join(vec![record("a")], "1");
    let twice = merge::join(vec![record("a"), record("b")], "1");
    assert_eq!(alone.experiments.len() + alone.faults.len(), 1, "a record is joined or refused");
    assert_eq!(alone.missing, twice.missing, "a copy adds nothing");
    for (one, two) in alone.experiments.iter().zip(&twice.experiments) {
        let lines = |joined: &merge::Joined| joined.devices.iter().map(|it| it.lines.clone()).collect::<Vec<_>>();
        assert_eq!(lines(one), lines(two));
    }
}

pub fn report(bytes: &[u8]) {
    let proof = json::parse(&text(bytes));
    if html::render_untrusted(bytes).is_some() {
        let proof = proof.expect("what the page shows is a report");
        let printed = json::render(&proof);
        let again = json::parse(&printed).expect("a rendered report parses");
        // Compared as text, because a figure that is not available is NaN, which equals nothing.
        assert_eq!(json::render(&again), printed);
    }
}
