-- One row per fleet of the last sweep of experiments/azure-week: its size, cost and latencies.
-- Instances are those that are on or starting: the mean of the week, and the busiest hour.
WITH week AS (
  SELECT run_id, avg(instances_on) AS mean, max(instances_on) AS most
  FROM hour WHERE hour < 168 GROUP BY run_id
)
SELECT point_value.value AS fleet, round(week.mean, 1) AS instances, round(week.most) AS most,
  round(max(metric.value) FILTER (WHERE name = 'cost_usd')) AS usd,
  round(max(metric.value) FILTER (WHERE name = 'energy_kwh')) AS kwh,
  max(metric.value) FILTER (WHERE name = 'ttft_s' AND statistic = 'p99') AS ttft_p99_s,
  max(metric.value) FILTER (WHERE name = 'tpot_s' AND statistic = 'p99') AS tpot_p99_s,
  round(100 * max(metric.value) FILTER (WHERE name = 'good')
    / max(metric.value) FILTER (WHERE name = 'requests'), 2) AS good_percent,
  max(metric.value) FILTER (WHERE name = 'hours_missed') AS hours_missed,
  max(metric.value) FILTER (WHERE name = 'failures') AS failures,
  max(metric.value) FILTER (WHERE name = 'losses') AS lost
FROM point JOIN point_value USING (sweep_id, point)
  LEFT JOIN week USING (run_id)
  LEFT JOIN metric ON metric.run_id = point.run_id AND metric.scope = 'run'
WHERE sweep_id = (SELECT max(id) FROM sweep)
GROUP BY point ORDER BY point;
