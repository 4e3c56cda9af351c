-- Which claims of experiments do proofs show, on which models?
--
-- A device counts once for each claim: by its latest proof of the experiment in this form, quick or full. The mean over devices of what
-- they measured has Student's interval, which needs three devices.
WITH ranked AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY experiment, claim, quick, model, build, device ORDER BY at_s DESC, file) AS place_in_time
  FROM claims
),
figures AS (
  SELECT
    model, build, experiment, claim, quick, unit, required,
    count(*) AS devices,
    CAST(sum(CASE WHEN verdict = 'shown' THEN 1 ELSE 0 END) AS BIGINT) AS shown,
    CAST(sum(CASE WHEN verdict = 'not-shown' THEN 1 ELSE 0 END) AS BIGINT) AS not_shown,
    avg(measured) AS measured,
    CASE WHEN count(measured) > 2 THEN stddev_samp(measured) / sqrt(count(measured)) END AS error,
    count(measured) AS known
  FROM ranked
  WHERE place_in_time = 1
  GROUP BY model, build, experiment, claim, quick, unit, required
)
SELECT
  model, build, experiment, claim, quick, unit, required, devices, shown, not_shown, measured,
  measured - quantile * error AS low,
  measured + quantile * error AS high
FROM figures
LEFT JOIN student ON student.freedom = least(figures.known - 1, 10000)
ORDER BY not_shown DESC, model, build, experiment, claim, quick, unit, required
