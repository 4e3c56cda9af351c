//! What a thread is in the middle of, for the cause of its next wait.

use std::collections::HashSet;

use super::{Wait, Waker};
use crate::model::{Call, Leaving, Symbol, Tid};

/// Deeper nesting is forged; it is counted, not kept.
const DEEPEST: usize = 256;

/// What one thread is in the middle of.
#[derive(Debug, Clone, Default)]
pub struct Doing {
    /// Woken while it ran: its next wait may have ended before it left the CPU.
    pub is_woken: bool,
    pub is_reclaiming: bool,
    pub has_faulted: bool,
    pub is_locking: bool,
    /// The device of its last request to storage since it runs.
    pub issued: Option<u32>,
    /// The file that it reads, and whether that is known until it comes to a CPU only.
    reads: Option<(Symbol, bool)>,
    /// Its last wait.
    pub wait: Option<u32>,
    /// The open slices of atrace: whether each waits for a monitor.
    slices: Vec<bool>,
    /// Slices that are open beyond [`DEEPEST`].
    deeper: u32,
    /// The processes of its open synchronous calls.
    calls: Vec<Tid>,
}

impl Doing {
    pub fn begin_slice(&mut self, is_lock: bool) {
        if self.slices.len() < DEEPEST {
            self.slices.push(is_lock);
        } else {
            self.deeper = self.deeper.saturating_add(1);
        }
    }

    pub fn end_slice(&mut self) {
        match self.deeper {
            0 => drop(self.slices.pop()),
            _ => self.deeper -= 1,
        }
    }

    pub fn reads(&mut self, file: Option<Symbol>, is_brief: bool) {
        let is_within_another = is_brief && self.reads.is_some_and(|(_, is_brief)| !is_brief);
        if !is_within_another {
            self.reads = file.map(|file| (file, is_brief));
        }
    }

    /// It comes to a CPU.
    pub fn enter(&mut self) {
        self.reads = self.reads.filter(|(_, is_brief)| !is_brief);
        (self.is_woken, self.has_faulted, self.issued) = (false, false, None);
    }

    /// It leaves a CPU and waits.
    pub fn wait(&mut self, leaving: Leaving) -> Wait {
        let is_uninterruptible = leaving == Leaving::Uninterruptible;
        Wait {
            leaving,
            waker: Waker::Unknown,
            is_reclaiming: self.is_reclaiming,
            is_fault: self.has_faulted && is_uninterruptible,
            is_lock: self.is_locking || self.deeper == 0 && self.slices.last() == Some(&true),
            called: self.calls.last().copied(),
            is_io: false,
            device: None,
            file: self.reads.map(|(file, _)| file),
            function: None,
        }
    }
}

/// Replies of binder that their callers have not received yet.
#[derive(Debug, Default)]
pub struct Replies(HashSet<u32>);

impl Replies {
    /// `doing` is that of the thread that sent the call or the reply.
    pub fn sent(&mut self, call: Call, doing: &mut Doing) {
        if call.is_reply {
            self.0.insert(call.id);
        } else if !call.is_one_way && doing.calls.len() < DEEPEST {
            doing.calls.push(call.process);
        }
    }

    /// `doing` is that of the receiver.
    pub fn received(&mut self, id: u32, doing: &mut Doing) {
        if self.0.remove(&id) {
            doing.calls.pop();
        }
    }
}
