-- How often are processes killed, by the device's memory?
--
-- A device's kills in the 100 hours that its rows cover. A device without a kill counts as zero. Sizes are rounded up to a power of two,
-- because the kernel and the firmware keep some of the memory for themselves.
WITH uptimes AS (
  SELECT device, max(memory_kib) AS memory_kib, sum(period_s) / 3600e0 AS hours
  FROM hours
  GROUP BY device
  HAVING sum(period_s) > 0
),
killed AS (
  SELECT
    device,
    count(*) AS kills,
    avg(CAST(freed_kib AS DOUBLE)) AS freed_kib,
    avg(CAST(headroom_kib AS DOUBLE)) AS headroom_kib,
    sum(CASE WHEN oom_score_adj <= 0 THEN 1 ELSE 0 END) AS foreground_kills
  FROM kills
  GROUP BY device
),
devices AS (
  SELECT
    CAST(power(2e0, ceil(log2(greatest(uptimes.memory_kib, 1) / 1024e0))) AS BIGINT) AS memory_mib,
    uptimes.hours,
    coalesce(killed.kills, 0) AS kills,
    coalesce(killed.foreground_kills, 0) AS foreground_kills,
    100e0 * coalesce(killed.kills, 0) / uptimes.hours AS rate,
    killed.freed_kib,
    killed.headroom_kib
  FROM uptimes
  LEFT JOIN killed ON killed.device = uptimes.device
),
figures AS (
  SELECT
    memory_mib,
    count(*) AS devices,
    sum(hours) AS hours,
    CAST(sum(kills) AS BIGINT) AS kills,
    CAST(sum(foreground_kills) AS BIGINT) AS foreground_kills,
    avg(rate) AS kills_in_100_hours,
    CASE WHEN count(*) > 2 THEN stddev_samp(rate) / sqrt(count(*)) END AS error,
    avg(freed_kib) AS freed_kib,
    avg(headroom_kib) AS headroom_kib
  FROM devices
  GROUP BY memory_mib
)
SELECT
  memory_mib, devices, hours, kills, foreground_kills, kills_in_100_hours,
  CASE WHEN error IS NOT NULL THEN greatest(kills_in_100_hours - quantile * error, 0e0) END AS low,
  kills_in_100_hours + quantile * error AS high,
  freed_kib, headroom_kib
FROM figures
LEFT JOIN student ON student.freedom = least(figures.devices - 1, 10000)
ORDER BY memory_mib
