//! Which files make up the configuration, and which file sets which value.
//!
//! As in the UAPI group's configuration file specification: only the `brisk.toml` in the highest folder is read (`/etc/brisk`
//! above `/usr/local/lib/brisk` above `/usr/lib/brisk`, and not `/run/brisk`, which belongs to the user of the service;
//! Android's are those of [`ANDROID`]). Then all `brisk.toml.d/*.toml` are read in the order of their names, where a name in a
//! higher folder replaces the same name in a lower one, and a link to `/dev/null` hides it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, ConfigError};
use brisk_base::toml_text::{self, position};
use brisk_sys::Root;

/// The folders, lowest first.
const LINUX: [&str; 3] = ["/usr/lib/brisk", "/usr/local/lib/brisk", "/etc/brisk"];
/// Android's, lowest first: the partitions of the image, the module of Magisk or KernelSU, and the user's own settings, which
/// survive updates of both. The daemon does not write there.
const ANDROID: [&str; 6] = [
    "/system/etc/brisk",
    "/system_ext/etc/brisk",
    "/product/etc/brisk",
    "/vendor/etc/brisk",
    "/data/adb/modules/brisk/etc",
    "/data/misc/brisk-config",
];
/// A configuration with every key and comment has 8 KiB; more than this is a mistake.
const LIMIT_KIB: u64 = 256;

/// Pairs of settings of which the first, once it is set in a file, must not exceed the second. The kernel refuses a trigger of
/// memory stalls whose window is shorter than the stall (Documentation/accounting/psi.rst).
const ORDERED: [(&str, &str); 2] =
    [("launch.end.minimum_ms", "launch.end.deadline_ms"), ("memory.killer.stall_ms", "memory.killer.window_ms")];

/// A value in force and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    pub value: Value,
    /// The file that set it; `None` is the built-in default.
    pub origin: Option<PathBuf>,
}

/// The configuration in force and its sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Layers {
    /// The configuration.
    pub config: Config,
    /// The files that were read, in ascending order of precedence.
    pub files: Vec<PathBuf>,
    /// Each setting by its dotted name (`launch.end.deadline_ms`).
    pub settings: BTreeMap<String, Setting>,
}

impl Layers {
    /// Reads the configuration files below `root`. Without any file it is the default configuration.
    ///
    /// # Errors
    /// The first file that cannot be read or is invalid.
    pub fn read(root: &Root) -> Result<Self, ConfigError> {
        Self::of(Self::files(root)?, None)
    }

    /// As [`Layers::read`], for commands that only show something: after an error the defaults are assumed, and it is returned.
    pub fn read_or_default(root: &Root) -> (Config, Option<String>) {
        match Self::read(root) {
            Ok(layers) => (layers.config, None),
            Err(error) => (Config::default(), Some(root.with_device_paths(&error))),
        }
    }

    /// The same as if the drop-in `file` held `text`, whether or not it exists.
    ///
    /// # Errors
    /// As [`Layers::read`].
    pub fn read_with(root: &Root, file: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut files = Self::files(root)?;
        // A file of this name in a lower folder would be replaced by it.
        let place = files.iter().position(|other| is_drop_in(other) && other.file_name() >= file.file_name());
        match place {
            Some(place) if files[place].file_name() == file.file_name() => files[place] = file.to_owned(),
            Some(place) => files.insert(place, file.to_owned()),
            None => files.push(file.to_owned()),
        }
        Self::of(files, Some((file, text)))
    }

    /// The highest folder, which is the user's: its real path.
    pub fn user_folder(root: &Root) -> PathBuf {
        root.path(folders(root)[folders(root).len() - 1])
    }

    fn files(root: &Root) -> Result<Vec<PathBuf>, ConfigError> {
        let mut files = Vec::new();
        let folders = folders(root);
        let main_files = folders.iter().rev().map(|folder| root.path(folder).join("brisk.toml"));
        files.extend(main_files.into_iter().find(|path| path.symlink_metadata().is_ok()));
        let mut drop_ins = BTreeMap::new();
        for folder in folders {
            for path in toml_files(&root.path(folder).join("brisk.toml.d"))? {
                drop_ins.insert(path.file_name().map(ToOwned::to_owned), path);
            }
        }
        files.extend(drop_ins.into_values());
        Ok(files)
    }

    /// Reads `file` alone over the defaults, for `--config`.
    ///
    /// # Errors
    /// When it cannot be read or is invalid.
    pub fn read_only(file: &Path) -> Result<Self, ConfigError> {
        Self::of(vec![file.to_owned()], None)
    }

    /// Reads `files`; the file in `replaced` is assumed to hold the given text.
    fn of(files: Vec<PathBuf>, replaced: Option<(&Path, &str)>) -> Result<Self, ConfigError> {
        let (mut settings, mut texts) = (BTreeMap::new(), BTreeMap::new());
        let defaults = Table::try_from(Config::default()).unwrap_or_default();
        record(&mut settings, "", &defaults, None);
        for file in &files {
            let text = match replaced {
                Some((name, text)) if name == file => text.to_owned(),
                _ => read_bounded(file)?,
            };
            // Checked as a whole first, because only here the position of an error is known.
            Config::parse(&text).map_err(|error| ConfigError::refused(file, &error))?;
            let table = toml_text::from_str(&text).map_err(|error| ConfigError::refused(file, &error))?;
            record(&mut settings, "", &table, Some(file));
            texts.insert(file.as_path(), text);
        }
        let last = files.last().map_or(Path::new("built-in defaults"), PathBuf::as_path);
        // Through text again, so that the binary holds only one reader of the configuration.
        let text = assemble(&settings).to_string();
        let config = Config::parse(&text).map_err(|error| ConfigError::refused(last, &error))?;
        check_order(&settings, &texts)?;
        Ok(Self { config, files, settings })
    }
}

/// Checks the pairs of [`ORDERED`], which can come from two files, whose texts are `texts`.
fn check_order(settings: &BTreeMap<String, Setting>, texts: &BTreeMap<&Path, String>) -> Result<(), ConfigError> {
    for (smaller, larger) in ORDERED {
        let number = |name: &str| settings.get(name).and_then(|setting| setting.value.as_integer());
        let origin = settings.get(smaller).and_then(|setting| setting.origin.clone());
        let (Some(path), Some(small), Some(large)) = (origin, number(smaller), number(larger)) else { continue };
        if small > large {
            let message = format!("{smaller} = {small} is more than {larger} = {large}");
            let position = texts.get(path.as_path()).and_then(|text| toml_text::position_of(text, smaller));
            let (line, column) = position.unwrap_or((1, 1));
            return Err(ConfigError::Refused { path, line, column, message });
        }
    }
    Ok(())
}

fn folders(root: &Root) -> &'static [&'static str] {
    if root.is_android() { &ANDROID } else { &LINUX }
}

fn is_drop_in(file: &Path) -> bool {
    file.parent().and_then(Path::file_name).is_some_and(|folder| folder == "brisk.toml.d")
}

/// Records every leaf of `table`; an array is one value, which replaces the lower layer's as a whole.
fn record(settings: &mut BTreeMap<String, Setting>, prefix: &str, table: &Table, origin: Option<&Path>) {
    for (key, value) in table {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Value::Table(section) => record(settings, &name, section, origin),
            _ => {
                settings.insert(name, Setting { value: value.clone(), origin: origin.map(Path::to_owned) });
            }
        }
    }
}

fn assemble(settings: &BTreeMap<String, Setting>) -> Table {
    let mut table = Table::new();
    for (name, setting) in settings {
        let mut section = &mut table;
        let mut keys = name.split('.').peekable();
        while let Some(key) = keys.next() {
            if keys.peek().is_none() {
                section.insert(key.to_owned(), setting.value.clone());
                break;
            }
            let inner = section.entry(key).or_insert_with(|| Value::Table(Table::new()));
            let Value::Table(inner) = inner else { break };
            section = inner;
        }
    }
    table
}

/// The visible `*.toml` in `folder`, which need not exist.
fn toml_files(folder: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(ConfigError::io(folder, error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| ConfigError::io(folder, error))?.path();
        let hidden = path.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
        if !hidden && path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(files)
}

/// The text of `path`, never more than [`LIMIT_KIB`] of it; `/dev/null` is an empty file.
fn read_bounded(path: &Path) -> Result<String, ConfigError> {
    let fault = |error| ConfigError::io(path, error);
    let kind = fs::metadata(path).map_err(fault)?;
    if kind.file_type().is_char_device() && fs::canonicalize(path).map_err(fault)? == Path::new("/dev/null") {
        return Ok(String::new());
    }
    if !kind.is_file() {
        return Err(ConfigError::NotAFile { path: path.to_owned() });
    }
    let limit = LIMIT_KIB << 10;
    let mut bytes = Vec::new();
    fs::File::open(path).map_err(fault)?.take(limit + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > limit {
        return Err(ConfigError::TooLong { path: path.to_owned(), limit_kib: LIMIT_KIB });
    }
    String::from_utf8(bytes).map_err(|error| {
        let (line, _) = position(error.as_bytes(), error.utf8_error().valid_up_to());
        ConfigError::NotText { path: path.to_owned(), line }
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(folder.path());
        (folder, root)
    }

    #[test]
    fn no_file_is_the_default() {
        let (_folder, root) = tree(&[]);
        let layers = Layers::read(&root).unwrap();
        assert_eq!(layers.config, Config::default());
        assert!(layers.settings.values().all(|setting| setting.origin.is_none()));
    }

    // Verifies ON-5.
    #[test]
    fn higher_folders_and_later_names_win() {
        let (folder, root) = tree(&[
            ("usr/lib/brisk/brisk.toml", "[launch]\nburst_launches = 1\nforce = true"),
            ("etc/brisk/brisk.toml", "[launch]\nburst_launches = 2"),
            ("usr/lib/brisk/brisk.toml.d/50-a.toml", "[launch.end]\ndeadline_ms = 50"),
            ("etc/brisk/brisk.toml.d/50-a.toml", "[launch.end]\ndeadline_ms = 60"),
            ("usr/lib/brisk/brisk.toml.d/60-b.toml", "[launch.end]\nminimum_ms = 8"),
            ("usr/local/lib/brisk/brisk.toml.d/60-b.toml", "[launch.end]\nminimum_ms = 7"),
            ("etc/brisk/brisk.toml.d/.70-hidden.toml", "nonsense"),
            ("etc/brisk/brisk.toml.d/70-other.conf", "nonsense"),
            ("usr/lib/brisk/brisk.toml.d/80-masked.toml", "nonsense"),
        ]);
        symlink("/dev/null", folder.path().join("etc/brisk/brisk.toml.d/80-masked.toml")).unwrap();
        let layers = Layers::read(&root).unwrap();
        let launch = &layers.config.launch;
        assert_eq!((launch.burst_launches, launch.force), (2, false), "a main file hides the lower ones");
        assert_eq!((launch.end.deadline_ms, launch.end.minimum_ms), (60, 7));
        let origin =
            |name: &str| layers.settings[name].origin.as_ref().map(|path| path.strip_prefix(folder.path()).unwrap());
        assert_eq!(origin("launch.end.deadline_ms"), Some(Path::new("etc/brisk/brisk.toml.d/50-a.toml")));
        assert_eq!(origin("launch.burst_launches"), Some(Path::new("etc/brisk/brisk.toml")));
        assert_eq!(origin("launch.enabled"), None);
    }

    // Verifies ON-3.
    #[test]
    fn a_drop_in_is_tested_at_its_place_in_the_order() {
        let (folder, root) = tree(&[
            ("etc/brisk/brisk.toml", "[launch]\nburst_launches = 1"),
            ("usr/lib/brisk/brisk.toml.d/50-b.toml", "[launch]\nburst_launches = 2"),
            ("etc/brisk/brisk.toml.d/60-c.toml", "[launch.end]\nminimum_ms = 7"),
        ]);
        let own = Layers::user_folder(&root).join("brisk.toml.d");
        assert_eq!(own, folder.path().join("etc/brisk/brisk.toml.d"));
        for (name, launches, minimum_ms) in
            [("40-a.toml", 2, 7), ("50-b.toml", 9, 7), ("55-b.toml", 9, 7), ("70-d.toml", 9, 9)]
        {
            let text = "[launch]\nburst_launches = 9\n[launch.end]\nminimum_ms = 9";
            let config = Layers::read_with(&root, &own.join(name), text).unwrap().config;
            assert_eq!((config.launch.burst_launches, config.launch.end.minimum_ms), (launches, minimum_ms), "{name}");
        }
        assert!(Layers::read_with(&root, &own.join("x.toml"), "[lunch]").is_err());
        assert_eq!(Layers::read(&root).unwrap().files.len(), 3, "nothing was written");
    }

    /// The runtime folder belongs to the user of the service: what that user writes there must not become root's configuration.
    // Verifies SECURITY-2.
    #[test]
    fn the_services_user_configures_no_other_user() {
        let (_folder, root) = tree(&[
            ("run/brisk/brisk.toml", "[launch]\nenabled = false"),
            ("run/brisk/brisk.toml.d/50-a.toml", "[memory.zram]\nenabled = true"),
        ]);
        assert_eq!(Layers::read(&root).unwrap().config, Config::default());
    }

    // Verifies ANDROID-2.
    #[test]
    fn android_has_layers_of_its_own_and_no_others() {
        let order = ["system/etc/brisk", "vendor/etc/brisk", "data/adb/modules/brisk/etc", "data/misc/brisk-config"];
        for count in 1..=order.len() {
            let mut files = vec![
                ("system/build.prop".to_owned(), String::new()),
                ("usr/lib/brisk/brisk.toml".to_owned(), "nonsense".to_owned()),
                ("data/misc/brisk/brisk.toml".to_owned(), "what the daemon writes is no configuration".to_owned()),
            ];
            for (index, folder) in order[..count].iter().enumerate() {
                files.push((format!("{folder}/brisk.toml"), format!("[launch]\nburst_launches = {}", index + 1)));
                files.push((
                    format!("{folder}/brisk.toml.d/1.toml"),
                    format!("[launch.end]\nminimum_ms = {}", index + 1),
                ));
            }
            let files: Vec<_> = files.iter().map(|(file, text)| (file.as_str(), text.as_str())).collect();
            let (folder, root) = tree(&files);
            let layers = Layers::read(&root).unwrap();
            let launch = &layers.config.launch;
            assert_eq!((launch.burst_launches, launch.end.minimum_ms), (count as u64, count as u64));
            let origin = layers.settings["launch.burst_launches"].origin.as_deref();
            assert_eq!(origin, Some(folder.path().join(order[count - 1]).join("brisk.toml").as_path()));
        }
    }

    // Verifies ON-5.
    #[test]
    fn mistakes_name_file_line_and_column() {
        for (text, expected) in [
            ("[launch]\nforce = true\n  speed = 3\n", ":3:3: unknown field `speed`"),
            ("[launch\n", ":1:8: "),
            ("[launch.end]\ndeadline_ms = \"soon\"", ":2:15: invalid type: string \"soon\""),
            ("[lookup]\nformat = \"android-4\"", ":2:10: the wire format \"android-4\" is not known, expected one of "),
            ("[lookup]\ncontext = \"../../x\"", ":2:11: \"../../x\" is no name of a file"),
            ("[placement]\ngroups = \"x\"", ":2:10: expected \"auto\", \"off\", or the folder"),
            (
                "[memory.zram]\nbacking_device = \"mmcblk0p9\"",
                ":2:18: \"mmcblk0p9\" is no absolute path, such as \"/dev/mmcblk0p9\"",
            ),
            (
                "[memory.killer]\nstall_ms = 1000",
                ":2:12: memory.killer.stall_ms = 1000 is more than memory.killer.window_ms = 500",
            ),
            (
                "[launch.end]\nminimum_ms = 5000",
                ":2:14: launch.end.minimum_ms = 5000 is more than launch.end.deadline_ms = 3000",
            ),
        ] {
            let (_folder, root) = tree(&[("etc/brisk/brisk.toml", text)]);
            let message = Layers::read(&root).unwrap_err().to_string();
            assert!(message.contains(&format!("etc/brisk/brisk.toml{expected}")), "{message}");
        }
    }

    /// A window of another file counts, and a short deadline needs no setting of the minimum.
    // Verifies ON-5.
    #[test]
    fn bounds_between_settings_hold_across_files() {
        for (first, second, is_valid) in [
            ("[memory.killer]\nwindow_ms = 2000", "[memory.killer]\nstall_ms = 1000", true),
            ("[memory.killer]\nstall_ms = 1000", "[memory.killer]\nwindow_ms = 2000", true),
            ("[memory.killer]\nstall_ms = 1000", "[memory.killer]\nwindow_ms = 999", false),
            ("[launch.end]\ndeadline_ms = 50", "", true),
            ("[launch.end]\ndeadline_ms = 50", "[launch.end]\nminimum_ms = 51", false),
        ] {
            let (_folder, root) =
                tree(&[("etc/brisk/brisk.toml.d/1.toml", first), ("etc/brisk/brisk.toml.d/2.toml", second)]);
            assert_eq!(Layers::read(&root).is_ok(), is_valid, "{first} {second}");
        }
    }

    // Verifies SECURITY-3.
    #[test]
    fn a_file_that_is_no_configuration_is_refused_at_once() {
        let (folder, root) = tree(&[]);
        let path = folder.path().join("etc/brisk/brisk.toml");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let garbage: Vec<u8> =
            (0..10 << 20).map(|index: u32| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let started = Instant::now();
        fs::write(&path, &garbage).unwrap();
        assert!(Layers::read(&root).unwrap_err().to_string().contains("longer than 256 KiB"));
        fs::write(&path, &garbage[..1000]).unwrap();
        assert!(Layers::read(&root).unwrap_err().to_string().ends_with(":1: the text is not UTF-8"));
        fs::write(&path, "[".repeat(200_000)).unwrap();
        assert!(matches!(Layers::read(&root), Err(ConfigError::Refused { .. })));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(Layers::read(&root), Err(ConfigError::NotAFile { .. })));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
}
