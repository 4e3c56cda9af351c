//! What is fuzzed: every parser of brisk as a function of bytes, with seeds to start from.
//!
//! The same table serves cargo-fuzz (`fuzz_targets/`, nightly) and the short run on stable (`tests/fuzz_short.rs`).
//! A target may refuse any input; it must not panic, and what it accepts must survive its own printed form.

mod seeds;

use std::fs;

use brisk::base::random::Random;
use brisk::chart::read::{self, Limits};
use brisk::chart::{diagnose, html as page, perfetto, svg};
use brisk::config::Config;
use brisk::daemon::control::protocol::{self, Message};
use brisk::daemon::replay::replay;
use brisk::experiment::spec::Experiment;
use brisk::lab::scenario::Scenario;
use brisk::mechanism::launch::{DeviceFacts, LaunchConfig, LearnedDurations, Plan};
use brisk::mechanism::lookup::{Trace, Traces};
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
use brisk::sys::process::schedstat;
use brisk::sys::process::{drm_clients, process_events, process_watch};
use brisk::sys::sched::{affinity, priority, thread_switches, threads};
use brisk::sys::system::{android_properties, trace_events};
use brisk::sys::{Root, process};
use brisk::undo::journal;
use seeds::{
    CPUFREQ, JOURNAL, KERNEL_TYPES, PROC_DISKSTATS, PROC_PS, PROC_STAT, PROCESS_COMM, PROCESS_EXEC, PROOF, TASKSTATS,
};

/// One parser and what to feed it first.
pub struct Target {
    /// Its name: `./dev fuzz NAME`.
    pub name: &'static str,
    /// Feeds the parser; panics when it breaks a promise.
    pub feed: fn(&[u8]),
    /// Valid inputs, small, one for each shape.
    #[allow(dead_code, reason = "cargo-fuzz keeps a corpus of its own")]
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "config",
        feed: config,
        seeds: &[
            b"[launch]\nenabled = true\ntriggers = [\"process-events\"]\nminimum_gain_percent = 1.5\n",
            b"[launch.filter]\nuids = [\"10000-19999\"]\nparents = [\"zygote*\"]\n[launch.kick]\nat_us = [0, 2000, 11000]\n",
            b"[control]\nmaximum_clients = 4 # few\n",
        ],
    },
    Target {
        name: "cpu-lists",
        feed: cpu_lists,
        seeds: &[b"0-3,5,8-11\n", b"0 1 2 3 ", b"7"],
    },
    Target { name: "process-events", feed: process_event_datagram, seeds: &[PROCESS_EXEC, PROCESS_COMM] },
    Target {
        name: "control",
        feed: control,
        seeds: &[
            br#"{"version":1,"request":"status"}"#,
            br#"{"version":1,"request":"launch","application":"browser","pid":7}"#,
            br#"{"version":1,"request":"foreground","pids":[1,2]}"#,
            br#"{"version":1,"ok":true,"result":{"brisk":"0.1.0"}}"#,
            br#"{"version":1,"ok":false,"error":"no"}"#,
        ],
    },
    Target {
        name: "daemon-recording",
        feed: daemon_recording,
        seeds: &[
            br#"{"record":"followed","at":1,"is_new_configuration":true}
{"record":"found","files":{"/proc/swaps":{"text":"Filename"},"/sys/block":{"folder":["zram0"]},"/dev/binder":"nothing"}}
{"record":"recalled","mechanism":"launch","text":""}
"#,
            br#"{"record":"configured","text":"[launch]\nenabled = true\n"}
{"record":"let-go","at":1,"is_new_configuration":false}
{"record":"happened","at":2,"event":{"event":"process","kind":"exec","pid":7,"parent":1,"command":"a"}}
{"record":"happened","at":3,"event":{"event":"launch-announced","process":{"pid":7},"application":"a"}}
{"record":"decided","at":3,"mechanism":"launch","decisions":[{"action":"release","target":{"tunable":"/sys/a"},"reason":"b"}]}
{"record":"became","at":3,"mechanism":"launch","outcomes":[{"target":{"tunable":"/sys/a"},"effect":"written","held":"1"}]}
{"record":"stopped","at":4}
"#,
            br#"{"record":"foreground","pids":[1,7]}
{"record":"happened","at":2,"event":{"event":"threads","look":{"used":[{"tid":7,"wall_ns":9,"run_ns":8,"wait_ns":1,"slices":1}],"born":[{"tid":7,"pid":7,"parent":1,"command":"a"}],"ended":[8]},"facts":[],"online":[0,1]}}
{"record":"happened","at":3,"to":"memory","event":{"event":"facts","facts":"memory-groups","groups":[{"folder":"/cg/a","resident_kib":9,"swap_kib":0,"stalled_us":9,"is_free":true,"lowest_adj":0}]}}
{"record":"happened","at":4,"event":{"event":"deadline"}}
"#,
        ],
    },
    Target {
        name: "process-files",
        feed: process_files,
        seeds: &[
            b"42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 9876 1 1",
            b"Name:\tinit\nUid:\t10001\t10001\t10001\t10001\n",
            b"12:cpuset:/top-app\n0::/user.slice\n",
            b"none /dev/cpuctl cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        ],
    },
    Target {
        name: "thread-files",
        feed: thread_files,
        seeds: &[
            b"5028383 2018345 42\n",
            b"0.20 0.18 0.12 1/80 11206\n",
            b"Name:\tsh\nTgid:\t50\nPPid:\t1\nCpus_allowed_list:\t0-3,5\n",
            b"other 10",
        ],
    },
    Target { name: "kernel-types", feed: kernel_types, seeds: &[KERNEL_TYPES, &[7; 128]] },
    Target {
        name: "counters",
        feed: counters,
        seeds: &[
            b"cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
            b"t=1\nCH0(T=16086645)[S2M_VDD_CPUCL2], 124265856\n",
            b"12\n7\n7\n",
        ],
    },
    Target {
        name: "memory-files",
        feed: memory_files,
        seeds: &[
            b"MemTotal: 353280 kB\nMemFree: 20000 kB\nActive(anon): 3 kB\nSwapTotal: 8 kB\n",
            b"Node 0, zone Normal\n        min      1000\n        low      1250\n        high     1500\n",
            b"some avg10=1.50 avg60=0.02 avg300=0.00 total=44\nfull avg10=0.00 avg60=0.01 avg300=0.00 total=7\n",
            b"Filename Type Size Used Priority\n/dev/zram0 partition 4194300 1024 100\n/a\\040b file 10 2 -2\n",
            b"VmRSS: 16 kB\nRssAnon: 8 kB\nVmSwap: 2 kB\nPss: 7 kB\nSwapPss: 1 kB\n",
            b"1000 300 100 5 0 123 0\n",
            b"0x0007\n",
        ],
    },
    Target {
        name: "zram-files",
        feed: zram_files,
        seeds: &[
            b"lzo [lzo-rle] lz4 zstd\n",
            b"10485760 3000000 4194304 0 4194304 12 0 3 4\n",
            b"[zram0]\nzram-size = min(ram / 2, 4096)\n# x\n[zram1]\nzram-size = 0\n",
            b"ALGO=lz4\nPERCENT=\"50\"\n",
            b"/dev/block/zram0 none swap defaults zramsize=75%,max_comp_streams=8\n",
        ],
    },
    Target { name: "journal", feed: journal_log, seeds: &[JOURNAL] },
    Target {
        name: "learned",
        feed: learned,
        seeds: &[br#"{"version":1,"launches":2,"applications":{"app":{"mean_ms":350.5,"deviation_ms":20.0,"launches":2,"last":2}}}"#],
    },
    Target {
        name: "device-tree",
        feed: device_tree,
        seeds: &[
            b"0-1\xff0 1\xffondemand\xff200000\xff1200000\xff200000 1200000\xff100000\xff0\xff1000\xff80\xff6.1.0\xff5000\xff9\xff1000000",
            b"0\xff0\xffinteractive\xff200000\xff1200000\xff\xff20000\xff1\xff\xff99\xff3.4.0\xff1\xff80000\xff700000",
        ],
    },
    Target {
        name: "scenario",
        feed: scenario,
        seeds: &[
            include_bytes!("../lab/scenarios/debian-6.1.toml"),
            include_bytes!("../lab/scenarios/debian-6.1-parallel.toml"),
        ],
    },
    Target {
        name: "binder",
        feed: binder_bytes,
        seeds: &[
            // BR_NOOP, BR_TRANSACTION_COMPLETE, and a BR_DEAD_BINDER.
            b"\x0c\x72\0\0\x06\x72\0\0\x0f\x72\x08\x80\x01\0\0\0\0\0\0\0",
            // An answer of Android 11: no exception, a handle, its stability.
            b"\0\0\0\0\x85*hs\x7f\x01\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0",
            // One of Android 16: a union that holds a handle and says that the service is not lazy.
            b"\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x85*hs\x7f\x01\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0",
            // A list of one name.
            b"\0\0\0\0\x01\0\0\0\x01\0\0\0a\0\0\0",
            b"7 any 0 12 1 activity\n",
            b"hits 7\nmisses 3\n",
            b"   app-7   [000] .....   4202337521: binder_transaction: transaction=12 dest_node=1 reply=0 code=0x2\n",
        ],
    },
    Target { name: "bootchart-samples", feed: bootchart_samples, seeds: &[PROC_STAT, PROC_DISKSTATS, CPUFREQ, b"100\nio 1000 500\ncpu 0 0\n\n104\nio 21000 4500\n"] },
    Target { name: "bootchart-processes", feed: bootchart_processes, seeds: &[PROC_PS, TASKSTATS] },
    Target {
        name: "bootchart-facts",
        feed: bootchart_facts,
        seeds: &[
            b"version = 0.8\ntitle = x\nsystem.cpu = model name : y (2)\n",
            b"7\n:/bin/sh\n:sh\0-c\0\n\n9\n:/bin/ls\n:\n\n",
            b"2 1\n3 2\n",
            b"[    0.139993] initcall pci_init+0x0/0x6b returned 0 after 40000 usecs\n",
            b"\x02\x03\x01\x04\0\0\0\0\0\0\0\0\0\0\0\0\x09\x02\0\0\x03\x02\0\0\xe0\x1b\xfcA\0\0@A\0\0\0\0\x28\x09\0\0\0\0\x78\0\0\0\0\0uname\0\0\0\0\0\0\0\0\0\0\0",
        ],
    },
    Target { name: "bootchart-archive", feed: bootchart_archive, seeds: &[b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0"] },
    Target { name: "traces", feed: traces, seeds: &[include_bytes!("../crates/mechanism/src/lookup/traces.toml")] },
    Target { name: "experiment", feed: experiment, seeds: &[b"name = \"x\"\n[[arms]]\nname = \"stock\"\nbaseline = true\n"] },
    Target {
        name: "report",
        feed: report,
        seeds: &[br#"{"schema":1,"brisk":"0.1.0","device":{"place":"lab","kernel":"6.1","processor":"x","cpu_count":1,"memory_kib":1,"energy_source":null},"experiments":[]}"#, PROOF],
    },
];

/// Feeds the target called `name`.
#[allow(dead_code, reason = "the short run walks the table instead")]
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of the table");
    (target.feed)(bytes);
}

fn text(bytes: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn config(bytes: &[u8]) {
    if let Ok(config) = Config::parse(&text(bytes)) {
        let printed = toml::to_string(&config).expect("a configuration can be printed");
        assert_eq!(Config::parse(&printed).expect("a printed configuration parses"), config);
    }
}

fn cpu_lists(bytes: &[u8]) {
    let text = text(bytes);
    let _ = hotplug::parse_words(&text);
    if let Some(cpus) = hotplug::parse_list(&text) {
        assert!(cpus.is_sorted_by(|one, other| one < other));
        assert_eq!(hotplug::parse_list(&hotplug::format_list(&cpus)), Some(cpus));
    }
}

fn process_event_datagram(bytes: &[u8]) {
    let mut notices = Vec::new();
    let _ = process_events::parse(bytes, &mut notices);
    assert!(notices.len() <= bytes.len() / 16, "more notices than headers fit");
}

fn control(bytes: &[u8]) {
    if let Ok(request) = protocol::parse(bytes) {
        let line = serde_json::to_vec(&Message { version: protocol::VERSION, request: request.clone() });
        assert_eq!(protocol::parse(&line.expect("a request can be printed")), Ok(request));
    }
    let _ = protocol::parse_answer(&text(bytes));
}

/// Small, so that no input takes long.
const SMALL: Limits =
    Limits { bytes: 1 << 20, samples: 500, processes: 500, activities: 5000, cores: 64, core_samples: 20_000 };

/// Reads `bytes` as each of the files `names`, judges and draws what that gives.
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

fn bootchart_samples(bytes: &[u8]) {
    bootchart(&["proc_stat.log", "proc_diskstats.log", "cpufreq.log", "pressure.log"], bytes);
}

fn bootchart_processes(bytes: &[u8]) {
    bootchart(&["proc_ps.log", "taskstats.log"], bytes);
}

fn bootchart_facts(bytes: &[u8]) {
    bootchart(&["header", "cmdline2.log", "paternity.log", "kernel_pacct", "dmesg"], bytes);
}

fn bootchart_archive(bytes: &[u8]) {
    let _ = read::read_bytes(bytes, &SMALL);
}

fn process_files(bytes: &[u8]) {
    let text = text(bytes);
    let _ = (process::parse_stat(&text), process::parse_real_uid(&text), process::parse_cgroup(&text));
    let _ = (process_watch::parse(bytes), loadavg::parse(bytes));
    android_properties::find(bytes, "sys.boot_completed");
    let mounts = hierarchy::parse_mounts(&text);
    assert!(mounts.iter().all(|mount| mounts.iter().filter(|it| it.hierarchy == mount.hierarchy).count() == 1));
    for kind in [Hierarchy::Cpu, Hierarchy::Cpuset, Hierarchy::Unified] {
        assert!(hierarchy::group_in(&text, kind).is_none_or(hierarchy::is_plain));
    }
}

/// Whatever a recording says: the mechanisms get through it, and nothing is made outside of the replay's tree.
fn daemon_recording(bytes: &[u8]) {
    const FIRST: &[u8] = br#"{"record":"opened","format":1,"brisk":"","kernel":"","mechanisms":["launch","placement","memory","lookup","boot"]}"#;
    for config in [None, Some(Config::everything_on())] {
        let folder = tempfile::tempdir().expect("a folder");
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).expect("a folder");
        let _ = replay(&*[FIRST, b"\n", bytes].concat(), config.as_ref(), &tree);
        assert_eq!(fs::read_dir(folder.path()).expect("the folder").count(), 1);
    }
}

fn thread_files(bytes: &[u8]) {
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

fn kernel_types(bytes: &[u8]) {
    if let Ok(types) = Types::parse(bytes) {
        let _ = (Layout::of(&types), types.function("f"));
        if let Ok(structure) = types.structure("s") {
            let _ = (types.member(structure, &["m"]), types.member(structure, &["a", "m"]));
        }
    }
    if let Some(tasks) = task::parse(bytes) {
        // A byte that is no text becomes three.
        assert!(tasks.into_iter().all(|task| task.command().len() <= 3 * task::COMMAND_BYTES));
    }
}

fn counters(bytes: &[u8]) {
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

fn memory_files(bytes: &[u8]) {
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

fn zram_files(bytes: &[u8]) {
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

fn journal_log(bytes: &[u8]) {
    let contents = journal::record::parse(bytes);
    let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
    assert!(contents.leases.len() + contents.malformed_lines <= lines, "every lease has a line of its own");
    assert_eq!(contents.torn, bytes.last().is_some_and(|&byte| byte != b'\n'));
}

fn learned(bytes: &[u8]) {
    if let Some(mut learned) = LearnedDurations::parse(&text(bytes)) {
        assert_eq!(LearnedDurations::parse(&learned.to_text()), Some(learned.clone()));
        let _ = learned.limit("app");
        learned.learn("app", std::time::Duration::from_millis(300), false);
        assert!(LearnedDurations::parse(&learned.to_text()).is_some(), "learning keeps the state valid");
    }
}

/// The files of a small device, in the order in which a `device-tree` input holds them, apart by 0xff.
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

/// Everything that is read of a device before anything is decided, from a tree of garbage: a plan comes out.
fn device_tree(bytes: &[u8]) {
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
        let facts = DeviceFacts::probe(&root);
        let plan = Plan::of(&facts, &LaunchConfig::default());
        for target in plan.tunables() {
            assert!(target.to_string().starts_with("/sys/devices/system/cpu/"), "{target} is no tunable of a CPU");
        }
        if let Some(meter) = energy::Meter::find(&root) {
            let _ = meter.read(&root);
        }
    });
}

fn scenario(bytes: &[u8]) {
    if let Ok(scenario) = Scenario::parse("fuzzed", &text(bytes)) {
        let _ = scenario.architecture();
    }
}

/// What the driver says, what context managers say, and what the cache says of itself.
fn binder_bytes(bytes: &[u8]) {
    let returns = Returns::new(bytes).count();
    assert!(returns <= bytes.len().div_ceil(4), "every return has a number of its own");
    for format in WireFormat::all() {
        let _ = (format.read_service(bytes), format.read_names(bytes));
        // The part behind the header is the only one that random bytes get right.
        let mut request = format.request().data;
        request.extend(bytes);
        for code in [format.check_code(), format.add, format.list] {
            let _ = format.read_question(code, &request);
        }
    }
    let text = text(bytes);
    if let Some(entries) = cache::parse_entries(&text) {
        assert!(entries.len() <= text.lines().count());
    }
    let _ = cache::parse_counters(&text);
    let _ = text.lines().filter_map(trace_events::parse).filter_map(|event| event.number("code")).count();
}

fn traces(bytes: &[u8]) {
    if let Ok(traces) = Traces::parse(&text(bytes)) {
        let is_short = |trace: &&Trace| traces.services < 200 && trace.phases.iter().all(|phase| phase.starts < 100);
        for trace in traces.traces.iter().filter(is_short) {
            let _ = trace.events(&traces, &mut Random::new(1)).len();
        }
    }
}

fn experiment(bytes: &[u8]) {
    if let Ok(experiment) = Experiment::parse("fuzzed", &text(bytes)) {
        assert!(experiment.arms[experiment.baseline()].baseline);
        assert!(!experiment.points(true).is_empty());
    }
}

fn report(bytes: &[u8]) {
    let proof = json::parse(&text(bytes));
    if html::render_untrusted(bytes).is_some() {
        let proof = proof.expect("what the page shows is a report");
        let printed = json::render(&proof);
        let again = json::parse(&printed).expect("a rendered report parses");
        // Printed, because a figure that cannot be had is NaN, which equals nothing.
        assert_eq!(json::render(&again), printed);
    }
}
