//! The network of an experiment with combinations: the loopback interface as a slow link, and the priority of a background's
//! packets by hand.

use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::spec::NetworkQueue;
use brisk_sys::Root;
use brisk_sys::network::netlink::{append_attribute, change, create};

const INTERFACE: &str = "lo";
/// `LOOPBACK_IFINDEX`
const INTERFACE_NUMBER: u32 = 1;
/// The largest packet of Ethernet: with the loopback's own 64 KiB, each packet would keep the link busy for long.
const PACKET_BYTES: u32 = 1500;
/// `RTM_NEWLINK` and `RTM_NEWQDISC`
const SET_LINK: u16 = 16;
const SET_DISCIPLINE: u16 = 36;
/// `IFLA_MTU`
const LARGEST_PACKET: u16 = 4;
/// `TCA_KIND` and `TCA_OPTIONS`
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
/// `TCA_TBF_PARMS` and `TCA_TBF_BURST`
const TBF_PARAMETERS: u16 = 1;
const TBF_BURST: u16 = 6;
/// `TC_LINKLAYER_ETHERNET`
const ETHERNET: u8 = 1;
/// What the link sends at once, and what its queue holds before the discipline is set.
const BURST_BYTES: u32 = 3200;
const LIMIT_BYTES: u32 = 100_000;
/// `TC_H_ROOT`; the link's own handle 1:, and its class 1:1.
const ROOT: u32 = u32::MAX;
const LINK: u32 = 1 << 16;
const LINK_CLASS: u32 = LINK + 1;
/// The handles 10: and 20: of the queues before it: the kernel refuses a discipline of another kind under the same one.
const PFIFO_FAST: u32 = 0x10 << 16;
const FQ_CODEL: u32 = 0x20 << 16;
/// Where net_prio is mounted, and the group there.
const PLACE: &str = "/run/brisk-net-prio";
const GROUP: &str = "background";

/// Makes the loopback interface a link of `rate_kbit` behind `queue`.
///
/// # Errors
/// When the kernel lacks a discipline.
pub fn slow_down(rate_kbit: u32, queue: NetworkQueue) -> anyhow::Result<()> {
    change(SET_LINK, &link()).context("the loopback interface does not accept a smaller packet")?;
    create(SET_DISCIPLINE, &discipline(ROOT, LINK, "tbf", &limit(rate_kbit)))
        .context("the kernel has no discipline tbf")?;
    let handle = match queue {
        NetworkQueue::PfifoFast => PFIFO_FAST,
        NetworkQueue::FqCodel => FQ_CODEL,
    };
    let kind = queue.name();
    create(SET_DISCIPLINE, &discipline(LINK_CLASS, handle, kind, &[]))
        .with_context(|| format!("the kernel has no discipline {kind}"))
}

/// `struct ifinfomsg`, and the size of the largest packet.
fn link() -> Vec<u8> {
    let mut body = vec![0; 16];
    body[4..8].copy_from_slice(&INTERFACE_NUMBER.to_ne_bytes());
    append_attribute(&mut body, LARGEST_PACKET, &PACKET_BYTES.to_ne_bytes());
    body
}

/// `struct tcmsg`, and the discipline `kind` with `options`.
fn discipline(parent: u32, handle: u32, kind: &str, options: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for word in [0, INTERFACE_NUMBER, handle, parent, 0] {
        body.extend(word.to_ne_bytes());
    }
    append_attribute(&mut body, KIND, format!("{kind}\0").as_bytes());
    if !options.is_empty() {
        append_attribute(&mut body, OPTIONS, options);
    }
    body
}

/// The options of `tbf`: `struct tc_tbf_qopt` with two of `struct tc_ratespec`.
fn limit(rate_kbit: u32) -> Vec<u8> {
    let rate = |bytes_per_s: u32| [&[0, ETHERNET, 0, 0, 0, 0, 0, 0][..], &bytes_per_s.to_ne_bytes()].concat();
    let rates = [rate(rate_kbit * 125), vec![0; 12]].concat();
    let parameters = [&rates[..], &LIMIT_BYTES.to_ne_bytes(), &[0; 8]].concat();
    let mut options = Vec::new();
    append_attribute(&mut options, TBF_PARAMETERS, &parameters);
    append_attribute(&mut options, TBF_BURST, &BURST_BYTES.to_ne_bytes());
    options
}

/// A group of the net_prio controller, whose packets have a priority; dropping it removes it.
pub(super) struct NetworkPriority {
    root: Root,
    is_mounted: bool,
}

impl NetworkPriority {
    /// Makes the group, with `priority`.
    ///
    /// # Errors
    /// When the kernel has no net_prio.
    pub(super) fn set(root: &Root, priority: u32) -> anyhow::Result<Self> {
        let place = root.path(PLACE);
        fs::create_dir_all(&place).with_context(|| format!("cannot make {}", place.display()))?;
        let options = CString::new("net_prio")?;
        mount("cgroup", &place, "cgroup", MountFlags::empty(), Some(options.as_c_str()))
            .context("cannot mount net_prio of version 1")?;
        let made = Self { root: root.clone(), is_mounted: true };
        fs::create_dir(made.group()).context("cannot make a group of net_prio")?;
        root.write(made.group_file("net_prio.ifpriomap"), &format!("{INTERFACE} {priority}"))?;
        Ok(made)
    }

    /// Gives the priority to the packets of process `pid`.
    pub(super) fn give_to(&self, pid: u32) -> anyhow::Result<()> {
        Ok(self.root.write(self.group_file("cgroup.procs"), &pid.to_string())?)
    }

    /// Removes the group, whose processes have ended.
    ///
    /// # Errors
    /// When one has not.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.remove()
    }

    fn group(&self) -> PathBuf {
        self.root.path(PLACE).join(GROUP)
    }

    fn group_file(&self, name: &str) -> PathBuf {
        PathBuf::from(PLACE).join(GROUP).join(name)
    }

    fn remove(&mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.is_mounted) {
            return Ok(());
        }
        let removed = fs::remove_dir(self.group()).context("cannot remove the group of net_prio");
        let place = self.root.path(PLACE);
        let unmounted = unmount(&place, UnmountFlags::DETACH).context("cannot unmount net_prio");
        removed.and(unmounted)
    }
}

impl Drop for NetworkPriority {
    fn drop(&mut self) {
        if let Err(error) = self.remove() {
            tracing::error!("{error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::network::netlink::{attribute, attributes};

    // Verifies PROVE-2.
    #[test]
    fn a_discipline_is_described_as_the_kernel_reads_it() {
        let body = discipline(ROOT, LINK, "tbf", &limit(8000));
        assert_eq!(body[..20], [0, 1, 0x0001_0000, u32::MAX, 0].map(u32::to_ne_bytes).concat());
        assert_eq!(attribute(&body[20..], KIND), Some(&b"tbf\0"[..]));
        let options: Vec<_> = attributes(attribute(&body[20..], OPTIONS).unwrap()).collect();
        let [(1, parameters), (6, burst)] = options[..] else { panic!("{options:?}") };
        assert_eq!((parameters.len(), burst), (36, &BURST_BYTES.to_ne_bytes()[..]));
        assert_eq!(parameters[8..12], 1_000_000u32.to_ne_bytes(), "bytes per second");
        let plain = discipline(LINK_CLASS, FQ_CODEL, "fq_codel", &[]);
        assert_eq!(attributes(&plain[20..]).count(), 1);
    }
}
