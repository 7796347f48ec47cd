-- distribution of latencies, with a curve for each run
-- The share is that of requests that took no longer; of tbt it is that of the gaps between tokens.
-- Runs that differ in seeds alone are one. Rows without a series are the limits of the study.
-- series: 7
-- metrics: ttft, tpot, e2e
WITH place AS (
  SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS series
  FROM json_each(:places)
), asked AS (
  SELECT json_extract(value, '$[0]') AS panel, json_extract(value, '$[2]') AS name
  FROM json_each(:metrics)
), counted AS (
  SELECT series, panel, high, sum(count) AS count
  FROM asked CROSS JOIN place JOIN histogram USING (run_id, name) GROUP BY series, panel, high
), summed AS (
  SELECT series, panel, high, sum(count) OVER (PARTITION BY series, panel ORDER BY high) AS up_to,
    sum(count) OVER (PARTITION BY series, panel) AS count
  FROM counted
), drawn AS ( -- a row for each step of a four hundredth, and the last
  SELECT series, panel, high, 1.0 * up_to / count AS share,
    row_number() OVER (PARTITION BY series, panel, 400 * up_to / count ORDER BY high DESC) AS nth
  FROM summed
)
SELECT series, panel, high, share FROM drawn WHERE nth = 1
UNION ALL -- each begins at 0
SELECT series, panel, min(high), 0 FROM drawn GROUP BY series, panel
UNION ALL
SELECT DISTINCT NULL, panel, "limit", substr(slo.name, instr(slo.name, '.p') + 2) / 100.0
FROM asked JOIN slo ON slo.name LIKE replace(asked.name || '.', '_s.', '.p') || '%'
WHERE run_id IN (SELECT run_id FROM place)
ORDER BY 1, 2, 3, 4;
