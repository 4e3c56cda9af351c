//! What clients of the control socket hear unasked, after they have asked to watch.

use serde_json::Value;

/// Something that has happened.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// True for the beginning of a launch, which is counted.
    pub is_new_launch: bool,
    /// What a client reads; `None` while no client watches.
    pub text: Option<Value>,
}
