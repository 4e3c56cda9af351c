//! Medians, bootstrap intervals, the paired permutation test and effect size.
//!
//! Samples come in blocks whose members share their conditions, so resampling draws blocks (Efron and Tibshirani, "An
//! Introduction to the Bootstrap", 1993, chapters 8 and 13) and the test flips signs within pairs (Fisher's; Good,
//! "Permutation, Parametric and Bootstrap Tests of Hypotheses", 2005). Everything random follows from a fixed seed.

use brisk_base::random::Random;

/// Resamples of a bootstrap interval: the Monte Carlo error of its ends is then a few per cent of the half-width.
const RESAMPLES: usize = 4000;
/// Random sign patterns of the permutation test where all of them would be too many.
const PATTERNS: u64 = 20_000;
/// Up to this many pairs every sign pattern is tried: 2^14 of them.
const EXACT_PAIRS: usize = 14;
/// Fixed, so that the same samples give the same interval, whatever the experiment's seed.
const SEED: u64 = 0x6272_6973_6b21;

/// One quantile of the normal distribution and of Student's t.
struct Quantile {
    normal: f64,
    /// Student's at one, two and three degrees of freedom.
    few: [f64; 3],
}

/// The 97.5 % quantile: the end of a 95 % interval.
const QUANTILE_97_5: Quantile = Quantile { normal: 1.959_964, few: [12.7062, 4.3027, 3.1824] };
/// The 99.95 % quantile: the end of a 99.9 % interval.
const QUANTILE_99_95: Quantile = Quantile { normal: 3.290_527, few: [636.619, 31.599, 12.924] };

/// The quantile at `share` (0 to 1) of sorted `values`, linear between neighbours (Hyndman and Fan's type 7).
/// NaN when there are none.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let index = share * last as f64;
    let (low, high) = (sorted[index.floor() as usize], sorted[index.ceil() as usize]);
    low + (high - low) * index.fract()
}

/// The median; NaN when there are no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The arithmetic mean; NaN when there are no values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of the population that `values` were drawn from (divided by n - 1); NaN below two values.
pub fn standard_deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    if values.len() < 2 { f64::NAN } else { (squares / (values.len() - 1) as f64).sqrt() }
}

/// The 95 % bootstrap interval of `statistic`, which computes a figure from the block indices that it receives: the percentile
/// interval, widened for few blocks (`widening`). Both ends are NaN when there are fewer than two blocks or the figure cannot
/// be computed.
pub fn bootstrap(blocks: usize, statistic: &mut dyn FnMut(&[usize]) -> f64) -> [f64; 2] {
    stratified_bootstrap(&[blocks], &mut |drawn| statistic(&drawn[0]))
}

/// The same for a figure of several strata: each stratum is resampled separately, with its own number of blocks (Efron and
/// Tibshirani, chapter 8). `statistic` receives the indices stratum by stratum.
pub fn stratified_bootstrap(blocks: &[usize], statistic: &mut dyn FnMut(&[Vec<usize>]) -> f64) -> [f64; 2] {
    if blocks.is_empty() || blocks.iter().any(|&blocks| blocks < 2) {
        return [f64::NAN; 2];
    }
    let mut random = Random::new(SEED);
    let mut drawn: Vec<Vec<usize>> = blocks.iter().map(|&blocks| vec![0; blocks]).collect();
    let mut figures = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for (drawn, &blocks) in drawn.iter_mut().zip(blocks) {
            drawn.fill_with(|| random.below(blocks));
        }
        figures.push(statistic(&drawn));
    }
    if figures.iter().any(|figure| figure.is_nan()) {
        return [f64::NAN; 2];
    }
    figures.sort_unstable_by(f64::total_cmp);
    let all: Vec<Vec<usize>> = blocks.iter().map(|&blocks| (0..blocks).collect()).collect();
    let (figure, widening) = (statistic(&all), widening(blocks));
    let low = figure - (figure - quantile(&figures, 0.025)).max(0.0) * widening;
    let high = figure + (quantile(&figures, 0.975) - figure).max(0.0) * widening;
    [low, high]
}

/// The 99.9 % interval of a `figure` from `blocks`: its 95 % interval, scaled about the figure by the ratio of Student's
/// quantiles.
pub fn interval_99_9(figure: f64, [low, high]: [f64; 2], blocks: &[usize]) -> [f64; 2] {
    let degrees = degrees_of_freedom(blocks);
    let further = students_t(&QUANTILE_99_95, degrees) / students_t(&QUANTILE_97_5, degrees);
    [figure - (figure - low) * further, figure + (high - figure) * further]
}

/// The ratio of a 95 % interval to its percentile interval: few blocks vary less than their population, whose variance is
/// itself estimated from them (Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015,
/// section 4.2). 9.2 for two blocks, 1.9 for four, 1.05 for forty.
fn widening(blocks: &[usize]) -> f64 {
    let all: usize = blocks.iter().sum();
    let degrees = degrees_of_freedom(blocks);
    (all as f64 / degrees).sqrt() * students_t(&QUANTILE_97_5, degrees) / QUANTILE_97_5.normal
}

/// The degrees of freedom of `blocks` in strata with unknown means.
fn degrees_of_freedom(blocks: &[usize]) -> f64 {
    blocks.iter().map(|&blocks| blocks as f64 - 1.0).sum()
}

/// A quantile of Student's t at `degrees` degrees of freedom, a whole number from 1: beyond 3 by its expansion about the normal
/// quantile (Abramowitz and Stegun, 26.7.5), which is at most 1.5 % too small there.
fn students_t(quantile: &Quantile, degrees: f64) -> f64 {
    if (1.0..=3.0).contains(&degrees) {
        return quantile.few[degrees as usize - 1];
    }
    let square = quantile.normal * quantile.normal;
    let terms = [
        (square + 1.0) / 4.0,
        ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square - 945.0) / 92160.0,
    ];
    let expansion = terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees);
    quantile.normal * (1.0 + expansion)
}

/// The two-sided p of the hypothesis that the paired `differences` are as likely negative as positive: the share of sign
/// patterns whose sum is at least as far from zero. Exact for few pairs, else from random patterns plus the observed one (so
/// that p is never zero). NaN when there are none.
pub fn permutation_p(differences: &[f64]) -> f64 {
    if differences.is_empty() {
        return f64::NAN;
    }
    let seen = differences.iter().sum::<f64>().abs();
    // Sums of the same numbers in another order differ by rounding.
    let limit = seen - differences.iter().map(|d| d.abs()).sum::<f64>() * 1e-12;
    let sum = |signs: &mut dyn FnMut(usize) -> bool| -> f64 {
        differences.iter().enumerate().map(|(index, d)| if signs(index) { -d } else { *d }).sum()
    };
    if differences.len() <= EXACT_PAIRS {
        let all = 1u64 << differences.len();
        let far = (0..all).filter(|pattern| sum(&mut |index| pattern >> index & 1 == 1).abs() >= limit).count();
        return far as f64 / all as f64;
    }
    let mut random = Random::new(SEED);
    let mut bits = 0;
    let mut sign = |index: usize| {
        if index.is_multiple_of(64) {
            bits = random.bits();
        }
        bits >> (index % 64) & 1 == 1
    };
    let far = (0..PATTERNS).filter(|_| sum(&mut sign).abs() >= limit).count();
    (far + 1) as f64 / (PATTERNS + 1) as f64
}

/// Cliff's delta: how much more often a value of `ours` is above one of `theirs` than below it, from -1 to 1.
/// NaN when either is empty.
pub fn cliffs_delta(ours: &[f64], theirs: &[f64]) -> f64 {
    let mut balance = 0i64;
    for our in ours {
        for their in theirs {
            balance += i64::from(our > their) - i64::from(our < their);
        }
    }
    balance as f64 / (ours.len() * theirs.len()) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: [f64; 12] = [283.1, 301.7, 262.4, 279.9, 318.2, 290.5, 271.3, 305.8, 288.8, 276.6, 299.0, 284.2];
    const FAST: [f64; 12] = [246.0, 268.3, 243.9, 240.7, 281.5, 251.2, 249.8, 262.1, 240.2, 251.9, 263.3, 245.4];
    const SHIFTS: [f64; 18] =
        [3.1, -2.2, 1.4, -0.9, 2.8, -1.7, 0.6, -3.3, 2.1, 1.9, -1.2, 2.4, 1.1, -0.4, 2.2, -1.9, 0.8, 1.6];

    fn close(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} is not {expected} +- {tolerance}");
    }

    /// What is resampled, scipy's interval, and the Monte Carlo error allowed at each end.
    type Case<'a> = (&'a mut dyn FnMut(&[usize]) -> f64, [f64; 2], f64);

    fn pick(values: &[f64], blocks: &[usize]) -> Vec<f64> {
        blocks.iter().map(|&block| values[block]).collect()
    }

    // Every expected figure of this module comes from numpy and scipy 1.17: numpy.median, std(ddof=1), quantile;
    // scipy.stats.bootstrap(method='percentile', paired=True, n_resamples=400000), permutation_test(
    // permutation_type='samples'), and mannwhitneyu for Cliff's delta (2 U / mn - 1).
    #[test]
    fn descriptive_statistics_agree_with_scipy() {
        close(median(&SLOW), 286.5, 1e-9);
        close(median(&FAST), 250.5, 1e-9);
        close(standard_deviation(&SLOW), 15.696580886140506, 1e-9);
        close(standard_deviation(&FAST), 12.609120676812651, 1e-9);
        let mut sorted = SLOW;
        sorted.sort_unstable_by(f64::total_cmp);
        for (share, expected) in [(0.025, 264.8475), (0.1, 271.83), (0.975, 314.79), (0.0, 262.4), (1.0, 318.2)] {
            close(quantile(&sorted, share), expected, 1e-9);
        }
    }

    // Verifies PROVE-1.
    #[test]
    fn bootstrap_intervals_agree_with_scipy() {
        // scipy draws other resamples: its 400 000 and our 4 000 differ by Monte Carlo error at each end.
        let gain = |centre: fn(&[f64]) -> f64| {
            move |b: &[usize]| 100.0 * (1.0 - centre(&pick(&FAST, b)) / centre(&pick(&SLOW, b)))
        };
        let cases: [Case; 4] = [
            (&mut |b| median(&pick(&SLOW, b)), [278.25, 300.35], 0.8),
            (&mut |b| mean(&pick(&SLOW, b)), [280.117, 297.083], 0.5),
            (&mut gain(median), [10.1597, 14.7054], 0.15),
            (&mut gain(mean), [10.5095, 13.5119], 0.1),
        ];
        let all: Vec<usize> = (0..SLOW.len()).collect();
        let widening = widening(&[SLOW.len()]);
        for (statistic, expected, tolerance) in cases {
            let figure = statistic(&all);
            let [low, high] = bootstrap(SLOW.len(), statistic).map(|end| figure + (end - figure) / widening);
            close(low, expected[0], tolerance);
            close(high, expected[1], tolerance);
        }
    }

    #[test]
    fn students_quantiles_agree_with_scipy() {
        // scipy.stats.t.ppf([0.975, 0.9995], degrees)
        for (degrees, expected) in [
            (1.0, [12.7062, 636.619]),
            (2.0, [4.3027, 31.599]),
            (3.0, [3.1824, 12.924]),
            (4.0, [2.7764, 8.6103]),
            (8.0, [2.3060, 5.0413]),
            (30.0, [2.0423, 3.6460]),
        ] {
            close(students_t(&QUANTILE_97_5, degrees), expected[0], 0.003 * expected[0]);
            close(students_t(&QUANTILE_99_95, degrees), expected[1], 0.015 * expected[1]);
        }
        // Two strata of four blocks have six degrees of freedom.
        close(widening(&[4, 4]), (8.0f64 / 6.0).sqrt() * 2.4469 / 1.96, 0.005);
    }

    // Verifies PROVE-1.
    #[test]
    fn refutations_by_chance_are_rare() {
        // Four draws from a normal distribution (twelve uniform ones, summed) with mean 6: how often an interval misses it.
        let mut random = Random::new(5);
        let mut missed = [0; 2];
        for _ in 0..1000 {
            let values: Vec<f64> = (0..4).map(|_| (0..12).map(|_| random.unit()).sum()).collect();
            let ci = bootstrap(4, &mut |drawn| mean(&pick(&values, drawn)));
            let far = interval_99_9(mean(&values), ci, &[4]);
            for (missed, [low, high]) in missed.iter_mut().zip([ci, far]) {
                *missed += usize::from(!(low..=high).contains(&6.0));
            }
        }
        assert!((20..=110).contains(&missed[0]) && missed[1] <= 5, "{missed:?} of 1000");
    }

    // Verifies PROVE-1.
    #[test]
    fn permutation_tests_agree_with_scipy() {
        let pairs: Vec<f64> = SLOW.iter().zip(FAST).map(|(slow, fast)| slow - fast).collect();
        close(permutation_p(&pairs), 0.00048828125, 1e-12);
        // scipy's figure for ten times these values: they are whole, so rounding breaks no tie.
        close(permutation_p(&SHIFTS[..12]), 0.51806640625, 1e-12);
        close(permutation_p(&SHIFTS), 0.319976806640625, 0.01);
    }

    #[test]
    fn effect_sizes_agree_with_scipy() {
        let near: Vec<f64> = SLOW.iter().zip(SHIFTS).map(|(slow, shift)| slow + shift).collect();
        close(cliffs_delta(&near, &FAST), 0.9305555555555556, 1e-12);
        close(cliffs_delta(&[244.0, 262.0, 283.0, 300.0, 250.0, 262.0], &SLOW), -0.6388888888888888, 1e-12);
    }

    #[test]
    fn too_few_samples_give_no_figure() {
        assert!(median(&[]).is_nan() && mean(&[]).is_nan() && standard_deviation(&[1.0]).is_nan());
        assert!(bootstrap(1, &mut |_| 1.0).iter().all(|end| end.is_nan()));
        assert!(permutation_p(&[]).is_nan() && cliffs_delta(&[], &[1.0]).is_nan());
        assert_eq!(permutation_p(&[0.0; 3]), 1.0, "no difference at all");
    }

    #[test]
    fn strata_are_resampled_separately() {
        let statistic = &mut |drawn: &[Vec<usize>]| mean(&pick(&SLOW, &drawn[0])) + mean(&pick(&SHIFTS, &drawn[1]));
        let strata = [SLOW.len(), SHIFTS.len()];
        let [low, high] = stratified_bootstrap(&strata, statistic);
        let error = |values: &[f64]| {
            let n = values.len() as f64;
            standard_deviation(values).powi(2) * (n - 1.0) / n / n
        };
        let half_width = widening(&strata) * 1.96 * (error(&SLOW) + error(&SHIFTS)).sqrt();
        close((high - low) / 2.0, half_width, 0.05 * half_width);
        close((high + low) / 2.0, mean(&SLOW) + mean(&SHIFTS), 0.05 * half_width);
        assert!(stratified_bootstrap(&[8, 1], &mut |_| 1.0).iter().all(|end| end.is_nan()));
    }

    // Verifies PROVE-1.
    #[test]
    fn intervals_cover_the_truth_about_as_often_as_they_say() {
        // Samples from a uniform distribution with median 0.5: a 95 % interval may miss about 5 %, and up to twice as many with
        // the discrete resamples of few blocks. Percentile intervals alone miss half with two blocks and an eighth with four.
        let mut random = Random::new(3);
        for (blocks, least, most) in [(2, 0, 15), (3, 0, 15), (4, 0, 10), (8, 0, 10), (20, 1, 10)] {
            let missed = (0..100).filter(|_| {
                let values: Vec<f64> = (0..blocks).map(|_| random.unit()).collect();
                let [low, high] = bootstrap(blocks, &mut |b| median(&pick(&values, b)));
                !(low..=high).contains(&0.5)
            });
            let missed = missed.count();
            assert!((least..=most).contains(&missed), "{missed} of 100 with {blocks} blocks");
        }
    }
}
