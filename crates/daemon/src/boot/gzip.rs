//! Writes a gzip file (RFC 1952).
//!
//! flate2 compresses. Its own gzip encoder needs a table of 16 KiB for the checksum, too much for a device's program.

use std::io::{self, Write};

use crc::{CRC_32_ISO_HDLC, Crc, Digest};
use flate2::Compression;
use flate2::write::DeflateEncoder;

static CHECKSUM: Crc<u32> = Crc::<u32>::new(&CRC_32_ISO_HDLC);
/// Compressed by deflate, without a name and a time, by the fastest method, on an unknown system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff];

/// Compresses what is written to it into `W`.
pub(super) struct GzipEncoder<W: Write> {
    deflate: DeflateEncoder<W>,
    checksum: Digest<'static, u32>,
    /// Modulo 2^32, as the format has it.
    size_bytes: u32,
}

impl<W: Write> GzipEncoder<W> {
    /// Writes the header.
    pub(super) fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        let deflate = DeflateEncoder::new(out, Compression::fast());
        Ok(Self { deflate, checksum: CHECKSUM.digest(), size_bytes: 0 })
    }

    /// Writes the rest, the checksum and the size.
    pub(super) fn finish(self) -> io::Result<W> {
        let mut out = self.deflate.finish()?;
        out.write_all(&self.checksum.finalize().to_le_bytes())?;
        out.write_all(&self.size_bytes.to_le_bytes())?;
        Ok(out)
    }
}

impl<W: Write> Write for GzipEncoder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.deflate.write(bytes)?;
        self.checksum.update(&bytes[..taken]);
        self.size_bytes = self.size_bytes.wrapping_add(taken as u32);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.deflate.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    // Verifies BOOT-1.
    #[test]
    fn a_gzip_reader_gets_back_what_was_written_and_checks_it() {
        for size in [0, 1, 511, 70_000, 1_000_000] {
            let bytes: Vec<u8> = (0..size as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
            let mut encoder = GzipEncoder::begin(Vec::new()).unwrap();
            bytes.chunks(777).for_each(|piece| encoder.write_all(piece).unwrap());
            let mut packed = encoder.finish().unwrap();
            let mut unpacked = Vec::new();
            GzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
            assert!(unpacked == bytes, "{size} bytes");
            // Each byte of the checksum and of the size counts.
            for at in packed.len() - 8..packed.len() {
                packed[at] ^= 1;
                assert!(GzDecoder::new(packed.as_slice()).read_to_end(&mut Vec::new()).is_err(), "{size} bytes, {at}");
                packed[at] ^= 1;
            }
        }
    }
}
