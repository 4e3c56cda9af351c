//! The scripts that a device's `sh` runs, and what their output means. They use what POSIX, busybox and toybox have.

use super::quote::quoted;
use super::target::Target;

/// The start of the last line of [`run`]. Without that line, the connection was lost.
const ENDED: &str = "brisk-ended ";
/// The folder of results, below the temporary folder.
pub const RESULTS: &str = "results";

/// Makes a temporary folder from which programs can be run, and prints architecture and folder. /tmp may be mounted noexec.
pub fn prepare(target: &Target) -> String {
    let (folders, shell) = match target {
        Target::Ssh { .. } => (r#""${TMPDIR:-/tmp}" /var/tmp "$HOME""#, "/bin/sh"),
        Target::Adb { .. } => ("/data/local/tmp", "/system/bin/sh"),
    };
    format!(
        "umask 077
for base in {folders}; do
  folder=$(mktemp -d \"$base/brisk.XXXXXX\") || continue
  if printf '#!{shell}\\n' >\"$folder/try\" && chmod 700 \"$folder/try\" && \"$folder/try\"; then
    rm \"$folder/try\" && echo \"$(uname -m) $folder\" && exit 0
  fi
  rm -rf \"$folder\"
done
echo 'no folder allows programs to be run' >&2
exit 1"
    )
}

/// The architecture and the folder that [`prepare`] printed. Nothing but such a folder is ever removed.
pub fn prepared(output: &[u8]) -> Option<(String, String)> {
    let (architecture, folder) = std::str::from_utf8(output).ok()?.strip_suffix('\n')?.split_once(' ')?;
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || b"_-./".contains(&it);
    let name = folder.starts_with('/').then(|| folder.rsplit_once("/brisk."))??.1;
    let is_sound = name.len() >= 6
        && name.bytes().all(|it| it.is_ascii_alphanumeric())
        && folder.bytes().chain(architecture.bytes()).all(is_plain)
        && !folder.split('/').any(|part| part == "..");
    is_sound.then(|| (architecture.to_owned(), folder.to_owned()))
}

/// Writes standard input, which has `size` bytes, into the file `name` of `folder`.
pub fn store(folder: &str, name: &str, size: u64) -> String {
    let path = quoted(&format!("{folder}/{name}"));
    format!("cat >{path} && [ \"$(wc -c <{path})\" -eq {size} ] && chmod 700 {path}")
}

/// Runs `./brisk` with `words` in `folder`. Its messages are passed on line by line, its output at the end.
///
/// Standard input is the lifeline: once it ends, because the other side closed it or the connection was lost, brisk is told to
/// end, which reverts its changes, and `folder` is removed. Messages go through a pipe that is read to its end also then. adb hangs
/// up on the shell of a lost connection, which would be gone before it had removed the folder.
pub fn run(folder: &str, words: &[String]) -> String {
    let words: String = words.iter().map(|word| format!(" {}", quoted(word))).collect();
    let folder = quoted(folder);
    format!(
        "cd {folder} && mkfifo messages || exit 2
trap '' PIPE HUP
exec 3<&0
while IFS= read -r line; do printf '%s\\n' \"$line\" >&2; done <messages 3<&- & printer=$!
./brisk{words} </dev/null >output 2>messages 3<&- & brisk=$!
echo $brisk >pid
{{ while read -r line; do :; done; : >lost; kill -TERM $brisk; }} <&3 >/dev/null 2>&1 3<&- & lifeline=$!
exec 3<&-
wait $brisk; status=$?
rm -f pid
wait $printer
kill $lifeline 2>/dev/null
cat output
[ ! -e lost ] || {{ cd /; rm -rf {folder}; }}
echo \"{ENDED}$status\""
    )
}

/// The output and the exit status of the program that [`run`] ran.
pub fn ending(output: &[u8]) -> Option<(&[u8], u8)> {
    let lines = output.strip_suffix(b"\n")?;
    let start = lines.windows(ENDED.len()).rposition(|window| window == ENDED.as_bytes())?;
    let status = std::str::from_utf8(&lines[start + ENDED.len()..]).ok()?.parse().ok()?;
    Some((&output[..start], status))
}

/// Prints the results in `folder` as an archive; nothing if there are none.
pub fn fetch(folder: &str) -> String {
    format!("cd {} && {{ [ ! -d {RESULTS} ] || tar -cf - {RESULTS}; }}", quoted(folder))
}

/// Ends brisk if it still runs after a lost connection, waits until it has reverted its changes, and removes `folder`.
pub fn remove(folder: &str) -> String {
    let folder = quoted(folder);
    format!(
        "if read -r brisk 2>/dev/null <{folder}/pid; then
  kill -TERM $brisk 2>/dev/null
  for second in $(seq 60); do kill -0 $brisk 2>/dev/null || break; sleep 1; done
fi
rm -rf {folder}"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::path::Path;
    use std::process::{Child, Command, Output, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn folder_of(output: &Output) -> String {
        assert!(output.status.success(), "{output:?}");
        prepared(&output.stdout).unwrap().1
    }

    /// A folder with a program in place of brisk, which this machine's `sh` runs.
    fn folder(base: &Path, program: &str) -> String {
        let target = "ssh:here".parse().unwrap();
        let folder = folder_of(&sh(&prepare(&target)).env("TMPDIR", base).output().unwrap());
        let mut child = sh(&store(&folder, "brisk", program.len() as u64)).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), program.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
        folder
    }

    fn start(folder: &str, words: &[&str]) -> Child {
        sh(&run(folder, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())).spawn().unwrap()
    }

    /// The end of a run whose lifeline was held all the time.
    fn end(mut child: Child) -> Output {
        let lifeline = child.stdin.take();
        let output = child.wait_with_output().unwrap();
        drop(lifeline);
        output
    }

    fn entries(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_program_runs_and_its_folder_is_removed() {
        let base = tempfile::tempdir().unwrap();
        let folder = folder(base.path(), "#!/bin/sh\nprintf '<%s>' \"$@\"; echo told >&2; echo '  two' >&2; exit 69\n");
        let output = end(start(&folder, &["it's", "$(id)", "", "a  b\n\\c", "--json"]));
        let (said, status) = ending(&output.stdout).unwrap();
        assert_eq!((String::from_utf8_lossy(said).as_ref(), status), ("<it's><$(id)><><a  b\n\\c><--json>", 69));
        assert_eq!(String::from_utf8_lossy(&output.stderr), "told\n  two\n");
        let fetched = sh(&fetch(&folder)).output().unwrap();
        assert!(fetched.status.success() && fetched.stdout.is_empty(), "there are no results: {fetched:?}");
        assert!(sh(&remove(&folder)).output().unwrap().status.success());
        assert_eq!(entries(base.path()), 0);
    }

    /// The program reverts its changes when it is told to end; the folder goes with it, and its messages block no process.
    #[test]
    fn a_lost_lifeline_ends_the_program_and_removes_all() {
        let base = tempfile::tempdir().unwrap();
        let reverted = base.path().join("reverted");
        let program = format!(
            "#!/bin/sh\ntrap 'for i in 1 2 3; do echo ending >&2; done; echo yes >{}; exit 2' TERM\necho up >&2\n\
             while :; do sleep 0.1; done\n",
            reverted.display()
        );
        let folder = folder(base.path(), &program);
        let mut child = start(&folder, &[]);
        let mut messages = child.stderr.take().unwrap();
        messages.read_exact(&mut [0; 3]).unwrap();
        // As when a server has died: no process reads any more.
        drop((messages, child.stdout.take(), child.stdin.take()));
        child.wait().unwrap();
        assert!(reverted.is_file() && !Path::new(&folder).exists());
        assert_eq!(entries(base.path()), 1);
    }

    /// The removal comes over another connection, before the device has noticed that the first one is gone.
    #[test]
    fn the_removal_ends_a_program_that_still_runs() {
        let base = tempfile::tempdir().unwrap();
        let folder = folder(base.path(), "#!/bin/sh\ntrap 'exit 2' TERM\necho up >&2\nwhile :; do sleep 0.1; done\n");
        let mut child = start(&folder, &[]);
        let mut messages = child.stderr.take().unwrap();
        messages.read_exact(&mut [0; 3]).unwrap();
        assert!(sh(&remove(&folder)).output().unwrap().status.success());
        assert_eq!(entries(base.path()), 0);
        end(child);
    }

    #[test]
    fn a_cut_copy_is_noticed() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().to_str().unwrap();
        let mut child = sh(&store(path, "brisk", 5)).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"four").unwrap();
        assert!(!child.wait().unwrap().success());
    }

    #[test]
    fn only_a_folder_of_ours_is_accepted() {
        for (output, expected) in [
            ("aarch64 /tmp/brisk.aB3dEf\n", Some(("aarch64", "/tmp/brisk.aB3dEf"))),
            ("x86_64 /data/local/tmp/brisk.123456\n", Some(("x86_64", "/data/local/tmp/brisk.123456"))),
            ("", None),
            ("aarch64 /tmp/brisk.aB3dEf", None),
            ("aarch64\n", None),
            ("aarch64 tmp/brisk.aB3dEf\n", None),
            ("aarch64 /\n", None),
            ("aarch64 /tmp/brisk.\n", None),
            ("aarch64 /tmp/brisk.aB3dEf/..\n", None),
            ("aarch64 /tmp/../brisk.aB3dEf\n", None),
            ("aarch64 /tmp/brisk.aB3dEf /etc\n", None),
            ("aarch64 /tmp/brisk.aB3d;f\n", None),
            ("welcome\naarch64 /tmp/brisk.aB3dEf\n", None),
        ] {
            let found = prepared(output.as_bytes());
            assert_eq!(found.as_ref().map(|(a, b)| (a.as_str(), b.as_str())), expected, "{output:?}");
        }
    }

    #[test]
    fn an_ending_is_the_last_line() {
        for (output, expected) in [
            ("brisk-ended 0\n", Some(("", 0))),
            ("a\nb\nbrisk-ended 1\n", Some(("a\nb\n", 1))),
            ("no newlinebrisk-ended 69\n", Some(("no newline", 69))),
            ("brisk-ended 0\nbrisk-ended 137\n", Some(("brisk-ended 0\n", 137))),
            ("", None),
            ("a\n", None),
            ("brisk-ended 0", None),
            ("brisk-ended 0\nmore\n", None),
            ("brisk-ended 256\n", None),
        ] {
            let expected = expected.map(|(text, status)| (text.as_bytes(), status));
            assert_eq!(ending(output.as_bytes()), expected, "{output:?}");
        }
    }

    proptest! {
        #[test]
        fn no_output_of_a_device_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = (prepared(&bytes), ending(&bytes));
        }
    }
}
