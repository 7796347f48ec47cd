-- cost of tokens over the speed that users get, by design, of a stored plan
-- Of the newest study that `tandem plan --output` stored: its best designs at several shares of the
-- load. The speed is output tokens per second at the mean TPOT; the cost is dollars per million
-- output tokens, or GPU seconds where a design has no price. Other columns tell whether all limits
-- were met, and whether no other point is both faster and cheaper. Rows without a series are these.
WITH newest AS (
  SELECT max(id) AS id FROM study WHERE id IN (SELECT study_id FROM front)
), placed AS (
  SELECT design, load, speed, met, best, saturated,
    coalesce(cost_per_million_output_tokens, gpu_s_per_million_output_tokens) AS cost,
    cost_per_million_output_tokens IS NULL AS unpriced
  FROM front JOIN newest ON study_id = id
  WHERE speed > 0 AND coalesce(cost_per_million_output_tokens, gpu_s_per_million_output_tokens) > 0
)
SELECT design AS series, speed, cost, met AND NOT saturated AS met, best, unpriced FROM placed
UNION ALL
SELECT NULL, speed, cost, NULL, 0, unpriced FROM placed WHERE best
ORDER BY 1, 2, 3;
