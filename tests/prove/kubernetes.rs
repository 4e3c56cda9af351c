//! The Job of `packaging/farm`: its fields are those that Kubernetes knows, and its pods' command measures shards.

use std::path::{Path, PathBuf};
use std::process::Command;

use brisk::cli::Cli;
use clap::Parser as _;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Container;
use serde_json::Value;

use super::here::{device, here};
use super::{assert_code, launches, merged};

fn farm(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/farm").join(name)
}

/// The manifest as it is written, and as Kubernetes' types read it.
fn manifest() -> (Value, Job) {
    let text = std::fs::read_to_string(farm("kubernetes.yaml")).unwrap();
    let written: Value = serde_saphyr::from_str(&text).unwrap();
    let job = serde_json::from_value(written.clone()).unwrap();
    (written, job)
}

fn container(job: &Job) -> Container {
    let [container] = &job.spec.as_ref().unwrap().template.spec.as_ref().unwrap().containers[..] else { panic!() };
    container.clone()
}

/// A field that Kubernetes does not know, or one at the wrong place, would be lost on the way through its types.
#[test]
fn every_field_of_the_job_is_known_to_kubernetes() {
    let (written, job) = manifest();
    assert_eq!(serde_json::to_value(&job).unwrap(), written);
    // What the reading relies on: an unknown field is not kept, and a wrong type is an error.
    let mut misspelt = written.clone();
    misspelt["spec"]["backoffLimitPerIndexes"] = 3.into();
    assert_ne!(serde_json::to_value(serde_json::from_value::<Job>(misspelt.clone()).unwrap()).unwrap(), misspelt);
    let mut wrong = written;
    wrong["spec"]["completions"] = "8".into();
    assert!(serde_json::from_value::<Job>(wrong).is_err());
}

/// What Kubernetes' own validation asks of such a Job (pkg/apis/batch/validation), and what brisk needs of it.
#[test]
fn the_job_runs_each_shard_alone() {
    let (_, job) = manifest();
    let spec = job.spec.clone().unwrap();
    assert_eq!(spec.completion_mode.as_deref(), Some("Indexed"));
    assert!(spec.backoff_limit_per_index.is_some_and(|limit| limit > 0), "an index has retries of its own");
    let pod = spec.template.spec.clone().unwrap();
    assert_eq!(pod.restart_policy.as_deref(), Some("Never"), "a failure policy and a limit per index require it");
    assert_eq!(spec.pod_replacement_policy.as_deref(), Some("Failed"), "two pods never measure one shard");
    let container = container(&job);
    let shards = container.env.iter().flatten().find(|variable| variable.name == "SHARDS").unwrap();
    assert_eq!(shards.value, spec.completions.map(|count| count.to_string()), "both numbers of shards");
    for rule in spec.pod_failure_policy.unwrap().rules {
        let by = (rule.on_exit_codes.is_some(), rule.on_pod_conditions.is_some_and(|it| !it.is_empty()));
        assert!(by.0 != by.1, "a rule has either codes or conditions");
        if let Some(codes) = rule.on_exit_codes {
            assert_eq!((codes.container_name.as_deref(), codes.values), (Some(container.name.as_str()), vec![2]));
        }
    }
    let resources = container.resources.unwrap();
    assert_eq!(resources.requests, resources.limits, "otherwise the CPUs are not its own");
    assert_eq!(resources.limits.unwrap()["cpu"].0, "2");
    let volumes: Vec<String> = pod.volumes.into_iter().flatten().map(|volume| volume.name).collect();
    assert!(container.volume_mounts.into_iter().flatten().all(|mount| volumes.contains(&mount.name)));
}

#[test]
fn the_jobs_arguments_are_those_of_brisk() {
    let args = container(&manifest().1).args.unwrap();
    let words = ["brisk", "prove"].into_iter().map(str::to_owned).chain(args).chain(["--shard=8/8".to_owned()]);
    Cli::try_parse_from(words).unwrap();
}

/// The pods' command, with the arguments of a short experiment in place of the Job's.
// Verifies PROVE-5.
#[test]
fn each_index_of_the_job_measures_its_shard() {
    let device = device();
    // Writes the experiment's file.
    drop(here(device.path(), 2));
    let results = device.path().join("results");
    let bin = device.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_brisk"), bin.join("brisk")).unwrap();
    let words = container(&manifest().1).command.unwrap();
    let index = |index: &str| {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg("--here").arg(device.path().join("recorded.toml"));
        command.arg("--output").arg(&results).arg("--root").arg(device.path());
        command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
        command.env("SHARDS", "2").env("JOB_COMPLETION_INDEX", index).output().unwrap()
    };
    assert_code(&index("0"), 0);
    assert_code(&index("1"), 0);
    assert_code(&index("2"), 2);
    assert_eq!(launches(&merged(&results, &device.path().join("joined")), "fast").len(), 2);
}

/// The image has what `./dev` installs for the lab and for the drivers that it builds.
#[test]
fn the_image_has_what_the_lab_needs() {
    let needs = std::fs::read_to_string(farm("../needs.sh")).unwrap();
    let image = std::fs::read_to_string(farm("Containerfile")).unwrap();
    let function = |name: &str| needs.split(&format!("\n{name}() {{\n")).nth(1).unwrap().split("\n}").next().unwrap();
    let words = [function("need_lab"), function("need_rust")].map(str::split_whitespace).into_iter().flatten();
    let is_name =
        |word: &&str| !word.is_empty() && word.bytes().all(|it| it.is_ascii_alphanumeric() || b"+.-".contains(&it));
    let packages: Vec<&str> = words.filter_map(|word| Some(word.split_once(':')?.1)).filter(is_name).collect();
    assert!(packages.contains(&"qemu-system-x86") && packages.contains(&"gcc"), "{packages:?}");
    for package in packages {
        assert!(image.split_whitespace().any(|word| word == package), "the image lacks {package}");
    }
}
