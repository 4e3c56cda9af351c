-- Did launches get faster where a mechanism was switched on?
--
-- Devices on which a mechanism was found off, was then switched on once, and stayed on. Launches of the same application under
-- the same build in the 14 days before and the 14 days after are compared, as logarithms. The mean of a device's differences is
-- one observation. Other changes of the same days are in the figure, too: it is a comparison in time, not an experiment.
WITH states AS (
  SELECT
    mechanism, device, at_s, active,
    lag(active) OVER (PARTITION BY mechanism, device ORDER BY number) AS earlier
  FROM switches
),
switched AS (
  SELECT mechanism, device, max(at_s) AS at_s
  FROM states
  WHERE active <> earlier
  GROUP BY mechanism, device
  HAVING count(*) = 1 AND min(CASE WHEN active THEN 1 ELSE 0 END) = 1
),
samples AS (
  SELECT
    switched.mechanism, launches.model, launches.device, launches.application, launches.build,
    sum(CASE WHEN launches.at_s < switched.at_s THEN 1e0 ELSE 0e0 END) AS before,
    sum(CASE WHEN launches.at_s < switched.at_s THEN 0e0 ELSE 1e0 END) AS after,
    sum(CASE WHEN launches.at_s < switched.at_s THEN ln(greatest(launches.length_ms, 1e0)) ELSE 0e0 END) AS before_ln,
    sum(CASE WHEN launches.at_s < switched.at_s THEN 0e0 ELSE ln(greatest(launches.length_ms, 1e0)) END) AS after_ln
  FROM switched
  JOIN launches ON launches.device = switched.device
    AND launches.length_ms IS NOT NULL
    AND launches.at_s >= switched.at_s - 1209600
    AND launches.at_s < switched.at_s + 1209600
  GROUP BY switched.mechanism, launches.model, launches.device, launches.application, launches.build
),
differences AS (
  SELECT
    mechanism, model, device,
    sum(before * after / (before + after) * (after_ln / after - before_ln / before))
      / sum(before * after / (before + after)) AS difference,
    CAST(sum(before + after) AS BIGINT) AS launches
  FROM samples
  WHERE before > 0 AND after > 0
  GROUP BY mechanism, model, device
),
figures AS (
  SELECT
    mechanism, model,
    count(*) AS devices,
    CAST(sum(launches) AS BIGINT) AS launches,
    avg(difference) AS mean,
    CASE WHEN count(*) > 2 THEN stddev_samp(difference) / sqrt(count(*)) END AS error
  FROM differences
  GROUP BY mechanism, model
)
SELECT
  mechanism, model, devices, launches,
  100e0 * (exp(mean) - 1) AS change_percent,
  100e0 * (exp(mean - quantile * error) - 1) AS low_percent,
  100e0 * (exp(mean + quantile * error) - 1) AS high_percent
FROM figures
LEFT JOIN student ON student.freedom = least(figures.devices - 1, 10000)
ORDER BY mechanism, model
