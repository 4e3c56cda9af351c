//! OpenSSH's server on loopback, with keys of its own.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use super::super::debian_package;
use super::super::loopback::free_port;
use super::here::{signal, wait_until};
use rustix::process::{Signal, getuid};

/// Folders with Debian's packages for the server, or `None`, with the reason printed, where it cannot run.
fn root() -> Option<&'static Path> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    ROOT.get_or_init(|| {
        let succeeds = |program: &str, arguments: &[&str]| {
            Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status()
        };
        for (program, package) in [("ssh", "openssh-client"), ("dpkg-deb", "dpkg")] {
            if succeeds(program, &["-V"]).is_err() {
                eprintln!("skipped: {program} is not there; install the package {package}");
                return None;
            }
        }
        if getuid().is_root() && !succeeds("unshare", &["--mount", "true"]).is_ok_and(|status| status.success()) {
            eprintln!("skipped: root may not have mounts of its own here");
            return None;
        }
        if Path::new("/usr/sbin/sshd").exists() {
            return Some("/".into());
        }
        // Debian 13's server needs the last one.
        debian_package::unpacked("sshd", &["openssh-server", "libwrap0"], &["libwtmpdb0"])
    })
    .as_deref()
}

/// This test's program without its debugging information, which is most of what would be copied.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let draft = tempfile::NamedTempFile::new_in(folder).unwrap().into_temp_path();
        let mut command = Command::new("strip");
        let status = command.arg("-o").arg(&draft).arg(env!("CARGO_BIN_EXE_brisk")).status().unwrap();
        assert!(status.success());
        let path = folder.join("brisk-of-devices");
        draft.persist(&path).unwrap();
        path
    })
}

/// A server. Its temporary folder is what a test may find something in.
pub struct SshServer {
    folder: tempfile::TempDir,
    child: Child,
    port: u16,
}

impl SshServer {
    /// Starts a server for this user, if it can run here.
    pub fn start() -> Option<Self> {
        let root = root()?;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("tmp")).unwrap();
        for key in ["host", "user", "stranger"] {
            make_key(&at(key));
        }
        let port = free_port();
        let here = folder.path().display();
        let mut configuration = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {here}/host\nAuthorizedKeysFile {here}/user.pub\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             PermitRootLogin prohibit-password\nSetEnv TMPDIR={here}/tmp\n"
        );
        for (program, option) in [("sshd-session", "SshdSessionPath"), ("sshd-auth", "SshdAuthPath")] {
            let path = root.join("usr/lib/openssh").join(program);
            if path.exists() {
                configuration += &format!("{option} {}\n", path.display());
            }
        }
        fs::write(at("sshd_config"), configuration).unwrap();
        let child = server(root, folder.path());
        let mut server = Self { folder, child, port };
        wait_until("the ssh server", || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(server.folder.path().join("log")).unwrap());
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(server)
    }

    /// The temporary folder of those who log in.
    pub fn tmp(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    /// Kills the connections, not the server.
    pub fn drop_connections(&self) {
        let mut parents = vec![self.child.id()];
        while let Some(parent) = parents.pop() {
            for child in children(parent) {
                let name = fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
                if name.starts_with("sshd") {
                    parents.push(child);
                    signal(child, Signal::KILL);
                }
            }
        }
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The names in the folder `tmp` of a device.
pub fn left(tmp: &Path) -> Vec<String> {
    let entries = fs::read_dir(tmp).unwrap();
    let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Whether a program from the folder `tmp` of a device runs.
pub fn has_program(tmp: &Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| Some(entry.ok()?.path().join("exe")));
    processes.filter_map(|exe| fs::read_link(exe).ok()).any(|exe| exe.starts_with(tmp))
}

fn children(parent: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Root's server wants a user of its own and a folder in /run: it gets both in a mount namespace.
fn server(root: &Path, folder: &Path) -> Child {
    let program = root.join("usr/sbin/sshd");
    let mut command = if getuid().is_root() {
        let mut users = fs::read_to_string("/etc/passwd").unwrap();
        users.push_str("sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin\n");
        fs::write(folder.join("passwd"), users).unwrap();
        let script =
            "mount -t tmpfs none /run && mkdir -m 755 /run/sshd && mount --bind passwd /etc/passwd && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    let libraries = root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    command.args(["-D", "-e", "-f"]).arg(folder.join("sshd_config")).current_dir(folder);
    command.env("LD_LIBRARY_PATH", libraries).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(fs::File::create(folder.join("log")).unwrap()).spawn().unwrap()
}

/// Makes a key pair: `path`, and `path` with `.pub`.
pub fn make_key(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    let status = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status().unwrap();
    assert!(status.success());
}

/// What a client knows of a server on this machine.
#[derive(Clone)]
pub struct Host {
    pub name: String,
    pub port: u16,
    /// The client's private key.
    pub key: PathBuf,
}

/// A folder with an `ssh` that knows `servers` as board-1, board-2 and so on, and the last of them also as locked, with a key
/// that it does not accept.
pub fn client(servers: &[&SshServer]) -> tempfile::TempDir {
    let host = |name: String, server: &SshServer, key: &str| Host {
        name,
        port: server.port,
        key: server.folder.path().join(key),
    };
    let boards = (1..).zip(servers).map(|(number, server)| host(format!("board-{number}"), server, "user"));
    let locked = servers.last().map(|server| host("locked".to_owned(), server, "stranger"));
    client_of(&boards.chain(locked).collect::<Vec<_>>())
}

/// A folder with an `ssh` that knows `hosts`.
pub fn client_of(hosts: &[Host]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut text = "Host *\n  StrictHostKeyChecking accept-new\n  IdentitiesOnly yes\n  LogLevel ERROR\n".to_owned();
    text += &format!("  UserKnownHostsFile {}/known\n  HostName 127.0.0.1\n", folder.path().display());
    for Host { name, port, key } in hosts {
        text += &format!("Host {name}\n  Port {port}\n  IdentityFile {}\n", key.display());
    }
    let configuration = folder.path().join("config");
    fs::write(&configuration, text).unwrap();
    let ssh = folder.path().join("ssh");
    fs::write(&ssh, format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", configuration.display())).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// This test's brisk with the `ssh` in the folder `client`.
pub fn brisk_with_ssh_of(client: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brisk"));
    command.env("PATH", format!("{}:{}", client.display(), std::env::var("PATH").unwrap()));
    command
}
