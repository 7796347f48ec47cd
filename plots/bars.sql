-- figures of each design as bars, with 95% intervals and limits
-- The mean is over runs that differ in seeds alone; a single run has the interval of chance within
-- it. Rows without a series are the limits of the study.
-- series: 40
-- metrics: ttft.p99, tpot.p99, throughput_rps
WITH /* values */
SELECT series, panel,
  iif(count(value) = count(*), avg(value), NULL) AS mean,
  iif(count(DISTINCT outcomes) > 1, half_width(value, outcomes), max(half)) AS half
FROM "values" GROUP BY series, panel
UNION ALL
SELECT NULL, panel, "limit", NULL FROM "values" WHERE "limit" IS NOT NULL GROUP BY panel, "limit"
ORDER BY 1, 2;
