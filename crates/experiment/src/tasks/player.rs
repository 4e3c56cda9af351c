//! A music player: it decodes FLAC, a period of 20 ms at a time, into a buffer of four periods, as aplay(1) has.

use std::hint::black_box;
use std::io::{self, Read};
use std::mem;
use std::time::Duration;

use claxon::FlacReader;

use super::TaskRunner;
use super::periodic::PeriodicResult;

/// One second of music of our own (see this file's tests) at 44.1 kHz in stereo: 50 frames of 882 samples.
const FILE: &[u8] = include_bytes!("music.flac");
/// The length of a frame, which fills a period of the buffer.
const PERIOD: Duration = Duration::from_millis(20);
/// Periods that are still to be played when the next becomes free: all of the buffer but that one.
const PERIODS_AHEAD: u32 = 3;

/// The file without end: its music again and again after its metadata.
struct Endless {
    position: usize,
    music_start: usize,
}

impl Endless {
    fn new() -> Self {
        Self { position: 0, music_start: music_start(FILE).unwrap_or(FILE.len()) }
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.position == FILE.len() {
            self.position = self.music_start;
        }
        let count = (&FILE[self.position..]).read(buffer)?;
        self.position += count;
        Ok(count)
    }
}

/// Where the first frame is: after blocks of metadata, each with one byte of which the highest bit marks the last block, and
/// with its length in three bytes (RFC 9639, section 8).
fn music_start(file: &[u8]) -> Option<usize> {
    let mut position = b"fLaC".len();
    loop {
        let &[kind, high, middle, low] = file.get(position..position + 4)? else { return None };
        position += 4 + u32::from_be_bytes([0, high, middle, low]) as usize;
        if kind & 0x80 != 0 {
            return Some(position);
        }
    }
}

impl TaskRunner {
    /// Decodes a period whenever one becomes free, while `should_run`. It is missed when the others have been played before it is
    /// decoded. The decoder takes as long as the CPU needs: time dilation changes its periods only.
    ///
    /// # Errors
    /// When the file cannot be decoded.
    pub(super) fn play(&self, should_run: impl FnMut(&PeriodicResult) -> bool) -> io::Result<()> {
        let mut reader = FlacReader::new(Endless::new()).map_err(io::Error::other)?;
        let mut frames = reader.blocks();
        let mut samples = Vec::new();
        let mut outcome = Ok(());
        let decode = || match frames.read_next_or_eof(mem::take(&mut samples)) {
            Ok(Some(block)) => samples = black_box(block).into_buffer(),
            Ok(None) => outcome = Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
            Err(error) => outcome = Err(io::Error::other(error)),
        };
        self.run_at_period((PERIOD, PERIODS_AHEAD), decode, should_run);
        outcome
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;

    const RATE_HZ: usize = 44_100;
    const BLOCK_SAMPLES: usize = 882;
    /// Four notes, each with its third.
    const NOTES_HZ: [[usize; 2]; 4] = [[220, 277], [247, 311], [330, 415], [277, 349]];

    /// The music, left and right: triangle waves that fade, and noise, all in whole numbers so that it is the same everywhere.
    fn music() -> Vec<[i32; 2]> {
        let mut noise: u32 = 1;
        let wave = |sample: usize, hz: usize| {
            let phase = (sample * hz * 65_536 / RATE_HZ % 65_536) as i32;
            (phase - 32_768).abs() - 16_384
        };
        let sample = |index: usize| {
            let length = RATE_HZ / NOTES_HZ.len();
            let ([root, third], age) = (NOTES_HZ[index / length], index % length);
            let volume = (length - age) as i32;
            let faded = |wave: i32| wave / 2 * volume / length as i32;
            noise = noise.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let hiss = ((noise >> 16) & 0x3f) as i32 - 32;
            [faded(wave(index, root)) + hiss, faded(wave(index, third)) - hiss]
        };
        (0..RATE_HZ).map(sample).collect()
    }

    /// `UPDATE_GOLDEN=1` writes the file again with flac(1), of Debian's package of that name.
    fn encode(music: &[[i32; 2]]) {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("music.raw");
        let bytes = music.iter().flatten().flat_map(|&sample| (sample as i16).to_le_bytes());
        fs::write(&raw, bytes.collect::<Vec<u8>>()).unwrap();
        let mut command = Command::new("flac");
        command.args(["--silent", "--force", "--best", "--no-padding", "--no-seektable", "--blocksize=882"]);
        command.args(["--force-raw-format", "--endian=little", "--sign=signed", "--channels=2", "--bps=16"]);
        command.arg("--sample-rate=44100").arg(&raw).arg("-o");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/tasks/music.flac");
        assert!(command.arg(path).status().unwrap().success());
    }

    #[test]
    fn the_player_decodes_the_generated_music_without_end() {
        let music = music();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            encode(&music);
        }
        let mut reader = FlacReader::new(Endless::new()).unwrap();
        let mut frames = reader.blocks();
        for turn in 0..3 {
            for block in music.chunks(BLOCK_SAMPLES) {
                let decoded = frames.read_next_or_eof(Vec::new()).unwrap().unwrap();
                let samples: Vec<[i32; 2]> = decoded.stereo_samples().map(|(left, right)| [left, right]).collect();
                assert_eq!(samples, block, "turn {turn}");
            }
        }
    }

    #[test]
    fn metadata_is_skipped() {
        assert_eq!(music_start(b"fLaC\x00\x00\x00\x02ab\x84\x00\x00\x01c\xff\xf8"), Some(15));
        assert_eq!(music_start(b"fLaC\x80\x00\x00"), None);
    }
}
