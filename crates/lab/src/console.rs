//! Parses a guest's output: bytes into lines, and lines of the kernel that report a fatal failure.

/// A longer line is cut into pieces of this size.
const LINE_LIMIT_BYTES: usize = 1 << 20;

/// Cuts a stream of bytes into lines.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Takes what was read and returns the lines that it completes, without their ends.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.pending.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.pending.len() >= LINE_LIMIT_BYTES {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// The last line, when the stream ends without a line end.
    pub fn rest(&mut self) -> Option<String> {
        if self.pending.is_empty() {
            return None;
        }
        let text = String::from_utf8_lossy(&self.pending);
        let text = text.trim_end_matches(['\n', '\r']).to_owned();
        self.pending.clear();
        Some(text)
    }
}

/// True for a line of the guest's kernel after which it cannot be trusted: panic, oops, lockup, stall, or a finding of its own
/// checks (KASAN, lockdep, a sleep in atomic context). Warnings are only printed from `loglevel=5` on.
///
/// Only lines with printk's time stamp count: a program may print the same words.
pub fn is_fatal(line: &str) -> bool {
    const FATAL_MESSAGES: &[&str] = &[
        "Kernel panic - not syncing",
        "BUG: ",
        "WARNING: ",
        "Oops",
        "general protection fault",
        "Unable to handle kernel",
        "Internal error: ",
        "soft lockup",
        "hard LOCKUP",
        "detected stall",
        "self-detected stall",
    ];
    printk_text(line).is_some_and(|text| FATAL_MESSAGES.iter().any(|sign| text.contains(sign)))
}

/// What follows `[    1.234567] `, and the caller that some kernels put after it (`[    T1] `).
fn printk_text(line: &str) -> Option<&str> {
    let (stamp, text) = line.strip_prefix('[')?.split_once(']')?;
    let (seconds, microseconds) = stamp.trim_start().split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(seconds) && microseconds.len() == 6 && digits(microseconds)).then_some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    #[test]
    fn lines_are_returned_when_they_are_complete() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\r\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\n\nthree \xff\n"), ["two", "", "three \u{fffd}"]);
        assert_eq!(lines.push(b"end"), [""; 0]);
        assert_eq!(lines.rest().as_deref(), Some("end"));
        assert_eq!(lines.rest(), None);
        assert_eq!(lines.push(&vec![b'x'; LINE_LIMIT_BYTES + 1]).len(), 1, "an endless line does not fill memory");
    }

    // Verifies LOOKUP-3, LAB-1.
    #[test]
    fn the_kernels_fatal_lines_are_told_from_a_programs() {
        for (line, expected) in [
            ("[    1.234567] Kernel panic - not syncing: sysrq triggered crash", true),
            ("[  123.000001] watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [brisk:70]", true),
            ("[   12.345678][   T1] BUG: kernel NULL pointer dereference, address: 0000000000000008", true),
            ("[   12.345678] Oops: 0002 [#1] PREEMPT SMP NOPTI", true),
            ("[   12.345678] rcu: INFO: rcu_preempt self-detected stall on CPU", true),
            ("[   12.345678] rcu: INFO: rcu_sched detected stalls on CPUs/tasks:", true),
            ("[    5.000000] Unable to handle kernel paging request at virtual address ffff", true),
            ("[   20.000001] BUG: KASAN: use-after-free in binder_cache_take+0x1f/0x230 [binder_linux]", true),
            ("[   20.000001] WARNING: possible circular locking dependency detected", true),
            ("[   20.000001] BUG: sleeping function called from invalid context at mm/slab.h:420", true),
            ("[   20.000001] WARNING: CPU: 1 PID: 70 at kernel/locking/lockdep.c:4800", true),
            ("[   20.000001] WARNING: suspicious RCU usage", true),
            ("Kernel panic - not syncing: said a program", false),
            ("[note] BUG: in a program", false),
            ("[ 1.5] BUG: in a program", false),
            ("[    1.234567] virtual_cpufreq: loading out-of-tree module taints kernel.", false),
            ("", false),
        ] {
            assert_eq!(is_fatal(line), expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_a_stream_is_cut(bytes in any::<Vec<u8>>(), cut in any::<Index>()) {
            let whole = |pieces: &[&[u8]]| {
                let mut lines = Lines::default();
                let mut all: Vec<String> = pieces.iter().flat_map(|piece| lines.push(piece)).collect();
                all.extend(lines.rest());
                all
            };
            let (start, end) = bytes.split_at(if bytes.is_empty() { 0 } else { cut.index(bytes.len()) });
            prop_assert_eq!(whole(&[&bytes]), whole(&[start, end]));
        }

        #[test]
        fn arbitrary_lines_do_not_panic(line in any::<String>()) {
            is_fatal(&line);
        }
    }
}
