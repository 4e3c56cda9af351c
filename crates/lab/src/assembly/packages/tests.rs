use std::process::{Child, Command, Stdio};
use std::sync::Barrier;

use tempfile::TempDir;

use super::super::apt::repository::{Offered, Repository};
use super::*;

#[test]
fn headers_include_each_other_where_they_were_unpacked() {
    let folder = tempfile::tempdir().unwrap();
    let headers = folder.path().join("linux-headers-6.1.0-56-amd64");
    fs::create_dir_all(&headers).unwrap();
    fs::create_dir_all(folder.path().join("linux-headers-6.1.0-56-common")).unwrap();
    fs::write(headers.join("Makefile"), "include /usr/src/linux-headers-6.1.0-56-common/Makefile\n").unwrap();
    relocate_headers(folder.path(), Path::new("/cache/entry")).unwrap();
    let text = fs::read_to_string(headers.join("Makefile")).unwrap();
    assert_eq!(text, "include /cache/entry/usr/src/linux-headers-6.1.0-56-common/Makefile\n");
}

/// Makes a test's process a job of the lab, with a cache and an apt that are independent of this machine's.
const JOB: &str = "BRISK_TEST_JOB";
/// The folder that jobs share.
const FOLDER: &str = "BRISK_TEST_FOLDER";

/// A host as apt sees it, with one source, and a cache.
struct Host {
    folder: TempDir,
}

impl Host {
    fn with(source: &str) -> Self {
        let host = Self { folder: tempfile::tempdir().unwrap() };
        let path = host.folder.path();
        for folder in ["lists/partial", "archives/partial"] {
            fs::create_dir_all(path.join(folder)).unwrap();
        }
        let configuration = format!(
            "Dir::Etc::Parts \"/dev/null\";\nDir::Etc::main \"/dev/null\";\nDir::Etc::sourceparts \"/dev/null\";\n\
             Dir::Etc::sourcelist \"{0}/sources.list\";\nDir::State \"{0}\";\nDir::State::status \"{0}/status\";\n\
             Dir::State::lists \"{0}/lists\";\nDir::Cache \"{0}\";\n",
            path.display()
        );
        for (file, text) in [("apt.conf", configuration.as_str()), ("sources.list", source), ("status", "")] {
            fs::write(path.join(file), text).unwrap();
        }
        host
    }

    /// Updates the lists, as root does.
    fn update(&self) {
        let status = Command::new("apt-get").args(["-qq", "update"]).env("APT_CONFIG", self.file("apt.conf")).status();
        assert!(status.unwrap().success());
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the test `name` as a process that does `job`.
    fn start(&self, name: &str, job: &str) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("assembly::packages::tests::{name}"), "--nocapture"]);
        command.env("APT_CONFIG", self.file("apt.conf")).env(JOB, job).env(FOLDER, self.folder.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs such a process and returns its output.
    fn run(&self, name: &str, job: &str) -> String {
        said(self.start(name, job))
    }
}

/// The output of a process, which must succeed.
fn said(process: Child) -> String {
    let output = process.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    said
}

/// In a process that [`Host`] has started: its job and its cache.
fn job() -> Option<(String, Cache)> {
    let folder = std::env::var_os(FOLDER)?;
    Some((std::env::var(JOB).ok()?, Cache::at(&Path::new(&folder).join("cache")).unwrap()))
}

const NAMES: [&str; 6] = ["one", "two", "three", "four", "five", "six"];

/// What a job does before it boots, by eight threads that want the same packages at the same time.
fn fill(cache: &Cache, source: &str) {
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for number in 0..8 {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                let amd64 = Architecture::named("amd64").unwrap();
                // The host's packages, and those of a source that no job has used before.
                let apt =
                    if number % 2 == 0 { Apt::of_host(cache) } else { Apt::of_source(cache, source, amd64).unwrap() };
                let packages = Packages { cache, kernels: apt.clone(), tools: apt, foreign: None };
                for name in NAMES {
                    let folder = packages.with_libraries(name).unwrap();
                    for file in [name, "libsmall"] {
                        let text = fs::read_to_string(folder.join("usr/share").join(file)).unwrap();
                        assert_eq!(text, "1\n");
                    }
                }
            });
        }
    });
}

// Verifies LAB-2.
#[test]
fn threads_of_several_processes_fill_an_empty_cache_at_once() {
    if let Some((source, cache)) = job() {
        return fill(&cache, &source);
    }
    let offered = NAMES.map(|name| Offered { depends: "libsmall (= 1)", ..Offered::new(name, "1") });
    let repository = Repository::with(&[&offered[..], &[Offered::new("libsmall", "1")]].concat());
    let host = Host::with(&repository.source());
    host.update();
    let test = "threads_of_several_processes_fill_an_empty_cache_at_once";
    let _ = [(); 3].map(|()| host.start(test, &repository.source())).map(said);
    // No draft and no lock is left.
    let drafts: Vec<_> = fs::read_dir(host.file("cache/drafts")).unwrap().collect();
    assert!(drafts.is_empty(), "{drafts:?}");
}

// Verifies LAB-2.
#[test]
fn a_package_replaced_on_the_mirror_is_found_with_new_lists() {
    if let Some((name, cache)) = job() {
        let apt = Apt::of_host(&cache);
        let folder = Packages { cache: &cache, kernels: apt.clone(), tools: apt, foreign: None }.alone(&name).unwrap();
        println!("version {}", fs::read_to_string(folder.join("usr/share").join(name)).unwrap());
        return;
    }
    let test = "a_package_replaced_on_the_mirror_is_found_with_new_lists";
    let repository = Repository::with(&[Offered::new("one", "1"), Offered::new("two", "1")]);
    let host = Host::with(&repository.source());
    let lists = || {
        let files = fs::read_dir(host.file("lists")).unwrap().map(|file| file.unwrap().path());
        files.filter(|path| path.is_file()).map(|path| fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    // A container's image comes without lists.
    let says = host.run(test, "one");
    assert!(says.contains("fetching the package lists of this host") && says.contains("version 1\n"), "{says}");
    fs::remove_dir_all(host.file("cache")).unwrap();

    host.update();
    let before = lists();
    repository.offer(&[Offered::new("one", "2"), Offered::new("two", "2")]);
    let says = host.run(test, "one");
    assert!(says.contains("trying once more") && says.contains("version 2\n"), "{says}");
    assert_eq!(lists(), before, "only root changes the host's");
    // The new lists stay in use until root fetches newer ones.
    let says = host.run(test, "two");
    assert!(!says.contains("trying once more") && says.contains("version 2\n"), "{says}");
    repository.offer(&[Offered::new("one", "3"), Offered::new("two", "3")]);
    host.update();
    let says = host.run(test, "two");
    assert!(!says.contains("trying once more") && says.contains("version 3\n"), "{says}");
    // A package that no mirror has any more still comes from the cache.
    repository.offer(&[]);
    host.update();
    let says = host.run(test, "two");
    assert!(says.contains("using two_3_all from the cache") && says.contains("version 3\n"), "{says}");
}

/// The kernel packages of one release, as Debian names them.
fn offer_kernel(repository: &Repository, release: &str, version: &str, others: &[Offered<'_>]) {
    let [image, headers] = ["image", "headers"].map(|part| format!("linux-{part}-{release}"));
    let [boot, modules, makefile] = [
        format!("boot/vmlinuz-{release}"),
        format!("lib/modules/{release}/modules.order"),
        format!("usr/src/linux-headers-{release}/Makefile"),
    ];
    let meta = |name, depends| Offered { depends, is_meta: true, ..Offered::new(name, version) };
    let kernel = [
        meta("linux-image-amd64", &image),
        meta("linux-headers-amd64", &headers),
        Offered { files: &[(&boot, "a kernel"), (&modules, "")], ..Offered::new(&image, version) },
        Offered { files: &[(&makefile, "")], ..Offered::new(&headers, version) },
    ];
    repository.offer(&[&kernel[..], others].concat());
}

/// The host's packages are only used for guests of the host's architecture.
// Verifies LAB-2.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kernel_replaced_before_its_headers_came_is_fetched_again() {
    if let Some((what, cache)) = job() {
        let scenario = Scenario::load("debian-6.1").unwrap();
        let kernel = crate::retry_on_newer_kernel(|| {
            let packages = Packages::of(&cache, &scenario)?;
            let kernel = packages.kernel(&scenario)?;
            if what == "headers" {
                packages.headers(&scenario.kernel.headers, &kernel.release)?;
            }
            Ok(kernel)
        });
        println!("release {}", kernel.unwrap().release);
        return;
    }
    let test = "a_kernel_replaced_before_its_headers_came_is_fetched_again";
    let repository = Repository::with(&[]);
    offer_kernel(&repository, "6.1.0-1-amd64", "6.1.10-1", &[]);
    let host = Host::with(&repository.source());
    host.update();
    let says = host.run(test, "kernel");
    assert!(says.contains("release 6.1.0-1-amd64\n"), "{says}");
    offer_kernel(&repository, "6.1.0-2-amd64", "6.1.20-1", &[]);
    let says = host.run(test, "headers");
    assert!(says.contains("release 6.1.0-2-amd64\n"), "{says}");
}

/// A host of Debian 13 has neither the kernel nor the programs that a scenario of Debian 12 asks for.
// Verifies LAB-2.
#[cfg(target_arch = "x86_64")]
#[test]
fn kernel_and_programs_come_from_the_scenarios_release() {
    if let Some((source, cache)) = job() {
        let mut scenario = Scenario::load("debian-6.1").unwrap();
        scenario.kernel.source = Some(source);
        let packages = Packages::of(&cache, &scenario).unwrap();
        let folder = packages.alone("systemd").unwrap();
        let systemd = fs::read_to_string(folder.join("usr/share/systemd")).unwrap();
        println!("release {} systemd {systemd}", packages.kernel(&scenario).unwrap().release);
        // Debian 13 has no package of this name at all.
        scenario.kernel.package = "linux-source-6.1".into();
        let label = Packages::of(&cache, &scenario).unwrap().kernels.label().to_owned();
        assert!(label.starts_with("amd64-"), "{label}");
        return;
    }
    let test = "kernel_and_programs_come_from_the_scenarios_release";
    let [ours, theirs] = [(); 2].map(|()| Repository::with(&[]));
    let release = |version| [Offered::new("systemd", version), Offered::new("libc6", version)];
    offer_kernel(&ours, "6.12.1-amd64", "6.12.1-1", &release("257"));
    for (with_programs, expected) in [(true, "systemd 252\n"), (false, "systemd 257\n")] {
        // A source of backports has no C library, so programs come from the host's release.
        let others = if with_programs { &release("252")[..] } else { &release("252")[..1] };
        offer_kernel(&theirs, "6.1.0-1-amd64", "6.1.10-1", others);
        let host = Host::with(&ours.source());
        host.update();
        let says = host.run(test, &theirs.source());
        assert!(says.contains(&format!("release 6.1.0-1-amd64 {expected}")), "{says}");
    }
}

/// kbuild's programs run on this host, so they come from its own packages, or from the scenario's release for its processor.
// Verifies LAB-2.
#[cfg(target_arch = "x86_64")]
#[test]
fn headers_of_another_processor_come_with_this_hosts_kbuild() {
    const RELEASE: &str = "6.1.0-1-arm64";
    if let Some((source, cache)) = job() {
        let mut scenario = Scenario::load("debian-arm64-6.1").unwrap();
        scenario.kernel.source = Some(source);
        let headers = Packages::of(&cache, &scenario).unwrap().headers("linux-headers-arm64", RELEASE).unwrap();
        let kbuild = fs::read_to_string(headers.join("../../lib/linux-kbuild-6.1/of")).unwrap();
        println!("kbuild of the {kbuild}");
        return;
    }
    let test = "headers_of_another_processor_come_with_this_hosts_kbuild";
    let kbuild = |version, of| Offered { files: of, ..Offered::new("linux-kbuild-6.1", version) };
    let makefile = format!("usr/src/linux-headers-{RELEASE}/Makefile");
    let headers = format!("linux-headers-{RELEASE}");
    let theirs = Repository::with(&[
        Offered { depends: &headers, is_meta: true, ..Offered::new("linux-headers-arm64", "6.1.10-1") },
        Offered { depends: "linux-kbuild-6.1", files: &[(&makefile, "")], ..Offered::new(&headers, "6.1.10-1") },
        kbuild("6.1.10-1", &[("usr/lib/linux-kbuild-6.1/of", "scenario")]),
    ]);
    for (version, expected) in [("6.1.10-1", "host"), ("6.1.20-1", "scenario")] {
        let ours = Repository::with(&[kbuild(version, &[("usr/lib/linux-kbuild-6.1/of", "host")])]);
        let host = Host::with(&ours.source());
        host.update();
        let says = host.run(test, &theirs.source());
        assert!(says.contains(&format!("kbuild of the {expected}\n")), "{version}: {says}");
    }
}
