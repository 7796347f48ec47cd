-- SLO limits of each run, the tightest first (:run selects one)
SELECT run_id AS run, /* axes of run */ slo.name, round(value, 3) AS value, "limit", unit,
  round(margin, 3) AS margin, met, unmeasured, is_stale(epoch) AS stale
FROM slo JOIN run ON run.id = run_id
WHERE :run IS NULL OR run.id = :run ORDER BY run_id, margin;
