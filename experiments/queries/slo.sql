-- The objectives of each run, the tightest first.
SELECT run_id AS run, name, round(slowdown, 3) AS slowdown, "limit", met
FROM slo ORDER BY run_id, slowdown / "limit" DESC;
