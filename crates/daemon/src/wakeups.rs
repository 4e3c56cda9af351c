//! Handles everything that wakes the daemon.

use std::time::Duration;

use super::poller::Token;
use super::sensor::processes::fetch_facts;
use super::signals::Signals;
use super::{Engine, REAL_TIME};
use brisk_mechanism::{Event, Process, ProcessEvent, ProcessEventKind};
use brisk_sys::BootTime;
use brisk_sys::process::process_events::monotonic_ns;
use brisk_sys::sched::own_policy;
use brisk_sys::system::session::Sessions;

impl Engine {
    pub(super) fn handle(&mut self, token: Token) {
        let now = BootTime::now();
        match token {
            Token::Stop => self.stopping = true,
            Token::Reload => {
                self.signals.iter().for_each(Signals::drain_reload);
                self.reload(now);
            }
            Token::Timer => self.handle_timer(now),
            Token::Processes => self.handle_processes(),
            Token::CpufreqFiles => {
                if let Some(files) = &self.subscriptions.cpufreq_files {
                    files.drain();
                }
                self.probe_soon(now);
            }
            Token::Uevents => {
                if self.subscriptions.uevents.as_ref().is_some_and(|objects| objects.drain()) {
                    self.probe_soon(now);
                }
            }
            Token::Foreground => self.handle_foreground(now),
            Token::Session => self.handle_session(now),
            Token::Guardian => self.handle_guardian_exit(now),
            Token::Child(index) => self.read_child_output(now, index as usize),
            Token::Pressure => drop(self.dispatch(now, &Event::MemoryStall)),
            Token::Listener => self.with_normal_priority(|engine| {
                if let Some(control) = &mut engine.control {
                    control.accept(now, &engine.poller);
                }
            }),
            Token::Client(number) => self.with_normal_priority(|engine| engine.serve(number, now)),
            Token::Exit(pid) => self.handle_exit(now, pid),
        }
    }

    pub(super) fn handle_timer(&mut self, now: BootTime) {
        self.timer.acknowledge();
        if self.mechanisms.deadline().is_some_and(|deadline| deadline <= now) {
            self.dispatch(now, &Event::Deadline);
        }
        if let Some(busy_permille) = self.subscriptions.load.sample(now, &self.options.root) {
            self.dispatch(now, &Event::Load { busy_permille });
        }
        if self.subscriptions.stalls.sample(now, &self.options.root) {
            self.dispatch(now, &Event::MemoryStall);
        }
        // A new session watch reports the present foreground without waiting for a change.
        if self.subscriptions.sessions.as_ref().is_some_and(|sessions| sessions.is_new) {
            self.handle_session(now);
        }
        if self.subscriptions.threads.deadline().is_some_and(|due| due <= now) {
            self.with_normal_priority(|engine| engine.sample_threads(now));
        }
        let mut ended = self.executor.expire(now);
        ended.append(&mut self.executor.lost());
        self.deliver_ended(now, ended);
        if self.executor.has_restored_late() {
            self.probe_soon(now);
        }
        self.replace_guardian(now);
        if let Some(control) = self.control.as_mut().filter(|control| control.deadline().is_some_and(|due| due <= now))
        {
            control.expire(now, &self.poller);
        }
        // The answers to pending questions may change the foreseen actions.
        if self.questions.is_empty() && self.preview_output.due.is_some_and(|due| due <= now) {
            self.with_normal_priority(|engine| engine.print_previews(now));
        }
        self.start_children(now);
        if self.probe_due.is_some_and(|due| due <= now) {
            self.probe_due = None;
            self.probe(now);
        }
    }

    pub(super) fn sample_threads(&mut self, now: BootTime) {
        let demand = self.mechanisms.thread_demand();
        if let Some(event) = self.subscriptions.threads.sample(now, &self.options.root, &demand) {
            self.dispatch(now, &event);
        }
    }

    /// Does work that is not urgent as an ordinary task: a real-time task would delay all others on its CPU, even audio.
    pub(super) fn with_normal_priority(&mut self, work: impl FnOnce(&mut Self)) {
        let is_ordinary = self.scheduling == REAL_TIME && own_policy::become_ordinary().is_ok();
        work(self);
        if is_ordinary && let Err(error) = own_policy::become_real_time() {
            self.scheduling = format!("ordinary ({error})");
        }
    }

    /// Does urgent work for a client as a real-time task: its announcement is as urgent as an event.
    pub(super) fn with_real_time_priority<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let is_real_time = self.scheduling == REAL_TIME && own_policy::become_real_time().is_ok();
        let done = work(self);
        if is_real_time && let Err(error) = own_policy::become_ordinary() {
            tracing::debug!("clients are served in real time: {error}");
        }
        done
    }

    pub(super) fn handle_processes(&mut self) {
        let Some(mut processes) = self.subscriptions.processes.take() else { return };
        let woken_ns = monotonic_ns();
        let received = processes.receive();
        loop {
            let ignored = |kind, pid| self.mechanisms.ignore(BootTime::now(), kind, pid);
            let next = processes.next(&self.options.root, &self.subscriptions.interest(), ignored);
            let Some(timed_event) = next else { break };
            let now = BootTime::now();
            if timed_event.event == Event::ProcessEventsLost {
                self.metrics.process_events_lost += 1;
                for pid in self.subscriptions.exits.exited(&self.options.root) {
                    self.handle_exit(now, pid);
                }
            } else {
                self.metrics.process_events += 1;
            }
            if self.dispatch(now, &timed_event.event) && timed_event.monotonic_ns > 0 {
                let written_ns = monotonic_ns();
                let since = |start_ns| Duration::from_nanos(written_ns.saturating_sub(start_ns));
                self.metrics.event_to_write.observe(since(timed_event.monotonic_ns));
                self.metrics.wake_to_write.observe(since(woken_ns));
            }
        }
        self.subscriptions.processes = Some(processes);
        if let Err(error) = received {
            tracing::error!("{error}; subscribing again");
            self.subscriptions.close_processes(&self.poller);
        }
        self.update_subscriptions(BootTime::now());
    }

    pub(super) fn handle_foreground(&mut self, now: BootTime) {
        let pids = match self.subscriptions.foreground.as_mut().map(|foreground| {
            foreground.moved()?;
            foreground.pids()
        }) {
            Some(Ok(pids)) => pids,
            Some(Err(error)) => return tracing::warn!("{}", error.with_advice()),
            None => return,
        };
        self.dispatch_foreground(now, pids);
    }

    pub(super) fn handle_session(&mut self, now: BootTime) {
        match self.subscriptions.sessions.as_mut().map(Sessions::pids) {
            Some(Ok(pids)) => {
                self.dispatch(now, &Event::Session { pids });
                self.sample_new_foreground(now);
            }
            Some(Err(error)) => tracing::warn!("{}", error.with_advice()),
            None => {}
        }
    }

    pub(super) fn dispatch_foreground(&mut self, now: BootTime, pids: Vec<u32>) {
        let facts = self.subscriptions.interest().facts;
        let processes = pids.into_iter().map(|pid| {
            let mut process = Process { pid, ..Process::default() };
            fetch_facts(&self.options.root, &mut process, facts);
            process
        });
        let event = Event::Foreground { processes: processes.collect() };
        self.dispatch(now, &event);
        self.sample_new_foreground(now);
    }

    pub(super) fn sample_new_foreground(&mut self, now: BootTime) {
        if self.mechanisms.interest().samples_new_foreground {
            self.subscriptions.threads.sample_now(now);
        }
    }

    pub(super) fn handle_exit(&mut self, now: BootTime, pid: u32) {
        let process = Process { pid, ..Process::default() };
        self.dispatch(now, &Event::Process(ProcessEvent { kind: ProcessEventKind::Exit, process }));
    }
}
