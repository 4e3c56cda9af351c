//! Where a row lies in the data set: `TABLE/date=DAY/build=BUILD/model=MODEL/`, which DuckDB and Spark know from Hive.

use std::fmt::Write as _;

use chrono::{DateTime, NaiveDate};

/// A file system's name has at most 255 bytes; this leaves room for the key.
const LONGEST: usize = 200;
/// What a device says that does not know its model or build.
const UNKNOWN: &str = "unknown";

/// `value` as part of a folder's name: any text, safe in every file system, which both engines decode again.
pub fn encode(value: &str) -> String {
    if value.is_empty() {
        return UNKNOWN.to_owned();
    }
    // Words for no value: DuckDB reads the one as NULL, Spark the other. Encoded, they are texts.
    let is_reserved = value.eq_ignore_ascii_case("null") || value == "__HIVE_DEFAULT_PARTITION__";
    let mut encoded = String::with_capacity(value.len());
    for (index, byte) in value.bytes().enumerate() {
        match byte {
            _ if is_reserved && index == 0 => drop(write!(encoded, "%{byte:02X}")),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'.' | b'_' | b'-' => encoded.push(char::from(byte)),
            // Writing to a String cannot fail.
            other => drop(write!(encoded, "%{other:02X}")),
        }
    }
    encoded
}

/// A model's or build's name as the data set uses it. A very long one keeps its beginning and gets a checksum.
pub fn name(value: &str) -> String {
    // A byte becomes three at most.
    if value.len() <= LONGEST / 3 || encode(value).len() <= LONGEST {
        return if value.is_empty() { UNKNOWN } else { value }.to_owned();
    }
    let mut kept = String::new();
    for character in value.chars() {
        if encode(&kept).len() + encode(&character.to_string()).len() > LONGEST - 17 {
            break;
        }
        kept.push(character);
    }
    format!("{kept}-{:016x}", twox_hash::XxHash3_64::oneshot(value.as_bytes()))
}

/// The day in UTC of a moment in seconds after 1970, counted from 1970.
pub fn day(at_s: i64) -> i64 {
    at_s.div_euclid(86_400)
}

/// A day as `2026-11-27`.
pub fn date(day: i64) -> String {
    DateTime::from_timestamp(day.saturating_mul(86_400), 0)
        .map_or_else(|| day.to_string(), |at| at.date_naive().to_string())
}

/// The day of a date like `2026-11-27`, counted from 1970.
pub fn parse_date(date: &str) -> Option<i64> {
    let date: NaiveDate = date.parse().ok()?;
    Some(date.signed_duration_since(DateTime::UNIX_EPOCH.date_naive()).num_days())
}

/// The folder of a partition below the data set.
pub fn folder(table: &str, day: i64, build: &str, model: &str) -> String {
    format!("{table}/date={}/build={}/model={}", date(day), encode(build), encode(model))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_encoded_for_every_file_system() {
        for (value, expected) in [
            ("Pixel 6", "Pixel%206"),
            ("google/oriole:14/AP1A:user", "google%2Foriole%3A14%2FAP1A%3Auser"),
            ("..", ".."),
            ("a=b%c+d", "a%3Db%25c%2Bd"),
            ("\u{e4}\0\n", "%C3%A4%00%0A"),
            ("", "unknown"),
            ("NULL", "%4EULL"),
            ("nullable", "nullable"),
            ("__HIVE_DEFAULT_PARTITION__", "%5F_HIVE_DEFAULT_PARTITION__"),
        ] {
            assert_eq!(encode(value), expected, "{value:?}");
        }
    }

    #[test]
    fn days_are_those_of_date() {
        for (at_s, expected) in [(0, "1970-01-01"), (1_577_836_799, "2019-12-31"), (1_795_219_199, "2026-11-20")] {
            assert_eq!(date(day(at_s)), expected);
            assert_eq!(parse_date(expected), Some(day(at_s)));
        }
        assert_eq!(day(-1), -1);
        assert_eq!(parse_date("2026-02-30"), None);
    }

    proptest! {
        #[test]
        fn any_name_fits_and_distinct_ones_stay_distinct(one in ".{0,300}", other in ".{0,300}") {
            prop_assert!(encode(&name(&one)).len() <= LONGEST);
            prop_assert!(encode(&name(&one)).bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
            prop_assert_eq!(name(&one) == name(&other), one == other || [&one, &other].iter().all(|it| ["", UNKNOWN].contains(&it.as_str())));
        }
    }
}
