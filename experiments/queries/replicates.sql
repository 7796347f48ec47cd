-- mean and 95% interval over seeds of equal runs (:figure selects one, such as ttft_s)
-- Runs with equal outcomes are one observation: `different` counts them.
WITH alike AS (
  SELECT id, seed, tie_seed, epoch, digest,
    (SELECT value FROM param WHERE run_id = run.id AND key = 'workload.seed') AS workload_seed,
    (SELECT group_concat(key || '=' || value, char(10))
     FROM (SELECT key, value FROM param
           WHERE run_id = run.id AND key NOT IN ('seed', 'tie_seed', 'workload.seed')
           ORDER BY key)) AS config
  FROM run WHERE status IN ('done', 'stalled')
), newest AS (
  SELECT max(id) AS id, config, epoch, digest FROM alike
  GROUP BY config, epoch, seed, tie_seed, workload_seed
), figure AS (
  SELECT min(newest.id) AS first, count(value) AS n,
    count(DISTINCT iif(value IS NULL, NULL, digest)) AS different, avg(value) AS mean,
    half_width(value, digest) AS half_width, metric.name, statistic, unit
  FROM newest JOIN metric ON run_id = newest.id AND scope = 'run'
  WHERE iif(:figure IS NULL,
    metric.name IN ('throughput_rps', 'output_tokens_per_s', 'energy_kwh', 'cost_usd')
      OR metric.name IN ('ttft_s', 'tpot_s', 'tbt_s', 'e2e_s') AND statistic IN ('p50', 'p99'),
    metric.name = :figure)
  GROUP BY config, epoch, metric.name, statistic
)
SELECT first AS run, run.name AS config, /* axes of run but seeds */ n, different,
  figure.name AS figure, statistic, mean, half_width AS "+-", unit, is_stale(run.epoch) AS stale
FROM figure JOIN run ON run.id = first ORDER BY first, figure.name, statistic;
