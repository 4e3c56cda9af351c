//! The foreground's control group of version 2, and how long its tasks have stalled on storage (`io.pressure`, Linux 4.20,
//! CONFIG_PSI).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::hierarchy::{Hierarchy, group_in, unified};
use crate::Root;
use crate::memory::psi;

/// The folder of the one group that holds all of `pids` that exist; `None` where they are in several groups, or in the root,
/// which holds all processes.
pub fn common_group(root: &Root, pids: &BTreeSet<u32>) -> Option<PathBuf> {
    let mut groups = BTreeSet::new();
    for pid in pids {
        // A process that has exited is in no group.
        let Ok(text) = root.read(format!("/proc/{pid}/cgroup")) else { continue };
        groups.insert(group_in(&text, Hierarchy::Unified)?.trim_start_matches('/').to_owned());
    }
    let only = groups.pop_first().filter(|group| !group.is_empty() && groups.is_empty())?;
    Some(unified(root)?.join(only))
}

/// Total time that at least one task in the group in `folder` has stalled on storage.
pub fn io_stall_time(root: &Root, folder: &Path) -> Option<Duration> {
    let (some_us, _) = psi::totals_us(root.read(folder.join("io.pressure")).ok()?.as_bytes())?;
    Some(Duration::from_micros(some_us))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    // Verifies PLACE-2.
    #[test]
    fn storage_stalls_are_read_from_the_foregrounds_own_group() {
        let (_folder, root) = root_of(&[
            ("/proc/mounts", "cgroup2 /cg cgroup2 rw 0 0\n"),
            ("/proc/7/cgroup", "2:cpu:/x\n0::/apps/one\n"),
            ("/proc/8/cgroup", "0::/apps/one\n"),
            ("/proc/9/cgroup", "0::/apps/two\n"),
            ("/proc/10/cgroup", "0::/\n"),
            ("/proc/11/cgroup", "0::/../elsewhere\n"),
            ("/cg/apps/one/io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500\nfull total=7\n"),
        ]);
        let folder = Path::new("/cg/apps/one");
        let one = Some(folder.to_owned());
        for (pids, expected) in
            [(&[7, 8][..], one.clone()), (&[7, 99], one), (&[7, 9], None), (&[10], None), (&[11], None), (&[], None)]
        {
            assert_eq!(common_group(&root, &pids.iter().copied().collect()), expected, "{pids:?}");
        }
        assert_eq!(io_stall_time(&root, folder), Some(Duration::from_micros(1500)));
        assert_eq!(io_stall_time(&root, Path::new("/cg/apps/two")), None);
    }
}
