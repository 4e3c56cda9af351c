//! A test double of the device's side of adb (adbd), for Debian's real adb client and server over loopback.
//!
//! It speaks the protocol of adb over TCP (packages/modules/adb/protocol.txt of AOSP), without authentication, and of the
//! services only shell,v2 without a terminal, as adb's `shell_service` runs it: a program's standard input and output are one
//! socket, and a lost connection is a SIGHUP to the shell. The shell is Android's, mksh, with toybox's applets and no other
//! program, below a root of its own with /data/local/tmp and /system/bin. brisk itself is this machine's.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Pid, PidfdFlags, Signal, getuid, pidfd_open, pidfd_send_signal};

use super::super::loopback::free_port;
use super::here::wait_until;
use crate::patience::{LONG_PATIENCE, OutputWithin};

/// The protocol's version without checksums, and the most bytes of a message's data.
const VERSION: u32 = 0x0100_0001;
const MAX_DATA: u32 = 256 * 1024;
const BANNER: &[u8] =
    b"device::ro.product.name=brisk;ro.product.model=brisk;ro.product.device=brisk;features=shell_v2,cmd";

/// The kinds of packets inside a stream of shell,v2.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
const CLOSE_STDIN: u8 = 4;

/// Makes the device's root in a mount namespace, and becomes its shell with Android's variables: no process is left between.
const ENTER: &str = "for part in usr proc dev; do mount --rbind /$part $1/$part || exit 125; done
exec env -i PATH=/system/bin /usr/sbin/chroot $1 /system/bin/sh -c \"$2\"";

/// A device behind an adb server of its own. Its temporary folder is what a test may find something in.
pub struct AdbDevice {
    folder: tempfile::TempDir,
    port: u16,
    server_port: u16,
    server: Child,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl AdbDevice {
    /// Starts the device and adb's server, or prints why it cannot.
    pub fn start() -> Option<Self> {
        for (program, package) in [("adb", "adb"), ("mksh", "mksh"), ("toybox", "toybox")] {
            if !Path::new("/usr/bin").join(program).exists() {
                eprintln!("skipped: {program} is not there; install the package {package}");
                return None;
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let root = make_root(folder.path());
        let entered = enter(&root, "exit 7").stderr(Stdio::piped()).output();
        if entered.as_ref().map_or(None, |output| output.status.code()) != Some(7) {
            eprintln!("skipped: this user may not have mounts of its own here: {entered:?}");
            return None;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::<Mutex<Vec<TcpStream>>>::default();
        let accepted = Arc::clone(&connections);
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                accepted.lock().unwrap().push(connection.try_clone().unwrap());
                let root = root.clone();
                thread::spawn(move || {
                    // A connection that ends is one that the test or adb has closed.
                    let _ =
                        Connection { writer: Arc::new(Mutex::new(connection)), streams: HashMap::new() }.serve(&root);
                });
            }
        });
        let server_port = free_port();
        let mut server = Command::new("/usr/bin/adb");
        environment(&mut server, folder.path(), server_port);
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let server = server.args(["server", "nodaemon"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn();
        let device = Self { folder, port, server_port, server: server.unwrap(), connections };
        wait_until("adb's server", || TcpStream::connect(("127.0.0.1", server_port)).is_ok());
        let output = device.adb(&["connect", &device.serial()]);
        assert!(output.stdout.starts_with(b"connected to "), "{output:?}");
        Some(device)
    }

    /// Lets `command` and the adb that it runs use this device's server.
    pub fn lend_server(&self, command: &mut Command) {
        environment(command, self.folder.path(), self.server_port);
    }

    /// The serial number, as `adb devices` prints it.
    pub fn serial(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Debian's adb with `arguments`.
    pub fn adb(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("/usr/bin/adb");
        self.lend_server(&mut command);
        command.args(arguments).output_within(LONG_PATIENCE)
    }

    /// The device's /data/local/tmp.
    pub fn tmp(&self) -> PathBuf {
        self.folder.path().join("root/data/local/tmp")
    }

    /// Pulls the cable.
    pub fn drop_connections(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for AdbDevice {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
        self.drop_connections();
    }
}

/// adb stores a key below HOME and a log in TMPDIR.
fn environment(command: &mut Command, folder: &Path, server_port: u16) {
    command.env("ANDROID_ADB_SERVER_PORT", server_port.to_string()).env("HOME", folder).env("TMPDIR", folder);
}

/// A root with Android's folders, its shell and its applets, and this machine's libraries.
fn make_root(folder: &Path) -> PathBuf {
    let root = folder.join("root");
    for part in ["usr", "proc", "dev", "data/local/tmp", "system/bin"] {
        fs::create_dir_all(root.join(part)).unwrap();
    }
    for name in ["lib", "lib64"] {
        symlink(format!("usr/{name}"), root.join(name)).unwrap();
    }
    let toybox = Command::new("toybox").output().unwrap();
    for applet in String::from_utf8(toybox.stdout).unwrap().split_whitespace().filter(|applet| *applet != "sh") {
        symlink("/usr/bin/toybox", root.join("system/bin").join(applet)).unwrap();
    }
    symlink("/usr/bin/mksh", root.join("system/bin/sh")).unwrap();
    root
}

/// The device's shell with `script`, in the process that is started.
fn enter(root: &Path, script: &str) -> Command {
    let mut command = Command::new("unshare");
    if !getuid().is_root() {
        command.arg("--map-root-user");
    }
    command.args(["--mount", "sh", "-c", ENTER, "sh"]).arg(root).arg(script);
    command
}

/// A message of adb's protocol.
struct Message {
    command: [u8; 4],
    first: u32,
    second: u32,
    data: Vec<u8>,
}

impl Message {
    fn read(mut from: &TcpStream) -> io::Result<Self> {
        let mut header = [0; 24];
        from.read_exact(&mut header)?;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(word(0) ^ u32::MAX, word(20), "the magic number is the command's complement");
        assert!(word(12) <= MAX_DATA, "more data than the device has offered to take");
        let mut data = vec![0; word(12) as usize];
        from.read_exact(&mut data)?;
        Ok(Self { command: header[..4].try_into().unwrap(), first: word(4), second: word(8), data })
    }
}

type Writer = Arc<Mutex<TcpStream>>;

fn send(to: &Writer, command: [u8; 4], first: u32, second: u32, data: &[u8]) -> io::Result<()> {
    let number = u32::from_le_bytes(command);
    let sum = data.iter().fold(0u32, |sum, &byte| sum.wrapping_add(byte.into()));
    let words = [number, first, second, data.len() as u32, sum, number ^ u32::MAX];
    let message: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).chain(data.iter().copied()).collect();
    to.lock().unwrap().write_all(&message)
}

/// A connection of adb's server.
struct Connection {
    writer: Writer,
    /// By the device's numbers.
    streams: HashMap<u32, Stream>,
}

impl Connection {
    fn serve(&mut self, root: &Path) -> io::Result<()> {
        let reader = self.writer.lock().unwrap().try_clone()?;
        for number in 1.. {
            let Message { command, first, second, data } = Message::read(&reader)?;
            match &command {
                b"CNXN" => send(&self.writer, command, VERSION, MAX_DATA, BANNER)?,
                b"OPEN" => match script(&data) {
                    Some(script) => {
                        send(&self.writer, *b"OKAY", number, first, &[])?;
                        let stream = Stream::start(root, script, [number, first], &self.writer)?;
                        self.streams.insert(number, stream);
                    }
                    None => send(&self.writer, *b"CLSE", 0, first, &[])?,
                },
                b"WRTE" => {
                    if let Some(stream) = self.streams.get_mut(&second) {
                        stream.take(&data);
                        send(&self.writer, *b"OKAY", second, first, &[])?;
                    }
                }
                b"OKAY" => {
                    // The stream may have ended.
                    let _ = self.streams.get(&second).map(|stream| stream.acknowledged.send(()));
                }
                b"CLSE" => drop(self.streams.remove(&second)),
                other => panic!("adb has sent {:?}", String::from_utf8_lossy(other)),
            }
        }
        Ok(())
    }
}

/// The script of a service `shell,v2,...,raw:SCRIPT`; `None` for other services.
fn script(service: &[u8]) -> Option<&str> {
    let (options, script) = std::str::from_utf8(service).ok()?.strip_suffix('\0')?.split_once(':')?;
    let options: Vec<&str> = options.split(',').collect();
    (options[0] == "shell" && options.contains(&"v2") && options.contains(&"raw")).then_some(script)
}

/// A running shell. When it is dropped, it is hung up on.
struct Stream {
    shell: OwnedFd,
    streams: [UnixStream; 2],
    /// What is no whole packet yet.
    input: Vec<u8>,
    /// For each message that adb's server has acknowledged.
    acknowledged: Sender<()>,
}

impl Stream {
    fn start(root: &Path, script: &str, numbers: [u32; 2], writer: &Writer) -> io::Result<Self> {
        let (both, childs_both) = UnixStream::pair()?;
        let (errors, childs_errors) = UnixStream::pair()?;
        let mut command = enter(root, script);
        command.stdin(OwnedFd::from(childs_both.try_clone()?)).stdout(OwnedFd::from(childs_both));
        let mut child = command.stderr(OwnedFd::from(childs_errors)).spawn()?;
        // The command holds the child's ends, whose closing is the end of the output.
        drop(command);
        let shell = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let (acknowledged, acknowledgements) = channel();
        let output = Arc::new(Mutex::new(Outgoing { writer: Arc::clone(writer), numbers, acknowledgements }));
        let pass = |kind: u8, from: &UnixStream| {
            let (mut from, output) = (from.try_clone().unwrap(), Arc::clone(&output));
            thread::spawn(move || {
                let mut bytes = [0; 16 * 1024];
                while let Ok(count @ 1..) = from.read(&mut bytes) {
                    if output.lock().unwrap().packet(kind, &bytes[..count]).is_err() {
                        break;
                    }
                }
            })
        };
        let passing = [pass(STDOUT, &both), pass(STDERR, &errors)];
        thread::spawn(move || {
            passing.into_iter().for_each(|thread| thread.join().unwrap());
            let status = child.wait().unwrap();
            let code = status.code().unwrap_or_else(|| {
                128 + std::os::unix::process::ExitStatusExt::signal(&status).expect("it has ended by a signal")
            });
            let output = output.lock().unwrap();
            // Both fail when the connection is gone.
            let _ = output.packet(EXIT, &[code as u8]);
            let _ = send(&output.writer, *b"CLSE", output.numbers[0], output.numbers[1], &[]);
        });
        Ok(Self { shell, streams: [both, errors], input: Vec::new(), acknowledged })
    }

    /// Passes what adb has written to the program.
    fn take(&mut self, data: &[u8]) {
        self.input.extend_from_slice(data);
        while let Some((&[kind, ..], rest)) = self.input.split_first_chunk::<5>() {
            let length = u32::from_le_bytes(self.input[1..5].try_into().unwrap()) as usize;
            if rest.len() < length {
                return;
            }
            // A program may end without reading all.
            match kind {
                STDIN => drop(self.streams[0].write_all(&rest[..length])),
                CLOSE_STDIN => drop(self.streams[0].shutdown(Shutdown::Write)),
                // The size of a terminal, which there is not.
                _ => {}
            }
            self.input.drain(..5 + length);
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // The shell may have ended.
        let _ = pidfd_send_signal(&self.shell, Signal::HUP);
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// What a shell says, one message at a time: the next is sent when the last is acknowledged.
struct Outgoing {
    writer: Writer,
    /// The device's and the host's number of the stream.
    numbers: [u32; 2],
    acknowledgements: Receiver<()>,
}

impl Outgoing {
    fn packet(&self, kind: u8, data: &[u8]) -> io::Result<()> {
        let packet = [&[kind][..], &(data.len() as u32).to_le_bytes(), data].concat();
        send(&self.writer, *b"WRTE", self.numbers[0], self.numbers[1], &packet)?;
        self.acknowledgements.recv().map_err(|_| io::ErrorKind::ConnectionAborted.into())
    }
}
