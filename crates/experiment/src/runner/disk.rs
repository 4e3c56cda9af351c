//! The disk of an experiment with combinations, as an arm schedules it.

use std::path::Path;

use anyhow::Context;

use crate::spec::{Arm, Disk};
use brisk_sys::Root;
use brisk_sys::cgroup::hierarchy::unified;
use brisk_sys::io::io_priority::{self, IoPriority};

/// Sets the scheduler of `arm`.
///
/// # Errors
/// When there is no such disk, or its kernel refuses a setting.
pub(super) fn schedule(root: &Root, disk: &Disk, arm: &Arm) -> anyhow::Result<()> {
    let queue = Path::new("/sys/block").join(&disk.name).join("queue");
    let scheduler = arm.disk_scheduler.as_ref().unwrap_or(&disk.scheduler);
    // A new scheduler begins with its own number of requests.
    for (file, value) in [("scheduler", scheduler.clone()), ("nr_requests", disk.requests.to_string())] {
        let path = queue.join(file);
        root.write(&path, &value).with_context(|| format!("{} does not accept {value}", path.display()))?;
    }
    // I/O priorities count within a group. systemd too enables `io` only for units that ask for it; groups by hand with a
    // weight enable it again.
    let Some(groups) = unified(root) else { return Ok(()) };
    Ok(root.write(groups.join("cgroup.subtree_control"), "-io")?)
}

/// Sets the I/O priority of each thread of process `pid`.
///
/// # Errors
/// When it has exited.
pub(super) fn set_priority(root: &Root, pid: u32, wanted: IoPriority) -> anyhow::Result<()> {
    for thread in root.list(format!("/proc/{pid}/task"))? {
        io_priority::set(thread.parse()?, wanted)
            .with_context(|| format!("cannot set the I/O priority of {thread}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    // Verifies PROVE-2.
    #[test]
    fn an_arm_has_its_own_scheduler_or_the_disks() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        let queue = root.path("/sys/block/nullb0/queue");
        let disk = Disk { name: "nullb0".into(), scheduler: "mq-deadline".into(), requests: 64 };
        let arm = |text: &str| toml::from_str(&format!("name = \"a\"\ntitle = \"a\"\n{text}")).unwrap();
        assert!(schedule(&root, &disk, &arm("")).is_err(), "there is no such disk");
        fs::create_dir_all(&queue).unwrap();
        for (text, scheduler) in [("", "mq-deadline"), ("disk_scheduler = \"bfq\"", "bfq")] {
            for file in ["scheduler", "nr_requests"] {
                fs::write(queue.join(file), "").unwrap();
            }
            schedule(&root, &disk, &arm(text)).unwrap();
            let held = ["scheduler", "nr_requests"].map(|file| fs::read_to_string(queue.join(file)).unwrap());
            assert_eq!(held, [scheduler, "64"]);
        }
    }
}
