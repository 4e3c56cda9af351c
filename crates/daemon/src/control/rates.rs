//! Rate limits for connections and requests of each process and each user, by the peer's credentials: connecting again does
//! not reset them. Pure.

use std::time::Duration;

use brisk_sys::BootTime;

const WINDOW: Duration = Duration::from_secs(1);
/// All processes of a user together have this many times the limit of one. Root has no limit per user: it may do everything
/// anyway, and its own processes must not lock it out.
const USER_LIMIT_FACTOR: u64 = 4;

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caller {
    /// Its effective user when it connected.
    pub uid: u32,
    /// Its process when it connected.
    pub pid: i32,
}

/// The kinds of events that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitedEvent {
    Connection,
    Request,
}

/// The counts of each caller in its current second.
#[derive(Debug, Default)]
pub struct RateLimiter(Vec<Window>);

#[derive(Debug, Clone, Copy)]
struct Window {
    caller: Caller,
    began: BootTime,
    counts: [u64; 2],
}

impl RateLimiter {
    /// Counts `what` for `caller` at `now`; true when that is within `maximum` per second and process.
    pub fn admit(&mut self, now: BootTime, caller: Caller, what: LimitedEvent, maximum: u64) -> bool {
        self.0.retain(|window| now.since(window.began) < WINDOW);
        let mut may = |caller, maximum| {
            let known = self.0.iter().position(|window| window.caller == caller);
            let index = known.unwrap_or(self.0.len());
            if known.is_none() {
                self.0.push(Window { caller, began: now, counts: [0; 2] });
            }
            let count = &mut self.0[index].counts[what as usize];
            *count += 1;
            *count <= maximum
        };
        let user = Caller { pid: 0, ..caller };
        may(caller, maximum) && (caller.uid == 0 || may(user, maximum.saturating_mul(USER_LIMIT_FACTOR)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Verifies SOCKET-1.
    #[test]
    fn rates_are_limited_for_each_process_and_each_user() {
        let at = BootTime::from_milliseconds;
        let mut rates = RateLimiter::default();
        let mut ask = |now_ms, uid, pid| rates.admit(at(now_ms), Caller { uid, pid }, LimitedEvent::Request, 10);
        let mut times = |count: u32, now_ms, uid, pid| (0..count).filter(|_| ask(now_ms, uid, pid)).count();
        assert_eq!(times(50, 0, 1000, 7), 10);
        assert_eq!(times(50, 999, 1000, 7), 0, "the limit of its second is reached");
        assert_eq!(times(50, 999, 1000, 8), 10, "another process of this user");
        assert_eq!((9..99).map(|pid| times(50, 999, 1000, pid)).sum::<usize>(), 20, "forty for the user");
        assert_eq!(times(50, 999, 1001, 9), 10, "another user");
        assert_eq!(times(50, 1000, 1000, 7), 10, "a second later");
        assert_eq!((1..9).map(|pid| times(50, 1000, 0, pid)).sum::<usize>(), 80, "root is limited per process only");
    }

    // Verifies SOCKET-1.
    #[test]
    fn counts_connections_and_requests_apart_and_forgets_idle_peers() {
        let at = BootTime::from_milliseconds;
        let mut rates = RateLimiter::default();
        let caller = Caller { uid: 1000, pid: 7 };
        assert!(
            rates.admit(at(0), caller, LimitedEvent::Connection, 1)
                && rates.admit(at(0), caller, LimitedEvent::Request, 1)
        );
        assert!(!rates.admit(at(0), caller, LimitedEvent::Connection, 1));
        assert!(rates.admit(at(5000), Caller { uid: 0, pid: 8 }, LimitedEvent::Request, 1));
        assert_eq!(rates.0.len(), 1);
    }
}
