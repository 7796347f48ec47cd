-- Runs that failed, with the reason and, for points of a sweep, the place on its axes.
SELECT
  run.id AS run, run.name, /* axes of run */
  run.reason,
  is_stale(run.epoch) AS stale
FROM run WHERE status = 'failed' ORDER BY run.id;
