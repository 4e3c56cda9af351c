//! A shard: a fixed part of an experiment's blocks, which one of several machines measures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The largest number of shards: more than any experiment has blocks.
const MOST: u32 = 100_000;

/// Shard `number` of `count`: the blocks whose number leaves the remainder `number - 1` when divided by `count`. So shard 1/2 is
/// the shards 1/4 and 3/4 together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Shard {
    number: u32,
    count: u32,
}

impl Shard {
    /// The shard that has `block` where there are `count` of them.
    pub fn with(block: u32, count: u32) -> Self {
        Self { number: block % count.max(1) + 1, count: count.max(1) }
    }

    /// How many shards there are.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Whether `block` is a part of this shard.
    pub fn holds(self, block: u32) -> bool {
        block % self.count == self.number - 1
    }

    /// The part of device number `device` of `devices` in the shard, as a device of all shards: its number and their count.
    pub fn device(self, device: u32, devices: u32) -> (u32, u32) {
        (self.number - 1 + self.count * device, self.count * devices)
    }

    /// The name of its folder: `shard-3-of-8`.
    pub fn folder(self) -> String {
        format!("shard-{}-of-{}", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |digits: &str| -> Option<u32> {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let parts = text.split_once('/').and_then(|(part, count)| Some((number(part)?, number(count)?)));
        match parts {
            Some((number, count)) if (1..=count).contains(&number) && count <= MOST => Ok(Self { number, count }),
            _ => Err(format!("{text:?} is not a shard; write 3/8 for the third of eight, at most {MOST}")),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

impl TryFrom<String> for Shard {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Shard> for String {
    fn from(shard: Shard) -> Self {
        shard.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_parsed_and_printed_alike() {
        for text in ["1/1", "3/8", "8/8", "1/100000"] {
            assert_eq!(text.parse::<Shard>().unwrap().to_string(), text);
        }
        for text in
            ["", "3", "/8", "3/", "0/8", "9/8", "0/0", "1/100001", "-1/8", "+1/8", "1/8/2", " 1/8", "1/4294967296"]
        {
            assert!(text.parse::<Shard>().unwrap_err().contains("write 3/8"), "{text}");
        }
    }

    // Verifies PROVE-5.
    #[test]
    fn each_block_is_in_one_shard_of_any_count() {
        for count in 1..12 {
            let shards: Vec<Shard> = (1..=count).map(|number| format!("{number}/{count}").parse().unwrap()).collect();
            for block in 0..50 {
                let holders: Vec<&Shard> = shards.iter().filter(|shard| shard.holds(block)).collect();
                assert_eq!(holders, [&Shard::with(block, count)]);
            }
        }
    }

    #[test]
    fn devices_divide_a_shard_as_finer_shards_would() {
        let shard: Shard = "2/3".parse().unwrap();
        for block in (0..60).filter(|&block| shard.holds(block)) {
            let holders = (0..4).filter(|&device| {
                let (number, count) = shard.device(device, 4);
                block % count == number
            });
            assert_eq!(holders.count(), 1);
        }
    }
}
