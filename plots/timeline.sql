-- activity and KV memory of a GPU group, of a run with the block 'timeline' (Seesaw, Fig. 6)
-- The rows are of the newest run with a timeline, its first group's first replica. Series 'all':
-- time, shares of the GPUs' KV memory and of the store, prompts, sequences. A series per activity:
-- from, until.
WITH one AS (
  SELECT run_id, "group", replica FROM timeline ORDER BY run_id DESC, "group", replica LIMIT 1
), figure AS (
  SELECT scope, name, value FROM metric JOIN one USING (run_id)
), rows AS (
  SELECT timeline.*,
    lead(at_s, 1, (SELECT value FROM figure WHERE scope = 'run' AND name = 'duration_s'))
      OVER (ORDER BY row) AS until_s,
    activity IS NOT lag(activity) OVER (ORDER BY row) AS changes
  FROM timeline JOIN one USING (run_id, "group", replica)
), spans AS (
  SELECT *, sum(changes) OVER (ORDER BY row) AS span FROM rows
)
SELECT 'all' AS series, at_s,
  1.0 * gpu_blocks / (SELECT value FROM figure
    WHERE scope = 'group.' || "group" AND name = shape || '_gpu_blocks') AS gpu,
  1.0 * store_blocks / (SELECT value FROM figure
    WHERE scope = 'group.' || "group" AND name = 'store_blocks') AS store,
  prompts, decoding
FROM rows
UNION ALL
SELECT activity, min(at_s), max(until_s), NULL, NULL, NULL FROM spans GROUP BY span
ORDER BY series, at_s;
