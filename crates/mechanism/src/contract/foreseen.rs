//! What a dry run shows beyond decisions: what a process of brisk's own, or a mechanism later on, would do.

/// One thing that would be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreseen {
    /// What would be done: one or two words.
    pub action: &'static str,
    /// To what.
    pub subject: String,
    /// Why, and when if not now.
    pub reason: String,
}

impl Foreseen {
    /// `action` would be done to `subject`.
    pub fn new(action: &'static str, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { action, subject: subject.into(), reason: reason.into() }
    }
}
