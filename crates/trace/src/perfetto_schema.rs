//! The messages of Perfetto's protos/perfetto/trace/ that are read and written, with those fields that are used. What is not listed
//! is skipped. Strings are bytes: the kernel cuts names at 15 bytes, which may be within a letter.

use prost::bytes::Bytes;
use prost::{Message, Oneof};

/// trace_packet.proto. A file is a sequence of `1: TracePacket`.
#[derive(Clone, PartialEq, Message)]
pub struct TracePacket {
    #[prost(message, optional, tag = "1")]
    pub ftrace_events: Option<FtraceEventBundle>,
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    /// In nanoseconds since boot; events have their own.
    #[prost(uint64, tag = "8")]
    pub timestamp: u64,
    /// The writer of the packet.
    #[prost(uint32, tag = "10")]
    pub sequence: u32,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    /// 1: the writer's interned data begins with this packet; 2: the packet needs it.
    #[prost(uint32, tag = "13")]
    pub sequence_flags: u32,
    #[prost(message, optional, tag = "34")]
    pub ftrace_stats: Option<FtraceStats>,
    #[prost(message, optional, tag = "35")]
    pub trace_stats: Option<TraceStats>,
    /// Packets of this writer are missing before this one, or it is the writer's first.
    #[prost(uint32, tag = "42")]
    pub previous_packet_dropped: u32,
    #[prost(message, optional, tag = "45")]
    pub system_info: Option<SystemInfo>,
    /// Packets, packed by zlib.
    #[prost(bytes = "bytes", tag = "50")]
    pub compressed_packets: Bytes,
    /// Not 0 for a guest that is recorded with its host.
    #[prost(uint32, tag = "98")]
    pub machine: u32,
    #[prost(bytes = "bytes", tag = "133")]
    pub zstd_compressed_packets: Bytes,
}

/// ftrace_event_bundle.proto.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEventBundle {
    #[prost(uint32, tag = "1")]
    pub cpu: u32,
    /// [`FtraceEvent`]s, decoded one by one: a damaged one does not hide the others.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub event: Vec<Bytes>,
    #[prost(bool, tag = "3")]
    pub lost_events: bool,
    #[prost(message, optional, tag = "4")]
    pub compact_sched: Option<CompactSched>,
    /// 0 is CLOCK_BOOTTIME.
    #[prost(int32, tag = "5")]
    pub ftrace_clock: i32,
    #[prost(int64, tag = "6")]
    pub ftrace_timestamp: i64,
    #[prost(int64, tag = "7")]
    pub boot_timestamp: i64,
}

/// The columns of switches and wake-ups. The first time is absolute, each other one counts from the one before it.
#[derive(Clone, PartialEq, Message)]
pub struct CompactSched {
    #[prost(uint64, repeated, tag = "1")]
    pub switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub switch_next_prio: Vec<i32>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub intern_table: Vec<Bytes>,
    #[prost(uint32, repeated, tag = "6")]
    pub switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub waking_target_cpu: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub waking_comm_index: Vec<u32>,
    /// Empty before Perfetto 35.
    #[prost(uint32, repeated, tag = "12")]
    pub waking_common_flags: Vec<u32>,
}

/// ftrace_event.proto.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceEvent {
    #[prost(uint64, tag = "1")]
    pub timestamp: u64,
    #[prost(uint32, tag = "2")]
    pub pid: u32,
    #[prost(uint32, optional, tag = "5")]
    pub common_flags: Option<u32>,
    #[prost(
        oneof = "Event",
        tags = "3, 4, 11, 12, 17, 18, 20, 45, 46, 47, 50, 51, 114, 125, 235, 236, 237, 238, 239, 327, 329, 330, 491"
    )]
    pub event: Option<Event>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum Event {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    SchedSwitch(SchedSwitch),
    #[prost(message, tag = "11")]
    CpuFrequency(CpuFrequency),
    #[prost(message, tag = "12")]
    CpuFrequencyLimits(CpuFrequencyLimits),
    #[prost(message, tag = "17")]
    SchedWakeup(Wakeup),
    #[prost(message, tag = "18")]
    SchedBlockedReason(SchedBlockedReason),
    #[prost(message, tag = "20")]
    SchedWaking(Wakeup),
    #[prost(message, tag = "45")]
    BlockRqIssue(BlockRequest),
    #[prost(message, tag = "46")]
    DirectReclaimBegin(NoFields),
    #[prost(message, tag = "47")]
    DirectReclaimEnd(NoFields),
    #[prost(message, tag = "50")]
    BinderTransaction(BinderTransaction),
    #[prost(message, tag = "51")]
    BinderTransactionReceived(BinderTransactionReceived),
    #[prost(message, tag = "114")]
    SchedWakeupNew(Wakeup),
    #[prost(message, tag = "125")]
    BlockRqComplete(BlockRequest),
    #[prost(message, tag = "235")]
    TaskNewtask(TaskNewtask),
    #[prost(message, tag = "236")]
    TaskRename(TaskRename),
    #[prost(message, tag = "237")]
    SchedProcessExec(SchedProcessExec),
    #[prost(message, tag = "238")]
    SchedProcessExit(NoFields),
    #[prost(message, tag = "239")]
    SchedProcessFork(SchedProcessFork),
    #[prost(message, tag = "327")]
    Generic(Generic),
    #[prost(message, tag = "329")]
    SysEnter(SystemCall),
    #[prost(message, tag = "330")]
    SysExit(SystemCall),
    #[prost(message, tag = "491")]
    SchedMigrateTask(SchedMigrateTask),
}

/// An event whose fields are not used.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct NoFields {}

#[derive(Clone, PartialEq, Message)]
pub struct Print {
    #[prost(bytes = "vec", tag = "2")]
    pub buf: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedSwitch {
    #[prost(bytes = "vec", tag = "1")]
    pub prev_comm: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub prev_pid: i32,
    #[prost(int64, tag = "4")]
    pub prev_state: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub next_comm: Vec<u8>,
    #[prost(int32, tag = "6")]
    pub next_pid: i32,
    #[prost(int32, optional, tag = "7")]
    pub next_prio: Option<i32>,
}

/// sched_waking, sched_wakeup and sched_wakeup_new.
#[derive(Clone, PartialEq, Message)]
pub struct Wakeup {
    #[prost(bytes = "vec", tag = "1")]
    pub comm: Vec<u8>,
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "5")]
    pub target_cpu: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SchedMigrateTask {
    #[prost(int32, tag = "2")]
    pub pid: i32,
    #[prost(int32, tag = "5")]
    pub dest_cpu: i32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct SchedBlockedReason {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    /// A symbol of [`InternedData`] where the recorder resolves them, else an address.
    #[prost(uint64, tag = "2")]
    pub caller: u64,
    #[prost(uint32, tag = "3")]
    pub io_wait: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuFrequency {
    #[prost(uint32, tag = "1")]
    pub state: u32,
    #[prost(uint32, tag = "2")]
    pub cpu_id: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct CpuFrequencyLimits {
    #[prost(uint32, tag = "2")]
    pub max_freq: u32,
    #[prost(uint32, tag = "3")]
    pub cpu_id: u32,
}

/// block_rq_issue and block_rq_complete; `dev` is as makedev(3) makes it.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct BlockRequest {
    #[prost(uint64, tag = "1")]
    pub dev: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BinderTransaction {
    #[prost(int32, tag = "1")]
    pub debug_id: i32,
    #[prost(int32, tag = "3")]
    pub to_proc: i32,
    #[prost(int32, tag = "5")]
    pub reply: i32,
    #[prost(uint32, tag = "7")]
    pub flags: u32,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BinderTransactionReceived {
    #[prost(int32, tag = "1")]
    pub debug_id: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskNewtask {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub comm: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub clone_flags: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TaskRename {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub newcomm: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessExec {
    #[prost(bytes = "vec", tag = "1")]
    pub filename: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchedProcessFork {
    #[prost(bytes = "vec", tag = "3")]
    pub child_comm: Vec<u8>,
    #[prost(int32, tag = "4")]
    pub child_pid: i32,
}

/// An event that Perfetto has no message for.
#[derive(Clone, PartialEq, Message)]
pub struct Generic {
    #[prost(bytes = "vec", tag = "1")]
    pub event_name: Vec<u8>,
}

/// raw_syscalls: sys_enter and sys_exit.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SystemCall {
    #[prost(int64, tag = "1")]
    pub id: i64,
}

/// process_tree.proto.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Process {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    /// The command line; a kernel thread's name.
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub cmdline: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Thread {
    #[prost(int32, tag = "1")]
    pub tid: i32,
    #[prost(bytes = "vec", tag = "2")]
    pub name: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub tgid: i32,
}

/// interned_data.proto: the functions of the kernel.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "26")]
    pub kernel_symbols: Vec<InternedString>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InternedString {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub text: Vec<u8>,
}

/// ftrace_stats.proto.
#[derive(Clone, PartialEq, Message)]
pub struct FtraceStats {
    /// 1 at the beginning of the recording, 2 at each flush.
    #[prost(int32, tag = "1")]
    pub phase: i32,
    #[prost(message, repeated, tag = "2")]
    pub cpu_stats: Vec<FtraceCpuStats>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct FtraceCpuStats {
    #[prost(uint64, tag = "1")]
    pub cpu: u64,
    /// Events that the kernel has overwritten.
    #[prost(uint64, tag = "3")]
    pub overrun: u64,
    /// Events that did not fit.
    #[prost(uint64, tag = "8")]
    pub dropped_events: u64,
}

/// trace_stats.proto: the recorder's own buffers.
#[derive(Clone, PartialEq, Message)]
pub struct TraceStats {
    #[prost(message, repeated, tag = "1")]
    pub buffer_stats: Vec<BufferStats>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct BufferStats {
    /// Pieces that did not fit, where the buffer keeps the oldest.
    #[prost(uint64, tag = "18")]
    pub chunks_discarded: u64,
}

/// system_info.proto.
#[derive(Clone, PartialEq, Message)]
pub struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub utsname: Option<Utsname>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Utsname {
    #[prost(bytes = "vec", tag = "4")]
    pub machine: Vec<u8>,
}
