-- share of the requests within all limits, and the goodput, against the rate, of a stored plan
-- Of the newest study that `tandem plan --curve --output` stored. Panel 1 is the share in percent,
-- panel 2 the goodput, each with its range over seeds and with times off by their error. The row
-- without a series is the share that is asked for. A design's name has the highest rate up to which
-- that share keeps the limits in all cases.
WITH newest AS (
  SELECT max(id) AS id FROM study WHERE id IN (SELECT study_id FROM curve)
), point AS (
  SELECT curve.* FROM curve JOIN newest ON study_id = id
), broken AS ( -- the least rate at which it is no longer kept
  SELECT design, min(rate_rps) FILTER (WHERE NOT attained_low >= share) AS rate FROM point
  GROUP BY design
), kept AS (
  SELECT design, max(share) AS share,
    max(rate_rps) FILTER (WHERE rate IS NULL OR rate_rps < rate) AS most
  FROM point JOIN broken USING (design) GROUP BY design
), called AS (
  SELECT design, design || CASE WHEN share IS NULL THEN '' WHEN most IS NULL THEN ', to no rate'
    ELSE printf(iif(most < 100, ', to %.3g/s', ', to %.0f/s'), most) END AS name,
    row_number() OVER (ORDER BY design) AS place
  FROM kept
)
SELECT series, panel, rate, value, low, high FROM (
SELECT place, name AS series, 1 AS panel, rate_rps AS rate, 100 * attained AS value,
  100 * attained_low AS low, 100 * attained_high AS high
FROM point JOIN called USING (design)
UNION ALL
SELECT place, name, 2, rate_rps, goodput_rps, goodput_rps_low, goodput_rps_high
FROM point JOIN called USING (design)
UNION ALL
SELECT 0, NULL, 100 * max(share), NULL, NULL, NULL, NULL FROM point HAVING count(*) > 0
) ORDER BY place, panel, rate;
