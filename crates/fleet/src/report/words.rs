//! What the answers say, in sentences.

use brisk_report::figure;

use crate::answers::{Answers, Change, Kills, Loss, Switched};

/// A change counts where at most one of a hundred that count is none.
pub const FALSE_DISCOVERIES: f64 = 0.01;

/// What a comparison of two builds shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Slower,
    Faster,
    /// The two are not told apart.
    Same,
}

impl Change {
    /// What it shows.
    pub fn direction(&self) -> Direction {
        match self.q <= FALSE_DISCOVERIES {
            true if self.low_percent > 0.0 => Direction::Slower,
            true if self.high_percent < 0.0 => Direction::Faster,
            _ => Direction::Same,
        }
    }

    /// The change in a sentence, for example that a build starts applications 6 % slower than another one.
    pub fn sentence(&self) -> String {
        let Self { model, build, previous, .. } = self;
        let (direction, size, ends) = if self.change_percent < 0.0 {
            ("faster", -self.change_percent, [-self.high_percent, -self.low_percent])
        } else {
            ("slower", self.change_percent, [self.low_percent, self.high_percent])
        };
        let verb = if self.metric == "boot" { "boots" } else { "starts applications" };
        let (size, interval) = (figure::with_unit(size, ends, "%"), figure::interval(size, ends, "%"));
        format!("Build {build} {verb} {size} {direction} than {previous} on model {model} {interval}")
    }
}

/// The first line of the page, and what follows; that may be nothing.
pub fn headline(answers: &Answers) -> (String, String) {
    let count = |direction| answers.changes.iter().filter(|change| change.direction() == direction).count();
    let (slower, faster) = (count(Direction::Slower), count(Direction::Faster));
    let compared = match answers.changes.len() {
        0 => "no model has two builds that the same three devices ran".to_owned(),
        1 => "1 comparison of two builds on a model".to_owned(),
        many => format!("{many} comparisons of two builds on a model"),
    };
    let first = match (answers.changes.len(), slower) {
        (0, _) => "No builds are compared yet".to_owned(),
        (_, 0) => "No build is slower than the one before it".to_owned(),
        (all, slower) => {
            let noun = if all == 1 { "comparison" } else { "comparisons" };
            format!("In {slower} of {all} {noun} a build is slower than the one before it on its model")
        }
    };
    // The first line has the count of comparisons where a build is slower.
    let compared = Some(compared).filter(|_| slower == 0);
    let faster = (faster > 0).then(|| format!("in {faster} of them a build is faster"));
    (first, compared.into_iter().chain(faster).collect::<Vec<_>>().join("; "))
}

/// What the answers show, most important first.
pub fn findings(answers: &Answers) -> Vec<String> {
    let of = |direction| answers.changes.iter().filter(move |change| change.direction() == direction);
    let mut found: Vec<String> = of(Direction::Slower).chain(of(Direction::Faster)).map(Change::sentence).collect();
    found.extend(answers.losses.iter().find_map(loss));
    found.extend(answers.switched.iter().filter_map(switched));
    found.extend(kills(&answers.kills));
    found
}

/// The first known loss: the question has the largest first.
fn loss(loss: &Loss) -> Option<String> {
    let (percent, ends) = (loss.loss_percent?, [loss.low_percent?, loss.high_percent?]);
    let boost = if loss.boosted { " although it is boosted" } else { "" };
    Some(format!(
        "Model {} loses most to its governor: {} of a launch under {}{boost} {}",
        loss.model,
        figure::with_unit(percent, ends, "%"),
        loss.governor,
        figure::interval(percent, ends, "%"),
    ))
}

fn switched(switched: &Switched) -> Option<String> {
    let ends = [switched.low_percent?, switched.high_percent?];
    let direction = match ends {
        [low, _] if low > 0.0 => "longer",
        [_, high] if high < 0.0 => "shorter",
        _ => return None,
    };
    let (size, ends) = if direction == "shorter" {
        (-switched.change_percent, [-ends[1], -ends[0]])
    } else {
        (switched.change_percent, ends)
    };
    Some(format!(
        "Since {} was switched on, launches on model {} are {} {direction} {}",
        switched.mechanism,
        switched.model,
        figure::with_unit(size, ends, "%"),
        figure::interval(size, ends, "%"),
    ))
}

/// The size of memory with most kills, where its interval is apart from the one with fewest.
fn kills(kills: &[Kills]) -> Option<String> {
    let known = || kills.iter().filter(|row| row.low.is_some());
    let by_rate = |one: &&Kills, other: &&Kills| one.kills_in_100_hours.total_cmp(&other.kills_in_100_hours);
    let (most, fewest) = (known().max_by(by_rate)?, known().min_by(by_rate)?);
    let rate = |row: &Kills| {
        figure::with_unit(row.kills_in_100_hours, [row.low.unwrap_or(f64::NAN), row.high.unwrap_or(f64::NAN)], "")
    };
    (most.low? > fewest.high?).then(|| {
        format!(
            "Devices with {} of memory kill {} processes in 100 hours, those with {} {}",
            memory(most.memory_mib),
            rate(most),
            memory(fewest.memory_mib),
            rate(fewest),
        )
    })
}

/// A size of memory in words.
pub fn memory(mib: u64) -> String {
    let unit = |size: u64, unit: &str| format!("{size}{}{unit}", figure::NO_BREAK_SPACE);
    if mib >= 1024 { unit(mib / 1024, "GiB") } else { unit(mib, "MiB") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(change_percent: f64, half: f64, q: f64) -> Change {
        let [metric, model, build, previous] = ["launch", "M", "B", "A"].map(str::to_owned);
        let (low_percent, high_percent) = (change_percent - half, change_percent + half);
        Change { metric, model, build, previous, devices: 9, change_percent, low_percent, high_percent, p: q / 2.0, q }
    }

    #[test]
    fn a_change_is_a_sentence() {
        let slower = change(6.0, 1.0, 0.001);
        assert_eq!(
            slower.sentence().replace(figure::NO_BREAK_SPACE, " "),
            "Build B starts applications 6.0 % slower than A on model M [5.0, 7.0]"
        );
        let faster = Change { metric: "boot".to_owned(), ..change(-6.0, 1.0, 0.001) };
        assert_eq!(
            faster.sentence().replace(figure::NO_BREAK_SPACE, " "),
            "Build B boots 6.0 % faster than A on model M [5.0, 7.0]"
        );
    }

    #[test]
    fn only_what_is_told_apart_is_found() {
        for (percent, half, q, expected) in [
            (6.0, 1.0, 0.001, Direction::Slower),
            (-6.0, 1.0, 0.001, Direction::Faster),
            (6.0, 1.0, 0.02, Direction::Same),
            (6.0, 7.0, 0.001, Direction::Same),
        ] {
            assert_eq!(change(percent, half, q).direction(), expected, "{percent} {half} {q}");
        }
        let answers = |changes| Answers { changes, ..Answers::default() };
        let both = answers(vec![change(6.0, 1.0, 0.001), change(-6.0, 1.0, 0.001), change(0.1, 1.0, 0.9)]);
        assert_eq!(findings(&both).len(), 2);
        let (first, rest) = headline(&both);
        assert_eq!(first, "In 1 of 3 comparisons a build is slower than the one before it on its model");
        assert_eq!(rest, "in 1 of them a build is faster");
        assert_eq!(headline(&answers(vec![change(6.0, 1.0, 0.001)])).1, "");
        let (first, rest) = headline(&answers(vec![change(0.1, 1.0, 0.9), change(-6.0, 1.0, 0.001)]));
        assert_eq!(first, "No build is slower than the one before it");
        assert_eq!(rest, "2 comparisons of two builds on a model; in 1 of them a build is faster");
        assert_eq!(headline(&answers(Vec::new())).0, "No builds are compared yet");
    }
}
