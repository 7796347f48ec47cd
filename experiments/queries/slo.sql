-- The objectives of each run, the tightest first.
SELECT run_id AS run, slo.name, round(value, 3) AS value, "limit", unit, round(margin, 3) AS margin,
  met, is_stale(epoch) AS stale
FROM slo JOIN run ON run.id = run_id ORDER BY run_id, margin;
