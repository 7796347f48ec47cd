-- figures of each pool of each run (:run selects one)
SELECT
  pool.run_id AS run, /* axes of run */ pool.name, role, pool.machine,
  pool.count AS instances,
  (SELECT value FROM metric WHERE metric.run_id = pool.run_id AND scope = 'pool.' || pool.name
     AND metric.name = 'gpus') AS gpus,
  round(utilization, 4) AS utilization,
  round(energy_kwh, 3) AS energy_kwh,
  sum(prefill_iterations) AS prefill_iterations,
  sum(decode_iterations) AS decode_iterations,
  sum(prefill_tokens) AS prefill_tokens,
  sum(decode_tokens) AS decode_tokens,
  is_stale(epoch) AS stale
FROM pool JOIN machine ON machine.run_id = pool.run_id AND machine.pool = pool.pool
  JOIN run ON run.id = pool.run_id
WHERE :run IS NULL OR run.id = :run
GROUP BY pool.run_id, pool.pool;
