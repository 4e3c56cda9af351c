//! The end of a shard: what it measured, and how all shards are joined. Claims are judged only then.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde::Serialize;

use super::name_in_form;
use crate::cli::output;
use brisk_experiment::campaign::{CampaignMember, ExperimentOutcome};
use brisk_experiment::conduct::Findings;
use brisk_experiment::shard::Shard;
use brisk_report::proof::{Failure, FailureOf};

/// What `brisk prove --shard --json` prints.
#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    shard: Shard,
    folder: PathBuf,
    experiments: Vec<Part>,
}

/// A shard's part of one experiment.
#[derive(Debug, Serialize)]
struct Part {
    /// The experiment with its form: `launch-gap-full`.
    name: String,
    /// How many replicates are measured or refused.
    replicates: usize,
    /// How many the shard has.
    of: usize,
    refused: usize,
    failure: Option<Failure>,
}

/// Reports what the shard measured.
///
/// # Errors
/// When the results cannot be written to disk, or the report to standard output.
pub fn finish(shard: Shard, members: &[CampaignMember], base: &Path, json: bool) -> anyhow::Result<ExitCode> {
    members.iter().try_for_each(|member| member.store.sync())?;
    let folder = std::path::absolute(base).with_context(|| format!("cannot find {}", base.display()))?;
    let experiments: Vec<Part> = members.iter().map(part).collect();
    let failures = experiments.iter().filter_map(|part| part.failure.as_ref());
    let codes = failures.map(|failure| match failure.of {
        FailureOf::Lab => 69,
        FailureOf::Experiment => 2,
    });
    let code = codes.max().unwrap_or(0);
    output::print(&Report { schema: 1, shard, folder, experiments }, json, text)?;
    Ok(ExitCode::from(code))
}

fn part(member: &CampaignMember) -> Part {
    let run = member.run();
    let of = run.missing(&Findings::default()).count();
    let ids: Vec<u32> = run.missing(&Findings::default()).map(|(replicate, _)| replicate.id).collect();
    let refused =
        member.findings.measured().filter(|it| it.rejected.is_some() && ids.binary_search(&it.replicate).is_ok());
    let failure = match &member.outcome {
        Some(ExperimentOutcome::Failed(failure)) => Some(failure.clone()),
        _ => None,
    };
    Part {
        name: name_in_form(&member.entry.experiment.name, member.quick),
        replicates: of - run.missing(&member.findings).count(),
        of,
        refused: refused.count(),
        failure,
    }
}

fn text(report: &Report) -> String {
    let Report { shard, folder, experiments, .. } = report;
    let line = |part: &Part| match part {
        Part { name, of: 0, .. } => format!("shard {shard} of {name}: it has no block\n"),
        Part { name, replicates, of, refused, .. } => {
            format!("shard {shard} of {name}: {replicates} of {of} replicates, {refused} of them refused\n")
        }
    };
    let lines: String = experiments.iter().map(line).collect();
    let all = folder.parent().unwrap_or(folder).display();
    format!("{lines}results: {}\njoin all shards with: brisk prove merge {all}\n", folder.display())
}
