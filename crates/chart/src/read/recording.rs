//! The files of one recording, each by its parser.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::path::Path;

use super::parsers::cpu_frequencies::Frequencies;
use super::parsers::kernel_log::Initcall;
use super::parsers::proc_stat::CpuLog;
use super::parsers::process_accounting::AccountingRecord;
use super::parsers::process_log::ProcessLog;
use super::parsers::{
    command_lines, cpu_frequencies, kernel_log, pressures, proc_diskstats, proc_ps, proc_stat, process_accounting,
    task_statistics,
};
use super::{Limits, Notes, ReadError, assemble, header, paternity};
use crate::model::{Boot, Disk, Omission, Pressure};

/// What has been read so far. A second file of the same name replaces the first.
pub struct Recording<'a> {
    limits: &'a Limits,
    pub(super) header: Option<Vec<(String, String)>>,
    pub(super) cpu: Option<CpuLog>,
    pub(super) processes: Option<ProcessLog>,
    pub(super) tasks: Option<ProcessLog>,
    pub(super) disks: Option<Vec<Disk>>,
    pub(super) commands: HashMap<u32, String>,
    pub(super) parents: HashMap<u32, u32>,
    pub(super) ended: Vec<AccountingRecord>,
    pub(super) initcalls: Vec<Initcall>,
    pub(super) frequencies: BTreeMap<u32, Frequencies>,
    pub(super) pressures: Vec<Pressure>,
    pub(super) omissions: Vec<Omission>,
}

impl<'a> Recording<'a> {
    /// An empty recording.
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            header: None,
            cpu: None,
            processes: None,
            tasks: None,
            disks: None,
            commands: HashMap::new(),
            parents: HashMap::new(),
            ended: Vec::new(),
            initcalls: Vec::new(),
            frequencies: BTreeMap::new(),
            pressures: Vec::new(),
            omissions: Vec::new(),
        }
    }

    /// Reads the file called `name`; `false` when it is not a file of a recording.
    ///
    /// # Errors
    /// Read errors, and more than the limits allow.
    pub fn take(&mut self, name: &str, input: &mut dyn Read) -> Result<bool, ReadError> {
        let notes = &mut Notes::new(name, &mut self.omissions, self.limits);
        match name {
            "header" => self.header = Some(header::parse(input, notes)?),
            "proc_stat.log" => self.cpu = Some(proc_stat::parse(input, notes)?),
            "proc_ps.log" => self.processes = Some(proc_ps::parse(input, notes)?),
            "taskstats.log" => self.tasks = Some(task_statistics::parse(input, notes)?),
            "proc_diskstats.log" => self.disks = Some(proc_diskstats::parse(input, notes)?),
            "cmdline2.log" => self.commands = command_lines::parse(input, notes)?,
            "paternity.log" => self.parents = paternity::parse(input, notes)?,
            "kernel_pacct" => self.ended = process_accounting::parse(input, notes)?,
            "dmesg" => self.initcalls = kernel_log::parse(input, notes)?,
            "cpufreq.log" => self.frequencies = cpu_frequencies::parse(input, notes)?,
            "pressure.log" => self.pressures = pressures::parse(input, notes)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Assembles the boot; `path` is for the error message.
    ///
    /// # Errors
    /// When it has neither CPU time nor a process.
    pub fn finish(self, path: &Path) -> Result<Boot, ReadError> {
        let no_recording = |what| Err(ReadError::NoRecording { path: path.to_owned(), what });
        if self.cpu.is_none() && self.processes.is_none() && self.tasks.is_none() {
            return no_recording("it holds none of a recording's files");
        }
        let boot = assemble::assemble(self);
        if boot.cpu.is_empty() && boot.processes.is_empty() {
            return no_recording("its logs hold no sample that can be read");
        }
        Ok(boot)
    }
}
