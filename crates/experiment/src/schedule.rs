//! The order of the replicates: pure, from a seed alone.
//!
//! A block holds every arm once at each of its points, in random order. A point or an arm that needs fewer replicates than
//! others is left out of some blocks, evenly. All replicates of one block and point share their rest and their background load,
//! so that arms differ in nothing but the arm and are compared in pairs.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::Replicate;
use brisk_base::random::Random;

/// What is to be scheduled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Design {
    pub arms: usize,
    /// For each point of the workload, the number of counted replicates of each arm.
    pub replicates: Vec<u32>,
    /// The arms that have a limit of replicates at any point.
    pub replicate_limits: BTreeMap<usize, u32>,
    /// Arms (first) that are not run at a point (second).
    pub excluded_cells: BTreeSet<(usize, usize)>,
    /// Replicates of each arm, at the first point, that each device runs first and that are not counted.
    pub warm_up: u32,
    /// Shortest and longest rest before a launch, in microseconds.
    pub settle_us: [u64; 2],
    /// Makes the order, the rests and the background load.
    pub seed: u64,
}

impl Design {
    /// How many blocks there are: as many as the point with the most replicates needs.
    pub fn blocks(&self) -> u32 {
        self.replicates.iter().copied().max().unwrap_or(0)
    }

    /// Whether `block` has `arm` at `point`: as many blocks as there are wanted replicates have it, evenly spread.
    fn holds(&self, block: u32, arm: usize, point: usize) -> bool {
        let wanted =
            self.replicate_limits.get(&arm).map_or(self.replicates[point], |&most| self.replicates[point].min(most));
        let before = |block: u32| u64::from(block) * u64::from(wanted) / u64::from(self.blocks());
        before(block + 1) > before(block)
    }
}

/// Every counted replicate, in order, block after block.
pub fn blocks(design: &Design) -> Vec<Replicate> {
    let points = 0..design.replicates.len();
    let mut replicates = Vec::with_capacity(design.arms * design.replicates.iter().sum::<u32>() as usize);
    for block in 0..design.blocks() {
        let mut random = Random::stream(design.seed, u64::from(block));
        let conditions: Vec<(u64, u64)> =
            points.clone().map(|_| (settle(&mut random, design.settle_us), random.bits())).collect();
        let mut cells: Vec<(usize, usize)> =
            (0..design.arms).flat_map(|arm| points.clone().map(move |point| (arm, point))).collect();
        cells.retain(|&(arm, point)| design.holds(block, arm, point) && !design.excluded_cells.contains(&(arm, point)));
        random.shuffle(&mut cells);
        for (arm, point) in cells {
            let (settle_us, seed) = conditions[point];
            let id = u32::try_from(replicates.len()).unwrap_or(u32::MAX);
            replicates.push(Replicate { id, block, arm, point, settle_us, seed, warm_up: false });
        }
    }
    replicates
}

/// The replicates of device number `device` of `devices`: its warm-ups, then its blocks without the replicates in `done`. Whole
/// blocks stay on one device. Empty when nothing is left to do.
pub fn share(design: &Design, device: u32, devices: u32, done: &BTreeSet<u32>) -> Vec<Replicate> {
    let all = blocks(design);
    let first_id = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let mine = all.into_iter().filter(|r| r.block % devices == device && !done.contains(&r.id));
    let mine: Vec<Replicate> = mine.collect();
    if mine.is_empty() {
        return mine;
    }
    let mut random = Random::stream(design.seed, u64::MAX - u64::from(device));
    let count = design.warm_up * u32::try_from(design.arms).unwrap_or(u32::MAX);
    let warm_ups = (0..count).map(|number| Replicate {
        id: first_id + device * count + number,
        block: design.blocks(),
        arm: number as usize % design.arms,
        point: 0,
        settle_us: settle(&mut random, design.settle_us),
        seed: random.bits(),
        warm_up: true,
    });
    warm_ups.chain(mine).collect()
}

fn settle(random: &mut Random, [shortest, longest]: [u64; 2]) -> u64 {
    shortest + (random.unit() * (longest - shortest) as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn designs() -> impl Strategy<Value = Design> {
        let replicates = proptest::collection::vec(1..20u32, 1..5);
        (1..6usize, replicates, 0..3u32, 0..1000u64, 0..1000u64, any::<u64>()).prop_map(
            |(arms, replicates, warm_up, shortest, span, seed)| Design {
                arms,
                replicates,
                replicate_limits: BTreeMap::new(),
                excluded_cells: BTreeSet::new(),
                warm_up,
                settle_us: [shortest, shortest + span],
                seed,
            },
        )
    }

    proptest! {
        // Verifies PROVE-2.
        #[test]
        fn each_arm_runs_as_often_as_its_point_asks_and_once_a_block(design in designs()) {
            let all = blocks(&design);
            let cells: BTreeSet<_> = all.iter().map(|r| (r.block, r.arm, r.point)).collect();
            prop_assert_eq!(cells.len(), all.len());
            for (point, &replicates) in design.replicates.iter().enumerate() {
                for arm in 0..design.arms {
                    let count = all.iter().filter(|r| (r.arm, r.point) == (arm, point)).count();
                    prop_assert_eq!(count, replicates as usize);
                }
            }
            prop_assert!(all.iter().enumerate().all(|(index, r)| r.id as usize == index && !r.warm_up));
            prop_assert!(all.is_sorted_by_key(|r| r.block));
        }

        #[test]
        fn arms_of_one_block_and_point_share_rest_and_background(design in designs()) {
            let all = blocks(&design);
            for one in &all {
                prop_assert!((design.settle_us[0]..=design.settle_us[1]).contains(&one.settle_us));
                for other in all.iter().filter(|r| (r.block, r.point) == (one.block, one.point)) {
                    prop_assert_eq!((one.settle_us, one.seed), (other.settle_us, other.seed));
                }
            }
        }

        // Verifies PROVE-2.
        #[test]
        fn devices_share_whole_blocks_and_a_resume_runs_missing_ones(
            design in designs(),
            devices in 1..4u32,
            skip in proptest::collection::btree_set(0..400u32, 0..200),
        ) {
            let all: BTreeSet<u32> = blocks(&design).iter().map(|r| r.id).collect();
            let shares: Vec<_> = (0..devices).map(|device| share(&design, device, devices, &skip)).collect();
            let counted: Vec<_> = shares.iter().flatten().filter(|r| !r.warm_up).collect();
            let ids: BTreeSet<u32> = counted.iter().map(|r| r.id).collect();
            prop_assert_eq!(ids.len(), counted.len());
            prop_assert_eq!(&ids, &all.difference(&skip).copied().collect());
            let every: BTreeSet<u32> = shares.iter().flatten().map(|r| r.id).collect();
            prop_assert_eq!(every.len(), shares.iter().map(Vec::len).sum::<usize>(), "ids are unique");
            for (device, share) in shares.iter().enumerate() {
                prop_assert!(share.iter().filter(|r| !r.warm_up).all(|r| r.block % devices == device as u32));
                let warm = share.iter().take_while(|r| r.warm_up).count();
                let expected = if share.is_empty() { 0 } else { design.warm_up as usize * design.arms };
                prop_assert_eq!(warm, expected);
                prop_assert!(share[warm..].iter().all(|r| !r.warm_up));
            }
        }

        // Verifies PROVE-2.
        #[test]
        fn the_seed_alone_decides(design in designs()) {
            prop_assert_eq!(blocks(&design), blocks(&design));
        }
    }

    #[test]
    fn an_arm_is_left_out_where_no_claim_needs_it() {
        let excluded_cells = BTreeSet::from([(0, 1), (2, 0)]);
        let replicate_limits = BTreeMap::new();
        let replicates = vec![4; 2];
        let design =
            Design { arms: 3, replicates, replicate_limits, excluded_cells, warm_up: 0, settle_us: [10, 90], seed: 1 };
        let cells = |block: &[Replicate]| block.iter().map(|r| (r.arm, r.point)).collect::<BTreeSet<_>>();
        let all = blocks(&design);
        assert_eq!(all.len(), 4 * 4);
        for block in all.chunks(4) {
            assert_eq!(cells(block), BTreeSet::from([(0, 0), (1, 0), (1, 1), (2, 1)]));
        }
    }

    // Verifies PROVE-2.
    #[test]
    fn an_arm_that_needs_fewer_is_in_some_blocks_evenly() {
        let replicate_limits = BTreeMap::from([(1, 2), (2, 2), (3, 9)]);
        let excluded_cells = BTreeSet::new();
        let replicates = vec![6; 1];
        let design =
            Design { arms: 4, replicates, replicate_limits, excluded_cells, warm_up: 0, settle_us: [10, 90], seed: 1 };
        let all = blocks(&design);
        let of = |arm| all.iter().filter(|r| r.arm == arm).map(|r| r.block).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), ((0..6).collect(), vec![2, 5]));
        assert_eq!((of(2), of(3)), (of(1), of(0)), "arms with the same limit are in the same blocks");
        let seed = |arm, block| all.iter().find(|r| (r.arm, r.block) == (arm, block)).unwrap().seed;
        assert_eq!(seed(1, 5), seed(0, 5));
    }

    #[test]
    fn blocks_are_ordered_differently() {
        let (replicate_limits, excluded_cells) = (BTreeMap::new(), BTreeSet::new());
        let replicates = vec![8; 3];
        let design =
            Design { arms: 4, replicates, replicate_limits, excluded_cells, warm_up: 0, settle_us: [10, 90], seed: 1 };
        let orders: BTreeSet<Vec<_>> =
            blocks(&design).chunks(12).map(|block| block.iter().map(|r| (r.arm, r.point)).collect()).collect();
        assert_eq!(orders.len(), 8);
    }
}
