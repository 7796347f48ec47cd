-- Runs that failed, and why; of a sweep also where.
SELECT
  run.id AS run, run.name,
  (SELECT group_concat(axis.name || '=' || value, ' ')
   FROM point JOIN point_value USING (sweep_id, point) JOIN axis USING (sweep_id, axis)
   WHERE point.run_id = run.id) AS place,
  run.reason,
  is_stale(run.epoch) AS stale
FROM run WHERE status = 'failed' ORDER BY run.id;
