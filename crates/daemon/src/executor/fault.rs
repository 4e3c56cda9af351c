//! Why a decision could not be carried out.

use brisk_mechanism::Effect;
use brisk_sys::DeviceError;
use brisk_undo::journal::JournalError;

/// An error of the journal, or of the device.
pub(super) enum Fault {
    Journal(JournalError),
    Device(DeviceError),
}

impl From<JournalError> for Fault {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<DeviceError> for Fault {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl Fault {
    pub(super) fn effect(&self) -> Effect {
        if self.is_missing() { Effect::Missing(self.text()) } else { Effect::Refused(self.text()) }
    }

    fn text(&self) -> String {
        match self {
            Self::Journal(error) => error.to_string(),
            Self::Device(error) => error.with_advice(),
        }
    }

    fn is_missing(&self) -> bool {
        match self {
            Self::Journal(JournalError::Device { fault }) => fault.is_missing(),
            Self::Journal(_) => false,
            Self::Device(error) => error.is_missing(),
        }
    }
}
