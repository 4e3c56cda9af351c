//! Writes a recording atomically, as a gzipped tar archive, to the first place that takes it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use brisk_mechanism::boot::Tape;
use brisk_mechanism::boot::logs::LOGS;
use brisk_sys::{Root, durable_file};

use super::gzip::GzipEncoder;

/// The default outputs for a recording: first those that survive a reboot.
pub const DEFAULT_OUTPUTS: [&str; 4] =
    ["/var/log/brisk-boot.tgz", "/data/misc/brisk/boot.tgz", "/run/brisk-boot.tgz", "/dev/brisk-boot.tgz"];
const CHUNK_BYTES: usize = 64 * 1024;
/// tar's block size.
const BLOCK_BYTES: u64 = 512;

/// Writes the recording to the first of `outputs` (named as on the device, below `init_root`) that takes it, and returns that
/// place and the size in bytes.
///
/// # Errors
/// Each place with its reason, when none takes it.
pub fn write(init_root: &Root, outputs: &[PathBuf], header: &str, tape: &Tape) -> Result<(PathBuf, u64), Vec<String>> {
    let mut reasons = Vec::new();
    for place in outputs {
        match write_file(&init_root.path(place), header, tape) {
            Ok(bytes) => return Ok((place.clone(), bytes)),
            Err(error) => reasons.push(format!("{}: {error}", place.display())),
        }
    }
    Err(reasons)
}

fn write_file(path: &Path, header: &str, tape: &Tape) -> io::Result<u64> {
    let draft = path.with_extension("partial");
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let written = write_draft(&draft, header, tape).and_then(|bytes| fs::rename(&draft, path).map(|()| bytes));
    // An incomplete draft would only fill the disk.
    written.inspect_err(|_| drop(fs::remove_file(&draft)))
}

fn write_draft(draft: &Path, header: &str, tape: &Tape) -> io::Result<u64> {
    let file = durable_file::draft(draft, 0o644)?;
    // Logs are written a few bytes at a time, which is expensive in the encoder.
    let mut out = BufWriter::with_capacity(CHUNK_BYTES, GzipEncoder::begin(file)?);
    member(&mut out, "header", &|out| out.write_all(header.as_bytes()))?;
    for (name, write) in LOGS {
        member(&mut out, name, &|out| write(tape, out))?;
    }
    // An archive ends with two empty blocks.
    out.write_all(&[0; 2 * BLOCK_BYTES as usize])?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    // The user who records a boot may cut the power right afterwards.
    file.sync_all()?;
    Ok(file.metadata()?.len())
}

/// Adds a file. Calls `write` twice, since tar needs the size before the first byte. Leaves out an empty file.
fn member(out: &mut dyn Write, name: &str, write: &dyn Fn(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut counter = Counter(0);
    write(&mut counter)?;
    let Counter(bytes) = counter;
    if bytes == 0 {
        return Ok(());
    }
    let mut header = tar::Header::new_ustar();
    header.set_path(name)?;
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_cksum();
    out.write_all(header.as_bytes())?;
    write(out)?;
    let padding = bytes.next_multiple_of(BLOCK_BYTES) - bytes;
    out.write_all(&[0; BLOCK_BYTES as usize][..padding as usize])
}

/// Counts the bytes written to it.
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;
    use brisk_mechanism::boot::tape::RowKind;

    fn tape() -> Tape {
        let mut tape = Tape::new(1 << 20);
        for moment in 0..50u64 {
            tape.begin(1000 + moment * 40);
            let row = if moment == 0 { tape.row(RowKind::Cpu, "cpu", 8) } else { 0 };
            tape.put(row, &[moment + 1, 0, 0, moment, 0, 0, 0, 0], 1);
        }
        tape
    }

    // Verifies SECURITY-2, BOOT-1.
    #[test]
    fn the_first_writable_place_gets_the_whole_archive() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        // A file in place of a folder fails, like a read-only disk.
        fs::write(folder.path().join("taken"), "").unwrap();
        // And a link at the draft's path, which another user may have put into its own folder.
        fs::create_dir_all(root.path("/var/log")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("taken"), root.path("/var/log/boot.partial")).unwrap();
        let outputs = ["/taken/boot.tgz", "/var/log/boot.tgz", "/run/boot.tgz"].map(PathBuf::from);
        let (place, bytes) = write(&root, &outputs, "version = 0.8\n", &tape()).unwrap();
        assert_eq!(place, outputs[1]);
        let packed = fs::read(root.path(&place)).unwrap();
        assert_eq!(packed.len() as u64, bytes);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        let mut found = Vec::new();
        for member in archive.entries().unwrap() {
            let mut member = member.unwrap();
            let mut text = String::new();
            member.read_to_string(&mut text).unwrap();
            found.push((member.path().unwrap().display().to_string(), text.lines().count()));
        }
        assert_eq!(found, [("header".to_owned(), 1), ("proc_stat.log".to_owned(), 150)]);
        let left: Vec<_> = fs::read_dir(root.path("/var/log")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["boot.tgz"], "no draft is left");
        assert_eq!(fs::read_to_string(folder.path().join("taken")).unwrap(), "", "nothing is written through a link");
    }

    // Verifies BOOT-1.
    #[test]
    fn without_a_writable_place_each_one_has_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("taken"), "").unwrap();
        let outputs = ["/taken/a.tgz", "/taken/b/c.tgz"].map(PathBuf::from);
        let reasons = write(&Root::at(folder.path()), &outputs, "", &tape()).unwrap_err();
        assert!(reasons.len() == 2 && reasons[0].starts_with("/taken/a.tgz: "), "{reasons:?}");
    }
}
