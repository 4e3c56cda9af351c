//! The device tree of a machine with unequal CPUs: QEMU's own, with the capacity of each CPU, which QEMU cannot be told.

use std::fs;
use std::process::Command;

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeProperty};

use crate::architecture::Architecture;
use crate::error::LabError;

/// Documentation/devicetree/bindings/cpu/cpu-capacity.txt.
const CAPACITY: &str = "capacity-dmips-mhz";

/// The device tree that QEMU makes for the machine of these `arguments`, with `dmips_mhz` of each CPU.
///
/// # Errors
/// [`LabError::Machine`] when QEMU does not write it, or it lacks a CPU.
pub fn with_capacities(
    architecture: &Architecture,
    arguments: &[String],
    dmips_mhz: &[u32],
) -> Result<Vec<u8>, LabError> {
    let fault = |reason: String| LabError::Machine { operation: "describe its CPUs".into(), reason };
    let folder = tempfile::tempdir().map_err(|error| fault(format!("cannot make a temporary folder: {error}")))?;
    let file = folder.path().join("machine.dtb");
    let dump = format!("dumpdtb={}", file.display());
    let output = Command::new(architecture.emulator).args(arguments).args(["-machine", &dump]).output();
    let output = output.map_err(|error| fault(architecture.start_failure(&error)))?;
    let tree = fs::read(&file).map_err(|error| {
        let messages = String::from_utf8_lossy(&output.stderr);
        fault(format!("{} wrote no device tree ({error}): {}", architecture.emulator, messages.trim()))
    })?;
    add_capacities(&tree, dmips_mhz).map_err(fault)
}

/// `tree` with `dmips_mhz` in the node of each CPU.
fn add_capacities(tree: &[u8], dmips_mhz: &[u32]) -> Result<Vec<u8>, String> {
    let tree = Fdt::new(tree).map_err(|error| format!("QEMU's device tree is damaged: {error}"))?;
    let mut tree = DeviceTree::from_fdt(&tree);
    for (cpu, &dmips_mhz) in dmips_mhz.iter().enumerate() {
        let path = format!("/cpus/cpu@{cpu:x}");
        let node = tree.find_node_mut(&path).ok_or_else(|| format!("QEMU's device tree has no {path}"))?;
        node.add_property(DeviceTreeProperty::new(CAPACITY, dmips_mhz).map_err(|error| error.to_string())?);
    }
    Ok(tree.to_dtb())
}

#[cfg(test)]
mod tests {
    use dtoolkit::model::DeviceTreeNode;
    use dtoolkit::{Node, Property};
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    /// A machine with `cpus` CPUs and a serial port.
    fn machine(cpus: usize) -> Vec<u8> {
        let node = |name: String| DeviceTreeNode::new(name).unwrap();
        let mut tree = DeviceTree::new();
        let mut folder = node("cpus".into());
        for cpu in 0..cpus {
            let mut cpu = node(format!("cpu@{cpu:x}"));
            cpu.add_property(DeviceTreeProperty::new("compatible", "arm,cortex-a57").unwrap());
            folder.add_child(cpu);
        }
        tree.root.add_child(folder);
        tree.root.add_child(node("pl011@9000000".into()));
        tree.to_dtb()
    }

    // Verifies LAB-3.
    #[test]
    fn each_cpu_gets_its_capacity_and_the_rest_stays() {
        let changed = add_capacities(&machine(2), &[59_619, 100_000]).unwrap();
        let mut tree = DeviceTree::from_fdt(&Fdt::new(&changed).unwrap());
        for (path, expected) in [("/cpus/cpu@0", 59_619_u32), ("/cpus/cpu@1", 100_000)] {
            let node = tree.find_node_mut(path).unwrap();
            assert_eq!(node.remove_property(CAPACITY).unwrap(), DeviceTreeProperty::new(CAPACITY, expected).unwrap());
            assert_eq!((*node).properties().next().unwrap().value(), b"arm,cortex-a57\0");
        }
        assert_eq!(tree.to_dtb(), machine(2));
    }

    // Verifies LAB-3.
    #[test]
    fn a_tree_without_the_cpus_is_refused() {
        for (tree, expected) in [
            (machine(1), "QEMU's device tree has no /cpus/cpu@1"),
            (machine(0), "QEMU's device tree has no /cpus/cpu@0"),
            (DeviceTree::new().to_dtb(), "QEMU's device tree has no /cpus/cpu@0"),
            (Vec::new(), "QEMU's device tree is damaged: "),
            (b"no device tree, but as long as the header of one".to_vec(), "QEMU's device tree is damaged: "),
        ] {
            let error = add_capacities(&tree, &[1, 2]).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    // Verifies LAB-3.
    #[test]
    fn an_emulator_that_writes_none_is_reported() {
        for (emulator, arguments, expected) in [
            ("sh", vec!["-c".into(), "echo no such machine >&2".to_owned()], "no such machine"),
            ("no-such-emulator", Vec::new(), "install the package qemu-system-arm"),
        ] {
            let architecture = Architecture { emulator, ..*Architecture::named("arm64").unwrap() };
            let error = with_capacities(&architecture, &arguments, &[1]).unwrap_err().to_string();
            assert!(error.contains("failed to describe its CPUs") && error.contains(expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn cut_and_forged_trees_do_not_panic(at in any::<Index>(), byte in any::<u8>()) {
            let tree = machine(2);
            let at = at.index(tree.len());
            prop_assert!(add_capacities(&tree[..at], &[1, 2]).is_err());
            let mut forged = tree;
            forged[at] = byte;
            let _ = add_capacities(&forged, &[1, 2]);
        }
    }
}
