-- SLO limits met over the sizes of the prefill and decode pools, with the cheapest cluster
-- Clusters have one pool of each role. Of several runs (rates, seeds), the one that met fewest
-- limits counts. A run that ended early or failed met none. Of several epochs the newest counts.
SELECT 'clusters' AS series,
  prefill.count AS prefill_machines,
  decode.count AS decode_machines,
  min(CASE run.status WHEN 'done' THEN (SELECT sum(met) FROM slo WHERE slo.run_id = run.id)
    ELSE 0 END) AS slo_met,
  (SELECT count(*) FROM slo WHERE slo.run_id = run.id) AS slos,
  (SELECT value FROM metric WHERE run_id = run.id AND scope = 'run' AND name = 'cost_usd')
    / (SELECT value FROM metric WHERE run_id = run.id AND scope = 'run' AND name = 'duration_s')
    * 3600 AS cost_per_hour,
  count(*) AS runs
FROM run
  JOIN pool AS prefill ON prefill.run_id = run.id AND prefill.role = 'prefill'
  JOIN pool AS decode ON decode.run_id = run.id AND decode.role = 'decode'
WHERE epochs_agree(run.epoch, (SELECT epoch FROM run ORDER BY id DESC LIMIT 1))
GROUP BY prefill_machines, decode_machines
ORDER BY prefill_machines, decode_machines;
