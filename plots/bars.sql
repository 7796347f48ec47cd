-- A figure of each design, the mean of runs that differ in seeds alone, with its 95% interval, or
-- that of chance within a single run. Rows without a series are the limits that the study has.
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
