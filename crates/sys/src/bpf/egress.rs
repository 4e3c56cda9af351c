//! The priority of the packets that a control group of version 2 sends, by a BPF program that is attached to the group
//! (`BPF_PROG_TYPE_CGROUP_SKB`). It is held by a link (Linux 5.7): the kernel detaches the program when the last descriptor of the
//! link is closed, so it ends with this process, however that ends.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use super::call::{self, Kind};
use super::instruction::{EXIT, Instruction, LOAD_32, RESULT, SET_NUMBER, STORE_32, instruction};
use crate::cgroup::{hierarchy, id};
use crate::{DeviceError, Operation, Root};

/// The priority of bulk traffic. Queueing disciplines with bands take its lower four bits, 1 (`TC_PRIO_FILLER`), which are the
/// last band; and Wi-Fi takes 256 to 263 as the priority of 802.1D (`cfg80211_classify8021d`), of which 1 is the background.
pub const BULK: u32 = 257;
/// What is reported where no priority is set.
pub const NONE: &str = "none";

/// The program's argument: `struct __sk_buff`, whose field `priority` lies here.
const PACKET: u8 = 1;
const PRIORITY: i16 = 32;
const PRESENT: u8 = 2;
/// Jumps unless a register holds a number.
const JUMP_UNLESS_NUMBER: u8 = 0x55;
/// Lets the packet pass.
const PASS: i32 = 1;

/// A priority that a group has while this is held.
#[derive(Debug)]
pub struct EgressPriority {
    /// Open while the program is attached.
    _link: OwnedFd,
    /// The number of the group.
    group: u64,
    priority: u32,
}

impl EgressPriority {
    /// Gives the packets of the group in `folder` and of the groups below it `priority`. Packets that already have a priority, by
    /// their socket (SO_PRIORITY, IP_TOS) or by net_prio, keep it.
    ///
    /// # Errors
    /// ENOENT where there is no such group, EPERM without CAP_BPF and CAP_NET_ADMIN, and EINVAL or ENOSYS where the kernel lacks
    /// CONFIG_CGROUP_BPF, or where `root` is not the running system.
    pub fn attach(root: &Root, folder: &Path, priority: u32) -> Result<Self, DeviceError> {
        let path = root.path(folder);
        let fault = |error| DeviceError::io(&path, Operation::Write, error);
        let opened = File::open(&path).map_err(fault)?;
        let group = id::of(root, folder).ok_or_else(|| fault(io::ErrorKind::NotFound.into()))?;
        let program = load(priority).map_err(fault)?;
        let link = call::link(&program, &Kind::Egress, opened.as_raw_fd() as u32).map_err(fault)?;
        Ok(Self { _link: link, group, priority })
    }

    /// The priority, if the group in `folder` is still the one that has it, and not another one of the same name.
    pub fn of(&self, root: &Root, folder: &Path) -> Option<u32> {
        (id::of(root, folder) == Some(self.group)).then_some(self.priority)
    }
}

/// Why no group of this device can get a priority, with advice.
pub fn unsupported_reason(root: &Root) -> Option<(String, &'static str)> {
    if !root.is_system() {
        return Some(("this is not the running system".to_owned(), ""));
    }
    if hierarchy::unified(root).is_none() {
        return Some(("control groups of version 2 are not mounted".to_owned(), "Mount them."));
    }
    let error = load(BULK).err()?;
    let advice = match error.raw_os_error() {
        Some(libc::EPERM) => "Give the service CAP_BPF, CAP_NET_ADMIN and the call bpf(2).",
        _ => "Build the kernel with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF.",
    };
    Some((format!("bpf(2) cannot load the program: {error}"), advice))
}

fn load(priority: u32) -> io::Result<OwnedFd> {
    call::load(&assemble(priority), &Kind::Egress).map_err(|(error, log_line)| match log_line.as_str() {
        "" => error,
        _ => io::Error::new(error.kind(), format!("{error} ({log_line})")),
    })
}

/// The program: it sets `priority` where the packet has none.
fn assemble(priority: u32) -> [Instruction; 6] {
    [
        instruction(LOAD_32, PRESENT, PACKET, PRIORITY, 0),
        instruction(JUMP_UNLESS_NUMBER, PRESENT, 0, 2, 0),
        instruction(SET_NUMBER, PRESENT, 0, 0, priority as i32),
        instruction(STORE_32, PACKET, PRESENT, PRIORITY, 0),
        instruction(SET_NUMBER, RESULT, 0, 0, PASS),
        instruction(EXIT, 0, 0, 0, 0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program does with a packet of priority `before`: its priority after that, and the result.
    fn run(program: &[Instruction], before: u32) -> (u32, i32) {
        let (mut packet, mut registers, mut at) = (before, [0i64; 11], 0);
        loop {
            let one = program[at];
            let (target, source) = (usize::from(one.registers & 15), usize::from(one.registers >> 4));
            at += 1;
            match one.code {
                LOAD_32 if (source, one.offset) == (1, 32) => registers[target] = i64::from(packet),
                STORE_32 if (target, one.offset) == (1, 32) => packet = registers[source] as u32,
                JUMP_UNLESS_NUMBER if registers[target] != i64::from(one.value) => at += one.offset as usize,
                JUMP_UNLESS_NUMBER => {}
                SET_NUMBER => registers[target] = i64::from(one.value),
                EXIT => return (packet, registers[0] as i32),
                code => panic!("{code:#x}"),
            }
        }
    }

    // Verifies PLACE-2, PLACE-3.
    #[test]
    fn a_packet_without_a_priority_gets_it_and_all_pass() {
        for (before, after) in [(0, BULK), (1, 1), (6, 6), (BULK, BULK), (7 << 16, 7 << 16)] {
            assert_eq!(run(&assemble(BULK), before), (after, PASS), "{before}");
        }
    }

    #[test]
    fn the_priority_means_the_last_band_and_wifis_background() {
        // `prio2band` of the kernel: the band of each priority.
        const BANDS: [u32; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
        assert_eq!((BANDS[BULK as usize % BANDS.len()], BULK - 256), (2, 1));
    }

    #[test]
    fn a_recorded_tree_has_no_packets() {
        let (_folder, root) = crate::test_trees::root_of(&[("/cg/apps/", "")]);
        assert!(unsupported_reason(&root).is_some());
    }
}
