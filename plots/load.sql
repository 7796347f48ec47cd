-- figures over the arrival rate or another number, with a curve for each design
-- The mean is over runs that differ in seeds alone, with its 95% interval; a single run has that of
-- chance within it. Rows without a series are the limits of the study.
-- axes: 1
-- numbers: 1
-- prefer: rate
-- series: 7
-- metrics: limits, ttft.p99, tpot.p99
WITH /* values */
SELECT series, panel, x,
  iif(count(value) = count(*), avg(value), NULL) AS mean,
  iif(count(DISTINCT outcomes) > 1, half_width(value, outcomes), max(half)) AS half
FROM "values" GROUP BY series, panel, x
UNION ALL
SELECT NULL, panel, NULL, "limit", NULL FROM "values" WHERE "limit" IS NOT NULL
GROUP BY panel, "limit"
ORDER BY 1, 2, 3;
