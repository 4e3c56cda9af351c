//! What a cache of look-ups stores answers under.

/// What an answer is stored under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The service's name, by number.
    pub name: u32,
    /// Whose answer it is; `None` when it may be given to every caller.
    pub caller: Option<u32>,
}
