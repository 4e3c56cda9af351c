-- Which build is slower than the one before it, on which model?
--
-- Each build is compared with the one before it on devices that ran both: launches of the same application, boosted or not, and
-- boots, as logarithms. The mean of a device's differences is one observation, so that neither a busy device nor other applications weigh
-- more. Rows of an unknown build are left out, because they can be of several, and builds that fewer than three devices ran. p is that of
-- Student's test, by its normal approximation (Abramowitz and Stegun, 26.7.8 and 26.2.17). q is the smallest rate of false discoveries
-- at which the row is one (Benjamini and Hochberg, 1995), over all rows of this question.
WITH samples AS (
  SELECT
    'launch' AS metric, model, build, device, application, boosted,
    CAST(count(*) AS DOUBLE) AS count,
    avg(ln(greatest(length_ms, 1e0))) AS mean,
    avg(CAST(at_s AS DOUBLE)) AS at_s
  FROM launches
  WHERE length_ms IS NOT NULL AND build <> 'unknown'
  GROUP BY model, build, device, application, boosted
  UNION ALL
  SELECT
    'boot' AS metric, model, build, device, 0 AS application, performance_held AS boosted,
    CAST(count(*) AS DOUBLE) AS count,
    avg(ln(greatest(length_ms, 1e0))) AS mean,
    avg(CAST(at_s AS DOUBLE)) AS at_s
  FROM boots
  WHERE build <> 'unknown'
  GROUP BY model, build, device, performance_held
),
builds AS (
  SELECT
    metric, model, build,
    row_number() OVER (PARTITION BY metric, model ORDER BY sum(count * at_s) / sum(count), build) AS place
  FROM samples
  GROUP BY metric, model, build
  HAVING count(DISTINCT device) > 2
),
placed AS (
  SELECT samples.*, builds.place
  FROM samples
  JOIN builds ON builds.metric = samples.metric AND builds.model = samples.model AND builds.build = samples.build
),
differences AS (
  SELECT
    later.metric, later.model, later.build, earlier.build AS previous, later.device,
    sum(later.count * earlier.count / (later.count + earlier.count) * (later.mean - earlier.mean))
      / sum(later.count * earlier.count / (later.count + earlier.count)) AS difference
  FROM placed AS later
  JOIN placed AS earlier ON earlier.device = later.device AND earlier.application = later.application
    AND coalesce(earlier.boosted, false) = coalesce(later.boosted, false)
    AND earlier.metric = later.metric AND earlier.model = later.model AND earlier.place = later.place - 1
  GROUP BY later.metric, later.model, later.build, earlier.build, later.device
),
figures AS (
  SELECT
    metric, model, build, previous,
    count(*) AS devices,
    avg(difference) AS mean,
    stddev_samp(difference) / sqrt(count(*)) AS error,
    CAST(count(*) - 1 AS DOUBLE) AS freedom
  FROM differences
  GROUP BY metric, model, build, previous
  HAVING count(*) > 2 AND stddev_samp(difference) > 0
),
scores AS (
  SELECT
    *,
    abs(mean / error) * (1e0 - 1e0 / (4e0 * freedom)) / sqrt(1e0 + power(mean / error, 2) / (2e0 * freedom)) AS score
  FROM figures
),
tails AS (
  SELECT *, 1e0 / (1e0 + 0.2316419e0 * score) AS t
  FROM scores
),
probabilities AS (
  SELECT
    *,
    least(1e0, 2e0 * exp(-score * score / 2e0) / 2.506628274631e0 * t * (0.319381530e0 + t * (-0.356563782e0
      + t * (1.781477937e0 + t * (-1.821255978e0 + t * 1.330274429e0))))) AS p
  FROM tails
),
ranks AS (
  SELECT
    *,
    row_number() OVER (ORDER BY p, metric, model, build) AS place,
    count(*) OVER () AS tests
  FROM probabilities
)
SELECT
  metric, model, build, previous, devices,
  100e0 * (exp(mean) - 1) AS change_percent,
  100e0 * (exp(mean - quantile * error) - 1) AS low_percent,
  100e0 * (exp(mean + quantile * error) - 1) AS high_percent,
  p,
  min(least(1e0, p * tests / place)) OVER (ORDER BY place DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS q
FROM ranks
JOIN student ON student.freedom = least(ranks.devices - 1, 10000)
ORDER BY q, abs(mean) DESC, metric, model, build
