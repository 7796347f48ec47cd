-- The points of each sweep: where they are on its axes, and what came out.
SELECT
  point.sweep_id AS sweep, point.point,
  (SELECT group_concat(axis.name || '=' || value, ' ')
   FROM point_value JOIN axis USING (sweep_id, axis)
   WHERE point_value.sweep_id = point.sweep_id AND point_value.point = point.point) AS place,
  throughput_rps, ttft_p50_s, ttft_p99_s, tbt_p99_s, e2e_p99_s, energy_kwh, cost_usd, slo_met,
  status, epoch <> outcome_epoch() AS stale
FROM point JOIN summary ON summary.run = point.run_id
ORDER BY point.sweep_id, point.point;
