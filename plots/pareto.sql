-- output speed of a user over the price of a million tokens, of machines with a price
-- The speed is output tokens per second at the median TPOT. Other columns tell whether all limits
-- were met, and whether no other run is both faster and cheaper. Machines must have a price. Rows
-- without a series are the best ones, with their runs, some of which are to be named.
-- series: 7
-- fold: 1
WITH place AS (
  SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS series
  FROM json_each(:places)
), figure AS (
  SELECT run_id, series,
    1 / max(value) FILTER (WHERE name = 'tpot_s' AND statistic = 'p50') AS speed,
    1e6 * max(value) FILTER (WHERE name = 'cost_usd')
      / max(value) FILTER (WHERE name = 'output_tokens') AS cost,
    coalesce((SELECT min(met) FROM slo WHERE slo.run_id = place.run_id), 1) AS met
  FROM place JOIN metric USING (run_id)
  WHERE scope = 'run' AND name IN ('tpot_s', 'cost_usd', 'output_tokens') GROUP BY run_id, series
), placed AS (
  SELECT run_id, series, speed, cost, met,
    met AND NOT EXISTS (SELECT 1 FROM figure AS other
      WHERE other.met AND other.speed >= figure.speed AND other.cost <= figure.cost
        AND (other.speed > figure.speed OR other.cost < figure.cost))
      AS best
  FROM figure WHERE speed > 0 AND cost > 0
), front AS (
  SELECT *, row_number() OVER (ORDER BY speed) AS nth, count(*) OVER () AS n FROM placed WHERE best
)
SELECT series, speed, cost, met, best, NULL AS run_id FROM placed
UNION ALL
SELECT NULL, speed, cost, NULL, nth = 1 OR nth = n OR nth % (1 + n / 6) = 0, run_id FROM front
ORDER BY 1, 2, 3;
