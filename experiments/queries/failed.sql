-- runs that failed, with the reason and the sweep and point
SELECT
  run.id AS run, run.name, /* axes of run */
  run.reason,
  is_stale(run.epoch) AS stale
FROM run WHERE status = 'failed' ORDER BY run.id;
