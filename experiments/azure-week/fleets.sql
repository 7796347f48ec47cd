-- The fleets of the last sweep of experiments/azure-week: what they have, take and keep to.
SELECT point_value.value AS fleet,
  max(metric.value) FILTER (WHERE name = 'instances') AS instances,
  max(metric.value) FILTER (WHERE name = 'gpus') AS gpus,
  round(max(metric.value) FILTER (WHERE name = 'cost_usd')) AS usd,
  round(max(metric.value) FILTER (WHERE name = 'energy_kwh')) AS kwh,
  max(metric.value) FILTER (WHERE name = 'ttft_s' AND statistic = 'p99') AS ttft_p99_s,
  max(metric.value) FILTER (WHERE name = 'tpot_s' AND statistic = 'p99') AS tpot_p99_s,
  max(metric.value) FILTER (WHERE name = 'failures') AS failures,
  max(metric.value) FILTER (WHERE name = 'losses') AS lost,
  (SELECT sum(met) || '/' || count(*) FROM slo WHERE slo.run_id = point.run_id) AS slo_met
FROM point JOIN point_value USING (sweep_id, point)
  LEFT JOIN metric ON metric.run_id = point.run_id AND metric.scope = 'run'
WHERE sweep_id = (SELECT max(id) FROM sweep)
GROUP BY point ORDER BY point;
