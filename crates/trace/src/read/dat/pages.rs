//! Pages of the kernel's ring buffer (kernel/trace/ring_buffer.c): a time, a length, and events with the time since the last one.

use std::io::{self, Read, Seek};

use super::events;
use super::input::{Input, damaged, number};
use super::{CpuData, Header};
use crate::collect::Collector;
use crate::read::error::Fault;

/// How a page is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub page_bytes: u32,
    pub long_bytes: usize,
    pub data_offset: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self { page_bytes: 4096, long_bytes: 8, data_offset: 16 }
    }
}

/// How a file's parts are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Zstd,
    Zlib,
}

/// The largest page and the largest packed chunk that are accepted.
const LARGEST_PAGE: u32 = 1 << 20;
const LARGEST_CHUNK: u32 = 64 << 20;

/// Bits of a page's length.
const LENGTH: u64 = (1 << 27) - 1;
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;

impl Packing {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "zstd" => Some(Self::Zstd),
            "zlib" => Some(Self::Zlib),
            _ => None,
        }
    }

    /// Unpacks to exactly `bytes`.
    pub fn unpack(self, packed: &[u8], bytes: u32) -> io::Result<Vec<u8>> {
        if bytes > LARGEST_CHUNK {
            return Err(damaged("a packed part is too large"));
        }
        let limit = u64::from(bytes);
        let mut unpacked = Vec::new();
        match self {
            Self::None => unpacked.extend_from_slice(packed),
            Self::Zlib => drop(flate2::read::ZlibDecoder::new(packed).take(limit).read_to_end(&mut unpacked)?),
            Self::Zstd => {
                let decoder = ruzstd::decoding::StreamingDecoder::new(packed);
                let decoder = decoder.map_err(|cause| damaged(&cause.to_string()))?;
                decoder.take(limit).read_to_end(&mut unpacked)?;
            }
        }
        if unpacked.len() as u64 != limit {
            return Err(damaged("a packed part is cut"));
        }
        Ok(unpacked)
    }
}

/// Reads all pages of a CPU.
pub fn read(
    input: &mut Input<impl Read + Seek>,
    header: &Header,
    data: CpuData,
    packing: Packing,
    collector: &mut Collector,
) -> Result<(), Fault> {
    let page_bytes = header.layout.page_bytes;
    if !(64..=LARGEST_PAGE).contains(&page_bytes) {
        return Err(damaged("its pages have an impossible size").into());
    }
    if data.bytes == 0 {
        return Ok(());
    }
    input.go_to(data.offset)?;
    let mut reader = Reader { header, cpu: data.cpu, is_big_endian: input.is_big_endian, time: 0 };
    if packing == Packing::None {
        let mut page = vec![0; page_bytes as usize];
        for _ in 0..data.bytes / u64::from(page_bytes) {
            input.fill(&mut page)?;
            reader.page(&page, collector)?;
        }
        return Ok(());
    }
    for _ in 0..input.u32()? {
        let (packed, unpacked) = (input.u32()?, input.u32()?);
        let packed = input.bytes(u64::from(packed))?;
        for page in packing.unpack(&packed, unpacked)?.chunks_exact(page_bytes as usize) {
            reader.page(page, collector)?;
        }
    }
    Ok(())
}

struct Reader<'h> {
    header: &'h Header,
    cpu: u16,
    is_big_endian: bool,
    /// Of the last event, in the trace's clock.
    time: u64,
}

impl Reader<'_> {
    fn number(&self, bytes: &[u8]) -> u64 {
        number(bytes, self.is_big_endian)
    }

    fn page(&mut self, page: &[u8], collector: &mut Collector) -> Result<(), Fault> {
        let Layout { long_bytes, data_offset, .. } = self.header.layout;
        let commit = self.number(&page[8..8 + long_bytes]);
        self.time = self.number(&page[..8]);
        let Some(events) = page.get(data_offset..).and_then(|data| data.get(..(commit & LENGTH) as usize)) else {
            return Err(damaged("a page is longer than pages are").into());
        };
        if commit & MISSED != 0 {
            let end = data_offset + events.len();
            let stored = page.get(end..end + long_bytes).filter(|_| commit & MISSED_STORED != 0);
            collector.lost(self.cpu, stored.map_or(0, |count| self.number(count)));
        }
        let mut rest = events;
        while let Some((event, following)) = self.split(rest)? {
            if let Some(bytes) = event {
                events::take(self.header, self.cpu, self.nanoseconds(), bytes, self.is_big_endian, collector)?;
            }
            rest = following;
        }
        Ok(())
    }

    /// Splits off the next event: `None` inside for one without data, `None` outside at the end.
    #[allow(clippy::type_complexity, reason = "both are slices of the page")]
    fn split<'p>(&mut self, rest: &'p [u8]) -> io::Result<Option<(Option<&'p [u8]>, &'p [u8])>> {
        let Some((word, after)) = rest.split_at_checked(4) else { return Ok(None) };
        let word = self.number(word);
        let (kind, delta) = if self.is_big_endian { (word >> 27, word & LENGTH) } else { (word & 31, word >> 5) };
        let first = after.get(..4).map(|bytes| self.number(bytes));
        let cut = || damaged("an event is cut");
        let split = |bytes: u64| after.split_at_checked(bytes as usize).ok_or_else(cut);
        match kind {
            // The rest of the page is empty.
            29 if delta == 0 => Ok(None),
            29 => {
                self.time = self.time.wrapping_add(delta);
                Ok(Some((None, split(first.ok_or_else(cut)?)?.1)))
            }
            30 => {
                self.time = self.time.wrapping_add((first.ok_or_else(cut)? << 27) + delta);
                Ok(Some((None, split(4)?.1)))
            }
            31 => {
                // 59 bits of a time; the upper ones are those of the last.
                self.time = self.time >> 59 << 59 | ((first.ok_or_else(cut)? << 27) + delta);
                Ok(Some((None, split(4)?.1)))
            }
            0 => {
                self.time = self.time.wrapping_add(delta);
                let (event, following) = split(first.ok_or_else(cut)?)?;
                Ok(Some((Some(event.get(4..).ok_or_else(cut)?), following)))
            }
            words => {
                self.time = self.time.wrapping_add(delta);
                let (event, following) = split(words * 4)?;
                Ok(Some((Some(event), following)))
            }
        }
    }

    fn nanoseconds(&self) -> u64 {
        match self.header.cycles {
            Some((multiplier, shift)) => ((u128::from(self.time) * u128::from(multiplier)) >> shift) as u64,
            None => self.time,
        }
    }
}
