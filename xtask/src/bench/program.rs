//! The program that is launched: it exits at once.

use std::process::{Command, Stdio};

use anyhow::Context as _;

/// The path of the launched program.
pub(super) const SHORTEST: &str = "/bin/true";

/// Forks, and executes a program that exits at once.
pub(super) fn launch() -> anyhow::Result<()> {
    Command::new(SHORTEST).stdout(Stdio::null()).status().with_context(|| format!("cannot run {SHORTEST}"))?;
    Ok(())
}

/// A static program of one segment that only calls exit(0), for the guest, which has no /bin/true: the ELF header, one program
/// header, and `xor edi, edi; mov eax, 60; syscall` (elf(5)).
pub(super) fn shortest_program() -> Vec<u8> {
    const ADDRESS: u64 = 0x40_0000;
    const HEADERS_BYTES: u64 = 64 + 56;
    let code = [0x31, 0xff, 0xb8, 60, 0, 0, 0, 0x0f, 0x05];
    let length = HEADERS_BYTES + code.len() as u64;
    let mut program = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let half =
        |program: &mut Vec<u8>, values: &[u16]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    let word =
        |program: &mut Vec<u8>, values: &[u32]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    let long =
        |program: &mut Vec<u8>, values: &[u64]| values.iter().for_each(|value| program.extend(value.to_le_bytes()));
    // ET_EXEC for EM_X86_64; entry, program headers, no sections; sizes and counts.
    half(&mut program, &[2, 62]);
    word(&mut program, &[1]);
    long(&mut program, &[ADDRESS + HEADERS_BYTES, 64, 0]);
    word(&mut program, &[0]);
    half(&mut program, &[64, 56, 1, 0, 0, 0]);
    // PT_LOAD, to be read and run: offset, addresses, sizes, alignment.
    word(&mut program, &[1, 5]);
    long(&mut program, &[0, ADDRESS, ADDRESS, length, length, 4096]);
    program.extend(code);
    program
}
