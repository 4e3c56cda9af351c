//! Which cores can be reserved for the foreground, with equal or unequal capacities.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::ablation::{Part, is_off};
use brisk_base::insertion_sort::insertion_sort;

/// The capacity of the fastest core (`cpu_capacity`, Documentation/scheduler/sched-capacity.rst).
pub const FULL_CAPACITY: u32 = 1024;

/// One online CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its number.
    pub cpu: u32,
    /// Its capacity, at most [`FULL_CAPACITY`].
    pub capacity: u32,
}

/// The online CPUs in reservation order: the fastest first, and among equals the highest number first, because interrupts
/// and kernel work tend to run on CPU 0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    cores: Vec<Core>,
    /// The first CPU of each CPU's core, where cores have several threads.
    first_siblings: BTreeMap<u32, u32>,
}

/// A division of the CPUs. Neither list is ever empty; both are ascending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// For the foreground: no bulk threads.
    pub reserved: Vec<u32>,
    /// For all threads.
    pub rest: Vec<u32>,
}

impl Machine {
    /// A machine with `cores`; duplicates are dropped.
    pub fn new(mut cores: Vec<Core>) -> Self {
        insertion_sort(&mut cores, |one, next| (one.capacity, one.cpu) < (next.capacity, next.cpu));
        cores.dedup_by_key(|core| core.cpu);
        Self { cores, ..Self::default() }
    }

    /// The same machine with the first CPU of each CPU's core; a CPU that is missing is a core of its own.
    #[must_use]
    pub fn with_siblings(self, first_siblings: BTreeMap<u32, u32>) -> Self {
        Self { first_siblings, ..self }
    }

    /// A machine with cores of `(cpu, capacity)`.
    pub fn of(cores: &[(u32, u32)]) -> Self {
        Self::new(cores.iter().map(|&(cpu, capacity)| Core { cpu, capacity }).collect())
    }

    /// `count` equal cores.
    pub fn equal(count: u32) -> Self {
        Self::new((0..count).map(|cpu| Core { cpu, capacity: FULL_CAPACITY }).collect())
    }

    /// The cores in reservation order.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The numbers of all CPUs, ascending.
    pub fn cpus(&self) -> Vec<u32> {
        ascending(&self.cores)
    }

    /// The CPUs of the smallest cores, ascending; `None` where no core is bigger. Up to 5 % is no difference to the kernel either
    /// (`capacity_greater` in kernel/sched/fair.c).
    pub fn smallest_cores(&self) -> Option<Vec<u32>> {
        let smallest = self.cores.last()?.capacity;
        let bigger = self.cores.partition_point(|core| core.capacity * 1024 > smallest * 1078);
        (bigger > 0).then(|| ascending(&self.cores[bigger..]))
    }

    /// The core of a CPU, named by its first CPU.
    fn core_of(&self, cpu: u32) -> u32 {
        self.first_siblings.get(&cpu).copied().filter(|_| !is_off(Part::WholeCores)).unwrap_or(cpu)
    }

    /// The number of cores that `cpus` are threads of.
    pub fn core_count(&self, cpus: &[u32]) -> usize {
        let cores: BTreeSet<u32> = cpus.iter().map(|&cpu| self.core_of(cpu)).collect();
        cores.len()
    }

    /// Reserves `count` cores with all their threads, because a thread slows down its siblings; `None` when `count` is zero or
    /// no core would be left for other threads.
    pub fn reserve_cores(&self, count: usize) -> Option<Split> {
        let mut taken = Vec::new();
        for core in self.cores.iter().map(|core| self.core_of(core.cpu)) {
            if taken.len() < count && !taken.contains(&core) {
                taken.push(core);
            }
        }
        let (reserved, rest): (Vec<Core>, Vec<Core>) =
            self.cores.iter().partition(|core| taken.contains(&self.core_of(core.cpu)));
        let is_possible = count > 0 && taken.len() == count && !rest.is_empty();
        is_possible.then(|| Split { reserved: ascending(&reserved), rest: ascending(&rest) })
    }

    /// Reserves `count` CPUs, whatever cores they are threads of; `None` when `count` is zero or no CPU would be left.
    pub fn reserve(&self, count: usize) -> Option<Split> {
        if count == 0 || count >= self.cores.len() {
            return None;
        }
        let (reserved, rest) = self.cores.split_at(count);
        Some(Split { reserved: ascending(reserved), rest: ascending(rest) })
    }

    /// The same machine without the cores that are not in `online`; a new core stays unknown until the device is probed again.
    #[must_use]
    pub fn only(&self, online: &[u32]) -> Self {
        let cores = self.cores.iter().copied().filter(|core| online.contains(&core.cpu)).collect();
        Self { cores, ..self.clone() }
    }
}

fn ascending(cores: &[Core]) -> Vec<u32> {
    let mut cpus: Vec<u32> = cores.iter().map(|core| core.cpu).collect();
    cpus.sort_unstable();
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_base::random::Random;

    #[test]
    fn the_fastest_cores_are_reserved_first_and_cpu_0_last() {
        // Four little cores, three big cores and a prime core, as in phones.
        let phone: Vec<(u32, u32)> =
            (0..8).map(|cpu| (cpu, [320, 320, 320, 320, 780, 780, 780, 1024][cpu as usize])).collect();
        for (machine, count, expected) in [
            (Machine::equal(1), 1, None),
            (Machine::equal(2), 1, Some((vec![1], vec![0]))),
            (Machine::equal(2), 2, None),
            (Machine::equal(4), 3, Some((vec![1, 2, 3], vec![0]))),
            (Machine::equal(4), 0, None),
            (Machine::of(&phone), 1, Some((vec![7], vec![0, 1, 2, 3, 4, 5, 6]))),
            (Machine::of(&phone), 3, Some((vec![5, 6, 7], vec![0, 1, 2, 3, 4]))),
            (Machine::of(&[(0, 1024), (1, 500)]), 1, Some((vec![0], vec![1]))),
            (Machine::of(&[(3, 1024)]), 1, None),
            (Machine::default(), 1, None),
        ] {
            let expected = expected.map(|(reserved, rest)| Split { reserved, rest });
            assert_eq!(machine.reserve(count), expected, "{count} of {machine:?}");
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn whole_cores_are_reserved_where_they_have_threads() {
        // Core of each CPU: x86 numbers second threads after all first ones, POWER next to them. A hybrid has single ones.
        let (x86, power) = ([0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 0, 0, 4, 4, 4, 4]);
        let hybrid = [0, 0, 2, 2, 4, 5];
        for (cores, capacity, online, count, expected) in [
            (&x86[..], 1024, 8, 1, Some((vec![3, 7], vec![0, 1, 2, 4, 5, 6]))),
            (&x86, 1024, 8, 3, Some((vec![1, 2, 3, 5, 6, 7], vec![0, 4]))),
            (&x86, 1024, 8, 4, None),
            (&x86, 1024, 8, 0, None),
            (&x86, 1024, 7, 1, Some((vec![2, 6], vec![0, 1, 3, 4, 5]))),
            (&power, 1024, 8, 1, Some((vec![4, 5, 6, 7], vec![0, 1, 2, 3]))),
            (&power, 1024, 8, 2, None),
            (&power, 1024, 4, 1, None),
            (&hybrid, 700, 6, 1, Some((vec![2, 3], vec![0, 1, 4, 5]))),
            (&hybrid, 700, 6, 3, Some((vec![0, 1, 2, 3, 5], vec![4]))),
        ] {
            let cpus: Vec<(u32, u32)> =
                (0..).zip(cores).map(|(cpu, _)| (cpu, if cpu < 4 { 1024 } else { capacity })).collect();
            let machine = Machine::of(&cpus).with_siblings((0..).zip(cores.iter().copied()).collect());
            let machine = machine.only(&(0..online).collect::<Vec<u32>>());
            let found = machine.reserve_cores(count);
            let expected = expected.map(|(reserved, rest)| Split { reserved, rest });
            assert_eq!(found, expected, "{count} of {online} {cores:?}");
            assert_eq!(found.map_or(count, |split| machine.core_count(&split.reserved)), count);
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn the_smallest_cores_are_known_where_others_are_bigger() {
        let phone = [(0, 320), (1, 320), (4, 780), (7, 1024)];
        for (cores, online, expected) in [
            (&phone[..], &[0, 1, 4, 7][..], Some(vec![0, 1])),
            (&phone, &[4, 7], Some(vec![4])),
            (&phone, &[0, 1], None),
            (&[(0, 1024), (1, 407)], &[0, 1], Some(vec![1])),
            (&[(0, 1024), (1, 980), (2, 970)], &[0, 1, 2], Some(vec![1, 2])),
            (&[(0, 1024), (1, 980)], &[0, 1], None),
            (&[(0, 1024), (1, 1024)], &[0, 1], None),
            (&[], &[], None),
        ] {
            let machine = Machine::of(cores).only(online);
            assert_eq!(machine.smallest_cores(), expected, "{machine:?}");
        }
    }

    // Verifies PLACE-4.
    #[test]
    fn no_split_is_empty_or_loses_a_core() {
        let mut random = Random::new(7);
        for _ in 0..500 {
            let count = 1 + random.below(64) as u32;
            let cores: Vec<_> = (0..count).map(|cpu| (cpu, 1 + random.below(1024) as u32)).collect();
            let machine = Machine::of(&cores);
            for wanted in 0..=count as usize + 1 {
                assert_eq!(machine.reserve_cores(wanted), machine.reserve(wanted), "each CPU is a core");
                let Some(Split { reserved, rest }) = machine.reserve(wanted) else {
                    assert!(wanted == 0 || wanted >= count as usize);
                    continue;
                };
                assert_eq!((reserved.len(), rest.len()), (wanted, count as usize - wanted));
                assert!(!rest.is_empty() && reserved.iter().all(|cpu| !rest.contains(cpu)));
                let slowest = reserved.iter().map(|&cpu| cores[cpu as usize].1).min();
                let fastest = rest.iter().map(|&cpu| cores[cpu as usize].1).max();
                assert!(slowest >= fastest, "no unreserved core is faster than a reserved one");
            }
        }
    }
}
