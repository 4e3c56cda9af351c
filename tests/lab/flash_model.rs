//! The model of NAND flash in a guest: the data that it keeps, and the memory that it uses.

use brisk::lab::{LabError, RunOutcome, Scenario};

use super::{results, run, static_brisk};

/// The start of the memory that the guest's kernel does not use.
const BASE_MIB: i64 = 512;

/// The guest of the memory experiments with the kernel of `kernel`, and only the flash: `sizes_mib`, from `base_mib` on.
fn run_with_flash(
    kernel: &str,
    base_mib: i64,
    sizes_mib: &[i64],
    script: &str,
) -> Option<(Result<RunOutcome, LabError>, Vec<String>)> {
    let mut job = super::job(static_brisk()?, "memory-6.1", &["sh", "-c", script]);
    let memory = std::mem::take(&mut job.scenario.kernel.command_line);
    job.scenario.kernel = Scenario::load(kernel).unwrap().kernel;
    job.scenario.kernel.command_line = memory;
    job.scenario.modules.retain(|module| module.name == "flash_model");
    let parameters = &mut job.scenario.modules.first_mut().expect("the scenario has flash").parameters;
    parameters.insert("base_mib".into(), base_mib.into());
    parameters.insert("sizes_mib".into(), sizes_mib.to_vec().into());
    job.busybox = true;
    let (outcome, lines) = run(&job);
    let said = results(&lines).into_iter().map(str::to_owned).collect();
    Some((outcome, said))
}

/// The model keeps what is written, holds its memory while it is loaded, and releases it when it is unloaded.
fn memory_is_held_while_it_is_used(kernel: &str) {
    let script = "\
        grep flash_model /proc/iomem | sed 's/^ *//'
        yes brisk | dd of=/dev/flash1 bs=4096 count=100 2>/dev/null
        sync; echo 3 >/proc/sys/vm/drop_caches
        dd if=/dev/flash1 bs=4096 count=100 2>/dev/null | md5sum
        yes brisk | head -c 409600 | md5sum
        cat /sys/block/flash0/queue/logical_block_size /sys/block/flash0/queue/rotational /sys/block/flash0/size
        cat /sys/module/flash_model/parameters/pages_written
        rmmod flash_model && grep -c flash_model /proc/iomem";
    let Some((outcome, said)) = run_with_flash(kernel, BASE_MIB, &[16, 32], script) else { return };
    // grep finds nothing at the end.
    assert_eq!(outcome.unwrap().status, 1, "{said:#?}");
    let [first, second, read, written, block, rotational, sectors, pages, left] = &said[..] else {
        panic!("{said:#?}");
    };
    assert_eq!((&**first, &**second), ("20000000-20ffffff : flash_model", "21000000-22ffffff : flash_model"));
    assert_eq!(read, written);
    assert_eq!((&**block, &**rotational, &**sectors), ("4096", "0", "32768"));
    assert_eq!(pages.split(',').collect::<Vec<_>>()[..2], ["0", "100"]);
    assert_eq!(left, "0");
}

/// The model is refused where the kernel has its memory, and where part of the range is in use; it then holds nothing.
fn memory_in_use_is_refused(kernel: &str) {
    // First the kernel's own memory; then from the end of the unused memory into a range without memory.
    for (base_mib, sizes_mib) in [(64, &[16][..]), (BASE_MIB, &[64, 2048])] {
        let Some((outcome, said)) = run_with_flash(kernel, base_mib, sizes_mib, "true") else { return };
        match outcome {
            Err(LabError::Ended { reason, .. }) => {
                assert!(reason.starts_with("cannot load the kernel module flash_model"), "{reason}");
                assert!(reason.contains("busy"), "{reason}");
            }
            other => panic!("{base_mib} {sizes_mib:?}: {other:?} {said:#?}"),
        }
    }
}

// Verifies LAB-1.
#[test]
fn flash_holds_its_memory_while_it_is_used() {
    memory_is_held_while_it_is_used("memory-6.1");
}

// Verifies LAB-1.
#[test]
fn flash_is_refused_memory_that_is_in_use() {
    memory_in_use_is_refused("memory-6.1");
}

// Verifies LAB-1.
#[test]
#[ignore = "a newer kernel's packages: ./dev test --deep"]
fn flash_on_a_newer_kernel_does_the_same() {
    memory_is_held_while_it_is_used("debian-6.12");
    memory_in_use_is_refused("debian-6.12");
}
