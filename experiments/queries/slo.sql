-- The objectives of each run, the tightest first.
SELECT run_id AS run, name, round(value, 3) AS value, "limit", unit, round(margin, 3) AS margin, met
FROM slo ORDER BY run_id, margin;
