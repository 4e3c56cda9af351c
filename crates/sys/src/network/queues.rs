//! The queueing discipline of each network interface, what it has sent, and what waits in it (rtnetlink(7), `RTM_GETQDISC`).
//!
//! `pfifo_fast` and `prio` have bands: a packet of a lower one waits for all packets of the others. The band is
//! `prio2band[priority & 15]` of the packet's priority (net/sched/sch_generic.c, sch_prio.c), which is 2, the last, for 1.
//! Others, such as `fq_codel`, share the link among flows and ignore the priority; `noqueue` has nothing that could wait.

use std::io;

use rustix::net::netdevice::index_to_name;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::{Deserialize, Serialize};

use super::netlink::{attribute, dump, part};
use crate::Root;

/// `RTM_GETQDISC`
const GET_DISCIPLINE: u16 = 38;
/// `struct tcmsg`
const MESSAGE_BYTES: usize = 20;
/// `TCA_KIND` and `TCA_STATS2`, and in the latter `TCA_STATS_BASIC` and `TCA_STATS_QUEUE`.
const KIND: u16 = 1;
const STATISTICS: u16 = 7;
const BASIC: u16 = 1;
const QUEUE: u16 = 3;
/// Disciplines with bands by priority.
const WITH_BANDS: [&str; 2] = ["pfifo_fast", "prio"];

/// The queue of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceQueue {
    /// The interface: `wlan0`.
    pub interface: String,
    /// The kind of its discipline; of several the one with bands, or the innermost.
    pub discipline: String,
    /// True where a packet's priority chooses its band.
    pub has_bands: bool,
    /// All that the discipline has sent.
    pub sent_bytes: u64,
    /// What waits in it.
    pub waiting_bytes: u64,
}

/// One discipline: an interface may have several, for example one for each of its hardware's queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discipline {
    /// The interface's number.
    pub interface: u32,
    pub kind: String,
    pub sent_bytes: u64,
    pub waiting_bytes: u64,
}

/// The queues of all interfaces, in the order in which the kernel lists them.
///
/// # Errors
/// When the kernel has no rtnetlink or no queueing disciplines.
pub fn read(root: &Root) -> io::Result<Vec<InterfaceQueue>> {
    if !root.is_system() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut disciplines = Vec::new();
    dump(None, GET_DISCIPLINE, &[0; MESSAGE_BYTES], &mut |body| disciplines.extend(parse(body)))?;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // An interface without a name has just been removed.
    Ok(queues(&disciplines, |index| index_to_name(&socket, index).ok()))
}

/// Parses the body of an answer; `None` where it is not as documented.
pub fn parse(body: &[u8]) -> Option<Discipline> {
    let interface = u32::from_ne_bytes(part(body, 4)?);
    let attributes = body.get(MESSAGE_BYTES..)?;
    let kind = attribute(attributes, KIND)?;
    let kind = String::from_utf8_lossy(kind.strip_suffix(&[0]).unwrap_or(kind)).into_owned();
    let statistics = attribute(attributes, STATISTICS)?;
    let sent_bytes = u64::from_ne_bytes(part(attribute(statistics, BASIC)?, 0)?);
    // After the number of packets.
    let waiting_bytes = u32::from_ne_bytes(part(attribute(statistics, QUEUE)?, 4)?);
    Some(Discipline { interface, kind, sent_bytes, waiting_bytes: waiting_bytes.into() })
}

/// One queue for each interface that has a name: the sum of its disciplines with bands, or its last discipline. The kernel lists
/// the outermost first.
fn queues(disciplines: &[Discipline], name: impl Fn(u32) -> Option<String>) -> Vec<InterfaceQueue> {
    let mut of_interfaces: Vec<(u32, InterfaceQueue)> = Vec::new();
    for Discipline { interface, kind, sent_bytes, waiting_bytes } in disciplines {
        let has_bands = WITH_BANDS.contains(&kind.as_str());
        let known = of_interfaces.iter_mut().find(|(known, _)| known == interface).map(|(_, queue)| queue);
        match known {
            Some(queue) if queue.has_bands && has_bands => {
                queue.sent_bytes += sent_bytes;
                queue.waiting_bytes += waiting_bytes;
            }
            Some(queue) if queue.has_bands => {}
            known => {
                let Some(interface_name) = name(*interface) else { continue };
                let (discipline, sent_bytes, waiting_bytes) = (kind.clone(), *sent_bytes, *waiting_bytes);
                let queue =
                    InterfaceQueue { interface: interface_name, discipline, has_bands, sent_bytes, waiting_bytes };
                match known {
                    Some(known) => *known = queue,
                    None => of_interfaces.push((*interface, queue)),
                }
            }
        }
    }
    of_interfaces.into_iter().map(|(_, queue)| queue).collect()
}

#[cfg(test)]
mod tests {
    use super::super::netlink::append_attribute;
    use super::*;

    fn body(interface: u32, kind: &str, sent_bytes: u64, waiting_bytes: u32) -> Vec<u8> {
        let mut statistics = Vec::new();
        append_attribute(&mut statistics, BASIC, &[&sent_bytes.to_ne_bytes()[..], &[9; 8]].concat());
        append_attribute(&mut statistics, QUEUE, &[&[8; 4][..], &waiting_bytes.to_ne_bytes(), &[7; 12]].concat());
        let mut body = vec![0; MESSAGE_BYTES];
        body[4..8].copy_from_slice(&interface.to_ne_bytes());
        append_attribute(&mut body, KIND, format!("{kind}\0").as_bytes());
        append_attribute(&mut body, STATISTICS, &statistics);
        body
    }

    // Verifies PLACE-2.
    #[test]
    fn a_discipline_tells_what_waits_in_it() {
        let found = parse(&body(3, "pfifo_fast", 1 << 40, 1500)).unwrap();
        let expected = Discipline { interface: 3, kind: "pfifo_fast".into(), sent_bytes: 1 << 40, waiting_bytes: 1500 };
        assert_eq!(found, expected);
        for length in 0..body(3, "prio", 1, 1).len() - 12 {
            assert_eq!(parse(&body(3, "prio", 1, 1)[..length]), None, "{length} bytes");
        }
    }

    // Verifies PLACE-2.
    #[test]
    fn the_disciplines_with_bands_count_for_an_interface() {
        let of = |interface, kind: &str, sent_bytes, waiting_bytes| Discipline {
            interface,
            kind: kind.to_owned(),
            sent_bytes,
            waiting_bytes,
        };
        let queue = |interface: &str, discipline: &str, has_bands, sent_bytes, waiting_bytes| InterfaceQueue {
            interface: interface.to_owned(),
            discipline: discipline.to_owned(),
            has_bands,
            sent_bytes,
            waiting_bytes,
        };
        let disciplines = [
            of(2, "mq", 70, 7),
            of(2, "pfifo_fast", 30, 3),
            of(2, "pfifo_fast", 40, 4),
            of(3, "mq", 9, 1),
            of(3, "fq_codel", 8, 2),
            of(1, "tbf", 50, 0),
            of(1, "prio", 49, 20),
            of(8, "prio", 1, 1),
        ];
        let name = |index: u32| (index < 8).then(|| format!("net{index}"));
        let expected = [
            queue("net2", "pfifo_fast", true, 70, 7),
            queue("net3", "fq_codel", false, 8, 2),
            queue("net1", "prio", true, 49, 20),
        ];
        assert_eq!(queues(&disciplines, name), expected);
    }

    #[test]
    fn this_kernel_answers_for_the_loopback_interface() {
        let queues = match read(&Root::system()) {
            Ok(queues) => queues,
            // A sandbox may have no network at all.
            Err(error) => return eprintln!("skipped: {error}"),
        };
        assert!(queues.iter().all(|queue| !queue.interface.is_empty() && !queue.discipline.is_empty()), "{queues:?}");
    }
}
