//! Servers of tests listen on loopback alone.

use std::net::TcpListener;

/// A port of 127.0.0.1 on which nothing listens now.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
