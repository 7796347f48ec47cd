-- single requests of runs with --requests: TTFT over prompt tokens, E2E over the arrival
-- Of many requests each n-th is drawn, at most 3000.
-- series: 4
WITH place AS (
  SELECT json_extract(value, '$[0]') AS run_id, json_extract(value, '$[1]') AS series
  FROM json_each(:places)
), numbered AS (
  SELECT place.series, request.*, row_number() OVER (ORDER BY series, run_id, request) AS nth,
    count(*) OVER () AS n
  FROM place JOIN request USING (run_id)
)
SELECT series, prompt_tokens, arrived_s, first_token_s - arrived_s AS ttft,
  last_token_s - arrived_s AS e2e
FROM numbered WHERE nth % (1 + n / 3000) = 0 ORDER BY series, nth;
