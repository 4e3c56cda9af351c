//! Repeatable randomness for order, phases and resampling: xoshiro256** seeded by SplitMix64 (Blackman and Vigna,
//! "Scrambled linear pseudorandom number generators", 2021). Not for secrets.

/// A generator whose whole sequence follows from its seed, on every machine and in every version.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// The generator of one stream of `seed`: streams of different numbers are independent.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut counter = seed;
        let base = split_mix(&mut counter);
        let mut counter = stream ^ 0x6a09_e667_f3bc_c909;
        Self::new(base ^ split_mix(&mut counter))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= t;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number below `bound`, which must not be zero. Its bias is below bound / 2^64.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Puts `items` in random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *counter;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequences_are_the_published_ones() {
        // SplitMix64 of 1234567 and xoshiro256** of the state 1, 2, 3, 4: the reference implementations' output.
        let mut counter = 1_234_567;
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| split_mix(&mut counter)), first);
        let mut random = Random { state: [1, 2, 3, 4] };
        assert_eq!([(); 4].map(|()| random.bits()), [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn a_shuffle_keeps_all_items_and_favours_no_place() {
        let mut random = Random::new(7);
        let mut seen = [[0u32; 4]; 4];
        for _ in 0..4000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[place][item] += 1;
            }
            items.sort_unstable();
            assert_eq!(items, [0, 1, 2, 3]);
        }
        assert!(seen.iter().flatten().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }

    #[test]
    fn streams_differ() {
        assert_ne!(Random::stream(1, 0).bits(), Random::stream(1, 1).bits());
        assert_ne!(Random::stream(1, 0).bits(), Random::stream(0, 1).bits());
    }
}
