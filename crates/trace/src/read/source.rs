//! The bytes of a file, unpacked.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};

/// More than any recording; it ends an archive that unpacks without end.
const MAX_BYTES: u64 = 16 << 30;
const BUFFER_BYTES: usize = 256 * 1024;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// What `atrace -z` writes before zlib's bytes.
const ATRACE: &[u8] = b"TRACE:";

/// Unpacks gzip, zstd and `atrace -z`; other bytes pass unchanged.
pub fn plain<'a>(input: impl Read + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, input);
    let start = input.fill_buf()?;
    if start.starts_with(&GZIP) {
        return Ok(bounded(MultiGzDecoder::new(input)));
    }
    if start.starts_with(&ZSTD) {
        let unpacker = ruzstd::decoding::StreamingDecoder::new(input);
        return Ok(bounded(unpacker.map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause.to_string()))?));
    }
    if let Some(after) = start.strip_prefix(ATRACE) {
        let line_ends = after.iter().take_while(|byte| **byte == b'\r' || **byte == b'\n').count();
        // zlib's first byte for a window of 32 KiB; other text follows where atrace did not pack.
        let is_packed = after.get(line_ends) == Some(&0x78);
        input.consume(ATRACE.len() + line_ends);
        if is_packed {
            return Ok(bounded(ZlibDecoder::new(input)));
        }
    }
    Ok(Box::new(input))
}

fn bounded<'a>(unpacker: impl Read + 'a) -> Box<dyn BufRead + 'a> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, unpacker.take(MAX_BYTES)))
}
