//! Instructions of BPF (Documentation/bpf/standardization/instruction-set.rst), as far as both programs need them.

/// One instruction: `struct bpf_insn` of linux/bpf.h.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Source register in the upper half, target register in the lower.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) value: i32,
}

const _: () = assert!(size_of::<Instruction>() == 8);

/// Register 0 holds the result of a call, and the program's result.
pub(super) const RESULT: u8 = 0;

pub(super) const LOAD_32: u8 = 0x61;
pub(super) const STORE_32: u8 = 0x63;
pub(super) const SET_NUMBER: u8 = 0xb7;
pub(super) const EXIT: u8 = 0x95;

pub(super) fn instruction(code: u8, target: u8, source: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: source << 4 | target, offset, value }
}
