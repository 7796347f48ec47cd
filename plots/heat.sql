-- a figure over two keys that vary, as a map
-- A cell is the mean of its runs, and whether all of them met all limits (NULL: they have none).
-- axes: 2
-- words: 1
-- series: 1
-- metrics: ttft.p99
WITH /* values */
SELECT series, panel, x, y,
  iif(count(value) = count(*), avg(value), NULL) AS mean,
  min((SELECT min(met) FROM slo WHERE slo.run_id = "values".run_id)) AS met
FROM "values" GROUP BY series, panel, x, y ORDER BY series, panel, x, y;
