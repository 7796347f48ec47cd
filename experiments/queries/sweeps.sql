-- progress of each sweep
SELECT
  sweep.id AS sweep, sweep.name, sweep.points AS points, count(run.id) AS ended,
  coalesce(sum(run.status = 'failed'), 0) AS failed,
  (SELECT group_concat(shard || '/' || shards, ' ') FROM shard
   WHERE shard.sweep_id = sweep.id) AS shards,
  sweep.created_at,
  is_stale(sweep.epoch) AS stale
FROM sweep LEFT JOIN point ON point.sweep_id = sweep.id LEFT JOIN run ON run.id = point.run_id
GROUP BY sweep.id ORDER BY sweep.id;
