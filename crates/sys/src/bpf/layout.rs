//! The offsets of what the program reads, which differ in each kernel.

use super::btf::{BtfError, Types};
use super::task::COMMAND_BYTES;

/// The function that the program attaches to: the kernel calls it for each task.
const HOOK: &str = "bpf_iter_task";
/// The context of such a call.
const META: &str = "bpf_iter_meta";
const TASK: &str = "task_struct";

/// The number of the kernel's hook, and offsets in its structures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// The hook's number in the kernel's types.
    pub hook: u32,
    /// Of `seq_file` in the context of a call.
    pub(super) output: i16,
    pub(super) flags: i16,
    pub(super) tid: i16,
    pub(super) pid: i16,
    pub(super) parent: i16,
    pub(super) born: i16,
    pub(super) run: i16,
    pub(super) wait: i16,
    pub(super) slices: i16,
    pub(super) command: i16,
}

impl Layout {
    /// The layout according to `types`.
    ///
    /// # Errors
    /// What is missing in them, or does not have the size that the program reads.
    pub fn of(types: &Types) -> Result<Self, BtfError> {
        let place = |structure: u32, path: &[&'static str], size| {
            let place = types.member(structure, path)?;
            let mismatch = BtfError::Mismatch(path.last().copied().unwrap_or(TASK));
            if place.size == size { i16::try_from(place.offset).map_err(|_| mismatch) } else { Err(mismatch) }
        };
        let (meta, task) = (types.structure(META)?, types.structure(TASK)?);
        Ok(Self {
            hook: types.function(HOOK)?,
            output: place(meta, &["seq"], 8)?,
            flags: place(task, &["flags"], 4)?,
            tid: place(task, &["pid"], 4)?,
            pid: place(task, &["tgid"], 4)?,
            parent: place(task, &["real_parent"], 8)?,
            born: place(task, &["start_boottime"], 8)?,
            run: place(task, &["se", "sum_exec_runtime"], 8)?,
            wait: place(task, &["sched_info", "run_delay"], 8)?,
            slices: place(task, &["sched_info", "pcount"], 8)?,
            command: place(task, &["comm"], COMMAND_BYTES as u32)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::btf::{FUNCTION, POINTER, STRUCT};
    use crate::bpf::test_btf::Writer;

    /// The types of a kernel whose `pcount` has `slices` bytes, and whose `comm` lies `name_bits` from the beginning of a task.
    fn kernel(slices: u32, name_bits: u32) -> Vec<u8> {
        let mut writer = Writer::new();
        let (four, eight, count, pointer) =
            (writer.integer(4), writer.integer(8), writer.integer(slices), writer.entry("", POINTER, 0, 1));
        let byte = writer.integer(1);
        let name = writer.array(byte, 16);
        let entity = writer.structure("sched_entity", STRUCT, &[("sum_exec_runtime", eight, 640)]);
        let info = writer.structure("sched_info", STRUCT, &[("pcount", count, 0), ("run_delay", eight, 64)]);
        writer.structure("bpf_iter_meta", STRUCT, &[("seq", pointer, 0)]);
        let hidden = [("se", entity, 64), ("sched_info", info, 1024), ("pid", four, 1216), ("tgid", four, 1248)];
        let hidden = writer.structure("", STRUCT, &hidden);
        let shown =
            [("flags", four, 32), ("", hidden, 128), ("real_parent", pointer, 1408), ("start_boottime", eight, 1472)];
        writer.structure("task_struct", STRUCT, &[&shown[..], &[("comm", name, name_bits)]].concat());
        writer.entry(HOOK, FUNCTION, 1, 1);
        writer.bytes()
    }

    // Verifies PLACE-1.
    #[test]
    fn all_offsets_come_from_the_kernels_types() {
        let layout = Layout::of(&Types::parse(&kernel(8, 1600)).unwrap()).unwrap();
        let expected = Layout {
            hook: 12,
            output: 0,
            flags: 4,
            tid: 168,
            pid: 172,
            parent: 176,
            born: 184,
            run: 104,
            wait: 152,
            slices: 144,
            command: 200,
        };
        assert_eq!(layout, expected);
    }

    // Verifies PLACE-1.
    #[test]
    fn fields_that_the_program_cannot_read_are_refused() {
        let of = |slices, name_bits| Layout::of(&Types::parse(&kernel(slices, name_bits)).unwrap());
        assert_eq!(of(4, 1600), Err(BtfError::Mismatch("pcount")), "a kernel of 32 bits");
        assert_eq!(of(8, 8 * 40_000), Err(BtfError::Mismatch("comm")), "farther than an instruction reaches");
        let nothing = Writer::new().bytes();
        assert_eq!(Layout::of(&Types::parse(&nothing).unwrap()), Err(BtfError::Missing(META)));
    }
}
