use super::*;
use crate::simulated::Kernel;
use crate::{Action, Effect};

const FOREGROUND: u64 = 10;
const BACKUP: u64 = 20;
const PLAYER: u64 = 30;
const KIB: u64 = 1024;

/// A device whose link has a queue with bands. The foreground (process 1) is in the group `/apps/browser`.
struct Device {
    policy: NetworkContention,
    now: BootTime,
    queue: InterfaceQueue,
    /// The connections of each group, by number.
    sockets: Vec<Socket>,
    foreground: (u64, PathBuf),
    backup: PathBuf,
    kernel: Kernel,
    said: Vec<String>,
    /// How often connections were listed.
    listed: u32,
}

impl Device {
    fn new() -> Self {
        let socket = |cookie, group| Socket { cookie, group, sent_bytes: 1 };
        let interface = "wwan0".to_owned();
        let discipline = "pfifo_fast".to_owned();
        let mut policy = NetworkContention::default();
        policy.replace(true);
        Self {
            policy,
            now: BootTime::from_milliseconds(1000),
            queue: InterfaceQueue { interface, discipline, has_bands: true, sent_bytes: 0, waiting_bytes: 0 },
            sockets: vec![socket(1, FOREGROUND), socket(2, BACKUP), socket(3, PLAYER)],
            foreground: (FOREGROUND, "/apps/browser".into()),
            backup: "/apps/backup".into(),
            kernel: Kernel::default(),
            said: Vec::new(),
            listed: 0,
        }
    }

    fn open(&mut self, foreground: &[u32]) {
        let mut decisions = Vec::new();
        self.policy.update_foreground(self.now, &foreground.iter().copied().collect(), &mut decisions);
        self.carry_out(decisions);
        self.answer();
    }

    fn carry_out(&mut self, decisions: Vec<Decision>) {
        let carry_out = |decision| self.kernel.carry_out(self.now, decision, &mut |_| Ok(()));
        let outcomes: Vec<Outcome> = decisions.iter().map(carry_out).collect();
        self.said.extend(decisions.into_iter().map(|decision| decision.reason));
        self.policy.on_outcomes(self.now, &outcomes);
    }

    fn answer(&mut self) {
        loop {
            let mut questions = Vec::new();
            self.policy.take_questions(&mut questions);
            if questions.is_empty() {
                return;
            }
            for question in questions {
                let facts = match question {
                    Question::NetworkUse { sockets, .. } => {
                        self.listed += u32::from(sockets);
                        let sockets = sockets.then(|| self.sockets.clone());
                        let groups = vec![self.foreground.clone()];
                        Facts::NetworkUse { queues: vec![self.queue.clone()], sockets, groups }
                    }
                    Question::ControlGroups { ids } => {
                        let known =
                            [self.foreground.clone(), (BACKUP, self.backup.clone()), (PLAYER, "/player".into())];
                        let groups = known.into_iter().filter(|(id, _)| ids.contains(id)).collect();
                        Facts::ControlGroups { mount: "/cg".into(), groups }
                    }
                    other => panic!("{other:?}"),
                };
                let mut decisions = Vec::new();
                self.policy.take(self.now, &facts, &mut decisions);
                self.carry_out(decisions);
            }
        }
    }

    /// `ms` milliseconds in which the groups send so many KiB, and at whose end `waiting_kib` wait.
    fn pass(&mut self, ms: u64, kib: [u64; 3], waiting_kib: u64) {
        self.now = self.now + Duration::from_millis(ms);
        for (socket, kib) in self.sockets.iter_mut().zip(kib) {
            socket.sent_bytes += kib * KIB;
            self.queue.sent_bytes += kib * KIB;
        }
        self.queue.waiting_bytes = waiting_kib * KIB;
        let ended = self.kernel.expire(self.now, &mut |_| Ok(()));
        self.policy.on_outcomes(self.now, &ended);
        self.policy.on_deadline(self.now);
        self.answer();
    }

    fn held(&self) -> Vec<String> {
        let believed: Vec<Target> = self.policy.leases.held().map(|(target, _)| target.clone()).collect();
        let held: Vec<Target> = self.kernel.held().into_keys().collect();
        assert_eq!(believed, held, "{:?}", self.said);
        held.iter().map(ToString::to_string).collect()
    }
}

// Verifies PLACE-2.
#[test]
fn a_group_that_fills_the_queue_gives_way_a_tenth_of_a_second_after_the_foreground_came() {
    for (case, kib, waiting_kib, expected) in [
        // 100 KiB are sent in 100 ms, so that 40 KiB take 40 ms.
        ("a backup", [1, 99, 0], 40, true),
        ("a backup beside a player", [1, 60, 39], 40, true),
        ("a short queue", [1, 99, 0], 4, false),
        ("an empty queue", [1, 99, 0], 0, false),
        ("a foreground that sends", [80, 20, 0], 40, false),
        ("little traffic", [0, 1, 0], 40, false),
    ] {
        let mut device = Device::new();
        device.queue.waiting_bytes = waiting_kib * KIB;
        device.open(&[1]);
        assert!(device.held().is_empty(), "{case}: a first sample shows no rate");
        device.pass(100, kib, waiting_kib);
        let held = device.held();
        assert_eq!(!held.is_empty(), expected, "{case}: {:?}", device.said);
        if expected {
            assert!(held[0] == "packets' priority of control group /cg/apps/backup", "{held:?}");
            assert!(device.said[0].starts_with("a packet waits 40 ms in the queue of wwan0"), "{:?}", device.said);
            assert!(device.policy.activity().unwrap().1.contains("/cg/apps/backup"));
        }
    }
}

// Verifies PLACE-3.
#[test]
fn the_foreground_and_what_contains_it_are_left_alone() {
    for (foreground, backup, expected) in [
        ("/apps/browser", "/apps/backup", true),
        ("/apps/browser", "/apps", false),
        ("/apps/browser", "/apps/browser/upload", false),
        ("/apps/browser", "/apps/browser-update", true),
        // A foreground without a group of its own.
        ("/", "/apps/backup", true),
    ] {
        let mut device = Device::new();
        device.foreground.1 = foreground.into();
        device.backup = backup.into();
        device.queue.waiting_bytes = 40 * KIB;
        device.open(&[1]);
        device.pass(100, [1, 99, 0], 40);
        assert_eq!(device.held().len(), usize::from(expected), "{foreground} and {backup}");
    }
}

// Verifies PLACE-5.
#[test]
fn it_ends_with_the_foreground_and_starts_over_with_another() {
    let mut device = Device::new();
    device.queue.waiting_bytes = 40 * KIB;
    device.open(&[1]);
    device.pass(100, [1, 99, 0], 40);
    device.open(&[2]);
    assert!(device.held().is_empty(), "{:?}", device.said);
    device.pass(100, [1, 99, 0], 40);
    assert_eq!(device.held().len(), 1);
    device.now = device.now + Duration::from_millis(400);
    device.sockets[1].sent_bytes += 400 * KIB;
    device.queue.sent_bytes += 400 * KIB;
    device.open(&[1, 2]);
    assert_eq!(device.held().len(), 1, "the sample before the change is recent: {:?}", device.said);
    device.open(&[]);
    assert!(device.held().is_empty() && device.policy.deadline().is_none(), "{:?}", device.said);
}

// Verifies PLACE-6.
#[test]
fn a_starved_group_is_released_and_chosen_again_with_back_off() {
    let mut device = Device::new();
    device.queue.waiting_bytes = 40 * KIB;
    device.open(&[1]);
    device.pass(100, [1, 99, 0], 40);
    for _ in 0..300 {
        // A fortieth of what it sent is enough; more than a minute shows that the lease is renewed.
        device.pass(1000, [1, 60, 0], 40);
    }
    assert_eq!(device.held().len(), 1, "{:?}", device.said);
    let mut seconds = 0;
    while !device.held().is_empty() {
        device.pass(1000, [900, 40, 0], 40);
        seconds += 1;
    }
    assert_eq!(seconds, STARVED_SAMPLES);
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let mut seconds = 0;
        while device.held().is_empty() {
            device.pass(1000, [1, 999, 0], 40);
            seconds += 1;
        }
        pauses.push(seconds);
        while !device.held().is_empty() {
            device.pass(1000, [900, 1, 0], 40);
        }
    }
    assert_eq!(pauses, [10, 20, 40], "{:?}", device.said);
}

// Verifies UNDO-6.
#[test]
fn what_the_kernel_refuses_is_not_asked_for_at_every_sample() {
    let refused = |now: BootTime, action: &Action| {
        let is_lease = matches!(action, Action::Lease { .. });
        (is_lease && now < BootTime::from_milliseconds(20_000)).then(|| Effect::Refused("EPERM".to_owned()))
    };
    let mut device = Device { kernel: Kernel::refusing(refused), ..Device::new() };
    device.queue.waiting_bytes = 40 * KIB;
    device.open(&[1]);
    (0..180).for_each(|_| device.pass(100, [1, 99, 0], 40));
    assert!(device.held().is_empty() && device.said.len() <= 2, "{:?}", device.said);
    (0..30).for_each(|_| device.pass(1000, [1, 999, 0], 40));
    assert_eq!(device.held().len(), 1, "{:?}", device.said);
}

// Verifies PLACE-2.
#[test]
fn connections_are_listed_only_while_something_waits() {
    let mut device = Device::new();
    device.open(&[1]);
    (0..20).for_each(|_| device.pass(1000, [9, 9, 9], 0));
    assert_eq!(device.listed, 0);
    device.queue.has_bands = false;
    (0..20).for_each(|_| device.pass(1000, [1, 999, 0], 400));
    assert!(device.listed == 0 && device.held().is_empty(), "fq_codel");
    device.queue.has_bands = true;
    device.pass(1000, [9, 9, 9], 1);
    assert_eq!(device.listed, 1, "at once");
    let mut off = NetworkContention::default();
    off.update_foreground(device.now, &[1].into(), &mut Vec::new());
    let mut questions = Vec::new();
    off.take_questions(&mut questions);
    assert!(questions.is_empty() && off.deadline().is_none());
}

#[test]
fn a_closed_or_new_connection_counts_with_what_it_sent() {
    let sample = |seconds: u64, sockets: &[(u64, u64, u64)]| Sample {
        at: BootTime::from_milliseconds(seconds * 1000),
        queues: Vec::new(),
        sockets: Some(
            sockets.iter().map(|&(cookie, group, sent_bytes)| Socket { cookie, group, sent_bytes }).collect(),
        ),
    };
    let before = sample(1, &[(1, BACKUP, 500), (2, PLAYER, 70)]);
    let traffic = between(&before, &sample(2, &[(2, PLAYER, 70), (3, BACKUP, 900), (4, FOREGROUND, 5)])).unwrap();
    assert_eq!(traffic.sent_bytes, [(BACKUP, 900), (FOREGROUND, 5)]);
    assert_eq!(between(&before, &sample(5, &[])), None, "a pause of the daemon");
    assert_eq!(between(&before, &Sample { sockets: None, ..sample(2, &[]) }), None);
}
