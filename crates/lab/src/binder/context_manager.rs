//! A context manager that works like Android 5's `servicemanager`: one thread, a linear list, the newest service first.
//!
//! It supports every release's wire format, with the same search behind each of them. All users may register and look up;
//! isolated users find only services that allow them.

use std::path::Path;

use brisk_base::work::Work;
use brisk_sys::binder::cache::MARK_ANY;
use brisk_sys::binder::parcel::Object;
use brisk_sys::binder::returns::Transaction;
use brisk_sys::binder::{
    Answer, CallError, Commands, Connection, DESCRIPTOR, Endpoint, ManagerRequest, Server, UNKNOWN_TRANSACTION,
    WireFormat, answer_standard_transaction,
};

/// As Android's own: 128 KiB.
const MAP_BYTES: usize = 128 * 1024;
/// Users of isolated processes, within those of each Android user.
const ISOLATED: std::ops::RangeInclusive<u32> = 90_000..=99_999;
const UID_SPAN: u32 = 100_000;
/// `PERMISSION_DENIED` of libbinder: -EPERM.
const PERMISSION_DENIED: i32 = -1;

/// Services in a list that is searched from its start.
#[derive(Debug, Default)]
pub struct Registry {
    services: Vec<Service>,
}

#[derive(Debug)]
struct Service {
    name: Vec<u16>,
    handle: u32,
    allow_isolated: bool,
}

impl Registry {
    /// The service `name` for a caller of `uid`.
    pub fn find(&self, name: &[u16], uid: u32) -> Option<u32> {
        let service = self.services.iter().rev().find(|service| service.name == name)?;
        let is_isolated = ISOLATED.contains(&(uid % UID_SPAN));
        (service.allow_isolated || !is_isolated).then_some(service.handle)
    }

    /// Registers `handle` as `name`; returns the handle that it replaces.
    pub fn add(&mut self, name: Vec<u16>, handle: u32, allow_isolated: bool) -> Option<u32> {
        if let Some(service) = self.services.iter_mut().find(|service| service.name == name) {
            service.allow_isolated = allow_isolated;
            return Some(std::mem::replace(&mut service.handle, handle));
        }
        self.services.push(Service { name, handle, allow_isolated });
        None
    }

    /// Removes every service that has `handle`.
    pub fn remove(&mut self, handle: u32) {
        self.services.retain(|service| service.handle != handle);
    }

    /// The names, newest first.
    pub fn names(&self) -> Vec<String> {
        self.services.iter().rev().map(|service| String::from_utf16_lossy(&service.name)).collect()
    }
}

/// The manager of one context.
#[derive(Debug)]
pub struct ContextManager {
    format: &'static WireFormat,
    registry: Registry,
    /// The driver caches answers, and must be notified of changes.
    cooperates: bool,
    /// Done before each answer.
    work: Work,
    /// The cache keys of changes that the driver must be notified of before the next answer is sent.
    to_flush: Vec<Vec<u8>>,
}

impl ContextManager {
    /// Serves the context of the device at `path` forever, in `format`; with `cooperate`, answers are marked so that the driver
    /// may cache them for all users. It does `work` before each answer.
    ///
    /// # Errors
    /// [`CallError::Device`]: EBUSY when the context has a manager, EINVAL with `cooperate` on a driver without a cache.
    pub fn run(
        path: &Path,
        format: &'static WireFormat,
        cooperate: bool,
        work: Work,
        ready: &mut dyn FnMut(),
    ) -> Result<std::convert::Infallible, CallError> {
        let connection = Connection::open(path, MAP_BYTES)?;
        connection.become_context_manager()?;
        if cooperate {
            connection.opt_into_cache(&format.cooperative_profile())?;
        }
        ready();
        let registry = Registry::default();
        let mut manager = Self { format, registry, cooperates: cooperate, work, to_flush: Vec::new() };
        Endpoint::new(connection).serve(&mut manager)
    }

    fn answer(&mut self, call: &Transaction, request: ManagerRequest, commands: &mut Commands) -> Answer {
        let plain = |parcel| Answer::Data(parcel, 0);
        match request {
            ManagerRequest::Lookup { name } => {
                let found = self.registry.find(&name, call.sender_euid);
                let mark = if self.cooperates && found.is_some() { MARK_ANY } else { 0 };
                Answer::Data(self.format.lookup_answer(call.code, found), mark)
            }
            ManagerRequest::Add { name, object: Object::Handle(handle), allow_isolated } => {
                if self.cooperates {
                    self.to_flush.push(self.format.cache_key(&String::from_utf16_lossy(&name)));
                }
                // The new handle is acquired first, because a name may be registered again with the same one.
                let replaced = self.registry.add(name, handle, allow_isolated);
                commands.acquire(handle);
                commands.request_death_notification(handle, u64::from(handle));
                if let Some(replaced) = replaced {
                    commands.release(replaced);
                }
                plain(self.format.success_answer())
            }
            ManagerRequest::Add { .. } => Answer::Status(PERMISSION_DENIED),
            ManagerRequest::List { index } => {
                let names = self.registry.names();
                match index {
                    None => plain(self.format.names_answer(&names)),
                    Some(index) => match names.get(index..=index) {
                        Some(name) => plain(self.format.names_answer(name)),
                        None => Answer::Status(PERMISSION_DENIED),
                    },
                }
            }
        }
    }
}

impl Server for ContextManager {
    fn serve(&mut self, call: &Transaction, data: &[u8], commands: &mut Commands) -> Answer {
        if let Some(answer) = answer_standard_transaction(call.code, DESCRIPTOR) {
            return answer;
        }
        match self.format.parse_manager_request(call.code, data) {
            Some(request) => self.answer(call, request, commands),
            None => Answer::Status(UNKNOWN_TRANSACTION),
        }
    }

    fn before_answer(&mut self, connection: &Connection) {
        self.work.run();
        for key in self.to_flush.drain(..) {
            // A driver that lost its cache has nothing to invalidate.
            let _ = connection.flush_cache(&key);
        }
    }

    fn binder_died(&mut self, cookie: u64) {
        self.registry.remove(cookie as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brisk_sys::binder::abi;

    fn utf16(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    #[test]
    fn services_are_found_replaced_and_removed() {
        let mut registry = Registry::default();
        assert_eq!(registry.add(utf16("a"), 1, true), None);
        assert_eq!(registry.add(utf16("b"), 2, false), None);
        assert_eq!(registry.names(), ["b", "a"]);
        assert_eq!(registry.find(&utf16("a"), 0), Some(1));
        assert_eq!(registry.find(&utf16("c"), 0), None);
        for (name, uid, expected) in
            [("b", 10_000, Some(2)), ("b", 99_000, None), ("b", 199_999, None), ("a", 99_000, Some(1))]
        {
            assert_eq!(registry.find(&utf16(name), uid), expected, "{name} for {uid}");
        }
        assert_eq!(registry.add(utf16("a"), 3, true), Some(1));
        registry.remove(3);
        assert_eq!(registry.names(), ["b"]);
    }

    #[test]
    fn it_answers_in_every_format_and_marks_only_what_may_be_kept() {
        for format in WireFormat::all() {
            for cooperates in [false, true] {
                let (registry, work) = (Registry::default(), Work::of_turns(0));
                let mut manager = ContextManager { format, registry, cooperates, work, to_flush: Vec::new() };
                let mut commands = Commands::default();
                let mut ask = |code, data: &[u8], commands: &mut Commands| {
                    let call = Transaction { code, ..Transaction::default() };
                    manager.serve(&call, data, commands)
                };
                // As the driver delivers it: an object of the sender becomes a handle of the receiver.
                let mut add = format.add_request("activity", 9);
                let at = add.offsets[0] as usize;
                add.data[at..at + 4].copy_from_slice(&abi::TYPE_HANDLE.to_ne_bytes());
                let added = ask(format.add, &add.data, &mut commands);
                assert_eq!(added, Answer::Data(format.success_answer(), 0), "{}", format.name);
                assert!(!commands.is_empty());
                let mut lookup =
                    |code: u32, name: &str| match ask(code, &format.lookup_request(name).data, &mut commands) {
                        Answer::Data(parcel, flags) => (format.read_service(&parcel.data), flags),
                        Answer::Status(status) => panic!("{status}"),
                    };
                let mark = if cooperates { MARK_ANY } else { 0 };
                for code in format.lookup_codes() {
                    assert_eq!(lookup(code, "activity"), (Some(Object::Handle(9)), mark));
                    assert_eq!(lookup(code, "absent"), (Some(Object::Null), 0), "null is never kept");
                }
                assert_eq!(manager.to_flush.len(), usize::from(cooperates));
                let strange = ask_strange(&mut manager);
                assert_eq!(strange, Answer::Status(UNKNOWN_TRANSACTION));
            }
        }
    }

    fn ask_strange(manager: &mut ContextManager) -> Answer {
        let call = Transaction { code: 63, ..Transaction::default() };
        manager.serve(&call, &[], &mut Commands::default())
    }
}
