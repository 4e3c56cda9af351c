//! How many files this process may have open (getrlimit(2)).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are left to the rest of the program.
const SPARE: u64 = 128;

/// Lets this process open as many files as it may, and says how many of them may be kept open.
pub(super) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX).saturating_sub(SPARE)
}
