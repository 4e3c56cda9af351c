//! The fuzz targets: every parser of brisk as a function of bytes, with seeds to start from.
//!
//! The same table serves cargo-fuzz (`fuzz_targets/`, nightly) and the short run on stable (`tests/fuzz_short.rs`).
//! A target may refuse any input; it must not panic, and what it accepts must survive its own printed form.

mod feeds;
mod seeds;

use seeds::{
    CPUFREQ, ELF, JOURNAL, KERNEL_TYPES, NETLINK_QUEUE, NETLINK_SOCKET, PERFETTO, PROC_DISKSTATS, PROC_PS, PROC_STAT,
    PROCESS_COMM, PROCESS_EXEC, PROOF, SHARD, TASKSTATS,
};

/// One parser and its seeds.
pub struct Target {
    /// Its name: `./dev fuzz NAME`.
    pub name: &'static str,
    /// Feeds the parser; panics when an invariant is violated.
    pub feed: fn(&[u8]),
    /// Valid inputs, small, one for each shape.
    #[allow(dead_code, reason = "cargo-fuzz keeps a corpus of its own")]
    pub seeds: &'static [&'static [u8]],
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "config",
        feed: feeds::config,
        seeds: &[
            b"[launch]\nenabled = true\ntriggers = [\"process-events\"]\nminimum_gain_percent = 1.5\n",
            b"[launch.filter]\nuids = [\"10000-19999\"]\nparents = [\"zygote*\"]\n[launch.kick]\nat_us = [0, 2000, 11000]\n",
            b"[control]\nmaximum_clients = 4 # few\n",
        ],
    },
    Target {
        name: "cpu-lists",
        feed: feeds::cpu_lists,
        seeds: &[b"0-3,5,8-11\n", b"0 1 2 3 ", b"7"],
    },
    Target { name: "netlink", feed: feeds::netlink, seeds: &[NETLINK_QUEUE, NETLINK_SOCKET] },
    Target { name: "process-events", feed: feeds::process_event_datagram, seeds: &[PROCESS_EXEC, PROCESS_COMM] },
    Target {
        name: "control",
        feed: feeds::control,
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
        feed: feeds::daemon_recording,
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
        feed: feeds::process_files,
        seeds: &[
            b"42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 3 4 0 0 20 0 1 0 9876 1 1",
            b"Name:\tinit\nUid:\t10001\t10001\t10001\t10001\n",
            b"12:cpuset:/top-app\n0::/user.slice\n",
            b"none /dev/cpuctl cgroup rw,cpu 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
        ],
    },
    Target {
        name: "thread-files",
        feed: feeds::thread_files,
        seeds: &[
            b"5028383 2018345 42\n",
            b"0.20 0.18 0.12 1/80 11206\n",
            b"Name:\tsh\nTgid:\t50\nPPid:\t1\nCpus_allowed_list:\t0-3,5\n",
            b"other 10",
        ],
    },
    Target { name: "kernel-types", feed: feeds::kernel_types, seeds: &[KERNEL_TYPES, &[7; 128]] },
    Target {
        name: "counters",
        feed: feeds::counters,
        seeds: &[
            b"cpu  1 2 3 4 5 6 7 8 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n",
            b"t=1\nCH0(T=16086645)[S2M_VDD_CPUCL2], 124265856\n",
            b"12\n7\n7\n",
        ],
    },
    Target {
        name: "memory-files",
        feed: feeds::memory_files,
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
        feed: feeds::zram_files,
        seeds: &[
            b"lzo [lzo-rle] lz4 zstd\n",
            b"10485760 3000000 4194304 0 4194304 12 0 3 4\n",
            b"[zram0]\nzram-size = min(ram / 2, 4096)\n# x\n[zram1]\nzram-size = 0\n",
            b"ALGO=lz4\nPERCENT=\"50\"\n",
            b"/dev/block/zram0 none swap defaults zramsize=75%,max_comp_streams=8\n",
        ],
    },
    Target { name: "journal", feed: feeds::journal_log, seeds: &[JOURNAL] },
    Target {
        name: "learned",
        feed: feeds::learned,
        seeds: &[br#"{"version":1,"launches":2,"applications":{"app":{"mean_ms":350.5,"deviation_ms":20.0,"launches":2,"last":2}}}"#],
    },
    Target {
        name: "telemetry",
        feed: feeds::telemetry,
        seeds: &[
            b"6ea1e123 {\"row\":1,\"at_s\":1,\"boot\":\"\",\"kind\":\"start\"}\n12345678 {\"row\":2,\"at",
            b"",
        ],
    },
    Target {
        name: "device-tree",
        feed: feeds::device_tree,
        seeds: &[
            b"0-1\xff0 1\xffondemand\xff200000\xff1200000\xff200000 1200000\xff100000\xff0\xff1000\xff80\xff6.1.0\xff5000\xff9\xff1000000",
            b"0\xff0\xffinteractive\xff200000\xff1200000\xff\xff20000\xff1\xff\xff99\xff3.4.0\xff1\xff80000\xff700000",
        ],
    },
    Target {
        name: "scenario",
        feed: feeds::scenario,
        seeds: &[
            include_bytes!("../lab/scenarios/debian-6.1.toml"),
            include_bytes!("../lab/scenarios/debian-6.1-parallel.toml"),
        ],
    },
    Target {
        name: "binder",
        feed: feeds::binder_bytes,
        seeds: &[
            // BR_NOOP, BR_TRANSACTION_COMPLETE, and a BR_DEAD_BINDER.
            b"\x0c\x72\0\0\x06\x72\0\0\x0f\x72\x08\x80\x01\0\0\0\0\0\0\0",
            // An answer of Android 11: no exception, a handle, its stability.
            b"\0\0\0\0\x85*hs\x7f\x01\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0",
            // One of Android 16: a union with a handle, and the flag that the service is not lazy.
            b"\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x24\0\0\0\x85*hs\x7f\x01\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0c\0\0\0\0\0\0\0",
            // A list of one name.
            b"\0\0\0\0\x01\0\0\0\x01\0\0\0a\0\0\0",
            b"7 any 0 12 1 activity\n",
            b"hits 7\nmisses 3\n",
            b"   app-7   [000] .....   4202337521: binder_transaction: transaction=12 dest_node=1 reply=0 code=0x2\n",
        ],
    },
    Target { name: "bootchart-samples", feed: feeds::bootchart_samples, seeds: &[PROC_STAT, PROC_DISKSTATS, CPUFREQ, b"100\nio 1000 500\ncpu 0 0\n\n104\nio 21000 4500\n"] },
    Target { name: "bootchart-processes", feed: feeds::bootchart_processes, seeds: &[PROC_PS, TASKSTATS] },
    Target {
        name: "bootchart-facts",
        feed: feeds::bootchart_facts,
        seeds: &[
            b"version = 0.8\ntitle = x\nsystem.cpu = model name : y (2)\n",
            b"7\n:/bin/sh\n:sh\0-c\0\n\n9\n:/bin/ls\n:\n\n",
            b"2 1\n3 2\n",
            b"[    0.139993] initcall pci_init+0x0/0x6b returned 0 after 40000 usecs\n",
            b"\x02\x03\x01\x04\0\0\0\0\0\0\0\0\0\0\0\0\x09\x02\0\0\x03\x02\0\0\xe0\x1b\xfcA\0\0@A\0\0\0\0\x28\x09\0\0\0\0\x78\0\0\0\0\0uname\0\0\0\0\0\0\0\0\0\0\0",
        ],
    },
    Target { name: "bootchart-archive", feed: feeds::bootchart_archive, seeds: &[b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0"] },
    Target {
        name: "trace-files",
        feed: feeds::trace_files,
        seeds: &[
            include_bytes!("../tests/cli/trace.in/launch.txt"),
            include_bytes!("../tests/fixtures/trace/rtapp-v7.dat"),
            PERFETTO,
            b"sh-7 [001] 1.000000: sched_switch: sh:7 [120] S ==> swapper/1:0 [120]\nCPU:1 [LOST 4 EVENTS]\nsh-8 [001] 1.200000: sched_waking: sh:7 [120] CPU:001\n",
            b"<!DOCTYPE html>\n<script class=\"trace-data\" type=\"application/text\">\n sh-7 [001] .... 1.000000: sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state=D|K ==> next_comm=b next_pid=8 next_prio=1\n sh-8 [001] ..h. 1.100000: tracing_mark_write: S|7|launching: a|1\n</script>\n",
        ],
    },
    Target { name: "traces", feed: feeds::traces, seeds: &[include_bytes!("../crates/mechanism/src/lookup/traces.toml")] },
    Target { name: "experiment", feed: feeds::experiment, seeds: &[b"name = \"x\"\n[[arms]]\nname = \"stock\"\nbaseline = true\n"] },
    Target {
        name: "fleet-export",
        feed: feeds::fleet_export,
        seeds: &[
            include_bytes!("../tests/cli/fleet.in/exports/first.jsonl"),
            include_bytes!("../tests/cli/fleet.in/exports/second.jsonl"),
        ],
    },
    Target {
        name: "fleet-document",
        feed: feeds::fleet_document,
        seeds: &[
            PROOF,
            br#"{"schema":1,"launches":[{"name":"mail","from_ns":1,"to_ns":9}],"windows":[{"thread":"a","from_ns":1,"to_ns":9,"parts":[{"cause":"storage","subject":null,"on_behalf":{"wait":"lock","of":"b"},"ns":8,"times":2}]}]}"#,
        ],
    },
    Target {
        name: "papers",
        feed: feeds::papers,
        seeds: &[include_bytes!("../papers/lookup.toml"), include_bytes!("../docs/evidence/boot-bursts.json")],
    },
    Target { name: "remote", feed: feeds::remote, seeds: &[b"aarch64 /tmp/brisk.aB3dEf\n", b"told\nbrisk-ended 69\n", b"ssh:root@[::1]:22", ELF] },
    Target { name: "shards", feed: feeds::shards, seeds: &[SHARD] },
    Target {
        name: "report",
        feed: feeds::report,
        seeds: &[br#"{"schema":1,"brisk":"0.1.0","device":{"place":"lab","kernel":"6.1","processor":"x","cpu_count":1,"memory_kib":1,"energy_source":null},"experiments":[]}"#, PROOF],
    },
];

/// Feeds the target called `name`.
#[allow(dead_code, reason = "the short run walks the table instead")]
pub fn feed(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a target of the table");
    (target.feed)(bytes);
}
