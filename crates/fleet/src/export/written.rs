//! Rows as brisk writes them: keys in its order, no spaces, no escapes. Almost all lines are such, and are read here in one pass. Any
//! other line is left to `wire`, which reads what the format allows and says what is wrong.

use std::borrow::Cow;

use super::text::{Hash, Text};
use super::wire::{Content, LARGEST, Row};
use super::{Fact, Hour, System};

/// The row in `line`; nothing where `wire` has to decide.
pub fn row(line: &str) -> Option<Row<'_>> {
    let mut rest = Rest(line.strip_prefix(r#"{"row":"#)?);
    let row = rest.digits()?.cast_unsigned();
    let at_s = rest.value("at_s", Rest::integer)?;
    let boot = rest.value("boot", Rest::text)?;
    let boot = if boot.is_empty() { None } else { Some(Hash::parse(&boot)?.0) };
    let kind = rest.value("kind", Rest::text)?;
    let content = match &*kind {
        "start" => Content::Start(System {
            brisk: rest.value("brisk", Rest::text)?,
            build: rest.value("build", Rest::text)?,
            kernel: rest.value("kernel", Rest::text)?,
        }),
        "launch" => Content::Fact(Fact::Launch {
            application: rest.value("application", Rest::hash)?,
            name: rest.nullable("name", Rest::text)?,
            length_ms: rest.nullable("length_ms", Rest::whole)?,
            loss_ms: rest.nullable("loss_ms", Rest::decimal)?,
            boosted: rest.value("boosted", Rest::flag)?,
            governor: rest.value("governor", Rest::text)?,
        }),
        "boot" => Content::Fact(Fact::Boot {
            length_ms: rest.value("length_ms", Rest::whole)?,
            kernel_ms: rest.nullable("kernel_ms", Rest::whole)?,
            performance_held: rest.nullable("performance_held", Rest::flag)?,
        }),
        "kill" => Content::Fact(Fact::Kill {
            application: rest.value("application", Rest::hash)?,
            name: rest.nullable("name", Rest::text)?,
            freed_kib: rest.nullable("freed_kib", Rest::integer)?,
            oom_score_adj: rest.value("oom_score_adj", Rest::integer).filter(|score| i16::try_from(*score).is_ok())?,
            headroom_kib: rest.value("headroom_kib", Rest::integer)?,
        }),
        "hour" => Content::Fact(Fact::Hour(hour(&mut rest)?)),
        "trial" => Content::Fact(Fact::Trial {
            step: rest.value("step", Rest::text)?,
            outcome: rest.value("outcome", Rest::text).filter(|it| ["kept", "dropped", "unclear"].contains(&&**it))?,
            effect_percent: rest.nullable("effect_percent", Rest::decimal)?,
        }),
        "switch" => Content::Fact(Fact::Switch {
            mechanism: rest.value("mechanism", Rest::text)?,
            active: rest.value("active", Rest::flag)?,
            reason: rest.value("reason", Rest::text)?,
        }),
        _ => return None,
    };
    (rest.0 == "}").then_some(Row { row, at_s, boot, content })
}

fn hour(rest: &mut Rest<'_>) -> Option<Hour> {
    Some(Hour {
        period_s: rest.value("period_s", Rest::whole)?,
        uptime_s: rest.value("uptime_s", Rest::whole)?,
        memory_some_ms: rest.nullable("memory_some_ms", Rest::whole)?,
        memory_full_ms: rest.nullable("memory_full_ms", Rest::whole)?,
        cpu_some_ms: rest.nullable("cpu_some_ms", Rest::whole)?,
        io_some_ms: rest.nullable("io_some_ms", Rest::whole)?,
        lookup_hits: rest.nullable("lookup_hits", Rest::whole)?,
        lookup_misses: rest.nullable("lookup_misses", Rest::whole)?,
        cpu_ms: rest.value("cpu_ms", Rest::whole)?,
        resident_kib: rest.value("resident_kib", Rest::whole)?,
        dropped_rows: rest.value("dropped_rows", Rest::whole)?,
    })
}

/// What is not read yet of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// The value of `key`, which is the next one.
    fn value<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.0 = self.0.strip_prefix(",\"")?.strip_prefix(key)?.strip_prefix("\":")?;
        read(self)
    }

    /// The same where it may be null.
    fn nullable<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        self.value(key, |rest| match rest.0.strip_prefix("null") {
            Some(after) => {
                rest.0 = after;
                Some(None)
            }
            None => read(rest).map(Some),
        })
    }

    fn text(&mut self) -> Option<Text<'a>> {
        let after = self.0.strip_prefix('"')?;
        let end = after.bytes().position(|byte| byte == b'"' || byte == b'\\' || byte < b' ')?;
        let (text, after) = after.split_at(end);
        // An escape or a control character is no quotation mark.
        self.0 = after.strip_prefix('"')?;
        Some(Text(Cow::Borrowed(text)))
    }

    fn hash(&mut self) -> Option<u64> {
        Hash::parse(&self.text()?).map(|hash| hash.0)
    }

    fn flag(&mut self) -> Option<bool> {
        let (flag, after) = match self.0.strip_prefix("true") {
            Some(after) => (true, after),
            None => (false, self.0.strip_prefix("false")?),
        };
        self.0 = after;
        Some(flag)
    }

    /// A number without sign and leading zero; one with decimals or an exponent does not end where its digits do.
    fn digits(&mut self) -> Option<i64> {
        let end = self.0.bytes().position(|byte| !byte.is_ascii_digit())?;
        let (digits, after) = self.0.split_at(end);
        // 18 digits always fit.
        if !(1..=18).contains(&end) || (end > 1 && digits.starts_with('0')) {
            return None;
        }
        self.0 = after;
        Some(digits.bytes().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
    }

    fn whole(&mut self) -> Option<i64> {
        self.digits().filter(|number| *number <= LARGEST)
    }

    fn integer(&mut self) -> Option<i64> {
        let Some(after) = self.0.strip_prefix('-') else { return self.digits() };
        self.0 = after;
        // JSON has a minus zero, which is no integer.
        self.digits().filter(|number| *number > 0).map(|number| -number)
    }

    /// A number of at most 12 digits before the point and as many after it.
    fn decimal(&mut self) -> Option<f64> {
        let end = self.0.bytes().position(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'-'))?;
        let (number, after) = self.0.split_at(end);
        let (whole, decimals) = number.split_once('.').unwrap_or((number, "0"));
        let whole = whole.strip_prefix('-').unwrap_or(whole);
        let is_number = |digits: &str| (1..=12).contains(&digits.len()) && digits.bytes().all(|it| it.is_ascii_digit());
        if !is_number(whole) || !is_number(decimals) || (whole.len() > 1 && whole.starts_with('0')) {
            return None;
        }
        self.0 = after;
        number.parse().ok()
    }
}
