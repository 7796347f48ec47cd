-- mean time of a request by what it is spent on, by design, of a stored plan
-- Of the newest study that `tandem plan --output` stored, at the load that was asked. Panel 1 is
-- the time to the first token, panel 2 the time after it. Each row is a part from its beginning to
-- its end, in seconds: 1 waiting, 2 prefill, 3 other requests in the same iterations, 4 KV on its
-- way, dropped or without room, 5 decode, 6 other requests in the same iterations.
WITH newest AS (
  SELECT max(id) AS id FROM study WHERE id IN (SELECT study_id FROM part)
), named AS (
  SELECT design, is_late, seconds, CASE
    WHEN part IN ('prefill', 'prefill_host') THEN 2
    WHEN part IN ('prefill_batch', 'prefill_stall', 'prefill_ranks') THEN 3
    WHEN part IN ('handover', 'kv_load', 'restore', 'prefill_preempted') THEN 4
    WHEN part IN ('decode', 'decode_host') THEN 5
    WHEN part IN ('decode_batch', 'decode_prefill', 'decode_stall', 'decode_ranks') THEN 6
    WHEN is_late THEN 4 ELSE 1 END AS kind
  FROM part JOIN newest ON study_id = id
), summed AS (
  SELECT design, 1 + is_late AS panel, kind, sum(seconds) AS seconds FROM named GROUP BY 1, 2, 3
), stacked AS (
  SELECT design, panel, kind, seconds,
    sum(seconds) OVER (PARTITION BY design, panel ORDER BY kind) AS until,
    sum(seconds) OVER (PARTITION BY design) AS whole
  FROM summed
)
SELECT design AS series, panel, kind, until - seconds AS "from", until
FROM stacked ORDER BY whole, design, panel, kind;
