//! What a dry run shows beyond decisions: what a brisk child process would do, or a mechanism later.

/// One future action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// The action, in one or two words.
    pub action: &'static str,
    /// The object of the action.
    pub subject: String,
    /// Why, and when if not now.
    pub reason: String,
}

impl Preview {
    /// The daemon would do `action` to `subject`.
    pub fn new(action: &'static str, subject: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { action, subject: subject.into(), reason: reason.into() }
    }
}
