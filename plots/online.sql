-- What users see over the arrival rate, by design: the points of sweeps whose axes are named
-- designs and the rate, of the newest run's outcome epoch. TTFT, E2E and time between tokens, and
-- the share of their time in which groups of GPUs change their shape; NULL: there are none.
SELECT design.value AS series,
  CAST(rate.value AS REAL) AS rate,
  max(metric.value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p50') AS ttft_p50,
  max(metric.value) FILTER (WHERE metric.name = 'ttft_s' AND statistic = 'p99') AS ttft_p99,
  max(metric.value) FILTER (WHERE metric.name = 'e2e_s' AND statistic = 'p50') AS e2e_p50,
  max(metric.value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p50') AS tbt_p50,
  max(metric.value) FILTER (WHERE metric.name = 'tbt_s' AND statistic = 'p99') AS tbt_p99,
  sum(metric.value) FILTER (WHERE scope <> 'run' AND metric.name = 'reshard_s') /
    sum(metric.value) FILTER (WHERE scope <> 'run' AND metric.name IN
      ('prefill_s', 'decode_s', 'reshard_s', 'drain_s', 'stall_s')) AS reshard
FROM point
  JOIN run ON run.id = point.run_id
    AND run.epoch = (SELECT epoch FROM run ORDER BY id DESC LIMIT 1)
  JOIN axis AS designs ON designs.sweep_id = point.sweep_id AND designs.name = 'design'
  JOIN axis AS rates ON rates.sweep_id = point.sweep_id AND rates.name = 'workload.arrivals.rate'
  JOIN point_value AS design ON design.sweep_id = point.sweep_id AND design.point = point.point
    AND design.axis = designs.axis
  JOIN point_value AS rate ON rate.sweep_id = point.sweep_id AND rate.point = point.point
    AND rate.axis = rates.axis
  JOIN metric ON metric.run_id = point.run_id AND (scope = 'run' OR scope LIKE 'group.%')
GROUP BY series, rate
ORDER BY series, rate;
