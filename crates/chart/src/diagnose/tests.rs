use super::*;
use crate::model::{Core, CpuSample, Disk, DiskSample, Pressure, PressureSample, Process, State};
use crate::sample;

/// Milliseconds, busy CPUs, CPUs that wait for a disk, and the frequency as a share of the highest.
type Stretch = (u32, f32, f32, f32);

/// A phase's limit, from and to.
type Expected = (Limit, u32, u32);

fn boot(cpus: u32, stretches: &[Stretch]) -> Boot {
    sampled(200, cpus, stretches)
}

fn sampled(sample_ms: u32, cpus: u32, stretches: &[Stretch]) -> Boot {
    let core = |number| Core { number, maximum_khz: 1000, ..Core::default() };
    let mut boot = Boot { cores: (0..cpus).map(core).collect(), ..Boot::default() };
    let mut now_ms = 1000;
    boot.span.start_ms = now_ms;
    for &(length_ms, busy, waiting, speed) in stretches {
        for core in &mut boot.cores {
            core.frequency.push((now_ms, (speed * 1000.0) as u32));
        }
        for _ in 0..length_ms / sample_ms {
            let span = Span::new(now_ms, now_ms + sample_ms);
            let share = |value: f32| value / cpus as f32;
            boot.cpu.push(CpuSample { span, user: share(busy), system: 0.0, io_wait: share(waiting) });
            // CPUs are filled one after the other.
            for (core, before) in boot.cores.iter_mut().zip(0u8..) {
                core.busy.push(((busy - f32::from(before)).clamp(0.0, 1.0) * 100.0) as u8);
                core.io_wait.push(0);
            }
            now_ms += sample_ms;
        }
    }
    boot.span.end_ms = now_ms;
    boot
}

fn process(name: &str, start_ms: u32, end_ms: u32, cpu_permille: u16, state: State) -> Process {
    sample::process(name, Span { start_ms, end_ms }, cpu_permille, state)
}

// Verifies CHART-3.
#[test]
fn phases_are_named_by_what_limits_them() {
    use Limit::{Disk, EveryCpu, OneCpu, PartlyBusy, SeveralCpus, Waiting};
    let table: [(u32, &[Stretch], &[Expected]); 8] = [
        (4, &[(4000, 1.0, 0.0, 1.0), (4000, 3.8, 0.0, 1.0)], &[(OneCpu, 1000, 5000), (EveryCpu, 5000, 9000)]),
        (4, &[(4000, 0.1, 0.8, 1.0), (4000, 2.0, 0.2, 1.0)], &[(Disk, 1000, 5000), (SeveralCpus, 5000, 9000)]),
        (2, &[(4000, 0.05, 0.0, 1.0), (4000, 1.0, 0.5, 1.0)], &[(Waiting, 1000, 5000), (OneCpu, 5000, 9000)]),
        (1, &[(4000, 1.0, 0.0, 1.0), (4000, 0.6, 0.0, 1.0)], &[(EveryCpu, 1000, 5000), (PartlyBusy, 5000, 9000)]),
        // A short pause belongs to the phase around it.
        (4, &[(4000, 1.0, 0.0, 1.0), (200, 0.0, 0.0, 1.0), (4000, 1.0, 0.0, 1.0)], &[(OneCpu, 1000, 9200)]),
        // An alternating load is partly busy, until it is idle.
        (
            2,
            &[(600, 0.9, 0.0, 1.0), (400, 0.2, 0.0, 1.0), (600, 0.9, 0.0, 1.0), (400, 0.2, 0.0, 1.0)],
            &[(PartlyBusy, 1000, 2600)],
        ),
        (2, &[(200, 1.0, 0.0, 1.0)], &[(OneCpu, 1000, 1200)]),
        (2, &[], &[]),
    ];
    for (cpus, stretches, expected) in table {
        let diagnosis = diagnose(&boot(cpus, stretches));
        let working = diagnosis.phases.iter().filter(|phase| phase.limit != Limit::Idle);
        let found: Vec<_> = working.map(|p| (p.limit, p.span.start_ms, p.span.end_ms)).collect();
        let near = found.len() == expected.len()
            && found
                .iter()
                .zip(expected)
                .all(|(a, b)| a.0 == b.0 && a.1.abs_diff(b.1) <= 400 && a.2.abs_diff(b.2) <= 400);
        assert!(near, "{cpus} CPUs, {stretches:?}: {found:?} is not {expected:?}");
    }
}

// Verifies CHART-3.
#[test]
fn the_finer_the_samples_the_shorter_a_phase_can_be_told() {
    // A quick boot: its limit changes within half a second.
    let stretches = [(400, 1.0, 0.0, 1.0), (320, 0.0, 0.9, 1.0), (320, 0.1, 0.0, 1.0), (400, 2.0, 0.0, 1.0)];
    let limits = |sample_ms: u32| -> Vec<Limit> {
        diagnose(&sampled(sample_ms, 2, &stretches)).phases.iter().map(|phase| phase.limit).collect()
    };
    assert_eq!(limits(40), [Limit::OneCpu, Limit::Disk, Limit::Waiting, Limit::EveryCpu]);
    assert!(limits(200).len() < 4, "two samples make no phase");
}

// Verifies CHART-3.
#[test]
fn gains_are_amdahls_bounds() {
    // Sixteen seconds of one CPU, all of it parallel, is 8 s on two, 4 on four, 2 on eight.
    for (cpus, gain_ms) in [(2, 8000), (4, 12_000), (8, 14_000)] {
        let diagnosis = diagnose(&boot(cpus, &[(16_000, 1.0, 0.0, 1.0)]));
        let [finding] = &diagnosis.findings[..] else { panic!("{diagnosis:?}") };
        assert_eq!((finding.opportunity, finding.gain_ms), (Opportunity::Parallel, gain_ms));
        assert_eq!(finding.bounds, [(2, 8000), (4, 12_000), (8, 14_000)]);
    }
    assert_eq!(diagnose(&boot(1, &[(16_000, 1.0, 0.0, 1.0)])).findings, [], "one CPU has no other");
}

// Verifies CHART-3.
#[test]
fn findings_are_ranked_by_what_they_win() {
    let stretches = [(2000, 0.1, 0.9, 1.0), (8000, 1.0, 0.0, 0.5), (5000, 0.0, 0.0, 0.3), (4000, 4.0, 0.0, 0.75)];
    let mut boot = boot(4, &stretches);
    boot.processes = vec![
        process("ueventd", 1000, 3000, 100, State::DiskWait),
        process("zygote64", 3000, 11_000, 1000, State::Running),
        process("system_server", 15_900, 20_000, 3900, State::Running),
    ];
    let diagnosis = diagnose(&boot);
    let expected = [
        (Opportunity::Parallel, 6000, "zygote64"),
        (Opportunity::Waiting, 4800, "system_server"),
        (Opportunity::Frequency, 4100, "zygote64"),
        (Opportunity::Work, 3900, "system_server"),
        (Opportunity::Disk, 1800, "ueventd"),
        (Opportunity::Frequency, 1000, "system_server"),
    ];
    assert_eq!(diagnosis.findings.len(), expected.len(), "{diagnosis:#?}");
    for (finding, (opportunity, gain_ms, who)) in diagnosis.findings.iter().zip(expected) {
        assert_eq!(finding.opportunity, opportunity, "{finding:?}");
        assert!(finding.gain_ms.abs_diff(gain_ms) <= 450, "{finding:?} is not near {gain_ms}");
        assert_eq!(boot.processes[finding.who[0].process].name, who, "{finding:?}");
    }
    assert!(
        diagnosis.findings[0].advice.starts_with("zygote64 (100 % of the CPU time) works on one CPU while 3 are idle")
    );
    assert!(diagnosis.findings[1].advice.contains("until system_server does"), "{}", diagnosis.findings[1].advice);
    assert!(diagnosis.findings[2].advice.contains("at 50 % of"), "{}", diagnosis.findings[2].advice);
}

// Verifies CHART-3.
#[test]
fn idleness_at_the_end_is_no_loss() {
    let diagnosis = diagnose(&boot(2, &[(4000, 2.0, 0.0, 1.0), (6000, 0.0, 0.0, 0.2)]));
    assert_eq!(diagnosis.findings, []);
    assert!(diagnosis.done_ms.abs_diff(5000) <= 400, "{}", diagnosis.done_ms);
}

#[test]
fn a_busy_disk_needs_a_waiting_process() {
    let mut boot = boot(2, &[(4000, 0.1, 0.2, 1.0), (2000, 2.0, 0.0, 1.0)]);
    let sample = |busy| DiskSample { span: Span::new(0, 9000), read_kib: 1, written_kib: 0, busy };
    for (busy, waiting, expected) in [(0.9, 0.2, Limit::Disk), (0.9, 0.0, Limit::Waiting), (0.2, 0.2, Limit::Waiting)] {
        boot.disks = vec![Disk { name: "sda".to_owned(), samples: vec![sample(busy)] }];
        boot.cpu[..20].iter_mut().for_each(|cpu| cpu.io_wait = waiting / 2.0);
        assert_eq!(diagnose(&boot).phases[0].limit, expected, "{busy} {waiting}");
    }
}

// Verifies CHART-3.
#[test]
fn pressure_shows_what_cpu_samples_do_not() {
    let mut boot = boot(2, &[(4000, 0.1, 0.0, 1.0), (4000, 0.6, 0.0, 1.0)]);
    let pressure = |name: &str, shares: [f32; 2]| Pressure {
        name: name.to_owned(),
        samples: (0..8)
            .map(|second| PressureSample {
                span: Span::new(1000 + second * 1000, 2000 + second * 1000),
                some: 1.0,
                full: shares[usize::from(second >= 4)],
            })
            .collect(),
    };
    assert_eq!(diagnose(&boot).phases[0].limit, Limit::Waiting);
    boot.pressures = vec![pressure("io", [0.5, 0.0]), pressure("memory", [0.0, 0.25])];
    let diagnosis = diagnose(&boot);
    let [reads, works] = &diagnosis.phases[..] else { panic!("{diagnosis:#?}") };
    assert_eq!((reads.limit, works.limit), (Limit::Disk, Limit::PartlyBusy));
    assert!((0.45..=0.5).contains(&reads.io_stall.unwrap()), "{reads:?}");
    let memory = diagnosis.findings.iter().find(|finding| finding.opportunity == Opportunity::Memory).unwrap();
    assert!(memory.phase == 1 && memory.gain_ms.abs_diff(1000) <= 100, "{diagnosis:#?}");
}
