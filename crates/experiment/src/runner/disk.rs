//! The disk of an experiment with combinations, as an arm schedules it.

use std::path::Path;

use anyhow::Context;

use crate::spec::{Arm, Disk};
use crate::tasks::warm_up_disk;
use brisk_sys::Root;
use brisk_sys::cgroup::hierarchy::unified;
use brisk_sys::io::io_priority::{self, IoPriority};

/// Sets the scheduler of `arm`, and reads a little where it has changed: BFQ learns while a disk is used how fast it is and
/// whether it serves several requests at a time. Otherwise an arm's result depends on the arm before it.
///
/// # Errors
/// When there is no such disk, its kernel refuses a setting, or it cannot be read.
pub(super) fn schedule(root: &Root, disk: &Disk, arm: &Arm) -> anyhow::Result<()> {
    let queue = Path::new("/sys/block").join(&disk.name).join("queue");
    let scheduler = arm.disk_scheduler.as_ref().unwrap_or(&disk.scheduler);
    let is_new = io_priority::active_scheduler(&root.read(queue.join("scheduler"))?) != Some(scheduler.as_str());
    // A new scheduler begins with its own number of requests.
    for (file, value) in [("scheduler", scheduler.clone()), ("nr_requests", disk.requests.to_string())] {
        let path = queue.join(file);
        root.write(&path, &value).with_context(|| format!("{} does not accept {value}", path.display()))?;
    }
    if is_new {
        let device = root.path(Path::new("/dev").join(&disk.name));
        warm_up_disk(&device).with_context(|| format!("cannot read {}", device.display()))?;
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
            let set = |file: &str, value: &str| fs::write(queue.join(file), value).unwrap();
            set("nr_requests", "");
            set("scheduler", "[none] mq-deadline bfq");
            let unread = schedule(&root, &disk, &arm(text)).unwrap_err().to_string();
            assert!(unread.contains("cannot read"), "a new scheduler meets a disk that is used: {unread}");
            set("scheduler", &format!("none [{scheduler}]"));
            schedule(&root, &disk, &arm(text)).unwrap();
            let held = ["scheduler", "nr_requests"].map(|file| fs::read_to_string(queue.join(file)).unwrap());
            assert_eq!(held, [scheduler, "64"]);
        }
    }
}
