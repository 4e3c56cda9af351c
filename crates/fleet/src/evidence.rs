//! What files beside exports say, as rows: claims of proofs, phases of recorded boots, parts of explained traces. Each has the hash of
//! its file, by which rows of one file are told from those of another.

/// A claim of an experiment, as a proof judged it. `None` is a figure that is not available.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub file: i64,
    pub experiment: String,
    /// `mechanism.claim`.
    pub claim: String,
    /// The arm that it is about, where it is about one.
    pub arm: Option<String>,
    /// The point of the workload; empty for all of them.
    pub point: String,
    /// Of the figures.
    pub unit: String,
    /// `>= 90`, or `reported`.
    pub required: String,
    pub measured: Option<f64>,
    /// Of the 95 % interval, as `high`.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Of the test that nothing differs from the baseline.
    pub p: Option<f64>,
    /// `shown`, `not-shown` or `inconclusive`.
    pub verdict: &'static str,
    /// `deterministic`, `parallel` or `native`.
    pub timekeeping: &'static str,
    /// `lab` or `here`.
    pub place: String,
    /// True for the quick form.
    pub quick: bool,
}

/// A phase of a recorded boot; times are since the start of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct Phase {
    pub file: i64,
    /// Which recorder wrote the recording.
    pub recorded_by: &'static str,
    /// What limited the phase.
    pub limited_by: &'static str,
    pub start_ms: i64,
    pub end_ms: i64,
    /// On average.
    pub busy_cpus: f64,
    /// Of the busiest disk.
    pub disk_busy_percent: Option<f64>,
    /// The frequency of busy CPUs, of the highest.
    pub speed_percent: Option<f64>,
    /// The time in which every task waited for I/O.
    pub io_stall_percent: Option<f64>,
    /// The same for memory.
    pub memory_stall_percent: Option<f64>,
}

/// A part of an explained window of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub file: i64,
    /// Of the file's windows, counted from 0.
    pub window: i64,
    /// The name of the launch, where the window is one.
    pub launch: Option<String>,
    pub thread: String,
    pub window_ms: f64,
    /// Where the time went: `full-speed`, `frequency`, `storage` and so on.
    pub cause: String,
    /// The thread that ran, the device, the CPU or the function of the kernel.
    pub subject: Option<String>,
    /// The kind of wait in which another thread ran: `binder`, `lock` and so on.
    pub wait: Option<String>,
    /// For what it waited then.
    pub wait_of: Option<String>,
    pub length_ms: f64,
    /// How many pieces of the window it has.
    pub pieces: i64,
}
