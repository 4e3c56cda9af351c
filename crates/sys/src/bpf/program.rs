//! The program that the kernel runs for each task: it writes one record, unless the task is the kernel's or brisk's own.
//!
//! It is assembled by hand, in the instructions of Documentation/bpf/standardization/instruction-set.rst: there are some thirty
//! of them, and they depend on nothing but the kernel's offsets.

use super::instruction::{EXIT, Instruction, LOAD_32, RESULT, SET_NUMBER, STORE_32, instruction};
use super::layout::Layout;
use super::task::{BORN, COMMAND, PADDING, PARENT, PID, RECORD_BYTES, RUN, SLICES, TID, WAIT};

/// Registers 1 to 5 are a call's arguments, clobbered by it; 1 is the program's argument at first, later each copied value.
const VALUE: u8 = 1;
const ARGUMENT_2: u8 = 2;
const ARGUMENT_3: u8 = 3;
/// Registers 6 and 7 are preserved across a call.
const CONTEXT: u8 = 6;
const TASK_POINTER: u8 = 7;
/// The frame pointer, at the end of the stack.
const FRAME: u8 = 10;

const LOAD_64: u8 = 0x79;
const STORE_64: u8 = 0x7b;
const STORE_NUMBER_32: u8 = 0x62;
const ADD_NUMBER: u8 = 0x07;
const COPY: u8 = 0xbf;
const JUMP_IF_NUMBER: u8 = 0x15;
const JUMP_IF_BITS: u8 = 0x45;
const CALL: u8 = 0x85;

/// `PF_KTHREAD` of linux/sched.h.
const PF_KTHREAD: i32 = 0x0020_0000;
/// The helper `bpf_seq_write`.
const SEQ_WRITE: i32 = 127;
/// Offsets of the hook's arguments: the call's context, and the task.
const META: i16 = 0;
const TASK: i16 = 8;

/// The record lies at the end of the stack, just below [`FRAME`].
const RECORD: i16 = -(RECORD_BYTES as i16);

/// The program for a kernel with `layout`; the threads of process `own` are left out.
pub(super) fn assemble(layout: &Layout, own: u32) -> Vec<Instruction> {
    let load = |code, target, source, offset| instruction(code, target, source, offset, 0);
    let store = |code, place| instruction(code, FRAME, VALUE, RECORD + place, 0);
    let skip_to_end = |code, register, value| instruction(code, register, 0, 0, value);
    let mut program = vec![
        instruction(COPY, CONTEXT, VALUE, 0, 0),
        load(LOAD_64, TASK_POINTER, CONTEXT, TASK),
        // After the last task the hook is called once more, with none.
        skip_to_end(JUMP_IF_NUMBER, TASK_POINTER, 0),
        load(LOAD_32, VALUE, TASK_POINTER, layout.flags),
        skip_to_end(JUMP_IF_BITS, VALUE, PF_KTHREAD),
        load(LOAD_32, VALUE, TASK_POINTER, layout.pid),
        skip_to_end(JUMP_IF_NUMBER, VALUE, own as i32),
        store(STORE_32, PID),
        load(LOAD_32, VALUE, TASK_POINTER, layout.tid),
        store(STORE_32, TID),
        load(LOAD_64, VALUE, TASK_POINTER, layout.parent),
        load(LOAD_32, VALUE, VALUE, layout.pid),
        store(STORE_32, PARENT),
        // The kernel refuses to pass on stack bytes that were not written.
        instruction(STORE_NUMBER_32, FRAME, 0, RECORD + PADDING, 0),
    ];
    for (from, to) in [
        (layout.born, BORN),
        (layout.run, RUN),
        (layout.wait, WAIT),
        (layout.slices, SLICES),
        (layout.command, COMMAND),
        (layout.command + 8, COMMAND + 8),
    ] {
        program.extend([load(LOAD_64, VALUE, TASK_POINTER, from), store(STORE_64, to)]);
    }
    program.extend([
        load(LOAD_64, VALUE, CONTEXT, META),
        load(LOAD_64, VALUE, VALUE, layout.output),
        instruction(COPY, ARGUMENT_2, FRAME, 0, 0),
        instruction(ADD_NUMBER, ARGUMENT_2, 0, 0, i32::from(RECORD)),
        instruction(SET_NUMBER, ARGUMENT_3, 0, 0, RECORD_BYTES as i32),
        instruction(CALL, 0, 0, 0, SEQ_WRITE),
    ]);
    let end = program.len();
    program.extend([instruction(SET_NUMBER, RESULT, 0, 0, 0), instruction(EXIT, 0, 0, 0, 0)]);
    // A task that is left out jumps to the end, counted from the instruction after the jump.
    for (index, jump) in program.iter_mut().enumerate() {
        if [JUMP_IF_NUMBER, JUMP_IF_BITS].contains(&jump.code) {
            jump.offset = (end - index - 1) as i16;
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            hook: 7,
            output: 0,
            flags: 44,
            tid: 100,
            pid: 104,
            parent: 112,
            born: 200,
            run: 300,
            wait: 400,
            slices: 408,
            command: 500,
        }
    }

    // Verifies PLACE-1.
    #[test]
    fn tasks_that_are_left_out_jump_to_the_end() {
        let program = assemble(&layout(), 4321);
        let end = program.iter().position(|one| (one.code, one.registers) == (SET_NUMBER, RESULT)).unwrap();
        let jumps: Vec<(i32, usize)> = program
            .iter()
            .enumerate()
            .filter(|(_, one)| [JUMP_IF_NUMBER, JUMP_IF_BITS].contains(&one.code))
            .map(|(index, one)| (one.value, index + 1 + one.offset as usize))
            .collect();
        assert_eq!(jumps, [(0, end), (PF_KTHREAD, end), (4321, end)]);
        assert_eq!(program.len(), end + 2, "it returns nothing, and ends");
    }

    // Verifies PLACE-1.
    #[test]
    fn a_record_is_written_without_gaps() {
        let mut written = [0u8; RECORD_BYTES];
        for one in assemble(&layout(), 1) {
            let bytes = match one.code {
                STORE_32 | STORE_NUMBER_32 => 4,
                STORE_64 => 8,
                _ => continue,
            };
            let begin = (one.offset - RECORD) as usize;
            written[begin..begin + bytes].iter_mut().for_each(|byte| *byte += 1);
        }
        assert_eq!(written, [1; RECORD_BYTES]);
    }
}
