-- Slowdowns over the arrival rate, by design: the points of sweeps whose axes are named designs and
-- the rate, of the newest run's outcome epoch. NULL: something never finished.
SELECT design.value AS series,
  CAST(rate.value AS REAL) AS rate,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.ttft.p50') AS ttft_p50,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.ttft.p90') AS ttft_p90,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.ttft.p99') AS ttft_p99,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.tbt.p50') AS tbt_p50,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.tbt.p90') AS tbt_p90,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.tbt.p99') AS tbt_p99,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.e2e.p50') AS e2e_p50,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.e2e.p90') AS e2e_p90,
  max(slo.value) FILTER (WHERE slo.name = 'slowdown.e2e.p99') AS e2e_p99
FROM point
  JOIN run ON run.id = point.run_id
    AND run.epoch = (SELECT epoch FROM run ORDER BY id DESC LIMIT 1)
  JOIN axis AS designs ON designs.sweep_id = point.sweep_id AND designs.name = 'design'
  JOIN axis AS rates ON rates.sweep_id = point.sweep_id AND rates.name = 'workload.arrivals.rate'
  JOIN point_value AS design ON design.sweep_id = point.sweep_id AND design.point = point.point
    AND design.axis = designs.axis
  JOIN point_value AS rate ON rate.sweep_id = point.sweep_id AND rate.point = point.point
    AND rate.axis = rates.axis
  JOIN slo ON slo.run_id = point.run_id
GROUP BY series, rate
ORDER BY series, rate;
