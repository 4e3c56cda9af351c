-- Which build is slower than the one before it, on which model?
--
-- A device is compared with itself: each build that it ran with the one that it ran before, in the order in which builds come to a model.
-- Launches of the same application, boosted or not, and boots are compared as logarithms. The mean of a device's differences is one
-- observation, so that neither a busy device nor other applications weigh more. Rows of an unknown build are left out, because they can
-- be of several, and builds that fewer than three devices ran. p is that of Student's test, by its normal approximation (Abramowitz and
-- Stegun, 26.7.8 and 26.2.17). q is the smallest rate of false discoveries at which the row is one (Benjamini and Hochberg, 1995), over
-- all rows of this question.
WITH runs AS (
  -- Builds on models, each with a number, so that the larger steps below carry a number in place of three names.
  SELECT metric, model, build, at_s, CAST(row_number() OVER (ORDER BY metric, model, build) AS INT) AS run
  FROM (
    SELECT metric, model, build, avg(CAST(at_s AS DOUBLE)) AS at_s
    FROM (
      SELECT 'launch' AS metric, model, build, at_s FROM launches
      UNION ALL
      SELECT 'boot' AS metric, model, build, at_s FROM boots
    ) AS found
    WHERE build <> 'unknown'
    GROUP BY metric, model, build
  ) AS builds
),
samples AS (
  -- The hint is for Spark, which would sort all launches for the join, because it cannot know how few runs there are. DuckDB takes it for a
  -- comment.
  SELECT /*+ BROADCAST(runs) */
    run, device, application, boosted,
    CAST(count(*) AS DOUBLE) AS count,
    sum(ln(greatest(length_ms, 1e0))) / count(*) AS mean
  FROM launches
  JOIN runs ON runs.metric = 'launch' AND runs.model = launches.model AND runs.build = launches.build
  WHERE length_ms IS NOT NULL
  GROUP BY application, device, run, boosted
  UNION ALL
  SELECT /*+ BROADCAST(runs) */
    run, device, 0 AS application, coalesce(performance_held, false) AS boosted,
    CAST(count(*) AS DOUBLE) AS count,
    sum(ln(greatest(length_ms, 1e0))) / count(*) AS mean
  FROM boots
  JOIN runs ON runs.metric = 'boot' AND runs.model = boots.model AND runs.build = boots.build
  GROUP BY run, device, coalesce(performance_held, false)
),
spans AS (
  -- The builds of each device.
  SELECT run, device
  FROM samples
  GROUP BY run, device
),
places AS (
  SELECT runs.run, metric, row_number() OVER (ORDER BY metric, model, at_s, build) AS place
  FROM (SELECT run FROM spans GROUP BY run HAVING count(*) > 2) AS compared
  JOIN runs ON runs.run = compared.run
),
steps AS (
  SELECT spans.run, device, lag(spans.run) OVER (PARTITION BY device, metric ORDER BY place) AS earlier_run
  FROM spans
  JOIN places ON places.run = spans.run
),
differences AS (
  SELECT
    later.run, steps.earlier_run, later.device,
    sum(later.count * earlier.count / (later.count + earlier.count) * (later.mean - earlier.mean))
      / sum(later.count * earlier.count / (later.count + earlier.count)) AS difference
  FROM samples AS later
  JOIN steps ON steps.run = later.run AND steps.device = later.device
  JOIN samples AS earlier ON earlier.run = steps.earlier_run AND earlier.device = later.device
    AND earlier.application = later.application AND earlier.boosted = later.boosted
  GROUP BY later.run, steps.earlier_run, later.device
),
figures AS (
  SELECT
    run, earlier_run,
    count(*) AS devices,
    avg(difference) AS mean,
    stddev_samp(difference) / sqrt(count(*)) AS error,
    CAST(count(*) - 1 AS DOUBLE) AS freedom
  FROM differences
  GROUP BY run, earlier_run
  HAVING count(*) > 2 AND stddev_samp(difference) > 0
),
scores AS (
  SELECT
    later.metric, later.model, later.build, earlier.build AS previous, devices, mean, error,
    abs(mean / error) * (1e0 - 1e0 / (4e0 * freedom)) / sqrt(1e0 + power(mean / error, 2) / (2e0 * freedom)) AS score
  FROM figures
  JOIN runs AS later ON later.run = figures.run
  JOIN runs AS earlier ON earlier.run = figures.earlier_run
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
    row_number() OVER (ORDER BY p, metric, model, build, previous) AS place,
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
ORDER BY q, abs(mean) DESC, metric, model, build, previous
