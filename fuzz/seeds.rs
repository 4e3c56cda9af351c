//! Valid inputs that are too long for the table of targets.

/// A netlink datagram of the process connector (linux/cn_proc.h), little-endian: process 7 executes another program.
pub const PROCESS_EXEC: &[u8] = &[
    76, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // netlink header
    1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, // connector header
    2, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, // kind, CPU, timestamp
    7, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// The same: process 7 sets its name to "app".
pub const PROCESS_COMM: &[u8] = &[
    76, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // netlink header
    1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, // connector header
    0, 2, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, // kind, CPU, timestamp
    7, 0, 0, 0, 7, 0, 0, 0, b'a', b'p', b'p', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// A trace of Perfetto: the machine, processes, a bundle of events, and one in the compact form after a loss.
pub const PERFETTO: &[u8] = b"\
\x0a\x10\xea\x02\x0b\x0a\x09\"\x07aarch64P\x01\
\x0a\x15\x12\x11\x0a\x06\x08\x07\x1a\x02sh\x12\x07\x08\x08\x12\x01b\x18\x07P\x02\
\x0a\xb9\x01\x0a\x9e\x01\x08\x00\x12\x0f\x08\xe8\x07\x10\x00(\x01Z\x06\x08\xc0\xcf$\x10\x00\x12\x1c\x08\xcc\
\x08\x10\x00(\x01\"\x13\x0a\x07swapper\x10\x00 \x00*\x02sh0\x07\x12\x0c\x08\xb0\x09\x10\x07(\x01\xca\x14\x02\
\x08b\x12\x1d\x08\x94\x0a\x10\x07(\x01\x1a\x14\x12\x12S|7|launching: a|1\x12\x0e\x08\xf8\x0a\x10\x07(\x01\x92\
\x03\x04\x08\x05\x18\x09\x12\x1c\x08\xdc\x0b\x10\x07(\x01\"\x13\x0a\x02sh\x10\x07 \x02*\x07swapper0\x00\x12\
\x10\x08\xa4\x0d\x10\x00(\x01\x92\x01\x06\x08\x07\x10\x01\x18\x01P\x03b\x14\xd2\x01\x11\x08\x01\x12\x0dfilemap\
_fault\
\x0a;\x0a4\x08\x01\x18\x01\".\x0a\x04\x9a\x08\xd8\x04\x12\x02\x00\x01\x1a\x02\x08\x00*\x01b*\x07swapper2\x02\
\x00\x01:\x02\xc0\x0cB\x01\x07J\x01\x00Z\x01\x00b\x01\x09P\x03\xd0\x02\x01\
";

/// A lease, written and observed.
pub const JOURNAL: &[u8] = br#"{"record":"open","format":1,"boot_id":"b","pid":7}
{"record":"intent","lease":{"target":{"tunable":"/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate"},"original":"100000","value":"50000","since":1,"until":2,"reason":"launch"}}
{"record":"observed","target":{"tunable":"/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate"},"value":"50000"}
"#;

/// A proof with one arm and one claim, so that every format of the report has something to draw.
pub const PROOF: &[u8] = br#"{"schema":1,"brisk":"0.1.0","device":{"place":"lab","kernel":"6.1","processor":"x","cpu_count":1,
"memory_kib":1,"energy_source":"model"},"experiments":[{"name":"a","title":"A","description":"d","mechanism":"launch",
"mode":"deterministic","quick":true,"seed":1,"notes":["n"],"arms":[{"name":"stock","point":"work 50 ms","metric":"launch",
"unit":"ms","samples":[1,2.5,null],"median":2.5,"ci":[1,null],"standard_deviation":0.5,"rejected":1,"baseline":true,
"change":null}],"claims":[{"id":"launch.a","text":"t","arm":"stock","point":"","unit":"%","required":">= 90","measured":-1e9,
"ci":[null,2],"p":0.5,"paper":"-10.6 %","verdict":"not-shown"}]}]}"#;

pub const PROC_STAT: &[u8] = b"10
cpu  10 0 10 80 0 0 0 0 0 0
cpu0 5 0 5 40 0 0 0 0 0 0
cpu1 5 0 5 40 0 0 0 0 0 0
btime 77

30
cpu  30 0 16 90 4 0 0 0 0 0
cpu0 25 0 5 40 0 0 0 0 0 0
cpu1 5 0 11 50 4 0 0 0 0 0
btime 77

";

pub const PROC_DISKSTATS: &[u8] = b"10
 179 0 mmcblk0 10 0 800 50 0 0 0 0 0 50 50
 179 1 mmcblk0p1 10 0 80 5 0 0 0 0 0 5 5

30
 179 0 mmcblk0 90 0 9800 150 0 0 0 0 0 150 50

";

pub const CPUFREQ: &[u8] = b"10
cpu0 200000 1200000

30
cpu0 1200000 1200000

";

pub const PROC_PS: &[u8] = b"10
1 (init) S 0 0 0 0 -1 64 0 0 0 0 5 0 0 0 20 0 1 0 3 4096 5
2 (kthreadd) S 0 0 0 0 -1 64 0 0 0 0 0 0 0 0 20 0 1 0 3 0 0

30
1 (init) R 0 0 0 0 -1 64 0 0 0 0 9 0 0 0 20 0 1 0 3 4096 5
7 (sh) (x) D 1 0 0 0 -1 64 0 0 0 0 1 0 0 0 20 0 1 0 22 4096 5

";

pub const TASKSTATS: &[u8] = b"10
1 0 init 5000000 0 0

30
1 0 init 55000000 0 0
30 1 a b 20000000 7 0

";

/// Types of a kernel: an integer, and structures that contain it, one without a name.
pub const KERNEL_TYPES: &[u8] = &[
    159, 235, 1, 0, 24, 0, 0, 0, 0, 0, 0, 0, 88, 0, 0, 0, 88, 0, 0, 0, 9, 0, 0, 0, // header
    0, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 32, 0, 0, 0, // number 1: a number
    0, 0, 0, 0, 1, 0, 0, 4, 4, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, // number 2
    1, 0, 0, 0, 2, 0, 0, 4, 8, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 32, 0, 0,
    0, // number 3: s
    7, 0, 0, 0, 1, 0, 0, 12, 1, 0, 0, 0, // number 4: f
    0, 115, 0, 109, 0, 97, 0, 102, 0, // names
];

/// A shard: its header in one line, and the lines of two of its four replicates.
pub const SHARD: &[u8] = concat!(
    r#"{"brisk":"1","program":"p","experiment":"name = 'x'\ntitle = ''\ndescription = ''\nmechanism = 'launch'\n"#,
    r#"mode = 'native'\nreplicates = { quick = 2, full = 2 }\narm = [{ name = 'a', title = '', baseline = true }"#,
    r#", { name = 'b', title = '' }]\n[workload]\nprogram = 'load'\nwork_ms = [5]\nsettle_ms = [1, 2]\nwindow_be"#,
    r#"yond_work_ms = 9\n","quick":true,"seed":1,"started":"","devices":"6.1","shard":"1/1"}"#,
    "\n",
    r#"{"device":{"place":"here","kernel":"6.1","processor":"x","cpu_count":1,"memory_kib":1,"energy_source":null}}"#,
    "\n",
    r#"{"replicate":0,"arm":"a","point":"work 5 ms","metrics":{"launch_ms":5.5},"rejected":null}"#,
    "\n",
    r#"{"replicate":1,"arm":"b","point":"work 5 ms","metrics":{"launch_ms":4.25},"rejected":"busy"}"#,
    "\n",
)
.as_bytes();

/// A static program for aarch64: its header, and one segment.
pub const ELF: &[u8] = &[
    0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 183, 0, 1, 0, 0, 0, // what it is for
    0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 0,
    0, 0, 0, // where its segments are
    1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the segment
];

/// A dump of queueing disciplines: prio on interface 1, with 4500 bytes waiting.
pub const NETLINK_QUEUE: &[u8] = &[
    96, 0, 0, 0, 36, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 255, 255, 255, 255, 2, 0, 0,
    0, 9, 0, 1, 0, 112, 114, 105, 111, 0, 0, 0, 0, 48, 0, 7, 0, 20, 0, 1, 0, 80, 195, 0, 0, 0, 0, 0, 0, 40, 0, 0, 0, 0,
    0, 0, 0, 24, 0, 3, 0, 3, 0, 0, 0, 148, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 3, 0, 2, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

/// An object of a dump of sockets: number 77 in group 4242 has sent 12345 bytes.
pub const NETLINK_SOCKET: &[u8] = &[
    64, 1, 0, 0, 20, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 220, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 57, 48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 12, 0, 21, 0, 146, 16, 0, 0, 0, 0, 0, 0,
];
