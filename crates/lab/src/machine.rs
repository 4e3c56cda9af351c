//! QEMU as a child process: its command line, its descriptors, its end.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::cluster;
use super::device_tree;
use super::disk;
use super::error::LabError;
use super::scenario::{Mode, Scenario};
use brisk_sys::process::parent_death;

/// A running machine; dropping it kills and reaps QEMU.
#[derive(Debug)]
pub struct RunningMachine {
    child: Child,
}

/// The read ends of a machine's output.
#[derive(Debug)]
pub struct Streams {
    /// The guest's console; `None` in an interactive job.
    pub console: Option<OwnedFd>,
    /// The results port.
    pub results: OwnedFd,
    /// QEMU's own messages.
    pub errors: OwnedFd,
}

/// How a machine is started.
#[derive(Debug, Clone, Copy)]
pub struct StartOptions<'a> {
    /// The device.
    pub scenario: &'a Scenario,
    /// The kernel image.
    pub kernel: &'a Path,
    /// The cpio archive.
    pub initramfs: &'a [u8],
    /// The host CPU to run on.
    pub core: Option<usize>,
    /// Seeds the random numbers for the guest.
    pub seed: Option<u64>,
    /// Whether this process's terminal becomes the console.
    pub interactive: bool,
}

impl RunningMachine {
    /// Starts QEMU. It is killed when the calling thread ends, for any reason.
    ///
    /// # Errors
    /// [`LabError::Machine`] when it cannot be started.
    pub fn start(start: &StartOptions<'_>) -> Result<(Self, Streams), LabError> {
        let architecture = start.scenario.architecture();
        let fault = |error: io::Error| LabError::Machine {
            operation: "start".into(),
            reason: architecture.start_failure(&error),
        };
        let (results, results_end) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| fault(error.into()))?;
        let initramfs = in_memory(start.initramfs).map_err(fault)?;
        let device_tree = device_tree(start.scenario, start.seed)?;
        let disk = start.scenario.machine.disk_mib.map(disk::formatted).transpose()?;
        let mut command = Command::new(architecture.emulator);
        command.args(arguments(start.scenario, start.kernel, start.seed, &results_end, &initramfs));
        command.args(device_tree.iter().flat_map(|tree| ["-dtb".into(), path_of(tree)]));
        command
            .args(disk.iter().zip(start.scenario.machine.disk_mib).flat_map(|(disk, mib)| disk::arguments(disk, mib)));
        command.stderr(Stdio::piped());
        if !start.interactive {
            command.stdin(Stdio::null()).stdout(Stdio::piped());
        }
        let descriptors = [results_end, initramfs].into_iter().chain(device_tree).chain(disk).collect();
        configure_child(&mut command, descriptors, start.core);
        let mut child = command.spawn().map_err(fault)?;
        // This copy of the results port's write end must be closed, or the read end never reaches its end.
        drop(command);
        let console = child.stdout.take().map(OwnedFd::from);
        let errors = child.stderr.take().expect("stderr is piped above").into();
        Ok((Self { child }, Streams { console, results, errors }))
    }

    /// QEMU's PID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills QEMU, if it still runs.
    pub fn kill(&mut self) {
        // The only failure is that it has ended and was reaped.
        let _ = self.child.kill();
    }

    /// Waits for QEMU's end.
    ///
    /// # Errors
    /// When it cannot be reaped.
    pub fn reap(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

impl Drop for RunningMachine {
    fn drop(&mut self) {
        self.kill();
        let _ = self.reap();
    }
}

/// A file without a name, so that nothing is left behind even if brisk is killed.
fn in_memory(contents: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("initramfs", MemfdFlags::CLOEXEC)?);
    file.write_all(contents)?;
    Ok(file.into())
}

/// The path of an inherited descriptor.
fn path_of(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// The device tree, where QEMU's own would have equal CPUs.
fn device_tree(scenario: &Scenario, seed: Option<u64>) -> Result<Option<OwnedFd>, LabError> {
    let clusters = &scenario.machine.clusters;
    if clusters.is_empty() {
        return Ok(None);
    }
    let mut arguments = board(scenario, seed);
    arguments.extend(scenario.machine.arguments.iter().cloned());
    let tree = device_tree::with_capacities(scenario.architecture(), &arguments, &cluster::dmips_mhz(clusters))?;
    let fault =
        |error: io::Error| LabError::Machine { operation: "receive its device tree".into(), reason: error.to_string() };
    in_memory(&tree).map(Some).map_err(fault)
}

/// Passes the descriptors on, kills the child when this thread ends, and pins it to `core`.
fn configure_child(command: &mut Command, descriptors: Vec<OwnedFd>, core: Option<usize>) {
    parent_death::die_with_parent(command, Signal::KILL);
    let cpus = core.map(|core| {
        let mut cpus = CpuSet::new();
        cpus.set(core);
        cpus
    });
    let prepare = move || {
        for descriptor in &descriptors {
            fcntl_setfd(descriptor, FdFlags::empty())?;
        }
        if let Some(cpus) = &cpus {
            sched_setaffinity(None::<Pid>, cpus)?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec `prepare` makes system calls only; it neither allocates nor takes a lock.
    unsafe {
        command.pre_exec(prepare);
    }
}

/// The arguments for processors, time and memory.
fn board(scenario: &Scenario, seed: Option<u64>) -> Vec<String> {
    let architecture = scenario.architecture();
    let machine = &scenario.machine;
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    // Thread names identify the vCPU threads.
    add(&["-nodefaults", "-no-user-config", "-display", "none", "-name", "brisk,debug-threads=on"]);
    let processor = machine.processor.as_deref().unwrap_or(architecture.processor);
    add(&["-machine", architecture.board, "-cpu", &format!("{processor}{}", architecture.processor_options)]);
    match machine.mode {
        Mode::Deterministic => {
            let shift = machine.icount_shift.unwrap_or(1);
            add(&["-accel", "tcg,thread=single", "-icount", &format!("shift={shift},sleep=off")]);
            // The guest's calendar follows its own time, not the host's.
            add(&["-rtc", "base=2024-01-01,clock=vm"]);
        }
        Mode::Parallel => add(&["-accel", "tcg,thread=multi"]),
        Mode::InTurn => add(&["-accel", "tcg,thread=single"]),
    }
    if let Some(seed) = seed {
        // Without it, the kernel gets other random numbers in each boot, and lays out addresses by them.
        add(&["-seed", &seed.to_string()]);
    }
    add(&["-smp", &machine.cpus.to_string(), "-m", &format!("{}M", machine.memory_mib)]);
    arguments
}

fn arguments(
    scenario: &Scenario,
    kernel: &Path,
    seed: Option<u64>,
    results: &OwnedFd,
    initramfs: &OwnedFd,
) -> Vec<String> {
    let mut arguments = board(scenario, seed);
    let mut add = |words: &[&str]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    if scenario.machine.disk_mib.is_none() {
        add(&["-no-reboot"]);
    }
    add(&["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    add(&["-add-fd", &format!("fd={},set=1", results.as_raw_fd())]);
    add(&["-chardev", "file,id=results,path=/dev/fdset/1,append=on"]);
    match scenario.architecture().results_device {
        None => add(&["-serial", "chardev:results"]),
        Some(device) => add(&["-device", &format!("{device},chardev=results")]),
    }
    add(&["-kernel", &kernel.display().to_string()]);
    add(&["-initrd", &path_of(initramfs)]);
    add(&["-append", &kernel_command_line(scenario)]);
    arguments.extend(scenario.machine.arguments.iter().cloned());
    arguments
}

/// Any oops ends the guest at once: results after it are not valid.
fn kernel_command_line(scenario: &Scenario) -> String {
    let console = scenario.architecture().console;
    let line =
        format!("console={console} rdinit=/init panic=-1 oops=panic loglevel=4 {}", scenario.kernel.command_line);
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_decides_how_time_is_kept() {
        let descriptor = || in_memory(b"").unwrap();
        for (name, wanted, unwanted) in [
            ("debian-6.1", "-accel tcg,thread=single -icount shift=1,sleep=off", "thread=multi"),
            ("debian-6.1-parallel", "-accel tcg,thread=multi -smp 2", "icount"),
        ] {
            let scenario = Scenario::load(name).unwrap();
            let line =
                |seed| arguments(&scenario, Path::new("/boot/vmlinuz"), seed, &descriptor(), &descriptor()).join(" ");
            let (line, seeded) = (line(None), line(Some(7)));
            assert!(line.contains(wanted) && !line.contains(unwanted) && !line.contains("-seed"), "{line}");
            assert!(seeded.contains(" -seed 7 "), "{seeded}");
        }
        let mut scenario = Scenario::load("debian-6.1-parallel").unwrap();
        scenario.machine.mode = Mode::InTurn;
        let line = arguments(&scenario, Path::new("/boot/vmlinuz"), None, &descriptor(), &descriptor()).join(" ");
        assert!(line.contains("-accel tcg,thread=single -smp 2") && !line.contains("icount"), "{line}");
    }

    #[test]
    fn a_scenario_may_name_its_processor() {
        for (name, wanted) in [
            ("debian-6.1", "-machine q35 -cpu kvm64 "),
            ("debian-arm64-6.1", "-machine virt -cpu cortex-a57,cntfrq=1000000000 "),
            ("android-6.12", "-machine virt -cpu cortex-a76,cntfrq=1000000000 "),
        ] {
            let line = board(&Scenario::load(name).unwrap(), None).join(" ");
            assert!(line.contains(wanted), "{name}: {line}");
        }
    }

    #[test]
    fn memory_files_keep_their_contents() {
        let file = in_memory(b"archive").unwrap();
        assert_eq!(std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap(), b"archive");
    }
}
