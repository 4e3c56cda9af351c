-- Which model loses most of its launches to its governor?
--
-- A launch's loss is the time that the frequency's ramp cost. A device's loss is that of its mean launch, in percent. Launches
-- whose loss is not known are counted, and left out. Boosted launches are a group of their own.
WITH devices AS (
  SELECT
    model, governor, boosted, device,
    count(*) AS launches,
    count(loss_ms) AS known,
    avg(CASE WHEN loss_ms IS NOT NULL THEN length_ms END) AS length_ms,
    avg(loss_ms) AS loss_ms
  FROM launches
  GROUP BY model, governor, boosted, device
),
figures AS (
  SELECT
    model, governor, boosted,
    count(*) AS devices,
    CAST(sum(launches) AS BIGINT) AS launches,
    CAST(sum(launches) - sum(known) AS BIGINT) AS unknown,
    avg(length_ms) AS length_ms,
    avg(loss_ms) AS loss_ms,
    avg(100e0 * loss_ms / greatest(length_ms, 1e0)) AS loss_percent,
    CASE WHEN count(loss_ms) > 2 THEN stddev_samp(100e0 * loss_ms / greatest(length_ms, 1e0)) / sqrt(count(loss_ms)) END AS error,
    count(loss_ms) AS measured
  FROM devices
  GROUP BY model, governor, boosted
)
SELECT
  model, governor, boosted, devices, launches, unknown, length_ms, loss_ms, loss_percent,
  loss_percent - quantile * error AS low_percent,
  loss_percent + quantile * error AS high_percent
FROM figures
LEFT JOIN student ON student.freedom = least(figures.measured - 1, 10000)
ORDER BY loss_percent DESC NULLS LAST, model, governor, boosted
