//! What replicates measure: each metric with its name, its unit and its key.

use serde::Deserialize;

/// A quantity that a replicate measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// From just before the fork to the load's first screen.
    #[default]
    Launch,
    /// Launch time minus the time of the generated load (Jo and Suh 2017, "basic launch time").
    Basic,
    /// Energy over a window that is equally long in every arm.
    Energy,
    /// The number of the daemon's actions for the launch.
    Actions,
    /// What `brisk diagnose` estimates that the mechanism would have removed of the launch.
    EstimatedGain,
    /// A service lookup: one call of the driver and all that it causes; the median of a replicate.
    Lookup,
    /// The mean of the same, over hits and misses, as papers report it.
    LookupMean,
    /// The 99th percentile of the same.
    LookupP99,
    /// Elapsed time of a lookup: the mean over the clients.
    LookupTime,
    /// The share of the lookups that the driver's cache answers.
    HitShare,
    /// The share of the lookups that go to the most frequent quarter of the services that are looked up.
    TopQuarterShare,
    /// The share of a lookup's time in the paper's first step: the client builds the request and sends it to the driver.
    StepOneShare,
    /// In its second: from the driver to the manager, which searches, and back to the driver.
    StepTwoShare,
    /// In its third: the driver finds the caller.
    StepThreeShare,
    /// In its fourth: the answer is copied and parsed, and the manager's reference found.
    StepFourShare,
    /// In its fifth: the reference is added to the client.
    StepFiveShare,
    /// From then on: the client is woken and receives the answer.
    WayBackShare,
    /// A lookup directly after the driver's cache was cleared: the median.
    Miss,
    /// A call of the driver that does nothing.
    EmptyCall,
    /// A call of the driver that takes one reference and releases it.
    ReferencePair,
    /// Killed applications, whatever killed them.
    Kills,
    /// Of those, the ones that were in the foreground.
    FrontKills,
    /// Of those, the ones that the kernel killed.
    OomKills,
    /// Applications alive at the end.
    Alive,
    /// The median of the first five launches, while memory suffices for all.
    EarlyLaunch,
    /// The median of the last five of the consecutive launches.
    LateLaunch,
    /// The user's wait for an application that is opened again, launch or resume: the mean.
    Reopen,
    /// Opening an application that is still alive: the median.
    Resume,
    /// The user's wait for an application, launch or resume: the median.
    Opening,
    /// The 95th percentile of the same.
    OpeningP95,
    /// A service lookup of an opening: the mean.
    OpeningLookup,
    /// The same in first launches: a course has one for each application, whatever the memory policy does.
    LaunchLookup,
    /// The same in resumes.
    ResumeLookup,
    /// The median lookup of a resume, averaged over the resumes: one or two other lookups include swap-in.
    ResumeLookupMedian,
    /// Energy of a whole course of openings.
    CourseEnergy,
    /// Music periods of 20 ms that were late while applications were opened.
    CourseMusicMissed,
    /// CPU time of the daemon and its processes while applications were opened, without [`Metric::PageoutCost`].
    OwnCost,
    /// CPU time of swap-out ahead of need, which the kernel spends itself where the daemon does not.
    PageoutCost,
    /// Openings that showed no screen within the limit.
    Unresponsive,
    /// Data written to flash for swap.
    FlashWritten,
    /// Time to read the memory of one process, on average.
    Reading,
    /// Memory that a single application got before the kernel killed it.
    Single,
    /// Error of the resident size against the memory that a kill freed: the median over kills.
    ResidentError,
    /// The same for the proportional size.
    ProportionalError,
    /// The same for the proportional size with swap.
    ProportionalSwapError,
    /// The same for brisk's estimate.
    EstimateError,
    /// The same for the prediction of the arm's killer.
    PredictionError,
    /// Time to read brisk's estimate, relative to the time to read the exact figures: the median over kills.
    EstimateCost,
    /// From the kernel's event to SIGKILL, the longest of a replicate.
    KillDelay,
    /// From SIGKILL until the memory was free, the longest of a replicate.
    KillReturn,
    /// From the kernel's start to the first screen.
    Boot,
    /// Until the boot's first process: the kernel and its initramfs.
    Kernel,
    /// Init's services.
    Services,
    /// The zygote's start and, after it has preloaded, its start of the system server.
    ZygoteStart,
    /// The zygote's preloading of classes and resources.
    Preload,
    /// CPU time of all threads of the zygote while it preloaded.
    PreloadCpu,
    /// From the system server's start to its end.
    SystemServer,
    /// From the request of an application to its screen.
    Application,
    /// The boot without preloading: no way to preload changes it.
    BootRest,
    /// The share of the boot that is preloading.
    PreloadShare,
    /// The share of the boot that is the zygote: its start, and its preloading.
    ZygoteShare,
    /// The share of these two that is preloading.
    PreloadOfZygote,
    /// The boot's duration with preloading spread evenly over two CPUs: Amdahl's bound.
    BootBound,
    /// Duration of preloading spread evenly over two CPUs.
    PreloadBound,
    /// The boot's gain at Amdahl's bound.
    BoundGain,
    /// The boot's gain by a plan, as predicted for two CPUs.
    GainOnTwo,
    /// The same for four.
    GainOnFour,
    /// Classes of the list that are not initialised in the zygote when it begins to fork.
    ClassesLeft,
    /// Classes of the list that a fork's child has initialised when it exits.
    ClassesInChild,
    /// Overhead of a preloader that follows a plan: it reads the plan, starts and joins threads.
    PreloaderOwn,
    /// Throughput of two CPUs relative to one.
    CpusWorth,
    /// Predicted duration of preloading by a plan on two CPUs.
    PreloadOnTwo,
    /// Predicted duration of the boot with a plan on two CPUs.
    BootOnTwo,
    /// The same on four.
    BootOnFour,
    /// The same on eight.
    BootOnEight,
    /// The user's wait: how long the foreground's work takes, or the 95th percentile where it is paced.
    Foreground,
    /// The median of the times of which [`Metric::Foreground`] is the 95th percentile.
    ForegroundMedian,
    /// The foreground's CPU time as a share of the time in which it was runnable.
    CpuWhileRunnable,
    /// Music periods of 20 ms whose work was not done before the next began.
    MusicMissed,
    /// The background's share of the CPUs while a foreground ran.
    Background,
    /// What the background moves in bulk while a foreground runs.
    BackgroundRate,
    /// Migrations of the foreground's threads to another CPU.
    Migrations,
    /// How often another task preempted one of them.
    Preemptions,
    /// Energy of the device while the foreground runs.
    RunEnergy,
    /// Seconds in which the foreground's process was found on another CPU than a second before, as in a `top` every second.
    CoreChanges,
    /// The same of the foreground's second process.
    CoreChangesChild,
    /// The same of the first background program.
    CoreChangesBackground,
    /// Seconds in which the foreground's process was found on the CPU of the first background program.
    SharedCores,
    /// Seconds in which both processes of the foreground and the first background program were found on one CPU.
    AllOnOneCore,
}

/// What a metric measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// Launches of a program.
    Launches,
    /// Lookups of services.
    Lookups,
    /// Applications that share memory.
    Applications,
    /// Reading of processes' memory.
    Readings,
    /// Boots of a device.
    Boots,
    /// A foreground with background programs.
    Combinations,
}

impl Metric {
    /// Every metric, in the order of tables.
    pub const ALL: [Self; 89] = [
        Self::Launch,
        Self::Basic,
        Self::Energy,
        Self::Actions,
        Self::EstimatedGain,
        Self::Lookup,
        Self::LookupMean,
        Self::LookupP99,
        Self::LookupTime,
        Self::HitShare,
        Self::TopQuarterShare,
        Self::StepOneShare,
        Self::StepTwoShare,
        Self::StepThreeShare,
        Self::StepFourShare,
        Self::StepFiveShare,
        Self::WayBackShare,
        Self::Miss,
        Self::EmptyCall,
        Self::ReferencePair,
        Self::Kills,
        Self::FrontKills,
        Self::OomKills,
        Self::Alive,
        Self::EarlyLaunch,
        Self::LateLaunch,
        Self::Reopen,
        Self::Resume,
        Self::Opening,
        Self::OpeningP95,
        Self::OpeningLookup,
        Self::LaunchLookup,
        Self::ResumeLookup,
        Self::ResumeLookupMedian,
        Self::CourseEnergy,
        Self::CourseMusicMissed,
        Self::OwnCost,
        Self::PageoutCost,
        Self::Unresponsive,
        Self::FlashWritten,
        Self::Single,
        Self::ResidentError,
        Self::ProportionalError,
        Self::ProportionalSwapError,
        Self::EstimateError,
        Self::PredictionError,
        Self::EstimateCost,
        Self::KillDelay,
        Self::KillReturn,
        Self::Reading,
        Self::Boot,
        Self::Kernel,
        Self::Services,
        Self::ZygoteStart,
        Self::Preload,
        Self::PreloadCpu,
        Self::SystemServer,
        Self::Application,
        Self::BootRest,
        Self::PreloadShare,
        Self::ZygoteShare,
        Self::PreloadOfZygote,
        Self::BootBound,
        Self::PreloadBound,
        Self::BoundGain,
        Self::GainOnTwo,
        Self::GainOnFour,
        Self::ClassesLeft,
        Self::ClassesInChild,
        Self::PreloaderOwn,
        Self::CpusWorth,
        Self::PreloadOnTwo,
        Self::BootOnTwo,
        Self::BootOnFour,
        Self::BootOnEight,
        Self::Foreground,
        Self::ForegroundMedian,
        Self::CpuWhileRunnable,
        Self::MusicMissed,
        Self::Background,
        Self::BackgroundRate,
        Self::Migrations,
        Self::Preemptions,
        Self::RunEnergy,
        Self::CoreChanges,
        Self::CoreChangesChild,
        Self::CoreChangesBackground,
        Self::SharedCores,
        Self::AllOnOneCore,
    ];

    /// The subject that it measures.
    pub fn subject(self) -> Subject {
        self.facts().0
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        self.facts().1
    }

    /// The unit in which results give it.
    pub fn unit(self) -> &'static str {
        self.facts().2
    }

    /// Its key in a replicate's line.
    pub fn key(self) -> &'static str {
        self.facts().3
    }

    /// True where a higher figure is better: what is alive, had, answered or kept, in place of a time or a cost.
    pub fn higher_is_better(self) -> bool {
        matches!(
            self,
            Self::Alive
                | Self::Single
                | Self::HitShare
                | Self::CpusWorth
                | Self::CpuWhileRunnable
                | Self::Background
                | Self::BackgroundRate
        )
    }

    fn facts(self) -> (Subject, &'static str, &'static str, &'static str) {
        use Subject::{Applications, Boots, Combinations, Launches, Lookups, Readings};
        match self {
            Self::Launch => (Launches, "launch", "ms", "launch_ms"),
            Self::Basic => (Launches, "basic", "ms", "basic_ms"),
            Self::Energy => (Launches, "energy", "mJ", "energy_mj"),
            Self::Actions => (Launches, "actions", "actions", "actions"),
            Self::EstimatedGain => (Launches, "estimated gain", "ms", "estimated_gain_ms"),
            Self::Lookup => (Lookups, "lookup", "instructions", "lookup"),
            Self::LookupMean => (Lookups, "lookup mean", "instructions", "lookup_mean"),
            Self::LookupP99 => (Lookups, "lookup p99", "instructions", "lookup_p99"),
            Self::LookupTime => (Lookups, "lookup time", "us", "lookup_us"),
            Self::HitShare => (Lookups, "hits", "%", "hit_percent"),
            Self::TopQuarterShare => (Lookups, "top quarter's share", "%", "top_quarter_percent"),
            Self::StepOneShare => (Lookups, "step 1's share", "%", "step_1_percent"),
            Self::StepTwoShare => (Lookups, "step 2's share", "%", "step_2_percent"),
            Self::StepThreeShare => (Lookups, "step 3's share", "%", "step_3_percent"),
            Self::StepFourShare => (Lookups, "step 4's share", "%", "step_4_percent"),
            Self::StepFiveShare => (Lookups, "step 5's share", "%", "step_5_percent"),
            Self::WayBackShare => (Lookups, "way back's share", "%", "way_back_percent"),
            Self::Miss => (Lookups, "miss", "instructions", "miss"),
            Self::EmptyCall => (Lookups, "empty call", "instructions", "empty_call"),
            Self::ReferencePair => (Lookups, "reference pair", "instructions", "reference_pair"),
            Self::Kills => (Applications, "kills", "applications", "kills"),
            Self::FrontKills => (Applications, "foreground kills", "applications", "front_kills"),
            Self::OomKills => (Applications, "kernel's kills", "applications", "oom_kills"),
            Self::Alive => (Applications, "alive", "applications", "alive"),
            Self::EarlyLaunch => (Applications, "early launch", "ms", "early_launch_ms"),
            Self::LateLaunch => (Applications, "late launch", "ms", "late_launch_ms"),
            Self::Reopen => (Applications, "reopen", "ms", "reopen_ms"),
            Self::Resume => (Applications, "resume", "ms", "resume_ms"),
            Self::Opening => (Applications, "opening", "ms", "opening_ms"),
            Self::OpeningP95 => (Applications, "opening p95", "ms", "opening_p95_ms"),
            Self::OpeningLookup => (Applications, "lookup of an opening", "us", "opening_lookup_us"),
            Self::LaunchLookup => (Applications, "lookup of a first launch", "us", "launch_lookup_us"),
            Self::ResumeLookup => (Applications, "lookup of a resume", "us", "resume_lookup_us"),
            Self::ResumeLookupMedian => (Applications, "median lookup of a resume", "us", "resume_lookup_median_us"),
            Self::CourseEnergy => (Applications, "energy of the course", "mJ", "course_energy_mj"),
            Self::CourseMusicMissed => (Applications, "music missed in the course", "%", "course_music_missed_percent"),
            Self::OwnCost => (Applications, "daemon's own CPU time", "%", "own_cost_percent"),
            Self::PageoutCost => (Applications, "CPU time of swapping out ahead", "%", "pageout_cost_percent"),
            Self::Unresponsive => (Applications, "unresponsive", "openings", "unresponsive"),
            Self::FlashWritten => (Applications, "flash written", "KiB", "flash_written_kib"),
            Self::Single => (Applications, "single task", "KiB", "single_kib"),
            Self::ResidentError => (Applications, "error of RSS", "%", "error_rss"),
            Self::ProportionalError => (Applications, "error of PSS", "%", "error_pss"),
            Self::ProportionalSwapError => (Applications, "error of PSS + swap", "%", "error_pss_swap"),
            Self::EstimateError => (Applications, "error of the estimate", "%", "error_estimate"),
            Self::PredictionError => (Applications, "error of its own", "%", "error_prediction"),
            Self::EstimateCost => (Applications, "cost of the estimate", "%", "cost_estimate"),
            Self::KillDelay => (Applications, "event to kill", "ms", "kill_delay_ms"),
            Self::KillReturn => (Applications, "kill to memory", "ms", "kill_return_ms"),
            Self::Reading => (Readings, "reading", "us", "reading_us"),
            Self::Boot => (Boots, "boot", "ms", "boot_ms"),
            Self::Kernel => (Boots, "kernel", "ms", "kernel_ms"),
            Self::Services => (Boots, "services", "ms", "services_ms"),
            Self::ZygoteStart => (Boots, "zygote's start", "ms", "zygote_start_ms"),
            Self::Preload => (Boots, "preload", "ms", "preload_ms"),
            Self::PreloadCpu => (Boots, "preload's CPU time", "ms", "preload_cpu_ms"),
            Self::SystemServer => (Boots, "system server", "ms", "system_server_ms"),
            Self::Application => (Boots, "application", "ms", "application_ms"),
            Self::BootRest => (Boots, "rest of the boot", "ms", "boot_rest_ms"),
            Self::PreloadShare => (Boots, "preload's share", "%", "preload_percent"),
            Self::ZygoteShare => (Boots, "zygote's share", "%", "zygote_percent"),
            Self::PreloadOfZygote => (Boots, "preload's share of the zygote", "%", "preload_of_zygote_percent"),
            Self::BootBound => (Boots, "Amdahl's bound", "ms", "boot_bound_ms"),
            Self::PreloadBound => (Boots, "preload's bound", "ms", "preload_bound_ms"),
            Self::BoundGain => (Boots, "Amdahl's gain", "%", "bound_gain_percent"),
            Self::GainOnTwo => (Boots, "gain predicted on 2 CPUs", "%", "gain_on_2_percent"),
            Self::GainOnFour => (Boots, "gain predicted on 4 CPUs", "%", "gain_on_4_percent"),
            Self::ClassesLeft => (Boots, "classes left", "classes", "classes_left"),
            Self::ClassesInChild => (Boots, "classes in the child", "classes", "classes_in_child"),
            Self::PreloaderOwn => (Boots, "preloader's own", "ms", "preloader_own_ms"),
            Self::CpusWorth => (Boots, "worth of two CPUs", "times", "cpus_worth"),
            Self::PreloadOnTwo => (Boots, "preload predicted on 2 CPUs", "ms", "preload_on_2_ms"),
            Self::BootOnTwo => (Boots, "predicted on 2 CPUs", "ms", "boot_on_2_ms"),
            Self::BootOnFour => (Boots, "predicted on 4 CPUs", "ms", "boot_on_4_ms"),
            Self::BootOnEight => (Boots, "predicted on 8 CPUs", "ms", "boot_on_8_ms"),
            Self::Foreground => (Combinations, "foreground", "ms", "foreground_ms"),
            Self::ForegroundMedian => (Combinations, "foreground median", "ms", "foreground_median_ms"),
            Self::CpuWhileRunnable => (Combinations, "CPU while runnable", "%", "cpu_while_runnable_percent"),
            Self::MusicMissed => (Combinations, "music missed", "%", "music_missed_percent"),
            Self::Background => (Combinations, "background", "% of a CPU", "background_percent"),
            Self::BackgroundRate => (Combinations, "background's rate", "MiB/s", "background_mib_per_s"),
            Self::Migrations => (Combinations, "moved to another CPU", "times", "migrations"),
            Self::Preemptions => (Combinations, "CPU taken by others", "times", "preemptions"),
            Self::RunEnergy => (Combinations, "energy while it runs", "mJ", "run_energy_mj"),
            Self::CoreChanges => (Combinations, "core changes in 1 s samples", "times", "core_changes"),
            Self::CoreChangesChild => {
                (Combinations, "core changes of the second process", "times", "core_changes_child")
            }
            Self::CoreChangesBackground => {
                (Combinations, "core changes of the background", "times", "core_changes_background")
            }
            Self::SharedCores => (Combinations, "core shared in 1 s samples", "times", "cores_shared"),
            Self::AllOnOneCore => (Combinations, "all on one core in 1 s samples", "times", "all_on_one_core"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_that_a_thread_gets_is_better_and_times_are_worse() {
        for (metric, expected) in [
            (Metric::CpuWhileRunnable, true),
            (Metric::HitShare, true),
            (Metric::Background, true),
            (Metric::Foreground, false),
            (Metric::MusicMissed, false),
            (Metric::Kills, false),
        ] {
            assert_eq!(metric.higher_is_better(), expected, "{}", metric.name());
        }
    }
}
