//! The virtual device: a kernel under QEMU, with every file of the guest written by brisk.
//!
//! A [`Scenario`] defines kernel, modules and machine; a [`Job`] adds a command and its files. [`run`] boots it, forwards the
//! guest's output line by line, and returns the command's result. The guest is a device like any other: its first process is
//! the running brisk binary itself, or Debian's systemd after it.

pub mod activity_manager;
pub mod android;
pub mod architecture;
mod assembly;
pub mod binder;
mod built_in;
pub mod cluster;
mod console;
pub mod describe;
mod device_tree;
mod disk;
mod energy_aware;
pub mod error;
pub mod guest;
pub mod job;
mod machine;
pub mod property_area;
mod record;
pub mod scenario;
pub mod self_check;
mod systemd;
mod watch;
mod zygote;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use architecture::Architecture;
use assembly::cache::Cache;
use assembly::initramfs::Initramfs;
use assembly::modules::LoadableModule;
use assembly::packages::{KernelFiles, Packages};
use assembly::{cache, image, libraries, modules, program, programs};
use guest::{GuestJob, GuestModule, JOB_FILE};
use machine::{RunningMachine, StartOptions};
use watch::Limits;

pub use assembly::program::BINARY_VARIABLE;
pub use error::LabError;
pub use job::{Channel, GuestFile, GuestLine, HostClock, Job, RunOutcome};
pub use scenario::{Mode, Scenario, ScenarioError};
pub use self_check::{SelfCheck, SelfCheckPoint};

/// The exit code of `brisk` when the lab itself failed: BSD's EX_UNAVAILABLE.
pub const EXIT_LAB_FAILED: u8 = 69;

/// The most starts of a machine whose kernel hangs before its first process.
const STARTS: u32 = 3;

/// Boots the job's scenario, runs its command as the guest's only program, and reaps the machine.
///
/// `on_line` is called for each line as it arrives, in order, with the host's clock at its arrival. Machines on different
/// threads do not disturb each other; [`Job::core`] gives each a host CPU of its own.
///
/// # Errors
/// [`LabError`] when the kernel cannot be obtained, the machine does not boot, panics, locks up or runs out of time, or when
/// the self-check fails. A command that ends with an error is not one: see [`RunOutcome::status`].
pub fn run(job: &Job, on_line: &mut dyn FnMut(GuestLine)) -> Result<RunOutcome, LabError> {
    let scenario = &job.scenario;
    let cache = Cache::open()?;
    let Parts { packages, kernel, modules, image } = Parts::of(&cache, scenario)?;
    let vcpu_threads = if scenario.machine.mode == Mode::Parallel { scenario.machine.cpus } else { 0 };
    let limits = Limits { boot: job.boot_timeout, whole: job.timeout };
    let mut boot = || {
        let initramfs = pack(job, &packages, &modules)?;
        let start = StartOptions {
            scenario,
            kernel: &image,
            initramfs: &initramfs,
            core: job.core,
            seed: job.seed,
            interactive: job.interactive,
        };
        let (machine, streams) = RunningMachine::start(&start)?;
        drop(initramfs);
        watch::watch(machine, streams, limits, vcpu_threads, on_line)
    };
    let mut ended = boot();
    for _ in 1..STARTS {
        let Err(error @ LabError::BootTimedOut { .. }) = &ended else { break };
        eprintln!("brisk: starting the virtual device again: {error}");
        ended = boot();
    }
    let ended = ended?;
    Ok(RunOutcome { status: ended.status, kernel: kernel.release, wall: ended.wall, self_check: ended.self_check })
}

/// What a guest's machine boots.
struct Parts<'a> {
    packages: Packages<'a>,
    kernel: KernelFiles,
    modules: Vec<LoadableModule>,
    image: PathBuf,
}

impl<'a> Parts<'a> {
    /// Fetches and builds what is not in the cache.
    fn of(cache: &'a Cache, scenario: &Scenario) -> Result<Self, LabError> {
        retry_on_newer_kernel(|| {
            let packages = Packages::of(cache, scenario)?;
            let kernel = modules::with_drivers(cache, &packages, scenario, packages.kernel(scenario)?)?;
            let modules = modules::collect(cache, &packages, scenario, &kernel)?;
            let image = image::bootable(cache, &kernel)?;
            Ok(Self { packages, kernel, modules, image })
        })
    }
}

/// Identifies a prepared guest by its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The release of its kernel, as uname(2) reports it.
    pub release: String,
    /// Digest of its machine, its kernel's package, its modules and its system, and of brisk where it is for another processor
    /// than this host's: another digest is another device.
    pub digest: u64,
}

/// Fetches and builds what [`run`] needs for the guest of `scenario`, so that it finds all of it in the cache.
///
/// # Errors
/// [`LabError`] when a part of it cannot be fetched or built.
pub fn prepare(scenario: &Scenario) -> Result<Prepared, LabError> {
    let cache = Cache::open()?;
    let Parts { packages, kernel, modules, .. } = Parts::of(&cache, scenario)?;
    let mut hasher = DefaultHasher::new();
    format!("{scenario:?}").hash(&mut hasher);
    kernel.revision.hash(&mut hasher);
    for module in &modules {
        (&module.name, &module.object, &module.parameters).hash(&mut hasher);
    }
    if let Some(wanted) = &scenario.guest.systemd {
        for file in systemd::files(&packages, wanted, scenario.architecture())?.1 {
            (file.path, file.contents, file.mode).hash(&mut hasher);
        }
    }
    if Architecture::of_host() != Some(scenario.architecture()) {
        program::read_static(None, scenario.architecture())?.hash(&mut hasher);
    }
    Ok(Prepared { release: kernel.release, digest: hasher.finish() })
}

/// Runs `provide`, and once more if a newer kernel appeared between a kernel and its headers: the package lists have both then.
fn retry_on_newer_kernel<T>(provide: impl Fn() -> Result<T, LabError>) -> Result<T, LabError> {
    match provide() {
        Err(LabError::Headers { .. }) => provide(),
        provided => provided,
    }
}

/// The third-party program `name`, built for the guest of `scenario`: its bytes.
///
/// # Errors
/// [`LabError`] when it is not known, or cannot be built or read.
pub fn program(name: &str, scenario: &Scenario) -> Result<Vec<u8>, LabError> {
    let path = programs::build(&Cache::open()?, name, scenario)?;
    std::fs::read(&path).map_err(cache::fault("read", &path))
}

/// The program `name` of a Debian package for the guest of `scenario`, with its libraries and loader.
///
/// # Errors
/// [`LabError`] when it cannot be obtained.
pub fn packaged_program(name: &str, scenario: &Scenario) -> Result<Vec<GuestFile>, LabError> {
    read_all(Packages::of(&Cache::open()?, scenario)?.program(name, scenario.architecture())?)
}

/// The host's own program `name`, with its libraries and loader: each file.
///
/// # Errors
/// [`LabError::Package`] when the host has none, or a part of it is missing.
pub fn host_program(name: &str) -> Result<Vec<GuestFile>, LabError> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file());
    let program = program.ok_or_else(|| LabError::Package {
        package: name.into(),
        reason: format!("this host has no program {name} to put into the guest; install it"),
    })?;
    let mut files = libraries::needed_by(std::slice::from_ref(&program), &[Path::new("/")], std::env::consts::ARCH)?;
    files.insert(format!("/bin/{name}"), program);
    read_all(files)
}

fn read_all(files: BTreeMap<String, PathBuf>) -> Result<Vec<GuestFile>, LabError> {
    let file = |(path, file): (String, PathBuf)| {
        let contents = std::fs::read(&file).map_err(cache::fault("read", &file))?;
        Ok(GuestFile { path, contents, mode: 0o755 })
    };
    files.into_iter().map(file).collect()
}

/// The files that a guest needs to boot a zygote that preloads `classes` of Android's classes, and its resources.
///
/// # Errors
/// [`LabError`] when it cannot be made or read.
pub fn zygote(classes: u32) -> Result<Vec<GuestFile>, LabError> {
    zygote::files(&Cache::open()?, classes)
}

/// The kernel's own test `name` (`filesystems/binderfs/binderfs_test`) from the sources that the kernel of `scenario` is
/// built from: its bytes.
///
/// # Errors
/// [`LabError`] when the kernel comes from a package, or the test cannot be built or read.
pub fn selftest(name: &str, scenario: &Scenario) -> Result<Vec<u8>, LabError> {
    let cache = Cache::open()?;
    let kernel = Packages::of(&cache, scenario)?.kernel(scenario)?;
    let Some(tree) = &kernel.tree else {
        let reason = "its tests come with a kernel's sources: give a scenario whose kernel is built".into();
        return Err(LabError::Package { package: scenario.kernel.package.clone(), reason });
    };
    let path = programs::build_selftest(&cache, name, tree, &kernel.revision)?;
    std::fs::read(&path).map_err(cache::fault("read", &path))
}

/// The sources of a driver of a packaged kernel.
#[derive(Debug, Clone)]
pub struct DriverSources {
    /// The kernel's release, as uname(2) reports it.
    pub release: String,
    pub headers: PathBuf,
    /// A source tree with the driver's folder.
    pub tree: PathBuf,
}

/// The sources of the driver in `folder` of the kernel of `scenario`.
///
/// # Errors
/// [`LabError`] when it cannot be fetched or unpacked.
pub fn driver_sources(scenario: &Scenario, folder: &Path) -> Result<DriverSources, LabError> {
    let cache = Cache::open()?;
    retry_on_newer_kernel(|| {
        let packages = Packages::of(&cache, scenario)?;
        let release = packages.kernel(scenario)?.release;
        let headers = packages.headers(&scenario.kernel.headers, &release)?;
        let tree = packages.sources(&scenario.kernel.version, folder)?;
        Ok(DriverSources { release, headers, tree })
    })
}

/// Packs brisk, the modules, BusyBox and the job's files into an archive. The guest's memory holds it twice while the kernel
/// unpacks it, so it contains only what the job needs.
fn pack(job: &Job, packages: &Packages<'_>, modules: &[LoadableModule]) -> Result<Vec<u8>, LabError> {
    let binary = program::read_static(job.binary.as_deref(), job.scenario.architecture())?;
    let busybox = if job.busybox || job.interactive { Some(packages.busybox()?) } else { None };
    let systemd = job.scenario.guest.systemd.as_ref();
    let systemd = systemd.map(|wanted| systemd::files(packages, wanted, job.scenario.architecture()));
    let (systemd, systemd_files) = systemd.transpose()?.unzip();
    let module_path = |module: &LoadableModule| format!("/modules/{}.ko", module.name);
    let guest_job = GuestJob {
        command: job.command.clone(),
        interactive: job.interactive,
        console: job.scenario.architecture().console.into(),
        results: job.scenario.architecture().results.into(),
        cgroup: job.scenario.guest.cgroup,
        loopback: job.scenario.guest.loopback,
        self_check: job.scenario.guest.self_check,
        capacities: cluster::of_each_cpu(&job.scenario.machine.clusters, |cluster| cluster.capacity),
        busybox: busybox.is_some(),
        kept: job.scenario.guest.kept.clone(),
        systemd,
        android: job.scenario.guest.android.clone(),
        modules: modules
            .iter()
            .map(|module| GuestModule {
                name: module.name.clone(),
                path: module_path(module),
                parameters: module.parameters.clone(),
            })
            .collect(),
    };
    let write = || -> std::io::Result<Vec<u8>> {
        let mut initramfs = Initramfs::new()?;
        initramfs.file("/init", &binary, 0o755)?;
        // Also at the path of a package.
        for place in ["/bin/brisk", "/usr/bin/brisk"] {
            initramfs.link(place, "/init")?;
        }
        if let Some(busybox) = &busybox {
            initramfs.file("/bin/busybox", &std::fs::read(busybox)?, 0o755)?;
        }
        for module in modules {
            initramfs.file(&module_path(module), &module.object, 0o644)?;
        }
        initramfs.file(JOB_FILE, &serde_json::to_vec(&guest_job)?, 0o644)?;
        for file in systemd_files.iter().flatten().chain(&job.files) {
            initramfs.file(&file.path, &file.contents, file.mode)?;
        }
        initramfs.finish()
    };
    write().map_err(|error| LabError::Machine { operation: "receive its files".into(), reason: error.to_string() })
}
