-- Runs that failed, and why; of a sweep also where.
SELECT
  run.id AS run, run.name, /* axes of run */
  run.reason,
  is_stale(run.epoch) AS stale
FROM run WHERE status = 'failed' ORDER BY run.id;
