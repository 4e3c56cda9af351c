//! Which CPUs are threads of one core: `topology/thread_siblings_list` (Documentation/admin-guide/cputopology.rst). Newer kernels
//! call it `core_cpus_list` as well.

use crate::Root;
use crate::cpu::hotplug::{CPU_FOLDER, parse_list};

/// The first CPU of the core that `cpu` is a thread of; `None` where the kernel does not report it.
pub fn first_sibling(root: &Root, cpu: u32) -> Option<u32> {
    let siblings = root.read(format!("{CPU_FOLDER}/cpu{cpu}/topology/thread_siblings_list")).ok()?;
    parse_list(&siblings)?.first().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_trees::root_of;

    #[test]
    fn the_first_sibling_names_the_core() {
        for (text, expected) in [
            (Some("0\n"), Some(0)),
            (Some("0,4\n"), Some(0)),
            (Some("2-3\n"), Some(2)),
            (Some("\n"), None),
            (Some("much\n"), None),
            (Some("0-4294967295\n"), None),
            (None, None),
        ] {
            let file = format!("{CPU_FOLDER}/cpu4/topology/thread_siblings_list");
            let files: Vec<(&str, &str)> = text.iter().map(|text| (file.as_str(), *text)).collect();
            let (_folder, root) = root_of(&files);
            assert_eq!(first_sibling(&root, 4), expected, "{text:?}");
        }
    }
}
