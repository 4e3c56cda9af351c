//! CPU time, each CPU and each disk, over time.

use super::MARGIN;
use super::sheet::Sheet;
use crate::columns::{Columns, runs};
use crate::model::{Boot, Core, Disk, OFFLINE, Pressure};
use brisk_report::svg::{Anchor, fit, text_width};

const CPU_HEIGHT: f64 = 96.0;
const DISK_HEIGHT: f64 = 56.0;
const PRESSURE_HEIGHT: f64 = 26.0;
const CORE_HEIGHT: f64 = 15.0;
/// With more CPUs, several share a row.
const MAX_CORE_ROWS: usize = 16;
/// Further disks are only counted.
const MAX_DISKS: usize = 4;

/// A heading with its legend. Returns the y coordinate of the panel.
fn heading(sheet: &mut Sheet, y: f64, text: &str, legend: &[(&str, &str)]) -> f64 {
    let y = y + 20.0;
    sheet.text("head", Anchor::Start, (MARGIN, y), text);
    let mut x = sheet.scale.left;
    for (class, label) in legend {
        if matches!(*class, "rate" | "speed") {
            sheet.path(class, &format!("M{x:.1} {:.1}h14", y - 4.0));
        } else {
            sheet.rectangle(class, (x, y - 10.0), (11.0, 11.0), "");
        }
        sheet.text("small", Anchor::Start, (x + 17.0, y), label);
        x += 17.0 + text_width(label, 11.0) + 14.0;
    }
    y + 8.0
}

fn frame(sheet: &mut Sheet, top: f64, height: f64) {
    let (left, width) = (sheet.scale.left, sheet.scale.width);
    sheet.path("axis", &format!("M{left} {:.1}h{width}", top + height));
}

/// User, system and I/O wait, stacked.
pub fn cpu(sheet: &mut Sheet, boot: &Boot, y: f64) -> f64 {
    if boot.cpu.is_empty() {
        return y;
    }
    let legend = [("user", "user"), ("system", "system"), ("wait", "idle, waiting for a disk")];
    let top = heading(sheet, y, "CPU", &legend);
    let base = top + CPU_HEIGHT;
    let mut layers = [(); 3].map(|()| Columns::new(sheet.scale));
    for sample in &boot.cpu {
        layers[0].add(sample.span, sample.user);
        layers[1].add(sample.span, sample.busy());
        layers[2].add(sample.span, sample.busy() + sample.io_wait);
    }
    let zero = vec![0.0; sheet.scale.width];
    let mut low = zero.as_slice();
    for (class, layer) in ["user", "system", "wait"].into_iter().zip(&layers) {
        sheet.area(class, base, CPU_HEIGHT, low, layer.values());
        low = layer.values();
    }
    for (share, label) in [(1.0, "100 %"), (0.5, "50 %"), (0.0, "0")] {
        let y = base - share * CPU_HEIGHT + 4.0;
        sheet.text("small", Anchor::End, (sheet.scale.left - 6.0, y), label);
    }
    frame(sheet, top, CPU_HEIGHT);
    base + 6.0
}

/// A strip per CPU, darker where it was busier, with its frequency as a line.
pub fn cores(sheet: &mut Sheet, boot: &Boot, y: f64) -> f64 {
    let has_frequency = boot.cores.iter().any(|core| !core.frequency.is_empty());
    if boot.cores.len() < 2 && !has_frequency {
        return y;
    }
    let mut legend = vec![("run2", "half busy"), ("run4", "busy"), ("wait", "waiting for a disk")];
    if has_frequency {
        legend.push(("speed", "frequency, of the highest"));
    }
    let mut y = heading(sheet, y, "Each CPU", &legend);
    for cores in boot.cores.chunks(boot.cores.len().div_ceil(MAX_CORE_ROWS)) {
        strip(sheet, boot, cores, y);
        let label = match cores {
            [core] => format!("cpu{}", core.number),
            [first, .., last] => format!("cpu{} to cpu{}", first.number, last.number),
            [] => String::new(),
        };
        sheet.text("small", Anchor::End, (sheet.scale.left - 6.0, y + 11.0), &label);
        if let Some(khz) = cores.iter().map(|core| core.maximum_khz).max().filter(|khz| *khz > 0) {
            let x = sheet.scale.left + sheet.scale.width as f64 + 6.0;
            sheet.text("small", Anchor::Start, (x, y + 11.0), &format!("{:.2} GHz", f64::from(khz) / 1e6));
        }
        y += CORE_HEIGHT + 2.0;
    }
    y + 4.0
}

fn strip(sheet: &mut Sheet, boot: &Boot, cores: &[Core], top: f64) {
    let [mut busy, mut wait, mut online] = [(); 3].map(|()| Columns::new(sheet.scale));
    let share = 1.0 / cores.len() as f32;
    for core in cores {
        for (sample, (&percent, &waiting)) in boot.cpu.iter().zip(core.busy.iter().zip(&core.io_wait)) {
            if percent != OFFLINE {
                busy.add(sample.span, f32::from(percent) / 100.0 * share);
                wait.add(sample.span, f32::from(waiting) / 100.0 * share);
                online.add(sample.span, share);
            }
        }
    }
    let level = |busy: f32, wait: f32, online: f32| match () {
        () if online < 0.05 => "",
        () if busy < 0.1 && wait >= 0.3 => "wait",
        () if busy < 0.05 => "life",
        () if busy < 0.3 => "run1",
        () if busy < 0.6 => "run2",
        () if busy < 0.85 => "run3",
        () => "run4",
    };
    let values = busy.values().iter().zip(wait.values()).zip(online.values());
    let levels: Vec<&str> = values.map(|((busy, wait), online)| level(*busy, *wait, *online)).collect();
    let left = sheet.scale.left;
    for (start, end, class) in runs(levels) {
        if !class.is_empty() {
            sheet.rectangle(class, (left + start as f64, top), ((end - start) as f64, CORE_HEIGHT), "");
        }
    }
    // CPUs that share a row show the frequency of the first; the slowest would hide the others.
    if let Some(core) = cores.iter().find(|core| !core.frequency.is_empty()) {
        let span = sheet.scale.span;
        let at = |column: usize| {
            let share = column as f64 / sheet.scale.width as f64;
            core.speed_at(span.start_ms + (f64::from(span.length_ms()) * share) as u32)
        };
        let speeds: Vec<Option<f32>> = (0..sheet.scale.width).map(at).collect();
        sheet.steps("speed", top + CORE_HEIGHT - 1.0, CORE_HEIGHT - 2.0, &speeds);
    }
}

/// How long tasks waited for CPU, memory and I/O; a resource without waits is left out.
pub fn pressures(sheet: &mut Sheet, boot: &Boot, y: f64) -> f64 {
    const MIN_SHARE: f32 = 0.01;
    let waited = |pressure: &&Pressure| pressure.samples.iter().any(|sample| sample.some >= MIN_SHARE);
    let shown: Vec<&Pressure> = boot.pressures.iter().filter(waited).collect();
    if shown.is_empty() {
        return y;
    }
    let mut y = heading(sheet, y, "Waiting (PSI)", &[("wait", "some task waits"), ("rate", "every task waits")]);
    for pressure in shown {
        let base = y + PRESSURE_HEIGHT;
        let [mut some, mut full] = [(); 2].map(|()| Columns::new(sheet.scale));
        for sample in &pressure.samples {
            some.add(sample.span, sample.some);
            full.add(sample.span, sample.full);
        }
        let zero = vec![0.0; sheet.scale.width];
        sheet.area("wait", base, PRESSURE_HEIGHT, &zero, some.values());
        let shares: Vec<Option<f32>> = full.values().iter().map(|share| Some(*share)).collect();
        sheet.steps("rate", base, PRESSURE_HEIGHT, &shares);
        let name = fit(&pressure.name, 12.0, sheet.scale.left - MARGIN - 60.0);
        sheet.text("", Anchor::Start, (MARGIN, y + 12.0), &name);
        frame(sheet, y, PRESSURE_HEIGHT);
        y = base + 8.0;
    }
    y
}

/// Load and throughput of each disk.
pub fn disks(sheet: &mut Sheet, boot: &Boot, y: f64) -> f64 {
    let mut disks: Vec<(&Disk, f64)> = boot
        .disks
        .iter()
        .map(|disk| (disk, disk.samples.iter().map(|s| f64::from(s.busy * s.span.length_ms() as f32)).sum()))
        .collect();
    if disks.is_empty() {
        return y;
    }
    disks.sort_by(|one, other| other.1.total_cmp(&one.1));
    let legend = [("disk", "a request under way"), ("rate", "read and written")];
    let mut y = heading(sheet, y, "Disks", &legend);
    for (disk, _) in disks.iter().take(MAX_DISKS) {
        y = one_disk(sheet, disk, y);
    }
    let more = disks.len().saturating_sub(MAX_DISKS);
    if more > 0 {
        sheet.text(
            "small",
            Anchor::Start,
            (sheet.scale.left, y + 8.0),
            &format!("and {more} more disks that did less"),
        );
        y += 14.0;
    }
    y
}

fn one_disk(sheet: &mut Sheet, disk: &Disk, top: f64) -> f64 {
    let base = top + DISK_HEIGHT;
    let [mut busy, mut rate] = [(); 2].map(|()| Columns::new(sheet.scale));
    for sample in &disk.samples {
        busy.add(sample.span, sample.busy);
        let kib = (u64::from(sample.read_kib) + u64::from(sample.written_kib)) as f32;
        rate.add(sample.span, kib / sample.span.length_ms().max(1) as f32 * 1000.0 / 1024.0);
    }
    let zero = vec![0.0; sheet.scale.width];
    sheet.area("disk", base, DISK_HEIGHT, &zero, busy.values());
    let peak = rate.values().iter().copied().fold(0.0, f32::max);
    if peak > 0.0 {
        let shares: Vec<Option<f32>> = rate.values().iter().map(|rate| Some(rate / peak * 0.96)).collect();
        sheet.steps("rate", base, DISK_HEIGHT, &shares);
        let x = sheet.scale.left + sheet.scale.width as f64 + 6.0;
        let decimals = if peak < 10.0 { 1 } else { 0 };
        sheet.text("small", Anchor::Start, (x, top + 10.0), &format!("{peak:.decimals$} MiB/s"));
    }
    let name = fit(&disk.name, 12.0, sheet.scale.left - MARGIN - 60.0);
    sheet.text("", Anchor::Start, (MARGIN, top + 12.0), &name);
    sheet.text("small", Anchor::End, (sheet.scale.left - 6.0, top + 10.0), "100 %");
    frame(sheet, top, DISK_HEIGHT);
    base + 8.0
}
