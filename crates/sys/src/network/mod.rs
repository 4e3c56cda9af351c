//! What the network's queues hold, and what each control group sends into them.

pub mod netlink;
pub mod queues;
pub mod sockets;
