-- points of each sweep: the values on the axes and the results (:sweep selects one)
SELECT
  point.sweep_id AS sweep, point.point, /* axes of point */
  max(value) FILTER (WHERE metric.name = 'instances') AS instances,
  max(value) FILTER (WHERE metric.name = 'gpus') AS gpus,
  max(value) FILTER (WHERE metric.name = 'throughput_rps') AS throughput_rps,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p50') AS ttft_p50_s,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p99') AS ttft_p99_s,
  max(value) FILTER (WHERE metric.name = 'tpot_s' AND statistic = 'p50') AS tpot_p50_s,
  max(value) FILTER (WHERE metric.name = 'tpot_s' AND statistic = 'p99') AS tpot_p99_s,
  max(value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p99') AS tbt_p99_s,
  max(value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p99') AS e2e_p99_s,
  max(value) FILTER (WHERE metric.name = 'cached_share') AS cached_share,
  max(value) FILTER (WHERE metric.name = 'energy_kwh') AS energy_kwh,
  max(value) FILTER (WHERE metric.name = 'cost_usd') AS cost_usd,
  max(value) FILTER (WHERE metric.name = 'time_share') AS extrapolated,
  max(value) FILTER (WHERE metric.name = 'perfmodel_error') AS perfmodel_error,
  max(value) FILTER (WHERE metric.name = 'cost_per_million_output_tokens') AS "$/M",
  (SELECT sum(met) || '/' || count(*) FROM slo WHERE slo.run_id = run.id) AS slo_met,
  run.status, is_stale(run.epoch) AS stale
FROM point JOIN run ON run.id = point.run_id
  LEFT JOIN metric ON metric.run_id = run.id AND metric.scope IN ('run', 'extrapolated')
WHERE :sweep IS NULL OR point.sweep_id = :sweep
GROUP BY point.sweep_id, point.point ORDER BY point.sweep_id, point.point;
