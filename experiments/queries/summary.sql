-- one row per run (:run selects one)
SELECT
  run.id AS run,
  run.name AS config,
  /* axes of run */
  (SELECT group_concat(count || ' ' || name || ' ' || machine || ' TP' || tensor_parallel_size,
     ' + ') FROM pool WHERE pool.run_id = run.id) AS pools,
  max(value) FILTER (WHERE metric.name = 'gpus') AS gpus,
  max(value) FILTER (WHERE metric.name = 'requests') AS requests,
  max(value) FILTER (WHERE metric.name = 'completed') AS completed,
  max(value) FILTER (WHERE metric.name = 'throughput_rps') AS throughput_rps,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p50') AS ttft_p50_s,
  max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p99') AS ttft_p99_s,
  max(value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p50') AS tbt_p50_s,
  max(value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p99') AS tbt_p99_s,
  max(value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p50') AS e2e_p50_s,
  max(value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p99') AS e2e_p99_s,
  max(value) FILTER (WHERE metric.name = 'energy_kwh') AS energy_kwh,
  max(value) FILTER (WHERE metric.name = 'cost_usd') AS cost_usd,
  max(value) FILTER (WHERE metric.name = 'cost_per_hour') AS "$/h",
  max(value) FILTER (WHERE metric.name = 'cost_per_million_output_tokens') AS "$/M",
  (SELECT sum(met) || '/' || count(*) FROM slo WHERE slo.run_id = run.id) AS slo_met,
  run.status AS status,
  run.digest AS digest,
  run.epoch AS epoch,
  is_stale(run.epoch) AS stale
FROM run LEFT JOIN metric ON metric.run_id = run.id AND metric.scope = 'run'
WHERE :run IS NULL OR run.id = :run
GROUP BY run.id ORDER BY run.id;
