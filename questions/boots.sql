-- How long does each build take to boot?
--
-- The mean over devices of each device's mean, so that a device that boots often counts once. The interval is Student's, with its
-- quantile by Abramowitz and Stegun, 26.7.5. It needs three devices.
WITH devices AS (
  SELECT
    model, build, device,
    count(*) AS boots,
    avg(length_ms) AS length_ms,
    avg(kernel_ms) AS kernel_ms,
    avg(CASE WHEN performance_held THEN 100e0 WHEN NOT performance_held THEN 0e0 END) AS held_percent,
    avg(CAST(at_s AS DOUBLE)) AS at_s
  FROM boots
  GROUP BY model, build, device
),
figures AS (
  SELECT
    model, build,
    count(*) AS devices,
    CAST(sum(boots) AS BIGINT) AS boots,
    avg(length_ms) AS length_ms,
    CASE WHEN count(*) > 2 THEN stddev_samp(length_ms) / sqrt(count(*)) END AS error_ms,
    avg(kernel_ms) AS kernel_ms,
    avg(held_percent) AS held_percent,
    avg(at_s) AS at_s,
    CAST(count(*) - 1 AS DOUBLE) AS freedom
  FROM devices
  GROUP BY model, build
),
quantiles AS (
  SELECT
    *,
    CASE WHEN freedom > 1 THEN 1.959964e0 + 2.372271e0 / freedom + 2.822496e0 / power(freedom, 2)
      + 2.555852e0 / power(freedom, 3) + 1.589534e0 / power(freedom, 4) END AS quantile
  FROM figures
)
SELECT
  model, build, devices, boots, length_ms,
  length_ms - quantile * error_ms AS low_ms,
  length_ms + quantile * error_ms AS high_ms,
  kernel_ms, held_percent
FROM quantiles
ORDER BY model, at_s, build
