use super::*;

const NOW_S: i64 = 1_795_700_000;
const DAY_S: i64 = 86_400;

fn header(exported_at_s: i64) -> String {
    format!(
        r#"{{"brisk_telemetry":1,"device":"00000000000000aa","model":"M \"1\"","build":"b/2","kernel":"6.1.0","architecture":"x86_64","memory_kib":2048,"cpus":2,"governor":"schedutil","brisk":"0.1.0","exported_at_s":{exported_at_s}}}"#
    )
}

/// An export of `rows` with a right trailer.
fn export(exported_at_s: i64, rows: &[String]) -> String {
    let mut text = header(exported_at_s) + "\n" + &rows.iter().map(|row| format!("{row}\n")).collect::<String>();
    seal(&mut text, rows.len() as u64);
    text
}

fn kill(row: u64, at_s: i64) -> String {
    format!(
        r#"{{"row":{row},"at_s":{at_s},"boot":"00000000000000bb","kind":"kill","application":"00000000000000cc","name":null,"freed_kib":-7,"oom_score_adj":-900,"headroom_kib":-9}}"#
    )
}

fn line(rest: &str) -> String {
    format!(r#"{{"row":1,"at_s":{NOW_S},"boot":"00000000000000bb",{rest}}}"#)
}

const START: &str = r#""kind":"start","brisk":"0.1.0","build":"b/2","kernel":"6.1.0""#;
const LAUNCH: &str = r#""kind":"launch","application":"00000000000000cc","name":"mail","length_ms":412,"loss_ms":3.25,"boosted":true,"governor":"schedutil""#;
const BOOT: &str = r#""kind":"boot","length_ms":9000,"kernel_ms":1200,"performance_held":null"#;
const HOUR: &str = r#""kind":"hour","period_s":3600,"uptime_s":7200,"memory_some_ms":null,"memory_full_ms":1,"cpu_some_ms":2,"io_some_ms":0,"lookup_hits":7,"lookup_misses":null,"cpu_ms":3,"resident_kib":2900,"dropped_rows":0"#;
const TRIAL: &str = r#""kind":"trial","step":"weight","outcome":"kept","effect_percent":-3.5"#;
const SWITCH: &str = r#""kind":"switch","mechanism":"launch","active":true,"reason":"""#;

#[test]
fn each_kind_of_row_is_read() {
    let rows = [line(LAUNCH), line(START).replace(":1,", ":2,"), line(BOOT).replace(":1,", ":3,"), kill(4, NOW_S)];
    let text = export(NOW_S, &rows);
    let read = Export::parse(text.as_bytes(), NOW_S).unwrap();
    assert_eq!((read.header.device, &*read.header.model, read.header.cpus), (0xaa, "M \"1\"", 2));
    let launch = Fact::Launch {
        application: 0xcc,
        name: Some(Text("mail".into())),
        length_ms: Some(412),
        loss_ms: Some(3.25),
        boosted: true,
        governor: Text("schedutil".into()),
    };
    let boot = Fact::Boot { length_ms: 9000, kernel_ms: Some(1200), performance_held: None };
    let kill = Fact::Kill { application: 0xcc, name: None, freed_kib: Some(-7), oom_score_adj: -900, headroom_kib: -9 };
    assert_eq!(read.rows.iter().map(|row| row.fact.clone()).collect::<Vec<_>>(), [launch, boot, kill]);
    let builds: Vec<&str> = read.rows.iter().map(|row| &*read.systems[row.system].build).collect();
    assert_eq!(builds, ["", "b/2", "b/2"], "the build is that of the last start before the row");
    assert_eq!(read.ranges, [(1, 4)]);
    for (row, kind) in [(HOUR, "hour"), (TRIAL, "trial"), (SWITCH, "switch")] {
        let text = export(NOW_S, &[line(row).replace("00000000000000bb", "")]);
        let read = Export::parse(text.as_bytes(), NOW_S).unwrap();
        assert_eq!((read.rows[0].fact.kind(), read.rows[0].boot), (kind, None));
    }
}

// Verifies FLEET-3.
#[test]
fn a_file_that_is_not_good_is_refused_with_its_fault() {
    let good = export(NOW_S, &[kill(1, NOW_S)]);
    let sealed = |rows: &[String]| export(NOW_S, rows);
    for (text, kind, words) in [
        (String::new(), "no export", "no header"),
        ("{\"a\":1}\n".to_owned(), "no export", "no header"),
        (good.replace("telemetry\":1", "telemetry\":2"), "other format", "has format 2"),
        (good.trim_end().to_owned(), "half file", "half a file"),
        (header(NOW_S) + "\n" + &kill(1, NOW_S) + "\n", "half file", "half a file"),
        (good.replace("freed_kib\":-7", "freed_kib\":-8"), "damaged", "checksum"),
        (sealed(&["{}".to_owned()]), "damaged", "line 2: missing field"),
        (sealed(&[kill(1, NOW_S), kill(1, NOW_S)]), "damaged", "row 1 follows row 1"),
        (sealed(&[line(LAUNCH), String::new()]), "damaged", "line 3"),
        (sealed(&[line(&LAUNCH.replace("\"loss_ms\":3.25,", ""))]), "damaged", "loss_ms is missing"),
        (sealed(&[line(&BOOT.replace("9000", "null"))]), "damaged", "length_ms is null"),
        (sealed(&[line(&LAUNCH.replace("412", "-1"))]), "damaged", "out of range"),
        (sealed(&[line(&LAUNCH.replace("3.25", "1e300"))]), "damaged", "out of range"),
        (sealed(&[line(&format!("{SWITCH},\"colour\":1"))]), "damaged", "unknown field `colour`"),
        (sealed(&[line(&format!("{SWITCH},\"freed_kib\":1"))]), "damaged", "a key of another kind"),
        (sealed(&[line(&TRIAL.replace("kept", "won"))]), "damaged", "outcome is not"),
        (sealed(&[line(SWITCH).replace("bb", "BB")]), "damaged", "boot is no hash"),
        (sealed(&[line(&LAUNCH.replace("cc", "xx"))]), "damaged", "16 hexadecimal digits"),
        (export(NOW_S + 2 * DAY_S, &[]), "clock off", "by a clock that is off: it said 20"),
        (export(NOW_S + 2 * DAY_S, &[]), "clock off", ", which is more than a day ahead"),
        (export(0, &[]), "clock off", "by a clock that is off: it said 1970-01-01, which is before 2020"),
        (sealed(&[kill(1, NOW_S), kill(2, NOW_S - 2 * DAY_S)]), "clock off", "went back by more than a day at row 2"),
        (sealed(&[kill(1, NOW_S + 2 * DAY_S)]), "clock off", "at row 1"),
    ] {
        let fault = Export::parse(text.as_bytes(), NOW_S).unwrap_err();
        assert_eq!(fault.kind(), kind, "{text}");
        assert!(fault.to_string().contains(words), "{fault}: {words}");
    }
    let mut miscounted = header(NOW_S) + "\n";
    seal(&mut miscounted, 1);
    let fault = Export::parse(miscounted.as_bytes(), NOW_S).unwrap_err();
    assert_eq!(fault, Fault::RowCount { stated: 1, found: 0 });
}

#[test]
fn small_steps_of_the_clock_and_rows_before_it_was_set_are_no_fault() {
    let rows = [kill(4, 5), kill(5, NOW_S - 9), kill(7, NOW_S - DAY_S), kill(8, NOW_S)];
    let text = export(NOW_S - 1, &rows);
    let read = Export::parse(text.as_bytes(), NOW_S).unwrap();
    assert_eq!(read.rows.iter().map(|row| row.row).collect::<Vec<_>>(), [5, 7, 8]);
    assert_eq!(read.undated, [(4, rows[0].as_str())]);
    assert_eq!(read.ranges, [(4, 5), (7, 8)]);
}

// Verifies FLEET-3.
#[test]
fn no_part_of_an_export_is_good() {
    let text = export(NOW_S, &[line(LAUNCH), kill(2, NOW_S)]);
    for end in 0..text.len() {
        assert!(Export::parse(&text.as_bytes()[..end], NOW_S).is_err(), "{end}");
    }
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 4;
        assert!(Export::parse(&bytes, NOW_S).is_err(), "{at}");
    }
}
