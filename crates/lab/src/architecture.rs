//! Differences between processor architectures, as a table: a new architecture is a new row.

use std::io;

/// One processor architecture of guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Architecture {
    /// Debian's name, which scenarios use.
    pub name: &'static str,
    /// `uname -m` and Rust's name.
    pub machine: &'static str,
    /// The ELF header's `e_machine`.
    pub elf_machine: u16,
    pub emulator: &'static str,
    /// The Debian package that the emulator comes in.
    pub emulator_package: &'static str,
    /// The emulator's machine.
    pub board: &'static str,
    /// Its processor, unless a scenario names another one.
    pub processor: &'static str,
    /// What each of its processors gets.
    pub processor_options: &'static str,
    /// The kernel's name for the first serial port, which is the console.
    pub console: &'static str,
    /// The guest's name for the serial port of the results.
    pub results: &'static str,
    /// The device behind [`Self::results`]; `None` where `-serial` makes it.
    pub results_device: Option<&'static str>,
    /// kbuild's name for it (`ARCH=`).
    pub kbuild: &'static str,
    /// The image of a kernel that is built: kbuild's target, and a file in `arch/KBUILD/boot`.
    pub kernel_image: &'static str,
    /// The compiler's prefix when it is not the host's own architecture (`CROSS_COMPILE=`).
    pub cross_prefix: &'static str,
}

const ARCHITECTURES: &[Architecture] = &[
    Architecture {
        name: "amd64",
        machine: "x86_64",
        elf_machine: 62,
        emulator: "qemu-system-x86_64",
        emulator_package: "qemu-system-x86",
        board: "q35",
        processor: "kvm64",
        processor_options: "",
        console: "ttyS0",
        results: "ttyS1",
        results_device: None,
        kbuild: "x86",
        // Not the ELF file: KASAN's code in the PVH entry runs before there is memory for it.
        kernel_image: "bzImage",
        cross_prefix: "x86_64-linux-gnu-",
    },
    Architecture {
        name: "arm64",
        machine: "aarch64",
        elf_machine: 183,
        emulator: "qemu-system-aarch64",
        emulator_package: "qemu-system-arm",
        board: "virt",
        processor: "cortex-a57",
        // Its counter counts nanoseconds: at the usual 62.5 MHz a tick would be eight instructions of the deterministic mode.
        processor_options: ",cntfrq=1000000000",
        console: "ttyAMA0",
        results: "ttyS0",
        results_device: Some("pci-serial"),
        kbuild: "arm64",
        kernel_image: "Image",
        cross_prefix: "aarch64-linux-gnu-",
    },
];

impl Architecture {
    /// Every known architecture.
    pub fn all() -> &'static [Self] {
        ARCHITECTURES
    }

    /// The architecture that Debian calls `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        ARCHITECTURES.iter().find(|architecture| architecture.name == name)
    }

    /// Why the emulator cannot be started, and what to do.
    pub fn start_failure(&self, error: &io::Error) -> String {
        if error.kind() == io::ErrorKind::NotFound {
            format!("{} is missing; install the package {}", self.emulator, self.emulator_package)
        } else {
            format!("{}: {error}", self.emulator)
        }
    }

    /// The variables that make kbuild build for it on this host; none where that is the host's own.
    pub fn kbuild_variables(&self) -> Vec<String> {
        if Self::of_host() == Some(self) {
            return Vec::new();
        }
        vec![format!("ARCH={}", self.kbuild), format!("CROSS_COMPILE={}", self.cross_prefix)]
    }

    /// The architecture that brisk runs on, if it is a known one.
    pub fn of_host() -> Option<&'static Self> {
        ARCHITECTURES.iter().find(|architecture| architecture.machine == std::env::consts::ARCH)
    }
}
