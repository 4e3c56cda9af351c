//! Configuration numbers whose bounds are checked at parse time.

use std::fmt;

use serde::de::{Error as _, Unexpected, Visitor};
use serde::{Deserialize as _, Deserializer};

/// A whole number from `LOW` to `HIGH`, both included.
///
/// # Errors
/// When the value is out of bounds; the message states them.
pub fn within<'de, D: Deserializer<'de>, const LOW: u64, const HIGH: u64>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_i64(Within::<LOW, HIGH>)
}

struct Within<const LOW: u64, const HIGH: u64>;

impl<const LOW: u64, const HIGH: u64> Visitor<'_> for Within<LOW, HIGH> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from {LOW} to {HIGH}")
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<u64, E> {
        match u64::try_from(number) {
            Ok(number) => self.visit_u64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
        }
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<u64, E> {
        if (LOW..=HIGH).contains(&number) {
            Ok(number)
        } else {
            Err(E::invalid_value(Unexpected::Unsigned(number), &self))
        }
    }
}

/// The absolute path of a file, or nothing.
///
/// # Errors
/// When the text is neither.
pub fn absolute_path_or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text),
        false => Err(D::Error::custom(format!("{text:?} is no absolute path, such as \"/dev/{text}\""))),
    }
}

/// The name of a file in a folder that is known: not a path.
///
/// # Errors
/// When the text is empty or a path.
pub fn file_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    match ["", ".", ".."].contains(&text.as_str()) || text.contains(['/', '\0']) {
        true => Err(D::Error::custom(format!("{text:?} is no name of a file"))),
        false => Ok(text),
    }
}

/// A number from 0 to 100.
///
/// # Errors
/// When the value is out of bounds.
pub fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    match f64::deserialize(deserializer)? {
        number if (0.0..=100.0).contains(&number) => Ok(number),
        _ => Err(D::Error::custom("must be from 0 to 100")),
    }
}
