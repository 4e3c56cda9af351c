//! The memory of control groups of version 2 (cgroup-v2.rst, "Memory"): their usage and stall time, a limit above which a group
//! must reclaim its own memory, and immediate reclaim (`memory.reclaim`, Linux 5.19).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::hierarchy::{children, members, unified_group};
use super::id;
use crate::memory::{process_memory, psi};
use crate::{DeviceError, Root};

/// The file of that limit, within a group's folder.
pub const HIGH: &str = "memory.high";

/// One sample of a group without child groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSample {
    pub folder: PathBuf,
    /// Resident memory of its members, page cache included.
    pub resident_kib: u64,
    /// Their memory on swap.
    pub swap_kib: u64,
    /// Total time that its members have stalled on memory.
    pub stalled_us: u64,
    /// Its [`HIGH`] is not set.
    pub is_free: bool,
    /// The lowest `oom_score_adj` of its members.
    pub lowest_adj: i16,
}

/// All groups at or below `folder` that have members and no child groups.
pub fn samples(root: &Root, folder: &Path) -> Vec<GroupSample> {
    let mut below = children(root, folder).peekable();
    if below.peek().is_none() {
        return sample(root, folder).into_iter().collect();
    }
    below.flat_map(|group| samples(root, &group)).collect()
}

fn sample(root: &Root, folder: &Path) -> Option<GroupSample> {
    let kib = |file| Some(root.read_number::<u64>(folder.join(file)).ok()? >> 10);
    let adj = |pid: &u32| process_memory::oom_score_adj(root, *pid).ok();
    Some(GroupSample {
        resident_kib: kib("memory.current")?,
        // The file is absent where swap is not accounted.
        swap_kib: kib("memory.swap.current").unwrap_or(0),
        stalled_us: psi::totals_us(root.read(folder.join("memory.pressure")).ok()?.as_bytes())?.0,
        is_free: root.read(folder.join(HIGH)).ok()? == "max",
        lowest_adj: members(root, folder).ok()?.iter().filter_map(adj).min()?,
        folder: folder.to_owned(),
    })
}

/// The group of process `pid` below `mount` whose memory can be reclaimed at once: one without child groups that is not the
/// root.
pub fn reclaimable(root: &Root, mount: &Path, pid: u32) -> Option<PathBuf> {
    let group = unified_group(root, pid)?;
    let folder = id::folder(mount, &group);
    let is_own = group != Path::new("/")
        && root.exists(folder.join("memory.reclaim"))
        && children(root, &folder).next().is_none();
    is_own.then_some(folder)
}

/// Reclaims `kib` from the group in `folder`, least recently used first, page cache included.
///
/// # Errors
/// EAGAIN when less than that could be reclaimed.
pub fn reclaim(root: &Root, folder: &Path, kib: u64) -> Result<(), DeviceError> {
    root.write(folder.join("memory.reclaim"), &format!("{kib}K"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cgroup::hierarchy::unified;
    use crate::test_trees::root_of;

    #[test]
    fn a_group_reports_its_memory_stall_time_and_members() {
        let pressure =
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=77\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let (_folder, root) = root_of(&[
            ("/cg/apps/memory.current", "9999999\n"),
            ("/cg/apps/one/memory.current", "4096000\n"),
            ("/cg/apps/one/memory.swap.current", "8192\n"),
            ("/cg/apps/one/memory.high", "max\n"),
            ("/cg/apps/one/memory.pressure", pressure),
            ("/cg/apps/one/cgroup.procs", "7\n8\n9\n"),
            ("/cg/apps/empty/memory.current", "4096\n"),
            ("/cg/apps/empty/memory.high", "max\n"),
            ("/cg/apps/empty/memory.pressure", pressure),
            ("/cg/apps/empty/cgroup.procs", ""),
            ("/cg/two/memory.current", "8192\n"),
            ("/cg/two/memory.high", "1048576\n"),
            ("/cg/two/memory.pressure", pressure),
            ("/cg/two/cgroup.procs", "10\n"),
            ("/proc/7/oom_score_adj", "950\n"),
            ("/proc/8/oom_score_adj", "900\n"),
            ("/proc/10/oom_score_adj", "-17\n"),
        ]);
        let sample = |folder: &str, resident_kib, swap_kib, is_free, lowest_adj| GroupSample {
            folder: folder.into(),
            resident_kib,
            swap_kib,
            stalled_us: 77,
            is_free,
            lowest_adj,
        };
        let mut found = samples(&root, Path::new("/cg"));
        found.sort_by(|one, other| one.folder.cmp(&other.folder));
        assert_eq!(found, [sample("/cg/apps/one", 4000, 8, true, 900), sample("/cg/two", 8, 0, false, -17)]);
    }

    // Verifies MEMORY-5.
    #[test]
    fn only_an_applications_own_group_is_reclaimed() {
        let (folder, root) = root_of(&[
            ("/proc/mounts", "cgroup2 /cg cgroup2 rw 0 0\n"),
            ("/proc/7/cgroup", "0::/apps/gallery\n"),
            ("/proc/8/cgroup", "0::/apps\n"),
            ("/proc/9/cgroup", "0::/\n"),
            ("/proc/10/cgroup", "0::/old\n"),
            ("/cg/memory.reclaim", ""),
            ("/cg/apps/memory.reclaim", ""),
            ("/cg/apps/gallery/memory.reclaim", ""),
            ("/cg/old/memory.current", "1\n"),
            ("/cg/apps/gallery/cgroup.procs", "7\n12\n"),
        ]);
        let mount = unified(&root).unwrap();
        let found = [7, 8, 9, 10, 11].map(|pid| reclaimable(&root, &mount, pid));
        let gallery = PathBuf::from("/cg/apps/gallery");
        assert_eq!(found, [Some(gallery.clone()), None, None, None, None]);
        assert_eq!(members(&root, &gallery).unwrap(), [7, 12]);
        reclaim(&root, &gallery, 512).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("cg/apps/gallery/memory.reclaim")).unwrap(), "512K");
    }
}
