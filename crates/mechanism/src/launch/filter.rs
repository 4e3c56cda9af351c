//! The `[launch.filter]` section: which processes count as launches.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Glob, Process};

/// Which processes count as launches: each non-empty list must have a matching entry. Announced launches bypass the filter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FilterConfig {
    /// Globs of the parent's name (`comm`, at most 15 bytes), for instance `zygote*`.
    pub parents: Vec<Glob>,
    /// Real user ids.
    pub uids: Vec<UidRange>,
    /// Globs of the cgroup path.
    pub cgroups: Vec<Glob>,
    /// Globs of the process's own name.
    pub commands: Vec<Glob>,
    /// Globs of names that are never launches.
    pub excluded_commands: Vec<Glob>,
}

impl FilterConfig {
    /// True when `process` counts as a launch. A fact that could not be read matches no list.
    pub fn passes(&self, process: &Process) -> bool {
        let fits = |globs: &[Glob], text: &Option<String>| {
            globs.is_empty() || text.as_ref().is_some_and(|text| globs.iter().any(|glob| glob.matches(text)))
        };
        let is_excluded = |command: &String| self.excluded_commands.iter().any(|glob| glob.matches(command));
        !process.command.as_ref().is_some_and(is_excluded)
            && (self.uids.is_empty()
                || process.uid.is_some_and(|uid| self.uids.iter().any(|range| range.contains(uid))))
            && fits(&self.parents, &process.parent_command)
            && fits(&self.cgroups, &process.cgroup)
            && fits(&self.commands, &process.command)
    }
}

/// User ids from `first` to `last`, both included: written `10000-19999` or `1000`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UidRange {
    first: u32,
    last: u32,
}

impl UidRange {
    /// True when `uid` lies in the range.
    pub fn contains(self, uid: u32) -> bool {
        (self.first..=self.last).contains(&uid)
    }
}

impl FromStr for UidRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("{text:?} is not a user id or a range such as \"10000-19999\"")),
        }
    }
}

impl fmt::Display for UidRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { first, last } if first == last => write!(f, "{first}"),
            Self { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

impl Serialize for UidRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for UidRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uid_ranges_are_read_and_printed() {
        for (text, printed) in [("1000", Some("1000")), ("10000-19999", Some("10000-19999")), (" 1 - 2 ", Some("1-2"))]
        {
            assert_eq!(text.parse::<UidRange>().ok().map(|range| range.to_string()).as_deref(), printed, "{text}");
        }
        for text in ["", "-", "2-1", "a", "-5", "1-2-3", "4294967296"] {
            assert!(text.parse::<UidRange>().is_err(), "{text}");
        }
        let range: UidRange = "10-20".parse().unwrap();
        assert_eq!([9, 10, 20, 21].map(|uid| range.contains(uid)), [false, true, true, false]);
    }
}
