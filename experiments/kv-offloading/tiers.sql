-- what tiers under the prefix cache found and moved, and what it did to latencies
SELECT
  run.id AS run,
  (SELECT value FROM param WHERE param.run_id = run.id AND key = 'policies.router') AS router,
  (SELECT group_concat(value, ' ') FROM param WHERE param.run_id = run.id
    AND (key GLOB 'policies.batcher.kv_connector.tiers.*.[ns][at]*'
      OR key GLOB 'policies.batcher.kv_connector.*recompute'
      OR key GLOB 'policies.batcher.kv_connector.*read_bandwidth'
      OR key GLOB 'policies.batcher.kv_connector.cpu_bytes_to_use')) AS tiers,
  round(100 * max(value) FILTER (WHERE metric.name = 'cached_share'), 1) AS "found %",
  round(100.0 * max(value) FILTER (WHERE metric.name = 'cpu_hit_tokens')
    / max(value) FILTER (WHERE metric.name = 'queried_tokens'), 1) AS "cpu %",
  round(100.0 * max(value) FILTER (WHERE metric.name = 'ssd_hit_tokens')
    / max(value) FILTER (WHERE metric.name = 'queried_tokens'), 1) AS "ssd %",
  round(100.0 * max(value) FILTER (WHERE metric.name = 'remote_hit_tokens')
    / max(value) FILTER (WHERE metric.name = 'queried_tokens'), 1) AS "remote %",
  round(max(value) FILTER (WHERE metric.name = 'kv_load_s')
    / max(value) FILTER (WHERE metric.name = 'kv_loads'), 3) AS "load s",
  round(max(value) FILTER (WHERE metric.name = 'ssd_written_bytes') / 1e12, 1) AS "ssd TB",
  round(max(value) FILTER (WHERE metric.name = 'remote_written_bytes') / 1e12, 1) AS "remote TB",
  round(max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'mean'), 2) AS ttft_mean,
  round(max(value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p90'), 2) AS ttft_p90,
  round(1000 * max(value) FILTER (WHERE metric.name = 'tpot_s' AND statistic = 'p90'), 0)
    AS tpot_p90_ms
FROM run JOIN metric ON metric.run_id = run.id AND metric.scope = 'run'
GROUP BY run.id ORDER BY run.id;
