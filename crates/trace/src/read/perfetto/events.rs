//! The events that answers need, from their messages.

use super::bundle::context;
use super::{Reader, TooManyEvents, tid};
use crate::collect;
use crate::model::{Event, Kind, Tid};
use crate::perfetto_schema::{BinderTransaction, Event as Message, FtraceEvent, SchedSwitch, Wakeup};
use crate::read::marker;

impl Reader<'_> {
    /// Adds the event.
    pub(super) fn event(
        &mut self,
        sequence: u32,
        cpu: u16,
        time_ns: u64,
        event: &FtraceEvent,
    ) -> Result<(), TooManyEvents> {
        let Some(message) = &event.event else {
            self.collector.skip();
            return Ok(());
        };
        let kind = match message {
            Message::SchedSwitch(switch) => return self.switch(cpu, time_ns, event, switch),
            message => self.kind(sequence, time_ns, event.pid, message),
        };
        let Some(kind) = kind else {
            self.collector.skip();
            return Ok(());
        };
        self.collector.push(Event { time_ns, tid: event.pid, cpu, context: context(event.common_flags), kind })
    }

    fn switch(
        &mut self,
        cpu: u16,
        time_ns: u64,
        event: &FtraceEvent,
        switch: &SchedSwitch,
    ) -> Result<(), TooManyEvents> {
        let (Some(before), Some(next)) = (tid(switch.prev_pid), tid(switch.next_pid)) else {
            self.damaged += 1;
            self.lose(cpu);
            return Ok(());
        };
        self.name(before, time_ns, &switch.prev_comm);
        self.name(next, time_ns, &switch.next_comm);
        if let Some(priority) = switch.next_prio {
            self.collector.priority(next, time_ns, priority.into());
        }
        self.running.insert(cpu, Some(next));
        let kind = Kind::Switch { next, leaving: self.collector.leaving(switch.prev_state as u64) };
        self.collector.push(Event { time_ns, tid: before, cpu, context: context(event.common_flags), kind })
    }

    fn name(&mut self, tid: Tid, time_ns: u64, name: &[u8]) {
        self.collector.name(tid, time_ns, &String::from_utf8_lossy(name));
    }

    fn kind(&mut self, sequence: u32, time_ns: u64, running: Tid, message: &Message) -> Option<Kind> {
        Some(match message {
            Message::SchedWaking(wakeup) => {
                let (target, cpu) = self.woken(time_ns, wakeup)?;
                Kind::Waking { target, cpu }
            }
            Message::SchedWakeup(wakeup) | Message::SchedWakeupNew(wakeup) => {
                let (target, cpu) = self.woken(time_ns, wakeup)?;
                Kind::Woken { target, cpu, is_new: matches!(message, Message::SchedWakeupNew(_)) }
            }
            Message::SchedMigrateTask(of) => {
                Kind::Migrated { target: tid(of.pid)?, cpu: u16::try_from(of.dest_cpu).ok()? }
            }
            Message::CpuFrequency(of) => Kind::Frequency { cpu: u16::try_from(of.cpu_id).ok()?, khz: of.state },
            Message::CpuFrequencyLimits(of) => {
                Kind::FrequencyLimit { cpu: u16::try_from(of.cpu_id).ok()?, khz: of.max_freq }
            }
            Message::SchedBlockedReason(of) => {
                let function = self.functions.get(&(sequence, of.caller)).copied();
                Kind::BlockedReason { target: tid(of.pid)?, is_io: of.io_wait != 0, function }
            }
            Message::DirectReclaimBegin(_) => Kind::ReclaimBegin,
            Message::DirectReclaimEnd(_) => Kind::ReclaimEnd,
            Message::SysEnter(of) if self.futex.contains(&of.id) => Kind::LockBegin,
            Message::SysExit(of) if self.futex.contains(&of.id) => Kind::LockEnd,
            Message::BlockRqIssue(of) => Kind::BlockIssue { device: device(of.dev) },
            Message::BlockRqComplete(of) => Kind::BlockComplete { device: device(of.dev) },
            Message::BinderTransaction(of) => Kind::BinderCall(call(of)?),
            Message::BinderTransactionReceived(of) => Kind::BinderReceived { id: of.debug_id as u32 },
            Message::Print(print) => {
                marker::kind(&String::from_utf8_lossy(&print.buf), time_ns, running, self.collector)?
            }
            Message::Generic(of) => match &of.event_name[..] {
                b"page_fault_user" => Kind::PageFault,
                b"sys_enter_futex" | b"contention_begin" => Kind::LockBegin,
                b"sys_exit_futex" | b"contention_end" => Kind::LockEnd,
                _ => return None,
            },
            message => self.life(time_ns, running, message)?,
        })
    }

    fn woken(&mut self, time_ns: u64, of: &Wakeup) -> Option<(Tid, Option<u16>)> {
        let target = tid(of.pid)?;
        self.name(target, time_ns, &of.comm);
        Some((target, u16::try_from(of.target_cpu).ok()))
    }

    /// Births, deaths and renamings.
    fn life(&mut self, time_ns: u64, running: Tid, message: &Message) -> Option<Kind> {
        match message {
            Message::SchedProcessExit(_) => Some(Kind::Exit),
            Message::SchedProcessFork(of) => {
                let child = tid(of.child_pid)?;
                self.name(child, time_ns, &of.child_comm);
                Some(Kind::Fork { child })
            }
            Message::TaskNewtask(of) => {
                let child = tid(of.pid)?;
                self.name(child, time_ns, &of.comm);
                self.collector.born(child, running, of.clone_flags);
                Some(Kind::Fork { child })
            }
            Message::TaskRename(of) => {
                self.name(tid(of.pid)?, time_ns, &of.newcomm);
                None
            }
            Message::SchedProcessExec(of) => {
                self.collector.executed(running, time_ns, &String::from_utf8_lossy(&of.filename));
                None
            }
            _ => None,
        }
    }
}

fn call(of: &BinderTransaction) -> Option<crate::model::Call> {
    let reply = u64::from(of.reply != 0);
    Some(collect::call(of.debug_id as u32, tid(of.to_proc)?, reply, u64::from(of.flags)))
}

/// The kernel's number of the device (major << 20 | minor) from that of makedev(3), which Perfetto writes.
fn device(of: u64) -> u32 {
    let major = (of >> 8 & 0xfff) as u32;
    let minor = (of & 0xff | of >> 12 & 0xf_ff00) as u32;
    major << 20 | minor
}
