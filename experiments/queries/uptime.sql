-- time with as many instances up as each pool begins with: mean over seeds and closed form
WITH alike AS (
  SELECT id, epoch,
    (SELECT group_concat(key || '=' || value, char(10))
     FROM (SELECT key, value FROM param
           WHERE run_id = run.id AND key NOT IN ('seed', 'tie_seed', 'workload.seed')
           ORDER BY key)) AS config
  FROM run WHERE status IN ('done', 'stalled')
), figure AS (
  SELECT min(alike.id) AS first, alike.config AS text, scope, count(DISTINCT alike.id) AS n,
    avg(value) FILTER (WHERE metric.name = 'up_share') AS up,
    half_width(value, digest) FILTER (WHERE metric.name = 'up_share') AS half_width,
    avg(value) FILTER (WHERE metric.name = 'up_share_expected') AS closed_form
  FROM alike JOIN metric ON run_id = alike.id AND scope LIKE 'pool.%'
    AND metric.name IN ('up_share', 'up_share_expected')
    JOIN run ON run.id = alike.id
  GROUP BY alike.config, alike.epoch, scope HAVING up IS NOT NULL
)
SELECT first AS run, /* axes of run but seeds */ substr(scope, 6) AS pool, n,
  round(up, 4) AS up, round(half_width, 4) AS "+-", round(closed_form, 4) AS closed_form
FROM figure JOIN run ON run.id = first ORDER BY text, scope;
