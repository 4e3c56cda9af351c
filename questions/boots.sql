-- How long does each build take to boot?
--
-- The mean over devices of each device's mean, so that a device that boots often counts once. The interval is Student's. It needs
-- three devices.
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
    avg(at_s) AS at_s
  FROM devices
  GROUP BY model, build
)
SELECT
  model, build, devices, boots, length_ms,
  length_ms - quantile * error_ms AS low_ms,
  length_ms + quantile * error_ms AS high_ms,
  kernel_ms, held_percent
FROM figures
LEFT JOIN student ON student.freedom = least(figures.devices - 1, 10000)
ORDER BY model, at_s, build
