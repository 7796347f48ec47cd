-- arrivals, instances and bad requests in each hour of runs with slo.goodput.share
-- The columns are requests that arrived per second, instances that
-- were on and down, and the share of requests that were not good. Rows without a series are the
-- share that is allowed: 1 - slo.goodput.share, if all runs have the same.
-- series: 7
WITH place AS (
  SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS series
  FROM json_each(:places)
)
SELECT NULL AS series, 1 - value AS a, 0 AS b, 0 AS c, 0 AS d, 0 AS e
FROM (SELECT DISTINCT value FROM param JOIN place USING (run_id) WHERE key = 'slo.goodput.share')
WHERE (SELECT count(DISTINCT value) FROM param JOIN place USING (run_id)
  WHERE key = 'slo.goodput.share') = 1
UNION ALL
SELECT * FROM (
  SELECT series, hour, avg(requests) / 3600, avg(instances_on), avg(instances_down),
    1 - 1.0 * sum(good) / sum(requests)
  FROM place JOIN hour USING (run_id) WHERE requests > 0
  GROUP BY series, hour ORDER BY series, hour
);
