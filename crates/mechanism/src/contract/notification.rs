//! Notifications for the control socket's clients that watch.

use serde_json::Value;

/// One notification.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// True for the start of a launch, which is counted.
    pub is_new_launch: bool,
    /// The notification that a client reads; `None` while no client watches.
    pub text: Option<Value>,
}
