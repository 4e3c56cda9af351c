//! Numbers and strings of a file, in its byte order.

use std::io::{self, BufRead as _, BufReader, Read, Seek, SeekFrom};

/// More than any section but the events has.
const MAX_BYTES: u64 = 256 << 20;
const LONGEST_STRING: u64 = 4096;

/// A file with its byte order.
pub struct Input<R> {
    file: BufReader<R>,
    pub is_big_endian: bool,
    bytes: u64,
}

/// A fault of the file's content.
pub fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file is damaged: {what}"))
}

impl<R: Read + Seek> Input<R> {
    pub fn new(mut file: R) -> io::Result<Self> {
        let bytes = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Self { file: BufReader::with_capacity(64 * 1024, file), is_big_endian: false, bytes })
    }

    /// Reads the first bytes of any version, which is returned.
    pub fn begin(&mut self) -> io::Result<u32> {
        self.skip(super::MAGIC.len() as u64)?;
        let version = self.string()?;
        self.is_big_endian = self.bytes(1)?[0] != 0;
        self.skip(1)?;
        version.parse().map_err(|_| damaged("its version is no number"))
    }

    /// The next `count` bytes. A count beyond the file's end is refused before memory is taken.
    pub fn bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        if count > MAX_BYTES || count > self.bytes {
            return Err(damaged("a size is larger than the file"));
        }
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact(bytes)
    }

    pub fn skip(&mut self, count: u64) -> io::Result<()> {
        let count = i64::try_from(count).map_err(|_| damaged("a size is larger than any file"))?;
        self.file.seek_relative(count)
    }

    pub fn go_to(&mut self, offset: u64) -> io::Result<()> {
        if offset > self.bytes {
            return Err(damaged("an offset is beyond its end"));
        }
        self.file.seek(SeekFrom::Start(offset)).map(drop)
    }

    pub fn u16(&mut self) -> io::Result<u16> {
        Ok(number(&self.bytes(2)?, self.is_big_endian) as u16)
    }

    pub fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact(&mut bytes)?;
        Ok(number(&bytes, self.is_big_endian) as u32)
    }

    pub fn u64(&mut self) -> io::Result<u64> {
        Ok(number(&self.bytes(8)?, self.is_big_endian))
    }

    /// A string that ends with a zero.
    pub fn string(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        (&mut self.file).take(LONGEST_STRING).read_until(0, &mut bytes)?;
        if bytes.pop() != Some(0) {
            return Err(damaged("a string has no end"));
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// An unsigned number of at most eight bytes.
pub fn number(bytes: &[u8], is_big_endian: bool) -> u64 {
    let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
    if is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) }
}
