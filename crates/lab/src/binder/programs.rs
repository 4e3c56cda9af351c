//! Random programs that run on two binder drivers: everything that a program can observe must be the same.
//!
//! A program's actors register services, send correct and malformed lookups, call services, receive death notifications, close
//! and reopen the device, as several users in two contexts; now and then a context manager is replaced. Lookups come in bursts
//! of a user's actors, so that a cache has hits. After each step every actor reads what has arrived. The transcript is what
//! they observe: returns, data with handles, senders, references.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;

use brisk_base::random::Random;
use brisk_sys::binder::abi::{self, CONTEXT_MANAGER};
use brisk_sys::binder::parcel::{Object, Parcel};
use brisk_sys::binder::returns::{Return, Returns, Transaction};
use brisk_sys::binder::{Commands, Connection, WireFormat};
use brisk_sys::process::user;

/// Two contexts.
const DEVICES: [&str; 2] = ["/dev/binder", "/dev/hwbinder"];
/// Root, an application, an isolated process.
const USERS: [u32; 3] = [0, 10_001, 99_001];
/// Distance between the two actors of a user in a context.
const TWIN: usize = DEVICES.len() * USERS.len();
const ACTORS: usize = TWIN * 2;
/// The most lookups in a burst.
const BURST: usize = 16;
/// Few enough that actors find each other's services.
const NAMES: usize = 6;
const MAP_BYTES: usize = 64 * 1024;
/// The function of a service that actors call.
const CALL: u32 = 7;
/// After this time all effects of a step are over, because nothing else runs.
const QUIET: Duration = Duration::from_millis(3);

/// Restarts the manager with this number, or all of them without one.
pub type Restart<'a> = dyn FnMut(Option<usize>) -> anyhow::Result<()> + 'a;

/// The contexts' devices.
pub fn devices() -> impl Iterator<Item = &'static Path> {
    DEVICES.iter().map(Path::new)
}

/// The result of a program.
#[derive(Debug)]
pub struct ProgramOutcome {
    /// A line or more per step.
    pub transcript: String,
    /// Lookups in the right format.
    pub lookups: u64,
}

/// Runs the program of `seed`.
///
/// # Errors
/// When a device cannot be opened or a manager cannot be started; the driver's refusals are part of the transcript.
pub fn run(
    seed: u64,
    steps: usize,
    format: &'static WireFormat,
    restart: &mut Restart<'_>,
) -> anyhow::Result<ProgramOutcome> {
    restart(None)?;
    let actors = (0..ACTORS).map(Actor::open).collect::<anyhow::Result<Vec<_>>>()?;
    let mut program = Program { random: Random::new(seed), actors, format, transcript: String::new(), lookups: 0 };
    program.register_all()?;
    for step in 0..steps {
        program.step(step, restart)?;
        sleep(QUIET);
        program.read_all()?;
    }
    Ok(ProgramOutcome { transcript: program.transcript, lookups: program.lookups })
}

/// A hash of a transcript.
pub fn digest(transcript: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    transcript.hash(&mut hasher);
    hasher.finish()
}

struct Program {
    random: Random,
    actors: Vec<Actor>,
    format: &'static WireFormat,
    transcript: String,
    lookups: u64,
}

/// To the driver, an actor is a process.
struct Actor {
    number: usize,
    path: PathBuf,
    uid: u32,
    connection: Connection,
    /// Handles on which it holds a strong reference.
    handles: Vec<u32>,
}

impl Program {
    fn step(&mut self, step: usize, restart: &mut Restart<'_>) -> anyhow::Result<()> {
        let number = self.random.below(ACTORS);
        let name = format!("service.{}", self.random.below(NAMES));
        let kind = self.random.below(100);
        // Writing to a string cannot fail.
        let _ = write!(self.transcript, "{step} actor {number} ");
        let description = match kind {
            0..56 => self.burst(number)?,
            56..65 => {
                let pointer = (number * 16 + self.random.below(4) + 1) as u64;
                let request = self.format.add_request(&name, pointer);
                format!("add {name}: {}", self.actors[number].transact(self.format.add, &request, self.format)?)
            }
            65..70 => {
                let (code, request) = self.bad_request(&name);
                format!("bad {code}: {}", self.actors[number].transact(code, &request, self.format)?)
            }
            70..80 => self.with_handle(number, "call", |commands, handle| {
                commands.transaction(handle, CALL, abi::ONE_WAY, b"call", &[]);
            })?,
            80..86 => {
                let description = self.with_handle(number, "release", Commands::release)?;
                self.actors[number].handles.pop();
                description
            }
            86..91 => self.with_handle(number, "watch", |commands, handle| {
                commands.request_death_notification(handle, u64::from(handle));
            })?,
            91..94 => {
                let request = self.format.list_request(0);
                format!("list: {}", self.actors[number].transact(self.format.list, &request, self.format)?)
            }
            94..99 => {
                // The old connection is closed first, so that its services are dead when the new one opens.
                let path = self.actors[number].path.clone();
                self.actors[number].connection = Connection::open(&path, MAP_BYTES)?;
                sleep(QUIET * 4);
                self.actors[number] = Actor::open(number)?;
                "close".to_owned()
            }
            _ => {
                let context = self.random.below(DEVICES.len());
                restart(Some(context))?;
                sleep(QUIET * 4);
                format!("manager {context} again")
            }
        };
        let _ = writeln!(self.transcript, "{description}");
        Ok(())
    }

    /// Registers every name in every context, so that there is something to look up.
    fn register_all(&mut self) -> anyhow::Result<()> {
        for name in 0..NAMES {
            for context in 0..DEVICES.len() {
                let number = context + DEVICES.len() * self.random.below(ACTORS / DEVICES.len());
                let pointer = (number * 16 + name + 8) as u64;
                let request = self.format.add_request(&format!("service.{name}"), pointer);
                let description = self.actors[number].transact(self.format.add, &request, self.format)?;
                let _ = writeln!(self.transcript, "actor {number} adds service.{name}: {description}");
            }
        }
        Ok(())
    }

    /// Lookups in a row, of two names, by an actor and its twin.
    fn burst(&mut self, number: usize) -> anyhow::Result<String> {
        let first = self.random.below(NAMES);
        let codes = self.format.lookup_codes();
        let code = codes[self.random.below(codes.len())];
        let mut description = "lookups".to_owned();
        for _ in 0..=self.random.below(BURST) {
            let caller = (number + TWIN * self.random.below(2)) % ACTORS;
            let name = format!("service.{}", (first + self.random.below(2)) % NAMES);
            let request = self.format.lookup_request(&name);
            let _ = write!(
                description,
                "\n  {caller} {name}: {}",
                self.actors[caller].transact(code, &request, self.format)?
            );
            self.lookups += 1;
        }
        Ok(description)
    }

    /// A request that violates the format.
    fn bad_request(&mut self, name: &str) -> (u32, Parcel) {
        let mut request = self.format.lookup_request(name);
        let mut code = self.format.check_code();
        let length = request.data.len();
        match self.random.below(5) {
            0 => request.data.truncate(length - 4),
            1 => request.put_i32(0),
            2 => request.data[self.format.volatile.len() + 4] ^= 1,
            3 => request.put_own_object(1),
            _ => code = 60,
        }
        (code, request)
    }

    /// Does something with the actor's newest handle, if it has one.
    fn with_handle(
        &mut self,
        number: usize,
        what: &str,
        command: impl FnOnce(&mut Commands, u32),
    ) -> anyhow::Result<String> {
        let actor = &mut self.actors[number];
        let Some(&handle) = actor.handles.last() else { return Ok(format!("{what} nothing")) };
        let mut commands = Commands::default();
        command(&mut commands, handle);
        let outcome = actor.as_user(|actor| match actor.connection.write_read(commands.as_bytes(), &mut []) {
            Ok(_) => "written".to_owned(),
            Err(error) => error.to_string(),
        })?;
        Ok(format!("{what} {handle}: {outcome}"))
    }

    /// Reads what has arrived at every actor.
    fn read_all(&mut self) -> anyhow::Result<()> {
        for actor in &mut self.actors {
            let seen = actor.as_user(Actor::read)??;
            if !seen.is_empty() {
                let _ = writeln!(self.transcript, "  actor {} sees{seen}", actor.number);
            }
        }
        Ok(())
    }
}

impl Actor {
    fn open(number: usize) -> anyhow::Result<Self> {
        let path = PathBuf::from(DEVICES[number % DEVICES.len()]);
        let uid = USERS[number / DEVICES.len() % USERS.len()];
        as_user(uid, || {
            let connection = Connection::open(&path, MAP_BYTES)?;
            let mut commands = Commands::default();
            commands.enter_looper();
            connection.write_read(commands.as_bytes(), &mut [])?;
            Ok(Self { number, path: path.clone(), uid, connection, handles: Vec::new() })
        })?
    }

    fn as_user<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> anyhow::Result<T> {
        as_user(self.uid, || act(self))
    }

    /// Sends a request to the context manager and describes all that it returns.
    fn transact(&mut self, code: u32, request: &Parcel, format: &WireFormat) -> anyhow::Result<String> {
        self.as_user(|actor| {
            let mut commands = Commands::default();
            commands.transaction(CONTEXT_MANAGER, code, abi::ACCEPT_FDS, &request.data, &request.offsets);
            let mut description = String::new();
            let mut returns = [0; 512];
            loop {
                let filled = match actor.connection.write_read(commands.as_bytes(), &mut returns) {
                    Ok(filled) => filled,
                    Err(error) => return Ok(format!("{description} {error}")),
                };
                commands.clear();
                let mut is_over = false;
                for item in Returns::new(&returns[..filled]) {
                    match item.context("a part of a return")? {
                        Return::Reply(reply) => {
                            description += &actor.reply(&reply, format)?;
                            is_over = true;
                        }
                        failure @ (Return::DeadReply | Return::FailedReply | Return::FrozenReply) => {
                            let _ = write!(description, " {failure:?}");
                            is_over = true;
                        }
                        other => description += &actor.take(other)?,
                    }
                }
                if is_over {
                    return Ok(description);
                }
            }
        })?
    }

    /// Describes an answer, takes a reference on the service that it has, and frees the buffer.
    fn reply(&mut self, reply: &Transaction, format: &WireFormat) -> anyhow::Result<String> {
        let (mut data, mut offsets) = (Vec::new(), Vec::new());
        self.connection.copy(reply.data, &mut data)?;
        self.connection.copy(reply.offsets, &mut offsets)?;
        let mut commands = Commands::default();
        if let Some(Object::Handle(handle)) = format.read_service(&data).filter(|_| !offsets.is_empty()) {
            commands.acquire(handle);
            self.handles.push(handle);
        }
        commands.free_buffer(reply.data.address);
        let after = self.connection.write_read(commands.as_bytes(), &mut []).err();
        // The kernel may or may not fill the unused part of a union.
        let Transaction { code, flags, sender_pid, sender_euid, target, cookie, .. } = reply;
        Ok(format!(
            " reply code={code} flags={flags:#x} pid={sender_pid} euid={sender_euid} target={target} cookie={cookie} \
             {data:02x?} at {offsets:02x?} {after:?}"
        ))
    }

    /// Reads without waiting until nothing is left.
    fn read(&mut self) -> anyhow::Result<String> {
        let mut seen = String::new();
        let mut returns = [0; 512];
        self.connection.set_blocking(false)?;
        while let Ok(filled) = self.connection.write_read(&[], &mut returns) {
            for item in Returns::new(&returns[..filled]) {
                seen += &self.take(item.context("a part of a return")?)?;
            }
        }
        self.connection.set_blocking(true)?;
        Ok(seen)
    }

    /// Describes a return and answers it as the driver requires.
    fn take(&mut self, item: Return) -> anyhow::Result<String> {
        let mut commands = Commands::default();
        let description = match item {
            Return::Nothing => return Ok(String::new()),
            Return::Transaction(call) => {
                let mut data = Vec::new();
                self.connection.copy(call.data, &mut data)?;
                commands.free_buffer(call.data.address);
                let Transaction { target, code, flags, sender_euid, .. } = call;
                format!(" call of {target} code={code} flags={flags:#x} euid={sender_euid} {data:02x?}")
            }
            Return::Referenced { confirm, pointer, cookie } => {
                commands.reference_done(confirm, pointer, cookie);
                format!(" {item:?}")
            }
            Return::DeadBinder { cookie } => {
                commands.dead_binder_done(cookie);
                format!(" {item:?}")
            }
            _ => format!(" {item:?}"),
        };
        self.connection.write_read(commands.as_bytes(), &mut [])?;
        Ok(description)
    }
}

fn as_user<T>(uid: u32, act: impl FnOnce() -> T) -> anyhow::Result<T> {
    user::as_user(uid, act).with_context(|| format!("cannot become user {uid}; this needs root"))
}
