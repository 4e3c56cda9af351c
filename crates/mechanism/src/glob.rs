//! Name patterns in the configuration.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A pattern in which `*` stands for any text and `?` for one character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

impl Glob {
    /// The longest accepted pattern: the kernel names that it is matched against are no longer.
    pub const MAXIMUM_BYTES: usize = 4096;

    /// True when all of `text` matches. The worst case takes time proportional to pattern length times text length.
    pub fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut position) = (0, 0);
        let mut star: Option<(usize, usize)> = None;
        while position < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    star = Some((at, position));
                    at += 1;
                }
                Some(&byte) if byte == b'?' || byte == text[position] => {
                    at += 1;
                    position += 1;
                }
                _ => {
                    let Some((star_at, taken)) = star else { return false };
                    star = Some((star_at, taken + 1));
                    at = star_at + 1;
                    position = taken + 1;
                }
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

impl FromStr for Glob {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || text.len() > Self::MAXIMUM_BYTES {
            return Err(format!("a pattern has 1 to {} bytes", Self::MAXIMUM_BYTES));
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_whole_texts() {
        let cases = [
            ("zygote*", "zygote64", true),
            ("zygote*", "zygote", true),
            ("zygote", "zygote64", false),
            ("*", "", true),
            ("?", "", false),
            ("a?c", "abc", true),
            ("*.sh", "run.sh.bak", false),
            ("*a*b*c", "xxaybzzbc", true),
            ("*a*b*c", "xxaybzz", false),
            ("/apps/*/ui", "/apps/one/two/ui", true),
        ];
        for (pattern, text, fits) in cases {
            assert_eq!(pattern.parse::<Glob>().unwrap().matches(text), fits, "{pattern} and {text}");
        }
        assert!("".parse::<Glob>().is_err());
    }

    #[test]
    fn a_glob_of_many_stars_does_not_backtrack_exponentially() {
        let glob: Glob = "*a".repeat(100).parse().unwrap();
        assert!(!glob.matches(&"a".repeat(99)));
        assert!(!glob.matches(&"ab".repeat(5_000)));
    }
}
