//! The recording as data: the file that `--output F.json` writes, and the smaller form that the page carries.

use serde::Serialize;
use serde_json::{Value, json};

use super::diagnose::{Diagnosis, Finding, Limit, Opportunity, Phase};
use super::fold::{Content, Row};
use super::model::{Activity, Boot, Kind, OFFLINE, Process, State};
use super::{diagnose, fold, summary};

/// The schema version of both the recording and the diagnosis.
pub const SCHEMA: u32 = 1;

/// The recording and its diagnosis as one JSON object. Times are milliseconds since the kernel started.
pub fn render(boot: &Boot) -> Vec<u8> {
    let diagnosis = diagnose::diagnose(boot);
    let object = Recording {
        schema: SCHEMA,
        brisk: env!("CARGO_PKG_VERSION"),
        recorded_by: boot.format.words(),
        header: boot.header.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect(),
        start_ms: boot.span.start_ms,
        end_ms: boot.span.end_ms,
        cpus: boot.cpu_count(),
        cpu: boot
            .cpu
            .iter()
            .map(|s| json!([s.span.start_ms, s.span.end_ms, share(s.user), share(s.system), share(s.io_wait)]))
            .collect(),
        cores: boot
            .cores
            .iter()
            .map(|core| {
                let known = |percent: &u8| if *percent == OFFLINE { Value::Null } else { Value::from(*percent) };
                json!({
                    "number": core.number,
                    "busy_percent": core.busy.iter().map(known).collect::<Vec<_>>(),
                    "io_wait_percent": core.io_wait,
                    "maximum_khz": core.maximum_khz,
                    "frequency_khz": core.frequency,
                })
            })
            .collect(),
        disks: boot
            .disks
            .iter()
            .map(|disk| {
                let samples = disk.samples.iter();
                let samples =
                    samples.map(|s| json!([s.span.start_ms, s.span.end_ms, share(s.busy), s.read_kib, s.written_kib]));
                json!({"name": disk.name, "samples": samples.collect::<Vec<_>>()})
            })
            .collect(),
        pressures: boot
            .pressures
            .iter()
            .map(|pressure| {
                let samples = pressure.samples.iter();
                let samples = samples.map(|s| json!([s.span.start_ms, s.span.end_ms, share(s.some), share(s.full)]));
                json!({"name": pressure.name, "samples": samples.collect::<Vec<_>>()})
            })
            .collect(),
        processes: boot.processes.iter().map(ProcessReport::of).collect(),
        diagnosis: DiagnosisReport::of(boot, &diagnosis),
    };
    let mut bytes = serde_json::to_vec(&object).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// Three decimals are finer than any sample. Adding 0.0 turns -0.0 into 0.0.
fn share(value: f32) -> f64 {
    (f64::from(value) * 1000.0).round() / 1000.0 + 0.0
}

#[derive(Serialize)]
struct Recording<'a> {
    schema: u32,
    brisk: &'static str,
    recorded_by: &'static str,
    header: serde_json::Map<String, Value>,
    start_ms: u32,
    end_ms: u32,
    cpus: usize,
    /// start, end, user, system, I/O wait
    cpu: Vec<Value>,
    cores: Vec<Value>,
    disks: Vec<Value>,
    /// start, end, some, full
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pressures: Vec<Value>,
    processes: Vec<ProcessReport<'a>>,
    diagnosis: DiagnosisReport<'a>,
}

#[derive(Serialize)]
struct ProcessReport<'a> {
    pid: u32,
    parent: Option<usize>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    kind: &'static str,
    start_ms: u32,
    end_ms: u32,
    /// The largest number that was sampled; absent when unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    threads: Option<u32>,
    cpu_ms: u32,
    disk_wait_ms: u32,
    /// start, end, CPU in thousandths, state
    activity: Vec<(u32, u32, u16, char)>,
}

impl<'a> ProcessReport<'a> {
    fn of(process: &'a Process) -> Self {
        let stretch = |a: &Activity| (a.span.start_ms, a.span.end_ms, a.cpu_permille, a.state.letter());
        Self {
            pid: process.pid,
            parent: process.parent,
            name: &process.name,
            command: process.command.as_deref(),
            kind: match process.kind {
                Kind::Process => "process",
                Kind::KernelThread => "kernel-thread",
                Kind::Initcall => "initcall",
            },
            start_ms: process.span.start_ms,
            end_ms: process.span.end_ms,
            threads: Some(process.threads).filter(|threads| *threads > 0),
            cpu_ms: process.cpu_ms,
            disk_wait_ms: process.disk_wait_ms,
            activity: process.activity.iter().map(stretch).collect(),
        }
    }
}

/// What `brisk boot diagnose --json` prints.
#[derive(Debug, Serialize)]
pub struct DiagnosisReport<'a> {
    schema: u32,
    title: String,
    cpus: usize,
    start_ms: u32,
    end_ms: u32,
    done_ms: u32,
    phases: Vec<PhaseReport>,
    findings: Vec<FindingReport<'a>>,
    left_out: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PhaseReport {
    limit: Limit,
    start_ms: u32,
    end_ms: u32,
    busy_cpus: f64,
    waiting_cpus: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk_busy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    io_stall: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_stall: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel_threads: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_no_process: Option<f64>,
}

#[derive(Debug, Serialize)]
struct FindingReport<'a> {
    opportunity: Opportunity,
    phase: usize,
    start_ms: u32,
    end_ms: u32,
    gain_at_most_ms: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bounds: Vec<Bound>,
    who: Vec<Who<'a>>,
    advice: &'a str,
}

#[derive(Debug, Serialize)]
struct Bound {
    cpus: u32,
    gain_at_most_ms: u32,
}

#[derive(Debug, Serialize)]
struct Who<'a> {
    name: &'a str,
    pid: u32,
    ms: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    share: Option<f64>,
}

impl<'a> DiagnosisReport<'a> {
    /// The report of `boot`.
    pub fn of(boot: &'a Boot, diagnosis: &'a Diagnosis) -> Self {
        Self {
            schema: SCHEMA,
            title: summary::title(boot),
            cpus: boot.cpu_count(),
            start_ms: boot.span.start_ms,
            end_ms: boot.span.end_ms,
            done_ms: diagnosis.done_ms,
            phases: diagnosis.phases.iter().map(PhaseReport::of).collect(),
            findings: diagnosis.findings.iter().map(|finding| FindingReport::of(boot, finding)).collect(),
            left_out: boot.omissions.iter().map(ToString::to_string).collect(),
        }
    }
}

impl PhaseReport {
    fn of(phase: &Phase) -> Self {
        Self {
            limit: phase.limit,
            start_ms: phase.span.start_ms,
            end_ms: phase.span.end_ms,
            busy_cpus: share(phase.busy_cpus),
            waiting_cpus: share(phase.waiting_cpus),
            disk_busy: phase.disk_busy.map(share),
            speed: phase.speed.map(share),
            io_stall: phase.io_stall.map(share),
            memory_stall: phase.memory_stall.map(share),
            kernel_threads: phase.kernel_threads.map(share),
            in_no_process: phase.in_no_process.map(share),
        }
    }
}

impl<'a> FindingReport<'a> {
    fn of(boot: &'a Boot, finding: &'a Finding) -> Self {
        let who = finding.who.iter().map(|part| {
            let process = &boot.processes[part.process];
            Who { name: &process.name, pid: process.pid, ms: part.ms, share: part.share.map(share) }
        });
        let bounds = finding.bounds.iter().map(|&(cpus, gain_at_most_ms)| Bound { cpus, gain_at_most_ms });
        Self {
            opportunity: finding.opportunity,
            phase: finding.phase,
            start_ms: finding.span.start_ms,
            end_ms: finding.span.end_ms,
            gain_at_most_ms: finding.gain_ms,
            bounds: bounds.collect(),
            who: who.collect(),
            advice: &finding.advice,
        }
    }
}

/// A process's row of the page: its activity is a flat list of gap, length, and share and state, in milliseconds.
fn process_data(process: &Process) -> Value {
    let mut stretches: Vec<u32> = Vec::with_capacity(process.activity.len() * 3);
    let mut last_ms = process.span.start_ms.min(process.activity.first().map_or(u32::MAX, |a| a.span.start_ms));
    let begin_ms = last_ms;
    for activity in &process.activity {
        let state = match activity.state {
            State::Running => 0,
            State::Sleeping => 1,
            State::DiskWait => 2,
            State::Stopped => 3,
            State::Zombie => 4,
        };
        // An empty bar means sleeping.
        if activity.state != State::Sleeping || activity.cpu_permille > 0 {
            let gap_ms = activity.span.start_ms.saturating_sub(last_ms);
            stretches.extend([gap_ms, activity.span.length_ms(), u32::from(activity.cpu_permille) * 8 + state]);
            last_ms = activity.span.end_ms;
        }
    }
    json!([
        process.pid,
        process.parent,
        process.name,
        process.kind as u8,
        process.span.start_ms,
        process.span.end_ms,
        process.cpu_ms,
        process.disk_wait_ms,
        process.command,
        begin_ms,
        stretches
    ])
}

/// The data of the page's script. It is compact, because a boot of ten minutes has a hundred thousand activities: each is three
/// numbers, the gap before it, its length, and its CPU in thousandths times 8 plus the state.
pub fn page_data(boot: &Boot, diagnosis: &Diagnosis, most_rows: usize) -> String {
    let permille = |share: f32| (share * 1000.0).round() as u32;
    let row = |row: &Row| match &row.content {
        Content::One(member) => json!([row.depth, 0, [member]]),
        Content::Same(members) => json!([row.depth, 1, members]),
        Content::Rest(members) => json!([row.depth, 2, members]),
    };
    let data = json!({
        "start": boot.span.start_ms,
        "end": boot.span.end_ms,
        "done": diagnosis.done_ms,
        "cpu": boot.cpu.iter().map(|s| {
            json!([s.span.start_ms, s.span.end_ms, permille(s.user), permille(s.system), permille(s.io_wait)])
        }).collect::<Vec<_>>(),
        "cores": boot.cores.iter().map(|core| {
            json!([core.number, core.busy, core.io_wait, core.maximum_khz, core.frequency])
        }).collect::<Vec<_>>(),
        "disks": boot.disks.iter().map(|disk| {
            let samples = disk.samples.iter();
            let samples = samples.map(|s| {
                json!([s.span.start_ms, s.span.end_ms, permille(s.busy), s.read_kib, s.written_kib])
            });
            json!([disk.name, samples.collect::<Vec<_>>()])
        }).collect::<Vec<_>>(),
        "pressures": boot.pressures.iter().map(|pressure| {
            let samples = pressure.samples.iter();
            let samples = samples.map(|s| json!([s.span.start_ms, s.span.end_ms, permille(s.some), permille(s.full)]));
            json!([pressure.name, samples.collect::<Vec<_>>()])
        }).collect::<Vec<_>>(),
        "processes": boot.processes.iter().map(process_data).collect::<Vec<_>>(),
        "rows": fold::rows(boot, most_rows).iter().map(row).collect::<Vec<_>>(),
        "phases": diagnosis.phases.iter().map(|phase| {
            json!([phase.limit.class(), phase.limit.words(), phase.span.start_ms, phase.span.end_ms])
        }).collect::<Vec<_>>(),
    });
    // A name may contain "</script>" or "<!--": the escape breaks both, and a JSON parser decodes it.
    data.to_string().replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Shape;
    use crate::sample;

    fn boot() -> Boot {
        sample::recording(&Shape::SMALL)
    }

    // Verifies CHART-2.
    #[test]
    fn the_file_holds_the_whole_recording() {
        let boot = boot();
        let object: Value = serde_json::from_slice(&render(&boot)).unwrap();
        assert_eq!(object["schema"], 1);
        assert_eq!(object["header"]["system.cpu"], "aarch64");
        for (key, count) in [("cpu", boot.cpu.len()), ("cores", 4), ("disks", 1), ("processes", boot.processes.len())] {
            assert_eq!(object[key].as_array().unwrap().len(), count, "{key}");
        }
        let place = boot.processes.iter().position(|process| process.name == "zygote64").unwrap();
        let zygote = &object["processes"][place];
        assert_eq!(zygote["cpu_ms"], boot.processes[place].cpu_ms);
        assert_eq!(zygote["activity"].as_array().unwrap().len(), boot.processes[place].activity.len());
        assert_eq!(zygote["activity"][0][3], "R");
        assert_eq!(object["diagnosis"]["findings"][0]["opportunity"], "parallel");
        assert_eq!(object["diagnosis"]["findings"][0]["bounds"][1]["cpus"], 4);
    }

    // Verifies CHART-2.
    #[test]
    fn the_pages_data_cannot_end_its_script() {
        let mut boot = boot();
        boot.processes[0].name = "</script><!--".to_owned();
        let data = page_data(&boot, &diagnose::diagnose(&boot), 100);
        assert!(!data.contains('<'));
        let object: Value = serde_json::from_str(&data).unwrap();
        assert_eq!(object["processes"][0][2], "</script><!--");
        let members = |row: &Value| row[2].as_array().unwrap().len();
        let in_rows: usize = object["rows"].as_array().unwrap().iter().map(members).sum();
        assert_eq!(in_rows, boot.processes.len(), "every process is in a row");
    }
}
